/* spmd_conflicts.c: where arguments of an op disagree about what a mesh axis shards, told with the price of each side.
 *
 * The price is that of the cheapest way of the op that takes this side, its other arguments lying as they do: what a
 * rank receives in a step to bring inputs there, and outputs from there to where they are wanted. */
#include "base/json.h"
#include "passes/spmd/spmd_price.h"

#include <stdio.h>

weft_status spmd_conflicts_ask(spmd_plan *plan, const char *cluster) {
    plan->asks_conflicts = true;
    if (!*cluster) return NULL;
    plan->prices = ARENA_NEW(&plan->memory, spmd_prices);
    if (!plan->prices) return base_out_of_memory();
    return spmd_prices_init(plan->prices, plan->pass->context, &plan->mesh, &plan->memory, cluster);
}

/* --- words -------------------------------------------------------------------------------------------------------- */

static void put_side(const spmd_plan *plan, const spmd_op *op, const spmd_side *s, buffer *out) {
    const weft_var *by = (s->is_output ? op->out[s->arg] : op->in[s->arg])->var;
    if (s->item >= 0)
        buffer_format(out, "dimension %d of %s ", s->dim, by->name->bytes);
    else
        buffer_text(out, s->item == SPMD_NOTHING ? "none " : "a sum passed on ");
    if (s->sent < 0)
        buffer_text(out, "cannot be");
    else
        buffer_format(out, "%.0f bytes", s->sent);
    if (s->sent >= 0 && plan->prices) buffer_format(out, " in %.3g us", 1e6 * s->seconds);
    if (s->is_taken) buffer_text(out, " (taken)");
}

/* "mesh axis mp at add #1, a rank receives: dimension 0 of x 96 bytes (taken), dimension 1 of y 128 bytes". */
static void put_conflict(const spmd_plan *plan, const spmd_op *op, const spmd_conflict *c, buffer *out) {
    char axis[40];
    spmd_axis_text(&plan->mesh, c->axis, axis, sizeof axis);
    buffer_format(out, "mesh axis %s at %s #%u, a rank receives: ", axis, op->op->type->bytes, op->op->mark);
    for (int i = 0; i < c->nsides; i++) {
        buffer_text(out, i ? ", " : "");
        put_side(plan, op, &c->sides[i], out);
    }
}

/* --- the report --------------------------------------------------------------------------------------------------- */

static weft_status report_one(const spmd_plan *plan, const spmd_op *op, spmd_conflict *c, buffer *words) {
    words->nbytes = 0;
    put_conflict(plan, op, c, words);
    buffer_append(words, "", 1);
    TRY(buffer_status(words));
    uint32_t others = c->nops - 1;
    c->nops = 0; /* it is told */
    if (!others) return weft_pass_did(plan->pass, "conflict over %s", words->bytes);
    return weft_pass_did(plan->pass, "conflict over %s; and %u ops like it", words->bytes, others);
}

weft_status spmd_conflicts_report(const spmd_plan *plan) {
    buffer words;
    weft_status status = NULL;
    buffer_init(&words, &plan->program->context->allocator);
    for (size_t k = 0; k < plan->nops && !status; k++)
        for (spmd_conflict *c = plan->ops[k].choice->conflicts; c && !status; c = c->next)
            if (c->nops) status = report_one(plan, &plan->ops[k], c, &words);
    buffer_fini(&words);
    return status;
}

/* --- by var ------------------------------------------------------------------------------------------------------- */

struct spmd_told { /* by var id: the ops that disagree about it, last first */
    size_t op;
    struct spmd_told *next;
};

static weft_status tell_var(const spmd_plan *plan, const spmd_var *v, size_t op, spmd_told *by_var) {
    if (!v || spmd_is_single(v)) return NULL; /* a learning rate has no side */
    spmd_told *first = &by_var[v->var->id], *made;
    if (first->next && first->next->op == op) return NULL;
    if (!(made = ARENA_NEW(plan->scratch, spmd_told))) return base_out_of_memory();
    *made = (spmd_told){.op = op, .next = first->next};
    first->next = made;
    return NULL;
}

weft_status spmd_conflicts_by_var(const spmd_plan *plan, spmd_told **out) {
    if (!(*out = ARENA_ARRAY(plan->scratch, spmd_told, plan->nvars + 1))) return base_out_of_memory();
    for (size_t k = plan->nops; k-- > 0;) {
        const spmd_op *op = &plan->ops[k];
        if (!op->choice->conflicts) continue;
        for (size_t i = 0; i < op->kind->rule.nin; i++) TRY(tell_var(plan, op->in[i], k, *out));
        for (size_t o = 0; o < op->kind->rule.nout; o++) TRY(tell_var(plan, op->out[o], k, *out));
    }
    return NULL;
}

void spmd_conflicts_put(const spmd_plan *plan, const spmd_told *told, const spmd_var *v, const char *before,
                        buffer *json) {
    buffer words;
    buffer_init(&words, &plan->program->context->allocator);
    for (const spmd_told *t = told[v->var->id].next; t; t = t->next)
        for (const spmd_conflict *c = plan->ops[t->op].choice->conflicts; c; c = c->next) {
            words.nbytes = 0;
            put_conflict(plan, &plan->ops[t->op], c, &words);
            buffer_text(json, before);
            json_put_string(json, words.bytes, words.nbytes);
            before = ",";
        }
    if (told[v->var->id].next) buffer_text(json, "]");
    json->failed |= words.failed;
    buffer_fini(&words);
}
