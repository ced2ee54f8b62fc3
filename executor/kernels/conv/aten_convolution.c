/* aten_convolution.c: convolution of one to three spatial dimensions, transposed or not, with a bias, and its
 * gradients: Paddle's kernels do the work, images of fp32 by conv2d's, others by conv3d's (torch:
 * aten/src/ATen/native/Convolution.cpp). */
#include "executor/kernels/borrow.h"
#include "executor/kernels/layout.h"

extern const kernel kernel_conv2d, kernel_conv2d_grad, kernel_conv2d_transpose, kernel_conv2d_transpose_grad;
extern const kernel kernel_conv3d, kernel_conv3d_grad, kernel_conv3d_transpose, kernel_conv3d_transpose_grad;

enum { IN_INPUT, IN_WEIGHT, IN_BIAS, GRAD_IN_GRAD = 0, GRAD_IN_INPUT, GRAD_IN_WEIGHT };
enum { OUT, GRAD_OUT_INPUT = 0, GRAD_OUT_WEIGHT, GRAD_OUT_BIAS };

/* The bias is added here, or summed. */
typedef struct convolution_state {
    borrowed conv;
    bool runs; /* there is something for the borrowed kernel to do */
} convolution_state;

static bool is_image(const tensor *x) {
    return x->ndim == 4 && x->dtype == WEFT_FP32;
}

static weft_status check_bias(const kernel_prepare *p, const tensor *y, const tensor *bias, const char *what) {
    if (y->ndim < 3) return kernel_unsupported(p, "expected tensors of one to three spatial dimensions");
    return require_like(p, y, bias, y->dims[1], what);
}

/* Filters of no extent, or no images: nothing is multiplied. */
static bool has_elements(const tensor *x, const tensor *weight, const tensor *y) {
    return x->numel > 0 && weight->numel > 0 && y->numel > 0;
}

static weft_status prepare(kernel_prepare *p) {
    static const borrowed_slots slots = {4, 1, {IN_INPUT, IN_WEIGHT, -1, -1}, {OUT}};
    convolution_state *s = KERNEL_STATE(p, convolution_state);
    const tensor *x = type_in(p, IN_INPUT), *weight = type_in(p, IN_WEIGHT), *y = type_out(p, OUT);
    bool transposed = attr_bool(p->op, "transposed", false);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "input"));
    TRY(require_present(p, weight, "weight"));
    TRY(require_present(p, y, "out"));
    TRY(require_same_dtype(p, x, weight, "weight"));
    TRY(require_same_dtype(p, x, y, "out"));
    TRY(check_bias(p, y, type_in(p, IN_BIAS), "bias"));
    s->runs = has_elements(x, weight, y);
    const kernel *image = transposed ? &kernel_conv2d_transpose : &kernel_conv2d;
    const kernel *volume = transposed ? &kernel_conv3d_transpose : &kernel_conv3d;
    return s->runs ? borrow_prepare(p, is_image(x) ? image : volume, &slots, &s->conv) : NULL;
}

/* The elements of a channel of one sample lie together. */
typedef struct planes {
    int64_t count, channels, plane;
} planes;

static planes planes_of(const tensor *t) {
    int64_t plane = 1;
    for (int d = 2; d < t->ndim; d++) plane *= t->dims[d];
    return (planes){t->dims[0], t->dims[1], plane};
}

#define DEFINE_BIAS(dtype, suffix, real)                                                                               \
    static void add_bias_##suffix(planes l, const real *bias, real *y) {                                               \
        for (int64_t i = 0; i < l.count * l.channels; i++)                                                             \
            for (int64_t k = 0; k < l.plane; k++) y[i * l.plane + k] += bias[i % l.channels];                          \
    }                                                                                                                  \
    static void sum_bias_##suffix(planes l, const real *dy, real *dbias) {                                             \
        for (int64_t c = 0; c < l.channels; c++) {                                                                     \
            double sum = 0;                                                                                            \
            for (int64_t n = 0; n < l.count; n++) {                                                                    \
                const real *from = dy + (n * l.channels + c) * l.plane;                                                \
                real part[8] = {0};                                                                                    \
                for (int64_t k = 0; k < l.plane; k++) part[k % 8] += from[k];                                          \
                for (int k = 0; k < 8; k++) sum += (double)part[k];                                                    \
            }                                                                                                          \
            dbias[c] = (real)sum;                                                                                      \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_BIAS)
