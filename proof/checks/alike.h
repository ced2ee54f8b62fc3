/* alike.h: classes whose programs differ, but not in what a question looks at: it is asked of the first of them. */
#ifndef PROOF_CHECKS_ALIKE_H
#define PROOF_CHECKS_ALIKE_H

#include "proof/checks/ranks.h"

/* Out: by class, the first class whose launches move alike as far as other streams, the host and other ranks can
 * notice: the same streams, waits, collectives and what they move, and accesses to what several streams touch. Other
 * launches between these can neither race nor hang. Names may differ, and without `with_ops` what the launches are, so
 * that a finding holds for all but names the ops of one. */
WEFT_MUST_USE weft_status alike_in_motion(const proof_class *classes, size_t n, bool with_ops, arena *a,
                                          uint32_t **out);

/* `ranks` with classes that move alike as one. */
WEFT_MUST_USE weft_status alike_ranks(const proof_ranks *ranks, const uint32_t *first_alike, arena *a,
                                      proof_ranks *out);

#endif
