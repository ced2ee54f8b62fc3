/* softmax.c: softmax and its gradient.
 *
 * exp(x - max) over its sum. Shifted logits are clamped at -64, as in Paddle (phi/kernels/funcs/softmax_impl.h): masked
 * elements become 1.6e-28, never 0, so that a logarithm that follows stays finite. ATen's softmax clamps nothing
 * (`least` is -inf): what is masked by -inf is 0. Along the last axis a row is contiguous and reduced in lanes; along
 * another axis neighbouring columns are reduced side by side, their maxima and sums in the workspace. */
#include "executor/kernels/activation/softmax.h"
#include "executor/kernels/lanes.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/vector_math.h"

enum { SMALLEST_SHIFTED_LOGIT = -64 };

static inline float shifted_exp_fp32(float x, float top, float least) {
    return vm_exp(x - top < least ? least : x - top);
}
static inline double shifted_exp_fp64(double x, double top, double least) {
    return exp(x - top < least ? least : x - top);
}

/* y = exp(x - top), and their sum in lanes. */
static double exp_sum_fp64(int64_t n, const double *x, double top, double least, double *y) {
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t j = i; j < i + LANES && j < n; j++) {
            y[j] = shifted_exp_fp64(x[j], top, least);
            lane[j - i] += y[j];
        }
    return fold_sum_fp64(lane);
}

/* vm_exp of some elements, for -87 <= x <= 88 and NaN. */
static inline __attribute__((always_inline)) vec exp_vec(vec x) {
    const float magic = 12582912.0f;
    vec shifted = x * 1.44269504f + magic, n = shifted - magic;
    vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f, p = r * 0.00138130854f + 0.00836941879f;
    p = p * r + 0.041668456f;
    p = p * r + 0.166665152f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    return (vec)((vec_bits)p + ((vec_bits)shifted << 23));
}

/* No shifted logit is above 0, so vm_exp's limit on that side is not asked for; that on the other alone without clamp.
 */
static inline __attribute__((always_inline)) vec shifted_exp_vec(vec x, float top, float least, bool clamps) {
    vec shifted = x - top, lowest = vec_all(clamps ? least : -87.0f);
    vec e = exp_vec(vec_larger(lowest, shifted));
    return clamps ? e : (vec)((vec_bits)e & ((shifted >= -87.0f) | (shifted != shifted)));
}
/* Of LANES elements, or the first n. */
static inline __attribute__((always_inline)) void exp_add(int64_t n, const float *x, float top, float least,
                                                          bool clamps, float *y, vec sum[PARTS]) {
    EACH_PART(j) {
        int64_t at = j * VEC;
        vec v = shifted_exp_vec(lanes_load(x + at, n - at, top), top, least, clamps);
        lanes_store(y + at, v, n - at);
        sum[j] += lanes_keep(v, n - at);
    }
}
static inline __attribute__((always_inline)) lanes16 exp_sum_lanes(int64_t n, const float *x, float top, float least,
                                                                   bool clamps, float *y) {
    vec sum[PARTS] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) exp_add(LANES, x + i, top, least, clamps, y + i, sum);
    if (i < n) exp_add(n - i, x + i, top, least, clamps, y + i, sum);
    return lanes_halve(sum);
}

/* Of `count` rows: y = exp(x - top), and its sum in lanes. */
static void exp_rows_fp64(int64_t n, int64_t count, const double *x, const double *top, double least, double *y,
                          double *out_sum) {
    for (int64_t k = 0; k < count; k++, x += n, y += n) out_sum[k] = exp_sum_fp64(n, x, top[k], least, y);
}
static void exp_rows_fp32(int64_t n, int64_t count, const float *x, const float *top, float least, float *y,
                          float *out_sum) {
    lanes16 sums[SIDE_BY_SIDE];
    for (int64_t k = 0; k < count; k++, x += n, y += n)
        sums[k] = least >= -87.0f ? exp_sum_lanes(n, x, top[k], least, true, y)
                                  : exp_sum_lanes(n, x, top[k], least, false, y);
    fold_rows(sums, count, out_sum);
}

#define TEMPLATE "executor/kernels/activation/softmax_real.h"
#include "executor/kernels/each_real.h"

size_t softmax_workspace(axis_split s, weft_dtype dtype) {
    return s.inner == 1 ? 0 : 2 * (size_t)s.inner * weft_dtype_nbytes(dtype);
}

static void apply(axis_split s, weft_dtype dtype, double least, const void *x, void *y, void *workspace) {
    if (s.outer <= 0 || s.extent <= 0 || s.inner <= 0) return;
#define CASE(dt, suffix, real)                                                                                         \
    if (dtype == dt && s.inner == 1) rows_##suffix(s, (real)least, x, y);                                              \
    if (dtype == dt && s.inner > 1) columns_##suffix(s, (real)least, x, y, workspace, (real *)workspace + s.inner);
    REAL_TYPES(CASE)
#undef CASE
}

