/* aten_index.c: elements by index: along one dimension (gather, scatter and its reductions), or by tensors that index
 * several dimensions together (index, index_put). Torch: aten/src/ATen/native/{TensorAdvancedIndexing.cpp,
 * cpu/ScatterGatherKernel.cpp}. What is scattered is put, or added, in the order of the index. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "ops/aten_index.h"

/* One element of any type as the type that sums are made in. */
static double real_at(const tensor *t, int64_t i) {
    return dtype_is_float(t->dtype) ? tensor_real(t, i) : (double)tensor_integer(t, i);
}

static void move_element(const tensor *to, int64_t at, const tensor *from, int64_t where) {
    size_t nbytes = weft_dtype_nbytes(to->dtype);
    memcpy((char *)to->data + (size_t)at * nbytes, (const char *)from->data + (size_t)where * nbytes, nbytes);
}

static weft_status require_indices(const kernel_prepare *p, const tensor *t) {
    TRY(require_present(p, t, "index"));
    return t->dtype == WEFT_INT64 || t->dtype == WEFT_INT32
               ? NULL
               : kernel_unsupported(p, "expected an index of int64 or int32, found %s", dtype_text(t->dtype));
}

/* --- along one dimension ------------------------------------------------------------------------------------------ */

enum { IN_SELF, IN_INDEX, IN_SRC, OUT = 0 };

typedef enum reduction { ASSIGN, SUM, PROD, MEAN, MOST, LEAST, NREDUCTIONS } reduction;
static const char *const reduction_words[NREDUCTIONS][2] = {
    [ASSIGN] = {"", ""},   [SUM] = {"sum", "add"}, [PROD] = {"prod", "multiply"},
    [MEAN] = {"mean", ""}, [MOST] = {"amax", ""},  [LEAST] = {"amin", ""}};

typedef struct along_state {
    int ndim, dim;
    int64_t index[WEFT_MAX_RANK], self[WEFT_MAX_RANK], src[WEFT_MAX_RANK]; /* extents of index; strides */
    int64_t extent, count;                                                 /* of self along dim; elements of index */
    reduction reduce;
    bool include_self;
    double value; /* where there is no src */
} along_state;

static weft_status prepare_along(kernel_prepare *p, const tensor *src) {
    along_state *s = KERNEL_STATE(p, along_state);
    const tensor *x = type_in(p, IN_SELF), *index = type_in(p, IN_INDEX);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "self"));
    TRY(require_indices(p, index));
    s->dim = axis_of(x, attr_int(p->op, "dim", 0));
    if (s->dim < 0 || (x->ndim && index->ndim != x->ndim))
        return kernel_unsupported(p, "expected an index of self's dimensions");
    s->ndim = x->ndim;
    strides_dense(x->ndim, x->dims, s->self);
    if (src) strides_dense(src->ndim, src->dims, s->src);
    for (int d = 0; d < x->ndim; d++) {
        s->index[d] = index->dims[d];
        bool fits = d == s->dim || index->dims[d] <= x->dims[d];
        if (!fits || (src && (src->ndim != x->ndim || index->dims[d] > src->dims[d])))
            return kernel_unsupported(p, "expected an index no larger than self and src, found dimension %d", d);
    }
    s->extent = x->ndim ? x->dims[s->dim] : 1;
    s->count = index->numel;
    return NULL;
}

/* Where element i of the index points in self, and where it lies in src. */
static weft_status locate(const kernel_call *c, const along_state *s, int64_t i, int64_t *out_at, int64_t *out_src) {
    int64_t k = tensor_integer(arg_in(c, IN_INDEX), i), rest = i;
    if (k < -s->extent || k >= s->extent)
        return kernel_failed(c, "expected an index below %lld, found %lld", (long long)s->extent, (long long)k);
    k += k < 0 ? s->extent : 0;
    *out_at = *out_src = 0;
    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t own = rest % s->index[d];
        rest /= s->index[d];
        *out_at += (d == s->dim ? k : own) * s->self[d];
        *out_src += own * s->src[d];
    }
    return NULL;
}

static weft_status prepare_gather(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_SELF), *out = type_out(p, OUT);
    TRY(prepare_along(p, NULL));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, out, "out"));
    return require_numel(p, out, type_in(p, IN_INDEX)->numel, "out");
}

static weft_status run_gather(const kernel_call *c) {
    const along_state *s = c->state;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, src = 0;
        TRY(locate(c, s, i, &at, &src));
        move_element(arg_out(c, OUT), i, arg_in(c, IN_SELF), at);
    }
    return NULL;
}

