/* contracted.c: a product whose contracted dimension falls into parts is the sum of the products of these. That holds
 * over the real numbers: sums are rounded otherwise.
 *
 * Either the left operand is a concatenation along its last dimension; then the right one's rows fall into parts. Or it
 * is a transposed matrix, as in the gradient of a weight (outer.c). */
#include "proof/together/together.h"

enum { MOST_COLUMNS = 4096 };

static weft_status give_sum(terms *t, uint32_t id, const value *parts, size_t count, uint32_t *out) {
    value sum;
    int64_t dims[WEFT_MAX_RANK];
    size_t ndim = 0;
    const int64_t *at = term_dims(t, id, &ndim);
    if (ndim) memcpy(dims, at, ndim * sizeof *dims);
    if (count == 1)
        sum = parts[0];
    else
        TRY(rows_sum(t, parts, count, t->items[id].dtype, true, &sum));
    TRY(term_reshape(t, sum, ndim, dims, &sum));
    *out = sum.term;
    return NULL;
}

/* --- a concatenation on the left ---------------------------------------------------------------------------------- */

/* The concat along the last dimension that makes the left operand; NULL: none does. */
static const head *joined_columns(const terms *t, uint32_t x, int64_t k, uint32_t *out_op) {
    const head *h = op_making(t, x, 0, out_op);
    size_t ndim = 0;
    const int64_t *dims = term_dims(t, x, &ndim);
    if (!h || !dims || !ndim || dims[ndim - 1] != k || t->items[*out_op].nargs > MOST_TOGETHER) return NULL;
    if (strcmp(h->schema->type, "concat") != 0 && strcmp(h->schema->type, "aten_cat") != 0) return NULL;
    int64_t axis = attr_int(h->op, "axis", attr_int(h->op, "dim", 0));
    return axis == (int64_t)ndim - 1 || axis == -1 ? h : NULL;
}

static weft_status sum_of_columns(terms *t, uint32_t id, uint32_t op, uint32_t join, const int64_t extents[3],
                                  uint32_t *out) {
    value parts[MOST_TOGETHER];
    size_t count = t->items[join].nargs;
    bool turns_right = attr_bool(term_head(t, op)->op, "trans_y", false);
    int64_t from = 0;
    for (size_t i = 0; i < count; i++) {
        value x = term_args(t, join)[i], b;
        int64_t numel = term_numel(t, x.term), k = numel / extents[0];
        if (numel <= 0 || numel % extents[0] || from + k > extents[1]) return NULL;
        TRY(tiles_take_rows(t, term_args(t, op)[1], turns_right, extents[1], extents[2], from, k, &b));
        TRY(rows_product(t, t->items[id].dtype, x, b, turns_right, (int64_t[]){extents[0], k, extents[2]}, true,
                         &parts[i]));
        from += k;
    }
    return from == extents[1] ? give_sum(t, id, parts, count, out) : NULL;
}

/* The matrix whose transpose the left operand is, k by m; false: it is none. */
static bool find_turned(const terms *t, uint32_t op, const int64_t extents[3], value *out) {
    size_t ndim = 0;
    value x = term_args(t, op)[0];
    if (!term_dims(t, x.term, &ndim) || ndim != 2) return false;
    if (!attr_bool(term_head(t, op)->op, "trans_x", false))
        return outer_is_turned(t, x.term, extents[0], extents[1], out);
    *out = x;
    return true;
}

/* --- both --------------------------------------------------------------------------------------------------------- */

weft_status contracted_value(terms *t, uint32_t id, uint32_t op, uint32_t *out) {
    const head *h = term_head(t, op);
    size_t nb = 0, n = 0;
    *out = TERM_NONE;
    if (h->kind != HEAD_OP || !h->op || !h->schema || strcmp(h->schema->type, "matmul_v2") != 0) return NULL;
    if (t->items[op].nargs != 2 || strcmp(term_head(t, id)->label, "Out") != 0) return NULL;
    value x = term_args(t, op)[0], b = term_args(t, op)[1], left, sum;
    const int64_t *db = term_dims(t, b.term, &nb), *d = term_dims(t, id, &n);
    if (!db || nb != 2 || !d || n < 2 || term_numel(t, x.term) <= 0) return NULL;
    bool turns_right = attr_bool(h->op, "trans_y", false), turns_left = attr_bool(h->op, "trans_x", false);
    int64_t extents[3] = {term_numel(t, id) / d[n - 1], db[turns_right], d[n - 1]};
    if (extents[0] <= 0 || extents[1] <= 0 || extents[2] <= 0 || extents[2] > MOST_COLUMNS) return NULL;
    if (term_numel(t, x.term) != extents[0] * extents[1]) return NULL;
    uint32_t join;
    if (!turns_left && joined_columns(t, term_without_shape(t, x.term), extents[1], &join))
        return sum_of_columns(t, id, op, join, extents, out);
    if (turns_right || !find_turned(t, op, extents, &left)) return NULL;
    TRY(outer_rows(t, t->items[id].dtype, left, b, extents, &sum));
    return sum.term != TERM_NONE ? rows_shaped_like(t, id, sum, out) : NULL;
}
