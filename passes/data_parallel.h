/* data_parallel.h: what the files of the data_parallel pass share: everything that is decided before the first edit. */
#ifndef PASSES_DATA_PARALLEL_H
#define PASSES_DATA_PARALLEL_H

#include "ops/ops.h"
#include "passes/pass_manager.h"

enum { DP_RING = 0 }; /* the ring of all ranks */

typedef struct dp_feed {
    weft_var *var;
    bool split;      /* a rank gets its rows; else the whole */
    bool replicated; /* the option says so */
    const char *why; /* it is whole although dimension 0 is open; or NULL */
    int64_t lengths[WEFT_MAX_RANK]; /* numbers for open extents that are not the batch; 0: a rank has what it says */
} dp_feed;

typedef struct dp_gradient {
    weft_var *param, *grad; /* param NULL: it is some other sum */
    weft_op *last_writer;   /* of the backward ops; the reduce goes right after it */
    bool mean;              /* the ranks' values are averaged; else summed */
    bool is_gathered;       /* the op that makes it has what all ranks give: it needs no reduce */
    bool counts;            /* rows, whatever the loss is: it is summed */
    bool is_found;          /* by the data flow: nobody names it */
} dp_gradient;

/* A backward op of a lookup that makes rows (SelectedRows). */
typedef struct dp_lookup {
    weft_op *op;
    bool mean;    /* as of the gradient */
    bool by_rank; /* each rank looks up ids of its own; else all look up the same */
} dp_lookup;

/* An op that fills in one number for each row of the batch. */
typedef struct dp_fill {
    weft_op *op;
    size_t axis; /* of the rows */
} dp_fill;

/* How the ranks' losses combine. */
typedef enum dp_combine {
    DP_MEAN,
    DP_SUM,
    DP_TOKENS /* they do not: ranks compute the serial program's together */
} dp_combine;

typedef struct dp_plan {
    weft_pass_context *pass;
    weft_program *program;
    weft_block *block;
    arena *scratch;
    arena types; /* what `whole` and `part` hold: given back before ops are made */
    int64_t nranks;
    dp_combine combine;
    bool pads; /* ranks may have different numbers of rows: uneven: pad */

    dp_feed *feeds;
    size_t nfeeds;
    bool again; /* a feed more is split: decide anew */
    bool has_lengths; /* inference takes the feeds' `lengths` */
    int64_t batch, rank_batch; /* rows; batch -1: known only at run time */
    shape_env whole, part;     /* types of the serial program, and of one rank's */
    bool opens_arrays;         /* some extents of what comes out of tensor arrays are left open in both */
    bool *differs;             /* by var id: those two, or elements of a known tensor of shapes, are not the same */

    dp_fill *fills; /* constants as long as the batch that a rank makes as long as its rows */
    size_t nfills, fills_capacity;

    weft_op **state_ops; /* that read what differs and write a persistable, in program order */
    size_t nstate_ops, state_ops_capacity;

    placement *placements[WEFT_MAX_RANK + 1][WEFT_MAX_RANK + 1]; /* by rank and 1 + split axis, made as needed */

    dp_gradient *gradients; /* in the order in which backward ops name them; not of an arena: they may become many */
    size_t ngradients, gradient_capacity;
    dp_gradient *scales; /* DP_TOKENS: gradients of means, too large by the number of ranks */
    size_t nscales, scales_capacity;
    size_t nnamed, nsidecar, nfound; /* of these: from op_role_var, the sidecar, the data flow */
    int64_t gradients_nbytes;
    bool *covered;           /* by var id: parameters whose gradient is named */
    weft_op **joined_after;  /* by var id: the op after which ranks have it alike, through a reduce */

    dp_lookup *lookups; /* backward ops that make rows */
    size_t nlookups;
    weft_var *weight;     /* pads: n times a rank's share of the rows, a number; NULL: none */
    weft_var **means;     /* numbers that are means of a rank's rows, and that nothing else is made of */
    size_t nmeans, means_capacity;
    weft_op **metrics; /* that count a rank's rows: they get those of all */
    size_t nmetrics, metrics_capacity;
    const mesh *mesh; /* of the ranks, once it is written */
} dp_plan;