const kernel kernel_aten_gather = {prepare_gather, run_gather};

static weft_status prepare_scatter(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_SELF), *src = type_in(p, IN_SRC), *out = type_out(p, OUT);
    const char *word = attr_string(p->op, "reduce", "");
    int found = NREDUCTIONS;
    TRY(prepare_along(p, src));
    along_state *s = p->state;
    for (int k = NREDUCTIONS - 1; k >= 0; k--)
        if (strcmp(word, reduction_words[k][0]) == 0 || (*word && strcmp(word, reduction_words[k][1]) == 0)) found = k;
    if (found == NREDUCTIONS) return kernel_unsupported(p, "expected another reduction, found %s", word);
    s->reduce = (reduction)found;
    s->include_self = attr_bool(p->op, "include_self", true);
    s->value = attr_float(p->op, "value", 0);
    if (src) TRY(require_same_dtype(p, x, src, "src"));
    if (s->reduce != ASSIGN && x->dtype != WEFT_INT64) TRY(require_real(p, x, "self"));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, out, "out"));
    if (s->reduce != ASSIGN) p->workspace_nbytes = (size_t)x->numel * sizeof(int64_t);
    return require_numel(p, out, x->numel, "out");
}

static void set_element(tensor *t, int64_t i, double value) {
    fill_elements(t->dtype, (char *)t->data + (size_t)i * weft_dtype_nbytes(t->dtype), 1, value);
}

static double combine(reduction reduce, double a, double b) {
    if (reduce == PROD) return a * b;
    if (reduce == MOST) return isnan(a) || a > b ? a : b;
    if (reduce == LEAST) return isnan(a) || a < b ? a : b;
    return a + b;
}

/* counts: how many values have met at each place; the first takes self's place where that is not included. */
static weft_status reduce_all(const kernel_call *c, const along_state *s, tensor *out, int64_t *counts) {
    const tensor *src = arg_in(c, IN_SRC);
    memset(counts, 0, (size_t)out->numel * sizeof *counts);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, from = 0;
        TRY(locate(c, s, i, &at, &from));
        double value = src ? real_at(src, from) : s->value;
        bool is_first = counts[at]++ == 0 && !s->include_self;
        if (out->dtype == WEFT_INT64) {
            int64_t *to = (int64_t *)out->data + at, add = src ? ((const int64_t *)src->data)[from] : (int64_t)s->value;
            uint64_t a = (uint64_t)*to, b = (uint64_t)add;
            bool keeps = s->reduce == MOST ? *to > add : *to < add;
            *to = is_first                                  ? add
                  : s->reduce == PROD                       ? (int64_t)(a * b)
                  : s->reduce == MOST || s->reduce == LEAST ? (keeps ? *to : add)
                                                            : (int64_t)(a + b);
        } else {
            tensor_set_real(out, at, is_first ? value : combine(s->reduce, tensor_real(out, at), value));
        }
    }
    for (int64_t i = 0; s->reduce == MEAN && i < out->numel; i++) {
        int64_t n = counts[i] + s->include_self;
        if (counts[i] && out->dtype == WEFT_INT64)
            ((int64_t *)out->data)[i] = (int64_t)floor((double)((int64_t *)out->data)[i] / (double)n);
        else if (counts[i])
            tensor_set_real(out, i, tensor_real(out, i) / (double)n);
    }
    return NULL;
}

static weft_status run_scatter(const kernel_call *c) {
    const along_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *src = arg_in(c, IN_SRC);
    tensor *out = arg_out(c, OUT);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    if (s->reduce != ASSIGN) return reduce_all(c, s, out, c->workspace);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, from = 0;
        TRY(locate(c, s, i, &at, &from));
        if (src)
            move_element(out, at, src, from);
        else
            set_element(out, at, s->value);
    }
    return NULL;
}

const kernel kernel_aten_scatter = {prepare_scatter, run_scatter};

/* --- by tensors that index several dimensions together ------------------------------------------------------------ */

enum { PUT_IN_VALUES = 2 };

/* A dimension of the result: of self as it is, or of the indices' common shape. */
typedef struct result_axis {
    int64_t extent, self;           /* self: stride in it; 0: an axis of the indices */
    int64_t indices[WEFT_MAX_RANK]; /* strides in each index tensor */
    int64_t values;                 /* stride in the values that are put */
    int64_t mask;                   /* stride in the mask */
} result_axis;

