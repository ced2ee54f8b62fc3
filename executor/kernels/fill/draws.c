/* draws.c: numbers drawn by what an input says: bernoulli, seed, randperm, multinomial, gumbel_softmax.
 *
 * Draws are by the run's seed, the op, the step and the element (random.h), and not Paddle's: tests look at their
 * distribution. Without replacement the k smallest of -log(u) / share are taken, which is to draw one after another
 * (Efraimidis and Spirakis, 2006). */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"

static double unit_at(random_key key, uint64_t i) {
    uint32_t bits[4];
    philox(key.seed, key.op_seed, key.step, i, bits);
    return random_above_zero(bits[0]);
}

/* --- bernoulli ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_bernoulli(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, x->numel, "Out");
}

static weft_status run_bernoulli(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < x->numel; i++) {
        double share = tensor_real(x, i);
        if (!(share >= 0 && share <= 1)) return kernel_failed(c, "X: expected shares of 0 to 1, found %g", share);
        tensor_set_real(arg_out(c, 0), i, unit_at(key, (uint64_t)i) <= share && share > 0);
    }
    return NULL;
}

const kernel kernel_bernoulli = {prepare_bernoulli, run_bernoulli};

/* --- seed: of a dropout that is computed twice; not 0, which is no seed of its own -------------------------------- */

static weft_status prepare_seed(kernel_prepare *p) {
    int64_t *seed = KERNEL_STATE(p, int64_t);
    if (!seed) return base_out_of_memory();
    *seed = attr_int(p->op, "seed", 0);
    TRY(require_present(p, type_out(p, 0), "Out"));
    if (type_out(p, 0)->dtype != WEFT_INT32)
        return kernel_unsupported(p, "expected int32, found %s", dtype_text(type_out(p, 0)->dtype));
    return require_numel(p, type_out(p, 0), 1, "Out");
}

static weft_status run_seed(const kernel_call *c) {
    int64_t given = *(const int64_t *)c->state;
    random_key key = random_key_of(c, 0);
    uint32_t bits[4];
    philox(key.seed, key.op_seed, key.step, 0, bits);
    *(int32_t *)arg_out(c, 0)->data = given ? (int32_t)given : (int32_t)(bits[0] >> 1) | 1;
    return NULL;
}

const kernel kernel_seed = {prepare_seed, run_seed};

/* --- randperm ----------------------------------------------------------------------------------------------------- */

static weft_status prepare_randperm(kernel_prepare *p) {
    const tensor *out = type_out(p, 0);
    int64_t n = attr_int(p->op, "n", -1), *seed = KERNEL_STATE(p, int64_t);
    if (!seed) return base_out_of_memory();
    TRY(require_present(p, out, "Out"));
    if (out->dtype != WEFT_INT32 && out->dtype != WEFT_INT64 && out->dtype != WEFT_FP32 && out->dtype != WEFT_FP64)
        return kernel_unsupported(p, "expected int32, int64, fp32 or fp64, found %s", dtype_text(out->dtype));
    *seed = attr_int(p->op, "seed", 0);
    p->workspace_nbytes = (size_t)out->numel * sizeof(int64_t);
    return require_numel(p, out, n, "Out");
}

/* Fisher and Yates. */
static weft_status run_randperm(const kernel_call *c) {
    tensor *out = arg_out(c, 0);
    int64_t *order = c->workspace;
    random_key key = random_key_of(c, *(const int64_t *)c->state);
    size_t size = weft_dtype_nbytes(out->dtype);
    for (int64_t i = 0; i < out->numel; i++) order[i] = i;
    for (int64_t i = out->numel - 1; i > 0; i--) {
        uint32_t bits[4];
        philox(key.seed, key.op_seed, key.step, (uint64_t)i, bits);
        int64_t with = (int64_t)(((uint64_t)bits[0] << 32 | bits[1]) % ((uint64_t)i + 1)), other = order[with];
        order[with] = order[i];
        order[i] = other;
    }
    for (int64_t i = 0; i < out->numel; i++)
        fill_elements(out->dtype, (char *)out->data + (size_t)i * size, 1, (double)order[i]);
    return NULL;
}

const kernel kernel_randperm = {prepare_randperm, run_randperm};

/* --- multinomial -------------------------------------------------------------------------------------------------- */

typedef struct multinomial_state {
    int64_t rows, classes, samples;
    bool again;
} multinomial_state;

