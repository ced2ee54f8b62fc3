/* view.h: strided views of values. */
#ifndef PROOF_SPMD_VIEW_H
#define PROOF_SPMD_VIEW_H

#include "proof/spmd/lift.h"

enum { VIEW_LEVELS = 32, VIEW_PIECES = 256 };

/* Elements of `base` in order: at an offset, by levels, the outermost first. Of what a rank holds the offset is that of
 * the rank at 0, 0, .... It grows by a step with the coordinate along each axis of the grid. */
typedef struct view {
    uint32_t base;
    int64_t offset, step[LIFT_AXES];
    size_t n;
    int64_t extent[VIEW_LEVELS], stride[VIEW_LEVELS];
} view;

/* A value that is put together from the arguments of a term, which are of one shape. */
typedef struct view_joint {
    uint32_t of;
    size_t n;
    int axis; /* along which; -1: one after another, as elements */
} view_joint;

/* False: there are too many. */
bool view_add_level(view *v, size_t at, int64_t extent, int64_t stride);
/* Levels that continue one another become one; those of one element go. */
void view_merge(view *v);
/* Cuts levels where dimensions end: those of dimension d are first[d] to first[d + 1] then. False: some go across. */
bool view_split(view *v, size_t ndim, const int64_t *dims, size_t *first);
/* The place in what it is of that element number `at` has. */
int64_t view_element(const view *v, int64_t at);
bool view_is_like(const view *a, const view *b); /* but for the offset */

/* Elements `from` to `from + count` of those that levels `first` to `end` count. False: they do not fall into levels.
 */
bool view_slice(view *v, size_t first, size_t end, int64_t from, int64_t count);

/* Levels at `at` for the regular steps between pieces that begin at these offsets, which are lost; false: they are not
 * regular. */
bool view_add_pieces(view *v, size_t at, int64_t *offsets, size_t n);

/* What the term moves the elements of; TERM_NONE: it does something else, or puts several together. */
uint32_t view_argument(const terms *t, uint32_t id);
/* The pad of one argument that makes the term; NULL: none does. */
const weft_op *view_pad_of(const terms *t, uint32_t id);
/* What that move makes of a view of its argument; false: none. */
bool view_move(const terms *t, uint32_t id, view *v);
/* False: the term is not put together so. */
bool view_joint_of(const terms *t, uint32_t id, view_joint *out);
/* The pieces, of which `v` is the first and all begin at these offsets, as one view; false: they are none. */
bool view_join(const terms *t, const view_joint *j, int64_t *offsets, view *v);
/* `other` behind `v` along a dimension, as one; `dims` become its extents. False: it is not there in what they are of.
 */
bool view_adjoin(view *v, size_t ndim, int64_t *dims, const view *other, const int64_t *other_dims, size_t axis);
/* A view of what is filled up with zeros, none of which it shows, as one of the value; false: it is none. */
bool view_unpad(const terms *t, view *v);
/* Of itself, if it is not moved. False: its extents are not known. */
bool view_of_term(const terms *t, uint32_t id, view *out);
/* lift_views.c. The rank's part of `x`, whose own extents are these; false: it is no view. Where it is split unevenly
 * the view is that of `rank` alone; LIFT_ALL: of no particular one. */
#define LIFT_ALL SIZE_MAX
bool lift_view_of_part(const lifter *l, const lifted *x, size_t rank, size_t ndim, const int64_t *dims, view *out);
/* What ranks whose part, of the extents of `id`, is the view have parts of; of *x says which axes shard it. */
WEFT_MUST_USE weft_status lift_from_view(lifter *l, uint32_t id, const view *own, bool *out_found, lifted *x);
/* The term of the view, under these extents. */
WEFT_MUST_USE weft_status lift_view_term(lifter *l, const view *v, size_t ndim, const int64_t *dims, uint32_t *out);
/* lift_lists.c. Makes of the view of what ranks hold as `x` that of one of them, along the axes; *x says how the others
 * have theirs. False: it is partial. */
bool lift_of_member(const lifter *l, uint32_t axes, size_t rank, lifted *x, view *v);
/* Parts along the axes, one behind another along dimension 0; false: some axis does not shard it. */
bool lift_join_steps(const lifter *l, uint32_t axes, view *v, lifted *x);
/* Of dimension 0 the part along the axes, of sums along all of these; false: it does not fall into equal rows, or it is
 * no such sum. */
bool lift_take_steps(const lifter *l, uint32_t axes, size_t ndim, const int64_t *dims, view *v, lifted *x);
/* The offsets of what members of a ring have, as steps along its axes; false: they are not even. */
bool lift_find_steps(const lifter *l, const ring *r, uint32_t axes, const int64_t *offsets, view *v);
/* The view as a term, of one dimension. */
WEFT_MUST_USE weft_status view_term(terms *t, const view *v, uint32_t *out);

#endif
