/* aten_pool.c: poolings over the last one to three dimensions, and their gradients (torch:
 * aten/src/ATen/native/cpu/{MaxPoolKernel,AvgPoolKernel,AdaptiveAvgPoolKernel}.cpp).
 *
 * A maximum is NaN where its window has one. Its index counts the elements of its plane: all but the pooled dimensions
 * are planes, each computed apart. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "ops/aten_window.h"

enum { IN_SELF, OUT = 0, OUT_INDICES };
enum { GRAD_IN_GRAD, GRAD_IN_SELF, GRAD_IN_INDICES };

typedef struct pool_state {
    pool_windows w;
    int64_t planes, elements, count; /* elements and windows a plane */
    bool adaptive, include_pad;
    int64_t divisor; /* 0: as many elements as the window has */
} pool_state;

/* A window within a plane; `padded`: how many elements it has with those outside. */
typedef struct box {
    int64_t first[POOL_AXES], end[POOL_AXES], step[POOL_AXES], padded;
} box;

static box box_of(const pool_state *s, int64_t window) {
    const pool_axis *a = s->w.axis;
    const int64_t at[POOL_AXES] = {window / (a[1].count * a[2].count), window / a[2].count % a[1].count,
                                   window % a[2].count};
    box b = {.padded = 1};
    for (int d = 0; d < POOL_AXES; d++) {
        int64_t first = at[d] * a[d].stride - a[d].before, end = first + (a[d].size - 1) * a[d].dilation + 1;
        if (s->adaptive) {
            first = at[d] * a[d].extent / a[d].count;
            end = ((at[d] + 1) * a[d].extent + a[d].count - 1) / a[d].count;
        }
        if (end > a[d].extent + a[d].before) end = a[d].extent + a[d].before;
        b.padded *= end - first;
        if (first < 0) first += (-first + a[d].dilation - 1) / a[d].dilation * a[d].dilation;
        b.first[d] = first;
        b.end[d] = end > a[d].extent ? a[d].extent : end;
        b.step[d] = s->adaptive ? 1 : a[d].dilation;
    }
    return b;
}

static int64_t elements_in(const box *b) {
    int64_t n = 1;
    for (int d = 0; d < POOL_AXES; d++) n *= b->end[d] > b->first[d] ? b->end[d] - b->first[d] : 0;
    return n;
}

/* What a sum over the window is divided by. */
static int64_t divisor_of(const pool_state *s, const box *b) {
    return s->divisor ? s->divisor : s->include_pad && !s->adaptive ? b->padded : elements_in(b);
}

#define FOR_EACH_IN(b, s, at)                                                                                          \
    for (int64_t z_ = (b)->first[0]; z_ < (b)->end[0]; z_ += (b)->step[0])                                             \
        for (int64_t y_ = (b)->first[1]; y_ < (b)->end[1]; y_ += (b)->step[1])                                         \
            for (int64_t row_ = (z_ * (s)->w.axis[1].extent + y_) * (s)->w.axis[2].extent, at = row_ + (b)->first[2];  \
                 at < row_ + (b)->end[2]; at += (b)->step[2])

/* --- preparation -------------------------------------------------------------------------------------------------- */

static weft_status prepare_pool(kernel_prepare *p, const tensor *x, const tensor *y, bool adaptive) {
    pool_state *s = KERNEL_STATE(p, pool_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, y, "the result"));
    TRY(require_same_dtype(p, x, y, "the result"));
    shape of = {.dtype = x->dtype, .ndim = x->ndim, .height = -1};
    memcpy(of.dims, x->dims, sizeof of.dims);
    const char *wrong = op_pool_windows(p->op, &of, &s->w);
    if (wrong) return kernel_unsupported(p, "%s", wrong);
    s->elements = s->count = 1;
    for (int d = 0; d < POOL_AXES; d++) {
        s->elements *= s->w.axis[d].extent;
        s->count *= s->w.axis[d].count;
    }
    s->planes = s->elements ? x->numel / s->elements : 0;
    s->adaptive = adaptive;
    s->include_pad = attr_bool(p->op, "count_include_pad", true);
    s->divisor = attr_int(p->op, "divisor_override", 0);
    return require_numel(p, y, s->planes * s->count, "the result");
}

