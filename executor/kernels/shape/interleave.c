/* interleave.c: repeat_interleave: each slice along a dimension so many times, one number for all or one for each. The
 * gradient of a slice is the sum over its copies. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_REPEATS, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct interleave_state {
    axis_split split; /* of X */
    int64_t repeats, result;
} interleave_state;

static weft_status prepare_slices(kernel_prepare *p, const tensor *result) {
    interleave_state *s = KERNEL_STATE(p, interleave_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *repeats = type_in(p, IN_REPEATS);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, result, "the result"));
    TRY(require_same_dtype(p, x, result, "the result"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "dim", 0), &s->split));
    s->repeats = attr_int(p->op, "Repeats", 1);
    if (repeats) return require_numel(p, repeats, s->split.extent, "RepeatsTensor");
    if (s->repeats < 0)
        return kernel_unsupported(p, "expected Repeats of 0 or more, found %lld", (long long)s->repeats);
    return require_numel(p, result, x->numel * s->repeats, "the result");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_slices(p, type_out(p, OUT));
}
static weft_status prepare_grad(kernel_prepare *p) {
    TRY(require_real(p, type_in(p, IN_X), "X"));
    TRY(require_numel(p, type_out(p, OUT), type_in(p, IN_X)->numel, "X@GRAD"));
    return prepare_slices(p, type_in(p, GRAD_IN_OUT_GRAD));
}

static int64_t copies_of(const kernel_call *c, int64_t k) {
    const tensor *repeats = arg_in(c, IN_REPEATS);
    return repeats ? host_integer(c, repeats, k) : ((const interleave_state *)c->state)->repeats;
}

static weft_status check_total(const kernel_call *c, const tensor *result) {
    const interleave_state *s = c->state;
    int64_t total = 0, each = s->split.outer * s->split.inner;
    for (int64_t k = 0; k < s->split.extent; k++) {
        if (copies_of(c, k) < 0) return kernel_failed(c, "expected repeats of 0 or more");
        total += copies_of(c, k);
    }
    if (total * each == result->numel) return NULL;
    return kernel_failed(c, "expected a result of %lld elements, found %lld", (long long)(total * each),
                         (long long)result->numel);
}

static weft_status run(const kernel_call *c) {
    const axis_split *split = &((const interleave_state *)c->state)->split;
    const tensor *x = arg_in(c, IN_X);
    size_t nbytes = (size_t)split->inner * weft_dtype_nbytes(x->dtype);
    const char *from = x->data;
    char *to = arg_out(c, OUT)->data;
    TRY(check_total(c, arg_out(c, OUT)));
    for (int64_t o = 0; o < split->outer; o++)
        for (int64_t k = 0; k < split->extent; k++, from += nbytes)
            for (int64_t r = copies_of(c, k); r > 0; r--, to += nbytes) memcpy(to, from, nbytes);
    return NULL;
}

#define DEFINE_ADD(type_id, suffix, real)                                                                              \
    static void add_##suffix(int64_t n, const real *restrict from, real *restrict to) {                                \
        for (int64_t i = 0; i < n; i++) to[i] += from[i];                                                              \
    }
REAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

static weft_status run_grad(const kernel_call *c) {
    const axis_split *split = &((const interleave_state *)c->state)->split;
    const tensor *g = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT);
    int64_t from = 0, to = 0, n = split->inner;
    TRY(check_total(c, g));
    tensor_clear(dx);
    for (int64_t o = 0; o < split->outer; o++)
        for (int64_t k = 0; k < split->extent; k++, to += n)
            for (int64_t r = copies_of(c, k); r > 0; r--, from += n) {
                if (dx->dtype == WEFT_FP64)
                    add_fp64(n, (const double *)g->data + from, (double *)dx->data + to);
                else
                    add_fp32(n, (const float *)g->data + from, (float *)dx->data + to);
            }
    return NULL;
}

const kernel kernel_repeat_interleave = {prepare, run};
const kernel kernel_repeat_interleave_grad = {prepare_grad, run_grad};
