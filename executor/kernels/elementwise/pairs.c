/* pairs.c: functions of two elements that broadcast, beyond those of elementwise.c: atan2, fmax, fmin, heaviside,
 * copysign, nextafter, gammaincc, lerp, dist, and their gradients.
 *
 * fmax and fmin take the other operand where one is not a number; where both are equal the gradient goes to X. The
 * gradient of an operand that was stretched is summed in double. */
#include <math.h>

#include "executor/kernels/elementwise/elementwise.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/loops.h"
#include "executor/kernels/special_math.h"

typedef struct pair_state {
    loops l; /* operands: X, Y; the result is dense */
    int64_t numel;
    double p;
} pair_state;

static weft_status prepare_pair(kernel_prepare *p, const tensor *x, const tensor *y, const tensor *result) {
    pair_state *s = KERNEL_STATE(p, pair_state);
    if (!s) return base_out_of_memory();
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    TRY(require_present(p, result, "Out"));
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_same_dtype(p, x, result, "Out"));
    TRY(broadcast_strides(p, -1, x, y, result->ndim, result->dims, strides));
    strides_dense(result->ndim, result->dims, strides[2]);
    loops_init(&s->l, result->ndim, result->dims, 3, strides);
    s->numel = result->numel;
    return NULL;
}

/* Visits every element of the result: `r` is its index, `a` and `b` those of its operands. */
#define FOR_EACH_PAIR(l, a, b, r)                                                                                      \
    for (walk w_ = walk_start(l); w_.left; walk_next(l, &w_))                                                          \
        for (int64_t i_ = 0, a = w_.at[0], b = w_.at[1], r = w_.at[2]; i_ < loops_run(l);                              \
             i_++, a += loops_stride(l, 0), b += loops_stride(l, 1), r += loops_stride(l, 2))

/* --- forward ------------------------------------------------------------------------------------------------------ */

static double of_atan2(double x, double y) {
    return atan2(x, y);
}

#define DEFINE_FORWARD(name, function)                                                                                 \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_pair(p, type_in(p, 0), type_in(p, 1), type_out(p, 0));                                          \
    }                                                                                                                  \
    static weft_status run_##name(const kernel_call *c) {                                                              \
        const loops *l = &((const pair_state *)c->state)->l;                                                           \
        const tensor *x = arg_in(c, 0), *y = arg_in(c, 1);                                                             \
        tensor *out = arg_out(c, 0);                                                                                   \
        FOR_EACH_PAIR(l, a, b, r) tensor_set_real(out, r, function(tensor_real(x, a), tensor_real(y, b)));             \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_##name, run_##name};
DEFINE_FORWARD(atan2, of_atan2)
DEFINE_FORWARD(elementwise_fmax, fmax)
DEFINE_FORWARD(elementwise_fmin, fmin)
/* 0 below 0, 1 above, Y at 0. */
static double of_heaviside(double x, double y) {
    return isnan(x) ? x : x == 0 ? y : x > 0;
}
DEFINE_FORWARD(elementwise_heaviside, of_heaviside)
DEFINE_FORWARD(copysign, copysign)
DEFINE_FORWARD(gammaincc, special_gamma_beyond)

/* The next number of the type on the way from X to Y. */
static weft_status run_nextafter(const kernel_call *c) {
    const loops *l = &((const pair_state *)c->state)->l;
    const tensor *x = arg_in(c, 0), *y = arg_in(c, 1);
    tensor *out = arg_out(c, 0);
    FOR_EACH_PAIR(l, a, b, r) {
        double from = tensor_real(x, a), to = tensor_real(y, b);
        bool is_single = out->dtype == WEFT_FP32;
        tensor_set_real(out, r, is_single ? (double)nextafterf((float)from, (float)to) : nextafter(from, to));
    }
    return NULL;
}
const kernel kernel_nextafter = {prepare_copysign, run_nextafter};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

enum { IN_X, IN_Y, IN_OUT_GRAD, OUT_X = 0, OUT_Y };

