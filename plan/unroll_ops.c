/* unroll_ops.c: what a run sees and makes: the vars of block 0 that its vars are, what is known of them, and new ops.
 *
 * It owns the maps by scope and var, and what inference knows. Every op that is made goes through unroll_emit, so that
 * inference goes along: what is known of counters and conditions comes from it. Who calls it decides what is made. */
#include <stdio.h>

#include "plan/unroll.h"

enum { UNROLL_MAX = 1 << 21 }; /* ops made: more is taken for a loop without end */

/* --- maps --------------------------------------------------------------------------------------------------------- */

static uint32_t hash_of(uint64_t key) {
    return table_hash(key ^ key >> 29);
}

void *unroll_get(const unroll_map *m, uint64_t key) {
    table_probe at = table_find(&m->table, hash_of(key));
    while (at.item != TABLE_NONE && m->pairs[at.item].key != key) table_next(&m->table, &at);
    return at.item == TABLE_NONE ? NULL : m->pairs[at.item].value;
}

weft_status unroll_put(unroll *u, unroll_map *m, uint64_t key, void *value) {
    const weft_allocator *a = &u->b->context->allocator;
    TRY(table_reserve(&u->b->scratch, &m->table, m->npairs + 1));
    table_probe at = table_find(&m->table, hash_of(key));
    while (at.item != TABLE_NONE && m->pairs[at.item].key != key) table_next(&m->table, &at);
    if (at.item == TABLE_NONE) {
        TRY(vector_reserve(a, &m->pairs, &m->capacity, m->npairs + 1, sizeof *m->pairs));
        m->pairs[m->npairs] = (struct unroll_pair){.key = key};
        table_put(&m->table, &at, (uint32_t)m->npairs++);
    }
    m->pairs[at.item].value = value;
    return NULL;
}

void unroll_free(const unroll *u, unroll_map *m) {
    base_free(&u->b->context->allocator, m->pairs, m->capacity * sizeof *m->pairs);
}

void unroll_clear(unroll_map *m) {
    m->npairs = 0;
    table_clear(&m->table);
}

void unroll_fini(unroll *u) {
    unroll_map *const maps[] = {&u->vars,        &u->kept,    &u->arrays,  &u->runs,     &u->written,
                                &u->own,         &u->writers, &u->forward, &u->versions, &u->kept_before,
                                &u->kept_at_end, &u->taken,   &u->places,  &u->origins,  &u->told};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) unroll_free(u, maps[i]);
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

static uint64_t key_in(uint32_t scope, const weft_var *v) {
    return (uint64_t)scope << 32 | v->id;
}

/* The scope that has the var; the outermost for what no block within declares. */
static const unroll_scope *owner(const unroll_scope *s, const weft_var *v) {
    while (s->parent && (!v->block || (s->block != v->block && s->grad_block != v->block))) s = s->parent;
    return s;
}

