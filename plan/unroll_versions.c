/* unroll_versions.c: which value of a var a gradient is of, where several ops write it one after another.
 *
 * A body that is carried from run to run writes over what it read, an inner loop what the ops before it read. Its
 * gradient names the var alone, and Paddle's reads what is there at last, or was when the run began. The op that a
 * gradient is of tells which value it needs. Versions of a var in a block are counted by the ops that write it, or have
 * ops within that do: 0 is what is there when the block begins. A version that a gradient needs is copied before the op
 * that writes over it. The same holds for the gradient of a var: the op that is the gradient of a writer takes all of
 * it, and what was read before that writer begins with zero.
 *
 * In block 0 the names say which value is meant: gradients there see what loops left, as Paddle's do. Counters, which
 * ops in place change, count back (unroll.c). */
#include "plan/unroll.h"

/* A body, and the one that is its gradient. */
typedef struct level {
    const weft_block *block, *grad;
    weft_op *of_grad; /* the op that has it; NULL: block 0 */
} level;

/* Those that write a var, in their order; control ops stand for what is within. */
typedef struct writers {
    size_t count;
    const weft_op **ops;
} writers;

/* --- what is where ------------------------------------------------------------------------------------------------ */

static bool is_control(const weft_op *op) {
    return op_find_attr(op, "sub_block") != NULL;
}

/* The op of the block that it is, or that has it within; NULL: none. */
static const weft_op *lift(const unroll *u, const weft_op *op, const weft_block *block) {
    while (op && op->block != block) op = op->block ? u->owners[op->block->idx] : NULL;
    return op;
}

static weft_status find_owners(unroll *u) {
    size_t n = u->program->nblocks;
    u->owners = ARENA_ARRAY(&u->b->scratch, const weft_op *, n);
    if (!u->owners) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) u->owners[i] = NULL;
    for (size_t i = 0; i < n; i++) FOR_EACH_OP(op, u->program->blocks[i]) {
            const weft_attr *a = op_find_attr(op, "sub_block");
            if (a && a->type == ATTR_BLOCK && a->u.i > 0 && (uint64_t)a->u.i < n && (size_t)a->u.i != i)
                u->owners[a->u.i] = op;
        }
    return NULL;
}

static weft_status add_writer(unroll *u, writers *w, const weft_op *op, size_t *capacity) {
    size_t at = w->count;
    while (at && weft_op_is_before(op, w->ops[at - 1])) at--;
    if (at && w->ops[at - 1] == op) return NULL;
    if (w->count == *capacity) {
        const weft_op **more = ARENA_ARRAY(&u->b->scratch, const weft_op *, *capacity = 2 * *capacity + 2);
        if (!more) return base_out_of_memory();
        if (w->count) memcpy(more, w->ops, w->count * sizeof *more);
        w->ops = more;
    }
    memmove(w->ops + at + 1, w->ops + at, (w->count - at) * sizeof *w->ops);
    w->ops[at] = op;
    w->count++;
    return NULL;
}

static weft_status writers_of(unroll *u, const weft_block *block, const weft_var *v, const writers **out) {
    uint64_t key = (uint64_t)block->idx << 32 | v->id;
    writers *w = unroll_get(&u->writers, key);
    size_t capacity = 0;
    *out = w;
    if (w) return NULL;
    *out = w = ARENA_NEW(&u->b->scratch, writers);
    if (!w) return base_out_of_memory();
    *w = (writers){0};
    FOR_EACH_USE(use_of, v) {
        const weft_op *op = use_op(u->program, use_of);
        if (!use_of->is_output || !op->block || is_control(op) || !(op = lift(u, op, block))) continue;
        TRY(add_writer(u, w, op, &capacity));
    }
    return unroll_put(u, &u->writers, key, w);
}

/* Whether only ops in place change it within a body, and as many within its gradient take that back. */
static bool counts_back(const unroll *u, const level *l, const weft_var *v) {
    size_t there = 0, back = 0;
    FOR_EACH_USE(use_of, v) {
        const weft_op *op = use_op(u->program, use_of);
        if (!use_of->is_output || !op->block || is_control(op)) continue;
        bool is_in = lift(u, op, l->block) != NULL, is_in_grad = lift(u, op, l->grad) != NULL;
        if (!is_in && !is_in_grad) continue;
        if (!unroll_has_arg(op, false, v)) return false;
        there += is_in;
        back += is_in_grad;
    }
    return there == back;
}

/* --- the op that a gradient is of --------------------------------------------------------------------------------- */

/* The mark in a gradient's name; NULL: it is none. */
static const char *mark_of(const weft_var *v) {
    const char *whole = v->name->bytes;
    return strstr(whole, "@GRAD");
}

