/* elements.h: what is moved, element by element. */
#ifndef PROOF_SPMD_ELEMENTS_H
#define PROOF_SPMD_ELEMENTS_H

#include "proof/spmd/view.h"

enum { ELEMENTS_MOST = 1 << 16, ELEMENTS_OF_ONE = 1 << 21, ELEMENT_ZERO = -1 };

/* Which element of which serial value stands where in a value. */
typedef struct elements {
    uint32_t base; /* the value that they are of; TERM_NONE: all are zeros */
    uint32_t partial;
    uint64_t family;
    size_t ndim;
    const int64_t *dims;
    int64_t count;
    int64_t *at; /* each one's place in the value, or ELEMENT_ZERO */
} elements;

/* Of what values are seen to be: of others under other extents, or filled up; of those that they are parts of; of those
 * that are turned, too. */
typedef enum elements_depth { SEES_SHAPES, SEES_PARTS, SEES_TURNS, ELEMENTS_DEPTHS } elements_depth;

typedef struct walk walk;
struct walk {
    lifter *l;
    /* What the rank has as that term; LIFT_ALL: the serial value. */
    bool (*find)(walk *w, size_t rank, uint32_t id, elements *out);
    arena memory;
    int64_t left, had; /* elements that may still be listed, and at first */
    elements_depth depth;
    bool waits;  /* for what another rank has */
    bool failed; /* there was no memory */
};

/* elements.c. All that return false: they are not known, too many, or do not fit. */

/* As many as the term has, all zeros. */
bool elements_room(walk *w, uint32_t id, elements *out);
/* Whether what both have elements of is one value, held alike but for parts. */
bool elements_join(elements *all, const elements *more);
/* Copies a box of the extents `dims` from place `from` of one array to place `to` of another. */
void elements_copy(size_t ndim, const int64_t *dims, const int64_t *src, const int64_t *src_dims, int64_t from,
                   int64_t *dst, const int64_t *dst_dims, int64_t to);
/* Puts `count` steps along dimension `d` of one, from the `from`th on, where the `to`th of the other begin. */
bool elements_put(const elements *one, size_t d, int64_t from, int64_t count, int64_t to, elements *all);
/* From one step along dimension `d` to the next. */
int64_t elements_stride(size_t ndim, const int64_t *dims, size_t d);

/* elements_known.c. The elements of a part of a value of extents `whole`, which has `dims` of its own: their places in
 * the value. */
bool elements_list_part(walk *w, const lifted *x, size_t rank, size_t ndim, const int64_t *dims, const int64_t *whole,
                        int64_t *out);
bool elements_of_known(walk *w, size_t rank, uint32_t id, elements *out);
/* Places in what is filled up, `id`, as those in the value. */
void elements_unpad(const terms *t, uint32_t id, elements *e);

/* elements_ring.c. The collective of one tensor that makes the rank's term; NULL: none does. */
const weft_op *elements_collective(const lifter *l, size_t rank, uint32_t id);
/* `out` has room. */
bool elements_of_collective(walk *w, size_t rank, uint32_t id, const weft_op *op, elements *out);

/* elements_moves.c */
void elements_begin(walk *w, lifter *l, elements_depth depth);
WEFT_MUST_USE weft_status elements_end(walk *w); /* out of memory on the way */
/* From what the term is made of, whatever is known of it. */
bool elements_make(walk *w, size_t rank, uint32_t id, elements *out);
/* Whether the term is a move, or one tensor of a collective. */
bool elements_are_moved(const lifter *l, size_t rank, uint32_t id);

#endif
