/* ops_fixture_marks.c: whether marks of linearity hold of kernels. */
#include <string.h>

#include "executor/kernels/typed.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

static bool is_linear_slot(const op_schema *s, size_t i) {
    const char *n = s->inputs[i].name;
    size_t nbytes = strlen(n);
    bool grad = nbytes > 5 && strcmp(n + nbytes - 5, "@GRAD") == 0;
    return !s->inputs[i].only_type && ((s->effects & OP_LINEAR) || ((s->effects & OP_LINEAR_X) && i == 0) ||
                                       ((s->effects & OP_LINEAR_GRAD) && grad));
}

static void double_floats(const tensor *t) {
    for (int64_t i = 0; i < t->numel; i++)
        if (t->dtype == WEFT_FP32)
            ((float *)t->data)[i] *= 2;
        else if (t->dtype == WEFT_FP64)
            ((double *)t->data)[i] *= 2;
}

static bool is_marked(weft_op *op) {
    const op_schema *s = op_schema_of(op);
    return (s->effects & (OP_LINEAR | OP_LINEAR_X | OP_LINEAR_GRAD)) && !(s->effects & OP_ALIASES) &&
           !(op_is(op, "scale") && attr_float(op, "bias", 0.0) != 0.0);
}

/* Whether a linear input can be doubled and all that are not whole numbers are: marks are about floats. */
static bool doubles(const op_schema *s, const case_args *a) {
    bool some = false;
    for (size_t i = 0; i < s->ninputs; i++) {
        for (uint32_t k = a->in_first[i]; is_linear_slot(s, i) && k < a->in_first[i + 1]; k++) {
            if (dtype_is_half(a->in[k].dtype)) return false;
            some |= a->in[k].dtype == WEFT_FP32 || a->in[k].dtype == WEFT_FP64;
        }
    }
    return some;
}

bool fixture_check_linear(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    const op_schema *s = op_schema_of(op);
    bool marked = is_marked(op);
    tensor *in = marked ? fixture_copies(r, a->in, a->nin, true, false) : NULL,
           *out = marked ? fixture_copies(r, a->out, a->nout, false, false) : NULL;
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    if (status) return fixture_fail_status(r, status);
    if (!marked || !doubles(s, a)) return true;
    if (!in || !out) return fixture_fail(r, "out of memory");
    for (size_t i = 0; i < s->ninputs; i++)
        for (uint32_t k = a->in_first[i]; is_linear_slot(s, i) && k < a->in_first[i + 1]; k++) double_floats(&in[k]);
    status = kernel_run_op(op, in, a->in_first, out, a->out_first, number, &r->arena);
    if (status) return fixture_fail_status(r, status);
    for (uint32_t k = 0; k < a->nout; k++) {
        if (out[k].dtype != WEFT_FP32 && out[k].dtype != WEFT_FP64) continue;
        tensor *once = fixture_copies(r, &a->out[k], 1, true, false);
        if (!once) return fixture_fail(r, "out of memory");
        double_floats(once);
        if (memcmp(once->data, out[k].data, tensor_nbytes(once)) != 0)
            return fixture_fail(r, "%s: output %u does not double with the inputs that are marked linear",
                                op->type->bytes, k);
    }
    r->nlinear++;
    return true;
}
