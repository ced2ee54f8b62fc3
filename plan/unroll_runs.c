/* unroll_runs.c: runs of bodies: the scopes that an op made, for its gradient, and what a condition guards. */
#include "plan/unroll.h"

weft_status unroll_new_scope(unroll *u, unroll_scope *parent, const weft_block *block, unroll_scope **out) {
    *out = ARENA_NEW(&u->b->scratch, unroll_scope);
    if (!*out) return base_out_of_memory();
    **out = (unroll_scope){.parent = parent, .block = block, .id = ++u->nscopes};
    return NULL;
}

weft_status unroll_add_run(unroll *u, unroll_runs *r, unroll_scope *s) {
    if (r->count == r->capacity) {
        size_t capacity = 2 * r->capacity + 4;
        unroll_scope **more = ARENA_ARRAY(&u->b->scratch, unroll_scope *, capacity);
        if (!more) return base_out_of_memory();
        if (r->count) memcpy(more, r->scopes, r->count * sizeof(unroll_scope *));
        r->scopes = more;
        r->capacity = capacity;
    }
    r->scopes[r->count++] = s;
    return NULL;
}

weft_status unroll_block_of(const unroll *u, const weft_op *op, weft_block **out) {
    const weft_attr *a = op_find_attr(op, "sub_block");
    if (!a || a->type != ATTR_BLOCK || a->u.i <= 0 || (uint64_t)a->u.i >= u->program->nblocks)
        return plan_error(u->b, WEFT_INVALID_PROGRAM, op, "expected attr sub_block to be a block of the program");
    *out = u->program->blocks[a->u.i];
    return NULL;
}

weft_status unroll_condition_of(unroll *u, unroll_scope *s, const weft_op *op, weft_var **out) {
    *out = weft_op_input(op, "Cond", 0);
    if (!*out || !attr_bool(op, "is_scalar_condition", false))
        return plan_error(u->b, WEFT_UNSUPPORTED, op, "expected one Cond and is_scalar_condition = true");
    return unroll_var(u, s, *out, out);
}

unroll_runs unroll_runs_of(const unroll *u, const unroll_scope *s, const weft_var *v) {
    const unroll_runs *kept = v ? unroll_get(&u->runs, unroll_key(s, v)) : NULL;
    return kept ? *kept : (unroll_runs){0};
}

weft_status unroll_put_runs(unroll *u, const unroll_scope *s, const weft_var *v, const unroll_runs *r) {
    if (!v) return NULL;
    unroll_runs *kept = ARENA_NEW(&u->b->scratch, unroll_runs);
    if (!kept) return base_out_of_memory();
    *kept = *r;
    return unroll_put(u, &u->runs, unroll_key(s, v), kept);
}

weft_status unroll_run_block(unroll *u, unroll_scope *s, const weft_block *block) {
    FOR_EACH_OP(op, block) TRY(u->run_op(u, s, op));
    return unroll_keep_at_end(u, s, block);
}

weft_status unroll_enter(unroll *u, const weft_op *by, weft_var *condition, unroll_guarded *out) {
    *out = (unroll_guarded){condition != NULL, u->into, u->supposed};
    if (!condition) return NULL;
    TRY(unroll_begin_condition(u, by, condition, &out->outer));
    u->supposed = u->into;
    return NULL;
}

void unroll_leave(unroll *u, const unroll_guarded *g) {
    u->into = g->outer;
    u->supposed = g->supposed;
}

void unroll_leave_and_forget(unroll *u, const unroll_guarded *g, const unroll_scope *run) {
    if (g->is_so) unroll_forget(u, u->into, run);
    unroll_leave(u, g);
}
