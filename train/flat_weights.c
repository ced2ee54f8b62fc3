/* flat_weights.c: the one buffer of a recurrent layer's weights. Paddle's startup programs make the weights of an rnn
 * op parts of a buffer with a name of its own ("lstm_0.w_0"), which no op of the training program names. There a weight
 * that is trained changes the buffer too, and whoever loads the buffer sets the weights. Here the two are apart while
 * steps run; what is handed out has the buffer made of the weights.
 *
 * Which buffer belongs to which weights is told by what they hold at the start: a persistable that no instruction
 * touches and that is the weights one after another, bit for bit. A rank that has parts of the weights puts them
 * together for the op; they are then those that the parts are of, as a whole.
 */
#include "program/grow.h"
#include "train/trainer.h"

/* --- what they are, at the start ---------------------------------------------------------------------------------- */

/* A persistable as a whole. */
typedef struct held {
    const char *name;
    const char *data;
    size_t nbytes;
    weft_dtype dtype;
} held;

typedef struct search {
    weft_trainer *t;
    const rank_state *rank;
    held *weights;
    size_t nweights, nbytes; /* of them together */
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

static bool writes(const plan_instr *instr, int32_t value) {
    for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++)
        if (instr->out[k] == value) return true;
    return false;
}

/* The persistable of which the value that `reader` reads was put together; -1: it was not. What gathers, splits and
 * joins reads that first. */
static int32_t origin_of(const weft_plan *plan, const plan_instr *reader, int32_t value) {
    for (const plan_instr *at = reader; value >= 0 && !plan->values[value].persistable;) {
        do
            if (at-- == plan->instrs) return -1;
        while (!writes(at, value));
        value = at->in_first[at->schema->ninputs] ? at->in[0] : -1;
    }
    return value;
}

static weft_status hold(const search *s, int32_t value, held *out) {
    const plan_value *v = &s->rank->plan->values[value];
    const tensor *own = &s->rank->values[value];
    weft_tensor given;
    const void *data;
    if (trainer_find_whole(s->t, s->rank->rank, v->name, &given)) {
        *out = (held){v->name, given.data, given.nbytes, given.dtype};
        return NULL;
    }
    TRY(executor_lend(s->t->executor, s->rank->rank, value, &data));
    *out = (held){v->name, data, (size_t)own->numel * weft_dtype_nbytes(own->dtype), own->dtype};
    return NULL;
}

static weft_status hold_weights(search *s, const plan_instr *rnn) {
    const op_schema *schema = rnn->schema;
    size_t at = 0;
    while (at < schema->ninputs && strcmp(schema->inputs[at].name, "WeightList") != 0) at++;
    if (at == schema->ninputs) return NULL;
    s->weights = ARENA_ARRAY(&s->t->arena, held, rnn->in_first[at + 1] - rnn->in_first[at] + 1);
    if (!s->weights) return base_out_of_memory();
    for (uint32_t k = rnn->in_first[at]; k < rnn->in_first[at + 1]; k++) {
        int32_t value = origin_of(s->rank->plan, rnn, rnn->in[k]);
        if (value < 0) return s->nweights = 0, NULL;
        TRY(hold(s, value, &s->weights[s->nweights]));
        s->nbytes += s->weights[s->nweights++].nbytes;
    }
    return NULL;
}

static bool holds_weights(const search *s, const held *flat) {
    const char *at = flat->data;
    if (flat->nbytes != s->nbytes || flat->dtype != s->weights[0].dtype) return false;
    for (size_t k = 0; k < s->nweights; at += s->weights[k++].nbytes)
        if (memcmp(at, s->weights[k].data, s->weights[k].nbytes) != 0) return false;
    return true;
}

static const char *copy_name(weft_trainer *t, const char *n) {
    return arena_copy(&t->arena, n, strlen(n) + 1);
}

static weft_status add(const search *s, const held *flat) {
    weft_trainer *t = s->t;
    flat_weights f = {.name = copy_name(t, flat->name), .nparts = s->nweights};
    f.parts = ARENA_ARRAY(&t->arena, const char *, f.nparts);
    if (!f.name || !f.parts) return base_out_of_memory();
    for (size_t k = 0; k < f.nparts; k++) {
        f.parts[k] = copy_name(t, s->weights[k].name);
        if (!f.parts[k]) return base_out_of_memory();
    }
    TRY(grow(&t->arena, &t->flats, &t->flats_capacity, t->nflats + 1, sizeof *t->flats));
    t->flats[t->nflats++] = f;
    return NULL;
}

/* Of a persistable as a whole, where the whole was given; else of what the rank has. */
static size_t nbytes_held(const search *s, int32_t value) {
    const tensor *own = &s->rank->values[value];
    weft_tensor given;
    if (trainer_find_whole(s->t, s->rank->rank, s->rank->plan->values[value].name, &given)) return given.nbytes;
    return (size_t)own->numel * weft_dtype_nbytes(own->dtype);
}

static weft_status find_of(search *s) {
    const weft_plan *plan = s->rank->plan;
    for (size_t i = 0; i < plan->nvalues; i++) {
        const tensor *x = &s->rank->values[i];
        held flat;
        bool is_like = plan->values[i].persistable && x->ndim == 1 && x->dtype == s->weights[0].dtype &&
                       nbytes_held(s, (int32_t)i) == s->nbytes;
        if (!is_like || is_touched(plan, (int32_t)i)) continue;
        TRY(hold(s, (int32_t)i, &flat));
        if (holds_weights(s, &flat)) TRY(add(s, &flat));
    }
    return NULL;
}

weft_status trainer_find_flat_weights(weft_trainer *t) {
    const rank_state *rank = executor_rank(t->executor, t->first_rank);
    t->nflats = 0;
    for (size_t i = 0; i < rank->plan->ninstrs; i++) {
        search s = {.t = t, .rank = rank};
        if (strcmp(rank->plan->instrs[i].schema->type, "rnn") != 0) continue;
        TRY(hold_weights(&s, &rank->plan->instrs[i]));
        if (s.nweights) TRY(find_of(&s));
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
