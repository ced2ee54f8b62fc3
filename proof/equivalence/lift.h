/* lift.h: what the values of ranks are to the values of the serial program. */
#ifndef PROOF_EQUIVALENCE_LIFT_H
#define PROOF_EQUIVALENCE_LIFT_H

#include "proof/equivalence/read.h"

typedef enum lift_state {
    LIFT_PENDING, /* waits for what another rank sends */
    LIFT_WHOLE,   /* the serial value itself */
    LIFT_ROWS,    /* this rank's equal part of the serial value's rows */
    LIFT_SHARE,   /* the ranks' values add up to the serial value */
    LIFT_UNKNOWN
} lift_state;

typedef struct lifted {
    lift_state state;
    uint32_t term;     /* the serial value; LIFT_UNKNOWN: where it began */
    const char *words; /* LIFT_UNKNOWN: why */
    uint32_t axes;     /* LIFT_SHARE: axes of the ranks' mesh along which all have the same share */
} lifted;

typedef struct lifter {
    terms *t;
    weft_program *serial;
    const weft_program *const *programs; /* by rank */
    const outputs *outputs;              /* by rank */
    size_t nranks;
    lifted **known;    /* by rank and term */
    uint32_t **record; /* by rank and term: 1 + its collective; 0: none */
    size_t nterms;     /* of the programs; lifted terms are more */
    bool uniform;      /* all ranks have the same collectives of the same values */
    bool pending;      /* some value waits */
    bool random_rows;  /* some op drew random numbers for its rows: the serial masks, if the ranks draw their parts */
} lifter;

/* Finds out about all that `rank` computes; to be repeated while values are pending and there is progress. */
WEFT_MUST_USE weft_status lift_rank(lifter *l, size_t rank);

/* The collective of `rank` that belongs to number `at` of `self` on the same ring; NULL: there is none. */
const collective *lift_partner(const lifter *l, size_t self, size_t at, size_t rank);
/* lift_groups.c: number `at` of `rank`, an all-reduce of shares over some of the ranks, with the value `id`. */
WEFT_MUST_USE weft_status lift_part_sum(lifter *l, size_t rank, uint32_t id, size_t at, lifted *out);

/* lift_rows.c. What is known of an op whose inputs are not all whole. */
typedef struct row_inputs {
    weft_op *op;        /* or one with the same attrs and slots, over other values */
    const lifted *args; /* in the order of FOR_EACH_ARG */
    const terms *t;
    const value *own; /* the rank's terms of them */
} row_inputs;
/* The state of the first argument of a slot; LIFT_PENDING: it has none. */
lift_state row_slot_state(const row_inputs *in, const char *slot_name);
/* Whether each row of the outputs comes from the same row of the inputs that are LIFT_ROWS, and from whole ones; of a
 * gradient op, whether that holds for the op that it is the gradient of. */
bool acts_on_rows(const row_inputs *in, const char *type, size_t type_nbytes);
/* Whether it reduces over rows, by a mean or a sum, and nothing else of the result depends on how many there are. */
bool reduces_rows(const row_inputs *in, const char *type, size_t type_nbytes, bool *out_mean);

#endif
