/* typed.c: reading, filling and copying elements whose type is known only at run time. */
#include "executor/kernels/typed.h"

#include <assert.h>
#include <math.h>

double tensor_scalar(const tensor *t) {
    switch ((int)t->dtype) {
#define CASE(dtype, suffix, type)                                                                                      \
    case dtype: return (double)*(const type *)t->data;
        REAL_TYPES(CASE)
        WIDE_INT_TYPES(CASE)
        NARROW_INT_TYPES(CASE)
#undef CASE
    case WEFT_BOOL: return *(const uint8_t *)t->data ? 1 : 0;
    case WEFT_BF16: return (double)bf16_to_f32(*(const uint16_t *)t->data);
    case WEFT_FP16: return (double)fp16_to_f32(*(const uint16_t *)t->data);
    default: return NAN; /* of a complex number: kernels refuse it, and one that forgot to does not go unseen */
    }
}

double tensor_number(const tensor *t, int64_t index) {
    tensor element = *t;
    element.data = (char *)t->data + (size_t)index * weft_dtype_nbytes(t->dtype);
    return tensor_scalar(&element);
}

int64_t tensor_integer(const tensor *t, int64_t index) {
    if (t->dtype == WEFT_INT64) return ((const int64_t *)t->data)[index];
    if (t->dtype == WEFT_INT32) return ((const int32_t *)t->data)[index];
    return (int64_t)tensor_number(t, index);
}

double _Complex tensor_complex(const tensor *t, int64_t index) {
    if (t->dtype == WEFT_COMPLEX128) return ((const double _Complex *)t->data)[index];
    return ((const float _Complex *)t->data)[index];
}

/* A slot that is not marked is a mistake in ops.def: another device would not have brought the value to the host. */
static void check_host_read(const kernel_call *c, const tensor *t) {
    size_t at = (size_t)(t - c->in), s = 0;
    while (s + 1 < c->schema->ninputs && c->in_first[s + 1] <= at) s++;
    assert(c->schema->inputs[s].host_read);
    (void)s;
}

double host_scalar(const kernel_call *c, const tensor *t) {
    return host_scalar_at(c, t, 0);
}

double host_scalar_at(const kernel_call *c, const tensor *t, int64_t index) {
    check_host_read(c, t);
    return tensor_number(t, index);
}

int64_t host_integer(const kernel_call *c, const tensor *t, int64_t index) {
    check_host_read(c, t);
    return tensor_integer(t, index);
}

/* A double as an integer: truncated, and the type's extremes beyond its range. */
static int64_t to_int64(double value) {
    if (value != value) return INT64_MIN;
    if (value >= 0x1p63) return INT64_MAX;
    if (value <= -0x1p63) return INT64_MIN;
    return (int64_t)value;
}

void fill_elements(weft_dtype dtype, void *dst, int64_t n, double value) {
    switch ((int)dtype) {
#define CASE_REAL(dt, suffix, type)                                                                                    \
    case dt: {                                                                                                         \
        type v = (type)value, *d = dst;                                                                                \
        for (int64_t i = 0; i < n; i++) d[i] = v;                                                                      \
        break;                                                                                                         \
    }
#define CASE_INT(dt, suffix, type)                                                                                     \
    case dt: {                                                                                                         \
        type v = (type)to_int64(value), *d = dst;                                                                      \
        for (int64_t i = 0; i < n; i++) d[i] = v;                                                                      \
        break;                                                                                                         \
    }
        REAL_TYPES(CASE_REAL)
        WIDE_INT_TYPES(CASE_INT)
        NARROW_INT_TYPES(CASE_INT)
#undef CASE_REAL
#undef CASE_INT
    case WEFT_BOOL: memset(dst, value != 0, (size_t)n); break;
    case WEFT_BF16:
    case WEFT_FP16: {
        uint16_t v = dtype == WEFT_BF16 ? f32_to_bf16((float)value) : f32_to_fp16((float)value), *d = dst;
        for (int64_t i = 0; i < n; i++) d[i] = v;
        break;
    }
    case WEFT_COMPLEX64:
        for (int64_t i = 0; i < 2 * n; i++) ((float *)dst)[i] = i % 2 ? 0 : (float)value;
        break;
    case WEFT_COMPLEX128:
        for (int64_t i = 0; i < 2 * n; i++) ((double *)dst)[i] = i % 2 ? 0 : value;
        break;
    default: break;
    }
}

void copy_bytes(void *dst, const void *src, size_t nbytes) {
    if (dst != src && nbytes) memmove(dst, src, nbytes);
}

weft_status require_same_dtype(const kernel_prepare *p, const tensor *first, const tensor *other, const char *what) {
    if (!first || !other || first->dtype == other->dtype) return NULL;
    return kernel_unsupported(p, "expected %s of %s, found %s", what, dtype_text(first->dtype),
                              dtype_text(other->dtype));
}
