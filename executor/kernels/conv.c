/* conv.c: 2-D convolution as matrix products over columns of patches, and its gradients.
 *
 * For each group, W [out_channels, patch] and columns P [patch, windows]:
 *   y = W P,   dW = sum over images of dy P^T,   dP = W^T dy, added back into dx
 * NHWC computes the transposed products, so that no image is ever transposed. Where an image has few windows several
 * images share a product, so that it stays wide enough to be fast; NCHW then goes through a block [out_channels, images
 * * windows]. */
#include "executor/kernels/conv.h"

enum {
    IN_INPUT,
    IN_FILTER,
    IN_BIAS,
    IN_RESIDUAL,
    IN_OUTPUT_GRAD = 2,
    OUT_OUTPUT = 0,
    OUT_INPUT_GRAD = 0,
    OUT_FILTER_GRAD
};

/* Windows that a product should have at least, and floats that a column matrix may have for more than one image. */
enum { MANY_WINDOWS = 512, MANY_COLUMNS = 1 << 20 };

/* --- preparation -------------------------------------------------------------------------------------------------- */

static int64_t choose_batch(const conv *c) {
    if (c->positions < 1 || c->pointwise) return 1;
    int64_t batch = (MANY_WINDOWS + c->positions - 1) / c->positions;
    int64_t most = MANY_COLUMNS / (c->patch * c->positions + 1);
    if (batch > most) batch = most;
    if (batch > c->in.count) batch = c->in.count;
    return batch < 1 ? 1 : batch;
}

weft_status conv_prepare(const kernel_prepare *p, const tensor *x, const tensor *filter, const tensor *y, conv *out) {
    const char *format = attr_string(p->op, "data_format", "NCHW");
    TRY(require_fp32(p, x, "Input"));
    TRY(require_fp32(p, filter, "Filter"));
    TRY(require_fp32(p, y, "Output"));
    TRY(images_prepare(p, x, format, &out->in));
    TRY(images_prepare(p, y, format, &out->out));
    out->groups = attr_int(p->op, "groups", 1);
    if (filter->ndim != 4) return kernel_unsupported(p, "expected Filter of 4 dimensions, found %d", filter->ndim);
    if (out->groups < 1 || out->in.channels != filter->dims[1] * out->groups || filter->dims[0] % out->groups ||
        out->out.channels != filter->dims[0] || out->in.count != out->out.count)
        return kernel_unsupported(p, "expected Filter [%lld, %lld, *, *] for %lld groups, found [%lld, %lld, *, *]",
                                  (long long)out->out.channels, (long long)(out->in.channels / out->groups),
                                  (long long)out->groups, (long long)filter->dims[0], (long long)filter->dims[1]);
    out->w.size[0] = filter->dims[2];
    out->w.size[1] = filter->dims[3];
    TRY(window_prepare(p, &out->in, &out->w));
    out->in_channels = filter->dims[1];
    out->out_channels = filter->dims[0] / out->groups;
    out->patch = out->in_channels * filter->dims[2] * filter->dims[3];
    out->positions = out->out.height * out->out.width;
    out->channels_last = strcmp(format, "NHWC") == 0;
    const window *w = &out->w;
    out->pointwise = !out->channels_last && w->size[0] * w->size[1] == 1 && w->stride[0] * w->stride[1] == 1 &&
                     out->in.height == out->out.height && out->in.width == out->out.width && w->before[0] == 0 &&
                     w->before[1] == 0;
    out->batch = choose_batch(out);
    return NULL;
}

/* The column matrix, [patch, batch * positions]; after it comes one group's output for `batch` images. */
static size_t columns_count(const conv *c) { return (size_t)(c->patch * c->batch * c->positions); }

size_t conv_workspace(const conv *c) {
    return (columns_count(c) + (size_t)(c->out_channels * c->batch * c->positions)) * sizeof(float);
}

/* --- products of one group of a few images ------------------------------------------------------------------------ */

/* A group of images [first, first + count) of the output, as the matrix products see it: [out_channels, windows], or
 * its transpose where channels are last. */