/* Of an adaptive gradient the windows follow from the two shapes. */
static weft_status prepare_adaptive_backward(kernel_prepare *p) {
    pool_state *s = KERNEL_STATE(p, pool_state);
    const tensor *x = type_in(p, GRAD_IN_SELF), *dy = type_in(p, GRAD_IN_GRAD), *dx = type_out(p, OUT);
    int64_t n = attr_int(p->op, "ndim", 2);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, dy, "grad_output"));
    TRY(require_present(p, x, "self"));
    TRY(require_present(p, dx, "grad_input"));
    TRY(require_same_dtype(p, dy, dx, "grad_input"));
    TRY(require_numel(p, dx, x->numel, "grad_input"));
    if (n < 1 || n > POOL_AXES || x->ndim != dy->ndim || x->ndim < n)
        return kernel_unsupported(p, "expected grad_output and self of equally many dimensions");
    *s = (pool_state){.adaptive = true, .elements = 1, .count = 1, .w.naxes = (int)n};
    for (int d = 0; d < POOL_AXES; d++) {
        int at = x->ndim - POOL_AXES + d;
        bool is_there = d >= POOL_AXES - n;
        s->w.axis[d] = (pool_axis){.extent = is_there ? x->dims[at] : 1, .count = is_there ? dy->dims[at] : 1};
        s->elements *= s->w.axis[d].extent;
        s->count *= s->w.axis[d].count;
    }
    s->planes = s->elements ? x->numel / s->elements : 0;
    return require_numel(p, dy, s->planes * s->count, "grad_output");
}

static weft_status prepare_maximum(kernel_prepare *p, bool adaptive) {
    const tensor *y = type_out(p, OUT), *indices = type_out(p, OUT_INDICES);
    TRY(prepare_pool(p, type_in(p, IN_SELF), y, adaptive));
    if (indices && indices->dtype != WEFT_INT64) return kernel_unsupported(p, "expected indices of int64");
    return indices ? require_numel(p, indices, y->numel, "indices") : NULL;
}
static weft_status prepare_max(kernel_prepare *p) {
    return prepare_maximum(p, false);
}
static weft_status prepare_adaptive_max(kernel_prepare *p) {
    return prepare_maximum(p, true);
}
static weft_status prepare_avg(kernel_prepare *p) {
    return prepare_pool(p, type_in(p, IN_SELF), type_out(p, OUT), false);
}
static weft_status prepare_adaptive(kernel_prepare *p) {
    return prepare_pool(p, type_in(p, IN_SELF), type_out(p, OUT), true);
}

static weft_status check_backward(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_SELF), *dx = type_out(p, OUT);
    TRY(require_present(p, dx, "grad_input"));
    TRY(require_same_dtype(p, x, dx, "grad_input"));
    return require_numel(p, dx, x->numel, "grad_input");
}
static weft_status check_indices(kernel_prepare *p) {
    const tensor *indices = type_in(p, GRAD_IN_INDICES);
    TRY(require_present(p, indices, "indices"));
    if (indices->dtype != WEFT_INT64) return kernel_unsupported(p, "expected indices of int64");
    return require_numel(p, indices, type_in(p, GRAD_IN_GRAD)->numel, "indices");
}
static weft_status prepare_max_backward(kernel_prepare *p) {
    TRY(prepare_pool(p, type_in(p, GRAD_IN_SELF), type_in(p, GRAD_IN_GRAD), false));
    TRY(check_indices(p));
    return check_backward(p);
}
static weft_status prepare_adaptive_max_backward(kernel_prepare *p) {
    TRY(prepare_adaptive_backward(p));
    return check_indices(p);
}
static weft_status prepare_avg_backward(kernel_prepare *p) {
    TRY(prepare_pool(p, type_in(p, GRAD_IN_SELF), type_in(p, GRAD_IN_GRAD), false));
    return check_backward(p);
}

/* --- planes ------------------------------------------------------------------------------------------------------- */

typedef struct pool_job {
    const pool_state *s;
    const void *x;
    void *y;
    int64_t *indices;
} pool_job;