typedef struct index_state {
    int naxes, nindices;
    result_axis axes[WEFT_MAX_RANK];
    int64_t extent[WEFT_MAX_RANK], stride[WEFT_MAX_RANK]; /* of self in the dimension that each tensor indexes */
    int64_t count;
    bool accumulate;
    double fill; /* what is taken where a mask does not hold */
} index_state;

static void read_shape(const tensor *t, shape *out) {
    *out = (shape){.dtype = t->dtype, .ndim = t->ndim, .height = -1};
    memcpy(out->dims, t->dims, sizeof out->dims);
}

static weft_status prepare_index(kernel_prepare *p, index_state *s) {
    const tensor *x = type_in(p, IN_SELF), *indices = &p->in[p->in_first[IN_INDEX]];
    int64_t strides[WEFT_MAX_RANK], of_indices[WEFT_MAX_RANK][WEFT_MAX_RANK];
    shape self, of[WEFT_MAX_RANK];
    indexing ix;
    uint32_t n = p->in_first[IN_INDEX + 1] - p->in_first[IN_INDEX];
    TRY(require_present(p, x, "self"));
    if (n > WEFT_MAX_RANK) return kernel_unsupported(p, "expected fewer indices");
    read_shape(x, &self);
    for (uint32_t k = 0; k < n; k++) {
        TRY(require_indices(p, &indices[k]));
        read_shape(&indices[k], &of[k]);
    }
    const char *wrong = op_indexing(p->op, &self, of, n, &ix);
    if (wrong) return kernel_unsupported(p, "%s", wrong);
    strides_dense(x->ndim, x->dims, strides);
    for (uint32_t k = 0; k < n; k++) {
        strides_broadcast(&indices[k], -1, ix.common.ndim, ix.common.dims, of_indices[k]);
        s->extent[k] = x->dims[ix.dims[k]];
        s->stride[k] = strides[ix.dims[k]];
    }
    s->nindices = (int)n;
    s->naxes = ix.result.ndim;
    s->count = 1;
    for (int a = 0; a < ix.result.ndim; a++) {
        s->axes[a] = (result_axis){.extent = ix.result.dims[a]};
        s->count *= ix.result.dims[a];
        if (ix.from[a] >= 0) s->axes[a].self = strides[ix.from[a]];
        for (uint32_t k = 0; ix.from[a] < 0 && k < n; k++) s->axes[a].indices[k] = of_indices[k][-1 - ix.from[a]];
    }
    return NULL;
}

/* Where element i of the result lies in self, and in the values. */
static weft_status locate_indexed(const kernel_call *c, const index_state *s, int64_t i, int64_t *out_at,
                                  int64_t *out_value) {
    const tensor *indices = &c->in[c->in_first[IN_INDEX]];
    int64_t where[WEFT_MAX_RANK] = {0};
    *out_at = *out_value = 0;
    for (int a = s->naxes - 1; a >= 0; a--) {
        int64_t own = i % s->axes[a].extent;
        i /= s->axes[a].extent;
        *out_at += own * s->axes[a].self;
        *out_value += own * s->axes[a].values;
        for (int k = 0; k < s->nindices; k++) where[k] += own * s->axes[a].indices[k];
    }
    for (int k = 0; k < s->nindices; k++) {
        int64_t index = tensor_integer(&indices[k], where[k]);
        if (index < -s->extent[k] || index >= s->extent[k])
            return kernel_failed(c, "expected an index below %lld, found %lld", (long long)s->extent[k],
                                 (long long)index);
        *out_at += (index < 0 ? index + s->extent[k] : index) * s->stride[k];
    }
    return NULL;
}

static weft_status prepare_take(kernel_prepare *p) {
    index_state *s = KERNEL_STATE(p, index_state);
    if (!s) return base_out_of_memory();
    TRY(prepare_index(p, s));
    TRY(require_present(p, type_out(p, OUT), "out"));
    TRY(require_same_dtype(p, type_in(p, IN_SELF), type_out(p, OUT), "out"));
    return require_numel(p, type_out(p, OUT), s->count, "out");
}

static weft_status run_take(const kernel_call *c) {
    const index_state *s = c->state;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, value = 0;
        TRY(locate_indexed(c, s, i, &at, &value));
        move_element(arg_out(c, OUT), i, arg_in(c, IN_SELF), at);
    }
    return NULL;
}

const kernel kernel_aten_index = {prepare_take, run_take};

