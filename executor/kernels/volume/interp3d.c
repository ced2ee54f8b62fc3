/* interp3d.c: one or three spatial dimensions resized linearly, three by the nearest element, and gradients. Positions
 * are as in pool/interp.c. */
#include "executor/kernels/volume/interp3d.h"

#include <math.h>

#include "executor/kernels/volume/volume.h"

enum { IN_X, IN_OUT_GRAD = 4, OUT = 0 };

typedef struct interp3d_state {
    volume in, out;
    bool corners, middles, nearest;
    float scale[AXES];
} interp3d_state;

typedef struct between {
    int64_t at[2];
    float weight[2];
} between;

static weft_status prepare_pair(kernel_prepare *p, const tensor *y) {
    interp3d_state *s = KERNEL_STATE(p, interp3d_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    bool channels_last = strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Out"));
    TRY(require_same_dtype(p, x, y, "Out"));
    TRY(volume_layout(p, x, channels_last, &s->in));
    TRY(volume_layout(p, y, channels_last, &s->out));
    if (s->in.count != s->out.count || s->in.channels != s->out.channels || x->ndim != y->ndim)
        return kernel_unsupported(p, "expected Out of X's batch and channels");
    s->corners = attr_bool(p->op, "align_corners", true);
    s->nearest = strcmp(attr_string(p->op, "interp_method", ""), "nearest") == 0;
    s->middles = !s->corners && !s->nearest && attr_int(p->op, "align_mode", 1) == 0;
    size_t n;
    const double *scale = attr_floats(p->op, "scale", &n);
    int dims = x->ndim - 2;
    for (int d = AXES - dims; d < AXES && n; d++) s->scale[d] = (float)scale[n == (size_t)dims ? d - (AXES - dims) : 0];
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_pair(p, type_out(p, OUT));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_pair(p, type_in(p, IN_OUT_GRAD)));
    return require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}

static between between_at(const interp3d_state *s, int d, int64_t i) {
    int64_t in = s->in.extent[d], out = s->out.extent[d];
    float ratio = s->corners        ? (out > 1 ? (float)(in - 1) / (float)(out - 1) : 0)
                  : s->scale[d] > 0 ? 1 / s->scale[d]
                                    : (float)in / (float)out;
    float position = s->middles ? ratio * ((float)i + 0.5f) - 0.5f : ratio * (float)i;
    if (s->nearest) position = s->corners ? floorf(position + 0.5f) : floorf(position);
    if (position < 0) position = 0;
    between b = {.at = {(int64_t)position, 0}};
    if (b.at[0] > in - 1) b.at[0] = in - 1;
    b.at[1] = b.at[0] + 1 < in ? b.at[0] + 1 : in - 1;
    b.weight[1] = position - (float)b.at[0];
    b.weight[0] = 1 - b.weight[1];
    return b;
}

static int64_t element_at(const volume *v, int64_t image, int64_t channel, const int64_t at[AXES]) {
    return image * v->image + channel * v->channel + at[0] * v->axis[0] + at[1] * v->axis[1] + at[2] * v->axis[2];
}

/* Reads through the weights, or adds back through them. */
static void walk_through(const interp3d_state *s, tensor *x, tensor *y, bool back) {
    for (int64_t i = 0; i < s->out.count * s->out.channels * s->out.positions; i++) {
        int64_t place = i % s->out.positions, image = i / s->out.positions / s->out.channels;
        int64_t channel = i / s->out.positions % s->out.channels;
        int64_t at[AXES] = {place / (s->out.extent[1] * s->out.extent[2]), place / s->out.extent[2] % s->out.extent[1],
                            place % s->out.extent[2]};
        between b[AXES];
        for (int d = 0; d < AXES; d++) b[d] = between_at(s, d, at[d]);
        int64_t to = element_at(&s->out, image, channel, at);
        double sum = 0, down = back ? tensor_real(y, to) : 0;
        for (int k = 0; k < 8; k++) {
            int z = k >> 2, r = k >> 1 & 1, e = k & 1;
            double weight = (double)b[0].weight[z] * b[1].weight[r] * b[2].weight[e];
            if (weight == 0) continue;
            int64_t from = element_at(&s->in, image, channel, (int64_t[AXES]){b[0].at[z], b[1].at[r], b[2].at[e]});
            if (back)
                tensor_set_real(x, from, tensor_real(x, from) + weight * down);
            else
                sum += weight * tensor_real(x, from);
        }
        if (!back) tensor_set_real(y, to, sum);
    }
}

static weft_status run(const kernel_call *c) {
    tensor x = *arg_in(c, IN_X);
    walk_through(c->state, &x, arg_out(c, OUT), false);
    return NULL;
}
static weft_status run_grad(const kernel_call *c) {
    tensor g = *arg_in(c, IN_OUT_GRAD), *dx = arg_out(c, OUT);
    tensor_clear(dx);
    walk_through(c->state, dx, &g, true);
    return NULL;
}

const kernel kernel_interp3d = {prepare, run};
const kernel kernel_interp3d_grad = {prepare_grad, run_grad};
