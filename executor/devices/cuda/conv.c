/* conv.c: conv2d, conv2d_transpose and their gradients. A transposed convolution is a convolution's gradient by its
 * input: its output is that convolution's x. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/dnn.h"
#include "executor/kernels/window.h"

enum { IN_INPUT, IN_FILTER, IN_BIAS, IN_RESIDUAL, OUT_INPUT_GRAD = 0, OUT_FILTER_GRAD };

static weft_status require_images(const tensor *t) {
    bool is_real = t && (t->dtype == WEFT_FP32 || t->dtype == WEFT_FP16 || t->dtype == WEFT_BF16);
    if (!is_real || t->ndim != 4) return cuda_refuse("no images of reals");
    return t->numel ? NULL : cuda_refuse("no elements");
}

static weft_status take_extents(const tensor *t, int *out) {
    TRY(require_images(t));
    for (int i = 0; i < 4; i++) {
        if (t->dims[i] > INT32_MAX) return cuda_refuse("an extent of %lld", (long long)t->dims[i]);
        out[i] = (int)t->dims[i];
    }
    return NULL;
}

/* cuDNN pads both sides by the same; what is behind the last window does not matter. */
static weft_status check_windows(const dnn_shape *s) {
    for (int d = 0; d < 2; d++) {
        int reach = (s->filter[2 + d] - 1) * s->dilation[d] + 1, seen = s->x[2 + d] + 2 * s->before[d] - reach;
        if (s->before[d] < 0 || seen < 0 || seen / s->stride[d] + 1 != s->y[2 + d])
            return cuda_refuse("paddings that are not the same on both sides");
    }
    return NULL;
}

static weft_status read_shape(const kernel_prepare *p, const tensor *x, const tensor *y, dnn_shape *s) {
    const tensor *filter = type_in(p, IN_FILTER);
    const char *format = attr_string(p->op, "data_format", "NCHW");
    images of_x;
    TRY(take_extents(x, s->x));
    TRY(take_extents(y, s->y));
    TRY(take_extents(filter, s->filter));
    if (x->dtype != y->dtype || x->dtype != filter->dtype) return cuda_refuse("images of different types");
    s->dtype = x->dtype;
    if (strcmp(format, "NHWC") == 0) return cuda_refuse("channels last");
    window w = {.size = {filter->dims[2], filter->dims[3]}};
    TRY(images_prepare(p, x, format, &of_x));
    TRY(window_prepare(p, &of_x, &w));
    for (int d = 0; d < 2; d++) {
        s->before[d] = (int)w.before[d];
        s->stride[d] = (int)w.stride[d];
        s->dilation[d] = (int)w.dilation[d];
    }
    s->groups = (int)attr_int(p->op, "groups", 1);
    return check_windows(s);
}

static weft_status prepare(kernel_prepare *p, const tensor *x, const tensor *y) {
    dnn_conv *c = KERNEL_STATE(p, dnn_conv);
    dnn_shape s;
    if (!c) return base_out_of_memory();
    TRY(read_shape(p, x, y, &s));
    return dnn_prepare(c, &s);
}

/* Another result that is asked for. */
static weft_status add(kernel_prepare *p, dnn_result result) {
    dnn_conv *c = p->state;
    TRY(dnn_choose(c, result));
    if (c->workspace_nbytes[result] > p->workspace_nbytes) p->workspace_nbytes = c->workspace_nbytes[result];
    return NULL;
}

static void discard(void *state) {
    dnn_discard(state);
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */

static weft_status prepare_conv(kernel_prepare *p) {
    if (type_in(p, IN_BIAS) || type_in(p, IN_RESIDUAL)) return cuda_refuse("a bias or a residual");
    TRY(prepare(p, type_in(p, IN_INPUT), type_out(p, 0)));
    return add(p, DNN_Y);
}

static weft_status launch_conv(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return dnn_launch(l, c->state, DNN_Y, arg_in(c, IN_INPUT)->data, arg_in(c, IN_FILTER)->data, arg_out(c, 0)->data);
}

static weft_status prepare_conv_grad(kernel_prepare *p) {
    TRY(prepare(p, type_in(p, IN_INPUT), type_in(p, 2)));
    if (type_out(p, OUT_INPUT_GRAD)) TRY(add(p, DNN_X));
    return type_out(p, OUT_FILTER_GRAD) ? add(p, DNN_FILTER) : NULL;
}

static weft_status launch_conv_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const tensor *dx = arg_out(c, OUT_INPUT_GRAD), *dfilter = arg_out(c, OUT_FILTER_GRAD);
    const void *x = arg_in(c, IN_INPUT)->data, *filter = arg_in(c, IN_FILTER)->data, *dy = arg_in(c, 2)->data;
    if (dfilter) TRY(dnn_launch(l, c->state, DNN_FILTER, x, dy, dfilter->data));
    return dx ? dnn_launch(l, c->state, DNN_X, filter, dy, dx->data) : NULL;
}

const cuda_op cuda_conv2d = {
    .prepare = prepare_conv, .launch = launch_conv, .open = dnn_open, .close = dnn_close, .discard = discard};
const cuda_op cuda_conv2d_grad = {
    .prepare = prepare_conv_grad, .launch = launch_conv_grad, .open = dnn_open, .close = dnn_close, .discard = discard};

/* --- transposed ones ---------------------------------------------------------------------------------------------- */

enum { IN_OUT_GRAD = 3 };

static weft_status prepare_transposed(kernel_prepare *p) {
    if (type_in(p, IN_BIAS)) return cuda_refuse("a bias");
    TRY(prepare(p, type_out(p, 0), type_in(p, IN_INPUT)));
    return add(p, DNN_X);
}

static weft_status launch_transposed(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return dnn_launch(l, c->state, DNN_X, arg_in(c, IN_FILTER)->data, arg_in(c, IN_INPUT)->data, arg_out(c, 0)->data);
}

static weft_status prepare_transposed_grad(kernel_prepare *p) {
    if (type_in(p, IN_BIAS)) return cuda_refuse("a bias");
    TRY(prepare(p, type_in(p, IN_OUT_GRAD), type_in(p, IN_INPUT)));
    if (type_out(p, OUT_INPUT_GRAD)) TRY(add(p, DNN_Y));
    return type_out(p, OUT_FILTER_GRAD) ? add(p, DNN_FILTER) : NULL;
}

static weft_status launch_transposed_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const tensor *dx = arg_out(c, OUT_INPUT_GRAD), *dfilter = arg_out(c, OUT_FILTER_GRAD);
    const void *x = arg_in(c, IN_INPUT)->data, *filter = arg_in(c, IN_FILTER)->data, *dy = arg_in(c, IN_OUT_GRAD)->data;
    if (dfilter) TRY(dnn_launch(l, c->state, DNN_FILTER, dy, x, dfilter->data));
    return dx ? dnn_launch(l, c->state, DNN_Y, dy, filter, dx->data) : NULL;
}

const cuda_op cuda_conv2d_transpose = {.prepare = prepare_transposed,
                                       .launch = launch_transposed,
                                       .open = dnn_open,
                                       .close = dnn_close,
                                       .discard = discard};
const cuda_op cuda_conv2d_transpose_grad = {.prepare = prepare_transposed_grad,
                                            .launch = launch_transposed_grad,
                                            .open = dnn_open,
                                            .close = dnn_close,
                                            .discard = discard};
