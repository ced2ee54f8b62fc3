/* batch_norm.c: normalisation of channels over the batch, and its gradients.
 *
 *   y = (x - mean) / sqrt(variance + epsilon) * scale + bias
 *
 * In training mean and variance (biased) are the batch's, kept in SavedMean and SavedVariance, the latter as 1 /
 * sqrt(variance + epsilon), and blended into the running ones; in testing the running ones are used. With r = 1 /
 * sqrt(variance + epsilon), d = x - mean: dscale = r * sum(dy * d),  dbias = sum(dy),  dx = scale * r * (dy - mean(dy)
 * - d * r * r * mean(dy * d)) or, where mean and variance are constants, dx = scale * r * dy.
 *
 * c_batch_norm is batch_norm of rows of which each rank of a ring has a part, any number of them: as that of all rows.
 * It has two reduces of some numbers a channel, its gradient one.
 *
 * ATen keeps the variance that is divided by count - 1, blends by 1 - momentum, and may have no running statistics;
 * c_aten_batch_norm is that of rows of which each rank has a part.
 *
 * Channels lie as planes ([batch, channel, plane]) or as columns ([row, channel]). Sums go into doubles, a plane or a
 * block of rows at a time. Paddle: phi/kernels/cpu/batch_norm_kernel.cc; it passes x through where a channel has one
 * element. */
#include <math.h>

#include "executor/kernels/borrow.h"
#include "executor/kernels/collective/collective.h"
#include "executor/kernels/lanes.h"
#include "executor/kernels/layout.h"

enum { IN_X, IN_SCALE, IN_BIAS, IN_MEAN, IN_VARIANCE, IN_MOMENTUM };
enum { OUT_Y, OUT_MEAN, OUT_VARIANCE, OUT_SAVED_MEAN, OUT_SAVED_VARIANCE };
enum {
    GRAD_IN_X,
    GRAD_IN_SCALE,
    GRAD_IN_BIAS,
    GRAD_IN_SAVED_MEAN,
    GRAD_IN_SAVED_VARIANCE,
    GRAD_IN_MEAN,
    GRAD_IN_VARIANCE
};
/* Under global statistics Paddle 2.6 gives the gradient the running ones themselves, not those that the op wrote. */
enum { GRAD_IN_DY = 8, GRAD_IN_OWN_MEAN, GRAD_IN_OWN_VARIANCE, GRAD_OUT_DX = 0, GRAD_OUT_DSCALE, GRAD_OUT_DBIAS };
enum { ROWS_A_BLOCK = 64 };

/* Elements of channel c are x[(b * channels + c) * plane + i]. Columns: plane 1, a row a batch. */
typedef struct norm_state {
    int64_t batch, channels, plane;
    double epsilon, momentum;
    bool use_running; /* mean and variance are the running ones, and constants */
    bool aten;
    int mean, variance; /* of the gradient: their slots */
} norm_state;

/* Scratch: two sums a channel in double and a count, then reals: a block of sums, and four coefficients a channel. */
static size_t workspace_nbytes(const norm_state *s) {
    return ((size_t)s->channels * (2 + 5) + 1) * sizeof(double);
}

