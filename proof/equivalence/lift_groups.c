/* lift_groups.c: all-reduces of shares over some of the ranks, such as one ring after another of a mesh.
 *
 * Let rings of n ranks cut the ranks into groups, and each add up its shares: then every share is counted on n ranks,
 * so what the ranks have adds up to n times the serial value, and is equal along the axes of the rings. What is equal
 * on all ranks is their sum, divided by how many there are. So sums over the axes of a mesh, in any order and with
 * linear ops in between, end in the serial value. */
#include "proof/equivalence/lift.h"

/* The mesh of all ranks with the most axes; NULL: there is none. */
static const mesh *grid_of(const lifter *l) {
    const weft_program *p = l->programs[0];
    const mesh *found = NULL;
    int64_t at[MESH_MAX_NDIM];
    for (size_t i = 0; i < p->nmeshes; i++) {
        const mesh *m = p->meshes[i];
        bool has_all = mesh_size(m) == (int64_t)l->nranks;
        for (size_t r = 0; r < l->nranks && has_all; r++) has_all = mesh_coordinates(m, (int64_t)r, at);
        if (has_all && (!found || m->ndim > found->ndim)) found = m;
    }
    return found;
}

/* The axes along which the ranks of a collective's ring lie, with `rank` among them; 0: they are no part of the grid.
 */
static uint32_t axes_of(const lifter *l, const mesh *m, size_t rank, const weft_op *op) {
    const ring *r = program_find_ring(l->programs[rank], op_ring(op));
    uint32_t axes;
    if (!r || ring_index(r, (int64_t)rank) < 0 || !grid_axes(m, r->ranks, (size_t)r->nranks, &axes)) return 0;
    return axes;
}

static int64_t extent_of(const mesh *m, uint32_t axes) {
    int64_t n = 1;
    for (int i = 0; i < m->ndim; i++)
        if (axes >> i & 1) n *= m->shape[i];
    return n;
}

/* Whether all ranks do the same with the same share, each over its own ring along `axes`. */
static bool all_take_part(const lifter *l, const mesh *m, size_t rank, size_t at, uint32_t axes, lifted *x) {
    const collective *own = &l->outputs[rank].collectives[at];
    weft_reduce reduce, other;
    *x = l->known[rank][own->argument];
    if (!op_is_all_reduce(own->op, &reduce)) return false;
    for (size_t i = 0; i < l->nranks; i++) {
        const collective *c = lift_partner(l, rank, at, i);
        if (!c || !op_is_all_reduce(c->op, &other) || other != reduce || axes_of(l, m, i, c->op) != axes) return false;
        lifted y = l->known[i][c->argument];
        if (y.state == LIFT_PENDING) return *x = y, true;
        if (y.state != LIFT_SHARE || y.term != x->term || y.axes != x->axes) return false;
    }
    return reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG;
}

weft_status lift_part_sum(lifter *l, size_t rank, uint32_t id, size_t at, lifted *out) {
    const mesh *m = grid_of(l);
    const weft_op *op = l->outputs[rank].collectives[at].op;
    uint32_t axes = m ? axes_of(l, m, rank, op) : 0;
    weft_reduce reduce = WEFT_REDUCE_SUM;
    lifted x;
    *out = (lifted){.state = LIFT_UNKNOWN, .term = id, .words = "it reduces over some of the ranks only"};
    if (!axes || !all_take_part(l, m, rank, at, axes, &x)) return NULL;
    if (x.state == LIFT_PENDING) return *out = x, NULL;
    value sum = value_of(x.term);
    if (op_is_all_reduce(op, &reduce) && reduce == WEFT_REDUCE_SUM)
        TRY(term_scale(l->t, sum, (double)extent_of(m, axes), false, &sum));
    bool is_whole = extent_of(m, x.axes | axes) == (int64_t)l->nranks;
    if (is_whole) TRY(term_scale(l->t, sum, (double)l->nranks, true, &sum));
    *out = (lifted){.state = is_whole ? LIFT_WHOLE : LIFT_SHARE, .term = sum.term, .axes = x.axes | axes};
    return NULL;
}
