/* typed.h: what kernels of several element types share.
 *
 * Inner loops are written once as macros over a list of types; fp16 and bf16 have no loops of their own: their elements
 * are converted blockwise to fp32, computed there, and rounded once (half_load, half_store). */
#ifndef EXECUTOR_KERNELS_TYPED_H
#define EXECUTOR_KERNELS_TYPED_H

#include <string.h>

#include "base/types.h"
#include "executor/kernel.h"

/* T(dtype, suffix, C type) */
#define REAL_TYPES(T) T(WEFT_FP32, fp32, float) T(WEFT_FP64, fp64, double)
#define WIDE_INT_TYPES(T) T(WEFT_INT32, int32, int32_t) T(WEFT_INT64, int64, int64_t)
#define NARROW_INT_TYPES(T) T(WEFT_INT8, int8, int8_t) T(WEFT_INT16, int16, int16_t) T(WEFT_UINT8, uint8, uint8_t)

/* Before a loop whose iterations do not depend on each other, even when an output is the same array as an input.
 * clang's pragma for it warns of every loop that calls libm; there the compiler's own check at run time has to do. */
#if defined(__clang__)
#define INDEPENDENT
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* Elements that blockwise kernels take at a time: small enough for the stack and the first-level cache. */
enum { BLOCK = 512 };

static inline int64_t block_size(int64_t left) {
    return left < BLOCK ? left : BLOCK;
}
/* The type of a complex type's parts; of another: none. */
static inline weft_dtype dtype_of_parts(weft_dtype d) {
    return d == WEFT_COMPLEX64 ? WEFT_FP32 : d == WEFT_COMPLEX128 ? WEFT_FP64 : WEFT_DTYPE_NONE;
}
static inline bool dtype_is_complex(weft_dtype d) {
    return dtype_of_parts(d) != WEFT_DTYPE_NONE;
}
/* "float32", also for a type that does not exist. */
static inline const char *dtype_text(int32_t d) {
    const char *text_of = weft_dtype_name((weft_dtype)d);
    return text_of ? text_of : "no element type";
}
static inline size_t tensor_nbytes(const tensor *t) {
    return (size_t)t->numel * weft_dtype_nbytes(t->dtype);
}

/* n elements of a half type, `stride` apart (0: one element repeated), as fp32; and back, rounded to nearest even. */
void half_load(weft_dtype dtype, int64_t n, const void *src, int64_t stride, float *dst);
void half_store(weft_dtype dtype, int64_t n, const float *src, void *dst);

/* The first element as double, any as double or int64; for scalars that come as tensors, and where speed does not
 * count. */
double tensor_scalar(const tensor *t);
double tensor_number(const tensor *t, int64_t index);
int64_t tensor_integer(const tensor *t, int64_t index);
/* The same of an argument that says what a kernel does, not what it computes with: a rate, an axis, a bound.
 * Its slot is marked in ops.def ("Axis^"), so that a device with memory of its own knows what has to be on the host
 * first. */
double host_scalar(const kernel_call *c, const tensor *t);
double host_scalar_at(const kernel_call *c, const tensor *t, int64_t index);
int64_t host_integer(const kernel_call *c, const tensor *t, int64_t index);
/* One element of a tensor of complex64 or complex128. */
double _Complex tensor_complex(const tensor *t, int64_t index);
/* One element of a tensor of fp32 or fp64. */
static inline double tensor_real(const tensor *t, int64_t i) {
    return t->dtype == WEFT_FP64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}
static inline void tensor_set_real(tensor *t, int64_t i, double value) {
    if (t->dtype == WEFT_FP64)
        ((double *)t->data)[i] = value;
    else
        ((float *)t->data)[i] = (float)value;
}
/* Stores one element of a tensor of int32 or int64. */
static inline void tensor_set_integer(tensor *t, int64_t i, int64_t value) {
    if (t->dtype == WEFT_INT64)
        ((int64_t *)t->data)[i] = value;
    else
        ((int32_t *)t->data)[i] = (int32_t)value;
}
/* Adds to one element; nothing where the argument is absent. */
static inline void tensor_add_real(tensor *t, int64_t i, double value) {
    if (t) tensor_set_real(t, i, tensor_real(t, i) + value);
}
/* All bytes 0; nothing where the argument is absent, or has no elements. */
static inline void tensor_clear(const tensor *t) {
    if (t && t->numel) memset(t->data, 0, tensor_nbytes(t));
}
/* Sets n elements to a value of the tensor's type; integers are truncated towards zero. */
void fill_elements(weft_dtype dtype, void *dst, int64_t n, double value);
/* memmove that does nothing for equal pointers. */
void copy_bytes(void *dst, const void *src, size_t nbytes);
/* Whether elements of one type can become those of another, and that (cast.c); src and dst do not overlap, or are equal
 * for types of one size. */
bool cast_exists(weft_dtype from, weft_dtype to);
void cast_elements(weft_dtype from, weft_dtype to, int64_t count, const void *src, void *dst);
/* prepare: every argument has the element type of the first; else it refuses. */
WEFT_MUST_USE weft_status require_same_dtype(const kernel_prepare *p, const tensor *first, const tensor *other,
                                             const char *what);
/* prepare: the tensor that an op's attrs spell out (`values`, or 2.6's list of one type), as elements of `dtype`. The
 * memory is the executor's. */
WEFT_MUST_USE weft_status attr_elements(const kernel_prepare *p, weft_dtype dtype, const void **out_elements,
                                        size_t *out_count);

#endif
