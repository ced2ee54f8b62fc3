/* equiv.h: equivalence of the states of one program, for the pass manager: what was read before a pass is kept. */
#ifndef PROOF_EQUIVALENCE_EQUIV_H
#define PROOF_EQUIVALENCE_EQUIV_H

#include "proof/equivalence/read.h"
#include "weft/equivalent.h"

typedef struct finding {
    const char *shown; /* the var, behind its rank if it has one; strings are in the verdict's memory */
    const char *var;
    int64_t rank; /* whose value it is, or OF_NO_RANK */
    const char *message;
    weft_grade grade;
    weft_difference difference;
} finding;

struct weft_equivalence {
    weft_context *context;
    arena arena;
    weft_grade grade;
    size_t nvalues;
    finding *items;
    size_t count, capacity;
};

WEFT_MUST_USE weft_status equivalence_create(weft_context *context, weft_equivalence **out);
WEFT_MUST_USE weft_status equivalence_add(weft_equivalence *e, const char *var, weft_grade grade, const char *message);
WEFT_MUST_USE weft_status equivalence_add_of_rank(weft_equivalence *e, int64_t rank, const char *var, weft_grade grade,
                                                  const char *message);

/* One table of terms, and what the last program that was read leaves behind. */
typedef struct prover {
    terms terms;
    normal normals[NORMAL_MODES];
    outputs before;
} prover;

WEFT_MUST_USE weft_status prover_init(prover *v, weft_context *context);
void prover_fini(prover *v);
/* Takes the program as the one that others are compared with. */
WEFT_MUST_USE weft_status prover_take(prover *v, weft_program *p);
/* Compares the program with the one taken last, and takes it. */
WEFT_MUST_USE weft_status prover_compare(prover *v, weft_program *p, weft_equivalence **out);
/* The verdict of a program that is the one taken last. */
WEFT_MUST_USE weft_status prover_same(const prover *v, weft_equivalence **out);
/* Compares what stands at the same place of two lists of one table; adds no values to the verdict's count. */
WEFT_MUST_USE weft_status outputs_compare_pairs(prover *v, const outputs *before, const outputs *after,
                                                weft_equivalence *out);

#endif