/* The var that a gradient, or a part of one, is of; NULL: it is none. */
static weft_var *stem_of(const weft_var *grad, const weft_block *block) {
    const char *end = mark_of(grad);
    return end ? block_find_text(block, grad->name->bytes, (size_t)(end - grad->name->bytes)) : NULL;
}

static bool is_grad_of(const weft_op *grad, const weft_op *op, const weft_block *block) {
    for (int output = 0; output < 2; output++) FOR_EACH_ARG(grad, output, use_of) {
            const weft_var *v = use_var(op->program, use_of), *of = NULL;
            if (plan_is_empty_name(v) || (mark_of(v) && !(of = stem_of(v, block)))) continue;
            if (of ? !unroll_has_arg(op, !output, of) : !unroll_has_arg(op, false, v) && !unroll_has_arg(op, true, v))
                return false;
        }
    return true;
}

/* The last of them that is not behind `last`. */
static const weft_op *forward_of(const unroll *u, const level *l, const weft_op *grad, const weft_op *last) {
    const weft_op *found = NULL;
    if (is_control(grad)) return unroll_get(&u->forward, grad->id);
    if (op_is(grad, "sum")) return NULL;
    FOR_EACH_ARG(grad, false, arg) {
        const weft_var *of = stem_of(use_var(u->program, arg), l->block);
        if (!of) continue;
        FOR_EACH_USE(use_of, of) {
            const weft_op *op = use_op(u->program, use_of);
            if (!use_of->is_output || op->block != l->block || op == grad || is_control(op)) continue;
            if (last && weft_op_is_before(last, op)) continue;
            if (found && !weft_op_is_before(found, op)) continue;
            if (is_grad_of(grad, op, l->block)) found = op;
        }
        break;
    }
    return found;
}

/* Control ops and their gradients, by the var that keeps a run's scopes. */
static weft_status match_control(unroll *u, const weft_op *op) {
    static const char *const scopes[][2] = {{"while", "StepScopes"}, {"conditional_block", "Scope"}};
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++) {
        const weft_var *v = op_is(op, scopes[i][0]) ? weft_op_output(op, scopes[i][1], 0) : NULL;
        if (!v) continue;
        FOR_EACH_USE(use_of, v) {
            const weft_op *grad = use_op(u->program, use_of);
            if (!use_of->is_output && grad->block && is_control(grad) && op_find_slot(grad, false, scopes[i][1]))
                TRY(unroll_put(u, &u->forward, grad->id, (void *)op));
        }
    }
    return NULL;
}

/* --- what is kept ------------------------------------------------------------------------------------------------- */

static weft_status list(unroll *u, unroll_map *m, uint64_t key, weft_var *v, size_t version) {
    unroll_version *first = unroll_get(m, key), *made;
    for (const unroll_version *at = first; at; at = at->next)
        if (at->var == v && at->version == version) return NULL;
    made = ARENA_NEW(&u->b->scratch, unroll_version);
    if (!made) return base_out_of_memory();
    *made = (unroll_version){first, v, version};
    return unroll_put(u, m, key, made);
}

/* A gradient needs that version. */
static weft_status need(unroll *u, const level *l, const weft_op *grad, weft_var *v, const writers *w, size_t version) {
    TRY(unroll_put(u, &u->versions, (uint64_t)grad->id << 32 | v->id, (void *)(uintptr_t)(version + 1)));
    if (version < w->count) return list(u, &u->kept_before, w->ops[version]->id, v, version);
    return list(u, &u->kept_at_end, (uint64_t)l->block->idx, v, version);
}

/* Whether what is there when the gradient runs may be another version. */
static bool is_written_over(const level *l, const weft_var *v, const writers *w, size_t version) {
    return version < w->count || v->block != l->block;
}

static bool is_of_output(const weft_op *grad, const weft_op *op, const weft_var *v) {
    if (!unroll_has_arg(op, false, v)) return true;
    for (size_t k = 0; k < op_nslots(grad, false); k++) {
        const slot *s = op_slot(grad, false, k);
        for (uint32_t i = 0; i < s->nargs; i++)
            if (slot_var(grad, s, i) == v && op_find_slot(op, true, s->name->bytes)) return true;
    }
    return false;
}

/* The ops between which a gradient without an op of its own stands. */
typedef struct place {
    const weft_op *of;           /* NULL: none */
    const weft_op *next, *after; /* then: behind which op, and before which, it would be one */
} place;

static size_t version_at(const writers *w, const weft_op *op, bool behind) {
    size_t n = 0;
    while (n < w->count && (weft_op_is_before(w->ops[n], op) || (behind && w->ops[n] == op))) n++;
    return n;
}

static bool reads_shape_alone(const weft_op *op) {
    return op_is(op, "fill_zeros_like") || op_is(op, "fill_any_like") || op_is(op, "shape");
}

