/* rearrange.c: images whose channels and pixels change places: pixel_shuffle, pixel_unshuffle, channel_shuffle. Each is
 * a transposition of X seen with more dimensions; a gradient is the same the other way round. */
#include "executor/kernels/layout.h"

enum { IN_X, OUT = 0, VIEW = 6 };

typedef struct rearrange_state {
    loops l; /* operand 0: written; operand 1: read */
    size_t nbytes;
} rearrange_state;

/* X seen as `dims`; the result has them in the order `axis`, or where `back` X has been put in that order. */
static weft_status prepare_view(kernel_prepare *p, int ndim, const int64_t *dims, const int *axis, bool back) {
    rearrange_state *s = KERNEL_STATE(p, rearrange_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_out(p, OUT);
    int64_t own[WEFT_MAX_RANK], extent[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_same_dtype(p, x, y, "the result"));
    TRY(require_numel(p, y, x->numel, "the result"));
    strides_dense(ndim, dims, own);
    for (int d = 0; d < ndim; d++) {
        extent[d] = dims[axis[d]];
        strides[back ? 0 : 1][d] = own[axis[d]];
    }
    strides_dense(ndim, extent, strides[back ? 1 : 0]);
    loops_init(&s->l, ndim, extent, 2, strides);
    s->nbytes = weft_dtype_nbytes(x->dtype);
    return NULL;
}

static weft_status check_image(const kernel_prepare *p, const tensor *x) {
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, type_out(p, OUT), "the result"));
    return x->ndim == 4 ? NULL : kernel_unsupported(p, "expected X of 4 dimensions, found %d", x->ndim);
}

static bool is_last(const kernel_prepare *p) {
    return strcmp(attr_string(p->op, "data_format", "NCHW"), "NHWC") == 0;
}

/* `few`: the side with r * r times the channels. */
static weft_status prepare_pixels(kernel_prepare *p, const char *factor, bool few_is_input) {
    const tensor *x = type_in(p, IN_X);
    TRY(check_image(p, x));
    const tensor *few = few_is_input ? x : type_out(p, OUT);
    int64_t r = attr_int(p->op, factor, 1), n = few->dims[0];
    if (r < 1) return kernel_unsupported(p, "expected a factor of 1 or more, found %lld", (long long)r);
    if (is_last(p)) {
        static const int axis[VIEW] = {0, 1, 4, 2, 5, 3};
        int64_t dims[VIEW] = {n, few->dims[1], few->dims[2], few->dims[3] / (r * r), r, r};
        return prepare_view(p, VIEW, dims, axis, !few_is_input);
    }
    static const int axis[VIEW] = {0, 1, 4, 2, 5, 3};
    int64_t dims[VIEW] = {n, few->dims[1] / (r * r), r, r, few->dims[2], few->dims[3]};
    return prepare_view(p, VIEW, dims, axis, !few_is_input);
}

static weft_status prepare_shuffle(kernel_prepare *p) {
    return prepare_pixels(p, "upscale_factor", true);
}
static weft_status prepare_shuffle_grad(kernel_prepare *p) {
    return prepare_pixels(p, "upscale_factor", false);
}
static weft_status prepare_unshuffle(kernel_prepare *p) {
    return prepare_pixels(p, "downscale_factor", false);
}
static weft_status prepare_unshuffle_grad(kernel_prepare *p) {
    return prepare_pixels(p, "downscale_factor", true);
}

static weft_status prepare_groups(kernel_prepare *p, const char *attr, bool back) {
    const tensor *x = type_in(p, IN_X);
    TRY(check_image(p, x));
    int64_t groups = attr_int(p->op, attr, 1), channels = x->dims[is_last(p) ? 3 : 1];
    if (groups < 1 || channels % groups)
        return kernel_unsupported(p, "%s: expected a number that divides %lld channels, found %lld", attr,
                                  (long long)channels, (long long)groups);
    static const int last_axis[] = {0, 2, 1}, axis[] = {0, 2, 1, 3};
    if (is_last(p))
        return prepare_view(p, 3, (const int64_t[]){x->dims[0] * x->dims[1] * x->dims[2], groups, channels / groups},
                            last_axis, back);
    return prepare_view(p, 4, (const int64_t[]){x->dims[0], groups, channels / groups, x->dims[2] * x->dims[3]}, axis,
                        back);
}

static weft_status prepare_channels(kernel_prepare *p) {
    return prepare_groups(p, "groups", false);
}
static weft_status prepare_channels_grad(kernel_prepare *p) {
    return prepare_groups(p, "groups", true);
}
static weft_status prepare_older_channels(kernel_prepare *p) {
    return prepare_groups(p, "group", false);
}
static weft_status prepare_older_channels_grad(kernel_prepare *p) {
    return prepare_groups(p, "group", true);
}

static weft_status run(const kernel_call *c) {
    const rearrange_state *s = c->state;
    copy_loops(&s->l, s->nbytes, arg_out(c, OUT)->data, arg_in(c, IN_X)->data);
    return NULL;
}

const kernel kernel_pixel_shuffle = {prepare_shuffle, run};
const kernel kernel_pixel_shuffle_grad = {prepare_shuffle_grad, run};
const kernel kernel_pixel_unshuffle = {prepare_unshuffle, run};
const kernel kernel_pixel_unshuffle_grad = {prepare_unshuffle_grad, run};
const kernel kernel_channel_shuffle = {prepare_channels, run};
const kernel kernel_channel_shuffle_grad = {prepare_channels_grad, run};
const kernel kernel_shuffle_channel = {prepare_older_channels, run};
const kernel kernel_shuffle_channel_grad = {prepare_older_channels_grad, run};
