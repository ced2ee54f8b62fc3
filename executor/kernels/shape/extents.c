/* extents.c: a tensor's extents, and its number of elements, as tensors. */
#include "executor/kernels/layout.h"

enum { IN_INPUT, OUT = 0 };

static weft_status prepare_shape(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_INPUT);
    TRY(require_present(p, x, "Input"));
    TRY(require_present(p, type_out(p, OUT), "Out"));
    return require_numel(p, type_out(p, OUT), x->ndim, "Out");
}

static weft_status run_shape(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_INPUT);
    tensor *y = arg_out(c, OUT);
    size_t nbytes = weft_dtype_nbytes(y->dtype);
    for (int i = 0; i < x->ndim; i++)
        fill_elements(y->dtype, (char *)y->data + (size_t)i * nbytes, 1, (double)x->dims[i]);
    return NULL;
}

static weft_status prepare_size(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_INPUT), "Input"));
    return require_numel(p, type_out(p, OUT), 1, "Out");
}

static weft_status run_size(const kernel_call *c) {
    tensor *y = arg_out(c, OUT);
    fill_elements(y->dtype, y->data, 1, (double)arg_in(c, IN_INPUT)->numel);
    return NULL;
}

const kernel kernel_shape = {prepare_shape, run_shape};
const kernel kernel_size = {prepare_size, run_size};
