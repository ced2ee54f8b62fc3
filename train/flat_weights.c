/* flat_weights.c: the one buffer of a recurrent layer's weights. Paddle's startup programs make the weights of an rnn op
 * parts of a buffer with a name of its own ("lstm_0.w_0"), which no op of the training program names. There a weight that
 * is trained changes the buffer too, and whoever loads the buffer sets the weights. Here the two are apart while steps
 * run; what is handed out has the buffer made of the weights.
 *
 * Which buffer belongs to which weights is told by what they hold at the start: a persistable that no instruction touches
 * and that is the weights one after another, bit for bit.
 */
#include "program/grow.h"
#include "train/trainer.h"

/* --- what they are, at the start ---------------------------------------------------------------------------------- */

typedef struct search {
    weft_trainer *t;
    const rank_state *rank;
    const plan_instr *rnn;
    uint32_t first, end; /* of its weights */
    int64_t numel;       /* of them together */
} search;

static bool is_touched(const weft_plan *plan, int32_t value) {
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        for (uint32_t k = 0; k < instr->in_first[instr->schema->ninputs]; k++)
            if (instr->in[k] == value) return true;
        for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++)
            if (instr->out[k] == value) return true;
    }
    return false;
}

static bool has_weights(search *s) {
    const op_schema *schema = s->rnn->schema;
    size_t at = 0;
    while (at < schema->ninputs && strcmp(schema->inputs[at].name, "WeightList") != 0) at++;
    if (at == schema->ninputs) return false;
    s->first = s->rnn->in_first[at];
    s->end = s->rnn->in_first[at + 1];
    s->numel = 0;
    for (uint32_t k = s->first; k < s->end; k++) {
        if (s->rnn->in[k] < 0 || !s->rank->plan->values[s->rnn->in[k]].persistable) return false;
        s->numel += s->rank->values[s->rnn->in[k]].numel;
    }
    return s->first < s->end;
}

static weft_status holds_weights(const search *s, int32_t flat, bool *out) {
    const void *whole, *part;
    TRY(executor_lend(s->t->executor, s->rank->rank, flat, &whole));
    const char *at = whole;
    *out = true;
    for (uint32_t k = s->first; k < s->end && *out; k++) {
        const tensor *weight = &s->rank->values[s->rnn->in[k]];
        size_t nbytes = (size_t)weight->numel * weft_dtype_nbytes(weight->dtype);
        TRY(executor_lend(s->t->executor, s->rank->rank, s->rnn->in[k], &part));
        *out = memcmp(at, part, nbytes) == 0;
        at += nbytes;
    }
    return NULL;
}

static const char *copy_name(weft_trainer *t, const char *n) {
    return arena_copy(&t->arena, n, strlen(n) + 1);
}

static weft_status add(const search *s, int32_t flat) {
    weft_trainer *t = s->t;
    const plan_value *values = s->rank->plan->values;
    flat_weights f = {.name = copy_name(t, values[flat].name), .nparts = s->end - s->first};
    f.parts = ARENA_ARRAY(&t->arena, const char *, f.nparts);
    if (!f.name || !f.parts) return base_out_of_memory();
    for (size_t k = 0; k < f.nparts; k++) {
        f.parts[k] = copy_name(t, values[s->rnn->in[s->first + k]].name);
        if (!f.parts[k]) return base_out_of_memory();
    }
    TRY(grow(&t->arena, &t->flats, &t->flats_capacity, t->nflats + 1, sizeof *t->flats));
    t->flats[t->nflats++] = f;
    return NULL;
}

static weft_status find_of(search *s) {
    const weft_plan *plan = s->rank->plan;
    weft_dtype dtype = s->rank->values[s->rnn->in[s->first]].dtype;
    for (size_t i = 0; i < plan->nvalues; i++) {
        const tensor *x = &s->rank->values[i];
        bool found = plan->values[i].persistable && x->ndim == 1 && x->numel == s->numel && x->dtype == dtype &&
                     !is_touched(plan, (int32_t)i);
        if (found) TRY(holds_weights(s, (int32_t)i, &found));
        if (found) TRY(add(s, (int32_t)i));
    }
    return NULL;
}

weft_status trainer_find_flat_weights(weft_trainer *t) {
    const rank_state *rank = executor_rank(t->executor, t->first_rank);
    t->nflats = 0;
    for (size_t i = 0; i < rank->plan->ninstrs; i++) {
        search s = {.t = t, .rank = rank, .rnn = &rank->plan->instrs[i]};
        if (strcmp(s.rnn->schema->type, "rnn") == 0 && has_weights(&s)) TRY(find_of(&s));
    }
    return NULL;
}

/* --- what is handed out ------------------------------------------------------------------------------------------- */

/* Whether the set has all weights, and room for them. */
static bool fits(const flat_weights *f, const weft_tensors *set, const weft_tensor *flat) {
    size_t nbytes = 0;
    for (size_t k = 0; k < f->nparts; k++) {
        const weft_tensor *part = weft_tensors_find(set, f->parts[k]);
        if (!part) return false;
        nbytes += part->nbytes;
    }
    return flat && flat->nbytes == nbytes;
}

void trainer_put_flat_weights(const weft_trainer *t, weft_tensors *set) {
    for (size_t i = 0; i < t->nflats; i++) {
        const flat_weights *f = &t->flats[i];
        const weft_tensor *flat = weft_tensors_find(set, f->name);
        if (!fits(f, set, flat)) continue;
        char *at = flat->data;
        for (size_t k = 0; k < f->nparts; k++) {
            const weft_tensor *part = weft_tensors_find(set, f->parts[k]);
            memcpy(at, part->data, part->nbytes);
            at += part->nbytes;
        }
    }
}
