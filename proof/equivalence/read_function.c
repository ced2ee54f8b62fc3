/* read_function.c: an op as a function of its inputs, which is all that is known of one without a rule. Its random
 * numbers and the message that it receives are inputs too. */
#include "ops/collectives.h"
#include "proof/equivalence/read.h"

#include <stdio.h>

/* Random numbers are an input of their own: those of the op's seed, as the executor makes it. */
static weft_status random_input(reader *r, weft_op *op, uint32_t *out) {
    const weft_var *first = random_var(op);
    const char *n = first ? first->name->bytes : "";
    buffer *b = head_begin(r->t, HEAD_RANDOM);
    int64_t count = first ? r->cells[first->id].nrandom : 0;
    head_put_text(b, op->type->bytes, op->type->nbytes);
    head_put_text(b, n, strlen(n));
    head_put_int(b, count);
    uint32_t id;
    TRY(head_finish(r->t, &(head){.kind = HEAD_RANDOM, .label = n, .dtype = WEFT_DTYPE_NONE}, &id));
    return term_make(r->t, id, NULL, 0, WEFT_DTYPE_NONE, 0, NULL, out);
}

/* What is received is an input of its own: that many-th message of the member. */
static weft_status message_input(reader *r, weft_op *op, uint32_t *out) {
    char what[96];
    int64_t number;
    TRY(next_message(r, op, &number));
    snprintf(what, sizeof what, "message %lld of member %lld on ring %lld", (long long)number,
             (long long)op_collective_root(op), (long long)op_ring(op));
    const char *label = arena_string(&r->t->arena, what, strlen(what));
    if (!label) return base_out_of_memory();
    buffer *b = head_begin(r->t, HEAD_RANDOM);
    head_put_text(b, what, strlen(what));
    uint32_t id;
    TRY(head_finish(r->t, &(head){.kind = HEAD_RANDOM, .label = label, .dtype = WEFT_DTYPE_NONE}, &id));
    return term_make(r->t, id, NULL, 0, WEFT_DTYPE_NONE, 0, NULL, out);
}

weft_status function_results(reader *r, weft_op *op, uint32_t *results) {
    size_t nargs = (size_t)op_nargs(op, false) + 1, at = 0;
    value small[32], *args = small;
    if (nargs > sizeof small / sizeof *small && !(args = ARENA_ARRAY(&r->memory, value, nargs)))
        return base_out_of_memory();
    uint32_t head_id, op_id;
    FOR_EACH_ARG(op, false, u) {
        TRY(read_value(r, use_var(op->program, u), &args[at]));
        at++;
    }
    if (op_has_effect(op, OP_RANDOM)) {
        args[at].factor = FACTOR_ONE;
        TRY(random_input(r, op, &args[at++].term));
    }
    if (op_collective_kind(op) == COLLECTIVE_RECV) {
        args[at].factor = FACTOR_ONE;
        TRY(message_input(r, op, &args[at++].term));
    }
    TRY(op_head(r, op, &head_id));
    TRY(term_make(r->t, head_id, args, at, WEFT_DTYPE_NONE, 0, NULL, &op_id));
    at = 0;
    for (size_t i = 0; i < op_nslots(op, true); i++) {
        const slot *s = op_slot(op, true, i);
        bool is_view = s->nargs && view_base(op, s, 0);
        for (size_t k = 0; k < s->nargs; k++, at++) {
            results[at] = TERM_NONE;
            if (!is_view) TRY(out_term(r, op, op_id, s, k, &results[at]));
        }
    }
    return NULL;
}
