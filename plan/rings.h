/* rings.h: the rings that a plan communicates on. */
#ifndef PLAN_RINGS_H
#define PLAN_RINGS_H

#include "plan/plan.h"

typedef struct plan_ring {
    int64_t id;
    int nranks;
    const int64_t *ranks;
    const plan_instr **instrs, **pairs; /* its collectives, in order; its sends and receives, in order */
    size_t ninstrs, npairs;
} plan_ring;

typedef struct plan_rings {
    plan_ring *items; /* in order of their first instruction */
    size_t count;
} plan_rings;

/* Those of a plan in a run of `nranks` ranks: a ring that its program does not declare is all of them, in order. Whether
 * the lists of ranks make sense is for the caller to check. */
WEFT_MUST_USE weft_status plan_find_rings(const weft_plan *plan, int nranks, arena *a, plan_rings *out_rings);
/* The ring of that id, or NULL. */
const plan_ring *plan_ring_find(const plan_rings *rings, int64_t id);
/* The first instruction on a ring. */
const plan_instr *plan_ring_first(const plan_ring *ring);
/* Whether an instruction communicates with one other member, and is a send. */
bool plan_is_pair(const plan_instr *instr, bool *out_is_send);
/* The first place of a rank in the ring's list; -1: it is not in it. */
int plan_ring_index(const plan_ring *ring, int64_t rank);

#endif