uint64_t unroll_key(const unroll_scope *s, const weft_var *v) {
    return key_in(owner(s, v)->id, v);
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static weft_status new_var(unroll *u, const weft_var *stem, weft_var **out) {
    char number[24];
    const name *n;
    buffer text_of;
    snprintf(number, sizeof number, "@%zu", ++u->nmade);
    buffer_init(&text_of, &u->b->context->allocator);
    buffer_append(&text_of, stem->name->bytes, stem->name->nbytes);
    buffer_text(&text_of, number);
    weft_status status = buffer_status(&text_of);
    if (!status) {
        buffer_append(&text_of, "", 1);
        status = buffer_status(&text_of);
    }
    if (!status) status = program_unique_name(u->program, text_of.bytes, &n);
    buffer_fini(&text_of);
    if (status) return status;
    TRY(block_add_var(u->root, n, out));
    return shape_env_grow(&u->env);
}

weft_status unroll_new_var(unroll *u, const weft_var *stem, const shape *type, weft_var **out) {
    TRY(new_var(u, stem, out));
    weft_var *v = *out;
    v->kind = WEFT_DENSE_TENSOR;
    v->dtype = type->dtype;
    v->has_tensor = true;
    v->ndim = type->ndim < 0 ? 0 : (uint32_t)type->ndim;
    TRY(program_dims(u->program, v->ndim, type->dims, &v->dims));
    return shape_env_set(&u->env, v, type);
}

/* Another var like one that a body declares. */
static weft_status like_var(unroll *u, const weft_var *v, weft_var **out) {
    TRY(new_var(u, v, out));
    weft_var *to = *out;
    to->kind = v->kind;
    to->dtype = v->dtype;
    to->has_tensor = v->has_tensor;
    to->ndim = v->ndim;
    to->dims = v->dims;
    to->lod_level = v->lod_level;
    to->has_lod_level = v->has_lod_level;
    shape type = shape_of_var(v);
    return shape_env_set(&u->env, to, &type);
}

/* As it is now. */
static weft_status present_var(unroll *u, unroll_scope *s, weft_var *v, weft_var **out) {
    const unroll_scope *of = owner(s, v);
    *out = v;
    if (!of->parent) return NULL;
    uint64_t key = key_in(of->id, v);
    if ((*out = unroll_get(&u->vars, key))) return NULL;
    TRY(like_var(u, v, out));
    TRY(unroll_put(u, &u->own, (*out)->id + UINT64_C(1), (void *)of));
    return unroll_put(u, &u->vars, key, *out);
}

/* The copy that the op which runs in that scope reads; NULL: what is there. */
static weft_var *version_read(const unroll *u, const unroll_scope *at, const weft_var *v) {
    if (!at->op) return NULL;
    uintptr_t version = (uintptr_t)unroll_get(&u->versions, (uint64_t)at->op->id << 32 | v->id);
    if (!version) return NULL;
    const unroll_version *k = unroll_get(&u->kept, (uint64_t)at->id << 32 | v->id);
    while (k && k->version + 1 != version) k = k->next;
    return k ? k->var : NULL;
}

weft_status unroll_var(unroll *u, unroll_scope *s, weft_var *v, weft_var **out) {
    const unroll_scope *of = owner(s, v);
    for (const unroll_scope *at = s;; at = at->parent) {
        if ((*out = version_read(u, at, v))) return NULL;
        if (at == of) return present_var(u, s, v, out);
    }
}

bool unroll_value(const unroll *u, const weft_var *v, int64_t *out) {
    shape type = shape_env_get(&u->env, v);
    const int64_t *values = v->id < u->env.nkept ? u->env.values[v->id] : NULL;
    if (!values || shape_numel(&type) != 1) return false;
    if (type.dtype != WEFT_BOOL && type.dtype != WEFT_INT32 && type.dtype != WEFT_INT64) return false;
    *out = *values;
    return true;
}

static weft_status set_written(unroll *u, uint32_t var_id) {
    return unroll_put(u, &u->written, var_id + UINT64_C(1), u);
}

weft_status unroll_set_written(unroll *u, const weft_var *v) {
    return set_written(u, v->id);
}

bool unroll_is_written(const unroll *u, const weft_var *v) {
    return unroll_get(&u->written, v->id + UINT64_C(1)) != NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

weft_status unroll_make(unroll *u, const weft_op *from, const char *type, weft_op **out) {
    TRY(weft_op_create(u->program, type, out));
    return weft_op_set_attr_int(*out, "op_role", op_role(from));
}

static void forget_outputs(unroll *u, const weft_op *op) {
    FOR_EACH_ARG(op, true, use_of) {
        u->env.values[use_of->var_id] = NULL;
    }
}

void unroll_forget(unroll *u, const weft_block *block, const unroll_scope *run) {
    FOR_EACH_OP(op, block) FOR_EACH_ARG(op, true, use_of) {
        if (unroll_get(&u->own, use_of->var_id + UINT64_C(1)) != run) u->env.values[use_of->var_id] = NULL;
    }
}

weft_status unroll_infer(unroll *u, weft_op *op) {
    TRY(shape_env_grow(&u->env));
    TRY(shape_infer_op(&u->env, op, &u->b->scratch));
    if (u->into && u->into != u->supposed) forget_outputs(u, op); /* whether it runs, only a run knows */
    FOR_EACH_ARG(op, true, use_of) {
        TRY(set_written(u, use_of->var_id));
    }
    return NULL;
}

weft_status unroll_emit(unroll *u, weft_op *op) {
    if (u->into)
        weft_block_insert_before(u->into, NULL, op);
    else
        weft_block_insert_before(u->root, u->before, op);
    if (++u->nemitted > UNROLL_MAX)
        return plan_error(u->b, WEFT_LIMIT, u->before, "it runs more than %d ops", UNROLL_MAX);
    return unroll_infer(u, op);
}

weft_status unroll_emit_ahead(unroll *u, weft_op *op) {
    weft_block *into = u->into;
    weft_op *before = u->before;
    if (into) u->before = u->guard;
    u->into = NULL;
    weft_status status = unroll_emit(u, op);
    u->into = into;
    u->before = before;
    return status;
}

weft_status unroll_begin_condition(unroll *u, const weft_op *by, weft_var *condition, weft_block **out_outer) {
    weft_block *block;
    weft_attr *a;
    weft_op *op;
    TRY(program_add_block(u->program, 0, &block));
    TRY(unroll_make(u, by, "conditional_block", &op));
    TRY(weft_op_add_input(op, "Cond", condition));
    TRY(weft_op_set_attr_bool(op, "is_scalar_condition", true));
    TRY(op_set_attr(op, "sub_block", &a));
    a->type = ATTR_BLOCK;
    a->u.i = block->idx;
    TRY(unroll_emit(u, op));
    if (!u->into) u->guard = op;
    *out_outer = u->into;
    u->into = block;
    return NULL;
}

static weft_status make_copy(unroll *u, const weft_op *by, const char *type, weft_var *from, weft_var *to,
                             weft_op **out) {
    TRY(unroll_make(u, by, type, out));
    TRY(weft_op_add_input(*out, "X", from));
    return weft_op_add_output(*out, "Out", to);
}

weft_status unroll_copy(unroll *u, const weft_op *by, const char *type, weft_var *from, weft_var *to) {
    weft_op *made;
    if (from == to) return NULL;
    TRY(make_copy(u, by, type, from, to, &made));
    return unroll_emit(u, made);
}

weft_status unroll_assign(unroll *u, const unroll_scope *s, const weft_op *op, weft_var *from, weft_var *to) {
    weft_op *made;
    if (from == to) return NULL;
    TRY(make_copy(u, op, "assign", from, to, &made));
    TRY(unroll_keep_origin(u, s, made, op));
    return unroll_emit(u, made);
}

weft_status unroll_select(unroll *u, unroll_scope *s, weft_op *op, bool *out_done) {
    weft_var *mask = weft_op_input(op, "Mask", 0), *from, *to;
    bool takes = op_is(op, "select_input");
    int64_t chosen;
    *out_done = false;
    if ((!takes && !op_is(op, "select_output")) || !mask) return NULL;
    TRY(unroll_var(u, s, mask, &mask));
    if (!unroll_value(u, mask, &chosen) || chosen < 0) return NULL;
    from = weft_op_input(op, "X", takes ? (size_t)chosen : 0);
    to = weft_op_output(op, "Out", takes ? 0 : (size_t)chosen);
    if (!from || !to || unroll_is_array(to)) return NULL;
    TRY(unroll_var(u, s, from, &from));
    TRY(unroll_var(u, s, to, &to));
    *out_done = true;
    return plan_is_empty_name(to) ? NULL : unroll_copy(u, op, "assign", from, to);
}

weft_status unroll_keep_origin(unroll *u, const unroll_scope *s, const weft_op *made, const weft_op *op) {
    if (!u->nnamed) return NULL;
    unroll_origin *o = ARENA_NEW(&u->b->scratch, unroll_origin);
    if (!o) return base_out_of_memory();
    *o = (unroll_origin){op, s->id};
    return unroll_put(u, &u->origins, made->id, o);
}

weft_status unroll_emit_clone(unroll *u, unroll_scope *s, weft_op *op) {
    weft_op *copy;
    TRY(op_clone(op, &copy));
    for (int output = 0; output < 2; output++)
        for (uint32_t i = 0; i < op_nargs(copy, output); i++) {
            weft_var *v = use_var(u->program, &op_args(copy, output)[i]), *is;
            if (unroll_is_array(v))
                return plan_error(u->b, WEFT_UNSUPPORTED, op, "it has a tensor array, \"%s\"", v->name->bytes);
            TRY((unroll_has_arg(op, true, v) ? present_var : unroll_var)(u, s, v, &is));
            if (is != v) use_rename(&op_args(copy, output)[i], is);
        }
    TRY(unroll_keep_origin(u, s, copy, op));
    return unroll_emit(u, copy);
}
