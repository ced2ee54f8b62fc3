/* masked.c: elements that a mask selects, and where a condition holds. How many there are is known only at run time:
 * the output must have just as many, which a plan can guarantee where shapes are declared or fed. */
#include "executor/kernels/layout.h"

static weft_status require_bool(const kernel_prepare *p, const tensor *t, const char *what) {
    TRY(require_present(p, t, what));
    if (t->dtype == WEFT_BOOL) return NULL;
    return kernel_unsupported(p, "expected %s of bool, found %s", what, dtype_text(t->dtype));
}

static weft_status wrong_count(const kernel_call *c, int64_t expected) {
    return kernel_failed(c, "expected %lld elements that hold, found another number", (long long)expected);
}

/* --- masked_select ------------------------------------------------------------------------------------------------ */

enum { IN_X, IN_MASK, IN_Y_GRAD, OUT = 0 };

static weft_status prepare_masked(kernel_prepare *p, const tensor *x, const tensor *selected) {
    const tensor *mask = type_in(p, IN_MASK);
    TRY(require_present(p, x, "X"));
    TRY(require_bool(p, mask, "Mask"));
    TRY(require_numel(p, mask, x->numel, "Mask"));
    TRY(require_present(p, selected, "the selection"));
    return require_same_dtype(p, x, selected, "the selection");
}

static weft_status prepare_select(kernel_prepare *p) {
    return prepare_masked(p, type_in(p, IN_X), type_out(p, OUT));
}
static weft_status prepare_select_grad(kernel_prepare *p) {
    return prepare_masked(p, type_out(p, OUT), type_in(p, IN_Y_GRAD));
}

static weft_status run_select(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X), *y = arg_out(c, OUT);
    const uint8_t *mask = arg_in(c, IN_MASK)->data;
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    int64_t count = 0;
    for (int64_t i = 0; i < x->numel; i++) {
        if (!mask[i]) continue;
        if (count == y->numel) return wrong_count(c, y->numel);
        memcpy((char *)y->data + (size_t)count++ * nbytes, (const char *)x->data + (size_t)i * nbytes, nbytes);
    }
    return count == y->numel ? NULL : wrong_count(c, y->numel);
}

static weft_status run_select_grad(const kernel_call *c) {
    const tensor *dy = arg_in(c, IN_Y_GRAD), *dx = arg_out(c, OUT);
    const uint8_t *mask = arg_in(c, IN_MASK)->data;
    size_t nbytes = weft_dtype_nbytes(dx->dtype);
    int64_t count = 0;
    tensor_clear(dx);
    for (int64_t i = 0; i < dx->numel; i++) {
        if (!mask[i]) continue;
        if (count == dy->numel) return wrong_count(c, dy->numel);
        memcpy((char *)dx->data + (size_t)i * nbytes, (const char *)dy->data + (size_t)count++ * nbytes, nbytes);
    }
    return count == dy->numel ? NULL : wrong_count(c, dy->numel);
}

const kernel kernel_masked_select = {prepare_select, run_select};
const kernel kernel_masked_select_grad = {prepare_select_grad, run_select_grad};

/* --- where_index: a row of coordinates for each element that is not 0
 * ------------------------------------------------- */

static weft_status prepare_coordinates(kernel_prepare *p) {
    const tensor *condition = type_in(p, 0), *out = type_out(p, OUT);
    TRY(require_present(p, condition, "Condition"));
    TRY(require_present(p, out, "Out"));
    if (out->dtype == WEFT_INT64 && (condition->ndim ? out->numel % condition->ndim == 0 : out->numel == 0))
        return NULL;
    return kernel_unsupported(p, "expected Out of int64 with %d columns", condition->ndim);
}

static weft_status run_coordinates(const kernel_call *c) {
    const tensor *condition = arg_in(c, 0), *out = arg_out(c, OUT);
    int64_t *to = out->data, ndim = condition->ndim, rows = ndim ? out->numel / ndim : 0, count = 0;
    tensor element = *condition;
    for (int64_t i = 0; i < condition->numel && ndim; i++) {
        element.data = (char *)condition->data + (size_t)i * weft_dtype_nbytes(condition->dtype);
        if (tensor_scalar(&element) == 0) continue;
        if (count == rows) return wrong_count(c, rows);
        int64_t rest = i;
        for (int64_t d = ndim - 1; d >= 0; rest /= condition->dims[d], d--)
            to[count * ndim + d] = rest % condition->dims[d];
        count++;
    }
    return count == rows ? NULL : wrong_count(c, rows);
}

const kernel kernel_where_index = {prepare_coordinates, run_coordinates};
