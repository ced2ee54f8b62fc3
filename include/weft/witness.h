/* weft/witness.h: values that show that ranks do not train as the serial program does.
 *
 * weft_equivalent_to_serial compares terms. That two terms differ is no proof that the values do. A witness computes
 * both on small random data and looks. */
#ifndef WEFT_WITNESS_H
#define WEFT_WITNESS_H

#include "weft/equivalent.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A weft_witness that runs the programs for one step on CPU threads; `data` is not used. State and feeds are random
 * numbers, extents of -1 are a few rows or elements. A var differs if it does in two draws, by far more than what
 * other last bits in the state and other random numbers change. It runs the serial program twice a draw and the ranks
 * once. What ranks ran before a change is run as the serial program is; then each rank has numbers of its own.
 * Programs of more than 16 million elements of state, or that cannot run here, have no witness: `out_reason`
 * says why. */
WEFT_MUST_USE weft_status weft_witness_run(void *data, const weft_witness_question *question,
                                           weft_witness_answer *answers, char out_reason[WEFT_WITNESS_REASON]);

#ifdef __cplusplus
}
#endif
#endif
