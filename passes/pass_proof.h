/* pass_proof.h: the equivalence check around the passes of a list. */
#ifndef PASSES_PASS_PROOF_H
#define PASSES_PASS_PROOF_H

#include "passes/pass_manager.h"
#include "proof/equivalence/equiv.h"

typedef struct pass_proof {
    prover prover;
    weft_prove how;
    uint64_t edits; /* the program's when it was read last */
    bool races;     /* it does, read in order */
} pass_proof;

/* Reads the program as it is before the first pass, if the list asks for proofs. */
WEFT_MUST_USE weft_status pass_proof_begin(pass_proof *proof, const weft_pass_list *list, weft_program *program);
/* Compares what a pass made with what was there; into `out`. An error where the list requires a proof and there is
 * none. */
WEFT_MUST_USE weft_status pass_proof_after(pass_proof *proof, const weft_pass *pass, weft_program *program,
                                           weft_report *report, pass_report *out);
void pass_proof_end(pass_proof *proof);

#endif
