/* scale.c: X * scale + bias, and increment.
 *
 * On integers scale, bias and step are truncated to integers first, as Paddle does. A SelectedRows X is scaled row by
 * row and keeps its rows. */
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"

enum { X, SCALE_TENSOR, BIAS_TENSOR };

typedef struct state {
    double scale, bias;
    bool bias_after, has_tensors; /* has_tensors: ScaleTensor and BiasTensor are slots of the op */
} state;

/* (x + before) * scale + after: one of the biases is 0. */
#define DEFINE_SCALE(dtype, suffix, type)                                                                              \
    static void scale_##suffix(int64_t n, const type *x, type scale, type before, type after, type *out) {             \
        if (before == 0) {                                                                                             \
            INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = (type)(x[i] * scale + after);                         \
        } else {                                                                                                       \
            INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = (type)((x[i] + before) * scale);                      \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_SCALE)
#undef DEFINE_SCALE
#define DEFINE_SCALE(dtype, suffix, type)                                                                              \
    static void scale_##suffix(int64_t n, const type *x, type scale, type before, type after, type *out) {             \
        INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] =                                                           \
            (type)(((uint64_t)x[i] + (uint64_t)before) * (uint64_t)scale + (uint64_t)after);                           \
    }
WIDE_INT_TYPES(DEFINE_SCALE)
NARROW_INT_TYPES(DEFINE_SCALE)
#undef DEFINE_SCALE

static void scale_half(weft_dtype dtype, int64_t n, const uint16_t *x, float scale, float before, float after,
                       uint16_t *out) {
    float values[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t part = block_size(n - i);
        half_load(dtype, part, x + i, 1, values);
        scale_fp32(part, values, scale, before, after, values);
        half_store(dtype, part, values, out + i);
    }
}

static weft_status require_number(kernel_prepare *p) {
    const tensor *x = type_in(p, X), *out = type_out(p, 0);
    TRY(require_same_dtype(p, x, out, "output"));
    if (dtype_is_float(x->dtype)) return NULL;
    switch ((int)x->dtype) {
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT16:
    case WEFT_INT32:
    case WEFT_INT64: return NULL;
    default: return kernel_unsupported(p, "expected a type of numbers, found %s", dtype_text(x->dtype));
    }
}

static void scale_rows(const kernel_call *c, int64_t first, int64_t end) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X), *out = arg_out(c, 0);
    const tensor *factor = s->has_tensors ? arg_in(c, SCALE_TENSOR) : NULL;
    const tensor *addend = s->has_tensors ? arg_in(c, BIAS_TENSOR) : NULL;
    double scale = factor ? host_scalar(c, factor) : s->scale, bias = addend ? host_scalar(c, addend) : s->bias;
    double before = s->bias_after ? 0 : bias, after = s->bias_after ? bias : 0;
    element_range e = elements_of(c, x->numel, first, end);
    size_t at = (size_t)e.at * weft_dtype_nbytes(x->dtype);
    const void *from = (const char *)x->data + at;
    void *to = (char *)out->data + at;
    switch ((int)x->dtype) {
#define CASE(dtype, suffix, type)                                                                                      \
    case dtype: scale_##suffix(e.n, from, (type)scale, (type)before, (type)after, to); break;
        REAL_TYPES(CASE)
        WIDE_INT_TYPES(CASE)
        NARROW_INT_TYPES(CASE)
#undef CASE
    default: scale_half(x->dtype, e.n, from, (float)scale, (float)before, (float)after, to);
    }
}

static weft_status prepare_scale(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    TRY(require_number(p));
    s->scale = attr_float(p->op, "scale", 1.0);
    s->bias = attr_float(p->op, "bias", 0.0);
    s->bias_after = attr_bool(p->op, "bias_after_scale", true);
    s->has_tensors = true;
    split_elements(p, scale_rows, type_in(p, X)->numel);
    p->split.alone = type_in(p, X)->height >= 0;
    return NULL;
}

static weft_status prepare_increment(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    TRY(require_number(p));
    *s = (state){.scale = 1.0, .bias = attr_float(p->op, "step", 1.0), .bias_after = true};
    split_elements(p, scale_rows, type_in(p, X)->numel);
    p->split.alone = type_in(p, X)->height >= 0;
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const tensor *x = arg_in(c, X), *out = arg_out(c, 0);
    if (x->rows && out->rows) copy_bytes(out->rows, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
    return kernel_run_rows(c);
}

const kernel kernel_scale = {prepare_scale, run};
const kernel kernel_increment = {prepare_increment, run};
