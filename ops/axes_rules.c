/* axes_rules.c: rules of axes.def that attrs say in a way of their own: the functions behind "@name SLOTS". Each gives
 * dimensions of the slots their factors; clauses of the row come after it. */
#include "ops/axes_text.h"
#include "ops/einsum.h"
#include "ops/infer.h"

static int fresh(axes_build *b, int64_t size) {
    return axes_add_factor(b, size, NULL);
}

static int fresh_whole(axes_build *b, int64_t size) {
    return axes_add_factor(b, size, axes_why_whole);
}

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

/* --- products ----------------------------------------------------------------------------------------------------- */

/* SLOTS: X, Y, Out. A vector is a row on the left, a column on the right. */
static bool matmul(axes_build *b, const char *const *slots, int nslots) {
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
    int k = fresh(b, inner);
    axes_give(b, slots[0], 0, kx, k);
    axes_give(b, slots[1], 0, ky, k);
    for (int d = 0; d < batch; d++) {
        int dx = d - (most - nx), dy = d - (most - ny);
        int64_t size = common(dx >= 0 && nx > 2 ? x->extents[dx] : 1, dy >= 0 && ny > 2 ? y->extents[dy] : 1, &fits);
        int f = fresh(b, size);
        if (nx > 2) give_unless_stretched(b, slots[0], x, dx, f);
        if (ny > 2) give_unless_stretched(b, slots[1], y, dy, f);
        axes_give(b, slots[2], 0, d, f);
    }
    if (mx >= 0) {
        int m = fresh(b, x->extents[mx]);
        axes_give(b, slots[0], 0, mx, m);
        axes_give(b, slots[2], 0, at++, m);
    }
    if (my >= 0) {
        int n = fresh(b, y->extents[my]);
        axes_give(b, slots[1], 0, my, n);
        axes_give(b, slots[2], 0, at, n);
    }
    return fits;
}

/* SLOTS: X, Y, Out. An index of the result is one of X and one of Y: where the other has one element, it is that of X.
 */
static bool kron(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    if (nslots != 3 || !x || !y || x->ndim < 0 || y->ndim < 0) return false;
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int d = 0; d < ndim; d++) {
        int dx = d - (ndim - x->ndim), dy = d - (ndim - y->ndim);
        int64_t of_x = dx < 0 ? 1 : x->extents[dx], of_y = dy < 0 ? 1 : y->extents[dy];
        if (of_x != 1 && of_y != 1) continue; /* whole */
        int f = fresh(b, of_x == 1 ? of_y : of_x);
        give_unless_stretched(b, slots[0], x, dx, f);
        give_unless_stretched(b, slots[1], y, dy, f);
        axes_give(b, slots[2], 0, d, f);
    }
    return true;
}