static weft_status prepare_gradients(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y), *g = type_in(p, IN_OUT_GRAD);
    TRY(prepare_pair(p, x, y, g));
    if (type_out(p, OUT_X)) TRY(require_numel(p, type_out(p, OUT_X), x->numel, "X@GRAD"));
    if (type_out(p, OUT_Y)) TRY(require_numel(p, type_out(p, OUT_Y), y->numel, "Y@GRAD"));
    p->workspace_nbytes = (size_t)(x->numel + y->numel) * sizeof(double);
    return NULL;
}

/* Sums of both operands, in the workspace; zeroed. */
static double *sums_of(const kernel_call *c) {
    double *sums = c->workspace;
    for (int64_t i = 0; i < arg_in(c, IN_X)->numel + arg_in(c, IN_Y)->numel; i++) sums[i] = 0;
    return sums;
}

static void store_sums(const kernel_call *c, const double *sums) {
    tensor *dx = arg_out(c, OUT_X), *dy = arg_out(c, OUT_Y);
    for (int64_t i = 0; dx && i < dx->numel; i++) tensor_set_real(dx, i, sums[i]);
    for (int64_t i = 0; dy && i < dy->numel; i++) tensor_set_real(dy, i, sums[arg_in(c, IN_X)->numel + i]);
}

typedef struct slopes {
    double x, y;
} slopes;

static slopes atan2_slopes(double x, double y) {
    double square = x * x + y * y;
    return (slopes){y / square, -x / square};
}
static slopes fmax_slopes(double x, double y) {
    bool takes_x = x >= y || isnan(y);
    return (slopes){takes_x, !takes_x};
}
static slopes fmin_slopes(double x, double y) {
    bool takes_x = x <= y || isnan(y);
    return (slopes){takes_x, !takes_x};
}

#define DEFINE_GRADIENT(name, function)                                                                                \
    static weft_status run_##name(const kernel_call *c) {                                                              \
        const loops *l = &((const pair_state *)c->state)->l;                                                           \
        const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y), *g = arg_in(c, IN_OUT_GRAD);                          \
        double *dx = sums_of(c), *dy = dx + x->numel;                                                                  \
        FOR_EACH_PAIR(l, a, b, r) {                                                                                    \
            slopes of = function(tensor_real(x, a), tensor_real(y, b));                                                \
            dx[a] += of.x * tensor_real(g, r);                                                                         \
            dy[b] += of.y * tensor_real(g, r);                                                                         \
        }                                                                                                              \
        store_sums(c, dx);                                                                                             \
        return NULL;                                                                                                   \
    }                                                                                                                  \
    const kernel kernel_##name = {prepare_gradients, run_##name};
DEFINE_GRADIENT(atan2_grad, atan2_slopes)
DEFINE_GRADIENT(elementwise_fmax_grad, fmax_slopes)
DEFINE_GRADIENT(elementwise_fmin_grad, fmin_slopes)
static slopes heaviside_slopes(double x, double y) {
    (void)y;
    return (slopes){0, x == 0};
}
DEFINE_GRADIENT(elementwise_heaviside_grad, heaviside_slopes)
/* Between the steps of the quotient. */
static slopes remainder_slopes(double x, double y) {
    return (slopes){1, -floor(x / y)};
}
DEFINE_GRADIENT(remainder_grad, remainder_slopes)
static slopes copysign_slopes(double x, double y) {
    return (slopes){x == 0 ? 0 : copysign(1, x) * copysign(1, y), 0};
}
DEFINE_GRADIENT(copysign_grad, copysign_slopes)

/* Of the second operand alone, as in Paddle: how the first one changes a share has no closed form. */
static weft_status prepare_gammaincc_grad(kernel_prepare *p) {
    const tensor *y = type_in(p, IN_Y);
    TRY(prepare_pair(p, type_in(p, IN_X), y, type_in(p, IN_OUT_GRAD)));
    TRY(require_numel(p, type_out(p, 0), y->numel, "y@GRAD"));
    p->workspace_nbytes = (size_t)y->numel * sizeof(double);
    return NULL;
}

static weft_status run_gammaincc_grad(const kernel_call *c) {
    const loops *l = &((const pair_state *)c->state)->l;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y), *g = arg_in(c, IN_OUT_GRAD);
    double *dy = c->workspace;
    for (int64_t i = 0; i < y->numel; i++) dy[i] = 0;
    FOR_EACH_PAIR(l, a, b, r) {
        double shape_of = tensor_real(x, a), at = tensor_real(y, b);
        dy[b] -= tensor_real(g, r) * exp(-at) * pow(at, shape_of - 1) / tgamma(shape_of);
    }
    for (int64_t i = 0; i < y->numel; i++) tensor_set_real(arg_out(c, 0), i, dy[i]);
    return NULL;
}

