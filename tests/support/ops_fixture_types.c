/* ops_fixture_types.c: whether kernels refuse what ops.def says they do: inputs of several element types (OP_ONE_TYPE).
 *
 * Each input of the op is given another type of the same width, in turn. */
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

/* Another type, no wider; NONE: no more. */
static weft_dtype other_type(weft_dtype dtype, size_t index) {
    if (dtype == WEFT_FP64 && index == 1) return WEFT_FP32;
    if (index) return WEFT_DTYPE_NONE;
    switch (dtype) {
    case WEFT_FP32: return WEFT_INT32;
    case WEFT_INT32: return WEFT_FP32;
    case WEFT_FP64: return WEFT_INT64;
    case WEFT_INT64: return WEFT_FP64;
    case WEFT_BOOL: return WEFT_UINT8;
    default: return WEFT_DTYPE_NONE;
    }
}

/* Whether the op's inputs are of one type, and more than one. */
static bool is_of_one_type(const case_args *a) {
    for (uint32_t i = 0; i < a->nin; i++)
        if (a->in[i].dtype != a->in[0].dtype || other_type(a->in[i].dtype, 0) == WEFT_DTYPE_NONE) return false;
    return a->nin > 1;
}

/* The first input of which another type is accepted; a->nin: none is. */
static uint32_t find_accepted(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    for (uint32_t i = 0; i < a->nin; i++) {
        weft_dtype other;
        for (size_t k = 0; (other = other_type(a->in[i].dtype, k)) != WEFT_DTYPE_NONE; k++) {
            tensor *in = fixture_copies(r, a->in, a->nin, true, false);
            tensor *out = fixture_copies(r, a->out, a->nout, false, false);
            if (!in || !out) return i;
            in[i].dtype = other;
            weft_status status = kernel_run_op(op, in, a->in_first, out, a->out_first, number, &r->arena);
            bool refused = weft_status_code(status) == WEFT_UNSUPPORTED;
            weft_status_free(status);
            if (!refused) return i;
        }
    }
    return a->nin;
}

bool fixture_check_types(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    if (op_has_effect(op, OP_ONE_TYPE) && is_of_one_type(a)) {
        uint32_t accepted = find_accepted(r, op, a, number);
        if (accepted < a->nin)
            return fixture_fail(r, "%s: marked as of one type, and its kernel takes another as input %u",
                                op->type->bytes, accepted);
        r->nlinear++;
    }
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    return status ? fixture_fail_status(r, status) : true;
}