/* data_parallel_feeds.c: which vars are fed, and which of them are split. */
WEFT_MUST_USE weft_status dp_find_feeds(dp_plan *plan);
WEFT_MUST_USE weft_status dp_split_batch(dp_plan *plan);
/* Whether a feed that was thought whole is one of rows: then all is to be decided again, with it split. */
bool dp_splits_feed(dp_plan *plan, const weft_var *var);
WEFT_MUST_USE weft_status dp_again(void);
/* data_parallel_fills.c: whether `var` is one number all over, as long as the batch of fixed rows along an axis (-1: the first
 * that is): then all is to be decided again, with it as rows. */
WEFT_MUST_USE weft_status dp_splits_fill(dp_plan *plan, const weft_var *var, int axis, bool *out);
/* What is written to an array that has rows otherwise, as the first state of a recurrent net. */
WEFT_MUST_USE weft_status dp_split_array_fills(dp_plan *plan);
const dp_fill *dp_find_fill(const dp_plan *plan, const weft_op *op); /* NULL: it is none */
WEFT_MUST_USE weft_status dp_write_fills(dp_plan *plan);
/* data_parallel_batch.c: of feeds whose dimension 0 is open, which are rows of the batch. */
WEFT_MUST_USE weft_status dp_find_batch(dp_plan *plan);
/* data_parallel_shapes.c: types of all vars, whole and a rank's; an attr that holds the global batch is an error. */
WEFT_MUST_USE weft_status dp_infer_shapes(dp_plan *plan);
/* data_parallel_loops.c: which loops and branches ranks run as their own rows say. */
WEFT_MUST_USE weft_status dp_report_loops(dp_plan *plan);
/* data_parallel_grads.c: the list of gradients to reduce, and those that op_role_var or the sidecar names. */
WEFT_MUST_USE weft_status dp_begin_gradients(dp_plan *plan); /* none yet */
WEFT_MUST_USE weft_status dp_add_gradient(dp_plan *plan, dp_gradient g);
WEFT_MUST_USE weft_status dp_find_named(dp_plan *plan);
const slot *dp_updated_params(weft_op *op); /* of an optimizer; NULL: it is none */
/* data_parallel_sparse.c: gradients held as rows: what makes them gets the whole batch. */
WEFT_MUST_USE weft_status dp_find_sparse(dp_plan *plan);
WEFT_MUST_USE weft_status dp_gather_rows(dp_plan *plan);
/* data_parallel_metrics.c: an op that counts rows (OP_METRIC) counts those of all ranks, so what it keeps is alike. */
bool dp_is_gathered_metric(const dp_plan *plan, const weft_op *op);
WEFT_MUST_USE weft_status dp_gather_metrics(dp_plan *plan);
/* data_parallel_uneven.c: uneven: pad. What does not go with parts of different lengths is refused; the weight is made. */
WEFT_MUST_USE weft_status dp_begin_weights(dp_plan *plan);
/* Multiplies a var by the weight behind `*after`, which the last op then is; nothing where ranks have equal parts. */
WEFT_MUST_USE weft_status dp_weigh(dp_plan *plan, weft_var *var, weft_op **after);
/* The numbers that are means over a rank's rows count by rows too, from where nothing reads them any more. */
WEFT_MUST_USE weft_status dp_weigh_means(dp_plan *plan);
/* data_parallel_ops.c: ops for the caller to insert: `to` from all ranks' `from`, one after another or added up; 1/n of
 * a var. */
WEFT_MUST_USE weft_status dp_make_collective(dp_plan *plan, weft_var *from, weft_var *to, bool gathers, weft_op **out);
WEFT_MUST_USE weft_status dp_make_scale(dp_plan *plan, weft_var *grad, weft_op **out);
/* Inserts a collective before `reader`, which reads all ranks' rows (or their sum, unless `joined`) in slot `s` instead of
 * a rank's; `averaged`: and a scale, of a mean. */
WEFT_MUST_USE weft_status dp_gather(dp_plan *plan, weft_op *reader, const slot *s, bool joined, bool averaged);
/* The first axis of `var` that a rank holds only a part of, or -1. */
int dp_split_axis(const dp_plan *plan, const weft_var *var);
/* Where a var lies on the plan's mesh: a rank has its part along `split_axis`, or -1: the whole. */
WEFT_MUST_USE weft_status dp_place(dp_plan *plan, weft_var *var, int split_axis);

/* data_parallel_state.c: joins what state that all ranks have alike is updated with; adds to the gradients. */
WEFT_MUST_USE weft_status dp_find_state(dp_plan *plan);

/* data_parallel_exact.c: the same for reduce: tokens, where all sums over the batch are joined. */
WEFT_MUST_USE weft_status dp_find_exact(dp_plan *plan);

#endif
