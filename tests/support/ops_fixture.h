/* ops_fixture.h: runs a recorded one-op program kernel by kernel, without planner or executor, and compares its outputs
 * with the recording. Where an op has no kernel of its own, planner and executor run it by what takes its place.
 *
 * A gradient's recording holds what append_backward made: several ops at times. Every output starts as garbage, so that
 * an element that a kernel leaves out is seen. */
#ifndef TESTS_SUPPORT_OPS_FIXTURE_H
#define TESTS_SUPPORT_OPS_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/context.h"
#include "weft/types.h"

typedef enum ops_result {
    OPS_PASSED,
    OPS_FAILED,
    OPS_SKIPPED /* an op without a kernel here, a collective, or nothing that `op` writes is recorded */
} ops_result;

typedef enum ops_mode {
    OPS_APART,   /* every var has its own memory */
    OPS_IN_PLACE /* outputs take the memory of inputs wherever ops.def allows it */
} ops_mode;

/* Runs DIR/VARIANT.pdmodel on DIR/VARIANT.npz. `op` is the folder's name: it chooses the tolerance. What went wrong is
 * written to `why`. OPS_PASSED: at least one output of that op was compared. */
ops_result ops_fixture_run(weft_context *context, const char *dir, const char *op, const char *variant, ops_mode mode,
                           char *why, size_t why_nbytes);

/* Runs every op of the recording with `half` for fp32, and again on the exact widening of what it read: outputs must be
 * those of the second, rounded once. OPS_SKIPPED where fp32 is refused too. */
ops_result ops_fixture_run_halved(weft_context *context, const char *dir, const char *variant, weft_dtype half,
                                  ops_mode mode, char *why, size_t why_nbytes);

/* Runs every op of the recording, and those with a mark of linearity (OP_LINEAR and its kind) again on twice their
 * linear inputs: fp32 and fp64 outputs must double bit for bit. OPS_SKIPPED where no op has a mark. */
ops_result ops_fixture_run_linear(weft_context *context, const char *dir, const char *variant, char *why,
                                  size_t why_nbytes);

/* Runs every op of the recording, and again on parts of its inputs as 2 to 5 ranks hold them. They are cut in all ways
 * that the proof against a serial program follows: outputs must be the parts or shares that it says.
 * *nways: how many. */
ops_result ops_fixture_run_cuts(weft_context *context, const char *dir, const char *variant, size_t *nways, char *why,
                                size_t why_nbytes);

/* Runs every op of the recording, and again on ranks that hold parts of its inputs, in all ways that its rule in
 * axes.def allows: what is found is in the tallies of `check` (axes_check.h). */
struct axes_check;
ops_result ops_fixture_run_axes(weft_context *context, const char *dir, const char *variant, struct axes_check *check,
                                char *why, size_t why_nbytes);

/* Runs every op of the recording. Those that are marked as of one type (OP_ONE_TYPE) also run with another type for
 * each input in turn, which must be refused. *nops: how many have the mark. */
ops_result ops_fixture_run_types(weft_context *context, const char *dir, const char *variant, size_t *nops, char *why,
                                 size_t why_nbytes);

/* What the last op of recordings makes of NaN in all floats that it reads, and of tensors without rows. */
typedef struct ops_edges {
    size_t nan_kept, nan_gone, nan_refused;      /* NaN in a float that it writes; none; no run */
    size_t empty_run, empty_refused, empty_left; /* run; refused; run, and something was left unwritten */
} ops_edges;
ops_result ops_fixture_run_edges(weft_context *context, const char *dir, const char *variant, bool empty,
                                 ops_edges *tally, char *why, size_t why_nbytes);

/* Recordings whose numbers mean nothing (random ops), or are plainly wrong (2.6.2's gather_grad along another axis).
 * Where versions of Paddle differ, a recording is held against the definition of its own program's version. */
bool ops_fixture_is_known(weft_context *context, const char *root, const char *op, const char *variant);

#endif
