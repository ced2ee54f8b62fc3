/* micro_fused.c: a pair as one thing that its device may take whole: its ops stand side by side and say what they are.
 *
 * They stay ordinary ops, so all else reads them as before. Marks: micro_pipeline, the plan's name, on all;
 * micro_pipeline_nops and micro_pipeline_dim on the first; micro_pipeline_out on an op that makes a result: 0 the
 * gathered rows, k the k-th product. An FX graph is written with torch's fused op in their place (program/fx). */
#include <stdio.h>

#include "passes/micro_pipeline/micro.h"
#include "program/fused_run.h"

static void insert_here(micro_pass *m, weft_op *anchor, weft_op *op) {
    if (anchor)
        weft_op_move_before(op, anchor);
    else if (op != m->block->last)
        weft_op_move_after(op, m->block->last);
}

/* What makes a matrix of rows that others read too is made once more for the product. */
static weft_status own_matrix(micro_pass *m, micro_pair *p, micro_product *x, weft_op *anchor) {
    if (!x->before || m->pair_of[x->before->mark] == p->collective) return NULL;
    weft_var *matrix = weft_op_input(x->op, "X", 0), *own;
    const name *n;
    weft_op *again;
    TRY(program_unique_name(m->program, "micro_pipeline_rows", &n));
    TRY(weft_block_add_var(m->block, n->bytes, (weft_dtype)matrix->dtype, matrix->ndim, matrix->dims, &own));
    TRY(op_clone(x->before, &again));
    weft_op_rename_output(again, matrix, own);
    weft_op_rename_input(x->op, matrix, own);
    weft_block_insert_before(m->block, anchor, again);
    x->before = again;
    return NULL;
}

static weft_status mark_out(const micro_pass *m, const weft_var *v, int64_t number) {
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (u->is_output && op->block == m->block) return weft_op_set_attr_int(op, "micro_pipeline_out", number);
    }
    return NULL;
}

weft_status micro_fuse(micro_pass *m, micro_pair *p, size_t number) {
    weft_op *anchor = micro_anchor(m, p), *first = NULL;
    char plan[64];
    snprintf(plan, sizeof plan, "%s %zu",
             p->kind == MICRO_GATHER ? "fused_all_gather_matmul" : "fused_matmul_reduce_scatter", number);
    for (size_t i = 0; i < p->nops; i++) {
        for (size_t k = 0; k < p->nproducts; k++)
            if (p->products[k].op == p->ops[i]) TRY(own_matrix(m, p, &p->products[k], anchor));
        insert_here(m, anchor, p->ops[i]);
    }
    for (size_t k = 0; k < p->nproducts; k++)
        if (p->products[k].before) TRY(weft_op_set_attr_string(p->products[k].before, "micro_pipeline", plan));
    for (size_t i = 0; i < p->nops; i++) TRY(weft_op_set_attr_string(p->ops[i], "micro_pipeline", plan));
    first = p->ops[0];
    while (first->prev && strcmp(fused_run_plan(first->prev), plan) == 0) first = first->prev;
    int64_t nops = 0;
    for (weft_op *op = first; op && strcmp(fused_run_plan(op), plan) == 0; op = op->next) nops++;
    TRY(weft_op_set_attr_int(first, "micro_pipeline_nops", nops));
    TRY(weft_op_set_attr_int(first, "micro_pipeline_dim", p->dim));
    if (p->kind == MICRO_SCATTER) return mark_out(m, p->result, 0);
    if (p->keeps_whole) TRY(mark_out(m, p->whole, 0));
    for (size_t k = 0; k < p->nproducts; k++) TRY(mark_out(m, p->products[k].out, (int64_t)k + 1));
    return NULL;
}