static weft_status prepare_multinomial(kernel_prepare *p) {
    multinomial_state *s = KERNEL_STATE(p, multinomial_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    if (x->ndim < 1 || x->ndim > 2) return kernel_unsupported(p, "expected X [class] or [row, class]");
    if (out->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected Out of int64, found %s", dtype_text(out->dtype));
    s->classes = x->dims[x->ndim - 1];
    s->rows = x->ndim == 2 ? x->dims[0] : 1;
    s->samples = attr_int(p->op, "num_samples", 1);
    s->again = attr_bool(p->op, "replacement", false);
    if (s->samples < 1 || (!s->again && s->samples > s->classes))
        return kernel_unsupported(p, "num_samples: expected 1 to %lld, found %lld", (long long)s->classes,
                                  (long long)s->samples);
    p->workspace_nbytes = (size_t)s->classes * sizeof(double);
    return require_numel(p, out, s->rows * s->samples, "Out");
}

/* The class at which the sums of shares reach a draw. */
static void draw_again(const multinomial_state *s, random_key key, int64_t row, double *shares, int64_t *out) {
    int64_t last = 0;
    for (int64_t k = 0; k < s->classes; k++) {
        if (shares[k] > 0) last = k;
        if (k) shares[k] += shares[k - 1];
    }
    for (int64_t i = 0; i < s->samples; i++) {
        double at = unit_at(key, (uint64_t)(row * s->samples + i)) * shares[s->classes - 1];
        int64_t low = 0, high = last;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            if (shares[middle] < at)
                low = middle + 1;
            else
                high = middle;
        }
        out[i] = low;
    }
}

static void draw_others(const multinomial_state *s, random_key key, int64_t row, double *shares, int64_t *out) {
    for (int64_t k = 0; k < s->classes; k++)
        shares[k] = shares[k] > 0 ? -log(unit_at(key, (uint64_t)(row * s->classes + k))) / shares[k] : INFINITY;
    for (int64_t i = 0; i < s->samples; i++) {
        int64_t least = 0;
        for (int64_t k = 1; k < s->classes; k++)
            if (shares[k] < shares[least]) least = k;
        out[i] = least;
        shares[least] = INFINITY;
    }
}

static weft_status run_multinomial(const kernel_call *c) {
    const multinomial_state *s = c->state;
    double *shares = c->workspace;
    random_key key = random_key_of(c, 0);
    for (int64_t row = 0; row < s->rows; row++) {
        int64_t possible = 0, *out = (int64_t *)arg_out(c, 0)->data + row * s->samples;
        for (int64_t k = 0; k < s->classes; k++) {
            shares[k] = tensor_real(arg_in(c, 0), row * s->classes + k);
            if (!(shares[k] >= 0) || isinf(shares[k]))
                return kernel_failed(c, "X: expected finite shares of 0 or more, found %g", shares[k]);
            possible += shares[k] > 0;
        }
        if (possible < (s->again ? 1 : s->samples))
            return kernel_failed(c, "X: expected %lld shares above 0 in a row, found %lld",
                                 (long long)(s->again ? 1 : s->samples), (long long)possible);
        (s->again ? draw_again : draw_others)(s, key, row, shares, out);
    }
    return NULL;
}

const kernel kernel_multinomial = {prepare_multinomial, run_multinomial};

/* --- gumbel_softmax: softmax((X + noise) / temperature); hard: 1 at the largest, 0 elsewhere ---------------------- */

typedef struct gumbel_state {
    axis_split split;
    double temperature;
    bool hard;
} gumbel_state;

static weft_status prepare_gumbel(kernel_prepare *p) {
    gumbel_state *s = KERNEL_STATE(p, gumbel_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    TRY(require_like(p, x, out, x->numel, "Out"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    s->temperature = attr_float(p->op, "temperature", 1);
    s->hard = attr_bool(p->op, "hard", false);
    if (!(s->temperature > 0)) return kernel_unsupported(p, "temperature: expected above 0, found %g", s->temperature);
    p->workspace_nbytes = (size_t)s->split.extent * sizeof(double);
    return NULL;
}

static void gumbel_line(const gumbel_state *s, double *line) {
    int64_t n = s->split.extent, best = 0;
    double sum = 0;
    for (int64_t k = 1; k < n; k++)
        if (line[k] > line[best]) best = k;
    double most = line[best];
    for (int64_t k = 0; k < n; k++) sum += line[k] = exp((line[k] - most) / s->temperature);
    for (int64_t k = 0; k < n; k++) line[k] = s->hard ? (double)(k == best) : line[k] / sum;
}

static weft_status run_gumbel(const kernel_call *c) {
    const gumbel_state *s = c->state;
    double *line = c->workspace;
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < s->split.outer * s->split.inner; i++) {
        int64_t first = i / s->split.inner * s->split.extent * s->split.inner + i % s->split.inner;
        for (int64_t k = 0; k < s->split.extent; k++) {
            int64_t at = first + k * s->split.inner;
            line[k] = tensor_real(arg_in(c, 0), at) - log(-log(unit_at(key, (uint64_t)at)) + 1e-20);
        }
        if (s->split.extent) gumbel_line(s, line);
        for (int64_t k = 0; k < s->split.extent; k++)
            tensor_set_real(arg_out(c, 0), first + k * s->split.inner, line[k]);
    }
    return NULL;
}

static weft_status prepare_gumbel_grad(kernel_prepare *p) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *out = type_in(p, 0);
    TRY(require_real(p, out, "Out"));
    TRY(require_present(p, type_in(p, 1), "Out@GRAD"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    TRY(require_like(p, out, type_in(p, 1), out->numel, "Out@GRAD"));
    TRY(require_like(p, out, type_out(p, 0), out->numel, "X@GRAD"));
    return axis_split_prepare(p, out, attr_int(p->op, "axis", -1), s);
}

/* softmax's, as in Paddle: the temperature is not in it. */
static weft_status run_gumbel_grad(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *y = arg_in(c, 0), *g = arg_in(c, 1);
    for (int64_t i = 0; i < s->outer * s->inner; i++) {
        int64_t first = i / s->inner * s->extent * s->inner + i % s->inner;
        double dot = 0;
        for (int64_t k = 0; k < s->extent; k++)
            dot += tensor_real(y, first + k * s->inner) * tensor_real(g, first + k * s->inner);
        for (int64_t k = 0; k < s->extent; k++) {
            int64_t at = first + k * s->inner;
            tensor_set_real(arg_out(c, 0), at, tensor_real(y, at) * (tensor_real(g, at) - dot));
        }
    }
    return NULL;
}

const kernel kernel_gumbel_softmax = {prepare_gumbel, run_gumbel};
const kernel kernel_gumbel_softmax_grad = {prepare_gumbel_grad, run_gumbel_grad};