#define DEFINE_POOL(dtype, suffix, real)                                                                               \
    static void max_##suffix(void *arg, int64_t first, int64_t end, int part) {                                        \
        const pool_job *j = arg;                                                                                       \
        (void)part;                                                                                                    \
        for (int64_t i = first * j->s->count; i < end * j->s->count; i++) {                                            \
            const real *x = (const real *)j->x + i / j->s->count * j->s->elements;                                     \
            box b = box_of(j->s, i % j->s->count);                                                                     \
            const pool_axis *a = j->s->w.axis;                                                                         \
            int64_t where = (b.first[0] * a[1].extent + b.first[1]) * a[2].extent + b.first[2];                        \
            real best = (real)-INFINITY;                                                                               \
            FOR_EACH_IN(&b, j->s, at) if (x[at] > best || isnan(x[at])) best = x[at], where = at;                      \
            ((real *)j->y)[i] = best;                                                                                  \
            if (j->indices) j->indices[i] = where;                                                                     \
        }                                                                                                              \
    }                                                                                                                  \
    static void mean_##suffix(void *arg, int64_t first, int64_t end, int part) {                                       \
        const pool_job *j = arg;                                                                                       \
        (void)part;                                                                                                    \
        for (int64_t i = first * j->s->count; i < end * j->s->count; i++) {                                            \
            const real *x = (const real *)j->x + i / j->s->count * j->s->elements;                                     \
            box b = box_of(j->s, i % j->s->count);                                                                     \
            real sum = 0;                                                                                              \
            FOR_EACH_IN(&b, j->s, at) sum += x[at];                                                                    \
            ((real *)j->y)[i] = elements_in(&b) ? sum / (real)divisor_of(j->s, &b) : 0;                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void spread_##suffix(void *arg, int64_t first, int64_t end, int part) {                                     \
        const pool_job *j = arg;                                                                                       \
        (void)part;                                                                                                    \
        for (int64_t i = first * j->s->count; i < end * j->s->count; i++) {                                            \
            real *x = (real *)j->y + i / j->s->count * j->s->elements;                                                 \
            box b = box_of(j->s, i % j->s->count);                                                                     \
            if (!elements_in(&b)) continue;                                                                            \
            real share = ((const real *)j->x)[i] / (real)divisor_of(j->s, &b);                                         \
            FOR_EACH_IN(&b, j->s, at) x[at] += share;                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void put_##suffix(void *arg, int64_t first, int64_t end, int part) {                                        \
        const pool_job *j = arg;                                                                                       \
        (void)part;                                                                                                    \
        for (int64_t i = first * j->s->count; i < end * j->s->count; i++)                                              \
            ((real *)j->y)[i / j->s->count * j->s->elements + j->indices[i]] += ((const real *)j->x)[i];               \
    }
REAL_TYPES(DEFINE_POOL)
#undef DEFINE_POOL

static void run_planes(const kernel_call *c, const tensor *x, parallel_part single, parallel_part twice, pool_job job) {
    int64_t nbytes = (job.s->elements + job.s->count) * (int64_t)weft_dtype_nbytes(x->dtype);
    parallel_for(c, job.s->planes, grain_of_bytes(4 * nbytes), x->dtype == WEFT_FP64 ? twice : single, &job);
}

static weft_status run_max(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_SELF), *indices = arg_out(c, OUT_INDICES);
    run_planes(c, x, max_fp32, max_fp64, (pool_job){c->state, x->data, arg_out(c, OUT)->data, data_or_null(indices)});
    return NULL;
}
static weft_status run_mean(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_SELF);
    run_planes(c, x, mean_fp32, mean_fp64, (pool_job){c->state, x->data, arg_out(c, OUT)->data, NULL});
    return NULL;
}

static void *zeroed(const kernel_call *c) {
    tensor *dx = arg_out(c, OUT);
    tensor_clear(dx);
    return dx->data;
}

static weft_status run_mean_backward(const kernel_call *c) {
    const tensor *dy = arg_in(c, GRAD_IN_GRAD);
    run_planes(c, dy, spread_fp32, spread_fp64, (pool_job){c->state, dy->data, zeroed(c), NULL});
    return NULL;
}

static weft_status run_max_backward(const kernel_call *c) {
    const pool_state *s = c->state;
    const tensor *dy = arg_in(c, GRAD_IN_GRAD), *indices = arg_in(c, GRAD_IN_INDICES);
    int64_t *at = indices->data;
    for (int64_t i = 0; i < indices->numel; i++)
        if (at[i] < 0 || at[i] >= s->elements)
            return kernel_failed(c, "indices: expected a place below %lld, found %lld", (long long)s->elements,
                                 (long long)at[i]);
    run_planes(c, dy, put_fp32, put_fp64, (pool_job){s, dy->data, zeroed(c), at});
    return NULL;
}

const kernel kernel_aten_max_pool = {prepare_max, run_max};
const kernel kernel_aten_adaptive_max_pool = {prepare_adaptive_max, run_max};
const kernel kernel_aten_adaptive_max_pool_backward = {prepare_adaptive_max_backward, run_max_backward};
const kernel kernel_aten_max_pool_backward = {prepare_max_backward, run_max_backward};
const kernel kernel_aten_avg_pool = {prepare_avg, run_mean};
const kernel kernel_aten_avg_pool_backward = {prepare_avg_backward, run_mean_backward};
const kernel kernel_aten_adaptive_avg_pool = {prepare_adaptive, run_mean};
const kernel kernel_aten_adaptive_avg_pool_backward = {prepare_adaptive_backward, run_mean_backward};