typedef struct slab {
    int64_t first, count, group, windows, ld;
    bool direct; /* lies in the output itself; else in a block that is copied */
} slab;

static slab slab_of(const conv *c, int64_t first, int64_t group) {
    int64_t count = c->in.count - first < c->batch ? c->in.count - first : c->batch, windows = count * c->positions;
    return (slab){.first = first,
                  .count = count,
                  .group = group,
                  .windows = windows,
                  .ld = c->channels_last ? c->out.channels : windows,
                  .direct = c->channels_last || count == 1};
}

/* The slab's first element in the output. */
static int64_t slab_offset(const conv *c, const slab *s) {
    return s->first * c->out.image + s->group * c->out_channels * c->out.channel_step;
}

/* A block [out_channels, count, positions] from NCHW images, and back. */
static void gather_block(const conv *c, const slab *s, const float *y, float *block) {
    for (int64_t o = 0; o < c->out_channels; o++)
        for (int64_t n = 0; n < s->count; n++, block += c->positions)
            memcpy(block, y + n * c->out.image + o * c->out.channel_step, (size_t)c->positions * sizeof *block);
}

static void scatter_block(const conv *c, const slab *s, const float *block, float *y) {
    for (int64_t o = 0; o < c->out_channels; o++)
        for (int64_t n = 0; n < s->count; n++, block += c->positions)
            memcpy(y + n * c->out.image + o * c->out.channel_step, block, (size_t)c->positions * sizeof *block);
}

