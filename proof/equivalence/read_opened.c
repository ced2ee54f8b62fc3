/* read_opened.c: collectives whose outputs are symbols, for who reads the programs of all ranks together
 * (proof/together/). Each is one of its own: equal ones of one rank may be different ones of another. */
#include "ops/collectives.h"
#include "proof/equivalence/read.h"

bool depends_on_ring(const weft_op *op) {
    collective_kind kind = op_collective_kind(op);
    return kind != COLLECTIVE_BARRIER && (op_communicates(op) || kind == COLLECTIVE_SPLIT);
}

static weft_status opened_result(reader *r, const weft_op *op, const weft_var *v, int64_t index, uint32_t *out) {
    int64_t which[2] = {(int64_t)r->out->nopened, index};
    buffer *key = head_begin(r->t, HEAD_OPENED);
    uint32_t id;
    head_put_int(key, (int64_t)r->t->nunknown++);
    head h = {.kind = HEAD_OPENED, .label = op->type->bytes, .dtype = v->dtype, .ints = which, .nints = 2};
    TRY(head_finish(r->t, &h, &id));
    bool known = var_knows_dims(v);
    static const int64_t none[1] = {0}; /* a scalar has no extents, but they are known */
    return term_make(r->t, id, NULL, 0, v->dtype, known ? v->ndim : 0, known ? v->ndim ? v->dims : none : NULL, out);
}

weft_status read_opened(reader *r, weft_op *op) {
    outputs *o = r->out;
    opened x = {.op = op};
    uint32_t *args = ARENA_ARRAY(&r->t->arena, uint32_t, op_nargs(op, false) + 1), result;
    if (!args) return base_out_of_memory();
    FOR_EACH_ARG(op, false, u) TRY(read_var(r, use_var(op->program, u), &args[x.nargs++]));
    x.args = args;
    TRY(op_head(r, op, &x.head));
    int64_t index = 0;
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        TRY(opened_result(r, op, v, index++, &result));
        TRY(write_var(r, v, result));
    }
    TRY(vector_reserve(&r->t->context->allocator, &o->opened, &o->opened_capacity, o->nopened + 1, sizeof x));
    o->opened[o->nopened++] = x;
    return NULL;
}