static weft_status prepare_put(kernel_prepare *p) {
    index_state *s = KERNEL_STATE(p, index_state);
    const tensor *x = type_in(p, IN_SELF), *values = type_in(p, PUT_IN_VALUES), *out = type_out(p, OUT);
    int64_t dims[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    if (!s) return base_out_of_memory();
    TRY(prepare_index(p, s));
    TRY(require_present(p, values, "values"));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, values, "values"));
    TRY(require_same_dtype(p, x, out, "out"));
    TRY(require_numel(p, out, x->numel, "out"));
    s->accumulate = attr_bool(p->op, "accumulate", false);
    if (s->accumulate && x->dtype != WEFT_INT64) TRY(require_real(p, x, "self"));
    for (int a = 0; a < s->naxes; a++) dims[a] = s->axes[a].extent;
    if (values->ndim > s->naxes || !strides_broadcast(values, -1, s->naxes, dims, strides))
        return kernel_unsupported(p, "expected values that broadcast to what is indexed");
    for (int a = 0; a < s->naxes; a++) s->axes[a].values = strides[a];
    return NULL;
}

static weft_status run_put(const kernel_call *c) {
    const index_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *values = arg_in(c, PUT_IN_VALUES);
    tensor *out = arg_out(c, OUT);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, value = 0;
        TRY(locate_indexed(c, s, i, &at, &value));
        if (!s->accumulate)
            move_element(out, at, values, value);
        else if (out->dtype == WEFT_INT64)
            ((int64_t *)out->data)[at] += ((const int64_t *)values->data)[value];
        else
            tensor_set_real(out, at, tensor_real(out, at) + tensor_real(values, value));
    }
    return NULL;
}

const kernel kernel_aten_index_put = {prepare_put, run_put};

/* --- the same where a mask holds: elsewhere a number is taken, and nothing added -----------------------------------
 */

enum { TAKE_IN_MASK = 2, PUT_IN_MASK };

static weft_status prepare_mask(kernel_prepare *p, const tensor *mask) {
    index_state *s = p->state;
    int64_t dims[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    TRY(require_present(p, mask, "mask"));
    if (mask->dtype != WEFT_BOOL) return kernel_unsupported(p, "expected a mask of bool");
    for (int a = 0; a < s->naxes; a++) dims[a] = s->axes[a].extent;
    if (mask->ndim > s->naxes || !strides_broadcast(mask, -1, s->naxes, dims, strides))
        return kernel_unsupported(p, "expected a mask that broadcasts to what is indexed");
    for (int a = 0; a < s->naxes; a++) s->axes[a].mask = strides[a];
    s->fill = attr_float(p->op, "fill", 0);
    return NULL;
}

static bool holds_at(const index_state *s, const tensor *mask, int64_t i) {
    int64_t at = 0;
    for (int a = s->naxes - 1; a >= 0; a--) {
        at += i % s->axes[a].extent * s->axes[a].mask;
        i /= s->axes[a].extent;
    }
    return ((const uint8_t *)mask->data)[at] != 0;
}

static weft_status prepare_masked_take(kernel_prepare *p) {
    TRY(prepare_take(p));
    if (!cast_exists(WEFT_FP64, type_out(p, OUT)->dtype)) return kernel_unsupported(p, "expected numbers");
    return prepare_mask(p, type_in(p, TAKE_IN_MASK));
}

static weft_status run_masked_take(const kernel_call *c) {
    const index_state *s = c->state;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, value = 0;
        if (!holds_at(s, arg_in(c, TAKE_IN_MASK), i)) {
            set_element(arg_out(c, OUT), i, s->fill);
            continue;
        }
        TRY(locate_indexed(c, s, i, &at, &value));
        move_element(arg_out(c, OUT), i, arg_in(c, IN_SELF), at);
    }
    return NULL;
}

static weft_status prepare_masked_put(kernel_prepare *p) {
    TRY(prepare_put(p));
    TRY(require_real(p, type_in(p, IN_SELF), "self"));
    return prepare_mask(p, type_in(p, PUT_IN_MASK));
}

static weft_status run_masked_put(const kernel_call *c) {
    const index_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *values = arg_in(c, PUT_IN_VALUES);
    copy_bytes(arg_out(c, OUT)->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = 0, value = 0;
        if (!holds_at(s, arg_in(c, PUT_IN_MASK), i)) continue;
        TRY(locate_indexed(c, s, i, &at, &value));
        tensor_add_real(arg_out(c, OUT), at, tensor_real(values, value));
    }
    return NULL;
}

const kernel kernel_aten_masked_index = {prepare_masked_take, run_masked_take};
const kernel kernel_aten_masked_index_put = {prepare_masked_put, run_masked_put};