/* SLOTS: Operands, Out, and what is like Operands: each letter of the equation is a factor. */
static bool einsum_rule(axes_build *b, const char *const *slots, int nslots) {
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
        factor[l] = repeats ? fresh_whole(b, size) : fresh(b, size);
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

/* --- the same elements under other extents ------------------------------------------------------------------------ */

/* Dimensions of one side, with what is left of their extents once factors are taken. */
typedef struct side {
    const char *slot;
    int begin, end, d;
    const int64_t *extents;
    int64_t left;
} side;

static bool next_dim(side *s) {
    while (s->left == 1 && s->d + 1 < s->end) s->left = s->extents[++s->d];
    return s->left != 1;
}

/* Elements of the dimensions behind; -1: not known. */
static int64_t count_behind(const side *s) {
    int64_t n = 1;
    for (int d = s->d + 1; d < s->end; d++) n = extent_mul(n, s->extents[d]);
    return n;
}

/* Two extents that are not known have a factor in common if what is behind one divides what is behind the other; the
 * dimension that is longer has the quotient as well. */
static bool take_unknown(axes_build *b, side *x, side *y) {
    int64_t behind_x = count_behind(x), behind_y = count_behind(y);
    if (behind_x <= 0 || behind_y <= 0 || (behind_x % behind_y && behind_y % behind_x)) return false;
    int f = fresh(b, -1);
    axes_give(b, x->slot, 0, x->d, f);
    axes_give(b, y->slot, 0, y->d, f);
    x->left = behind_y > behind_x ? behind_y / behind_x : 1;
    y->left = behind_x > behind_y ? behind_x / behind_y : 1;
    return true;
}

/* Factors that both lists of dimensions have, major first: where one's extent divides the other's. What does not divide
 * is whole. */
static void factor_sides(axes_build *b, side *x, side *y) {
    x->d = x->begin - 1, y->d = y->begin - 1;
    x->left = y->left = 1;
    while (next_dim(x) && next_dim(y)) {
        if (x->left < 0 && y->left < 0) {
            if (!take_unknown(b, x, y)) break;
            continue;
        }
        if (x->left < 1 || y->left < 1) break;
        int64_t size = x->left % y->left == 0 ? y->left : y->left % x->left == 0 ? x->left : 0;
        if (!size) break;
        int f = fresh(b, size);
        axes_give(b, x->slot, 0, x->d, f);
        axes_give(b, y->slot, 0, y->d, f);
        x->left /= size;
        y->left /= size;
    }
    for (int i = 0; i < 2; i++) /* the rest of both */
        for (side *s = i ? y : x; next_dim(s); s->left = 1) axes_give(b, s->slot, 0, s->d, fresh_whole(b, s->left));
}

/* XShape: an extent of 0, and those of X. */
static void give_like_x(axes_build *b, const char *x_slot) {
    const axes_arg *x = axes_arg_of(b, x_slot, 0), *like = axes_arg_of(b, "XShape", 0);
    for (int d = 0; x && like && d < x->ndim && like->ndim == x->ndim + 1; d++)
        for (int i = 0; i < x->dims[d].nfactors; i++) axes_give(b, "XShape", 0, d + 1, x->dims[d].factors[i]);
}

/* Extents of the result of which only the number is known: 0 in the attr keeps that of X, -1 is open. */
static void read_extents(const axes_build *b, const axes_arg *x, const axes_arg *y, int64_t *out) {
    size_t n;
    const int64_t *list = attr_ints(b->call->op, "shape", &n);
    memcpy(out, y->extents, sizeof y->extents);
    for (int d = 0; n == (size_t)y->ndim && d < y->ndim; d++)
        if (out[d] < 0) out[d] = list[d] == 0 && d < x->ndim ? x->extents[d] : list[d];
}

/* SLOTS: X, Out, and an attr that lists dimensions, which go away where they have extent 1: all such, if it lists none.
 * One that is longer stays, but would go where a rank has one element of it. */
static bool squeeze(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    const int64_t *list = nslots == 3 ? attr_ints(b->call->op, slots[2], &n) : NULL;
    if (nslots != 3 || !x) return false;
    int to = 0;
    for (int d = 0; d < x->ndim; d++) {
        bool listed = n == 0;
        for (size_t i = 0; i < n; i++) listed |= list[i] == d || list[i] == d - x->ndim;
        if (listed && x->extents[d] == 1) continue;
        int f = axes_add_factor(b, x->extents[d], listed ? "a rank with one element of it would not have it" : NULL);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, to++, f);
    }
    give_like_x(b, slots[0]);
    return true;
}

/* SLOTS: X, Out, and an attr that lists where dimensions are put in, one after the other. */
static bool unsqueeze(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    const int64_t *list = nslots == 3 ? attr_ints(b->call->op, slots[2], &n) : NULL;
    if (nslots != 3 || !x || (size_t)x->ndim + n > WEFT_MAX_RANK) return false;
    int from[WEFT_MAX_RANK], ndim = x->ndim;
    for (int d = 0; d < ndim; d++) from[d] = d;
    for (size_t i = 0; i < n; i++, ndim++) {
        int64_t at = list[i] < 0 ? list[i] + ndim + 1 : list[i];
        if (at < 0 || at > ndim) return false;
        memmove(&from[at + 1], &from[at], (size_t)(ndim - at) * sizeof *from);
        from[at] = -1;
    }
    for (int d = 0; d < ndim; d++) {
        if (from[d] < 0) continue;
        int f = fresh(b, x->extents[from[d]]);
        axes_give(b, slots[0], 0, from[d], f);
        axes_give(b, slots[1], 0, d, f);
    }
    give_like_x(b, slots[0]);
    return true;
}

/* How many dimensions in front the attr keeps as they are: of several that are open nothing else tells. */
static int count_kept(const axes_build *b, const axes_arg *x, const axes_arg *y) {
    const slot *by_tensor = op_find_slot(b->call->op, false, "Shape");
    size_t n;
    const int64_t *list = attr_ints(b->call->op, "shape", &n);
    int d = 0;
    if (n != (size_t)y->ndim || (by_tensor && by_tensor->nargs)) return 0;
    while (d < x->ndim && d < y->ndim && list[d] == 0) d++;
    return d;
}

