/* open_extents.c: see open_extents.h. A run goes by what ops make. So what inference knows takes the place of what is
 * declared: Paddle declares 1 where an open extent meets a 1, and the type of its argument for some outputs. */
#include "ops/open_extents.h"
#include "dist_attr/dims.h"

static bool is_feedable(const weft_var *v) {
    return v->block && v->kind == WEFT_DENSE_TENSOR && v->has_tensor && !v->persistable && v->ndim <= WEFT_MAX_RANK;
}

static bool is_open(const weft_var *v) {
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0) return true;
    return false;
}

/* How many parts dimension `d` of the feed is in. */
static int64_t count_parts(const weft_var *v, size_t d, const open_extents *e) {
    const placement *p = v->dist;
    if (!p || !p->mesh || p->ndim != (int)v->ndim) return d == 0 ? e->nranks : 1;
    return placement_parts(p, (int)d);
}

/* Parts may differ by one: the longest is taken. */
static bool is_dynamic(const weft_var *v, size_t d) {
    const placement *p = v->dist;
    return p && p->mesh && p->ndim == (int)v->ndim && p->dynamic_dims && p->dynamic_dims[d];
}

static weft_status set_feed(shape_env *env, const weft_var *v, const open_extents *e) {
    shape s = shape_env_get(env, v);
    for (size_t d = 0; d < v->ndim; d++) {
        int64_t whole = d ? e->lengths : e->rows, parts = count_parts(v, d, e);
        if (s.dims[d] >= 0 || !whole) continue;
        if (whole % parts && !is_dynamic(v, d))
            return weft_status_create(WEFT_INVALID_ARGUMENT, v->program->place,
                                      "feed \"%s\": %lld rows do not divide by %lld ranks", v->name->bytes,
                                      (long long)whole, (long long)parts);
        s.dims[d] = whole / parts + (whole % parts != 0);
    }
    return shape_env_set(env, v, &s);
}

/* Calls set_feed for each feed if there is an environment. */
static weft_status visit_feeds(weft_program *p, arena *a, shape_env *env, const open_extents *e, bool *out_any) {
    bool *known = ARENA_ARRAY(a, bool, p->nall_vars + 1); /* written, or found to be a feed */
    if (!known) return base_out_of_memory();
    FOR_EACH_OP(op, p->blocks[0]) {
        if (op_has_effect(op, OP_NO_BYTES)) continue;
        bool is_feed_op = op_is(op, "feed") || op_is(op, "feed_v2");
        FOR_EACH_ARG(op, is_feed_op, u) {
            const weft_var *v = use_var(p, u);
            if (known[u->var_id] || !is_feedable(v)) continue;
            known[u->var_id] = true;
            *out_any |= is_open(v);
            if (env) TRY(set_feed(env, v, e));
        }
        FOR_EACH_ARG(op, true, u) known[u->var_id] = true;
    }
    return NULL;
}

weft_status open_extents_find(weft_program *p, bool *out_any) {
    arena memory;
    arena_init(&memory, &p->context->allocator);
    *out_any = false;
    weft_status status = visit_feeds(p, &memory, NULL, NULL, out_any);
    arena_fini(&memory);
    return status;
}

static weft_status declare_dims(const shape *s, weft_var *v) {
    int64_t dims[WEFT_MAX_RANK];
    for (int32_t d = 0; d < s->ndim; d++) dims[d] = s->dims[d];
    var_changed(v);
    TRY(program_dims(v->program, (size_t)s->ndim, dims, &v->dims));
    v->ndim = (uint32_t)s->ndim;
    return NULL;
}

/* Programs leave what only a gradient op reads without a type, that is of no dimensions (Reserve of rnn, WarpCTCGrad).
 */
static weft_status declare_untyped(const shape *s, weft_var *v) {
    TRY(declare_dims(s, v));
    v->dtype = s->dtype;
    return NULL;
}

static bool is_closed(const shape *s) {
    for (int32_t d = 0; d < s->ndim; d++)
        if (s->dims[d] < 0) return false;
    return s->ndim >= 0;
}

weft_status open_extents_declare(const shape_env *env, weft_var *v) {
    int64_t dims[WEFT_MAX_RANK];
    shape s = shape_env_get(env, v);
    if (is_feedable(v) && v->ndim == 0 && s.ndim > 0) return declare_untyped(&s, v);
    if (is_feedable(v) && is_closed(&s)) return declare_dims(&s, v);
    if (!is_feedable(v) || !is_open(v) || s.ndim != (int32_t)v->ndim) return NULL;
    for (size_t d = 0; d < v->ndim; d++) dims[d] = v->dims[d] < 0 ? s.dims[d] : v->dims[d];
    var_changed(v);
    return program_dims(v->program, v->ndim, dims, &v->dims);
}

weft_status open_extents_feed(weft_program *p, const open_extents *e) {
    arena memory;
    shape_env env;
    bool any = false;
    arena_init(&memory, &p->context->allocator);
    weft_status status = NULL;
    TRY_DONE(shape_env_init(&env, p, &memory));
    TRY_DONE(visit_feeds(p, &memory, &env, e, &any));
    for (size_t i = 0; i < p->nall_vars && any; i++) TRY_DONE(open_extents_declare(&env, program_var(p, i)));
done:
    arena_fini(&memory);
    return status;
}

weft_status open_extents_set(weft_program *p, const open_extents *e) {
    arena memory;
    shape_env env;
    bool any = false;
    arena_init(&memory, &p->context->allocator);
    weft_status status = NULL;
    TRY_DONE(shape_env_init(&env, p, &memory));
    TRY_DONE(visit_feeds(p, &memory, &env, e, &any));
    if (!any) goto done;
    TRY_DONE(shape_infer_block(&env, p->blocks[0], &memory));
    for (size_t i = 0; i < p->nall_vars; i++) TRY_DONE(open_extents_declare(&env, program_var(p, i)));
done:
    arena_fini(&memory);
    return status;
}
