/* rewrite_args.c: what rules are written with that put other ops in an op's place: its arguments, new vars and ops. */
#include "plan/rewrite.h"

weft_status rewrite_input(const rewriting *r, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_input(r->op, slot_name, 0);
    *out = NULL;
    return !v || plan_is_empty_name(v) ? NULL : unroll_var(r->u, r->s, v, out);
}

weft_status rewrite_output(const rewriting *r, const char *slot_name, weft_var **out) {
    weft_var *v = weft_op_output(r->op, slot_name, 0);
    *out = NULL;
    return !v || plan_is_empty_name(v) ? NULL : unroll_var(r->u, r->s, v, out);
}

weft_status rewrite_temporary(const rewriting *r, weft_var *like, weft_var **out) {
    shape type = shape_env_get(&r->u->env, like);
    return unroll_new_var(r->u, like, &type, out);
}

weft_status rewrite_unknown(const rewriting *r, weft_var *like, weft_var **out) {
    shape type = {.dtype = shape_env_get(&r->u->env, like).dtype, .ndim = -1, .height = -1};
    return unroll_new_var(r->u, like, &type, out);
}

weft_status rewrite_begin(const rewriting *r, const char *type, const argument *in, weft_op **out) {
    TRY(weft_op_create(r->u->program, type, out));
    op_share_attrs(*out, r->op);
    for (int i = 0; i < MOST_ARGS && in[i].slot; i++)
        if (in[i].var) TRY(weft_op_add_input(*out, in[i].slot, in[i].var));
    return NULL;
}

weft_status rewrite_emit(const rewriting *r, const char *type, const argument *in, const char *out_slot,
                         weft_var *out) {
    weft_op *op;
    TRY(rewrite_begin(r, type, in, &op));
    TRY(weft_op_add_output(op, out_slot, out));
    return unroll_emit(r->u, op);
}

weft_status rewrite_sum_to(const rewriting *r, weft_var *from, weft_var *like, weft_var *to) {
    shape a = shape_env_get(&r->u->env, from), b = shape_env_get(&r->u->env, like);
    bool same = a.ndim == b.ndim;
    for (int i = 0; i < a.ndim && same; i++) same = a.dims[i] == b.dims[i];
    if (same) return unroll_copy(r->u, r->op, "assign", from, to);
    weft_op *op;
    TRY(unroll_make(r->u, r->op, "elementwise_add_grad", &op));
    TRY(weft_op_add_input(op, "X", from));
    TRY(weft_op_add_input(op, "Y", like));
    TRY(weft_op_add_input(op, "Out@GRAD", from));
    TRY(weft_op_add_output(op, "Y@GRAD", to));
    return unroll_emit(r->u, op);
}
