/* pointwise.h: how a kernel of one element is written: an expression for fp32, one for fp64, parameters from attrs. */
#ifndef EXECUTOR_KERNELS_ACTIVATION_POINTWISE_H
#define EXECUTOR_KERNELS_ACTIVATION_POINTWISE_H

#include "executor/kernels/typed.h"

enum { PARAMETERS = 3 };

/* out[i] of x[i] and, in a gradient, g[i]; p are the parameters. `out` may be x or g. */
typedef void (*pointwise_fn)(int64_t n, const double *p, const void *x, const void *g, void *out);

#define DEFINE_FORWARD(fn, type, expression)                                                                           \
    static void fn(int64_t n, const double *p, const void *xv, const void *gv, void *outv) {                           \
        const type *xs = xv;                                                                                           \
        type *out = outv, a = (type)p[0], b = (type)p[1], c = (type)p[2];                                              \
        (void)gv, (void)a, (void)b, (void)c;                                                                           \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            type x = xs[i];                                                                                            \
            out[i] = (type)(expression);                                                                               \
        }                                                                                                              \
    }
#define DEFINE_BACKWARD(fn, type, expression)                                                                          \
    static void fn(int64_t n, const double *p, const void *xv, const void *gv, void *outv) {                           \
        const type *xs = xv, *gs = gv;                                                                                 \
        type *out = outv, a = (type)p[0], b = (type)p[1], c = (type)p[2];                                              \
        (void)a, (void)b, (void)c;                                                                                     \
        INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                                  \
            type x = xs[i], g = gs[i];                                                                                 \
            (void)x;                                                                                                   \
            out[i] = (type)(expression);                                                                               \
        }                                                                                                              \
    }

/* Both of an op, from a row of its table. */
#define DEFINE_FORWARDS(name, fp32, fp64)                                                                              \
    DEFINE_FORWARD(name##_fp32, float, fp32)                                                                           \
    DEFINE_FORWARD(name##_fp64, double, fp64)
#define DEFINE_BACKWARDS(name, fp32, fp64)                                                                             \
    DEFINE_BACKWARD(name##_grad_fp32, float, fp32)                                                                     \
    DEFINE_BACKWARD(name##_grad_fp64, double, fp64)

/* The runs of one op; half types use fp32's. */
typedef struct pointwise_runs {
    pointwise_fn fp32, fp64, int32, int64;
} pointwise_runs;

/* prepare: a kernel on its first argument; a gradient on X, Out or neither, whichever its row in ops.def has. */
WEFT_MUST_USE weft_status pointwise_prepare(kernel_prepare *p, const pointwise_runs *f);
WEFT_MUST_USE weft_status pointwise_prepare_gradient(kernel_prepare *p, pointwise_fn fp32, pointwise_fn fp64);

#define DEFINE_POINTWISE(name, fp32, fp64)                                                                             \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pointwise_runs f = {name##_fp32, name##_fp64, NULL, NULL};                                        \
        return pointwise_prepare(p, &f);                                                                               \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, kernel_run_rows};
#define DEFINE_INTEGER_POINTWISE(name, fp32, fp64, integer)                                                            \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pointwise_runs f = {name##_fp32, name##_fp64, name##_int32, name##_int64};                        \
        return pointwise_prepare(p, &f);                                                                               \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, kernel_run_rows};
#define DEFINE_POINTWISE_GRADIENT(name, fp32, fp64)                                                                    \
    static weft_status prepare_##name##_grad(kernel_prepare *p) {                                                      \
        return pointwise_prepare_gradient(p, name##_grad_fp32, name##_grad_fp64);                                      \
    }                                                                                                                  \
    const kernel kernel_##name##_grad = {prepare_##name##_grad, kernel_run_rows};

#endif
