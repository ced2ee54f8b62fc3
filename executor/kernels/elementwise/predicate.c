/* predicate.c: questions about elements (logical_not, isfinite, isinf, isnan, allclose, ...), and choosing by the
 * answers (where). */
#include <complex.h>
#include <math.h>
#include <stdlib.h>

#include "executor/kernels/layout.h"

/* --- of one element ----------------------------------------------------------------------------------------------- */

typedef bool (*question)(double x);

static bool is_zero(double x) {
    return x == 0;
}
static bool is_finite(double x) {
    return isfinite(x);
}
static bool is_infinite(double x) {
    return isinf(x);
}
static bool is_nan(double x) {
    return isnan(x);
}

static weft_status prepare_question(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, out, x->numel, "Out"));
    if (out->dtype == WEFT_BOOL) return NULL;
    return kernel_unsupported(p, "expected Out of bool, found %s", dtype_text(out->dtype));
}

/* Of a complex number: is it 0 (finite) only where both parts are; infinite or lost where one is. */
static weft_status ask_parts(const kernel_call *c, question q) {
    const tensor *x = arg_in(c, 0);
    uint8_t *out = arg_out(c, 0)->data;
    for (int64_t i = 0; i < x->numel; i++) {
        double complex z = tensor_complex(x, i);
        bool of_both = q == is_zero || q == is_finite;
        out[i] = of_both ? q(creal(z)) && q(cimag(z)) : q(creal(z)) || q(cimag(z));
    }
    return NULL;
}

static weft_status ask(const kernel_call *c, question q) {
    tensor element = *arg_in(c, 0);
    uint8_t *out = arg_out(c, 0)->data;
    if (dtype_is_complex(element.dtype)) return ask_parts(c, q);
    size_t nbytes = weft_dtype_nbytes(element.dtype);
    for (int64_t i = 0; i < arg_out(c, 0)->numel; i++) {
        out[i] = q(tensor_scalar(&element));
        element.data = (char *)element.data + nbytes;
    }
    return NULL;
}

static weft_status run_not(const kernel_call *c) {
    return ask(c, is_zero);
}
static weft_status run_finite(const kernel_call *c) {
    return ask(c, is_finite);
}
static weft_status run_infinite(const kernel_call *c) {
    return ask(c, is_infinite);
}
static weft_status run_nan(const kernel_call *c) {
    return ask(c, is_nan);
}

const kernel kernel_logical_not = {prepare_question, run_not};
const kernel kernel_isfinite_v2 = {prepare_question, run_finite};
const kernel kernel_isinf_v2 = {prepare_question, run_infinite};
const kernel kernel_isnan_v2 = {prepare_question, run_nan};

/* Of Paddle 1: whether it holds of one element. */
static weft_status prepare_any(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    if (dtype_is_complex(x->dtype))
        return kernel_unsupported(p, "expected real numbers, found %s", dtype_text(x->dtype));
    TRY(require_present(p, out, "Out"));
    TRY(require_numel(p, out, 1, "Out"));
    if (out->dtype == WEFT_BOOL) return NULL;
    return kernel_unsupported(p, "expected Out of bool, found %s", dtype_text(out->dtype));
}

static weft_status ask_any(const kernel_call *c, question q) {
    const tensor *x = arg_in(c, 0);
    bool found = false;
    for (int64_t i = 0; i < x->numel && !found; i++) found = q(tensor_number(x, i));
    *(uint8_t *)arg_out(c, 0)->data = found;
    return NULL;
}
static weft_status run_any_infinite(const kernel_call *c) {
    return ask_any(c, is_infinite);
}
static weft_status run_any_nan(const kernel_call *c) {
    return ask_any(c, is_nan);
}

const kernel kernel_isinf = {prepare_any, run_any_infinite};
const kernel kernel_isnan = {prepare_any, run_any_nan};

/* --- allclose: |a - b| <= atol + rtol * |b| everywhere ------------------------------------------------------------ */

enum { CLOSE_IN_A, CLOSE_IN_B, CLOSE_IN_ATOL, CLOSE_IN_RTOL };

typedef struct close_state {
    double atol, rtol;
    bool equal_nan;
} close_state;

static weft_status read_tolerance(const kernel_prepare *p, const char *attr, const char *fallback, double *out) {
    const char *written = attr_string(p->op, attr, fallback);
    char *end = NULL;
    *out = strtod(written, &end);
    if (end != written && !*end) return NULL;
    return kernel_unsupported(p, "expected a number in %s, found \"%s\"", attr, written);
}

