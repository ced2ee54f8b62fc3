/* weft/edits.h: what was edited in a program, for a host that has it in a form of its own.
 *
 * A host reads its program as WEFT_FORM_PDMODEL, begins edits, runs passes or edits ops itself, and carries over what
 * weft_edits_find finds. What the sidecar alone holds (placements, streams, events) is no edit here. */
#ifndef WEFT_EDITS_H
#define WEFT_EDITS_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_edits weft_edits;

/* Writes down how the program is; checks its structure as weft_program_verify does, but for extents below -1. O(n). The
 * program must live as long as the edits. */
WEFT_MUST_USE weft_status weft_edits_begin(weft_program *program, weft_edits **out_edits);
/* NULL is fine. */
void weft_edits_destroy(weft_edits *edits);
/* Compares the program with what was written down. The functions below tell of that. */
WEFT_MUST_USE weft_status weft_edits_find(weft_edits *edits);
/* The ops of a block in order, as runs. An op that is new, or is not what it was, or moved, is a run of its own and is
 * edited. Of other runs the ops stood one after another. */
size_t weft_edits_nruns(const weft_edits *edits, size_t block_index);
/* Of the first op of a run: where it stood (-1: nowhere, it is new). How many ops the run has, and whether it is
 * edited. Blocks and runs beyond the last have no ops. */
void weft_edits_run(const weft_edits *edits, size_t block_index, size_t index, int64_t *out_source, size_t *out_nops,
                    bool *out_is_edited);
/* The op that an edited run is, if a slot of it has more than max_nargs arguments; else NULL. Borrowed, until the
 * program is edited again. */
const weft_op *weft_edits_long_op(const weft_edits *edits, size_t block_index, size_t index, size_t max_nargs);
/* The names of a slot's arguments, as many as weft_op_slot tells, in out_names. Borrowed. */
void weft_op_arg_names(const weft_op *op, bool output, size_t slot_index, const char **out_names);
/* Whether the block lacks vars that it had. */
bool weft_edits_removes_vars(const weft_edits *edits, size_t block_index);
/* The patch as a .pdmodel: all blocks, with edited ops and vars alone. Ops name other vars too. Owned by the caller
 * (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_edits_print(const weft_edits *edits, char **out_bytes, size_t *out_nbytes);
/* The same without slots of more than max_nargs arguments. A host takes those from weft_edits_long_op: an op of a
 * bucket has thousands of arguments, which it need not read from a program first. */
WEFT_MUST_USE weft_status weft_edits_print_short(const weft_edits *edits, size_t max_nargs, char **out_bytes,
                                                 size_t *out_nbytes);

#ifdef __cplusplus
}
#endif
#endif