static weft_status prepare_common(kernel_prepare *p, const tensor *x) {
    norm_state *s = KERNEL_STATE(p, norm_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected X of at least 2 dimensions, found %d", x->ndim);
    bool last = x->ndim == 2 || strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    s->channels = x->dims[last ? x->ndim - 1 : 1];
    s->batch = last ? 1 : x->dims[0];
    s->plane = 1;
    for (int i = last ? 0 : 2; i < (last ? x->ndim - 1 : x->ndim); i++) *(last ? &s->batch : &s->plane) *= x->dims[i];
    s->epsilon = attr_float(p->op, "epsilon", 1e-5);
    s->momentum = attr_float(p->op, "momentum", 0.9);
    bool testing = attr_bool(p->op, "is_test", false) && !attr_bool(p->op, "trainable_statistics", false);
    s->use_running = testing || attr_bool(p->op, "use_global_stats", false);
    p->workspace_nbytes = workspace_nbytes(s);
    return NULL;
}

/* An argument with one real a channel. */
static weft_status check_channels(kernel_prepare *p, const tensor *x, const tensor *t, const char *what,
                                  bool optional) {
    if (!t && optional) return NULL;
    TRY(require_numel(p, t, ((const norm_state *)p->state)->channels, what));
    return require_same_dtype(p, x, t, what);
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, x));
    TRY(require_numel(p, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(check_channels(p, x, type_in(p, IN_SCALE), "Scale", true));
    TRY(check_channels(p, x, type_in(p, IN_BIAS), "Bias", true));
    TRY(check_channels(p, x, type_in(p, IN_MEAN), "Mean", false));
    TRY(check_channels(p, x, type_in(p, IN_VARIANCE), "Variance", false));
    TRY(check_channels(p, x, type_out(p, OUT_MEAN), "MeanOut", false));
    TRY(check_channels(p, x, type_out(p, OUT_VARIANCE), "VarianceOut", false));
    TRY(check_channels(p, x, type_out(p, OUT_SAVED_MEAN), "SavedMean", true));
    return check_channels(p, x, type_out(p, OUT_SAVED_VARIANCE), "SavedVariance", true);
}

/* s->mean and s->variance are set. */
static weft_status check_gradient(kernel_prepare *p, const tensor *x) {
    const norm_state *s = p->state;
    TRY(require_numel(p, type_in(p, GRAD_IN_DY), x->numel, "Y@GRAD"));
    TRY(require_same_dtype(p, x, type_in(p, GRAD_IN_DY), "Y@GRAD"));
    TRY(check_channels(p, x, type_in(p, GRAD_IN_SCALE), "Scale", true));
    TRY(check_channels(p, x, type_in(p, s->mean), "the mean", false));
    TRY(check_channels(p, x, type_in(p, s->variance), "the variance", false));
    if (type_out(p, GRAD_OUT_DX)) TRY(require_numel(p, type_out(p, GRAD_OUT_DX), x->numel, "X@GRAD"));
    TRY(check_channels(p, x, type_out(p, GRAD_OUT_DSCALE), "Scale@GRAD", true));
    return check_channels(p, x, type_out(p, GRAD_OUT_DBIAS), "Bias@GRAD", true);
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_X);
    TRY(prepare_common(p, x));
    norm_state *s = p->state;
    s->use_running = attr_bool(p->op, "is_test", false) || attr_bool(p->op, "use_global_stats", false);
    bool has_own = type_in(p, GRAD_IN_OWN_MEAN) && type_in(p, GRAD_IN_OWN_VARIANCE);
    s->mean = !s->use_running ? GRAD_IN_SAVED_MEAN : has_own ? GRAD_IN_OWN_MEAN : GRAD_IN_MEAN;
    s->variance = !s->use_running ? GRAD_IN_SAVED_VARIANCE : has_own ? GRAD_IN_OWN_VARIANCE : GRAD_IN_VARIANCE;
    return check_gradient(p, x);
}

static void *data_of(const tensor *t) {
    return t && t->numel ? t->data : NULL;
}

/* What is summed over a channel, x and y elements, m the mean: X x, SQUARE (x - m)^2, PRODUCT (x - m) * y. */
typedef enum summand { SUM_X, SUM_SQUARE, SUM_PRODUCT } summand;

/* Channels [first, end). */
typedef struct span {
    int64_t first, end;
} span;

/* Channels that take 8 KiB. */
static int64_t few_channels(const norm_state *s, size_t nbytes) {
    int64_t channel = s->batch * s->plane * (int64_t)nbytes;
    return channel > 0 && channel < 8192 ? 8192 / channel : 1;
}

/* What is done of it: all, or what comes before and between reduces over a ring, and behind them. */
typedef enum norm_stage {
    STAGE_ALL,
    STAGE_SUMS,
    STAGE_SQUARES,
    STAGE_GIVE,
    STAGE_GRAD_ALL,
    STAGE_GRAD_SUMS,
    STAGE_GRAD_GIVE
} norm_stage;

typedef struct staged {
    const kernel_call *call;
    norm_stage stage;
} staged;

#define TEMPLATE "executor/kernels/norm/batch_norm_real.h"
#include "executor/kernels/each_real.h"

static void take(const kernel_call *c, norm_stage stage) {
    if (arg_in(c, IN_X)->dtype == WEFT_FP64)
        run_fp64(c, stage);
    else
        run_fp32(c, stage);
}

/* One element a channel in training: there is nothing to normalise with. */
static bool passes_through(const norm_state *s) {
    return !s->use_running && !s->aten && s->batch * s->plane == 1;
}

