/* conv3d.c: convolution of volumes, transposed ones, and their gradients, as products of the filter with columns of
 * what each window sees. A transposed convolution is the gradient of one: its input has a value for each window, and
 * they are spread over its output. Paddle: phi/kernels/impl/conv_kernel_impl.h. */
#include "executor/kernels/multiply_real.h"
#include "executor/kernels/volume/volume.h"

enum { IN_X, IN_FILTER, IN_BIAS, IN_OUT_GRAD = 2, OUT = 0, OUT_X_GRAD = 0, OUT_FILTER_GRAD };

/* Filter g * filters + f sees channels [g * channels, (g + 1) * channels) of w.in. */
typedef struct conv3d_state {
    windows w;
    int64_t groups, channels, filters;
    weft_dtype dtype;
} conv3d_state;

#define TEMPLATE "executor/kernels/volume/conv3d_real.h"
#include "executor/kernels/each_real.h"

/* `in`: where windows lie; `places`: a value for each. */
static weft_status prepare_common(kernel_prepare *p, const tensor *in, const tensor *places) {
    conv3d_state *s = KERNEL_STATE(p, conv3d_state);
    if (!s) return base_out_of_memory();
    const tensor *filter = type_in(p, IN_FILTER);
    TRY(require_real(p, in, "Input"));
    TRY(require_same_dtype(p, in, filter, "Filter"));
    TRY(require_same_dtype(p, in, places, "Output"));
    TRY(volume_prepare(p, in, &s->w.in));
    TRY(volume_prepare(p, places, &s->w.out));
    s->groups = attr_int(p->op, "groups", 1);
    s->dtype = in->dtype;
    if (!filter || filter->ndim != in->ndim || places->ndim != in->ndim || s->groups < 1 ||
        s->w.in.channels != filter->dims[1] * s->groups || s->w.out.channels != filter->dims[0] ||
        filter->dims[0] % s->groups || s->w.in.count != s->w.out.count)
        return kernel_unsupported(p, "expected a Filter of Input's and Output's channels");
    for (int d = 0; d < AXES; d++) {
        int at = d - (AXES + 2 - filter->ndim) + 2;
        s->w.size[d] = at < 2 ? 1 : filter->dims[at];
    }
    s->channels = filter->dims[1];
    s->filters = filter->dims[0] / s->groups;
    TRY(windows_prepare(p, &s->w));
    p->workspace_nbytes =
        (size_t)((s->channels * s->w.taps + s->filters) * s->w.out.positions) * weft_dtype_nbytes(s->dtype);
    return NULL;
}

static weft_status no_bias(const kernel_prepare *p) {
    return type_in(p, IN_BIAS) ? kernel_unsupported(p, "expected no Bias") : NULL;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(no_bias(p));
    TRY(require_present(p, type_out(p, OUT), "Output"));
    return prepare_common(p, type_in(p, IN_X), type_out(p, OUT));
}
static weft_status prepare_transpose(kernel_prepare *p) {
    TRY(no_bias(p));
    TRY(require_present(p, type_out(p, OUT), "Output"));
    return prepare_common(p, type_out(p, OUT), type_in(p, IN_X));
}

static weft_status check_gradients(const kernel_prepare *p) {
    TRY(require_like(p, type_in(p, IN_X), type_out(p, OUT_X_GRAD), type_in(p, IN_X)->numel, "Input@GRAD"));
    return require_like(p, type_in(p, IN_X), type_out(p, OUT_FILTER_GRAD), type_in(p, IN_FILTER)->numel, "Filter@GRAD");
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Output@GRAD"));
    TRY(prepare_common(p, type_in(p, IN_X), type_in(p, IN_OUT_GRAD)));
    return check_gradients(p);
}
static weft_status prepare_transpose_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Output@GRAD"));
    TRY(prepare_common(p, type_in(p, IN_OUT_GRAD), type_in(p, IN_X)));
    return check_gradients(p);
}

#define BY_TYPE(function, ...)                                                                                         \
    do {                                                                                                               \
        if (s->dtype == WEFT_FP64)                                                                                     \
            function##_fp64(c, s, __VA_ARGS__);                                                                        \
        else                                                                                                           \
            function##_fp32(c, s, __VA_ARGS__);                                                                        \
    } while (0)

static weft_status run(const kernel_call *c) {
    const conv3d_state *s = c->state;
    BY_TYPE(forward, arg_in(c, IN_X)->data, arg_in(c, IN_FILTER)->data, arg_out(c, OUT)->data);
    return NULL;
}
static weft_status run_transpose(const kernel_call *c) {
    const conv3d_state *s = c->state;
    BY_TYPE(spread, arg_out(c, OUT)->data, arg_in(c, IN_FILTER)->data, arg_in(c, IN_X)->data);
    return NULL;
}
static weft_status run_grad(const kernel_call *c) {
    const conv3d_state *s = c->state;
    tensor *dx = arg_out(c, OUT_X_GRAD), *df = arg_out(c, OUT_FILTER_GRAD);
    if (dx) BY_TYPE(spread, dx->data, arg_in(c, IN_FILTER)->data, arg_in(c, IN_OUT_GRAD)->data);
    if (df) BY_TYPE(filter_grad, arg_in(c, IN_X)->data, df->data, arg_in(c, IN_OUT_GRAD)->data);
    return NULL;
}
static weft_status run_transpose_grad(const kernel_call *c) {
    const conv3d_state *s = c->state;
    tensor *dx = arg_out(c, OUT_X_GRAD), *df = arg_out(c, OUT_FILTER_GRAD);
    if (dx) BY_TYPE(forward, arg_in(c, IN_OUT_GRAD)->data, arg_in(c, IN_FILTER)->data, dx->data);
    if (df) BY_TYPE(filter_grad, arg_in(c, IN_OUT_GRAD)->data, df->data, arg_in(c, IN_X)->data);
    return NULL;
}

const kernel kernel_conv3d = {prepare, run};
const kernel kernel_conv3d_grad = {prepare_grad, run_grad};
const kernel kernel_conv3d_transpose = {prepare_transpose, run_transpose};
const kernel kernel_conv3d_transpose_grad = {prepare_transpose_grad, run_transpose_grad};
