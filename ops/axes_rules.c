/* axes_rules.c: which function a row of axes.def names, and those of ops that repeat elements, that go by index and
 * that normalise. Clauses of the row come after the function. */
#include "ops/axes_functions.h"

/* --- repeated, and bordered --------------------------------------------------------------------------------------- */

/* How often, as element `at` of the attr says: so often on a rank. */
static int repeated(axes_build *b, size_t at, int64_t times) {
    const op_schema *s = b->call->schema;
    const char *attr = NULL;
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, "repeat_times") == 0) attr = s->attrs[i].name;
    if (!attr || b->rule->nchanges == AXES_CHANGES) return axes_fresh_whole(b, times);
    int factor = axes_fresh(b, times);
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
        int f = axes_fresh(b, x->extents[from]);
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
        int f = axes_fresh(b, x->ndim ? x->extents[0] : 1);
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
        int f = none ? axes_fresh(b, x->extents[d]) : axes_fresh_whole(b, x->extents[d]);
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
        int f = axes_fresh(b, x->extents[d]);
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
        int f = none ? axes_fresh(b, x->extents[d]) : axes_fresh_whole(b, x->extents[d]);
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
        int f = is_axis ? axes_fresh_whole(b, x->extents[d]) : axes_fresh(b, x->extents[d]);
        axes_give(b, slots[0], 0, d, f);
        if (!is_axis) axes_give(b, slots[2], 0, d < axis ? d : d + nindex - 1, f);
    }
    for (int d = 0; d < nindex; d++) {
        int f = axes_fresh(b, index->extents[d]);
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
        bool may_meet = d != axis && (x->extents[d] < 0 || index->extents[d] < 0); /* whole, but told as one */
        int f = d == axis || meets ? axes_fresh(b, index->extents[d]) : axes_fresh_whole(b, index->extents[d]);
        axes_give(b, slots[0], 0, d, meets || may_meet ? f : axes_fresh_whole(b, x->extents[d]));
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
        int f = axes_fresh(b, index->extents[d]);
        axes_give(b, slots[1], 0, d, f);
        axes_give(b, slots[2], 0, d, f);
    }
    axes_give(b, slots[1], 0, last, axes_fresh_whole(b, tuple));
    for (int d = 0; d < x->ndim; d++) {
        int f = d < tuple ? axes_fresh_whole(b, x->extents[d]) : axes_fresh(b, x->extents[d]);
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
        int f = parts ? axes_fresh(b, x->extents[d]) : axes_fresh_whole(b, x->extents[d]);
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
    for (int d = 0; d < ndim; d++) rows[d] = d < begin ? axes_fresh(b, extents[d]) : axes_fresh_whole(b, extents[d]);
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
} functions[] = {{"matmul", axes_matmul},
                 {"mul", axes_mul},
                 {"reshape", axes_reshape},
                 {"transpose", axes_transpose},
                 {"squeeze", axes_squeeze},
                 {"unsqueeze", axes_unsqueeze},
                 {"einsum", axes_einsum},
                 {"kron", axes_kron},
                 {"tile", tile},
                 {"pad", pad},
                 {"meshgrid", meshgrid},
                 {"gather", gather},
                 {"gather_nd", gather_nd},
                 {"layer_norm", layer_norm},
                 {"set_value", set_value},
                 {"pad_last", pad_last},
                 {"crop", crop},
                 {"gather_along", gather_along}};

axes_function axes_find_function(const char *function_name) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, function_name) == 0) return functions[i].function;
    return NULL;
}