static weft_status run(const kernel_call *c) {
    const norm_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    if ((passes_through(s) || s->use_running) && arg_out(c, OUT_MEAN)) {
        copy_bytes(arg_out(c, OUT_MEAN)->data, arg_in(c, IN_MEAN)->data, tensor_nbytes(arg_in(c, IN_MEAN)));
        copy_bytes(arg_out(c, OUT_VARIANCE)->data, arg_in(c, IN_VARIANCE)->data, tensor_nbytes(arg_in(c, IN_VARIANCE)));
    }
    if (passes_through(s)) {
        tensor_clear(arg_out(c, OUT_SAVED_MEAN));
        tensor_clear(arg_out(c, OUT_SAVED_VARIANCE));
        copy_bytes(arg_out(c, OUT_Y)->data, x->data, tensor_nbytes(x));
        return NULL;
    }
    take(c, STAGE_ALL);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const norm_state *s = c->state;
    const tensor *dy = arg_in(c, GRAD_IN_DY), *dx = arg_out(c, GRAD_OUT_DX);
    if (passes_through(s)) {
        tensor_clear(arg_out(c, GRAD_OUT_DSCALE));
        tensor_clear(arg_out(c, GRAD_OUT_DBIAS));
        if (dx) copy_bytes(dx->data, dy->data, tensor_nbytes(dy));
        return NULL;
    }
    take(c, STAGE_GRAD_ALL);
    return NULL;
}

const kernel kernel_batch_norm = {prepare, run};
const kernel kernel_batch_norm_grad = {prepare_grad, run_grad};

/* --- of rows of which each rank of a ring has a part -------------------------------------------------------------- */

/* Sums of x and how many they are of; then sums of squares of what differs from the mean. All in double. */
static void ask(const kernel_call *c, int round, comm_request *out) {
    const norm_state *s = c->state;
    *out = (comm_request){.kind = COMM_ALL_REDUCE,
                          .dtype = WEFT_FP64,
                          .reduce = WEFT_REDUCE_SUM,
                          .count = s->channels + (round == 0),
                          .src = c->workspace,
                          .dst = c->workspace,
                          .op = c->schema->type};
}

static weft_status work(const kernel_call *c, int round) {
    static const norm_stage stages[] = {STAGE_SUMS, STAGE_SQUARES, STAGE_GIVE};
    const norm_state *s = c->state;
    take(c, stages[round]);
    if (round == 0) ((double *)c->workspace)[s->channels] = (double)(s->batch * s->plane);
    return NULL;
}

/* Sums of dy and of dy * d, and the count. */
static void ask_grad(const kernel_call *c, int round, comm_request *out) {
    ask(c, round, out);
    out->count = 2 * ((const norm_state *)c->state)->channels + 1;
}

static weft_status work_grad(const kernel_call *c, int round) {
    const norm_state *s = c->state;
    take(c, round ? STAGE_GRAD_GIVE : STAGE_GRAD_SUMS);
    if (round == 0) ((double *)c->workspace)[2 * s->channels] = (double)(s->batch * s->plane);
    return NULL;
}

static const kernel_rounds two_reduces = {2, ask, work}, one_reduce = {1, ask_grad, work_grad};

static weft_status prepare_parts(kernel_prepare *p) {
    TRY(prepare(p));
    if (p->ring_nranks > 1 && !((const norm_state *)p->state)->use_running) p->rounds = &two_reduces;
    return NULL;
}

static weft_status prepare_parts_grad(kernel_prepare *p) {
    TRY(prepare_grad(p));
    if (p->ring_nranks > 1) p->rounds = &one_reduce;
    return NULL;
}

static weft_status run_parts(const kernel_call *c) {
    return is_alone(c) || ((const norm_state *)c->state)->use_running ? run(c) : run_rounds(c, &two_reduces);
}

static weft_status run_parts_grad(const kernel_call *c) {
    return is_alone(c) ? run_grad(c) : run_rounds(c, &one_reduce);
}

const kernel kernel_c_batch_norm = {prepare_parts, run_parts};
const kernel kernel_c_batch_norm_grad = {prepare_parts_grad, run_parts_grad};

/* --- ATen: the same under ATen's slots ---------------------------------------------------------------------------- */

