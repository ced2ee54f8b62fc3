/* distributions.c: numbers of other distributions: exponential, poisson, dirichlet.
 *
 * Draws are by the run's seed, the op, the step and the element (random.h), and not Paddle's. An element that needs
 * more than one try takes further words from numbers that no element has. Counts of many events: Hoermann, "The
 * transformed rejection method for generating Poisson random variables" (1993). Gamma: Marsaglia and Tsang (2000). */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/layout.h"

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

/* --- dirichlet: gamma numbers by each weight, over their sum ------------------------------------------------------ */

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
