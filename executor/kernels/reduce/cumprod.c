/* cumprod.c: running products along a dimension; the largest of each group of channels; and gradients. */
#include <complex.h>
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_X, IN_OUT, IN_OUT_GRAD };

static bool is_integer(const tensor *t) {
    return t && (t->dtype == WEFT_INT32 || t->dtype == WEFT_INT64);
}

static weft_status prepare_split(kernel_prepare *p, const char *attr, int64_t fallback, axis_split **out) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_present(p, x, "X"));
    if (!is_integer(x) && !dtype_is_complex(x->dtype)) TRY(require_real(p, x, "X"));
    *out = s;
    return axis_split_prepare(p, x, attr_int(p->op, attr, fallback), s);
}

static weft_status prepare(kernel_prepare *p) {
    axis_split *s;
    TRY(prepare_split(p, "dim", 0, &s));
    if (attr_bool(p->op, "exclusive", false) || attr_bool(p->op, "reverse", false))
        return kernel_unsupported(p, "expected neither exclusive nor reverse");
    TRY(require_present(p, type_out(p, 0), "the result"));
    return require_like(p, type_in(p, IN_X), type_out(p, 0), type_in(p, IN_X)->numel, "the result");
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare(p));
    TRY(require_real(p, type_in(p, IN_X), "X"));
    return require_like(p, type_in(p, IN_X), type_in(p, IN_OUT_GRAD), type_in(p, IN_X)->numel, "Out@GRAD");
}

static void multiply_complex(const axis_split *s, const tensor *x, tensor *out) {
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        double complex product = 1;
        for (int64_t i = 0; i < s->extent; i++) {
            int64_t at = (k / s->inner * s->extent + i) * s->inner + k % s->inner;
            product *= tensor_complex(x, at);
            if (x->dtype == WEFT_COMPLEX128)
                ((double complex *)out->data)[at] = product;
            else
                ((float complex *)out->data)[at] = (float complex)product;
        }
    }
}

static weft_status run(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    if (dtype_is_complex(x->dtype)) {
        multiply_complex(s, x, arg_out(c, 0));
        return NULL;
    }
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        double product = 1;
        uint64_t whole = 1; /* of integers, which wrap */
        for (int64_t i = 0; i < s->extent; i++) {
            int64_t at = (k / s->inner * s->extent + i) * s->inner + k % s->inner;
            if (is_integer(x)) {
                whole *= (uint64_t)tensor_integer(x, at);
                tensor_set_integer(arg_out(c, 0), at, (int64_t)whole);
            } else {
                product *= tensor_real(x, at);
                tensor_set_real(arg_out(c, 0), at, product);
            }
        }
    }
    return NULL;
}

/* dx[i] = sum over j >= i of dy[j] times the product of all x up to j but x[i]. Of a run from i on that is what stands
 * before i, times a sum that needs no division. */
static weft_status run_grad(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *x = arg_in(c, IN_X), *g = arg_in(c, IN_OUT_GRAD);
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        int64_t first = k / s->inner * s->extent * s->inner + k % s->inner;
        double before = 1;
        for (int64_t i = 0; i < s->extent; i++) {
            double sum = 0, product = 1;
            for (int64_t j = i; j < s->extent; j++) {
                if (j > i) product *= tensor_real(x, first + j * s->inner);
                sum += product * tensor_real(g, first + j * s->inner);
                if (product == 0) break;
            }
            tensor_set_real(arg_out(c, 0), first + i * s->inner, before * sum);
            before *= tensor_real(x, first + i * s->inner);
        }
    }
    return NULL;
}

const kernel kernel_cumprod = {prepare, run};
const kernel kernel_cumprod_grad = {prepare_grad, run_grad};

/* --- maxout ------------------------------------------------------------------------------------------------------- */

typedef struct maxout_state {
    axis_split x; /* around the channels of X */
    int64_t groups;
} maxout_state;

static weft_status prepare_groups(kernel_prepare *p, const tensor *y) {
    maxout_state *s = KERNEL_STATE(p, maxout_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X);
    TRY(require_real(p, x, "X"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", 1), &s->x));
    s->groups = attr_int(p->op, "groups", 1);
    if (s->groups < 1 || s->x.extent % s->groups)
        return kernel_unsupported(p, "expected groups that divide the channels");
    TRY(require_present(p, y, "Out"));
    return require_like(p, x, y, x->numel / s->groups, "Out");
}

static weft_status prepare_maxout(kernel_prepare *p) {
    return prepare_groups(p, type_out(p, 0));
}
static weft_status prepare_maxout_grad(kernel_prepare *p) {
    TRY(prepare_groups(p, type_in(p, IN_OUT_GRAD)));
    return require_numel(p, type_out(p, 0), type_in(p, IN_X)->numel, "X@GRAD");
}

/* The first largest of the group of element i of the result, as an element of X. */
static int64_t largest_of(const maxout_state *s, const tensor *x, int64_t i) {
    int64_t channels = s->x.extent / s->groups, inner = i % s->x.inner, channel = i / s->x.inner % channels;
    int64_t first = (i / s->x.inner / channels * s->x.extent + channel * s->groups) * s->x.inner + inner, best = first;
    for (int64_t k = 1; k < s->groups; k++) {
        double now = tensor_real(x, first + k * s->x.inner), most = tensor_real(x, best);
        if (now > most || (isnan(now) && !isnan(most))) best = first + k * s->x.inner;
    }
    return best;
}

static weft_status run_maxout(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X);
    tensor *y = arg_out(c, 0);
    for (int64_t i = 0; i < y->numel; i++) tensor_set_real(y, i, tensor_real(x, largest_of(c->state, x, i)));
    return NULL;
}
static weft_status run_maxout_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X), *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, 0);
    tensor_clear(dx);
    for (int64_t i = 0; i < g->numel; i++) tensor_set_real(dx, largest_of(c->state, x, i), tensor_real(g, i));
    return NULL;
}

const kernel kernel_maxout = {prepare_maxout, run_maxout};
const kernel kernel_maxout_grad = {prepare_maxout_grad, run_maxout_grad};
