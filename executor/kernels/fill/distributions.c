/* distributions.c: numbers of other distributions: exponential, poisson, binomial, gamma, dirichlet.
 *
 * Draws are by the run's seed, the op, the step and the element (random.h), and not Paddle's. An element that needs
 * more than one try takes further words from numbers that no element has. Counts of many events: Hoermann, "The
 * transformed rejection method for generating Poisson random variables" (1993), and "The generation of binomial random
 * variates" (1993). Gamma: Marsaglia and Tsang (2000). */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/special_math.h"

/* Four numbers above 0, at most 1, of try number `attempt` of an element. */
static void four_units(random_key key, int64_t element, uint64_t attempt, double out[4]) {
    uint32_t bits[4];
    philox(key.seed, key.op_seed, key.step, (uint64_t)element + (attempt << 40), bits);
    for (int k = 0; k < 4; k++) out[k] = random_above_zero(bits[k]);
}

/* --- exponential -------------------------------------------------------------------------------------------------- */

static weft_status prepare_exponential(kernel_prepare *p) {
    double *lambda = KERNEL_STATE(p, double);
    if (!lambda) return base_out_of_memory();
    *lambda = attr_float(p->op, "lambda", 1);
    TRY(require_real(p, type_out(p, 0), "Out"));
    return *lambda > 0 ? NULL : kernel_unsupported(p, "lambda: expected above 0, found %g", *lambda);
}

static weft_status run_exponential(const kernel_call *c) {
    random_key key = random_key_of(c, 0);
    double units[4], lambda = *(const double *)c->state;
    for (int64_t i = 0; i < arg_out(c, 0)->numel; i++) {
        four_units(key, i, 0, units);
        tensor_set_real(arg_out(c, 0), i, (-log(units[0]) + 0x1p-60) / lambda);
    }
    return NULL;
}

const kernel kernel_exponential = {prepare_exponential, run_exponential};

/* --- poisson ------------------------------------------------------------------------------------------------------ */

enum { MANY_EVENTS = 10 }; /* from here on by rejection: the other way takes a product for each event */

static double count_few(random_key key, int64_t i, double mean) {
    double least = exp(-mean), product = 1, units[4];
    for (uint64_t count = 0;; count++) {
        if (count % 4 == 0) four_units(key, i, count / 4, units);
        product *= units[count % 4];
        if (product <= least) return (double)count;
    }
}

static double count_many(random_key key, int64_t i, double mean) {
    double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b, units[4];
    double scale = 1.1239 + 1.1328 / (b - 3.4), inner = 0.9277 - 3.6224 / (b - 2);
    for (uint64_t attempt = 0;; attempt++) {
        four_units(key, i, attempt, units);
        double u = units[0] - 0.5, v = units[1], off = 0.5 - fabs(u) + 0x1p-40;
        double k = floor((2 * a / off + b) * u + mean + 0.43);
        if (off >= 0.07 && v <= inner) return k;
        if (k < 0 || (off < 0.013 && v > off)) continue;
        if (log(v * scale / (a / (off * off) + b)) <= k * log(mean) - mean - lgamma(k + 1)) return k;
    }
}

static weft_status prepare_poisson(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_real(p, x, p->schema->inputs[0].name));
    TRY(require_present(p, out, "Out"));
    return require_like(p, x, out, x->numel, "Out");
}

static weft_status run_poisson(const kernel_call *c) {
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) {
        double mean = tensor_real(arg_in(c, 0), i);
        if (!(mean >= 0 && mean < 1e15)) return kernel_failed(c, "X: expected means of 0 to 1e15, found %g", mean);
        tensor_set_real(arg_out(c, 0), i, (mean < MANY_EVENTS ? count_few : count_many)(key, i, mean));
    }
    return NULL;
}

const kernel kernel_poisson = {prepare_poisson, run_poisson};

/* --- binomial: how many of `count` tries hold --------------------------------------------------------------------- */

/* The tries between two that hold. `share` is at most a half. */
static double hold_few(random_key key, int64_t i, double count, double share) {
    double tries = 0, units[4], below = log1p(-share);
    if (share == 0) return 0;
    for (uint64_t held = 0;; held++) {
        if (held % 4 == 0) four_units(key, i, held / 4, units);
        tries += floor(log(units[held % 4]) / below) + 1;
        if (tries > count) return (double)held;
    }
}

