/* axes_check.h: whether an op's rule (ops/axes.h) holds of its kernel: on every placement of its inputs that the rule
 * allows, the kernel on the ranks' parts gives the outputs that the rule says. */
#ifndef TESTS_SUPPORT_AXES_CHECK_H
#define TESTS_SUPPORT_AXES_CHECK_H

#include "executor/kernel.h"
#include "ops/axes.h"

enum { AXES_EXAMPLES = 400 };

/* What was found of one op type. */
typedef struct axes_tally {
    size_t ninstances, nchecked; /* placements that the rule allows, and hold */
    size_t nwrong;
    size_t nmissing;                /* placements of one instance that hold, and the rule does not allow */
    char wrong[AXES_EXAMPLES];      /* the first that does not hold */
    char missing[AXES_EXAMPLES];    /* examples */
} axes_tally;

typedef struct axes_check {
    weft_context *context;
    axes_tally *tallies; /* by row of ops.def */
    bool finds_missing;  /* looks at placements that rules deny too: slow */
} axes_check;

/* Runs `op` on these tensors, whole and in parts. Tensors are not changed. Types of outputs are known; their data is
 * not looked at. */
void axes_check_op(axes_check *c, weft_op *op, const tensor *in, const uint32_t *in_first, const tensor *out,
                   const uint32_t *out_first);

#endif
