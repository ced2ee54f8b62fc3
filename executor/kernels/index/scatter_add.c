/* scatter_add.c: slices added to X where indices say: index_add along an axis, scatter_nd_add by tuples; and the mean,
 * sum, largest or smallest of rows that have one segment number. Gradients pass X's through and take the slices.
 *
 * Segment numbers rise from 0; a segment without rows is 0. The gradient of a largest or smallest element goes to every
 * row that has it, as in Paddle. */
#include "executor/kernels/layout.h"

static weft_status check_index(const kernel_prepare *p, const tensor *index) {
    TRY(require_present(p, index, "Index"));
    if (index->dtype == WEFT_INT32 || index->dtype == WEFT_INT64) return NULL;
    return kernel_unsupported(p, "expected indices of int32 or int64, found %s", dtype_text(index->dtype));
}

#define DEFINE_ADD(type_id, suffix, real)                                                                              \
    static void add_##suffix(int64_t n, const void *from, void *to) {                                                  \
        const real *restrict x = from;                                                                                 \
        real *restrict y = to;                                                                                         \
        for (int64_t i = 0; i < n; i++) y[i] += x[i];                                                                  \
    }
REAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

static void add_run(weft_dtype dtype, int64_t n, const char *from, char *to) {
    (dtype == WEFT_FP64 ? add_fp64 : add_fp32)(n, from, to);
}

/* --- places: which slice of X the k-th slice of the updates belongs to -------------------------------------------- */

typedef struct places {
    int64_t count, run, ntuple; /* slices in all, elements of each; numbers of a tuple, 0: index_add */
    int64_t inner, extent, nindex;
    int64_t dims[WEFT_MAX_RANK], stride[WEFT_MAX_RANK];
    size_t nbytes;
} places;

static weft_status place_at(const kernel_call *c, const places *s, const tensor *index, int64_t k, int64_t *out) {
    *out = 0;
    for (int64_t d = 0; d < (s->ntuple ? s->ntuple : 1); d++) {
        int64_t i = tensor_integer(index, s->ntuple ? k * s->ntuple + d : k % s->nindex);
        int64_t extent = s->ntuple ? s->dims[d] : s->extent;
        if (i < 0) i += extent;
        if (i < 0 || i >= extent)
            return kernel_failed(c, "expected indices below %lld, found %lld", (long long)extent, (long long)i);
        *out += s->ntuple ? i * s->stride[d] : i * s->inner;
    }
    if (!s->ntuple) *out += k / s->nindex * s->extent * s->inner;
    return NULL;
}

static weft_status prepare_axis(kernel_prepare *p, const tensor *x, const tensor *index, const tensor *updates) {
    places *s = KERNEL_STATE(p, places);
    if (!s) return base_out_of_memory();
    axis_split split;
    TRY(require_real(p, x, "X"));
    TRY(check_index(p, index));
    TRY(require_same_dtype(p, x, updates, "AddValue"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", 0), &split));
    s->nindex = index->numel;
    s->inner = s->run = split.inner;
    s->extent = split.extent;
    s->count = split.outer * index->numel;
    s->nbytes = weft_dtype_nbytes(x->dtype);
    return require_numel(p, updates, s->count * s->run, "AddValue");
}

static weft_status prepare_tuples(kernel_prepare *p, const tensor *x, const tensor *index, const tensor *updates) {
    places *s = KERNEL_STATE(p, places);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    TRY(check_index(p, index));
    TRY(require_same_dtype(p, x, updates, "Updates"));
    s->ntuple = index->ndim ? index->dims[index->ndim - 1] : 0;
    if (s->ntuple < 1 || s->ntuple > x->ndim)
        return kernel_unsupported(p, "expected tuples of 1 to %d indices, found %lld", x->ndim, (long long)s->ntuple);
    memcpy(s->dims, x->dims, sizeof s->dims);
    strides_dense(x->ndim, x->dims, s->stride);
    s->run = s->stride[s->ntuple - 1];
    s->count = index->numel / s->ntuple;
    s->nbytes = weft_dtype_nbytes(x->dtype);
    return require_numel(p, updates, s->count * s->run, "Updates");
}

enum { IN_X, IN_INDEX, IN_UPDATES };
enum { GRAD_IN_INDEX, GRAD_IN_UPDATES, GRAD_IN_OUT_GRAD, OUT_X = 0, OUT_UPDATES };

static weft_status prepare_index_add(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, 0), "Out"));
    return prepare_axis(p, type_in(p, IN_X), type_in(p, IN_INDEX), type_in(p, IN_UPDATES));
}
static weft_status prepare_index_add_grad(kernel_prepare *p) {
    return prepare_axis(p, type_in(p, GRAD_IN_OUT_GRAD), type_in(p, GRAD_IN_INDEX), type_in(p, GRAD_IN_UPDATES));
}
static weft_status prepare_nd_add(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, 0), "Out"));
    return prepare_tuples(p, type_in(p, IN_X), type_in(p, IN_INDEX), type_in(p, IN_UPDATES));
}
static weft_status prepare_nd_add_grad(kernel_prepare *p) {
    return prepare_tuples(p, type_in(p, GRAD_IN_OUT_GRAD), type_in(p, GRAD_IN_INDEX), type_in(p, GRAD_IN_UPDATES));
}

