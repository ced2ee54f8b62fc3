/* activation.c: functions of one element and their gradients.
 *
 * A kernel is a row: functions for fp32 and fp64 over contiguous runs; half types go through fp32, block by block, and
 * so do integers of which the result is fp32. Outputs may be the same memory as inputs. */
#include <math.h>

#include "executor/kernels/activation/normal_table.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/selected_rows.h"
#include "executor/kernels/typed.h"
#include "executor/kernels/vector_math.h"

/* out[i] = f(x[i]); for gradients out[i] = f(x[i], g[i]), x being X or Out, whichever the gradient is made from. */
typedef void (*unary_fn)(int64_t n, const void *x, void *out);
typedef void (*gradient_fn)(int64_t n, const void *x, const void *g, void *out);

#define DEFINE_UNARY(fn, type, expression)                                                                             \
    static void fn(int64_t n, const void *xv, void *outv) {                                                            \
        const type *xs = xv;                                                                                           \
        type *out = outv;                                                                                              \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            type x = xs[i];                                                                                            \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
    }
#define DEFINE_GRADIENT(fn, type, expression)                                                                          \
    static void fn(int64_t n, const void *xv, const void *gv, void *outv) {                                            \
        const type *xs = xv, *gs = gv;                                                                                 \
        type *out = outv;                                                                                              \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            type x = xs[i], g = gs[i];                                                                                 \
            out[i] = (expression);                                                                                     \
        }                                                                                                              \
    }

#define SQRT_HALF 0.70710678118654752440
#define INVERSE_SQRT_2PI 0.39894228040143267794
#define SQRT_2_OVER_PI 0.79788456080286535588

