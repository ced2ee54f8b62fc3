/* conv.c: 2-D convolution as matrix products over columns of patches, and its gradients.
 *
 * For each group, W [out_channels, patch] and columns P [patch, windows]:
 *   y = W P,   dW = sum over images of dy P^T,   dP = W^T dy, added back into dx
 * With channels first P is packed from a padded copy of the images while it is multiplied (conv_panels.c), and dP is
 * added into dx piece by piece (conv_input.c), unless dx is faster as a convolution of its own: of dy, with the filter
 * turned around and its channels exchanged. NHWC computes the transposed products over stored columns, so that no image
 * is ever transposed. Where an image has few windows several images share a product, so that it stays wide enough to be
 * fast; NCHW then goes through a block [out_channels, images * windows].
 *
 * Without such a matrix go filters of 3 x 3 (conv_winograd.c, conv_winograd_filter.c) and convolutions with few
 * channels (conv_lanes.c, conv_direct.c), where these are faster: a rule of the shape. */
#include "executor/kernels/conv/conv.h"

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

/* The convolution of dy that gives dx, or NULL. Its output (y, x) sees window (y + before - i * dilation, ...) by tap
 * i. So its taps are turned around, and its windows begin at y - (reach - before). */
static weft_status choose_by_input(const kernel_prepare *p, conv *c) {
    const window *w = &c->w;
    if (!c->copy || w->stride[0] != 1 || w->stride[1] != 1) return NULL;
    conv *b = ARENA_NEW(p->arena, conv);
    if (!b) return base_out_of_memory();
    *b = *c;
    b->in = c->out;
    b->out = c->in;
    b->in_channels = c->out_channels;
    b->out_channels = c->in_channels;
    b->patch = b->in_channels * w->size[0] * w->size[1];
    b->positions = b->out.height * b->out.width;
    for (int d = 0; d < 2; d++) b->w.before[d] = (w->size[d] - 1) * w->dilation[d] - w->before[d];
    b->batch = choose_batch(b);
    b->copy = NULL;
    b->lanes = NULL;
    b->direct = NULL;
    b->direct_forward = b->direct_filter = b->winograd_filter = false;
    TRY(conv_copy_prepare(p, b));
    TRY(conv_lanes_prepare(p, b));
    TRY(conv_direct_prepare(p, b));
    conv_winograd_prepare(b);
    if (b->winograd || b->direct_forward || b->lanes) c->by_input = b;
    return NULL;
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
    if (filter->numel == 0) return kernel_unsupported(p, "expected elements in Filter, found none");
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
    TRY(conv_copy_prepare(p, out));
    TRY(conv_lanes_prepare(p, out));
    TRY(conv_direct_prepare(p, out));
    conv_winograd_prepare(out);
    conv_winograd_filter_prepare(out);
    return choose_by_input(p, out);
}

/* Scratch: the column matrix, [patch, batch * positions], or the padded copy, or the filter turned around; after it one
 * group's output for `batch` images, and what products need. */
