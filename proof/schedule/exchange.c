/* exchange.c: how much each member of a ring gives to each in an all-to-all, and gets of it: equal parts of dimension
 * 0, those of in_splits and out_splits, or the tensors of lists. */
#include "proof/schedule/schedule.h"

static const slot *list_of(const weft_op *op, bool gets) {
    const collective_schema *c = op_collective(op);
    return c && c->form == COLLECTIVE_LIST ? op_find_slot(op, gets, gets ? c->out : c->in) : NULL;
}

bool exchange_is(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return c && c->kind == COLLECTIVE_ALL_TO_ALL && c->form != COLLECTIVE_COUNTS;
}

size_t exchange_nparts(const weft_op *op, bool gets) {
    const slot *list = list_of(op, gets);
    size_t n = 0;
    (void)op_collective_splits(op, gets, &n);
    return list ? list->nargs : n;
}

/* The product of extents from dimension `d` on; -1: not known. */
static int64_t numel_from(const weft_var *v, size_t d) {
    int64_t n = 1;
    for (; d < v->ndim; d++)
        if (v->dims[d] < 0 || __builtin_mul_overflow(n, v->dims[d], &n)) return -1;
    return n;
}

int64_t exchange_part(const weft_op *op, bool gets, size_t nranks, size_t k) {
    const slot *list = list_of(op, gets);
    if (list) return list->nargs == nranks ? numel_from(slot_var(op, list, k), 0) : -1;
    const weft_var *v = gets ? op_out(op) : op_x(op);
    size_t n = exchange_nparts(op, gets);
    if (!v || v->ndim == 0 || (n && n != nranks)) return -1;
    if (n) {
        int64_t rows = op_collective_splits(op, gets, &n)[k], row = numel_from(v, 1), part;
        return rows < 0 || row < 0 || __builtin_mul_overflow(rows, row, &part) ? -1 : part;
    }
    int64_t all = numel_from(v, 0);
    return all < 0 || all % (int64_t)nranks ? -1 : all / (int64_t)nranks;
}

bool exchange_is_even(const weft_op *op) {
    size_t given = exchange_nparts(op, false), got = exchange_nparts(op, true), n = given ? given : got;
    if (n == 0) return true;
    int64_t first = exchange_part(op, false, n, 0);
    for (size_t k = 0; k < n; k++)
        if (first < 0 || exchange_part(op, false, n, k) != first || exchange_part(op, true, n, k) != first)
            return false;
    return true;
}
