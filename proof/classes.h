/* classes.h: which rank runs which program, and which programs are equal to a proof. */
#ifndef PROOF_CLASSES_H
#define PROOF_CLASSES_H

#include "program/ir.h"
#include "proof/members.h"

typedef struct rank_classes {
    int64_t nranks;
    const weft_program **by_rank;  /* NULL: not given */
    uint32_t *class_of;            /* by rank; UINT32_MAX: not given */
    const weft_program **programs; /* by class: that of its first rank */
    int64_t *first_rank;           /* by class */
    const mixture **names;         /* by class, by var id: of its name; where there are several programs */
    mixture *flows; /* by class: how values flow, and where the first rank stands in its rings and meshes */
    size_t count;
    member_lists lists;
    program_rings *rings_of; /* by rank */
} rank_classes;

/* One program is every rank's if it says so (rank -1) or `nranks` does; else programs go to the ranks that they name,
 * or are in rank order. O(n) for n ops in all. */
WEFT_MUST_USE weft_status classes_find(const weft_program *const *programs, size_t nprograms, int64_t nranks, arena *a,
                                       rank_classes *out);
/* The largest rank that a program speaks of. */
int64_t program_last_rank(const weft_program *p);

#endif
