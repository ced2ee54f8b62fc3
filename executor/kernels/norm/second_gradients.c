/* second_gradients.c: gradients of the gradients of batch_norm and instance_norm.
 *
 * With u = (x - mean) r, r = 1 / sqrt(variance + epsilon) and g = dy, over the N elements that share a mean:
 *
 *   dx = scale r (g - mean(g) - u mean(g u)),  dscale = sum(g u),  dbias = sum(g)
 *
 * What comes down is v of dx, vs of dscale and vb of dbias. With a = mean(v u), b = mean(g u), p = mean(v g) - mean(v)
 * mean(g):
 *
 *   DDY    = scale r (v - mean(v) - u a) + vs u + vb
 *   DScale = N r (p - a b)
 *   DX     = scale r^2 (u (3 a b - p) - b (v - mean(v)) - a (g - mean(g))) + vs r (g - mean(g) - u b)
 *
 * Under global statistics, which are constants: DDY = scale r v + vs u + vb, DScale = r sum(v g), DX = vs r g.
 * Paddle: phi/kernels/cpu/{batch,instance}_norm_grad_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_SCALE, IN_SAVED_MEAN, IN_SAVED_VARIANCE, IN_DDX, IN_DDSCALE, IN_DDBIAS, IN_DY, IN_MEAN, IN_VARIANCE };
enum { OUT_DX, OUT_DSCALE, OUT_DDY };

/* Element (b, i) of part c is x[(b * parts + c) * plane + i]; its scale is scale[c % channels]. */
typedef struct second_state {
    int64_t batch, parts, plane, channels;
    double epsilon;
    bool use_running; /* mean and variance are the running ones, and constants */
} second_state;

/* Of one part. */
typedef struct moments {
    double mean, r, scale, vs, vb;
    double v, g, a, b, p; /* means, p as above */
} moments;

static weft_status check(kernel_prepare *p, const tensor *x) {
    const second_state *s = p->state;
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, type_in(p, IN_DY), "DY"));
    for (int i = IN_SCALE; i < (int)p->schema->ninputs; i++) {
        bool is_whole = i == IN_DDX || i == IN_DY, is_saved = i == IN_SAVED_MEAN || i == IN_SAVED_VARIANCE;
        if (is_saved && s->use_running) continue;
        if (is_saved) TRY(require_present(p, type_in(p, i), p->schema->inputs[i].name));
        TRY(require_like(p, x, type_in(p, i), is_whole ? x->numel : is_saved ? s->parts : s->channels,
                         p->schema->inputs[i].name));
    }
    for (int o = OUT_DX; o <= OUT_DDY; o++)
        TRY(require_like(p, x, type_out(p, o), o == OUT_DSCALE ? s->channels : x->numel, p->schema->outputs[o].name));
    return NULL;
}

static weft_status prepare_batch(kernel_prepare *p) {
    second_state *s = KERNEL_STATE(p, second_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, x, "X"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected X of at least 2 dimensions, found %d", x->ndim);
    bool last = x->ndim == 2 || strcmp(attr_string(p->op, "data_layout", "NCHW"), "NHWC") == 0;
    axis_split split = axis_split_at(x, last ? x->ndim - 1 : 1);
    *s = (second_state){split.outer, split.extent, split.inner, split.extent, attr_float(p->op, "epsilon", 1e-5),
                        attr_bool(p->op, "use_global_stats", false) || attr_bool(p->op, "is_test", false)};
    TRY(check(p, x));
    if (s->use_running)
        for (int i = IN_MEAN; i <= IN_VARIANCE; i++) TRY(require_present(p, type_in(p, i), p->schema->inputs[i].name));
    return NULL;
}

/* Each channel of each sample is a part. */
static weft_status prepare_instance(kernel_prepare *p) {
    second_state *s = KERNEL_STATE(p, second_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, x, "X"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected X of at least 2 dimensions, found %d", x->ndim);
    axis_split split = axis_split_at(x, 1);
    *s = (second_state){1, split.outer * split.extent, split.inner, split.extent, attr_float(p->op, "epsilon", 1e-5),
                        false};
    return check(p, x);
}

static double real_or(const tensor *t, int64_t i, double absent) {
    return t ? tensor_real(t, i) : absent;
}

#define FOR_EACH_OF_PART(s, c, i)                                                                                      \
    for (int64_t b_ = 0; b_ < (s)->batch; b_++)                                                                        \
        for (int64_t i = (b_ * (s)->parts + (c)) * (s)->plane, end_ = i + (s)->plane; i < end_; i++)

static moments moments_of(const kernel_call *c, int64_t part) {
    const second_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *dy = arg_in(c, IN_DY), *ddx = arg_in(c, IN_DDX);
    double n = (double)(s->batch * s->plane);
    int64_t channel = part % s->channels;
    moments m = {.scale = real_or(arg_in(c, IN_SCALE), channel, 1),
                 .vs = real_or(arg_in(c, IN_DDSCALE), channel, 0),
                 .vb = real_or(arg_in(c, IN_DDBIAS), channel, 0)};
    m.mean = tensor_real(arg_in(c, s->use_running ? IN_MEAN : IN_SAVED_MEAN), part);
    m.r = tensor_real(arg_in(c, s->use_running ? IN_VARIANCE : IN_SAVED_VARIANCE), part);
    if (s->use_running) m.r = 1 / sqrt(m.r + s->epsilon);
    FOR_EACH_OF_PART(s, part, i) {
        double u = (tensor_real(x, i) - m.mean) * m.r, g = tensor_real(dy, i), v = real_or(ddx, i, 0);
        m.v += v / n;
        m.g += g / n;
        m.a += v * u / n;
        m.b += g * u / n;
        m.p += v * g / n;
    }
    if (s->use_running) return m;
    m.p -= m.v * m.g;
    return m;
}

static void give(const kernel_call *c, int64_t part, const moments *m) {
    const second_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *dy = arg_in(c, IN_DY), *ddx = arg_in(c, IN_DDX);
    tensor *dx = arg_out(c, OUT_DX), *ddy = arg_out(c, OUT_DDY);
    FOR_EACH_OF_PART(s, part, i) {
        double u = (tensor_real(x, i) - m->mean) * m->r, g = tensor_real(dy, i), v = real_or(ddx, i, 0);
        double of_x = m->vs * m->r * g, of_y = v;
        if (!s->use_running) {
            double inner = u * (3 * m->a * m->b - m->p) - m->b * (v - m->v) - m->a * (g - m->g);
            of_x = m->scale * m->r * m->r * inner + m->vs * m->r * (g - m->g - u * m->b);
            of_y = v - m->v - u * m->a;
        }
        if (dx) tensor_set_real(dx, i, of_x);
        if (ddy) tensor_set_real(ddy, i, m->scale * m->r * of_y + m->vs * u + m->vb);
    }
}

static weft_status run(const kernel_call *c) {
    const second_state *s = c->state;
    double n = (double)(s->batch * s->plane);
    tensor_clear(arg_out(c, OUT_DSCALE));
    for (int64_t part = 0; n > 0 && part < s->parts; part++) {
        moments m = moments_of(c, part);
        tensor_add_real(arg_out(c, OUT_DSCALE), part % s->channels,
                        n * m.r * (s->use_running ? m.p : m.p - m.a * m.b));
        give(c, part, &m);
    }
    return NULL;
}

const kernel kernel_batch_norm_second = {prepare_batch, run};
const kernel kernel_instance_norm_second = {prepare_instance, run};