const kernel kernel_gammaincc_grad = {prepare_gammaincc_grad, run_gammaincc_grad};

/* --- lerp: X + Weight * (Y - X) ----------------------------------------------------------------------------------- */

enum { LERP_WEIGHT = 2, LERP_OUT, LERP_OUT_GRAD };

typedef struct lerp_state {
    pair_state pair;
    loops weight; /* operand 0: Weight; operand 1: the result */
} lerp_state;

static weft_status prepare_weighted(kernel_prepare *p, const tensor *result) {
    TRY(prepare_pair(p, type_in(p, IN_X), type_in(p, IN_Y), result));
    pair_state pair = *(pair_state *)p->state;
    lerp_state *s = KERNEL_STATE(p, lerp_state);
    if (!s) return base_out_of_memory();
    s->pair = pair;
    const tensor *w = type_in(p, LERP_WEIGHT);
    TRY(require_present(p, w, "Weight"));
    TRY(require_same_dtype(p, result, w, "Weight"));
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    if (!strides_broadcast(w, -1, result->ndim, result->dims, strides[0]))
        return kernel_unsupported(p, "expected a Weight that broadcasts to the result");
    strides_dense(result->ndim, result->dims, strides[1]);
    loops_init(&s->weight, result->ndim, result->dims, 2, strides);
    p->workspace_nbytes = (size_t)result->numel * sizeof(double);
    return NULL;
}

static weft_status prepare_lerp(kernel_prepare *p) {
    return prepare_weighted(p, type_out(p, 0));
}

static weft_status prepare_lerp_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y), *g = type_in(p, LERP_OUT_GRAD);
    TRY(prepare_weighted(p, g));
    if (type_in(p, LERP_OUT)) TRY(require_same_dtype(p, g, type_in(p, LERP_OUT), "Out"));
    if (type_out(p, OUT_X)) TRY(require_numel(p, type_out(p, OUT_X), x->numel, "X@GRAD"));
    if (type_out(p, OUT_Y)) TRY(require_numel(p, type_out(p, OUT_Y), y->numel, "Y@GRAD"));
    p->workspace_nbytes += (size_t)(x->numel + y->numel) * sizeof(double);
    return NULL;
}

/* The weight of each element of the result. */
static double *weights_of(const kernel_call *c, double *room) {
    const loops *l = &((const lerp_state *)c->state)->weight;
    const tensor *w = arg_in(c, LERP_WEIGHT);
    for (walk at = walk_start(l); at.left; walk_next(l, &at))
        for (int64_t i = 0; i < loops_run(l); i++)
            room[at.at[1] + i * loops_stride(l, 1)] = tensor_real(w, at.at[0] + i * loops_stride(l, 0));
    return room;
}

static weft_status run_lerp(const kernel_call *c) {
    const lerp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y);
    const double *w = weights_of(c, c->workspace);
    tensor *out = arg_out(c, 0);
    FOR_EACH_PAIR(&s->pair.l, a, b, r)
    tensor_set_real(out, r, tensor_real(x, a) + w[r] * (tensor_real(y, b) - tensor_real(x, a)));
    return NULL;
}

static weft_status run_lerp_grad(const kernel_call *c) {
    const lerp_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *g = arg_in(c, LERP_OUT_GRAD);
    double *dx = sums_of(c), *dy = dx + x->numel;
    const double *w = weights_of(c, dy + arg_in(c, IN_Y)->numel);
    FOR_EACH_PAIR(&s->pair.l, a, b, r) {
        dx[a] += (1 - w[r]) * tensor_real(g, r);
        dy[b] += w[r] * tensor_real(g, r);
    }
    store_sums(c, dx);
    return NULL;
}

const kernel kernel_lerp = {prepare_lerp, run_lerp};
const kernel kernel_lerp_grad = {prepare_lerp_grad, run_lerp_grad};

