/* fill.c: tensors whose values come from attrs, and copies.
 *
 * fill_constant: ValueTensor, else str_value, else value. Everything, int64 too, goes through a double, as in Paddle.
 */
#include <stdlib.h>

#include "executor/kernels/layout.h"

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
    fill_elements(out->dtype, out->data, out->numel, given ? host_scalar(c, given) : s->value);
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
const kernel kernel_fill_constant_batch_size_like = {prepare_fill_constant, run_fill_any_like};

/* fill_any keeps its value in an attr that versions name differently. */
static weft_status prepare_fill_any(kernel_prepare *p) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    if (!s) return base_out_of_memory();
    bool floats = dtype_is_float(type_out(p, 0)->dtype);
    if (op_find_attr(p->op, "value"))
        s->value = attr_float(p->op, "value", 0.0);
    else
        s->value = floats ? attr_float(p->op, "value_float", 0.0) : (double)attr_int(p->op, "value_int", 0);
    return NULL;
}

static weft_status prepare_zeros(kernel_prepare *p) {
    fill_state *s = KERNEL_STATE(p, fill_state);
    return s ? NULL : base_out_of_memory();
}

const kernel kernel_fill_any = {prepare_fill_any, run_fill_any_like};
const kernel kernel_fill_any_grad = {prepare_zeros, run_fill_any_like};
const kernel kernel_fill_zeros_like = {prepare_zeros, run_fill_any_like};

/* --- eye, linspace, range ----------------------------------------------------------------------------------------- */

static weft_status prepare_eye(kernel_prepare *p) {
    const tensor *out = type_out(p, 0);
    return out->ndim == 2 ? NULL : kernel_unsupported(p, "expected a matrix, found %d axes", out->ndim);
}

static weft_status run_eye(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    int64_t columns = out->dims[1], n = out->dims[0] < columns ? out->dims[0] : columns;
    size_t size = weft_dtype_nbytes(out->dtype);
    tensor_clear(out);
    for (int64_t i = 0; i < n; i++)
        fill_elements(out->dtype, (char *)out->data + (size_t)(i * (columns + 1)) * size, 1, 1);
    return NULL;
}

const kernel kernel_eye = {prepare_eye, run_eye};

enum { START, STOP };

static weft_status prepare_linspace(kernel_prepare *p) {
    if (type_in(p, START) && type_in(p, STOP)) return NULL;
    return kernel_unsupported(p, "expected Start and Stop");
}

/* The second half is counted back from Stop, so that the last number is exactly that. */
static weft_status run_linspace(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    double start = host_scalar(c, arg_in(c, START)), stop = host_scalar(c, arg_in(c, STOP));
    int64_t n = out->numel;
    double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        double value = n == 1 || i < n / 2 ? start + step * (double)i : stop - step * (double)(n - i - 1);
        fill_elements(out->dtype, (char *)out->data + (size_t)i * weft_dtype_nbytes(out->dtype), 1, value);
    }
    return NULL;
}

const kernel kernel_linspace = {prepare_linspace, run_linspace};

enum { RANGE_START, RANGE_END, RANGE_STEP };

static weft_status prepare_range(kernel_prepare *p) {
    for (int s = RANGE_START; s <= RANGE_STEP; s++) TRY(require_present(p, type_in(p, s), p->schema->inputs[s].name));
    return NULL;
}

/* As many numbers as the plan made room for: infer_range counted them. */
static weft_status run_range(const kernel_call *c) {
    const tensor *out = arg_out(c, 0), *start = arg_in(c, RANGE_START), *step = arg_in(c, RANGE_STEP);
    bool is_float = dtype_is_float(out->dtype);
    double first = 0, apart = 0;
    int64_t whole_first = 0, whole_apart = 0;
    if (is_float) {
        first = host_scalar(c, start);
        apart = host_scalar(c, step);
    } else { /* a float beyond int64_t is not to be converted */
        whole_first = host_integer(c, start, 0);
        whole_apart = host_integer(c, step, 0);
    }
    for (int64_t i = 0; i < out->numel; i++) {
        double value = is_float ? first + apart * (double)i : (double)(whole_first + whole_apart * i);
        fill_elements(out->dtype, (char *)out->data + (size_t)i * weft_dtype_nbytes(out->dtype), 1, value);
    }
    return NULL;
}

const kernel kernel_range = {prepare_range, run_range};

/* --- assign_value ------------------------------------------------------------------------------------------------- */

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

/* --- copies ------------------------------------------------------------------------------------------------------- */

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
const kernel kernel_memcpy = {prepare_copy, run_copy};
const kernel kernel_share_data = {prepare_copy, run_copy};

/* Both lists of outputs are the inputs under other names. */
static weft_status prepare_share(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    for (size_t o = 0; o < p->schema->noutputs; o++) {
        if (p->out_first[o + 1] - p->out_first[o] != n)
            return kernel_unsupported(p, "expected %u arguments in %s", n, p->schema->outputs[o].name);
        for (uint32_t k = 0; k < n; k++) {
            TRY(require_same_dtype(p, &p->in[k], &p->out[p->out_first[o] + k], "output"));
            if (p->out[p->out_first[o] + k].numel != p->in[k].numel)
                return kernel_unsupported(p, "expected as many elements in the output as in the input");
        }
    }
    return NULL;
}

static weft_status run_share(const kernel_call *c) {
    for (size_t o = 0; o < c->schema->noutputs; o++)
        for (uint32_t k = 0; k < c->in_first[1]; k++)
            copy_bytes(c->out[c->out_first[o] + k].data, c->in[k].data, tensor_nbytes(&c->in[k]));
    return NULL;
}

const kernel kernel_share_buffer = {prepare_share, run_share};
