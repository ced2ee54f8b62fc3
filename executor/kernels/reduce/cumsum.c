/* cumsum.c: running sums along an axis. Exclusive sums leave the element itself out; reverse ones run from the end. The
 * gradient is the running sum the other way. Integers and booleans may be summed as int64, as torch does. */
#include "executor/kernels/layout.h"

enum { IN_X, GRAD_IN_OUT_GRAD, OUT = 0 };

typedef struct cumsum_state {
    axis_split split;
    bool exclusive, reverse;
    int from; /* the slot that is summed */
} cumsum_state;

static weft_status prepare_sum(kernel_prepare *p, int from) {
    cumsum_state *s = KERNEL_STATE(p, cumsum_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, from), *y = type_out(p, OUT);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, y, x->numel, "Out"));
    bool widens = y->dtype == WEFT_INT64 && (x->dtype == WEFT_BOOL || x->dtype == WEFT_INT32);
    if (!widens) TRY(require_same_dtype(p, x, y, "Out"));
    if (!widens && x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64) TRY(require_real(p, x, "X"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    if (attr_bool(p->op, "flatten", false)) s->split = (axis_split){1, x->numel, 1};
    s->exclusive = attr_bool(p->op, "exclusive", false);
    s->reverse = attr_bool(p->op, "reverse", false) != (from == GRAD_IN_OUT_GRAD);
    s->from = from;
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_sum(p, IN_X);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_sum(p, GRAD_IN_OUT_GRAD);
}

#define DEFINE_CUMSUM(dtype, suffix, type)                                                                             \
    static void cumsum_##suffix(const cumsum_state *s, const type *x, type *y) {                                       \
        axis_split d = s->split;                                                                                       \
        for (int64_t o = 0; o < d.outer; o++)                                                                          \
            for (int64_t i = 0; i < d.inner; i++) {                                                                    \
                int64_t at = o * d.extent * d.inner + i, step = d.inner;                                               \
                if (s->reverse) at += (d.extent - 1) * d.inner, step = -d.inner;                                       \
                type sum = 0;                                                                                          \
                for (int64_t k = 0; k < d.extent; k++, at += step) {                                                   \
                    type with = (type)(sum + x[at]);                                                                   \
                    y[at] = s->exclusive ? sum : with;                                                                 \
                    sum = with;                                                                                        \
                }                                                                                                      \
            }                                                                                                          \
    }
REAL_TYPES(DEFINE_CUMSUM)
WIDE_INT_TYPES(DEFINE_CUMSUM)
#undef DEFINE_CUMSUM

static weft_status run(const kernel_call *c) {
    const cumsum_state *s = c->state;
    const tensor *x = arg_in(c, s->from);
    const tensor *out = arg_out(c, OUT);
    void *y = out->data;
    const void *from = x->data;
    if (x->dtype != out->dtype) cast_elements(x->dtype, out->dtype, x->numel, x->data, y), from = y;
    switch ((int)out->dtype) {
    case WEFT_FP32: cumsum_fp32(s, from, y); break;
    case WEFT_FP64: cumsum_fp64(s, from, y); break;
    case WEFT_INT32: cumsum_int32(s, from, y); break;
    default: cumsum_int64(s, from, y);
    }
    return NULL;
}

const kernel kernel_cumsum = {prepare, run};
const kernel kernel_cumsum_grad = {prepare_grad, run};