void softmax_apply(axis_split s, weft_dtype dtype, const void *x, void *y, void *workspace) {
    apply(s, dtype, SMALLEST_SHIFTED_LOGIT, x, y, workspace);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

enum { IN_X = 0, IN_OUT = 0, IN_OUT_GRAD = 1, OUT_Y = 0 };

typedef struct softmax_state {
    axis_split split;
    double least; /* no shifted logit is below it */
} softmax_state;

/* Slabs [first, end) of a tensor's outer extent. */
static axis_split some_of(axis_split s, int64_t first, int64_t end, size_t element_nbytes, size_t *out_offset) {
    *out_offset = (size_t)(first * s.extent * s.inner) * element_nbytes;
    s.outer = end - first;
    return s;
}

static void forward_rows(const kernel_call *c, int64_t first, int64_t end) {
    const tensor *x = arg_in(c, IN_X);
    size_t at;
    const softmax_state *state = c->state;
    axis_split s = some_of(state->split, first, end, weft_dtype_nbytes(x->dtype), &at);
    apply(s, x->dtype, state->least, (const char *)x->data + at, (char *)arg_out(c, OUT_Y)->data + at, c->workspace);
}

static void grad_rows(const kernel_call *c, int64_t first, int64_t end) {
    const tensor *yt = arg_in(c, IN_OUT), *dyt = arg_in(c, IN_OUT_GRAD);
    size_t at;
    axis_split s = some_of(((const softmax_state *)c->state)->split, first, end, weft_dtype_nbytes(yt->dtype), &at);
    const void *y = (const char *)yt->data + at, *dy = (const char *)dyt->data + at;
    void *dx = (char *)arg_out(c, OUT_Y)->data + at;
#define CASE(dt, suffix, real)                                                                                         \
    if (yt->dtype == dt && s.inner == 1) grad_rows_##suffix(s, y, dy, dx);                                             \
    if (yt->dtype == dt && s.inner > 1) grad_columns_##suffix(s, y, dy, dx, c->workspace);
    REAL_TYPES(CASE)
#undef CASE
}

static weft_status prepare(kernel_prepare *p, const char *axis, double least,
                           void (*rows)(const kernel_call *, int64_t, int64_t)) {
    softmax_state *s = KERNEL_STATE(p, softmax_state);
    if (!s) return base_out_of_memory();
    s->least = least;
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "input"));
    for (uint32_t i = 1; i < p->in_first[p->schema->ninputs]; i++) {
        TRY(require_same_dtype(p, x, &p->in[i], "gradient"));
        TRY(require_numel(p, &p->in[i], x->numel, "gradient"));
    }
    TRY(require_numel(p, type_out(p, OUT_Y), x->numel, "output"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, axis, -1), &s->split));
    p->workspace_nbytes = softmax_workspace(s->split, x->dtype);
    /* Columns share the workspace: one thread at a time. */
    split_rows(p, rows, x->numel ? s->split.outer : 0);
    p->split.in_order = s->split.inner > 1;
    return NULL;
}

static weft_status prepare_forward(kernel_prepare *p) {
    return prepare(p, "axis", SMALLEST_SHIFTED_LOGIT, forward_rows);
}
static weft_status prepare_aten(kernel_prepare *p) {
    return prepare(p, "dim", -INFINITY, forward_rows);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare(p, "axis", SMALLEST_SHIFTED_LOGIT, grad_rows);
}

const kernel kernel_softmax = {prepare_forward, kernel_run_rows};
const kernel kernel_aten_softmax = {prepare_aten, kernel_run_rows};
const kernel kernel_softmax_grad = {prepare_grad, kernel_run_rows};

/* A line that is -inf throughout gives zeros. */
static weft_status prepare_safe(kernel_prepare *p) {
    TRY(prepare_aten(p));
    p->split.alone = true;
    return NULL;
}
static weft_status run_safe(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    tensor *y = arg_out(c, 0);
    axis_split s = ((const softmax_state *)c->state)->split;
    TRY(kernel_run_rows(c));
    for (int64_t i = 0; i < s.outer * s.inner; i++) {
        int64_t at = i / s.inner * s.extent * s.inner + i % s.inner, k = 0;
        while (k < s.extent && tensor_real(x, at + k * s.inner) == -INFINITY) k++;
        for (int64_t j = 0; k == s.extent && j < k; j++) tensor_set_real(y, at + j * s.inner, 0);
    }
    return NULL;
}
const kernel kernel_aten_safe_softmax = {prepare_safe, run_safe};
