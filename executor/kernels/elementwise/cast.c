/* cast.c: another element type. Floats truncate towards zero to integers, round to nearest even to narrower floats;
 * integers wrap; everything but 0 is true. In programs of Paddle 2 casts to bf16 cut off. */
#include "executor/kernels/typed.h"

typedef uint8_t boolean; /* 0 or 1 */

/* One loop a pair of types. TO(T, from): the types to convert to, each with the one to convert from. */
#define FROM(T)                                                                                                        \
    T(WEFT_BOOL, boolean, boolean)                                                                                     \
    REAL_TYPES(T)                                                                                                      \
    WIDE_INT_TYPES(T)                                                                                                  \
    NARROW_INT_TYPES(T)

static inline int64_t real_to_integer(double v) {
    return v >= 0x1p63 || v < -0x1p63 || v != v ? INT64_MIN : (int64_t)v;
}

#define CONVERT(name, from, to, expression)                                                                            \
    static void name(int64_t n, const void *src, void *dst) {                                                          \
        const from *s = src;                                                                                           \
        to *d = dst;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            from v = s[i];                                                                                             \
            d[i] = (to)(expression);                                                                                   \
        }                                                                                                              \
    }
#define FROM_NUMBER(dtype, suffix, from)                                                                               \
    CONVERT(suffix##_to_fp32, from, float, v)                                                                          \
    CONVERT(suffix##_to_fp64, from, double, v)                                                                         \
    CONVERT(suffix##_to_boolean, from, boolean, v != 0)
#define FROM_REAL(dtype, suffix, from)                                                                                 \
    CONVERT(suffix##_to_int32, from, int32_t, real_to_integer((double)v))                                              \
    CONVERT(suffix##_to_int64, from, int64_t, real_to_integer((double)v))                                              \
    CONVERT(suffix##_to_int8, from, int8_t, real_to_integer((double)v))                                                \
    CONVERT(suffix##_to_int16, from, int16_t, real_to_integer((double)v))                                              \
    CONVERT(suffix##_to_uint8, from, uint8_t, real_to_integer((double)v))
#define FROM_INTEGER(dtype, suffix, from)                                                                              \
    CONVERT(suffix##_to_int32, from, int32_t, v)                                                                       \
    CONVERT(suffix##_to_int64, from, int64_t, v)                                                                       \
    CONVERT(suffix##_to_int8, from, int8_t, v)                                                                         \
    CONVERT(suffix##_to_int16, from, int16_t, v)                                                                       \
    CONVERT(suffix##_to_uint8, from, uint8_t, v)
FROM(FROM_NUMBER)
REAL_TYPES(FROM_REAL)
WIDE_INT_TYPES(FROM_INTEGER)
NARROW_INT_TYPES(FROM_INTEGER)
FROM_INTEGER(WEFT_BOOL, boolean, boolean)

typedef void (*convert_fn)(int64_t n, const void *src, void *dst);

static convert_fn find_conversion(weft_dtype from, weft_dtype to) {
    switch ((int)from) {
#define CASE(dtype, suffix, type)                                                                                      \
    case dtype:                                                                                                        \
        switch ((int)to) {                                                                                             \
        case WEFT_BOOL: return suffix##_to_boolean;                                                                    \
        case WEFT_FP32: return suffix##_to_fp32;                                                                       \
        case WEFT_FP64: return suffix##_to_fp64;                                                                       \
        case WEFT_INT8: return suffix##_to_int8;                                                                       \
        case WEFT_INT16: return suffix##_to_int16;                                                                     \
        case WEFT_INT32: return suffix##_to_int32;                                                                     \
        case WEFT_INT64: return suffix##_to_int64;                                                                     \
        case WEFT_UINT8: return suffix##_to_uint8;                                                                     \
        default: return NULL;                                                                                          \
        }
        FROM(CASE)
#undef CASE
    default: return NULL;
    }
}

static weft_dtype full_type(weft_dtype d) {
    return dtype_is_half(d) ? WEFT_FP32 : dtype_is_complex(d) ? dtype_of_parts(d) : d;
}

/* Whether a complex number is 0 its real part does not tell. */
bool cast_exists(weft_dtype from, weft_dtype to) {
    return find_conversion(full_type(from), full_type(to)) && !(dtype_is_complex(from) && to == WEFT_BOOL);
}

/* n parts, every so many bytes; zeros where there is no src. */
static void move_parts(size_t size, int64_t n, const char *src, size_t src_step, char *dst, size_t dst_step) {
    for (int64_t i = 0; i < n; i++, dst += dst_step) {
        if (src)
            memcpy(dst, src + (size_t)i * src_step, size);
        else
            memset(dst, 0, size);
    }
}

/* To and from complex types: part by part; a real number is its own real part. */
static void cast_parts(weft_dtype from, weft_dtype to, int64_t count, const void *src, void *dst) {
    _Alignas(64) char part[2][BLOCK * sizeof(double)];
    weft_dtype part_from = full_type(from), part_to = full_type(to);
    size_t from_nbytes = weft_dtype_nbytes(from), to_nbytes = weft_dtype_nbytes(to);
    size_t from_size = weft_dtype_nbytes(part_from), to_size = weft_dtype_nbytes(part_to);
    for (int64_t i = 0; i < count; i += BLOCK)
        for (int k = 0; k < (dtype_is_complex(to) ? 2 : 1); k++) {
            int64_t n = block_size(count - i);
            const char *s = (const char *)src + (size_t)i * from_nbytes + (size_t)k * from_size;
            char *d = (char *)dst + (size_t)i * to_nbytes + (size_t)k * to_size;
            move_parts(from_size, n, k && !dtype_is_complex(from) ? NULL : s, from_nbytes, part[0], from_size);
            find_conversion(part_from, part_to)(n, part[0], part[1]);
            move_parts(to_size, n, part[1], to_size, d, to_nbytes);
        }
}

void cast_elements(weft_dtype from, weft_dtype to, int64_t count, const void *src, void *dst) {
    size_t size = weft_dtype_nbytes(from), out_size = weft_dtype_nbytes(to);
    if (from == to) {
        copy_bytes(dst, src, (size_t)count * size);
        return;
    }
    convert_fn convert = find_conversion(full_type(from), full_type(to)); /* fp32 stands for a half type */
    if (!convert) return;
    if (dtype_is_complex(from) || dtype_is_complex(to)) {
        cast_parts(from, to, count, src, dst);
        return;
    }
    if (!dtype_is_half(from) && !dtype_is_half(to)) {
        convert(count, src, dst);
        return;
    }
    float wide[BLOCK], result[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t n = block_size(count - i);
        const void *s = (const char *)src + (size_t)i * size;
        void *d = (char *)dst + (size_t)i * out_size;
        if (dtype_is_half(from)) half_load(from, n, s, 1, wide);
        convert(n, dtype_is_half(from) ? wide : s, dtype_is_half(to) ? result : d);
        if (dtype_is_half(to)) half_store(to, n, result, d);
    }
}

typedef struct cast_state {
    bool cuts; /* to bf16 by cutting off what does not fit: programs of Paddle 2 */
} cast_state;

static void cast_cutting(weft_dtype from, int64_t count, const void *src, void *dst) {
    size_t size = weft_dtype_nbytes(from);
    uint16_t *to = dst;
    uint32_t bits[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t n = block_size(count - i);
        cast_elements(from, WEFT_FP32, n, (const char *)src + (size_t)i * size, bits);
        for (int64_t k = 0; k < n; k++) {
            bool is_nan = (bits[k] & INT32_MAX) > 0x7f800000;
            to[i + k] = (uint16_t)(bits[k] >> 16 | (is_nan ? 0x40 : 0));
        }
    }
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    cast_state *s = KERNEL_STATE(p, cast_state);
    if (!s) return base_out_of_memory();
    s->cuts = p->older && out->dtype == WEFT_BF16 && x->dtype != WEFT_BF16;
    if (cast_exists(x->dtype, out->dtype) && x->numel == out->numel) return NULL;
    return kernel_unsupported(p, "no cast from %s to %s", dtype_text(x->dtype), dtype_text(out->dtype));
}

static weft_status run(const kernel_call *c) {
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    if (x->rows && out->rows) copy_bytes(out->rows, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
    if (((const cast_state *)c->state)->cuts)
        cast_cutting(x->dtype, x->numel, x->data, out->data);
    else
        cast_elements(x->dtype, out->dtype, x->numel, x->data, out->data);
    return NULL;
}

const kernel kernel_cast = {prepare, run};
