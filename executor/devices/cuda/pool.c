/* pool.c: launchers of pool2d. cuDNN's pooling is not used: it does not say which of several largest elements gets the
 * gradient, has no adaptive windows, and no ceil_mode. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"
#include "executor/kernels/window.h"

static void take_steps(const images *of, cuda_index *out) {
    out[0] = of->image;
    out[1] = of->channel_step;
    out[2] = of->row_step;
    out[3] = of->column_step;
}

static weft_status prepare_windows(kernel_prepare *p, pool_args *a, const images *in) {
    size_t n;
    const int64_t *size = attr_ints(p->op, "ksize", &n);
    window w = {.size = {in->height, in->width}, .stride = {1, 1}};
    a->is_adaptive = !a->is_max && attr_bool(p->op, "adaptive", false);
    if (attr_bool(p->op, "global_pooling", false)) {
        a->is_adaptive = 0;
    } else {
        if (n != 2) return cuda_refuse("windows of %zu dimensions", n);
        memcpy(w.size, size, sizeof w.size);
        TRY(window_prepare(p, in, &w));
    }
    for (int d = 0; d < 2; d++) {
        a->size[d] = w.size[d];
        a->stride[d] = w.stride[d];
        a->before[d] = w.before[d];
    }
    return NULL;
}

static weft_status prepare_pool(kernel_prepare *p, const tensor *y) {
    pool_args *a = KERNEL_STATE(p, pool_args);
    if (!a) return base_out_of_memory();
    const char *format = attr_string(p->op, "data_format", "NCHW");
    const tensor *x = type_in(p, 0);
    images in, out;
    int type;
    TRY(cuda_require_real(p, &type));
    if (!dtype_is_float(x->dtype) || !x->numel) return cuda_refuse("no reals");
    TRY(images_prepare(p, x, format, &in));
    TRY(images_prepare(p, y, format, &out));
    *a = (pool_args){.type = type,
                     .channels = in.channels,
                     .extent = {in.height, in.width},
                     .count = {out.height, out.width},
                     .is_max = strcmp(attr_string(p->op, "pooling_type", "max"), "max") == 0,
                     .is_exclusive = attr_bool(p->op, "exclusive", true)};
    take_steps(&in, a->in_step);
    take_steps(&out, a->out_step);
    return prepare_windows(p, a, &in);
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_pool(p, type_out(p, 0));
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_pool(p, type_in(p, 1));
}

static weft_status launch(const cuda_launch *l) {
    const kernel_call *c = l->call;
    pool_args a = *(const pool_args *)c->state;
    a.nitems = arg_out(c, 0)->numel;
    a.x = arg_in(c, 0)->data;
    a.out = arg_out(c, 0)->data;
    return cuda_start_items(l, CUDA_KERNEL_pool_windows, a.nitems, &a);
}

static weft_status launch_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    pool_args a = *(const pool_args *)c->state;
    a.nitems = arg_out(c, 0)->numel;
    a.x = arg_in(c, 0)->data;
    a.y = arg_in(c, 1)->data;
    a.dy = arg_in(c, 2)->data;
    a.out = arg_out(c, 0)->data;
    return cuda_start_items(l, CUDA_KERNEL_pool_spread, a.nitems, &a);
}

const cuda_op cuda_pool2d = {.prepare = prepare, .launch = launch};
const cuda_op cuda_pool2d_grad = {.prepare = prepare_grad, .launch = launch_grad};