static weft_status prepare_pairs(kernel_prepare *p) {
    close_state *s = KERNEL_STATE(p, close_state);
    if (!s) return base_out_of_memory();
    const tensor *a = type_in(p, CLOSE_IN_A);
    TRY(require_present(p, a, "Input"));
    TRY(require_numel(p, type_in(p, CLOSE_IN_B), a->numel, "Other"));
    TRY(require_same_dtype(p, a, type_in(p, CLOSE_IN_B), "Other"));
    TRY(read_tolerance(p, "atol", "1e-8", &s->atol));
    TRY(read_tolerance(p, "rtol", "1e-5", &s->rtol));
    s->equal_nan = attr_bool(p->op, "equal_nan", false);
    return NULL;
}

/* With the tolerances that tensors give, where they do. */
static close_state closeness(const kernel_call *c) {
    close_state s = *(const close_state *)c->state;
    if (arg_in(c, CLOSE_IN_ATOL)) s.atol = host_scalar(c, arg_in(c, CLOSE_IN_ATOL));
    if (arg_in(c, CLOSE_IN_RTOL)) s.rtol = host_scalar(c, arg_in(c, CLOSE_IN_RTOL));
    return s;
}

/* Complex numbers are as far from one another as their difference is long. */
static bool complex_is_close(const close_state *s, double complex x, double complex y) {
    bool lost_x = isnan(creal(x)) || isnan(cimag(x)), lost_y = isnan(creal(y)) || isnan(cimag(y));
    if (lost_x || lost_y) return s->equal_nan && lost_x && lost_y;
    return x == y || cabs(x - y) <= s->atol + s->rtol * cabs(y);
}

/* Of two elements. */
static bool is_close(const close_state *s, const tensor *a, const tensor *b, int64_t i) {
    if (dtype_is_complex(a->dtype)) return complex_is_close(s, tensor_complex(a, i), tensor_complex(b, i));
    double x = tensor_number(a, i), y = tensor_number(b, i);
    if (isnan(x) || isnan(y)) return s->equal_nan && isnan(x) && isnan(y);
    return x == y || fabs(x - y) <= s->atol + s->rtol * fabs(y);
}

static weft_status prepare_close(kernel_prepare *p) {
    TRY(prepare_pairs(p));
    return require_numel(p, type_out(p, 0), 1, "Out");
}

static weft_status run_close(const kernel_call *c) {
    const close_state s = closeness(c);
    const tensor *a = arg_in(c, CLOSE_IN_A), *b = arg_in(c, CLOSE_IN_B);
    bool close = true;
    for (int64_t i = 0; i < a->numel && close; i++) close = is_close(&s, a, b, i);
    fill_elements(arg_out(c, 0)->dtype, arg_out(c, 0)->data, 1, close);
    return NULL;
}

const kernel kernel_allclose = {prepare_close, run_close};

/* isclose: the same of each pair. */
static weft_status prepare_each_close(kernel_prepare *p) {
    TRY(prepare_pairs(p));
    TRY(require_numel(p, type_out(p, 0), type_in(p, CLOSE_IN_A)->numel, "Out"));
    if (type_out(p, 0)->dtype != WEFT_BOOL) return kernel_unsupported(p, "expected Out of bool");
    return NULL;
}

static weft_status run_each_close(const kernel_call *c) {
    const close_state s = closeness(c);
    const tensor *a = arg_in(c, CLOSE_IN_A), *b = arg_in(c, CLOSE_IN_B);
    uint8_t *out = arg_out(c, 0)->data;
    for (int64_t i = 0; i < a->numel; i++) out[i] = is_close(&s, a, b, i);
    return NULL;
}

const kernel kernel_isclose = {prepare_each_close, run_each_close};

/* equal_all: whether shapes and all elements are equal. */
static weft_status prepare_equal_all(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, 0), "X"));
    TRY(require_present(p, type_in(p, 1), "Y"));
    TRY(require_same_dtype(p, type_in(p, 0), type_in(p, 1), "Y"));
    TRY(require_numel(p, type_out(p, 0), 1, "Out"));
    if (type_out(p, 0)->dtype != WEFT_BOOL) return kernel_unsupported(p, "expected Out of bool");
    return NULL;
}