static inline double gelu_fp64(double x) {
    return 0.5 * x * erfc(-x * SQRT_HALF);
}
static inline double gelu_slope_fp64(double x) {
    return 0.5 * erfc(-x * SQRT_HALF) + x * exp(-0.5 * x * x) * INVERSE_SQRT_2PI;
}
static inline float gelu_tanh_fp32(float x) {
    return 0.5f * x * (1.0f + vm_tanh((float)SQRT_2_OVER_PI * (x + 0.044715f * x * x * x)));
}
static inline double gelu_tanh_fp64(double x) {
    return 0.5 * x * (1.0 + tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}
static inline float gelu_tanh_slope_fp32(float x) {
    float t = vm_tanh((float)SQRT_2_OVER_PI * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * (float)SQRT_2_OVER_PI * (1.0f + 0.134145f * x * x);
}
static inline double gelu_tanh_slope_fp64(double x) {
    double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * SQRT_2_OVER_PI * (1.0 + 0.134145 * x * x);
}

/* F(name, fp32, fp64): forward, of x. relu(NaN) is 0. */
#define FORWARD(F)                                                                                                     \
    F(relu, x > 0 ? x : 0, x > 0 ? x : 0)                                                                              \
    F(tanh, vm_tanh(x), tanh(x))                                                                                       \
    F(sigmoid, 1.0f / (1.0f + vm_exp(-x)), 1.0 / (1.0 + exp(-x)))                                                      \
    F(sqrt, sqrtf(x), sqrt(x))                                                                                         \
    F(square, x *x, x *x)                                                                                              \
    F(real_abs, fabsf(x), fabs(x))                                                                                     \
    F(exp, vm_exp(x), exp(x))                                                                                          \
    F(log, logf(x), log(x))

/* G(name, fp32, fp64): gradient, of g and x. */
#define BACKWARD(G)                                                                                                    \
    G(relu, x > 0 ? g : g * 0, x > 0 ? g : g * 0)                                                                      \
    G(tanh, g *(1 - x * x), g *(1 - x * x))                                                                            \
    G(sigmoid, g *x *(1 - x), g *x *(1 - x))                                                                           \
    G(sqrt, g * 0.5f / x, g * 0.5 / x)                                                                                 \
    G(square, g * 2 * x, g * 2 * x)                                                                                    \
    G(real_abs, x > 0 ? g : x < 0 ? -g : g * x, x > 0 ? g : x < 0 ? -g : g * x)                                        \
    G(exp, g *x, g *x)                                                                                                 \
    G(log, g / x, g / x)

#define DEFINE_FORWARD(name, fp32, fp64)                                                                               \
    DEFINE_UNARY(name##_run_fp32, float, fp32)                                                                         \
    DEFINE_UNARY(name##_run_fp64, double, fp64)
FORWARD(DEFINE_FORWARD)
DEFINE_UNARY(gelu_run_fp64, double, gelu_fp64(x))
DEFINE_FORWARD(gelu_tanh, gelu_tanh_fp32(x), gelu_tanh_fp64(x))
DEFINE_FORWARD(aten_relu, x <= 0 ? 0 : x, x <= 0 ? 0 : x) /* torch keeps NaN */
DEFINE_UNARY(relu_run_int32, int32_t, x > 0 ? x : 0)
DEFINE_UNARY(relu_run_int64, int64_t, x > 0 ? x : 0)
DEFINE_UNARY(square_run_int32, int32_t, (int32_t)((uint32_t)x *(uint32_t)x))
DEFINE_UNARY(square_run_int64, int64_t, (int64_t)((uint64_t)x *(uint64_t)x))
DEFINE_UNARY(real_abs_run_int32, int32_t, (int32_t)(x < 0 ? 0 - (uint32_t)x : (uint32_t)x))
DEFINE_UNARY(real_abs_run_int64, int64_t, (int64_t)(x < 0 ? 0 - (uint64_t)x : (uint64_t)x))

#define DEFINE_BACKWARD(name, fp32, fp64)                                                                              \
    DEFINE_GRADIENT(name##_grad_fp32, float, fp32)                                                                     \
    DEFINE_GRADIENT(name##_grad_fp64, double, fp64)
BACKWARD(DEFINE_BACKWARD)
DEFINE_GRADIENT(gelu_grad_fp64, double, g *gelu_slope_fp64(x))
DEFINE_BACKWARD(gelu_tanh, g *gelu_tanh_slope_fp32(x), g *gelu_tanh_slope_fp64(x))

#if defined(__AVX512F__)
static inline vec gelu_lanes(vec x) {
    return x * (vec)normal_look_up(&normal_below_table, (__m512)x);
}
/* x - x: the formula multiplies an infinite x by a density of 0, which is NaN. */
static inline vec gelu_grad_lanes(vec x, vec g) {
    return g * ((vec)normal_look_up(&gelu_slope_table, (__m512)x) + (x - x));
}
static void gelu_run_fp32(int64_t n, const void *xv, void *outv) {
    const float *x = xv;
    float *out = outv;
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, gelu_lanes(vec_load(x + i)));
    vec_store_first(out + i, gelu_lanes(vec_load_first(x + i, n - i)), n - i);
}
static void gelu_grad_fp32(int64_t n, const void *xv, const void *gv, void *outv) {
    const float *x = xv, *g = gv;
    float *out = outv;
    int64_t i = 0;
    for (; i + VEC <= n; i += VEC) vec_store(out + i, gelu_grad_lanes(vec_load(x + i), vec_load(g + i)));
    vec_store_first(out + i, gelu_grad_lanes(vec_load_first(x + i, n - i), vec_load_first(g + i, n - i)), n - i);
}
#else
static inline float gelu_slope_fp32(float x) {
    float e = vm_exp(-0.5f * x * x);
    return vm_normal_below(x, e) + x * e * (float)INVERSE_SQRT_2PI;
}
DEFINE_UNARY(gelu_run_fp32, float, x *vm_normal_below(x, vm_exp(-0.5f * x * x)))
DEFINE_GRADIENT(gelu_grad_fp32, float, g *gelu_slope_fp32(x))
#endif

/* --- forward ------------------------------------------------------------------------------------------------------ */

typedef struct unary {
    unary_fn fp32, fp64, int32, int64;
} unary;

typedef struct unary_state {
    unary_fn run;
} unary_state;

static void unary_rows(const kernel_call *c, int64_t first, int64_t end) {
    const unary_state *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    element_range e = elements_of(c, x->numel, first, end);
    size_t size = weft_dtype_nbytes(x->dtype), out_size = weft_dtype_nbytes(out->dtype);
    const char *from = (const char *)x->data + (size_t)e.at * size;
    char *to = (char *)out->data + (size_t)e.at * out_size;
    if (x->dtype == out->dtype && !dtype_is_half(x->dtype)) {
        s->run(e.n, from, to);
        return;
    }
    float values[BLOCK];
    for (int64_t i = 0; i < e.n; i += BLOCK) {
        int64_t n = block_size(e.n - i);
        cast_elements(x->dtype, WEFT_FP32, n, from + (size_t)i * size, values);
        s->run(n, values, values);
        cast_elements(WEFT_FP32, out->dtype, n, values, to + (size_t)i * out_size);
    }
}

static weft_status prepare_unary(kernel_prepare *p, const unary *f) {
    unary_state *s = KERNEL_STATE(p, unary_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    bool floats = type_out(p, 0)->dtype == WEFT_FP32 && (x->dtype == WEFT_INT32 || x->dtype == WEFT_INT64);
    TRY(require_same_dtype(p, floats ? &(tensor){.dtype = WEFT_FP32} : x, type_out(p, 0), "output"));
    switch ((int)x->dtype) {
    case WEFT_FP32:
    case WEFT_FP16:
    case WEFT_BF16: s->run = f->fp32; break;
    case WEFT_FP64: s->run = f->fp64; break;
    case WEFT_INT32: s->run = floats ? f->fp32 : f->int32; break;
    case WEFT_INT64: s->run = floats ? f->fp32 : f->int64; break;
    default: break;
    }
    split_elements(p, unary_rows, x->numel);
    p->split.alone = x->height >= 0;
    return s->run ? NULL : kernel_unsupported(p, "no such function of %s", dtype_text(x->dtype));
}

static weft_status run_unary(const kernel_call *c) {
    selected_rows_keep(arg_in(c, 0), arg_out(c, 0));
    return kernel_run_rows(c);
}

#define DEFINE_UNARY_KERNEL(name, ...)                                                                                 \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const unary f = {name##_run_fp32, name##_run_fp64, __VA_ARGS__};                                        \
        return prepare_unary(p, &f);                                                                                   \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, run_unary};
DEFINE_UNARY_KERNEL(relu, relu_run_int32, relu_run_int64)
DEFINE_UNARY_KERNEL(aten_relu, relu_run_int32, relu_run_int64)
DEFINE_UNARY_KERNEL(square, square_run_int32, square_run_int64)
DEFINE_UNARY_KERNEL(real_abs, real_abs_run_int32, real_abs_run_int64)
DEFINE_UNARY_KERNEL(tanh, NULL, NULL)
DEFINE_UNARY_KERNEL(sigmoid, NULL, NULL)
DEFINE_UNARY_KERNEL(sqrt, NULL, NULL)
DEFINE_UNARY_KERNEL(exp, NULL, NULL)
DEFINE_UNARY_KERNEL(log, NULL, NULL)

/* --- abs: also of complex numbers --------------------------------------------------------------------------------- */

/* The parts of a complex tensor, two real numbers for each of numel; of no type where it has none. */
static tensor parts_of(const tensor *t) {
    tensor parts = *t;
    parts.dtype = t->dtype == WEFT_COMPLEX64 ? WEFT_FP32 : t->dtype == WEFT_COMPLEX128 ? WEFT_FP64 : WEFT_DTYPE_NONE;
    return parts;
}

static void complex_abs_rows(const kernel_call *c, int64_t first, int64_t end) {
    tensor parts = parts_of(arg_in(c, 0));
    element_range e = elements_of(c, parts.numel, first, end);
    for (int64_t i = e.at; i < e.at + e.n; i++)
        tensor_set_real(arg_out(c, 0), i, hypot(tensor_real(&parts, 2 * i), tensor_real(&parts, 2 * i + 1)));
}

static weft_status prepare_abs(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    tensor parts = parts_of(x);
    if (parts.dtype == WEFT_DTYPE_NONE) return prepare_real_abs(p);
    TRY(require_same_dtype(p, &parts, out, "output"));
    split_elements(p, complex_abs_rows, x->numel);
    return out->numel == x->numel ? NULL : kernel_unsupported(p, "expected as many elements in the output as in X");
}
const kernel kernel_abs = {prepare_abs, run_unary};

static weft_status prepare_gelu(kernel_prepare *p) {
    static const unary by_erf = {gelu_run_fp32, gelu_run_fp64, NULL, NULL};
    static const unary by_tanh = {gelu_tanh_run_fp32, gelu_tanh_run_fp64, NULL, NULL};
    return prepare_unary(p, attr_bool(p->op, "approximate", false) ? &by_tanh : &by_erf);
}
const kernel kernel_gelu = {prepare_gelu, kernel_run_rows};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

enum { SOURCE, DOUT }; /* X or Out, then Out@GRAD */

typedef struct gradient_state {
    gradient_fn run;
} gradient_state;

static void gradient_rows(const kernel_call *c, int64_t first, int64_t end) {
    const gradient_state *s = c->state;
    const tensor *x = arg_in(c, SOURCE), *g = arg_in(c, DOUT), *d = arg_out(c, 0);
    element_range e = elements_of(c, x->numel, first, end);
    size_t at = (size_t)e.at * weft_dtype_nbytes(x->dtype);
    const char *xs = (const char *)x->data + at, *gs = (const char *)g->data + at;
    char *to = (char *)d->data + at;
    if (!dtype_is_half(x->dtype)) {
        s->run(e.n, xs, gs, to);
        return;
    }
    float a[BLOCK], b[BLOCK];
    for (int64_t i = 0; i < e.n; i += BLOCK) {
        int64_t n = block_size(e.n - i);
        half_load(x->dtype, n, (const uint16_t *)(const void *)xs + i, 1, a);
        half_load(x->dtype, n, (const uint16_t *)(const void *)gs + i, 1, b);
        s->run(n, a, b, a);
        half_store(x->dtype, n, a, (uint16_t *)(void *)to + i);
    }
}

static weft_status prepare_gradient(kernel_prepare *p, gradient_fn fp32, gradient_fn fp64) {
    gradient_state *s = KERNEL_STATE(p, gradient_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, SOURCE), *dout = type_in(p, DOUT);
    if (!dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(x->dtype));
    TRY(require_same_dtype(p, x, dout, "Out@GRAD"));
    if (x->numel != dout->numel) return kernel_unsupported(p, "expected as many elements in Out@GRAD as in X or Out");
    s->run = x->dtype == WEFT_FP64 ? fp64 : fp32;
    split_elements(p, gradient_rows, x->numel);
    return NULL;
}

#define DEFINE_GRADIENT_KERNEL(name, fp32, fp64)                                                                       \
    static weft_status prepare_##name##_grad(kernel_prepare *p) {                                                      \
        return prepare_gradient(p, name##_grad_fp32, name##_grad_fp64);                                                \
    }                                                                                                                  \
    const kernel kernel_##name##_grad = {prepare_##name##_grad, kernel_run_rows};
BACKWARD(DEFINE_GRADIENT_KERNEL)

/* g X / |X|, 0 at 0. */
static void complex_abs_grad_rows(const kernel_call *c, int64_t first, int64_t end) {
    tensor parts = parts_of(arg_in(c, SOURCE)), slopes = parts_of(arg_out(c, 0));
    element_range e = elements_of(c, parts.numel, first, end);
    for (int64_t i = e.at; i < e.at + e.n; i++) {
        double re = tensor_real(&parts, 2 * i), im = tensor_real(&parts, 2 * i + 1), size = hypot(re, im);
        double g = size == 0 ? 0 : tensor_real(arg_in(c, DOUT), i) / size;
        tensor_set_real(&slopes, 2 * i, size == 0 ? 0 : g * re);
        tensor_set_real(&slopes, 2 * i + 1, size == 0 ? 0 : g * im);
    }
}

static weft_status prepare_abs_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, SOURCE), *g = type_in(p, DOUT);
    tensor parts = parts_of(x);
    if (parts.dtype == WEFT_DTYPE_NONE) return prepare_real_abs_grad(p);
    TRY(require_same_dtype(p, &parts, g, "Out@GRAD"));
    TRY(require_same_dtype(p, x, type_out(p, 0), "X@GRAD"));
    split_elements(p, complex_abs_grad_rows, x->numel);
    return g->numel == x->numel ? NULL : kernel_unsupported(p, "expected as many elements in Out@GRAD as in X");
}
const kernel kernel_abs_grad = {prepare_abs_grad, kernel_run_rows};

static weft_status prepare_gelu_grad(kernel_prepare *p) {
    return attr_bool(p->op, "approximate", false) ? prepare_gradient(p, gelu_tanh_grad_fp32, gelu_tanh_grad_fp64)
                                                  : prepare_gradient(p, gelu_grad_fp32, gelu_grad_fp64);
}
const kernel kernel_gelu_grad = {prepare_gelu_grad, kernel_run_rows};