static weft_status find_version(unroll *u, const level *l, const weft_op *grad, const weft_op *reader, const place *p,
                                weft_var *v, const writers *w) {
    size_t version;
    if (p->of) {
        bool behind = reader == grad && is_of_output(grad, p->of, v);
        version = version_at(w, p->of, behind);
    } else {
        version = p->next ? version_at(w, p->next, true) : 0;
        if (!version && v->block == l->block) version = 1; /* it is none before */
        size_t latest = p->after ? version_at(w, p->after, false) : w->count;
        if (version < latest && !reads_shape_alone(reader))
            return plan_error(u->b, WEFT_UNSUPPORTED, l->of_grad,
                              "its op %s reads \"%s\", which is written more than once there, and which value it needs "
                              "is not known: no op is the one that it is the gradient of",
                              reader->type->bytes, v->name->bytes);
    }
    return is_written_over(l, v, w, version) ? need(u, l, grad, v, w, version) : NULL;
}

/* What an op of the gradient, or one within it, reads. */
static weft_status find_read(unroll *u, const level *l, const weft_op *grad, const weft_op *reader, const place *p,
                             weft_var *v) {
    const writers *w;
    if (v->kind != WEFT_DENSE_TENSOR || v->is_parameter || plan_is_empty_name(v) || unroll_has_arg(reader, true, v))
        return NULL;
    if (mark_of(v)) return NULL;
    TRY(writers_of(u, l->block, v, &w));
    if (!w->count || counts_back(u, l, v)) return NULL;
    if (reader != grad && p->of && version_at(w, p->of, false) != version_at(w, p->of, true))
        return NULL; /* written within: found there */
    return find_version(u, l, grad, reader, p, v, w);
}

static weft_status find_reads(unroll *u, const level *l, const weft_op *grad, const weft_op *reader, const place *p) {
    const weft_attr *a = op_find_attr(reader, "sub_block");
    if (!a) {
        FOR_EACH_ARG(reader, false, use_of) TRY(find_read(u, l, grad, reader, p, use_var(u->program, use_of)));
        return NULL;
    }
    if (a->type != ATTR_BLOCK || a->u.i <= 0 || (uint64_t)a->u.i >= u->program->nblocks) return NULL;
    const weft_block *block = u->program->blocks[a->u.i];
    if (u->owners[block->idx] != reader) return NULL;
    FOR_EACH_OP(op, block) TRY(find_reads(u, l, grad, op, p));
    return NULL;
}

/* --- gradients that a writer's takes all of ----------------------------------------------------------------------- */

/* The next op of the gradient behind `op` that has the var, if any. */
static const weft_op *next_of(const unroll *u, const level *l, const weft_op *op, const weft_var *v) {
    const weft_op *next = NULL;
    FOR_EACH_USE(use_of, v) {
        const weft_op *other = lift(u, use_op(u->program, use_of), l->grad);
        if (other && other != op && weft_op_is_before(op, other) && (!next || weft_op_is_before(other, next)))
            next = other;
    }
    return next;
}

static weft_status find_taken(unroll *u, const level *l, const weft_op *grad, const weft_op *of) {
    FOR_EACH_ARG(grad, false, use_of) {
        weft_var *taken = use_var(u->program, use_of), *v = stem_of(taken, l->block);
        const writers *w;
        if (!v || taken->kind != WEFT_DENSE_TENSOR || unroll_has_arg(grad, true, taken) || !unroll_has_arg(of, true, v))
            continue;
        TRY(writers_of(u, l->block, v, &w));
        if (w->count < 2 && v->block == l->block) continue;
        const weft_op *next = next_of(u, l, grad, taken);
        bool is_left = next ? unroll_has_arg(next, false, taken) : v->block != l->block;
        if (next && (unroll_get(&u->forward, next->id) == of)) continue; /* another of its gradients reads it too */
        if (is_left) TRY(list(u, &u->taken, grad->id, taken, 0));
    }
    return NULL;
}

/* --- levels ------------------------------------------------------------------------------------------------------- */

static weft_status match(unroll *u, const level *l) {
    const weft_op *last = NULL, *of;
    FOR_EACH_OP(op, l->grad) {
        of = forward_of(u, l, op, l->of_grad ? last : op);
        if (!of) continue;
        TRY(unroll_put(u, &u->forward, op->id, (void *)of));
        last = of;
    }
    return NULL;
}

static weft_status find_in_level(unroll *u, const level *l) {
    const weft_op *ahead = l->grad->first;
    place p = {0};
    TRY(match(u, l));
    FOR_EACH_OP(op, l->grad) {
        p.of = unroll_get(&u->forward, op->id);
        if (p.of && p.of->block != l->block) p.of = NULL;
        if (p.of) p.after = p.of;
        while (ahead && (!weft_op_is_before(op, ahead) || !unroll_get(&u->forward, ahead->id))) ahead = ahead->next;
        p.next = ahead && !p.of ? unroll_get(&u->forward, ahead->id) : NULL;
        TRY(find_reads(u, l, op, op, &p));
        if (p.of && !is_control(op)) TRY(find_taken(u, l, op, p.of));
    }
    return NULL;
}

