/* fill.c: tensors whose values come from attrs, and copies.
 *
 * fill_constant: ValueTensor, else str_value, else value. Everything, int64 too, goes through a double, as in Paddle.
 */
#include <stdlib.h>

#include "executor/kernels/typed.h"

enum { VALUE_TENSOR };

typedef struct fill_state {
    double value;
    const void *bytes; /* assign_value: the whole tensor */
} fill_state;

static weft_status prepare_fill_constant(kernel_prepare *p) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    if (!s) return base_out_of_memory();
    const char *exact = attr_string(p->op, "str_value", "");
    s->value = attr_float(p->op, "value", 0.0);
    if (*exact) {
        char *end = NULL;
        s->value = strtod(exact, &end);
        if (end == exact || *end) return kernel_unsupported(p, "expected a number in str_value, found \"%s\"", exact);
    }
    return NULL;
}

static weft_status run_fill_constant(const kernel_call *c) {
    const fill_state *s = c->state;
    const tensor *given = arg_in(c, VALUE_TENSOR), *out = arg_out(c, 0);
    fill_elements(out->dtype, out->data, out->numel, given ? tensor_scalar(given) : s->value);
    return NULL;
}

static weft_status prepare_fill_any_like(kernel_prepare *p) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    if (!s) return base_out_of_memory();
    s->value = attr_float(p->op, "value", 0.0);
    return NULL;
}

static weft_status run_fill_any_like(const kernel_call *c) {
    const fill_state *s = c->state;
    const tensor *out = arg_out(c, 0);
    fill_elements(out->dtype, out->data, out->numel, s->value);
    return NULL;
}

const kernel kernel_fill_constant = {prepare_fill_constant, run_fill_constant};
const kernel kernel_fill_any_like = {prepare_fill_any_like, run_fill_any_like};

/* --- assign_value --- */

static weft_status prepare_assign_value(kernel_prepare *p) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    size_t count = 0;
    TRY(attr_elements(p, out->dtype, &s->bytes, &count));
    if ((int64_t)count != out->numel)
        return kernel_unsupported(p, "expected %lld values, found %zu", (long long)out->numel, count);
    return NULL;
}

static weft_status run_assign_value(const kernel_call *c) {
    const fill_state *s = c->state;
    const tensor *out = arg_out(c, 0);
    copy_bytes(out->data, s->bytes, tensor_nbytes(out));
    return NULL;
}

const kernel kernel_assign_value = {prepare_assign_value, run_assign_value};

/* --- copies --- */

static weft_status prepare_copy(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_same_dtype(p, x, out, "output"));
    if (x->numel == out->numel) return NULL;
    return kernel_unsupported(p, "expected as many elements in the output as in the input");
}

static weft_status run_copy(const kernel_call *c) {
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    if (x->rows && out->rows) copy_bytes(out->rows, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
    return NULL;
}

const kernel kernel_assign = {prepare_copy, run_copy};
const kernel kernel_memcpy_d2h = {prepare_copy, run_copy};
const kernel kernel_c_identity = {prepare_copy, run_copy};