/* Patches of the slab: columns made in the workspace, or the image itself. */
static const float *patches_of(const conv *c, const slab *s, const float *x, float *columns) {
    if (c->pointwise) return x + s->first * c->in.image + s->group * c->in_channels * c->in.channel_step;
    conv_gather(c, s->first, s->count, s->group, x, columns);
    return columns;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static weft_status prepare(kernel_prepare *p) {
    conv *c = KERNEL_STATE(p, conv);
    if (!c) return base_out_of_memory();
    if (type_in(p, IN_RESIDUAL)) return kernel_unsupported(p, "expected no ResidualData, found one");
    TRY(conv_prepare(p, type_in(p, IN_INPUT), type_in(p, IN_FILTER), type_out(p, OUT_OUTPUT), c));
    if (type_in(p, IN_BIAS)) {
        TRY(require_fp32(p, type_in(p, IN_BIAS), "Bias"));
        TRY(require_numel(p, type_in(p, IN_BIAS), c->out.channels, "Bias"));
    }
    p->workspace_nbytes = conv_workspace(c);
    return NULL;
}

static void forward_slab(const conv *c, const slab *s, const float *x, const float *filter, float *y, float *columns,
                         int nthreads) {
    const float *patches = patches_of(c, s, x, columns), *w = filter + s->group * c->out_channels * c->patch;
    float *to = y + slab_offset(c, s), *block = columns + columns_count(c), *result = s->direct ? to : block;
    if (c->channels_last)
        gemm_f32(true, true, s->windows, c->out_channels, c->patch, 1, patches, s->windows, w, c->patch, 0, result,
                 s->ld, nthreads);
    else
        gemm_f32(false, false, c->out_channels, s->windows, c->patch, 1, w, c->patch, patches, s->windows, 0, result,
                 s->ld, nthreads);
    if (!s->direct) scatter_block(c, s, block, to);
}

static void add_bias(const conv *c, const float *bias, float *y) {
    for (int64_t n = 0; n < c->out.count; n++)
        for (int64_t o = 0; o < c->out.channels; o++) {
            float *plane = y + n * c->out.image + o * c->out.channel_step;
            for (int64_t i = 0; i < c->positions; i++) plane[i * c->out.column_step] += bias[o];
        }
}

void conv_forward(const conv *c, const float *x, const float *filter, float *y, float *workspace, int nthreads) {
    for (int64_t first = 0; first < c->in.count; first += c->batch)
        for (int64_t g = 0; g < c->groups; g++) {
            slab s = slab_of(c, first, g);
            forward_slab(c, &s, x, filter, y, workspace, nthreads);
        }
}

static weft_status run(const kernel_call *call) {
    const conv *c = call->state;
    const tensor *bias = arg_in(call, IN_BIAS);
    float *y = arg_out(call, OUT_OUTPUT)->data;
    conv_forward(c, arg_in(call, IN_INPUT)->data, arg_in(call, IN_FILTER)->data, y, call->workspace, call->nthreads);
    if (bias) add_bias(c, bias->data, y);
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_grad(kernel_prepare *p) {
    conv *c = KERNEL_STATE(p, conv);
    if (!c) return base_out_of_memory();
    const tensor *x = type_in(p, IN_INPUT), *filter = type_in(p, IN_FILTER);
    TRY(conv_prepare(p, x, filter, type_in(p, IN_OUTPUT_GRAD), c));
    if (type_out(p, OUT_INPUT_GRAD)) TRY(require_numel(p, type_out(p, OUT_INPUT_GRAD), x->numel, "Input@GRAD"));
    if (type_out(p, OUT_FILTER_GRAD)) TRY(require_numel(p, type_out(p, OUT_FILTER_GRAD), filter->numel, "Filter@GRAD"));
    p->workspace_nbytes = conv_workspace(c);
    return NULL;
}

/* dW of the slab's group: set by the first images, added to by later ones. */
static void filter_slab(const conv *c, const slab *s, const float *x, const float *dy, float *dfilter, float *columns,
                        int nthreads) {
    const float *patches = patches_of(c, s, x, columns);
    float *dw = dfilter + s->group * c->out_channels * c->patch, beta = s->first == 0 ? 0 : 1;
    gemm_f32(c->channels_last, true, c->out_channels, c->patch, s->windows, 1, dy, s->ld, patches, s->windows, beta, dw,
             c->patch, nthreads);
}

static void input_slab(const conv *c, const slab *s, const float *filter, const float *dy, float *dx, float *columns,
                       int nthreads) {
    const float *w = filter + s->group * c->out_channels * c->patch;
    float *into = c->pointwise ? dx + s->first * c->in.image + s->group * c->in_channels * c->in.channel_step : columns;
    gemm_f32(true, c->channels_last, c->patch, s->windows, c->out_channels, 1, w, c->patch, dy, s->ld, 0, into,
             s->windows, nthreads);
    if (!c->pointwise) conv_scatter_add(c, s->first, s->count, s->group, columns, dx);
}

void conv_backward(const conv *c, const float *x, const float *filter, const float *dy, float *dx, float *dfilter,
                   float *workspace, int nthreads) {
    float *block = workspace + columns_count(c);
    if (dx && !c->pointwise) memset(dx, 0, (size_t)(c->in.count * c->in.image) * sizeof *dx);
    if (dfilter && c->in.count == 0) memset(dfilter, 0, (size_t)(c->out.channels * c->patch) * sizeof *dfilter);
    for (int64_t first = 0; first < c->in.count; first += c->batch)
        for (int64_t g = 0; g < c->groups; g++) {
            slab s = slab_of(c, first, g);
            const float *from = dy + slab_offset(c, &s);
            if (!s.direct) {
                gather_block(c, &s, from, block);
                from = block;
            }
            if (dfilter) filter_slab(c, &s, x, from, dfilter, workspace, nthreads);
            if (dx) input_slab(c, &s, filter, from, dx, workspace, nthreads);
        }
}

static weft_status run_grad(const kernel_call *call) {
    tensor *dx = arg_out(call, OUT_INPUT_GRAD), *dfilter = arg_out(call, OUT_FILTER_GRAD);
    conv_backward(call->state, arg_in(call, IN_INPUT)->data, arg_in(call, IN_FILTER)->data,
                  arg_in(call, IN_OUTPUT_GRAD)->data, dx ? dx->data : NULL, dfilter ? dfilter->data : NULL,
                  call->workspace, call->nthreads);
    return NULL;
}

const kernel kernel_conv2d = {prepare, run};
const kernel kernel_conv2d_grad = {prepare_grad, run_grad};
const kernel kernel_depthwise_conv2d = {prepare, run};
const kernel kernel_depthwise_conv2d_grad = {prepare_grad, run_grad};