static weft_status run_add(const kernel_call *c) {
    const places *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *out = arg_out(c, 0);
    const char *from = arg_in(c, IN_UPDATES)->data;
    size_t run = (size_t)s->run * s->nbytes;
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t k = 0; k < s->count; k++, from += run) {
        int64_t at = 0;
        TRY(place_at(c, s, arg_in(c, IN_INDEX), k, &at));
        add_run(x->dtype, s->run, from, (char *)out->data + (size_t)at * s->nbytes);
    }
    return NULL;
}

static weft_status run_add_grad(const kernel_call *c) {
    const places *s = c->state;
    const tensor *g = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X), *du = arg_out(c, OUT_UPDATES);
    size_t run = (size_t)s->run * s->nbytes;
    for (int64_t k = 0; du && k < s->count; k++) {
        int64_t at = 0;
        TRY(place_at(c, s, arg_in(c, GRAD_IN_INDEX), k, &at));
        memcpy((char *)du->data + (size_t)k * run, (const char *)g->data + (size_t)at * s->nbytes, run);
    }
    if (dx) copy_bytes(dx->data, g->data, tensor_nbytes(g));
    return NULL;
}

const kernel kernel_index_add = {prepare_index_add, run_add};
const kernel kernel_index_add_grad = {prepare_index_add_grad, run_add_grad};
const kernel kernel_scatter_nd_add = {prepare_nd_add, run_add};
const kernel kernel_scatter_nd_add_grad = {prepare_nd_add_grad, run_add_grad};

/* --- segment_pool ------------------------------------------------------------------------------------------------- */

enum {
    POOL_IN_X,
    POOL_IN_IDS,
    POOL_GRAD_IN_OUT,
    POOL_GRAD_IN_SUMMED,
    POOL_GRAD_IN_OUT_GRAD,
    POOL_OUT = 0,
    POOL_OUT_SUMMED
};

typedef struct pool_state {
    int64_t rows, width, segments;
    enum { POOL_SUM, POOL_MEAN, POOL_MAX, POOL_MIN } kind;
} pool_state;

static weft_status prepare_segments(kernel_prepare *p, const tensor *result) {
    static const char *const kinds[] = {"SUM", "MEAN", "MAX", "MIN"};
    pool_state *s = KERNEL_STATE(p, pool_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, POOL_IN_X), *ids = type_in(p, POOL_IN_IDS);
    const char *kind = attr_string(p->op, "pooltype", "SUM");
    int k = 0;
    TRY(require_real(p, x, "X"));
    TRY(check_index(p, ids));
    TRY(require_present(p, result, "Out"));
    TRY(require_same_dtype(p, x, result, "Out"));
    if (x->ndim < 1) return kernel_unsupported(p, "expected rows in X");
    while (k < 4 && strcmp(kind, kinds[k]) != 0) k++;
    if (k == 4) return kernel_unsupported(p, "pooltype: expected SUM, MEAN, MAX or MIN, found %s", kind);
    s->kind = (int)k;
    s->rows = x->dims[0];
    s->width = s->rows ? x->numel / s->rows : 0;
    s->segments = result->dims[0];
    p->workspace_nbytes = ((size_t)s->segments + 1) * sizeof(int64_t);
    return require_numel(p, ids, s->rows, "SegmentIds");
}

