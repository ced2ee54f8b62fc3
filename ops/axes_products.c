/* axes_products.c: products whose dimensions meet by place or by letter. */
#include "ops/axes_functions.h"
#include "ops/einsum.h"

/* The extent that two dimensions have together; *out_fits: they agree, or one is stretched. */
static int64_t common(int64_t a, int64_t b, bool *out_fits) {
    *out_fits = *out_fits && (a == b || a == 1 || b == 1 || a < 0 || b < 0);
    return a == 1 ? b : b == 1 || b < 0 ? a : b;
}

/* A dimension of that extent has the factor, if it is not stretched. */
static void give_unless_stretched(axes_build *b, const char *slot_text, const axes_arg *x, int d, int factor) {
    if (d >= 0 && d < x->ndim && (x->extents[d] != 1 || b->rule->factors[factor].size == 1))
        axes_give(b, slot_text, 0, d, factor);
}

/* SLOTS: X, Y, Out. A vector is a row on the left, a column on the right. */
bool axes_matmul(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    const weft_op *op = b->call->op;
    if (nslots != 3 || !x || !y || x->ndim < 1 || y->ndim < 1) return false;
    bool turn_x = attr_bool(op, "trans_x", false) || attr_bool(op, "transpose_X", false);
    bool turn_y = attr_bool(op, "trans_y", false) || attr_bool(op, "transpose_Y", false);
    int nx = x->ndim, ny = y->ndim, most = nx > ny ? nx : ny, batch = most > 2 ? most - 2 : 0, at = batch;
    int mx = nx == 1 ? -1 : turn_x ? nx - 1 : nx - 2, kx = nx == 1 ? 0 : turn_x ? nx - 2 : nx - 1;
    int my = ny == 1 ? -1 : turn_y ? ny - 2 : ny - 1, ky = ny == 1 ? 0 : turn_y ? ny - 1 : ny - 2;
    bool fits = true;
    int64_t inner = common(x->extents[kx], y->extents[ky], &fits);
    int k = axes_fresh(b, inner);
    axes_give(b, slots[0], 0, kx, k);
    axes_give(b, slots[1], 0, ky, k);
    for (int d = 0; d < batch; d++) {
        int dx = d - (most - nx), dy = d - (most - ny);
        int64_t size = common(dx >= 0 && nx > 2 ? x->extents[dx] : 1, dy >= 0 && ny > 2 ? y->extents[dy] : 1, &fits);
        int f = axes_fresh(b, size);
        if (nx > 2) give_unless_stretched(b, slots[0], x, dx, f);
        if (ny > 2) give_unless_stretched(b, slots[1], y, dy, f);
        axes_give(b, slots[2], 0, d, f);
    }
    if (mx >= 0) {
        int m = axes_fresh(b, x->extents[mx]);
        axes_give(b, slots[0], 0, mx, m);
        axes_give(b, slots[2], 0, at++, m);
    }
    if (my >= 0) {
        int n = axes_fresh(b, y->extents[my]);
        axes_give(b, slots[1], 0, my, n);
        axes_give(b, slots[2], 0, at, n);
    }
    return fits;
}

/* SLOTS: X, Y, Out. An index of the result is one of X and one of Y: that of X where Y has one element. */
bool axes_kron(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    if (nslots != 3 || !x || !y || x->ndim < 0 || y->ndim < 0) return false;
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int d = 0; d < ndim; d++) {
        int dx = d - (ndim - x->ndim), dy = d - (ndim - y->ndim);
        int64_t of_x = dx < 0 ? 1 : x->extents[dx], of_y = dy < 0 ? 1 : y->extents[dy];
        if (of_x != 1 && of_y != 1) continue; /* whole */
        int f = axes_fresh(b, of_x == 1 ? of_y : of_x);
        give_unless_stretched(b, slots[0], x, dx, f);
        give_unless_stretched(b, slots[1], y, dy, f);
        axes_give(b, slots[2], 0, d, f);
    }
    return true;
}

/* SLOTS: Operands, Out, and what is like Operands: each letter of the equation is a factor. */
bool axes_einsum(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x[EINSUM_OPERANDS + 1];
    int ndims[EINSUM_OPERANDS], n = 0, factor[EINSUM_LABELS];
    einsum e;
    if (nslots != 3) return false;
    for (; n <= EINSUM_OPERANDS && (x[n] = axes_arg_of(b, slots[2], (size_t)n)); n++)
        if (n < EINSUM_OPERANDS) ndims[n] = x[n]->ndim;
    if (!n)
        for (; n <= EINSUM_OPERANDS && (x[n] = axes_arg_of(b, slots[0], (size_t)n)); n++)
            if (n < EINSUM_OPERANDS) ndims[n] = x[n]->ndim;
    if (n < 1 || n > EINSUM_OPERANDS) return false;
    if (einsum_parse(attr_string(b->call->op, "equation", ""), n, ndims, &e)) return false;
    for (int l = 0; l < e.nlabels; l++) {
        bool fits = true, repeats = false;
        int64_t size = 1;
        for (int k = 0; k < n; k++)
            for (int d = 0, seen = 0; d < e.in[k].ndim; d++)
                if (e.in[k].label[d] == l) {
                    size = common(size, x[k]->extents[d], &fits);
                    repeats = repeats || seen++;
                }
        if (!fits) return false;
        factor[l] = repeats ? axes_fresh_whole(b, size) : axes_fresh(b, size);
    }
    for (int k = 0; k < n; k++)
        for (int d = 0; d < e.in[k].ndim; d++) {
            int f = factor[e.in[k].label[d]];
            if (x[k]->extents[d] == 1 && b->rule->factors[f].size != 1) continue;
            axes_give(b, slots[0], (size_t)k, d, f);
            axes_give(b, slots[2], (size_t)k, d, f);
            axes_give(b, b->is_grad ? "x_shape" : "XShape", (size_t)k, d + 1, f); /* behind an extent of 0 */
        }
    for (int d = 0; d < e.out.ndim; d++) axes_give(b, slots[1], 0, d, factor[e.out.label[d]]);
    if (!b->is_grad) b->same_outputs = ~UINT64_C(1); /* all but Out are of one operand each */
    return true;
}
