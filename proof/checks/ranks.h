/* ranks.h: what checks of several ranks are given. */
#ifndef PROOF_CHECKS_RANKS_H
#define PROOF_CHECKS_RANKS_H

#include "proof/findings.h"
#include "proof/members.h"
#include "proof/mixture.h"

/* What one class of ranks issues on one ring: collectives order[first .. first + count) of the class, in launch order.
 */
typedef struct ring_sequence {
    int64_t ring;
    uint32_t first, count;
} ring_sequence;

/* Ranks with equal programs are of one class. */
typedef struct proof_class {
    const proof_schedule *schedule;
    ring_sequence *sequences; /* by ring, without point to point */
    size_t nsequences;
    uint32_t *order;
    uint32_t *peers; /* sends and receives by ring, peer and direction, in launch order */
    size_t npeers;
    const mixture *moved; /* by collective: what it moves, by name and place; NULL: not looked at */
} proof_class;

typedef struct proof_ranks {
    weft_context *context;
    const proof_class *classes;
    size_t nclasses;
    const weft_program *const *programs; /* by rank: whose rings hold; NULL: that rank's program was not given */
    const uint32_t *class_of;            /* by rank; PROOF_NONE: not given */
    const int64_t *all;                  /* 0, 1, ... */
    int64_t nranks;
    rank_parties *parties; /* NULL: not looked for; each rank is asked */
    int64_t max_in_flight; /* collectives of a rank; 0: any number */
    int64_t max_queued;    /* launches of a stream; 0: any number */
} proof_ranks;

/* sequences.c */
/* The members of a ring as `rank` knows it; all ranks where its program does not say. */
const int64_t *ring_members(const proof_ranks *r, int64_t rank, int64_t ring, size_t *out_count);
/* Fills in the class's schedule, order, sequences and peers. */
WEFT_MUST_USE weft_status sequences_list(const proof_schedule *s, arena *a, proof_class *out);
/* What a collective moves; `names`: those of vars, by id, or NULL. */
mixture sequences_moved(const proof_schedule *s, const proof_collective *c, const mixture *names);
/* Of all that the class issues. */
WEFT_MUST_USE weft_status sequences_look_at_moved(proof_class *c, const mixture *names, arena *a);
const ring_sequence *sequences_find(const proof_class *c, int64_t ring); /* NULL: issues nothing there */

#endif
