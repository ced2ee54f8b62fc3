/* aten_pair.h: kernels of one element of each of two operands at a time, with torch's promotion (aten_pointwise.c). */
#ifndef EXECUTOR_KERNELS_ELEMENTWISE_ATEN_PAIR_H
#define EXECUTOR_KERNELS_ELEMENTWISE_ATEN_PAIR_H

#include "executor/kernels/layout.h"
#include "executor/kernels/rows.h"

/* An element of the widest computing type. */
typedef union element {
    float fp32;
    double fp64;
    int64_t int64;
} element;

enum { PAIR_PARAMETERS = 3 };

/* out[i] of a[i] and b[i], or b[0] where bs is 0; out may be a or b. */
typedef void (*pair_fn)(int64_t n, const void *a, const void *b, int bs, const element *parameters, void *out);

#define DEFINE_PAIR(fn, type, expression)                                                                              \
    static void fn(int64_t n, const void *av, const void *bv, int bs, const element *parameters, void *outv) {         \
        const type *as = av, *bvs = bv;                                                                                \
        type *out = outv, alpha = *(const type *)&parameters[0], beta = *(const type *)&parameters[1],                 \
             gamma = *(const type *)&parameters[2], b0 = bvs[0];                                                       \
        (void)alpha, (void)beta, (void)gamma, (void)b0;                                                                \
        if (bs) {                                                                                                      \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                              \
                type a = as[i], b = bvs[i];                                                                            \
                (void)a, (void)b;                                                                                      \
                out[i] = (type)(expression);                                                                           \
            }                                                                                                          \
        } else {                                                                                                       \
            INDEPENDENT for (int64_t i = 0; i < n; i++) {                                                              \
                type a = as[i], b = b0;                                                                                \
                (void)a, (void)b;                                                                                      \
                out[i] = (type)(expression);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

/* A function by computing type; NULL: not of that type. */
typedef struct pair_function {
    pair_fn fp32, fp64, int64;
    bool compares; /* it computes in the first operand's type, and gives booleans */
} pair_function;

#define ALL(name, compares)                                                                                            \
    { name##_fp32, name##_fp64, name##_int64, compares }
#define FLOATS(name)                                                                                                   \
    { name##_fp32, name##_fp64, NULL, false }
#define INTEGERS(name)                                                                                                 \
    { NULL, NULL, name##_int64, false }

/* Of two tensors that broadcast. `parameters`: attrs, up to the first NULL. */
WEFT_MUST_USE weft_status pair_prepare(kernel_prepare *p, const pair_function *f,
                                       const char *const parameters[PAIR_PARAMETERS]);
/* Of a tensor and the number in `attr`; NULL: of a tensor alone. */
WEFT_MUST_USE weft_status pair_prepare_number(kernel_prepare *p, const pair_function *f, const char *attr,
                                              const char *const parameters[PAIR_PARAMETERS]);
/* Of each tensor of the first slot and a number: `scalar`, or one of `scalars` for each. */
WEFT_MUST_USE weft_status pair_prepare_numbers(kernel_prepare *p, const pair_function *f);
/* Of each tensor of the first slot and one of the second, or the only one there. */
WEFT_MUST_USE weft_status pair_prepare_lists(kernel_prepare *p, const pair_function *f,
                                             const char *const parameters[PAIR_PARAMETERS]);
WEFT_MUST_USE weft_status pair_run_each(const kernel_call *c); /* what the last two prepare */

/* kernel_aten_<name>: attrs behind the function are its parameters. */
#define DEFINE_PAIR_KERNEL(name, function, ...)                                                                        \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pair_function f = function;                                                                       \
        return pair_prepare(p, &f, (const char *const[PAIR_PARAMETERS]){__VA_ARGS__});                                 \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, kernel_run_rows};
#define DEFINE_NUMBER_KERNEL(name, function, attr, ...)                                                                \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pair_function f = function;                                                                       \
        return pair_prepare_number(p, &f, attr, (const char *const[PAIR_PARAMETERS]){__VA_ARGS__});                    \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, kernel_run_rows};
#define DEFINE_NUMBERS_KERNEL(name, function)                                                                          \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pair_function f = function;                                                                       \
        return pair_prepare_numbers(p, &f);                                                                            \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, pair_run_each};
#define DEFINE_LISTS_KERNEL(name, function, ...)                                                                       \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const pair_function f = function;                                                                       \
        return pair_prepare_lists(p, &f, (const char *const[PAIR_PARAMETERS]){__VA_ARGS__});                           \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, pair_run_each};

#endif
