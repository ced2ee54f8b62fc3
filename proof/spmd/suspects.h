/* suspects.h: values whose terms differ are shown to differ, or stay suspected. */
#ifndef PROOF_SPMD_SUSPECTS_H
#define PROOF_SPMD_SUSPECTS_H

#include "proof/equivalence/equiv.h"

/* Asks the witness about every finding that is suspected, and writes what it answers behind the messages. `about` has
 * the programs. Where they are ranks' before a change each finding is of a rank. */
WEFT_MUST_USE weft_status suspects_ask(weft_equivalence *found, const weft_witness_question *about,
                                       const weft_equivalence_options *o);

#endif
