/* frames.c: a signal as frames that overlap, for short-time Fourier transforms, and frames added up to a signal again:
 * each is the other's gradient. Time is the last dimension (axis -1, frames [..., within, frame]) or the first (axis
 * 0, frames [frame, within, ...]). */
#include "executor/kernels/layout.h"

typedef struct frames_state {
    int64_t outer, inner; /* dimensions before time, and behind it */
    int64_t time, length, hop, count;
    int64_t within_step, frame_step; /* in frames, beside `inner` */
    int input;                       /* slot of what is read */
} frames_state;

static weft_status prepare_frames(kernel_prepare *p, int input, bool to_frames) {
    frames_state *s = KERNEL_STATE(p, frames_state);
    if (!s) return base_out_of_memory();
    const tensor *from = type_in(p, input), *to = type_out(p, 0);
    const tensor *signal = to_frames ? from : to, *frames = to_frames ? to : from;
    bool is_last = attr_int(p->op, "axis", -1) == -1;
    TRY(require_real(p, from, "X"));
    TRY(require_present(p, to, "Out"));
    TRY(require_same_dtype(p, from, to, "Out"));
    if (signal->ndim < 1 || frames->ndim != signal->ndim + 1)
        return kernel_unsupported(p, "expected frames of a dimension more than the signal");
    int n = frames->ndim;
    s->input = input;
    s->time = signal->dims[is_last ? signal->ndim - 1 : 0];
    s->length = frames->dims[is_last ? n - 2 : 1];
    s->count = frames->dims[is_last ? n - 1 : 0];
    s->hop = attr_int(p->op, "hop_length", 1);
    int64_t others = s->time ? signal->numel / s->time : 0;
    s->outer = is_last ? others : 1;
    s->inner = is_last ? 1 : others;
    s->within_step = is_last ? s->count : 1;
    s->frame_step = is_last ? 1 : s->length;
    if (s->hop < 1 || frames->numel != others * s->length * s->count ||
        (s->count && (s->count - 1) * s->hop + s->length > s->time))
        return kernel_unsupported(p, "expected %lld frames of %lld elements, %lld apart, in %lld", (long long)s->count,
                                  (long long)s->length, (long long)s->hop, (long long)s->time);
    return NULL;
}

/* Visits every element of the frames: `f` is its index, `x` that of its place in the signal. */
#define FOR_EACH_FRAMED(s, f, x)                                                                                       \
    for (int64_t o_ = 0; o_ < (s)->outer; o_++)                                                                        \
        for (int64_t k_ = 0; k_ < (s)->count; k_++)                                                                    \
            for (int64_t w_ = 0; w_ < (s)->length; w_++)                                                               \
                for (int64_t i_ = 0, n_ = (s)->inner,                                                                  \
                             f = (o_ * (s)->count * (s)->length + k_ * (s)->frame_step + w_ * (s)->within_step) * n_,  \
                             x = (o_ * (s)->time + k_ * (s)->hop + w_) * n_;                                           \
                     i_ < n_; i_++, f++, x++)

static weft_status run_to_frames(const kernel_call *c) {
    const frames_state *s = c->state;
    const tensor *signal = arg_in(c, s->input);
    FOR_EACH_FRAMED(s, f, x) tensor_set_real(arg_out(c, 0), f, tensor_real(signal, x));
    return NULL;
}

static weft_status run_to_signal(const kernel_call *c) {
    const frames_state *s = c->state;
    const tensor *frames = arg_in(c, s->input);
    tensor_clear(arg_out(c, 0));
    FOR_EACH_FRAMED(s, f, x) tensor_add_real(arg_out(c, 0), x, tensor_real(frames, f));
    return NULL;
}

static weft_status prepare_frame(kernel_prepare *p) {
    return prepare_frames(p, 0, true);
}
static weft_status prepare_frame_grad(kernel_prepare *p) {
    return prepare_frames(p, 1, false);
}
static weft_status prepare_overlap_add(kernel_prepare *p) {
    return prepare_frames(p, 0, false);
}
static weft_status prepare_overlap_add_grad(kernel_prepare *p) {
    return prepare_frames(p, 1, true);
}

const kernel kernel_frame = {prepare_frame, run_to_frames};
const kernel kernel_frame_grad = {prepare_frame_grad, run_to_signal};
const kernel kernel_overlap_add = {prepare_overlap_add, run_to_signal};
const kernel kernel_overlap_add_grad = {prepare_overlap_add_grad, run_to_frames};
