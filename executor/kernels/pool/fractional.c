/* fractional.c: the largest element of windows whose borders are drawn: fractional max pooling (Graham 2014), over two
 * or three dimensions, and its gradient.
 *
 * With alpha = extents in over extents out and a number u, window i begins at floor((i + u) alpha) - floor(u alpha).
 * Without a size it ends where the next begins, and u is made small enough for the last one to fit. `random_u` is u; 0:
 * it is drawn, once for all windows of a step, by the run's seed. Sums are Paddle's, in float
 * (phi/kernels/funcs/pooling.h). */
#include <float.h>
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"

enum { IN_X, GRAD_IN_MASK, GRAD_IN_OUT_GRAD, OUT = 0, OUT_MASK, AXES = 3 };

/* With two spatial dimensions the first one has extent 1. */
typedef struct fractional_state {
    int64_t planes, in[AXES], out[AXES], size[AXES]; /* size 0: up to the next window */
    float u;                                         /* 0: drawn */
} fractional_state;

static weft_status prepare(kernel_prepare *p) {
    fractional_state *s = KERNEL_STATE(p, fractional_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT), *mask = type_out(p, OUT_MASK);
    size_t nsizes;
    const int64_t *size = attr_ints(p->op, "kernel_size", &nsizes);
    TRY(require_real(p, x, "x"));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, out, "out"));
    int lead = 5 - x->ndim;
    if (lead < 0 || lead > 1 || out->ndim != x->ndim) return kernel_unsupported(p, "expected x of 4 or 5 dimensions");
    s->planes = x->dims[0] * x->dims[1];
    s->u = (float)attr_float(p->op, "random_u", 0);
    for (int d = 0; d < AXES; d++) {
        s->in[d] = d < lead ? 1 : x->dims[2 + d - lead];
        s->out[d] = d < lead ? 1 : out->dims[2 + d - lead];
        s->size[d] = d < lead ? 0 : d - lead < (int)nsizes ? size[d - lead] : 0;
        if (s->in[d] < s->out[d] || s->size[d] < 0 || s->size[d] > s->in[d])
            return kernel_unsupported(p, "expected output_size and kernel_size of at most x's extents");
    }
    if (!(s->u >= 0 && s->u < 1)) return kernel_unsupported(p, "random_u: expected 0 to 1, found %g", (double)s->u);
    if (out->dims[0] * out->dims[1] != s->planes) return kernel_unsupported(p, "expected out of x's channels");
    if (mask && mask->dtype != WEFT_INT32) return kernel_unsupported(p, "expected a mask of int32");
    return mask ? require_numel(p, mask, out->numel, "mask") : NULL;
}

static float drawn(const kernel_call *c) {
    uint32_t bits[4];
    random_key key = random_key_of(c, 0);
    philox(key.seed, key.op_seed, key.step, 0, bits);
    return ((float)(bits[0] >> 9) + 0.5f) * 0x1p-23f;
}

typedef struct borders {
    float alpha, u;
    int64_t size, extent;
} borders;

static borders borders_of(const fractional_state *s, int d, float u) {
    borders b = {.size = s->size[d], .extent = s->in[d], .u = u};
    if (s->out[d] == 1 && b.size) return b;
    b.alpha = (float)(s->in[d] - b.size) / (float)(s->out[d] - (b.size > 0));
    if (b.size > 0) return b;
    int64_t base = s->in[d] / s->out[d];
    float most = (float)(base + 2) / b.alpha - 1;
    float other = (float)(s->in[d] + 1 - base) / b.alpha - (float)(s->out[d] - 1);
    b.u = u * (other < most ? other : most);
    return b;
}

static int64_t border(const borders *b, int64_t i) {
    return (int64_t)(((float)i + b->u) * b->alpha) - (int64_t)(b->u * b->alpha);
}
static int64_t first_of(const borders *b, int64_t i) {
    int64_t first = border(b, i);
    return first < 0 ? 0 : first;
}
static int64_t end_of(const borders *b, int64_t i) {
    int64_t end = b->size ? border(b, i) + b->size : border(b, i + 1);
    return end > b->extent ? b->extent : end;
}

static void pool_plane(const kernel_call *c, const borders b[AXES], int64_t plane) {
    const fractional_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    tensor *mask = arg_out(c, OUT_MASK);
    int64_t from = plane * s->in[0] * s->in[1] * s->in[2], windows = s->out[0] * s->out[1] * s->out[2];
    for (int64_t w = 0; w < windows; w++) {
        int64_t at[AXES] = {w / (s->out[1] * s->out[2]), w / s->out[2] % s->out[1], w % s->out[2]}, found = -1;
        double most = -FLT_MAX;
        for (int64_t z = first_of(&b[0], at[0]); z < end_of(&b[0], at[0]); z++)
            for (int64_t y = first_of(&b[1], at[1]); y < end_of(&b[1], at[1]); y++)
                for (int64_t i = first_of(&b[2], at[2]); i < end_of(&b[2], at[2]); i++) {
                    int64_t index = (z * s->in[1] + y) * s->in[2] + i;
                    double value = tensor_real(x, from + index);
                    if (!(most < value) && !isnan(value)) continue;
                    if (isnan(most)) continue;
                    most = value, found = index;
                }
        tensor_set_real(arg_out(c, OUT), plane * windows + w, most);
        if (mask) tensor_set_integer(mask, plane * windows + w, found);
    }
}

static weft_status run(const kernel_call *c) {
    const fractional_state *s = c->state;
    float u = s->u > 0 ? s->u : drawn(c);
    borders b[AXES];
    for (int d = 0; d < AXES; d++) b[d] = borders_of(s, d, u);
    for (int64_t plane = 0; plane < s->planes; plane++) pool_plane(c, b, plane);
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *mask = type_in(p, GRAD_IN_MASK), *dy = type_in(p, GRAD_IN_OUT_GRAD);
    TRY(require_real(p, x, "x"));
    TRY(require_present(p, mask, "mask"));
    TRY(require_present(p, dy, "out@GRAD"));
    TRY(require_like(p, x, dy, mask->numel, "out@GRAD"));
    TRY(require_like(p, x, type_out(p, 0), x->numel, "x@GRAD"));
    if (mask->dtype != WEFT_INT32) return kernel_unsupported(p, "expected a mask of int32");
    if (x->ndim < 3 || mask->ndim != x->ndim || mask->dims[0] != x->dims[0] || mask->dims[1] != x->dims[1])
        return kernel_unsupported(p, "expected a mask of x's channels");
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X), *mask = arg_in(c, GRAD_IN_MASK);
    int64_t planes = x->dims[0] * x->dims[1], large = planes ? x->numel / planes : 0;
    int64_t windows = planes ? mask->numel / planes : 0;
    tensor_clear(arg_out(c, 0));
    for (int64_t i = 0; i < mask->numel; i++) {
        int64_t index = tensor_integer(mask, i);
        if (index < 0 || index >= large)
            return kernel_failed(c, "mask: expected places of 0 to %lld, found %lld", (long long)large - 1,
                                 (long long)index);
        tensor_add_real(arg_out(c, 0), i / windows * large + index, tensor_real(arg_in(c, GRAD_IN_OUT_GRAD), i));
    }
    return NULL;
}

const kernel kernel_fractional_max_pool = {prepare, run};
const kernel kernel_fractional_max_pool_grad = {prepare_grad, run_grad};