#undef DEFINE_BIAS

static weft_status run(const kernel_call *c) {
    const convolution_state *s = c->state;
    const tensor *bias = arg_in(c, IN_BIAS);
    tensor *y = arg_out(c, OUT);
    if (s->runs)
        TRY(borrow_run(c, &s->conv));
    else
        tensor_clear(y);
    if (bias && y->dtype == WEFT_FP64)
        add_bias_fp64(planes_of(y), bias->data, y->data);
    else if (bias)
        add_bias_fp32(planes_of(y), bias->data, y->data);
    return NULL;
}

const kernel kernel_aten_convolution = {prepare, run};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_backward(kernel_prepare *p) {
    static const borrowed_slots slots = {
        3, 2, {GRAD_IN_INPUT, GRAD_IN_WEIGHT, GRAD_IN_GRAD}, {GRAD_OUT_INPUT, GRAD_OUT_WEIGHT}};
    static const borrowed_slots transposed_image = {
        4, 2, {GRAD_IN_INPUT, GRAD_IN_WEIGHT, -1, GRAD_IN_GRAD}, {GRAD_OUT_INPUT, GRAD_OUT_WEIGHT}};
    convolution_state *s = KERNEL_STATE(p, convolution_state);
    const tensor *x = type_in(p, GRAD_IN_INPUT), *weight = type_in(p, GRAD_IN_WEIGHT), *dy = type_in(p, GRAD_IN_GRAD);
    bool transposed = attr_bool(p->op, "transposed", false);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "input"));
    TRY(require_present(p, weight, "weight"));
    TRY(require_present(p, dy, "grad_output"));
    TRY(require_same_dtype(p, x, weight, "weight"));
    TRY(require_same_dtype(p, x, dy, "grad_output"));
    TRY(require_like(p, x, type_out(p, GRAD_OUT_INPUT), x->numel, "grad_input"));
    TRY(require_like(p, x, type_out(p, GRAD_OUT_WEIGHT), weight->numel, "grad_weight"));
    TRY(check_bias(p, dy, type_out(p, GRAD_OUT_BIAS), "grad_bias"));
    s->runs = has_elements(x, weight, dy) && (type_out(p, GRAD_OUT_INPUT) || type_out(p, GRAD_OUT_WEIGHT));
    if (!s->runs) return NULL;
    if (!is_image(x))
        return borrow_prepare(p, transposed ? &kernel_conv3d_transpose_grad : &kernel_conv3d_grad, &slots, &s->conv);
    return transposed ? borrow_prepare(p, &kernel_conv2d_transpose_grad, &transposed_image, &s->conv)
                      : borrow_prepare(p, &kernel_conv2d_grad, &slots, &s->conv);
}

static weft_status run_backward(const kernel_call *c) {
    const convolution_state *s = c->state;
    const tensor *dy = arg_in(c, GRAD_IN_GRAD);
    tensor *dbias = arg_out(c, GRAD_OUT_BIAS);
    for (int o = GRAD_OUT_INPUT; o <= GRAD_OUT_WEIGHT && !s->runs; o++) tensor_clear(arg_out(c, o));
    if (s->runs) TRY(borrow_run(c, &s->conv));
    if (dbias && dy->dtype == WEFT_FP64)
        sum_bias_fp64(planes_of(dy), dy->data, dbias->data);
    else if (dbias)
        sum_bias_fp32(planes_of(dy), dy->data, dbias->data);
    return NULL;
}

const kernel kernel_aten_convolution_backward = {prepare_backward, run_backward};
