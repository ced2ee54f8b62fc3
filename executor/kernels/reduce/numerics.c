/* numerics.c: check_numerics: how many elements are not numbers, infinite and 0, and the largest, the smallest and the
 * mean. At level 0 a step fails where one is not a number or infinite. Source:
 * phi/kernels/funcs/check_numerics_utils.h. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { OUT_STATS, OUT_VALUES, COUNTS = 3 };

typedef struct numerics_state {
    bool fails;
    const char *op, *var;
} numerics_state;

static weft_status prepare(kernel_prepare *p) {
    numerics_state *s = KERNEL_STATE(p, numerics_state);
    const tensor *stats = type_out(p, OUT_STATS), *values = type_out(p, OUT_VALUES);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, type_in(p, 0), "tensor"));
    TRY(require_present(p, stats, "stats"));
    TRY(require_integers(p, stats, "stats"));
    TRY(require_numel(p, stats, COUNTS, "stats"));
    TRY(require_present(p, values, "values"));
    TRY(require_real(p, values, "values"));
    TRY(require_numel(p, values, COUNTS, "values"));
    s->fails = attr_int(p->op, "check_nan_inf_level", 0) == 0;
    s->op = attr_string(p->op, "op_type", "");
    s->var = attr_string(p->op, "var_name", "");
    return NULL;
}

typedef struct found {
    int64_t nans, infinities, zeros;
    double most, least, sum;
} found;

/* Of no elements all is 0. Where the first is not a number, nothing is larger or smaller, as in Paddle. */
static found look(const tensor *x) {
    double first = x->numel ? tensor_real(x, 0) : 0;
    found f = {.most = first, .least = first};
    for (int64_t i = 0; i < x->numel; i++) {
        double value = tensor_real(x, i);
        f.nans += isnan(value) != 0;
        f.infinities += isinf(value) != 0;
        f.zeros += value == 0;
        if (value > f.most) f.most = value;
        if (value < f.least) f.least = value;
        f.sum += value;
    }
    return f;
}

static weft_status run(const kernel_call *c) {
    const numerics_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *stats = arg_out(c, OUT_STATS), *values = arg_out(c, OUT_VALUES);
    found f = look(x);
    if (s->fails && (f.nans || f.infinities))
        return kernel_failed(c, "expected numbers in %s (%s), found %lld NaN and %lld infinite", s->var, s->op,
                             (long long)f.nans, (long long)f.infinities);
    int64_t counts[COUNTS] = {f.nans, f.infinities, f.zeros};
    double seen[COUNTS] = {f.most, f.least, x->numel ? f.sum / (double)x->numel : 0};
    for (int k = 0; k < COUNTS; k++) {
        tensor_set_integer(stats, k, counts[k]);
        tensor_set_real(values, k, seen[k]);
    }
    return NULL;
}

const kernel kernel_check_numerics = {prepare, run};