/* --- dist: the p-norm of X - Y ------------------------------------------------------------------------------------ */

enum { DIST_OUT = 2, DIST_OUT_GRAD };

/* X and Y broadcast to a shape of which there is no tensor. */
static weft_status prepare_difference(kernel_prepare *p, const tensor *x, const tensor *y) {
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, y, "Y"));
    const tensor *longer = x->ndim >= y->ndim ? x : y, *other = longer == x ? y : x;
    tensor both = *longer;
    for (int d = 1; d <= other->ndim; d++)
        if (both.dims[both.ndim - d] == 1) both.dims[both.ndim - d] = other->dims[other->ndim - d];
    both.numel = 1;
    for (int d = 0; d < both.ndim; d++) both.numel *= both.dims[d];
    TRY(prepare_pair(p, x, y, &both));
    ((pair_state *)p->state)->p = attr_float(p->op, "p", 2);
    return NULL;
}

static weft_status prepare_dist(kernel_prepare *p) {
    TRY(prepare_difference(p, type_in(p, IN_X), type_in(p, IN_Y)));
    return require_numel(p, type_out(p, 0), 1, "Out");
}

static weft_status run_dist(const kernel_call *c) {
    const pair_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y);
    double norm = s->p == -INFINITY ? INFINITY : 0;
    FOR_EACH_PAIR(&s->l, a, b, r) {
        double d = fabs(tensor_real(x, a) - tensor_real(y, b));
        (void)r;
        if (isinf(s->p))
            norm = isnan(norm) || isnan(d) ? (double)NAN : s->p > 0 ? fmax(norm, d) : fmin(norm, d);
        else
            norm += s->p == 0 ? d != 0 : s->p == 1 ? d : s->p == 2 ? d * d : pow(d, s->p);
    }
    if (!isinf(s->p) && s->p != 0 && s->p != 1) norm = s->p == 2 ? sqrt(norm) : pow(norm, 1 / s->p);
    tensor_set_real(arg_out(c, 0), 0, norm);
    return NULL;
}

static weft_status prepare_dist_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *y = type_in(p, IN_Y);
    TRY(prepare_difference(p, x, y));
    TRY(require_numel(p, type_in(p, DIST_OUT), 1, "Out"));
    TRY(require_same_dtype(p, x, type_in(p, DIST_OUT), "Out"));
    TRY(require_same_dtype(p, x, type_in(p, DIST_OUT_GRAD), "Out@GRAD"));
    TRY(require_numel(p, type_in(p, DIST_OUT_GRAD), 1, "Out@GRAD"));
    if (type_out(p, OUT_X)) TRY(require_numel(p, type_out(p, OUT_X), x->numel, "X@GRAD"));
    if (type_out(p, OUT_Y)) TRY(require_numel(p, type_out(p, OUT_Y), y->numel, "Y@GRAD"));
    p->workspace_nbytes = (size_t)(x->numel + y->numel) * sizeof(double);
    return NULL;
}

static double dist_slope(double p, double d, double norm) {
    double sign = (d > 0) - (d < 0);
    if (p == 0 || d == 0 || norm == 0) return 0;
    if (isinf(p)) return fabs(d) == norm ? sign : 0;
    return p == 1 ? sign : p == 2 ? d / norm : sign * pow(fabs(d) / norm, p - 1);
}

static weft_status run_dist_grad(const kernel_call *c) {
    const pair_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *y = arg_in(c, IN_Y);
    double norm = tensor_real(arg_in(c, DIST_OUT), 0), g = tensor_real(arg_in(c, DIST_OUT_GRAD), 0);
    double *dx = sums_of(c), *dy = dx + x->numel;
    FOR_EACH_PAIR(&s->l, a, b, r) {
        double d = tensor_real(x, a) - tensor_real(y, b);
        if (x->dtype == WEFT_FP32) d = (double)(float)d; /* as the norm was rounded, which may be one of them */
        double of = g * dist_slope(s->p, d, norm);
        (void)r;
        dx[a] += of;
        dy[b] -= of;
    }
    store_sums(c, dx);
    return NULL;
}

const kernel kernel_dist = {prepare_dist, run_dist};
const kernel kernel_dist_grad = {prepare_dist_grad, run_dist_grad};