static double hold_many(random_key key, int64_t i, double count, double share) {
    double spread = sqrt(count * share * (1 - share)), b = 1.15 + 2.53 * spread, units[4];
    double a = -0.0873 + 0.0248 * b + 0.01 * share, inner = 0.92 - 4.2 / b, scale = (2.83 + 5.1 / b) * spread;
    double middle = floor((count + 1) * share), odds = log(share / (1 - share));
    double height = special_lgamma(middle + 1) + special_lgamma(count - middle + 1);
    for (uint64_t attempt = 0;; attempt++) {
        four_units(key, i, attempt, units);
        double u = units[0] - 0.5, v = units[1], off = 0.5 - fabs(u) + 0x1p-40;
        double k = floor((2 * a / off + b) * u + count * share + 0.5);
        if (off >= 0.07 && v <= inner) return k;
        if (k < 0 || k > count) continue;
        double below = height - special_lgamma(k + 1) - special_lgamma(count - k + 1) + (k - middle) * odds;
        if (log(v * scale / (a / (off * off) + b)) <= below) return k;
    }
}

static weft_status prepare_binomial(kernel_prepare *p) {
    const tensor *count = type_in(p, 0), *share = type_in(p, 1), *out = type_out(p, 0);
    TRY(require_present(p, count, "count"));
    TRY(require_real(p, share, "prob"));
    TRY(require_integers(p, out, "out"));
    TRY(require_numel(p, share, count->numel, "prob"));
    return require_numel(p, out, count->numel, "out");
}

static weft_status run_binomial(const kernel_call *c) {
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < arg_out(c, 0)->numel; i++) {
        double count = (double)tensor_integer(arg_in(c, 0), i), share = tensor_real(arg_in(c, 1), i);
        if (!(count >= 0 && share >= 0 && share <= 1))
            return kernel_failed(c, "expected a count of 0 or more and a prob of 0 to 1, found %g and %g", count,
                                 share);
        double rarer = share > 0.5 ? 1 - share : share;
        double held = (count * rarer < MANY_EVENTS ? hold_few : hold_many)(key, i, count, rarer);
        tensor_set_integer(arg_out(c, 0), i, (int64_t)(share > 0.5 ? count - held : held));
    }
    return NULL;
}

const kernel kernel_binomial = {prepare_binomial, run_binomial};

/* --- gamma numbers ------------------------------------------------------------------------------------------------ */

/* The logarithm of a gamma number: those of small weights are too small themselves. */
static double log_gamma_number(random_key key, int64_t i, double weight) {
    double units[4], d = (weight < 1 ? weight + 1 : weight) - 1.0 / 3, by = 1 / sqrt(9 * d);
    for (uint64_t attempt = 0;; attempt++) {
        four_units(key, i, attempt, units);
        double normal = sqrt(-2 * log(units[0])) * cos(2 * 3.14159265358979323846 * units[1]), t = 1 + by * normal;
        double v = t * t * t;
        if (t <= 0 || log(units[2]) >= 0.5 * normal * normal + d * (1 - v + log(v))) continue;
        return log(d * v) + (weight < 1 ? log(units[3]) / weight : 0);
    }
}

static weft_status run_gamma(const kernel_call *c) {
    random_key key = random_key_of(c, 0);
    for (int64_t i = 0; i < arg_in(c, 0)->numel; i++) {
        double weight = tensor_real(arg_in(c, 0), i);
        if (!(weight > 0 && weight < 1e15)) return kernel_failed(c, "x: expected numbers above 0, found %g", weight);
        tensor_set_real(arg_out(c, 0), i, exp(log_gamma_number(key, i, weight)));
    }
    return NULL;
}

const kernel kernel_standard_gamma = {prepare_poisson, run_gamma};

/* --- dirichlet: gamma numbers by each weight, over their sum ------------------------------------------------------ */

static weft_status prepare_dirichlet(kernel_prepare *p) {
    TRY(prepare_poisson(p));
    const tensor *x = type_in(p, 0);
    if (x->ndim < 1) return kernel_unsupported(p, "expected Alpha of 1 dimension or more");
    p->workspace_nbytes = (size_t)x->dims[x->ndim - 1] * sizeof(double);
    return NULL;
}

static weft_status run_dirichlet(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    random_key key = random_key_of(c, 0);
    int64_t width = x->dims[x->ndim - 1];
    double *logs = c->workspace;
    for (int64_t i = 0; i < x->numel; i += width) {
        double most = -INFINITY, sum = 0;
        for (int64_t k = 0; k < width; k++) {
            double weight = tensor_real(x, i + k);
            if (!(weight > 0 && weight < 1e15))
                return kernel_failed(c, "Alpha: expected weights above 0, found %g", weight);
            logs[k] = log_gamma_number(key, i + k, weight);
            if (logs[k] > most) most = logs[k];
        }
        for (int64_t k = 0; k < width; k++) sum += logs[k] = exp(logs[k] - most);
        for (int64_t k = 0; k < width; k++) tensor_set_real(arg_out(c, 0), i + k, logs[k] / sum);
    }
    return NULL;
}

const kernel kernel_dirichlet = {prepare_dirichlet, run_dirichlet};
