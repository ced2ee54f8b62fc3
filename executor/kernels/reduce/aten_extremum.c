/* aten_extremum.c: the largest or smallest element along a dimension and where it is: the first of equal ones, the
 * first NaN where there is one; and variances or deviations with means. Torch:
 * aten/src/ATen/native/cpu/TensorCompareKernel.cpp, ReduceOpsKernel.cpp. */
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/reduce/reduce.h"

/* --- max, min ----------------------------------------------------------------------------------------------------- */

typedef struct extremum_state {
    axis_split split;
    bool smallest;
} extremum_state;

static weft_status prepare_extremum(kernel_prepare *p, bool smallest) {
    extremum_state *s = KERNEL_STATE(p, extremum_state);
    const tensor *x = type_in(p, 0), *out = type_out(p, 0), *where = type_out(p, 1);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "self"));
    TRY(require_present(p, out, "values"));
    if (x->dtype != WEFT_INT64) TRY(require_real(p, x, "self"));
    TRY(require_same_dtype(p, x, out, "values"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "dim", 0), &s->split));
    s->smallest = smallest;
    if (s->split.extent < 1 && out->numel) return kernel_unsupported(p, "expected a dimension that is not empty");
    if (where && where->dtype != WEFT_INT64) return kernel_unsupported(p, "expected indices of int64");
    if (where) TRY(require_numel(p, where, out->numel, "indices"));
    return require_numel(p, out, s->split.outer * s->split.inner, "values");
}

static weft_status prepare_max(kernel_prepare *p) {
    return prepare_extremum(p, false);
}
static weft_status prepare_min(kernel_prepare *p) {
    return prepare_extremum(p, true);
}

#define DEFINE_BEST(suffix, type)                                                                                      \
    static int64_t best_##suffix(const extremum_state *s, const type *x) {                                             \
        int64_t best = 0, n = s->split.inner;                                                                          \
        for (int64_t k = 1; k < s->split.extent && x[best * n] == x[best * n]; k++) {                                  \
            bool is_better = s->smallest ? x[k * n] < x[best * n] : x[k * n] > x[best * n];                            \
            if (is_better || x[k * n] != x[k * n]) best = k;                                                           \
        }                                                                                                              \
        return best;                                                                                                   \
    }
DEFINE_BEST(fp32, float)
DEFINE_BEST(fp64, double)
DEFINE_BEST(int64, int64_t)

static weft_status run_extremum(const kernel_call *c) {
    const extremum_state *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0), *where = arg_out(c, 1);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t at = i / s->split.inner * s->split.extent * s->split.inner + i % s->split.inner;
        const char *from = (const char *)x->data + (size_t)at * nbytes;
        int64_t best = x->dtype == WEFT_INT64  ? best_int64(s, (const void *)from)
                       : x->dtype == WEFT_FP64 ? best_fp64(s, (const void *)from)
                                               : best_fp32(s, (const void *)from);
        memcpy((char *)out->data + (size_t)i * nbytes, from + (size_t)(best * s->split.inner) * nbytes, nbytes);
        if (where) ((int64_t *)where->data)[i] = best;
    }
    return NULL;
}

const kernel kernel_aten_max_dim = {prepare_max, run_extremum};
const kernel kernel_aten_min_dim = {prepare_min, run_extremum};

/* --- variance ----------------------------------------------------------------------------------------------------- */

typedef struct variance_state {
    loops kept, gone; /* over self's dimensions; the operand is self */
    double correction;
    bool root;
} variance_state;

static weft_status prepare_variances(kernel_prepare *p, bool root) {
    variance_state *s = KERNEL_STATE(p, variance_state);
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "self"));
    TRY(require_present(p, out, "var"));
    TRY(reduce_dims(p, x, &s->kept, &s->gone));
    s->correction = attr_float(p->op, "correction", 1);
    s->root = root;
    TRY(require_like(p, x, out, s->kept.numel, "var"));
    return require_like(p, x, type_out(p, 1), s->kept.numel, "mean");
}

static weft_status prepare_variance(kernel_prepare *p) {
    return prepare_variances(p, false);
}
static weft_status prepare_deviation(kernel_prepare *p) {
    return prepare_variances(p, true);
}

#define DEFINE_SUM(dtype, suffix, real)                                                                                \
    static double sum_##suffix(const loops *l, const real *x, double mean, bool squares) {                             \
        double sum = 0;                                                                                                \
        int64_t stride = loops_stride(l, 0);                                                                           \
        for (walk w = walk_start(l); w.left; walk_next(l, &w))                                                         \
            for (int64_t i = 0; i < loops_run(l); i++) {                                                               \
                double d = (double)x[w.at[0] + i * stride] - mean;                                                     \
                sum += squares ? d * d : d;                                                                            \
            }                                                                                                          \
        return sum;                                                                                                    \
    }
REAL_TYPES(DEFINE_SUM)
#undef DEFINE_SUM

static double sum_of(const variance_state *s, const tensor *x, int64_t at, double mean, bool squares) {
    return x->dtype == WEFT_FP64 ? sum_fp64(&s->gone, (const double *)x->data + at, mean, squares)
                                 : sum_fp32(&s->gone, (const float *)x->data + at, mean, squares);
}

static weft_status run_variance(const kernel_call *c) {
    const variance_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *var = arg_out(c, 0), *means = arg_out(c, 1);
    double count = (double)s->gone.numel, by = count - s->correction;
    for (walk w = walk_start(&s->kept); w.left; walk_next(&s->kept, &w))
        for (int64_t i = 0; i < loops_run(&s->kept); i++) {
            int64_t at = w.at[0] + i * loops_stride(&s->kept, 0);
            double mean = sum_of(s, x, at, 0, false) / count;
            double variance = sum_of(s, x, at, mean, true) / (by > 0 ? by : 0);
            tensor_set_real(var, w.position + i, s->root ? sqrt(variance) : variance);
            if (means) tensor_set_real(means, w.position + i, mean);
        }
    return NULL;
}

const kernel kernel_aten_var_mean = {prepare_variance, run_variance};
const kernel kernel_aten_std_mean = {prepare_deviation, run_variance};
