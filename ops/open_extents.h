/* open_extents.h: programs whose feeds leave extents open (-1), with numbers in their place. */
#ifndef OPS_OPEN_EXTENTS_H
#define OPS_OPEN_EXTENTS_H

#include "ops/ops.h"

typedef struct open_extents {
    int64_t rows;    /* dimension 0 of what is fed, of all ranks together; 0: it stays open */
    int64_t lengths; /* every other open dimension; 0: they stay open */
    int64_t nranks;  /* that a feed without a placement is split over: 1 for the serial program */
} open_extents;

/* Whether some feed has an open extent. A feed is what block 0 reads before any op writes it, persistables apart. */
WEFT_MUST_USE weft_status open_extents_find(weft_program *p, bool *out_any);
/* Gives feeds these extents, the parts that a rank's placements say, and declares what follows from them. An error
 * names the op that cannot take them; the program is half changed then. Linear. */
WEFT_MUST_USE weft_status open_extents_set(weft_program *p, const open_extents *e);
/* The same of feeds alone: what follows stays as it is declared. */
WEFT_MUST_USE weft_status open_extents_feed(weft_program *p, const open_extents *e);
/* Declares what `env` has inferred of a var: all extents where all are known, else the open ones. */
WEFT_MUST_USE weft_status open_extents_declare(const shape_env *env, weft_var *v);
/* Writes numbers that inference knows into block 0 (known_numbers.c): for readers of values, not to be run. */
WEFT_MUST_USE weft_status known_numbers_write(weft_program *p);
/* known_rows.c: others in the place of a gather_nd of one element of each row, or its gradient; *out_gone: it was one. */
WEFT_MUST_USE weft_status known_rows_write(const shape_env *env, weft_op *op, bool *out_gone);

#endif