static weft_status run_equal_all(const kernel_call *c) {
    const tensor *x = arg_in(c, 0), *y = arg_in(c, 1);
    bool equal = x->ndim == y->ndim && (!x->ndim || memcmp(x->dims, y->dims, (size_t)x->ndim * sizeof *x->dims) == 0);
    bool is_complex = dtype_is_complex(x->dtype);
    for (int64_t i = 0; equal && i < x->numel; i++)
        equal = is_complex ? tensor_complex(x, i) == tensor_complex(y, i) : tensor_number(x, i) == tensor_number(y, i);
    *(uint8_t *)arg_out(c, 0)->data = equal;
    return NULL;
}

const kernel kernel_equal_all = {prepare_equal_all, run_equal_all};

/* bitwise_not: of a boolean, the other one. */
static weft_status prepare_bits(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    if (x->dtype != WEFT_BOOL && x->dtype != WEFT_INT8 && x->dtype != WEFT_UINT8 && x->dtype != WEFT_INT16 &&
        x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected X of integers or bool, found %s", dtype_text(x->dtype));
    return require_like(p, x, out, x->numel, "Out");
}

static weft_status run_bits(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    const uint8_t *from = x->data;
    uint8_t *to = arg_out(c, 0)->data;
    for (size_t i = 0, n = tensor_nbytes(x); i < n; i++) to[i] = x->dtype == WEFT_BOOL ? !from[i] : (uint8_t)~from[i];
    return NULL;
}

const kernel kernel_bitwise_not = {prepare_bits, run_bits};

/* --- where -------------------------------------------------------------------------------------------------------- */

enum { WHERE_IN_CONDITION, WHERE_IN_X, WHERE_IN_Y, WHERE_IN_OUT_GRAD, WHERE_OUT_X_GRAD = 0, WHERE_OUT_Y_GRAD };

static weft_status check_choice(kernel_prepare *p, const tensor *x, const tensor *y) {
    const tensor *condition = type_in(p, WHERE_IN_CONDITION);
    TRY(require_present(p, condition, "Condition"));
    if (condition->dtype != WEFT_BOOL)
        return kernel_unsupported(p, "expected Condition of bool, found %s", dtype_text(condition->dtype));
    TRY(require_numel(p, x, condition->numel, "X"));
    TRY(require_numel(p, y, condition->numel, "Y"));
    return require_same_dtype(p, x, y, "Y");
}

static weft_status prepare_where(kernel_prepare *p) {
    const tensor *x = type_in(p, WHERE_IN_X);
    TRY(check_choice(p, x, type_in(p, WHERE_IN_Y)));
    TRY(require_same_dtype(p, x, type_out(p, 0), "Out"));
    return require_numel(p, type_out(p, 0), x->numel, "Out");
}

static weft_status prepare_where_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, WHERE_IN_OUT_GRAD);
    TRY(check_choice(p, g, g));
    for (int i = WHERE_OUT_X_GRAD; i <= WHERE_OUT_Y_GRAD; i++)
        if (type_out(p, i)) TRY(check_choice(p, g, type_out(p, i)));
    return NULL;
}

/* out = bytes of x where the condition is `when`, of y (or zeros) elsewhere. */
static void choose(const tensor *condition, bool when, const void *x, const void *y, tensor *out) {
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    const uint8_t *holds = condition->data;
    for (int64_t i = 0; i < out->numel; i++) {
        size_t at = (size_t)i * nbytes;
        const char *from = (holds[i] != 0) == when ? x : y;
        if (from)
            memcpy((char *)out->data + at, from + at, nbytes);
        else
            memset((char *)out->data + at, 0, nbytes);
    }
}

static weft_status run_where(const kernel_call *c) {
    choose(arg_in(c, WHERE_IN_CONDITION), true, arg_in(c, WHERE_IN_X)->data, arg_in(c, WHERE_IN_Y)->data,
           arg_out(c, 0));
    return NULL;
}

static weft_status run_where_grad(const kernel_call *c) {
    const tensor *condition = arg_in(c, WHERE_IN_CONDITION), *g = arg_in(c, WHERE_IN_OUT_GRAD);
    tensor *dx = arg_out(c, WHERE_OUT_X_GRAD), *dy = arg_out(c, WHERE_OUT_Y_GRAD);
    if (dx) choose(condition, true, g->data, NULL, dx);
    if (dy) choose(condition, false, g->data, NULL, dy);
    return NULL;
}

const kernel kernel_where = {prepare_where, run_where};
const kernel kernel_where_grad = {prepare_where_grad, run_where_grad};
