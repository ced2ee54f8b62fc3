/* ops_fixture_run.h: one run of a recording, for the files that run it each in their way: as it is (ops_fixture.c),
 * twice where ops are marked linear (ops_fixture_marks.c), by parts (ops_fixture_cuts.c), in half precision
 * (ops_fixture_half.c), on NaN and empty tensors (ops_fixture_edges.c), planned and executed where an op has no kernel
 * of its own (ops_fixture_planned.c). */
#ifndef TESTS_SUPPORT_OPS_FIXTURE_RUN_H
#define TESTS_SUPPORT_OPS_FIXTURE_RUN_H

#include "executor/kernel.h"
#include "tests/support/npz.h"
#include "tests/support/ops_fixture.h"

typedef struct fixture_run {
    weft_context *context;
    weft_program *program;
    npz npz;
    arena arena;
    shape_env env;
    tensor *values; /* by var id; data NULL: not there yet */
    ops_mode mode;
    bool values_matter;
    bool plans;       /* ops without a kernel of their own go through planner and executor */
    size_t ncompared; /* recorded outputs of the op that `op` names */
    bool linear;     /* marks of linearity are checked */
    bool cuts;       /* parts of ranks are checked */
    bool types;      /* marks of types are checked */
    struct axes_check *axes; /* rules of axes.def are checked; NULL: they are not */
    struct ops_edges *edges; /* NaN and empty tensors are tried; NULL: they are not */
    bool empty;      /* the first extent of inputs is 0 */
    size_t nlinear;  /* ops that have a mark; ways to cut that were checked */
    weft_dtype half; /* what fp32 vars became; NONE: they are as recorded */
    const char *op;
    char *why;
    size_t why_nbytes;
} fixture_run;

/* An op's arguments, in schema order. */
typedef struct case_args {
    tensor *in, *out;
    uint32_t *in_first, *out_first, nin, nout;
} case_args;

/* Say what is wrong; false. */
bool fixture_fail(fixture_run *r, const char *format, ...) WEFT_PRINTF(2, 3);
bool fixture_fail_status(fixture_run *r, weft_status status);
/* Copies of tensors: of what they hold, or garbage; `widens`: with fp32 for half. NULL: out of memory. */
tensor *fixture_copies(fixture_run *r, const tensor *from, uint32_t count, bool filled, bool widens);
bool fixture_has_kernels(const weft_program *p);
/* Compares what was recorded of outputs with r->values. */
bool fixture_compare(fixture_run *r);
/* Plans and executes the program on what was recorded, and compares. */
bool fixture_run_planned(fixture_run *r);
/* Shapes and values of what was recorded; program, npz and arena are there. */
bool fixture_begin(fixture_run *r);
/* Infers an op's outputs and gathers its arguments. */
bool fixture_ready_op(fixture_run *r, weft_op *op, case_args *out);
/* Runs the op, and again on twice its linear inputs: doubling is exact, so outputs double bit for bit. */
bool fixture_check_linear(fixture_run *r, weft_op *op, const case_args *a, uint64_t number);
/* Runs the op, and again on parts of its inputs, cut in all ways that the proof against a serial program follows. */
bool fixture_check_cuts(fixture_run *r, weft_op *op, const case_args *a, uint64_t number);

/* Runs the op, and again on all placements of its inputs that its rule allows (axes_check.h). */
bool fixture_check_axes(fixture_run *r, weft_op *op, const case_args *a, uint64_t number);

/* Runs the op with inputs of other types, which the kernel must refuse if it is marked as of one, and as it is. */
bool fixture_check_types(fixture_run *r, weft_op *op, const case_args *a, uint64_t number);

/* Runs the op on NaN, or as it is on empty tensors, and adds to the tally. */
bool fixture_check_edges(fixture_run *r, weft_op *op, const case_args *a, uint64_t number);
/* Makes the recorded inputs empty: those as long as the first one have no rows. */
bool fixture_make_empty(fixture_run *r);

#endif
