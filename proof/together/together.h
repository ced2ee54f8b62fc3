/* together.h: the programs of all ranks as terms of one table, so that what one rank sends is what another one has.
 *
 * Programs are read apart (program_read_apart). A rank's *value* of a term is the term over what ranks hold at the
 * start: inputs are told apart by rank, and each collective is what its definition makes of its members' values. */
#ifndef PROOF_TOGETHER_TOGETHER_H
#define PROOF_TOGETHER_TOGETHER_H

#include "proof/equivalence/equiv.h"

enum { MOST_TOGETHER = 64, MOST_TILES = 16, BEFORE = 0, AFTER = 1 };
enum { MOST_RUNS = 4096 }; /* what falls into more stays a function */

/* The number of a collective among those of its ring, or of a message among those of its ring to that member. */
typedef struct turn {
    int64_t ring, peer;     /* peer -1: no message */
    int32_t way;            /* 0: no message; sent, received */
    uint32_t number, index; /* index: among the opened ones */
} turn;

/* A program, read once for all ranks that run it. */
typedef struct reading {
    const weft_program *program;
    outputs read;
    turn *turns;          /* sorted, number last */
    const turn **turn_of; /* by index */
} reading;

typedef struct together {
    terms *t;
    arena memory;
    size_t nranks;
    reading *readings; /* of both sides */
    size_t nreadings;
    reading *of[2][MOST_TOGETHER]; /* by side and rank */
    uint32_t nread;                /* terms that programs have: more are made later */
    uint32_t *values[2][MOST_TOGETHER];
    bool adds_parts; /* products are sums of those of parts of the contracted dimension: equal over the real numbers */
    struct need *stack;
    size_t depth, capacity;
} together;

/* A value that another one is made of. */
typedef struct need {
    uint32_t rank, term;
} need;

/* --- match.c ------------------------------------------------------------------------------------------------------ */

WEFT_MUST_USE weft_status turns_find(together *g, reading *r);
/* The collectives that meet, of one rank's: one of each member of the ring, or of a message the one that sends it. */
typedef struct meeting {
    const char *why;        /* NULL: they meet. Else what is wrong */
    size_t count, position; /* position: of the rank among the members */
    uint32_t ranks[MOST_TOGETHER];
    const opened *of[MOST_TOGETHER];
} meeting;
void meeting_find(const together *g, int side, uint32_t rank, uint32_t index, meeting *out);

/* --- values.c ----------------------------------------------------------------------------------------------------- */

/* The rank's value of a term of its program on that side. Linear in what it is made of. */
WEFT_MUST_USE weft_status value_find(together *g, int side, uint32_t rank, uint32_t term_id, uint32_t *out);

/* --- gives.c: what a collective gives ----------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status collective_value(together *g, int side, uint32_t symbol, const meeting *m, uint32_t *out);

/* --- rows.c ------------------------------------------------------------------------------------------------------- */

/* Output `id` of an op whose value is `op`, with rows of a product told apart: rows of a product are the product of
 * rows. So are concatenations and slices along any dimension, which are rows put in another order. */
WEFT_MUST_USE weft_status rows_value(terms *t, uint32_t id, uint32_t op, bool adds_parts, uint32_t *out);
/* Rows of `x` times the matrix `b`, or its transpose. Extents: rows, k, n. */
WEFT_MUST_USE weft_status rows_product(terms *t, int32_t dtype, value x, value b, bool turns, const int64_t extents[3],
                                       bool adds_parts, value *out);
/* `x` in the extents of `id`. */
WEFT_MUST_USE weft_status rows_shaped_like(terms *t, uint32_t id, value x, uint32_t *out);

/* --- tiles.c: matrices whose rows come from several others ---------------------------------------------------------
 */

/* Columns [first, first + count) of a matrix. */
typedef struct tile {
    value of;
    int64_t width, first, count;
} tile;
/* Rows of which each has these columns, one after another. */
typedef struct tile_block {
    int64_t rows;
    tile tiles[MOST_TILES];
    size_t ntiles;
} tile_block;
/* Rows from `index` on, `most` of them or fewer; out->rows 0: that is not known. */
WEFT_MUST_USE weft_status tiles_find(terms *t, value matrix, int64_t width, int64_t index, int64_t most,
                                     tile_block *out);
bool tiles_is_whole(const tile_block *b); /* whole rows of one matrix */
/* These columns of `rows` rows as a matrix; out->term TERM_NONE: they are too many pieces. */
WEFT_MUST_USE weft_status tiles_columns(terms *t, const tile *columns, int64_t rows, value *out);
/* Rows [from, from + k) of the matrix b, `all` by n; of one that is transposed (n by `all`), columns. */
WEFT_MUST_USE weft_status tiles_take_rows(terms *t, value b, bool turns, int64_t all, int64_t n, int64_t from,
                                          int64_t k, value *out);
/* Some rows of some columns: row by row those of `rows`, each the columns of all products in its line of `products`, of
 * which there is one for each pair. out->term TERM_NONE: these are too many pieces. */
WEFT_MUST_USE weft_status tiles_join(terms *t, const value *products, const tile *rows, size_t nrows,
                                     const tile *columns, size_t ncolumns, value *out);

/* --- contracted.c: the same where a product is a sum of products; *out TERM_NONE: it is none. --------------------- */
WEFT_MUST_USE weft_status contracted_value(terms *t, uint32_t id, uint32_t op, uint32_t *out);

/* --- outer.c: products whose left operand is transposed -------------------------------------------------------- */

/* The op that makes the value, if it has that many arguments (0: any); NULL: none does. */
const head *op_making(const terms *t, uint32_t id, size_t nargs, uint32_t *out_op);
/* The matrix, k by m, of which `x` is the transpose; false: of none. */
bool outer_is_turned(const terms *t, uint32_t x, int64_t m, int64_t k, value *out);
#define OUTER_LABEL "outer product"
/* Whether it is the product of a transposed matrix and another one. */
static inline bool outer_is(const terms *t, uint32_t id) {
    const head *h = term_head(t, id);
    return h->kind == HEAD_TOGETHER && h->pulls && strcmp(h->label, OUTER_LABEL) == 0;
}
/* Of the matrices `left` and `right`, of as many rows each: the transpose of one times the other. Extents: m, k, n;
 * out->term TERM_NONE: they fall into too many pieces. */
WEFT_MUST_USE weft_status outer_rows(terms *t, int32_t dtype, value left, value right, const int64_t extents[3],
                                     value *out);

/* --- gradients.c: gradients of a product with a matrix are products; *out TERM_NONE: `op` has none. ----------------
 */
WEFT_MUST_USE weft_status gradient_value(terms *t, uint32_t id, uint32_t op, bool adds_parts, uint32_t *out);

/* sums.c: a sum in order, slice by slice. */
WEFT_MUST_USE weft_status rows_sum(terms *t, const value *args, size_t nargs, int32_t dtype, bool adds_parts,
                                   value *out);
/* What a head makes of the elements at one place of 1 to MOST_TOGETHER values, of as many elements each, slice by
 * slice.
 */
WEFT_MUST_USE weft_status rows_each(terms *t, uint32_t head_id, const value *args, size_t nargs, int32_t dtype,
                                    value *out);

#endif
