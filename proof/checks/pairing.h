/* pairing.h: two ranks of a ring, whose sequences on it are compared. */
#ifndef PROOF_CHECKS_PAIRING_H
#define PROOF_CHECKS_PAIRING_H

#include "proof/checks/ranks.h"

typedef struct pairing {
    const proof_ranks *ranks;
    weft_findings *findings;
    arena *arena;
    int64_t ring, a_rank, b_rank;
    const proof_class *a, *b;
    const ring_sequence *a_list, *b_list;
    key_set seen; /* pairs of classes and ring */
} pairing;

/* Collective number k of a sequence. */
static inline const proof_collective *sequence_at(const proof_class *c, const ring_sequence *list, uint32_t k) {
    return &c->schedule->collectives[c->order[list->first + k]];
}

/* pairing_sequences.c: `a` against `b`: the first difference is reported. */
WEFT_MUST_USE weft_status pairing_compare(pairing *p);

#endif
