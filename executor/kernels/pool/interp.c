/* interp.c: the two spatial dimensions resized, by the nearest element, bilinearly or by cubic curves, and
 * gradients.
 *
 * Position i of the output looks at ratio * i of the input, ratio = in / out, 1 / scale, or (in - 1) / (out - 1) with
 * align_corners; bilinear with align_mode 0 takes positions at the middle of elements. Source:
 * phi/kernels/cpu/interpolate_kernel.cc. Positions are computed in float, as there, so that both round to the same
 * element. */
#include <math.h>

#include "executor/kernels/volume/interp3d.h"
#include "executor/kernels/window.h"

enum { IN_X, IN_OUT_SIZE, IN_SIZES, IN_SCALE, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct interp_state {
    images in, out;
    bool corners, middles;
    int taps;        /* in each dimension: nearest 1, bilinear 2, bicubic 4 */
    bool by_extents; /* of Paddle 1: scales give extents alone */
    float scale[2];  /* 0: not given */
} interp_state;

enum { TAPS = 4 };

/* Output position i is the sum of weight[k] * in[at[k]]. */
typedef struct sample {
    int64_t at[TAPS];
    float weight[TAPS];
} sample;

static weft_status prepare_pair(kernel_prepare *p, const tensor *y) {
    interp_state *s = KERNEL_STATE(p, interp_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    const char *format = attr_string(p->op, "data_layout", "NCHW"), *method = attr_string(p->op, "interp_method", "");
    TRY(require_real(p, x, "X"));
    TRY(images_prepare(p, x, format, &s->in));
    TRY(images_prepare(p, y, format, &s->out));
    TRY(require_same_dtype(p, x, y, "Out"));
    if (s->in.count != s->out.count || s->in.channels != s->out.channels)
        return kernel_unsupported(p, "expected Out of X's batch and channels");
    s->taps = strcmp(method, "nearest") == 0    ? 1
              : strcmp(method, "bilinear") == 0 ? 2
              : strcmp(method, "bicubic") == 0  ? TAPS
                                                : 0;
    if (!s->taps) return kernel_unsupported(p, "expected nearest, bilinear or bicubic, found %s", method);
    s->corners = attr_bool(p->op, "align_corners", true);
    s->middles = !s->corners && (s->taps == TAPS || (s->taps == 2 && attr_int(p->op, "align_mode", 1) == 0));
    size_t n;
    const double *scale = attr_floats(p->op, "scale", &n);
    for (int d = 0; d < 2 && n; d++) s->scale[d] = (float)scale[n == 2 ? d : 0];
    p->workspace_nbytes = (size_t)(s->out.height + s->out.width) * sizeof(sample);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_pair(p, type_out(p, OUT));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_pair(p, type_in(p, GRAD_IN_OUT_GRAD)));
    return require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD");
}

static float ratio_of(const interp_state *s, int64_t in, int64_t out, float scale) {
    if (s->corners) return out > 1 ? (float)(in - 1) / (float)(out - 1) : 0;
    return scale > 0 ? 1 / scale : (float)in / (float)out;
}

/* Cubic convolution with a = -0.75, of the four elements around; those beyond the edge count as it. */
static sample cubic_at(float position, int64_t extent) {
    sample r;
    float whole = floorf(position), t = position - whole, a = -0.75f;
    for (int k = 0; k < TAPS; k++) {
        int64_t at = (int64_t)whole - 1 + k;
        float d = k == 0 ? t + 1 : k == 1 ? t : k == 2 ? 1 - t : 2 - t;
        r.at[k] = at < 0 ? 0 : at > extent - 1 ? extent - 1 : at;
        r.weight[k] =
            k == 1 || k == 2 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    }
    return r;
}

static sample sample_at(const interp_state *s, float ratio, int64_t i, int64_t extent) {
    sample r = {.weight = {1}};
    if (s->taps == 1) {
        r.at[0] = (int64_t)(ratio * (float)i + (s->corners ? 0.5f : 0));
        if (r.at[0] > extent - 1) r.at[0] = extent - 1;
        r.at[1] = r.at[0];
        return r;
    }
    float position = s->middles ? ratio * ((float)i + 0.5f) - 0.5f : ratio * (float)i;
    if (s->taps == TAPS) return cubic_at(position, extent);
    if (position < 0) position = 0;
    r.at[0] = (int64_t)position;
    if (r.at[0] > extent - 1) r.at[0] = extent - 1;
    r.at[1] = r.at[0] + 1 < extent ? r.at[0] + 1 : extent - 1;
    r.weight[1] = position - (float)r.at[0];
    r.weight[0] = 1 - r.weight[1];
    return r;
}

/* Samples of rows, then of columns. */
static const sample *make_samples(const kernel_call *c, const interp_state *s) {
    sample *samples = c->workspace;
    float scale[2] = {s->scale[0], s->scale[1]};
    const tensor *given = s->by_extents ? NULL : arg_in(c, IN_SCALE);
    for (int d = 0; d < 2 && given; d++) scale[d] = (float)host_scalar_at(c, given, given->numel == 2 ? d : 0);
    float down = ratio_of(s, s->in.height, s->out.height, scale[0]);
    float across = ratio_of(s, s->in.width, s->out.width, scale[1]);
    for (int64_t i = 0; i < s->out.height; i++) samples[i] = sample_at(s, down, i, s->in.height);
    for (int64_t j = 0; j < s->out.width; j++) samples[s->out.height + j] = sample_at(s, across, j, s->in.width);
    return samples;
}

#define ALWAYS static inline __attribute__((always_inline))
/* Written for a constant number of taps, so that the loops over them are none. */
#define DEFINE_INTERP(dtype, suffix, real)                                                                             \
    ALWAYS void plane_taps_##suffix(const interp_state *s, const sample *rows, const real *x, real *y,                 \
                                    const int taps) {                                                                  \
        const sample *columns = rows + s->out.height;                                                                  \
        for (int64_t i = 0; i < s->out.height; i++) {                                                                  \
            const sample *r = &rows[i];                                                                                \
            const real *row[TAPS];                                                                                     \
            for (int a = 0; a < taps; a++) row[a] = x + r->at[a] * s->in.row_step;                                     \
            for (int64_t j = 0; j < s->out.width; j++) {                                                               \
                const sample *k = &columns[j];                                                                         \
                real sum = 0;                                                                                          \
                for (int a = 0; a < taps; a++)                                                                         \
                    for (int b = 0; b < taps; b++)                                                                     \
                        sum += (real)r->weight[a] * (real)k->weight[b] * row[a][k->at[b] * s->in.column_step];         \
                y[i * s->out.row_step + j * s->out.column_step] = sum;                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    ALWAYS void spread_taps_##suffix(const interp_state *s, const sample *rows, const real *dy, real *dx,              \
                                     const int taps) {                                                                 \
        const sample *columns = rows + s->out.height;                                                                  \
        for (int64_t i = 0; i < s->out.height; i++) {                                                                  \
            const sample *r = &rows[i];                                                                                \
            real *row[TAPS];                                                                                           \
            for (int a = 0; a < taps; a++) row[a] = dx + r->at[a] * s->in.row_step;                                    \
            for (int64_t j = 0; j < s->out.width; j++) {                                                               \
                const sample *k = &columns[j];                                                                         \
                real g = dy[i * s->out.row_step + j * s->out.column_step];                                             \
                for (int a = 0; a < taps; a++)                                                                         \
                    for (int b = 0; b < taps; b++)                                                                     \
                        row[a][k->at[b] * s->in.column_step] += (real)r->weight[a] * (real)k->weight[b] * g;           \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void plane_##suffix(const interp_state *s, const sample *rows, const real *x, real *y) {                    \
        if (s->taps == 1)                                                                                              \
            plane_taps_##suffix(s, rows, x, y, 1);                                                                     \
        else if (s->taps == 2)                                                                                         \
            plane_taps_##suffix(s, rows, x, y, 2);                                                                     \
        else                                                                                                           \
            plane_taps_##suffix(s, rows, x, y, TAPS);                                                                  \
    }                                                                                                                  \
    static void spread_##suffix(const interp_state *s, const sample *rows, const real *dy, real *dx) {                 \
        if (s->taps == 1)                                                                                              \
            spread_taps_##suffix(s, rows, dy, dx, 1);                                                                  \
        else if (s->taps == 2)                                                                                         \
            spread_taps_##suffix(s, rows, dy, dx, 2);                                                                  \
        else                                                                                                           \
            spread_taps_##suffix(s, rows, dy, dx, TAPS);                                                               \
    }
REAL_TYPES(DEFINE_INTERP)
#undef DEFINE_INTERP
#undef ALWAYS

/* Offsets of channel k of all channels of all images. */
static int64_t channel_at(const images *m, int64_t k) {
    return k / m->channels * m->image + k % m->channels * m->channel_step;
}

static weft_status run(const kernel_call *c) {
    const interp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    void *y = arg_out(c, OUT)->data;
    const sample *samples = make_samples(c, s);
    for (int64_t k = 0; k < s->in.count * s->in.channels; k++) {
        int64_t from = channel_at(&s->in, k), to = channel_at(&s->out, k);
        if (x->dtype == WEFT_FP64)
            plane_fp64(s, samples, (const double *)x->data + from, (double *)y + to);
        else
            plane_fp32(s, samples, (const float *)x->data + from, (float *)y + to);
    }
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const interp_state *s = c->state;
    const tensor *dy = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    const sample *samples = make_samples(c, s);
    tensor_clear(dx);
    for (int64_t k = 0; k < s->in.count * s->in.channels; k++) {
        int64_t to = channel_at(&s->in, k), from = channel_at(&s->out, k);
        if (dy->dtype == WEFT_FP64)
            spread_fp64(s, samples, (const double *)dy->data + from, (double *)dx->data + to);
        else
            spread_fp32(s, samples, (const float *)dy->data + from, (float *)dx->data + to);
    }
    return NULL;
}

const kernel kernel_bilinear_interp_v2 = {prepare, run};
const kernel kernel_bilinear_interp_v2_grad = {prepare_grad, run_grad};

static weft_status prepare_by_extents(kernel_prepare *p) {
    TRY(prepare(p));
    ((interp_state *)p->state)->by_extents = true;
    return NULL;
}
static weft_status prepare_grad_by_extents(kernel_prepare *p) {
    TRY(prepare_grad(p));
    ((interp_state *)p->state)->by_extents = true;
    return NULL;
}

const kernel kernel_bilinear_interp = {prepare_by_extents, run};
const kernel kernel_bilinear_interp_grad = {prepare_grad_by_extents, run_grad};

/* --- by the nearest element: volumes too -------------------------------------------------------------------------- */

enum { VOLUME_NDIM = 5 };

static weft_status prepare_nearest(kernel_prepare *p) {
    return type_in(p, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d.prepare(p) : prepare(p);
}
static weft_status prepare_nearest_grad(kernel_prepare *p) {
    return type_in(p, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d_grad.prepare(p) : prepare_grad(p);
}
static weft_status prepare_nearest_by_extents(kernel_prepare *p) {
    return type_in(p, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d.prepare(p) : prepare_by_extents(p);
}
static weft_status prepare_nearest_grad_by_extents(kernel_prepare *p) {
    return type_in(p, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d_grad.prepare(p) : prepare_grad_by_extents(p);
}
static weft_status run_nearest(const kernel_call *c) {
    return arg_in(c, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d.run(c) : run(c);
}
static weft_status run_nearest_grad(const kernel_call *c) {
    return arg_in(c, IN_X)->ndim == VOLUME_NDIM ? kernel_interp3d_grad.run(c) : run_grad(c);
}

const kernel kernel_nearest_interp_v2 = {prepare_nearest, run_nearest};
const kernel kernel_nearest_interp_v2_grad = {prepare_nearest_grad, run_nearest_grad};
const kernel kernel_nearest_interp = {prepare_nearest_by_extents, run_nearest};
const kernel kernel_nearest_interp_grad = {prepare_nearest_grad_by_extents, run_nearest_grad};