static weft_status prepare_of_aten(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *saved = type_out(p, OUT_SAVED_MEAN);
    bool training = attr_bool(p->op, "training", false);
    TRY(prepare_common(p, x));
    norm_state *s = p->state;
    s->aten = true;
    s->use_running = !training;
    s->momentum = 1 - attr_float(p->op, "momentum", 0.1);
    TRY(require_numel(p, type_out(p, OUT_Y), x->numel, "out"));
    TRY(require_same_dtype(p, x, type_out(p, OUT_Y), "out"));
    TRY(check_channels(p, x, type_in(p, IN_SCALE), "weight", true));
    TRY(check_channels(p, x, type_in(p, IN_BIAS), "bias", true));
    TRY(check_channels(p, x, type_in(p, IN_MEAN), "running_mean", training));
    TRY(check_channels(p, x, type_in(p, IN_VARIANCE), "running_var", training));
    TRY(check_channels(p, x, type_out(p, OUT_MEAN), "running_mean", true));
    TRY(check_channels(p, x, type_out(p, OUT_VARIANCE), "running_var", true));
    if (type_out(p, OUT_MEAN) && (!type_in(p, IN_MEAN) || !type_in(p, IN_VARIANCE) || !type_out(p, OUT_VARIANCE)))
        return kernel_unsupported(p, "expected running_mean and running_var, or neither");
    if (!training && saved && saved->numel == 0) return NULL; /* CPUs keep nothing then */
    TRY(check_channels(p, x, saved, "save_mean", true));
    return check_channels(p, x, type_out(p, OUT_SAVED_VARIANCE), "save_invstd", true);
}

static weft_status prepare_grad_of_aten(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_IN_X);
    TRY(prepare_common(p, x));
    norm_state *s = p->state;
    s->aten = true;
    s->use_running = !attr_bool(p->op, "training", false);
    s->mean = s->use_running ? GRAD_IN_MEAN : GRAD_IN_SAVED_MEAN;
    s->variance = s->use_running ? GRAD_IN_VARIANCE : GRAD_IN_SAVED_VARIANCE;
    return check_gradient(p, x);
}

static const kernel of_aten = {prepare_of_aten, run}, grad_of_aten = {prepare_grad_of_aten, run_grad};

static weft_status prepare_aten(kernel_prepare *p) {
    static const borrowed_slots slots = {6, 5, {0, 1, 2, 3, 4, -1}, {0, 1, 2, 3, 4}};
    borrowed *b = KERNEL_STATE(p, borrowed);
    if (!b) return base_out_of_memory();
    TRY(borrow_prepare(p, &of_aten, &slots, b));
    b->rounds = &two_reduces;
    p->state = b;
    return NULL;
}

/* grad_out, input, weight, running_mean, running_var, save_mean, save_invstd */
static weft_status prepare_aten_grad(kernel_prepare *p) {
    static const borrowed_slots slots = {11, 3, {1, 2, -1, 5, 6, 3, 4, -1, 0, -1, -1}, {0, 1, 2}};
    borrowed *b = KERNEL_STATE(p, borrowed);
    if (!b) return base_out_of_memory();
    TRY(borrow_prepare(p, &grad_of_aten, &slots, b));
    b->rounds = &one_reduce;
    p->state = b;
    return NULL;
}

static weft_status run_aten(const kernel_call *c) {
    return borrow_run(c, c->state);
}

/* Of rows of which each rank of a ring has a part: the same rounds. */
static const kernel_rounds two_of_aten = {2, borrow_ask, borrow_work}, one_of_aten = {1, borrow_ask, borrow_work};

/* Running statistics need no sums of all rows; gradients do. */
static bool asks_ring(const void *state) {
    return !((const norm_state *)((const borrowed *)state)->state)->use_running;
}

static weft_status prepare_aten_parts(kernel_prepare *p) {
    TRY(prepare_aten(p));
    if (p->ring_nranks > 1 && asks_ring(p->state)) p->rounds = &two_of_aten;
    return NULL;
}

static weft_status prepare_aten_parts_grad(kernel_prepare *p) {
    TRY(prepare_aten_grad(p));
    if (p->ring_nranks > 1) p->rounds = &one_of_aten;
    return NULL;
}

static weft_status run_aten_parts(const kernel_call *c) {
    return is_alone(c) || !asks_ring(c->state) ? run_aten(c) : run_rounds(c, &two_of_aten);
}

static weft_status run_aten_parts_grad(const kernel_call *c) {
    return is_alone(c) ? run_aten(c) : run_rounds(c, &one_of_aten);
}

const kernel kernel_c_aten_batch_norm = {prepare_aten_parts, run_aten_parts};
const kernel kernel_c_aten_batch_norm_backward = {prepare_aten_parts_grad, run_aten_parts_grad};
const kernel kernel_aten_batch_norm = {prepare_aten, run_aten};
const kernel kernel_aten_batch_norm_backward = {prepare_aten_grad, run_aten};