static int64_t columns_count(const conv *c) {
    int64_t count = c->copy ? conv_copy_count(c, c->batch) : c->pointwise ? 0 : c->patch * c->batch * c->positions;
    return (count + 15) / 16 * 16;
}
static int64_t block_count(const conv *c) {
    return (c->out_channels * c->batch * c->positions + 15) / 16 * 16;
}
static size_t filter_count(const conv *c) {
    return (size_t)(c->groups * c->out_channels * c->patch + 15) / 16 * 16;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Floats for the products over the padded copy. */
static size_t products_count(const conv *c, int nthreads) {
    int64_t windows = c->batch * c->positions;
    size_t count = larger((size_t)conv_product_count(windows, c->patch), (size_t)conv_product_count(c->patch, windows));
    return larger(count, (size_t)conv_input_count(c, nthreads));
}

size_t conv_workspace(const conv *c, int nthreads) {
    size_t count = (size_t)(columns_count(c) + block_count(c));
    if (c->copy) count += products_count(c, nthreads);
    size_t nbytes = count * sizeof(float);
    if (c->lanes) nbytes = larger(nbytes, conv_lanes_workspace(c, nthreads));
    if (c->direct) nbytes = larger(nbytes, conv_direct_workspace(c));
    if (c->winograd_filter) nbytes = larger(nbytes, conv_winograd_filter_workspace(c, nthreads));
    if (c->winograd) nbytes = larger(nbytes, conv_winograd_workspace(c, nthreads));
    if (c->by_input) nbytes = larger(nbytes, filter_count(c) * sizeof(float) + conv_workspace(c->by_input, nthreads));
    return nbytes;
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

/* The padded copy of the slab's images, made for the first group, from the slab's first channel on. */
static const float *copy_of(const kernel_call *call, const conv *c, const slab *s, const float *x, float *columns) {
    if (s->group == 0) conv_copy_images(call, c, s->count, x + s->first * c->in.image, columns);
    return columns + s->group * c->in_channels * c->copy->channel;
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
    p->workspace_nbytes = conv_workspace(c, p->nthreads);
    return NULL;
}

static void forward_slab(const kernel_call *call, const conv *c, const slab *s, const float *x, const float *filter,
                         float *y, float *columns) {
    const float *w = filter + s->group * c->out_channels * c->patch;
    float *to = y + slab_offset(c, s), *block = columns + columns_count(c), *result = s->direct ? to : block;
    if (c->copy) {
        conv_product p = {.conv = c,
                          .m = c->out_channels,
                          .n = s->windows,
                          .k = c->patch,
                          .a = w,
                          .lda = c->patch,
                          .copy = copy_of(call, c, s, x, columns),
                          .c = result,
                          .ldc = s->ld};
        conv_product_run(call, &p, block + block_count(c));
    } else if (c->channels_last) {
        gemm_f32(call, true, true, s->windows, c->out_channels, c->patch, 1, patches_of(c, s, x, columns), s->windows,
                 w, c->patch, 0, result, s->ld);
    } else {
        gemm_f32(call, false, false, c->out_channels, s->windows, c->patch, 1, w, c->patch,
                 patches_of(c, s, x, columns), s->windows, 0, result, s->ld);
    }
    if (!s->direct) scatter_block(c, s, block, to);
}

static void add_bias(const conv *c, const float *bias, float *y) {
    for (int64_t n = 0; n < c->out.count; n++)
        for (int64_t o = 0; o < c->out.channels; o++) {
            float *plane = y + n * c->out.image + o * c->out.channel_step;
            for (int64_t i = 0; i < c->positions; i++) plane[i * c->out.column_step] += bias[o];
        }
}

void conv_forward(const conv *c, const float *x, const float *filter, float *y, float *workspace,
                  const kernel_call *call) {
    if (c->winograd) {
        conv_filter_order order = {c->out_channels * c->patch, c->patch, c->w.size[0] * c->w.size[1], false};
        conv_winograd_forward(call, c, x, filter, order, y, workspace);
        return;
    }
    if (c->lanes) {
        conv_lanes_forward(call, c, x, filter, y, workspace);
        return;
    }
    if (c->direct_forward) {
        conv_direct_forward(call, c, x, filter, y, workspace);
        return;
    }
    for (int64_t first = 0; first < c->in.count; first += c->batch)
        for (int64_t g = 0; g < c->groups; g++) {
            slab s = slab_of(c, first, g);
            forward_slab(call, c, &s, x, filter, y, workspace);
        }
}

static weft_status run(const kernel_call *call) {
    const conv *c = call->state;
    const tensor *bias = arg_in(call, IN_BIAS);
    float *y = arg_out(call, OUT_OUTPUT)->data;
    conv_forward(c, arg_in(call, IN_INPUT)->data, arg_in(call, IN_FILTER)->data, y, call->workspace, call);
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
    p->workspace_nbytes = conv_workspace(c, p->nthreads);
    return NULL;
}

/* dW of the slab's group: set by the first images, added to by later ones. */
static void filter_slab(const kernel_call *call, const conv *c, const slab *s, const float *x, const float *dy,
                        float *dfilter, float *columns) {
    float *dw = dfilter + s->group * c->out_channels * c->patch;
    if (c->copy) {
        conv_product p = {.conv = c,
                          .m = c->out_channels,
                          .n = c->patch,
                          .k = s->windows,
                          .a = dy,
                          .lda = s->ld,
                          .copy = copy_of(call, c, s, x, columns),
                          .windows_inside = true,
                          .c = dw,
                          .ldc = c->patch,
                          .add = s->first > 0};
        conv_product_run(call, &p, columns + columns_count(c) + block_count(c));
        return;
    }
    gemm_f32(call, c->channels_last, true, c->out_channels, c->patch, s->windows, 1, dy, s->ld,
             patches_of(c, s, x, columns), s->windows, s->first == 0 ? 0 : 1, dw, c->patch);
}

static void input_slab(const kernel_call *call, const conv *c, const slab *s, const float *filter, const float *dy,
                       float *dx, float *columns) {
    const float *w = filter + s->group * c->out_channels * c->patch;
    if (c->copy) {
        conv_input_add(call, c, w, dy, s->ld, s->count,
                       dx + s->first * c->in.image + s->group * c->in_channels * c->in.channel_step,
                       columns + columns_count(c) + block_count(c));
        return;
    }
    float *into = c->pointwise ? dx + s->first * c->in.image + s->group * c->in_channels * c->in.channel_step : columns;
    gemm_f32(call, true, c->channels_last, c->patch, s->windows, c->out_channels, 1, w, c->patch, dy, s->ld, 0, into,
             s->windows);
    if (!c->pointwise) conv_scatter_add(call, c, s->first, s->count, s->group, columns, dx);
}

typedef struct turn_job {
    const conv *c;
    const float *filter;
    float *turned;
} turn_job;

/* Filters [out, in, taps] of each group become [in, out, taps from last to first]; items are input channels. */
static void turn_filter(void *arg, int64_t first, int64_t end, int part) {
    const turn_job *t = arg;
    const conv *c = t->c;
    int64_t taps = c->w.size[0] * c->w.size[1];
    (void)part;
    for (int64_t item = first; item < end; item++)
        for (int64_t o = 0; o < c->out_channels; o++) {
            int64_t group = item / c->in_channels, channel = item % c->in_channels;
            const float *from = t->filter + ((group * c->out_channels + o) * c->in_channels + channel) * taps;
            float *to = t->turned + (item * c->out_channels + o) * taps;
            for (int64_t k = 0; k < taps; k++) to[k] = from[taps - 1 - k];
        }
}

static void input_by_convolution(const kernel_call *call, const conv *c, const float *filter, const float *dy,
                                 float *dx, float *workspace) {
    int64_t area = c->w.size[0] * c->w.size[1];
    if (c->by_input->winograd) {
        conv_filter_order order = {c->out_channels * c->patch, area, c->patch, true};
        conv_winograd_forward(call, c->by_input, dy, filter, order, dx, workspace);
        return;
    }
    turn_job t = {c, filter, workspace};
    int64_t item_nbytes = c->out_channels * area * (int64_t)sizeof(float);
    parallel_for(call, c->groups * c->in_channels, grain_of_bytes(item_nbytes), turn_filter, &t);
    conv_forward(c->by_input, dy, t.turned, dx, workspace + filter_count(c), call);
}

void conv_backward(const conv *c, const float *x, const float *filter, const float *dy, float *dx, float *dfilter,
                   float *workspace, const kernel_call *call) {
    if (dx && c->by_input) {
        input_by_convolution(call, c, filter, dy, dx, workspace);
        dx = NULL;
    }
    if (dfilter && c->winograd_filter) {
        conv_winograd_filter(call, c, x, dy, dfilter, workspace);
        dfilter = NULL;
    }
    if (dfilter && c->lanes) {
        conv_lanes_backward(call, c, x, dy, dfilter, workspace);
        dfilter = NULL;
    }
    if (dfilter && c->direct_filter) {
        conv_direct_backward(call, c, x, dy, dfilter, workspace);
        dfilter = NULL;
    }
    float *block = workspace + columns_count(c);
    if (dx && !c->pointwise) memset(dx, 0, (size_t)(c->in.count * c->in.image) * sizeof *dx);
    if (dfilter && c->in.count == 0) memset(dfilter, 0, (size_t)(c->out.channels * c->patch) * sizeof *dfilter);
    for (int64_t first = 0; first < c->in.count && (dx || dfilter); first += c->batch)
        for (int64_t g = 0; g < c->groups; g++) {
            slab s = slab_of(c, first, g);
            const float *from = dy + slab_offset(c, &s);
            if (!s.direct) {
                gather_block(c, &s, from, block);
                from = block;
            }
            if (dfilter) filter_slab(call, c, &s, x, from, dfilter, workspace);
            if (dx) input_slab(call, c, &s, filter, from, dx, workspace);
        }
}

static weft_status run_grad(const kernel_call *call) {
    tensor *dx = arg_out(call, OUT_INPUT_GRAD), *dfilter = arg_out(call, OUT_FILTER_GRAD);
    conv_backward(call->state, arg_in(call, IN_INPUT)->data, arg_in(call, IN_FILTER)->data,
                  arg_in(call, IN_OUTPUT_GRAD)->data, dx ? dx->data : NULL, dfilter ? dfilter->data : NULL,
                  call->workspace, call);
    return NULL;
}

const kernel kernel_conv2d = {prepare, run};
const kernel kernel_conv2d_grad = {prepare_grad, run_grad};
const kernel kernel_depthwise_conv2d = {prepare, run};
const kernel kernel_depthwise_conv2d_grad = {prepare_grad, run_grad};
