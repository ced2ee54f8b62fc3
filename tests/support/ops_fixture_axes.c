/* ops_fixture_axes.c: rules of axes.def on recorded ops. */
#include "tests/support/axes_check.h"
#include "tests/support/kernel_run.h"
#include "tests/support/ops_fixture_run.h"

bool fixture_check_axes(fixture_run *r, weft_op *op, const case_args *a, uint64_t number) {
    tensor *in = fixture_copies(r, a->in, a->nin, true, false); /* outputs may be inputs */
    if (!in) return fixture_fail(r, "out of memory");
    weft_status status = kernel_run_op(op, a->in, a->in_first, a->out, a->out_first, number, &r->arena);
    if (status) return fixture_fail_status(r, status);
    axes_check_op(r->axes, op, in, a->in_first, a->out, a->out_first);
    return true;
}
