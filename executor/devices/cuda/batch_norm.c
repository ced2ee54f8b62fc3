/* batch_norm.c: launchers of batch_norm. cuDNN's is not used: it blends the variance that is divided by count - 1 into
 * the running one, where programs have recorded the one that is divided by count. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"
#include "executor/kernels/layout.h"

enum { CHUNK = 4096, MOST_CHUNKS = 256 }; /* elements; of a channel */

typedef struct state {
    batch_args rule; /* without addresses */
    int mean, variance;
} state;

/* Two sums a chunk, four numbers a channel. */
static weft_status prepare_common(kernel_prepare *p, unsigned own_in) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    batch_args *r = &s->rule;
    int type;
    TRY(cuda_require_own_real(p, own_in, 1, &type));
    if (x->ndim < 2 || !x->numel) return cuda_refuse("no elements");
    bool last = x->ndim == 2 || strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    *r = (batch_args){.channels = x->dims[last ? x->ndim - 1 : 1], .batch = last ? 1 : x->dims[0], .plane = 1};
    for (int i = last ? 0 : 2; i < (last ? x->ndim - 1 : x->ndim); i++) *(last ? &r->batch : &r->plane) *= x->dims[i];
    int64_t count = r->batch * r->plane;
    r->chunk = count / MOST_CHUNKS < CHUNK ? CHUNK : (count + MOST_CHUNKS - 1) / MOST_CHUNKS;
    r->type = type;
    r->nchunks = (count + r->chunk - 1) / r->chunk;
    r->nrows = r->channels * r->nchunks;
    r->nitems = x->numel;
    r->epsilon = attr_float(p->op, "epsilon", 1e-5);
    r->momentum = attr_float(p->op, "momentum", 0.9);
    r->use_running = attr_bool(p->op, "use_global_stats", false);
    p->workspace_nbytes = (size_t)(2 * r->nrows + 4 * r->channels) * sizeof(float);
    return NULL;
}

static weft_status check_count(const batch_args *r) {
    return !r->use_running && r->batch * r->plane == 1 ? cuda_refuse("one element a channel") : NULL;
}

static batch_args args_of(const kernel_call *c) {
    batch_args a = ((const state *)c->state)->rule;
    a.partial = c->workspace;
    a.centre = a.partial + 2 * a.nrows;
    a.factor = a.centre + a.channels;
    a.slope = a.factor + a.channels;
    a.offset = a.slope + a.channels;
    return a;
}

static weft_status start_channels(const cuda_launch *l, cuda_kernel_id id, batch_args a) {
    a.nitems = a.channels;
    return cuda_start_items(l, id, a.channels, &a);
}

/* --- batch_norm --------------------------------------------------------------------------------------------------- */

enum { IN_X, IN_SCALE, IN_BIAS, IN_MEAN, IN_VARIANCE, IN_MOMENTUM };
enum { OUT_Y, OUT_MEAN, OUT_VARIANCE, OUT_SAVED_MEAN, OUT_SAVED_VARIANCE };

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, 1));
    batch_args *r = &((state *)p->state)->rule;
    bool testing = attr_bool(p->op, "is_test", false) && !attr_bool(p->op, "trainable_statistics", false);
    if (testing) r->use_running = 1;
    if (type_in(p, IN_MOMENTUM)) return cuda_refuse("a momentum that is a tensor");
    return check_count(r);
}

static weft_status launch(const cuda_launch *l) {
    const kernel_call *c = l->call;
    batch_args a = args_of(c);
    a.x = arg_in(c, IN_X)->data;
    a.scale = data_or_null(arg_in(c, IN_SCALE));
    a.bias = data_or_null(arg_in(c, IN_BIAS));
    a.mean = arg_in(c, IN_MEAN)->data;
    a.variance = arg_in(c, IN_VARIANCE)->data;
    a.new_mean = data_or_null(arg_out(c, OUT_MEAN));
    a.new_variance = data_or_null(arg_out(c, OUT_VARIANCE));
    a.saved_mean = data_or_null(arg_out(c, OUT_SAVED_MEAN));
    a.saved_inverse = data_or_null(arg_out(c, OUT_SAVED_VARIANCE));
    a.out = arg_out(c, OUT_Y)->data;
    if (!a.use_running) TRY(cuda_start(l, CUDA_KERNEL_batch_chunks, a.nrows, &a));
    TRY(start_channels(l, CUDA_KERNEL_batch_moments_of, a));
    return cuda_start_items(l, CUDA_KERNEL_batch_normalize, a.nitems, &a);
}

const cuda_op cuda_batch_norm = {.prepare = prepare, .launch = launch};

/* --- batch_norm_grad ---------------------------------------------------------------------------------------------- */

enum {
    GRAD_IN_X,
    GRAD_IN_SCALE,
    GRAD_IN_SAVED_MEAN = 3,
    GRAD_IN_SAVED_VARIANCE,
    GRAD_IN_MEAN,
    GRAD_IN_VARIANCE,
    GRAD_IN_DY = 8,
    GRAD_IN_OWN_MEAN,
    GRAD_IN_OWN_VARIANCE
};
enum { GRAD_OUT_DX, GRAD_OUT_DSCALE, GRAD_OUT_DBIAS };

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, 1 | 1u << GRAD_IN_DY));
    state *s = p->state;
    bool running = s->rule.use_running || attr_bool(p->op, "is_test", false);
    bool has_own = type_in(p, GRAD_IN_OWN_MEAN) && type_in(p, GRAD_IN_OWN_VARIANCE);
    s->mean = !running ? GRAD_IN_SAVED_MEAN : has_own ? GRAD_IN_OWN_MEAN : GRAD_IN_MEAN;
    s->variance = !running ? GRAD_IN_SAVED_VARIANCE : has_own ? GRAD_IN_OWN_VARIANCE : GRAD_IN_VARIANCE;
    s->rule.use_running = running;
    return check_count(&s->rule);
}

static weft_status launch_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const state *s = c->state;
    batch_args a = args_of(c);
    a.x = arg_in(c, GRAD_IN_X)->data;
    a.scale = data_or_null(arg_in(c, GRAD_IN_SCALE));
    a.mean = arg_in(c, s->mean)->data;
    a.variance = arg_in(c, s->variance)->data;
    a.dy = arg_in(c, GRAD_IN_DY)->data;
    a.out = data_or_null(arg_out(c, GRAD_OUT_DX));
    a.saved_mean = data_or_null(arg_out(c, GRAD_OUT_DSCALE));
    a.saved_inverse = data_or_null(arg_out(c, GRAD_OUT_DBIAS));
    TRY(cuda_start(l, CUDA_KERNEL_batch_grad_chunks, a.nrows, &a));
    TRY(start_channels(l, CUDA_KERNEL_batch_slopes, a));
    return a.out ? cuda_start_items(l, CUDA_KERNEL_batch_propagate, a.nitems, &a) : NULL;
}

const cuda_op cuda_batch_norm_grad = {.prepare = prepare_grad, .launch = launch_grad};