/* How many rows each segment has, in the workspace. */
static weft_status count_rows(const kernel_call *c, int64_t *count) {
    const pool_state *s = c->state;
    memset(count, 0, (size_t)s->segments * sizeof *count);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t id = tensor_integer(arg_in(c, POOL_IN_IDS), i);
        if (id < 0 || id >= s->segments)
            return kernel_failed(c, "expected segments below %lld, found %lld", (long long)s->segments, (long long)id);
        count[id]++;
    }
    return NULL;
}

static weft_status prepare_pool(kernel_prepare *p) {
    return prepare_segments(p, type_out(p, POOL_OUT));
}

static double pooled(const pool_state *s, bool first, double so_far, double x) {
    if (first) return x;
    if (s->kind == POOL_MAX) return x > so_far ? x : so_far;
    if (s->kind == POOL_MIN) return x < so_far ? x : so_far;
    return so_far + x;
}

static weft_status run_pool(const kernel_call *c) {
    const pool_state *s = c->state;
    const tensor *x = arg_in(c, POOL_IN_X), *ids = arg_in(c, POOL_IN_IDS);
    tensor *out = arg_out(c, POOL_OUT), *summed = arg_out(c, POOL_OUT_SUMMED);
    int64_t *count = c->workspace, last = -1;
    TRY(count_rows(c, count));
    tensor_clear(out);
    for (int64_t i = 0; i < s->rows; i++) {
        int64_t id = tensor_integer(ids, i), at = id * s->width;
        if (id < last) return kernel_failed(c, "expected segments in rising order, found %lld", (long long)id);
        for (int64_t j = 0; j < s->width; j++)
            tensor_set_real(out, at + j,
                            pooled(s, id != last, tensor_real(out, at + j), tensor_real(x, i * s->width + j)));
        last = id;
    }
    for (int64_t k = 0; k < s->segments && s->kind == POOL_MEAN; k++) {
        for (int64_t j = 0; j < s->width && count[k]; j++)
            tensor_set_real(out, k * s->width + j, tensor_real(out, k * s->width + j) / (double)count[k]);
        if (summed) tensor_set_real(summed, k, (double)count[k]);
    }
    return NULL;
}

static weft_status prepare_pool_grad(kernel_prepare *p) {
    TRY(require_numel(p, type_out(p, 0), type_in(p, POOL_IN_X)->numel, "X@GRAD"));
    return prepare_segments(p, type_in(p, POOL_GRAD_IN_OUT_GRAD));
}

static weft_status run_pool_grad(const kernel_call *c) {
    const pool_state *s = c->state;
    const tensor *x = arg_in(c, POOL_IN_X), *y = arg_in(c, POOL_GRAD_IN_OUT), *g = arg_in(c, POOL_GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, 0);
    int64_t *count = c->workspace;
    bool picks = s->kind == POOL_MAX || s->kind == POOL_MIN;
    TRY(count_rows(c, count));
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t id = tensor_integer(arg_in(c, POOL_IN_IDS), i / s->width), at = id * s->width + i % s->width;
        double of = tensor_real(g, at) / (s->kind == POOL_MEAN ? (double)count[id] : 1);
        tensor_set_real(dx, i, picks && tensor_real(x, i) != tensor_real(y, at) ? 0 : of);
    }
    return NULL;
}

const kernel kernel_segment_pool = {prepare_pool, run_pool};
const kernel kernel_segment_pool_grad = {prepare_pool_grad, run_pool_grad};
