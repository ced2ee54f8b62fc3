/* rank_edits.h: what the programs of ranks differ in where their ops are the same: attrs that say where a rank stands.
 * A pass notes them (pass_rank_edits) with the op as it is for the rank that the pass runs for. */
#ifndef PASSES_RANK_EDITS_H
#define PASSES_RANK_EDITS_H

#include "program/ir.h"

typedef struct rank_edits rank_edits;

WEFT_MUST_USE weft_status rank_edits_create(weft_context *context, rank_edits **out);
void rank_edits_destroy(rank_edits *edits);
/* The whole number, or list of them, that an attr of the op is on ranks that stand at `at` along these mesh axes
 * (bits). An attr is noted for one set of axes alone. Values are copied. */
WEFT_MUST_USE weft_status rank_edits_add(rank_edits *edits, const mesh *m, uint32_t axes, const int64_t *at,
                                         weft_op *op, const weft_attr *value);
/* All axes of what was noted. */
uint32_t rank_edits_axes(const rank_edits *edits);
/* Exchanges the attrs of the program and those noted for the rank at `at`: done twice, all is as it was. */
WEFT_MUST_USE weft_status rank_edits_exchange(rank_edits *edits, const mesh *m, const int64_t *at);

#endif