/* SLOTS: X, Out. */
static bool reshape(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    int64_t extents[WEFT_MAX_RANK];
    if (nslots != 2 || !x || !y) return false;
    for (int d = 0; d < x->ndim; d++)
        if (x->extents[d] == 0) return false; /* no elements: nothing to split */
    read_extents(b, x, y, extents);
    int nkept = count_kept(b, x, y);
    for (int d = 0; d < nkept; d++) {
        int f = fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, d, f);
    }
    side from = {.slot = slots[0], .begin = nkept, .end = x->ndim, .extents = x->extents};
    side to = {.slot = slots[1], .begin = nkept, .end = y->ndim, .extents = extents};
    factor_sides(b, &from, &to);
    give_like_x(b, slots[0]);
    return true;
}

/* SLOTS: X, Y, Out. X's dimensions from x_num_col_dims on, and as many elements of Y's first, are summed over. */
static bool mul(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    int nx = (int)attr_int(b->call->op, "x_num_col_dims", 1), ny = (int)attr_int(b->call->op, "y_num_col_dims", 1);
    if (nslots != 3 || !x || !y || nx < 1 || nx >= x->ndim || ny < 1 || ny >= y->ndim) return false;
    for (int d = 0; d < nx; d++) {
        int m = fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, m);
        axes_give(b, slots[2], 0, d, m);
    }
    side from = {.slot = slots[0], .begin = nx, .end = x->ndim, .extents = x->extents};
    side to = {.slot = slots[1], .end = ny, .extents = y->extents};
    if (x->ndim == nx + 1 && ny == 1) { /* one each: extents that are not known are equal all the same */
        int k = fresh(b, x->extents[nx] < 0 ? y->extents[0] : x->extents[nx]);
        axes_give(b, slots[0], 0, nx, k);
        axes_give(b, slots[1], 0, 0, k);
    } else {
        factor_sides(b, &from, &to);
    }
    for (int d = ny; d < y->ndim; d++) {
        int n = fresh(b, y->extents[d]);
        axes_give(b, slots[1], 0, d, n);
        axes_give(b, slots[2], 0, nx + d - ny, n);
    }
    return true;
}

/* SLOTS: self, out. Attrs dim0 and dim1 are exchanged. */
static bool transpose(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    if (nslots != 2 || !x) return false;
    int64_t d0 = attr_int(b->call->op, "dim0", 0), d1 = attr_int(b->call->op, "dim1", 0);
    if (d0 < 0) d0 += x->ndim;
    if (d1 < 0) d1 += x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        int f = fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, d == d0 ? (int)d1 : d == d1 ? (int)d0 : d, f);
    }
    return true;
}

/* --- repeated, and bordered --------------------------------------------------------------------------------------- */

/* How often, as element `at` of the attr says: so often on a rank. */
static int repeated(axes_build *b, size_t at, int64_t times) {
    const op_schema *s = b->call->schema;
    const char *attr = NULL;
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, "repeat_times") == 0) attr = s->attrs[i].name;
    if (!attr || b->rule->nchanges == AXES_CHANGES) return fresh_whole(b, times);
    int factor = fresh(b, times);
    b->rule->changes[b->rule->nchanges++] =
        (axes_change){.kind = AXES_ELEMENT, .attr = attr, .arg = at, .factor = (size_t)factor};
    return factor;
}

/* SLOTS: X, Out. A dimension of Out is how often, and X's. */
static bool tile(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    const int64_t *times = attr_ints(b->call->op, "repeat_times", &n);
    if (nslots != 2 || !x || n > WEFT_MAX_RANK) return false;
    int most = x->ndim > (int)n ? x->ndim : (int)n;
    for (int d = 0; d < most; d++) {
        int from = d - (most - x->ndim), at = d - (most - (int)n);
        if (at >= 0) axes_give(b, slots[1], 0, d, repeated(b, (size_t)at, times[at]));
        if (from < 0) continue;
        int f = fresh(b, x->extents[from]);
        axes_give(b, slots[0], 0, from, f);
        axes_give(b, slots[1], 0, d, f);
    }
    return true;
}

/* SLOTS: X, and results: lists. Vector k lies along dimension k of each result. */
static bool meshgrid(axes_build *b, const char *const *slots, int nslots) {
    for (size_t k = 0; k < WEFT_MAX_RANK; k++) {
        const axes_arg *x = axes_arg_of(b, slots[0], k);
        if (!x) return k > 0;
        if (x->ndim > 1) return false;
        int f = fresh(b, x->ndim ? x->extents[0] : 1);
        axes_give(b, slots[0], k, 0, f);
        for (int i = 1; i < nslots; i++)
            for (size_t out = 0; out < WEFT_MAX_RANK; out++) axes_give(b, slots[i], out, (int)k, f);
    }
    return false;
}

