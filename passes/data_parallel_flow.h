/* data_parallel_flow.h: how ranks hold each value, for the files of the data_parallel pass that follow it. */
#ifndef PASSES_DATA_PARALLEL_FLOW_H
#define PASSES_DATA_PARALLEL_FLOW_H

#include "ops/axes.h"
#include "passes/data_parallel.h"

/* How the ranks hold a value. */
typedef enum dp_hold {
    DP_SAME,    /* all the same */
    DP_EXTENT,  /* all the same, but not what the serial program has: it tells how many rows a rank has */
    DP_ROWS,    /* each its part, along an axis */
    DP_PARTIAL, /* each an addend of a sum, or of a mean */
    DP_OWN      /* each one of its own */
} dp_hold;

typedef struct dp_value {
    uint8_t hold;         /* dp_hold */
    uint8_t axis;         /* DP_ROWS */
    uint8_t reduce;       /* DP_PARTIAL: WEFT_REDUCE_SUM or _AVG */
    const weft_op *cause; /* the last forward op that needs partial values whole and does not get them; or NULL */
} dp_value;

/* data_parallel_flow.c: a walk through block 0. */
typedef struct dp_flow {
    dp_plan *plan;
    dp_value *held;    /* by var id: now */
    weft_op **writer;  /* by var id: the last one so far; NULL: none */
    size_t nmarks;     /* reduces that were found missing on this walk */
    dp_value *made;    /* by the op at hand */
    size_t nmade;
} dp_flow;
WEFT_MUST_USE weft_status dp_flow_begin(dp_flow *f, dp_plan *plan);
WEFT_MUST_USE weft_status dp_flow_op(dp_flow *f, weft_op *op);
/* Whether all ranks have all that it reads, the same; what it makes then has the serial program's extents. They were
 * thought to differ where they are as many as the rows of a gradient that is gathered. */
bool dp_flow_is_same(dp_flow *f, const weft_op *op);
/* What `op` just wrote is all ranks' from here on, if a reduce follows it that is still needed. */
void dp_flow_join(dp_flow *f, const weft_op *op, uint32_t id);
/* Room for the values of the op at hand, all the same on all ranks. */
WEFT_MUST_USE weft_status dp_flow_make(dp_flow *f, size_t n, dp_value **out);
/* What a gradient op, or a sum of what such ops made, gives the gradient of; NULL: nobody says. */
weft_var *dp_param_of(const dp_flow *f, const weft_var *grad);
/* The loss whose gradient `op` begins with; NULL: it is no such op. */
weft_var *dp_loss_of(weft_op *op);
bool dp_reads_elements(weft_op *op, const slot *s); /* else it only looks at extents and types */
/* The input slot of which output slot `s` is the gradient; NULL: none. */
const slot *dp_forward_slot(const weft_op *op, const slot *s);

/* data_parallel_metrics.c: notes an op that counts rows; true: it is to get those of all ranks. */
WEFT_MUST_USE weft_status dp_flow_metric(dp_flow *f, weft_op *op, bool *out);

/* data_parallel_rule.c. An op, and what its factor table says of what the ranks hold. */
typedef struct dp_question {
    const dp_flow *flow;
    weft_op *op;
    arena arena; /* of the answer: the caller's to begin and end */
    axes_rule rule;
    axes_placed *in, *out; /* in the order of the schema */
    bool open;       /* what is split has an extent that nothing is compared with */
    const char *why; /* NULL: the rule says how the outputs lie */
} dp_question;
WEFT_MUST_USE weft_status dp_ask(dp_question *q);
/* How the outputs lie, in the order of arguments, and the mesh axes by which each is too large. */
void dp_read_answer(const dp_question *q, dp_value *made, uint32_t *times);
/* data_parallel_rows.c: a value that is as long as the whole batch must not meet a rank's rows. */
WEFT_MUST_USE weft_status dp_check_rows(dp_flow *f, weft_op *op);

#endif
