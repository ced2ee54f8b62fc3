/* nce.c: noise-contrastive estimation: each row's true classes against classes that are drawn, and its gradients.
 *
 * With o = s(x w + b) of a class and n = its probability to be drawn, times the number of draws: -log(o / (o + n)) for
 * a true one, -log(n / (o + n)) for a drawn one. A seed other than 0 draws what Paddle draws, the same in every step:
 * numbers of the Mersenne Twister of 64 bits. Given probabilities come with the tables of the alias method. Paddle:
 * paddle/phi/kernels/cpu/nce_kernel.cc. */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/fill/twister.h"
#include "executor/kernels/layout.h"

enum { IN_X, IN_LABEL, IN_WEIGHT, IN_BIAS, IN_ROW_WEIGHT, IN_PROBS, IN_ALIAS, IN_ALIAS_PROBS };
enum { IN_LOGITS = 5, IN_SAMPLES, IN_COST_GRAD, GRAD_IN_PROBS };
enum { OUT_COST, OUT_LOGITS, OUT_SAMPLES, OUT_X_GRAD = 0, OUT_WEIGHT_GRAD, OUT_BIAS_GRAD };
enum { UNIFORM, LOG_UNIFORM, GIVEN, NO_ALIAS = -1 };

typedef struct nce_state {
    int64_t rows, width, classes, ntrue, nsamples; /* nsamples: the true ones and those drawn */
    int64_t sampler, seed;
    const int64_t *given; /* classes instead of draws */
} nce_state;

static weft_status prepare_common(kernel_prepare *p) {
    nce_state *s = KERNEL_STATE(p, nce_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *label = type_in(p, IN_LABEL), *w = type_in(p, IN_WEIGHT);
    TRY(require_real(p, x, "Input"));
    TRY(require_present(p, label, "Label"));
    TRY(require_present(p, w, "Weight"));
    s->classes = attr_int(p->op, "num_total_classes", 1);
    if (x->ndim != 2 || w->ndim != 2 || w->dims[0] != s->classes || w->dims[1] != x->dims[1] || s->classes < 1)
        return kernel_unsupported(p, "expected Input [row, feature] and Weight [class, feature]");
    TRY(require_same_dtype(p, x, w, "Weight"));
    s->rows = x->dims[0], s->width = x->dims[1];
    if (label->ndim > 2 || label->dims[0] != s->rows) return kernel_unsupported(p, "expected Label [row, class]");
    s->ntrue = label->ndim == 2 ? label->dims[1] : 1;
    TRY(require_like(p, x, type_in(p, IN_BIAS), s->classes, "Bias"));
    TRY(require_like(p, x, type_in(p, IN_ROW_WEIGHT), s->rows, "SampleWeight"));
    size_t ngiven;
    s->given = attr_ints(p->op, "custom_neg_classes", &ngiven);
    s->nsamples = s->ntrue + attr_int(p->op, "num_neg_samples", 10);
    if (ngiven && (int64_t)ngiven != s->nsamples - s->ntrue)
        return kernel_unsupported(p, "custom_neg_classes: expected num_neg_samples classes");
    if (!ngiven) s->given = NULL;
    for (size_t i = 0; i < ngiven; i++)
        if (s->given[i] < 0 || s->given[i] >= s->classes)
            return kernel_unsupported(p, "custom_neg_classes: no such class");
    s->sampler = attr_int(p->op, "sampler", 0);
    s->seed = attr_int(p->op, "seed", 0);
    if (s->sampler < UNIFORM || s->sampler > GIVEN)
        return kernel_unsupported(p, "sampler: expected 0 (uniform), 1 (log uniform) or 2 (given), found %lld",
                                  (long long)s->sampler);
    if (attr_bool(p->op, "is_sparse", false)) return kernel_unsupported(p, "expected is_sparse = false");
    return NULL;
}

/* --- draws -------------------------------------------------------------------------------------------------------- */

/* Of classes with given probabilities one is drawn evenly; where a second draw says so, its alias takes its place. */
static int64_t draw_given(const kernel_call *c, const nce_state *s, twister *t) {
    int64_t class = (int64_t)twister_below(t, (uint64_t)s->classes);
    if (!(twister_unit(t) > tensor_real(arg_in(c, IN_ALIAS_PROBS), class))) return class;
    int64_t alias = tensor_integer(arg_in(c, IN_ALIAS), class);
    return alias == NO_ALIAS ? class : alias;
}

static int64_t draw(const kernel_call *c, const nce_state *s, twister *t) {
    if (s->sampler == GIVEN) return draw_given(c, s, t);
    if (s->sampler == UNIFORM) return (int64_t)twister_below(t, (uint64_t)s->classes);
    return (int64_t)(exp(twister_unit(t) * log((double)s->classes)) - 1) % s->classes;
}

/* Its probability to be drawn, times the number of draws. `probs`: those that are given. */
static double noise_of(const nce_state *s, const tensor *probs, int64_t class) {
    double draws = (double)(s->nsamples - s->ntrue), n = (double)s->classes, k = (double)class;
    if (s->sampler == GIVEN) return draws * tensor_real(probs, class);
    return draws * (s->sampler == LOG_UNIFORM ? log((k + 2) / (k + 1)) / log(n) : 1 / n);
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static weft_status require_probs(const kernel_prepare *p, int input) {
    const nce_state *s = p->state;
    if (s->sampler != GIVEN) return NULL;
    TRY(require_real(p, type_in(p, input), p->schema->inputs[input].name));
    return require_numel(p, type_in(p, input), s->classes, p->schema->inputs[input].name);
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p));
    TRY(require_probs(p, IN_PROBS));
    TRY(require_probs(p, IN_ALIAS_PROBS));
    const nce_state *s = p->state;
    if (s->sampler == GIVEN) TRY(require_numel(p, type_in(p, IN_ALIAS), s->classes, "CustomDistAlias"));
    const tensor *x = type_in(p, IN_X), *samples = type_out(p, OUT_SAMPLES);
    int64_t all = s->rows * s->nsamples;
    TRY(require_present(p, type_out(p, OUT_COST), "Cost"));
    TRY(require_like(p, x, type_out(p, OUT_COST), s->rows, "Cost"));
    TRY(require_present(p, type_out(p, OUT_LOGITS), "SampleLogits"));
    TRY(require_like(p, x, type_out(p, OUT_LOGITS), all, "SampleLogits"));
    TRY(require_numel(p, samples, all, "SampleLabels"));
    p->workspace_nbytes = sizeof(twister);
    return samples->dtype == WEFT_INT64 ? NULL : kernel_unsupported(p, "expected SampleLabels of int64");
}