/* What is checked of gradients needs the ops of block 0 too, and control ops in words. */
static weft_status find_checked(unroll *u) {
    if (!u->nnamed) return NULL;
    for (size_t i = 0; i < u->program->nblocks; i++) {
        size_t index = 0;
        FOR_EACH_OP(op, u->program->blocks[i]) {
            const weft_attr *a = is_control(op) ? op_find_attr(op, "sub_block") : NULL;
            index++;
            if (!a || a->type != ATTR_BLOCK) continue;
            const char *words = arena_format(&u->b->scratch, "%s #%zu", op->type->bytes, index - 1);
            if (!words) return base_out_of_memory();
            TRY(unroll_put(u, &u->places, (uint64_t)a->u.i, (void *)words));
        }
    }
    return match(u, &(level){u->root, u->root, NULL});
}

static bool has_body(const unroll *u) {
    for (size_t i = 0; i < u->program->nblocks; i++)
        if (u->owners[i]) return true;
    return false;
}

static bool has_gradient(const weft_block *block) {
    FOR_EACH_OP(op, block) {
        if (op_role(op) & WEFT_ROLE_BACKWARD) return true;
    }
    return false;
}

/* Whether there is something to check, and somebody who would be told. */
static bool is_checked(const unroll *u) {
    const weft_context *c = u->b->context;
    return u->b->plan && (c->on_diagnostic || c->on_log) && has_body(u) && has_gradient(u->root);
}

weft_status unroll_find_versions(unroll *u) {
    TRY(find_owners(u));
    u->nnamed = is_checked(u) ? u->program->nall_vars : 0;
    TRY(find_checked(u));
    for (size_t i = 0; i < u->program->nblocks; i++) FOR_EACH_OP(op, u->program->blocks[i]) {
            TRY(match_control(u, op));
        }
    for (size_t i = 0; i < u->program->nblocks; i++) FOR_EACH_OP(op, u->program->blocks[i]) {
            const weft_op *of = is_control(op) ? unroll_get(&u->forward, op->id) : NULL;
            const weft_attr *a = of ? op_find_attr(of, "sub_block") : NULL,
                            *b = of ? op_find_attr(op, "sub_block") : NULL;
            if (!of || a->type != ATTR_BLOCK || b->type != ATTR_BLOCK) continue;
            level l = {u->program->blocks[a->u.i], u->program->blocks[b->u.i], op};
            TRY(find_in_level(u, &l));
        }
    return NULL;
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

static weft_status keep(unroll *u, unroll_scope *s, const weft_op *by, const unroll_version *kept) {
    weft_var *is, *copy;
    TRY(unroll_var(u, s, kept->var, &is));
    if (!is->persistable && !is->need_check_feed && !unroll_is_written(u, is)) return NULL;
    shape type = shape_env_get(&u->env, is);
    TRY(unroll_new_var(u, kept->var, &type, &copy));
    TRY(unroll_copy(u, by, "assign", is, copy));
    if (s->parent) TRY(unroll_put(u, &u->own, copy->id + UINT64_C(1), (void *)s));
    unroll_version *made = ARENA_NEW(&u->b->scratch, unroll_version);
    uint64_t key = (uint64_t)s->id << 32 | kept->var->id;
    if (!made) return base_out_of_memory();
    *made = (unroll_version){unroll_get(&u->kept, key), copy, kept->version};
    return unroll_put(u, &u->kept, key, made);
}

weft_status unroll_keep_before(unroll *u, unroll_scope *s, const weft_op *op) {
    for (const unroll_version *k = unroll_get(&u->kept_before, op->id); k; k = k->next) TRY(keep(u, s, op, k));
    return NULL;
}

weft_status unroll_keep_at_end(unroll *u, unroll_scope *s, const weft_block *block) {
    const unroll_version *k = block->last ? unroll_get(&u->kept_at_end, (uint64_t)block->idx) : NULL;
    for (; k; k = k->next) TRY(keep(u, s, block->last, k));
    return NULL;
}

weft_status unroll_zero_taken(unroll *u, unroll_scope *s, const weft_op *op) {
    for (const unroll_version *t = unroll_get(&u->taken, op->id); t; t = t->next) {
        weft_var *is, *zero;
        TRY(unroll_var(u, s, t->var, &is));
        if (!unroll_is_written(u, is)) continue;
        shape type = shape_env_get(&u->env, is);
        TRY(unroll_new_var(u, t->var, &type, &zero));
        TRY(unroll_copy(u, op, "fill_zeros_like", is, zero));
        TRY(unroll_copy(u, op, "assign", zero, is));
    }
    return NULL;
}
