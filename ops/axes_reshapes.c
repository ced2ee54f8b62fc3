/* axes_reshapes.c: the same elements under other extents. Dimensions of both sides whose extents multiply alike have
 * factors in common. */
#include "ops/axes_functions.h"
#include "ops/infer.h"

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
    int f = axes_fresh(b, -1);
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
        int f = axes_fresh(b, size);
        axes_give(b, x->slot, 0, x->d, f);
        axes_give(b, y->slot, 0, y->d, f);
        x->left /= size;
        y->left /= size;
    }
    for (int i = 0; i < 2; i++) /* the rest of both */
        for (side *s = i ? y : x; next_dim(s); s->left = 1)
            axes_give(b, s->slot, 0, s->d, axes_fresh_whole(b, s->left));
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
bool axes_squeeze(axes_build *b, const char *const *slots, int nslots) {
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
bool axes_unsqueeze(axes_build *b, const char *const *slots, int nslots) {
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
        int f = axes_fresh(b, x->extents[from[d]]);
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
bool axes_reshape(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    int64_t extents[WEFT_MAX_RANK];
    if (nslots != 2 || !x || !y) return false;
    for (int d = 0; d < x->ndim; d++)
        if (x->extents[d] == 0) return false; /* no elements: nothing to split */
    read_extents(b, x, y, extents);
    int nkept = count_kept(b, x, y);
    for (int d = 0; d < nkept; d++) {
        int f = axes_fresh(b, x->extents[d]);
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
bool axes_mul(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0), *y = axes_arg_of(b, slots[1], 0);
    int nx = (int)attr_int(b->call->op, "x_num_col_dims", 1), ny = (int)attr_int(b->call->op, "y_num_col_dims", 1);
    if (nslots != 3 || !x || !y || nx < 1 || nx >= x->ndim || ny < 1 || ny >= y->ndim) return false;
    for (int d = 0; d < nx; d++) {
        int m = axes_fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, m);
        axes_give(b, slots[2], 0, d, m);
    }
    side from = {.slot = slots[0], .begin = nx, .end = x->ndim, .extents = x->extents};
    side to = {.slot = slots[1], .end = ny, .extents = y->extents};
    if (x->ndim == nx + 1 && ny == 1) { /* one each: extents that are not known are equal all the same */
        int k = axes_fresh(b, x->extents[nx] < 0 ? y->extents[0] : x->extents[nx]);
        axes_give(b, slots[0], 0, nx, k);
        axes_give(b, slots[1], 0, 0, k);
    } else {
        factor_sides(b, &from, &to);
    }
    for (int d = ny; d < y->ndim; d++) {
        int n = axes_fresh(b, y->extents[d]);
        axes_give(b, slots[1], 0, d, n);
        axes_give(b, slots[2], 0, nx + d - ny, n);
    }
    return true;
}

/* SLOTS: self, out. Attrs dim0 and dim1 are exchanged. */
bool axes_transpose(axes_build *b, const char *const *slots, int nslots) {
    const axes_arg *x = axes_arg_of(b, slots[0], 0);
    if (nslots != 2 || !x) return false;
    int64_t d0 = attr_int(b->call->op, "dim0", 0), d1 = attr_int(b->call->op, "dim1", 0);
    if (d0 < 0) d0 += x->ndim;
    if (d1 < 0) d1 += x->ndim;
    for (int d = 0; d < x->ndim; d++) {
        int f = axes_fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        axes_give(b, slots[1], 0, d == d0 ? (int)d1 : d == d1 ? (int)d0 : d, f);
    }
    return true;
}
