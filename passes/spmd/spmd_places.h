/* spmd_places.h: what spmd_places.c notes and spmd_again.c makes again. */
#ifndef PASSES_SPMD_SPMD_PLACES_H
#define PASSES_SPMD_SPMD_PLACES_H

#include "passes/spmd/spmd.h"

/* An op whose own attrs say where the rank stands, or the steps of a path. */
typedef struct spmd_piece {
    uint32_t axes;
    spmd_op *op; /* NULL: a path, for which the ops from `first` on were made */
    const spmd_var *v;
    weft_var *from, *into;
    const spmd_path *path;
    size_t first;
} spmd_piece;

struct spmd_places {
    spmd_plan *plan;
    rank_edits *edits;
    spmd_piece *pieces;
    size_t npieces, piece_capacity;
    weft_op **made;
    size_t nmade, made_capacity;
    bool is_noting, is_again;
    const spmd_piece *now; /* being made again: */
    size_t next;           /* the op that its next one was */
};

#endif
