/* temporal_shift.c: frames whose first channels are those of the frame before, and the next ones those of the frame
 * behind; the gradient is the same the other way round. Paddle: phi/kernels/cpu/temporal_shift_kernel.cc. */
#include "executor/kernels/layout.h"

enum { IN_X, OUT = 0, PARTS = 3 };

typedef struct shift_state {
    int64_t images, frames, places, plane; /* places: runs of channels in an image, `plane` elements a channel */
    int64_t end[PARTS];                    /* of the channels that come from before, behind, and the same frame */
    int step[PARTS];
    size_t nbytes;
} shift_state;

static weft_status prepare_shift(kernel_prepare *p, int direction) {
    shift_state *s = KERNEL_STATE(p, shift_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_out(p, OUT);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "the result"));
    TRY(require_like(p, x, y, x->numel, "the result"));
    if (x->ndim != 4) return kernel_unsupported(p, "expected X of 4 dimensions, found %d", x->ndim);
    bool last = strcmp(attr_string(p->op, "data_format", "NCHW"), "NHWC") == 0;
    double ratio = attr_float(p->op, "shift_ratio", 0.25);
    int64_t channels = x->dims[last ? 3 : 1], size = last ? x->dims[1] * x->dims[2] : x->dims[2] * x->dims[3];
    s->images = x->dims[0];
    s->frames = attr_int(p->op, "seg_num", 1);
    if (s->frames < 1 || s->images % s->frames)
        return kernel_unsupported(p, "expected seg_num that divides %lld images, found %lld", (long long)s->images,
                                  (long long)s->frames);
    if (!(ratio >= 0 && ratio <= 0.5)) return kernel_unsupported(p, "shift_ratio: expected 0 to 0.5, found %g", ratio);
    s->places = last ? size : 1;
    s->plane = last ? 1 : size;
    s->end[0] = (int64_t)((float)channels * (float)ratio);
    s->end[1] = (int64_t)((float)channels * 2 * (float)ratio);
    s->end[2] = channels;
    s->step[0] = -direction;
    s->step[1] = direction;
    s->nbytes = weft_dtype_nbytes(x->dtype);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_shift(p, 1);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_shift(p, -1);
}

static void shift_image(const shift_state *s, int64_t image, const char *x, char *y) {
    size_t channel = (size_t)s->plane * s->nbytes, place = (size_t)s->end[PARTS - 1] * channel;
    size_t size = place * (size_t)s->places;
    for (int part = 0; part < PARTS; part++) {
        int64_t first = part ? s->end[part - 1] : 0, frame = image % s->frames + s->step[part];
        size_t run = (size_t)(s->end[part] - first) * channel;
        for (int64_t k = 0; run && k < s->places; k++) {
            size_t at = (size_t)k * place + (size_t)first * channel;
            char *to = y + (size_t)image * size + at;
            if (frame < 0 || frame >= s->frames)
                memset(to, 0, run);
            else
                memcpy(to, x + (size_t)(image + s->step[part]) * size + at, run);
        }
    }
}

static weft_status run(const kernel_call *c) {
    const shift_state *s = c->state;
    if (arg_out(c, OUT)->numel == 0) return NULL;
    for (int64_t i = 0; i < s->images; i++) shift_image(s, i, arg_in(c, IN_X)->data, arg_out(c, OUT)->data);
    return NULL;
}

const kernel kernel_temporal_shift = {prepare, run};
const kernel kernel_temporal_shift_grad = {prepare_grad, run};
