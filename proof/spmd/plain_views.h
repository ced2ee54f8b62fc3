/* plain_views.h: views of traced graphs as moves. */
#ifndef PROOF_SPMD_PLAIN_VIEWS_H
#define PROOF_SPMD_PLAIN_VIEWS_H

#include "program/ir.h"

/* Writes Paddle's op (transpose2, slice, split, expand_v2) in the place of each ATen view that reads as a copy: nothing
 * writes its bytes as long as it, or a view of it, is read. */
WEFT_MUST_USE weft_status plain_views_write(weft_program *p);

#endif