/* SLOTS: X, Out. Dimensions without a border. */
static bool pad(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    const int64_t *borders = attr_ints(b->call->op, "paddings", &n);
    if (nslots != 2 || !x || n != 2 * (size_t)x->ndim) return false;
    for (int d = 0; d < x->ndim; d++) {
        bool none = borders[2 * d] == 0 && borders[2 * d + 1] == 0;
        int f = none ? fresh(b, x->extents[d]) : fresh_whole(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, d, f);
    }
    return true;
}

/* SLOTS: X, Out. Dimensions of which all is taken, however long they are. */
static bool crop(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t nshape, noffsets;
    const int64_t *extents = attr_ints(b->call->op, "shape", &nshape),
                  *offsets = attr_ints(b->call->op, "offsets", &noffsets);
    if (nslots != 2 || !x || x->ndim < 0 || nshape != (size_t)x->ndim || noffsets != nshape) return false;
    for (int d = 0; d < x->ndim; d++) {
        if (extents[d] != -1 || offsets[d] != 0) continue; /* whole */
        int f = fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, d, f);
    }
    return true;
}

/* SLOTS: tensors of as many dimensions, and the attr that has borders of the last ones, the last one first. */
static bool pad_last(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    const int64_t *borders = attr_ints(b->call->op, slots[nslots - 1], &n);
    if (nslots < 3 || !x || n > 2 * (size_t)x->ndim) return false;
    for (int d = 0; d < x->ndim; d++) {
        size_t at = 2 * (size_t)(x->ndim - 1 - d);
        bool none = at + 1 >= n || (borders[at] == 0 && borders[at + 1] == 0);
        int f = none ? fresh(b, x->extents[d]) : fresh_whole(b, x->extents[d]);
        for (int i = 0; i < nslots - 1; i++) axes_give(b, slots[i], 0, d, f);
    }
    return true;
}

/* --- by index ----------------------------------------------------------------------------------------------------- */

/* SLOTS: X, Index, Out, and the attr that says along which dimension of X. Indices of [n, 1] count as [n]. */
static bool gather(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *index = axes_arg_of(b, slots[1], 0),
                   *out = axes_arg_of(b, slots[2], 0);
    if (nslots != 4 || !x || !index || !out) return false;
    int64_t axis = attr_int(b->call->op, slots[3], 0);
    int nindex = out->ndim - x->ndim + 1;
    if (axis < 0) axis += x->ndim;
    if (axis < 0 || axis >= x->ndim || nindex < 0 || nindex > index->ndim || index->ndim - nindex > 1) return false;
    for (int d = 0; d < x->ndim; d++) {
        bool is_axis = d == axis;
        int f = is_axis ? fresh_whole(b, x->extents[d]) : fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        if (!is_axis) axes_give(b, slots[2], 0, d < axis ? d : d + nindex - 1, f);
    }
    for (int d = 0; d < nindex; d++) {
        int f = fresh(b, index->extents[d]);
        axes_give(b, slots[1], 0, d, f);
        axes_give(b, slots[2], 0, (int)axis + d, f);
    }
    return true;
}

/* SLOTS: X, Index, Out, and the attr that says along which dimension. Each index takes from its own place along others;
 * where there are fewer of them than X has, parts would not meet. */
static bool gather_along(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *index = axes_arg_of(b, slots[1], 0);
    if (nslots != 4 || !x || !index || x->ndim != index->ndim) return false;
    int64_t axis = attr_int(b->call->op, slots[3], 0);
    if (axis < 0) axis += x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        bool meets = d != axis && x->extents[d] == index->extents[d];
        int f = d == axis || meets ? fresh(b, index->extents[d]) : fresh_whole(b, index->extents[d]);
        axes_give(b, slots[0], 0, d, meets ? f : fresh_whole(b, x->extents[d]));
        axes_give(b, slots[1], 0, d, f);
        axes_give(b, slots[2], 0, d, f);
    }
    return true;
}

