/* cost.h: what one op costs to compute: arithmetic and bytes, from its row, attrs and shapes.
 *
 * A count, not a time: it says what any implementation must do, so that a measured time can be set against what the
 * machine could do at best (executor/profile.h). */
#ifndef OPS_COST_H
#define OPS_COST_H

#include "ops/ops.h"

typedef struct op_cost {
    double flops; /* additions, multiplications, comparisons, divisions and roots count 1; exp, log, tanh, erf, sin,
                   * cos and pow 10. Matrix products and convolutions: 2 for each product that is added up */
    double bytes; /* of every argument that is read or written, once each; what is looked at for its shape only does not
                   * count, of a table the rows that are taken */
    double rows;  /* of a matrix product's left operand, of which a matrix of a batch has its own; 0: it is none */
} op_cost;

/* An op with the types of its arguments, flattened in schema slot order as for inference. Extents that are not known
 * (-1) count as 1. `op` is asked for attrs only. */
typedef struct op_cost_call {
    const weft_op *op;
    const op_schema *schema;
    const shape *in, *out;
    const uint32_t *in_first, *out_first;
} op_cost_call;

/* What a host's function says of its op; false: it has none. */
bool host_op_cost(const op_cost_call *call, double *out_flops, double *out_bytes);
/* Cost: O(number of arguments). */
op_cost op_cost_of(const op_cost_call *call);

#endif
