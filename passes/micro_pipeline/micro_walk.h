/* micro_walk.h: what micro_pipeline_tp finds on its way from a collective to its products. */
#ifndef PASSES_MICRO_PIPELINE_MICRO_WALK_H
#define PASSES_MICRO_PIPELINE_MICRO_WALK_H

#include "passes/micro_pipeline/micro.h"

static inline bool micro_is_here(const micro_pass *m, const weft_op *op) {
    return op->block == m->block;
}
/* The one op that writes it; NULL: none, or several. */
weft_op *micro_writer(const micro_pass *m, const weft_var *v);
/* The one op that reads it, in one argument; NULL: none, or several. */
weft_op *micro_reader(const micro_pass *m, const weft_var *v);
/* The only argument of one side; NULL: there are others. */
weft_var *micro_only_arg(const weft_op *op, bool output);
/* What of an op is its value: its one output but for the XShape of a reshape. */
weft_var *micro_value(const weft_op *op);
/* The same elements in other extents. */
bool micro_is_reshape(const weft_op *op);
/* A matrix transposed. */
bool micro_is_turn(const weft_op *op);

WEFT_MUST_USE weft_status micro_add_op(micro_pass *m, micro_pair *p, weft_op *op);
/* The op that puts parts of `v` along `dim` together again, along `*out_dim`, if all that read `v` are such parts; with
 * them in the pair. NULL: there is none. */
WEFT_MUST_USE weft_status micro_find_reorder(micro_pass *m, micro_pair *p, const weft_var *v, int64_t dim,
                                             weft_op **out, int64_t *out_dim);
/* Back over what put parts together: the var that was taken apart along `*out_dim`; NULL: none. */
WEFT_MUST_USE weft_status micro_before_reorder(micro_pass *m, micro_pair *p, weft_op *last, weft_var **out,
                                               int64_t *out_dim);
/* Takes a transposition or a cast into the path and moves the pair's `dim` over it, with or against the flow of data;
 * *out_taken false: it is none, or a second cast. */
WEFT_MUST_USE weft_status micro_step_path(micro_pass *m, micro_pair *p, weft_op *op, bool forward, bool *out_taken);
/* The same of a reshape that makes one of the last two dimensions, of which `dim` is the first; against the flow: two
 * of the last one. */
WEFT_MUST_USE weft_status micro_step_merge(micro_pass *m, micro_pair *p, weft_op *op, bool forward, bool *out_taken);

/* micro_products.c: the products that an op makes. */
size_t micro_terms(const weft_op *op, micro_term out[2]);
/* Why it makes no product that can be cut up; `lack` says that there is none, of an op that is no product at all. */
WEFT_MUST_USE weft_status micro_no_product(micro_pass *m, const weft_op *op, const char *lack, micro_refusal *why);
/* Whether a product has the rows of its left operand `a`, each times a matrix. */
bool micro_is_rows_product(const micro_term *t, const weft_var *a);
/* The same of a batch of matrices: the first of three dimensions is that of both operands. */
bool micro_is_batched_product(const micro_term *t, const weft_var *a);
/* Whether it has the columns of its left operand as rows: a weight's gradient. */
bool micro_is_turned_product(const micro_term *t);
/* Whether a product contracts the rows of `a` with another operand's: `b` and `is_left` of `x`. */
bool micro_is_outer_product(const micro_pass *m, const micro_term *t, const weft_var *a, micro_product *x);
/* Against the flow, over an op that adds a row to all rows of `*v`, which no other reads: `adds` and `bias` of `x`, the
 * op before it and what that writes. */
WEFT_MUST_USE weft_status micro_step_added(micro_pass *m, micro_pair *p, micro_product *x, weft_op **by, weft_var **v);

#endif