static weft_status take_samples(const kernel_call *c, const nce_state *s) {
    int64_t *samples = arg_out(c, OUT_SAMPLES)->data;
    twister *t = c->workspace;
    twister_init(t, random_seed_of(c, s->seed));
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->nsamples; j++) {
            int64_t class = j < s->ntrue ? tensor_integer(arg_in(c, IN_LABEL), i * s->ntrue + j)
                            : s->given   ? s->given[j - s->ntrue]
                                         : draw(c, s, t);
            if (class < 0 || class >= s->classes)
                return kernel_failed(c, "Label, or an alias: expected 0 to %lld, found %lld", (long long)s->classes - 1,
                                     (long long)class);
            samples[i * s->nsamples + j] = class;
        }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const nce_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *w = arg_in(c, IN_WEIGHT), *bias = arg_in(c, IN_BIAS);
    TRY(take_samples(c, s));
    const int64_t *samples = arg_out(c, OUT_SAMPLES)->data;
    for (int64_t i = 0; i < s->rows; i++) {
        double cost = 0;
        for (int64_t j = 0; j < s->nsamples; j++) {
            int64_t class = samples[i * s->nsamples + j];
            double sum = bias ? tensor_real(bias, class) : 0, noise = noise_of(s, arg_in(c, IN_PROBS), class);
            for (int64_t k = 0; k < s->width; k++)
                sum += tensor_real(x, i * s->width + k) * tensor_real(w, class * s->width + k);
            double o = 1 / (1 + exp(-sum));
            tensor_set_real(arg_out(c, OUT_LOGITS), i * s->nsamples + j, o);
            cost -= log((j < s->ntrue ? o : noise) / (o + noise));
        }
        if (arg_in(c, IN_ROW_WEIGHT)) cost *= tensor_real(arg_in(c, IN_ROW_WEIGHT), i);
        tensor_set_real(arg_out(c, OUT_COST), i, cost);
    }
    return NULL;
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p));
    TRY(require_probs(p, GRAD_IN_PROBS));
    const nce_state *s = p->state;
    const tensor *x = type_in(p, IN_X);
    int64_t all = s->rows * s->nsamples;
    TRY(require_numel(p, type_in(p, IN_SAMPLES), all, "SampleLabels"));
    TRY(require_numel(p, type_in(p, IN_LOGITS), all, "SampleLogits"));
    TRY(require_numel(p, type_in(p, IN_COST_GRAD), s->rows, "Cost@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_X_GRAD), x->numel, "Input@GRAD"));
    TRY(require_like(p, x, type_out(p, OUT_WEIGHT_GRAD), s->classes * s->width, "Weight@GRAD"));
    return require_like(p, x, type_out(p, OUT_BIAS_GRAD), s->classes, "Bias@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const nce_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *w = arg_in(c, IN_WEIGHT);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dw = arg_out(c, OUT_WEIGHT_GRAD), *db = arg_out(c, OUT_BIAS_GRAD);
    tensor_clear(dx), tensor_clear(dw), tensor_clear(db);
    for (int64_t at = 0; at < s->rows * s->nsamples; at++) {
        int64_t i = at / s->nsamples, class = tensor_integer(arg_in(c, IN_SAMPLES), at);
        double o = tensor_real(arg_in(c, IN_LOGITS), at), noise = noise_of(s, arg_in(c, GRAD_IN_PROBS), class);
        double slope = at % s->nsamples < s->ntrue ? noise / (o + noise) * (o - 1) : o * (1 - o) / (o + noise);
        slope *= tensor_real(arg_in(c, IN_COST_GRAD), i);
        if (arg_in(c, IN_ROW_WEIGHT)) slope *= tensor_real(arg_in(c, IN_ROW_WEIGHT), i);
        tensor_add_real(db, class, slope);
        for (int64_t k = 0; k < s->width; k++) {
            tensor_add_real(dw, class * s->width + k, slope * tensor_real(x, i * s->width + k));
            tensor_add_real(dx, i * s->width + k, slope * tensor_real(w, class * s->width + k));
        }
    }
    return NULL;
}

const kernel kernel_nce = {prepare, run};
const kernel kernel_nce_grad = {prepare_grad, run_grad};
