/* arg_max.c: index of the first largest or smallest element along an axis, or of the whole tensor. */
#include <math.h>

#include "executor/kernels/typed.h"

typedef struct state {
    int64_t outer, extent, inner; /* X as [outer, extent, inner] */
    bool smallest;
} state;

static weft_status prepare_index(kernel_prepare *p, bool smallest) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    int64_t axis = attr_int(p->op, "axis", -1);
    *s = (state){1, x->numel, 1, smallest};
    if (!attr_bool(p->op, "flatten", false) && x->ndim > 0) {
        axis += axis < 0 ? x->ndim : 0;
        if (axis < 0 || axis >= x->ndim) return kernel_unsupported(p, "expected axis in [-%d, %d)", x->ndim, x->ndim);
        s->extent = x->dims[axis];
        for (int64_t i = 0; i < axis; i++) s->outer *= x->dims[i];
        for (int64_t i = axis + 1; i < x->ndim; i++) s->inner *= x->dims[i];
    }
    if (s->extent == 0) return kernel_unsupported(p, "expected an axis with elements");
    if (out->dtype != WEFT_INT32 && out->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected indices of int32 or int64, found %s", dtype_text(out->dtype));
    bool number =
        dtype_is_float(x->dtype) || x->dtype == WEFT_INT32 || x->dtype == WEFT_INT64 || x->dtype == WEFT_UINT8;
    return number ? NULL : kernel_unsupported(p, "no arg_max of %s", dtype_text(x->dtype));
}

static weft_status prepare_max(kernel_prepare *p) {
    return prepare_index(p, false);
}
static weft_status prepare_min(kernel_prepare *p) {
    return prepare_index(p, true);
}

/* The first NaN, else the first largest (or smallest) of `extent` elements, `stride` apart. */
#define DEFINE_BEST(fn, type, value, is_nan)                                                                           \
    static int64_t fn(const type *x, int64_t extent, int64_t stride, bool smallest) {                                  \
        int64_t best = 0;                                                                                              \
        for (int64_t i = 0; i < extent; i++) {                                                                         \
            if (is_nan(value(x[i * stride]))) return i;                                                                \
            if (smallest ? value(x[i * stride]) < value(x[best * stride])                                              \
                         : value(x[i * stride]) > value(x[best * stride]))                                             \
                best = i;                                                                                              \
        }                                                                                                              \
        return best;                                                                                                   \
    }
#define NEVER(value) false
DEFINE_BEST(best_fp32, float, , isnan)
DEFINE_BEST(best_fp64, double, , isnan)
DEFINE_BEST(best_int32, int32_t, , NEVER)
DEFINE_BEST(best_int64, int64_t, , NEVER)
DEFINE_BEST(best_uint8, uint8_t, , NEVER)
DEFINE_BEST(best_bf16, uint16_t, bf16_to_f32, isnan)
DEFINE_BEST(best_fp16, uint16_t, fp16_to_f32, isnan)

static int64_t best(const tensor *x, int64_t at, const state *s) {
    const void *from = (const char *)x->data + (size_t)at * weft_dtype_nbytes(x->dtype);
    switch ((int)x->dtype) {
    case WEFT_FP32: return best_fp32(from, s->extent, s->inner, s->smallest);
    case WEFT_FP64: return best_fp64(from, s->extent, s->inner, s->smallest);
    case WEFT_INT32: return best_int32(from, s->extent, s->inner, s->smallest);
    case WEFT_INT64: return best_int64(from, s->extent, s->inner, s->smallest);
    case WEFT_UINT8: return best_uint8(from, s->extent, s->inner, s->smallest);
    case WEFT_BF16: return best_bf16(from, s->extent, s->inner, s->smallest);
    default: return best_fp16(from, s->extent, s->inner, s->smallest);
    }
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    for (int64_t i = 0; i < s->outer; i++)
        for (int64_t j = 0; j < s->inner; j++) {
            int64_t index = best(x, i * s->extent * s->inner + j, s);
            if (out->dtype == WEFT_INT64) {
                ((int64_t *)out->data)[i * s->inner + j] = index;
            } else {
                ((int32_t *)out->data)[i * s->inner + j] = (int32_t)index;
            }
        }
    return NULL;
}

const kernel kernel_arg_max = {prepare_max, run};
const kernel kernel_arg_min = {prepare_min, run};
