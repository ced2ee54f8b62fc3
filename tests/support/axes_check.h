/* axes_check.h: whether an op's rule (ops/axes.h) holds of its kernel: on every placement of its inputs that the rule
 * allows, the kernel on the ranks' parts gives the outputs that the rule says. */
#ifndef TESTS_SUPPORT_AXES_CHECK_H
#define TESTS_SUPPORT_AXES_CHECK_H

#include "executor/kernel.h"
#include "ops/axes.h"

enum { AXES_TEXT_ROOM = 400, AXES_MISSING = 256 };

/* A placement of an op's inputs that its rule denies, and that holds wherever it was tried. */
typedef struct axes_missing {
    char in[120], out[120];
    bool shards, sums; /* some input is sharded; what is partial is so by sums alone, or by means alone */
    unsigned ntried, nheld;
} axes_missing;

/* What was found of one op type. */
typedef struct axes_tally {
    size_t ninstances, nchecked; /* placements that the rule allows, and hold */
    size_t nwrong;
    char wrong[AXES_TEXT_ROOM]; /* the first that does not hold */
    axes_missing *missing;      /* AXES_MISSING; NULL: they are not looked for */
    size_t nmissing;
} axes_tally;

typedef struct axes_check {
    weft_context *context;
    axes_tally *tallies; /* by row of ops.def */
    bool finds_missing;  /* looks at placements that rules deny too: slow. Tallies then have room for them */
} axes_check;

/* Runs `op` on these tensors, whole and in parts. Tensors are not changed. Types of outputs are known; their data is
 * not looked at. */
void axes_check_op(axes_check *c, weft_op *op, const tensor *in, const uint32_t *in_first, const tensor *out,
                   const uint32_t *out_first);

#endif