/* SLOTS: X, Index, Out. The last dimension of Index is a tuple that counts X's first ones. */
static bool gather_nd(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *index = axes_arg_of(b, slots[1], 0);
    if (nslots != 3 || !x || !index || index->ndim < 1) return false;
    int last = index->ndim - 1;
    int64_t tuple = index->extents[last];
    if (tuple < 0 || tuple > x->ndim) return false;
    for (int d = 0; d < last; d++) {
        int f = fresh(b, index->extents[d]);
        axes_give(b, slots[1], 0, d, f);
        axes_give(b, slots[2], 0, d, f);
    }
    axes_give(b, slots[1], 0, last, fresh_whole(b, tuple));
    for (int d = 0; d < x->ndim; d++) {
        int f = d < tuple ? fresh_whole(b, x->extents[d]) : fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        if (d >= tuple) axes_give(b, slots[2], 0, last + d - (int)tuple, f);
    }
    return true;
}

/* Whether the attr lists the dimension of a tensor of so many. */
static bool lists(const weft_op *op, const char *attr, int d, int ndim) {
    size_t n;
    const int64_t *dims = attr_ints(op, attr, &n);
    for (size_t i = 0; i < n; i++)
        if (dims[i] == d || dims[i] == d - ndim) return true;
    return false;
}

/* SLOTS: Input, ValueTensor, Out. Whole along axes. The value, a tensor or the attr `shape`, is broadcast to what is
 * left of Input without decrease_axes: along a dimension that it fills, parts of it go to parts of Input. */
static bool set_value(axes_build *b, const char *const *slots, int nslots) {
    const weft_op *op = b->call->op;
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *value = axes_arg_of(b, slots[1], 0);
    size_t nadded, nshape;
    (void)attr_ints(op, "none_axes", &nadded);
    const int64_t *extents = value ? value->extents : attr_ints(op, "shape", &nshape);
    if (nslots != 3 || !x || x->ndim < 0 || (value && value->ndim < 0) || nadded) return false;
    int at = value ? value->ndim : (int)nshape;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t extent = lists(op, "decrease_axes", d, x->ndim) || --at < 0 ? 1 : extents[at];
        bool parts = !lists(op, "axes", d, x->ndim) && (extent == 1 || (value && extent == x->extents[d]));
        int f = parts ? fresh(b, x->extents[d]) : fresh_whole(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[2], 0, d, f);
        if (value && parts && extent != 1) axes_give(b, slots[1], 0, at, f);
    }
    return true;
}

/* --- normalisation ------------------------------------------------------------------------------------------------ */

/* SLOTS: X, Scale, Bias, then outputs and others. Whole from a dimension on that an attr says: begin_norm_axis, or as
 * many as normalized_shape lists. What has X's dimensions is as X; statistics have its first ones, or all of them as
 * one, or those of X with extents of 1. */
static bool layer_norm(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    size_t n;
    (void)attr_ints(b->call->op, "normalized_shape", &n);
    if (!x || nslots < 3) return false;
    int begin = n ? x->ndim - (int)n : (int)attr_int(b->call->op, "begin_norm_axis", 1), rows[WEFT_MAX_RANK];
    if (begin < 0 || begin >= x->ndim) return false;
    int ndim = x->ndim;
    int64_t extents[WEFT_MAX_RANK];
    memcpy(extents, x->extents, sizeof extents);
    for (int d = 0; d < ndim; d++) rows[d] = d < begin ? fresh(b, extents[d]) : fresh_whole(b, extents[d]);
    for (int i = 0; i < nslots; i++) {
        const axes_arg *like = i == 1 || i == 2 ? NULL : axes_arg_of(b, slots[i], 0);
        if (!like) continue;
        int count = like->ndim;
        for (int d = 0; d < begin && count == 1 && begin > 1; d++) axes_give(b, slots[i], 0, 0, rows[d]);
        bool flat = count == 1 && begin > 1;
        for (int d = 0; d < count && d < ndim && !flat; d++)
            if (d < begin || like->extents[d] == extents[d]) axes_give(b, slots[i], 0, d, rows[d]);
    }
    return true;
}

/* --- by name ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    axes_function function;
} functions[] = {{"matmul", matmul},       {"mul", mul},
                 {"reshape", reshape},     {"transpose", transpose},
                 {"squeeze", squeeze},     {"unsqueeze", unsqueeze},
                 {"tile", tile},           {"pad", pad},
                 {"meshgrid", meshgrid},   {"gather", gather},
                 {"gather_nd", gather_nd}, {"layer_norm", layer_norm},
                 {"einsum", einsum_rule},  {"pad_last", pad_last},
                 {"set_value", set_value}, {"kron", kron},
                 {"crop", crop},           {"gather_along", gather_along}};

axes_function axes_find_function(const char *function_name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, function_name) == 0) return functions[i].function;
    return NULL;
}
