/* values.c: the vars that instructions touch, as typed values; and those that outlive a step without being touched. */
#include "plan/builder.h"

bool plan_nbytes(const shape *s, int64_t *out_nbytes) {
    size_t nbytes = weft_dtype_nbytes((weft_dtype)s->dtype);
    if (!nbytes || s->ndim < 0 || s->ndim > WEFT_MAX_RANK) return false;
    bool zero = false;
    for (int i = 0; i < s->ndim; i++) {
        if (s->dims[i] < 0) return false;
        zero |= s->dims[i] == 0;
    }
    for (int i = 0; i < s->ndim && !zero; i++)
        if (!base_mul(nbytes, (size_t)s->dims[i], &nbytes) || nbytes > (size_t)PLAN_MAX_NBYTES) return false;
    *out_nbytes = zero ? 0 : (int64_t)nbytes;
    return true;
}

static const weft_op *maker_of(const weft_var *v) {
    FOR_EACH_USE(u, v)
    if (u->is_output) return use_op(v->program, u);
    return NULL;
}

/* A feed, or what comes of data: the inputs of its maker are known, as these were looked at before. */
static weft_status open_extent(const plan_builder *b, const weft_op *op, const weft_var *v, int axis) {
    const weft_op *maker = maker_of(v);
    if (maker)
        return plan_error(b, WEFT_UNSUPPORTED, maker,
                          "the extent of \"%s\" on axis %d depends on data: only a run knows it", v->name->bytes, axis);
    return plan_error(b, WEFT_INVALID_PROGRAM, op,
                      "\"%s\" has extent -1 on axis %d: what is fed must be known when planning", v->name->bytes, axis);
}

/* The type is known to the last extent: says what is missing. */
static weft_status check_type(const plan_builder *b, const weft_op *op, const weft_var *v, const shape *s,
                              int64_t *out_nbytes) {
    const char *n = v->name->bytes;
    if (v->kind != WEFT_DENSE_TENSOR && v->kind != WEFT_SELECTED_ROWS)
        return plan_error(b, WEFT_UNSUPPORTED, op, "\"%s\" is not a tensor (VarType %d)", n, v->kind);
    if (!weft_dtype_nbytes((weft_dtype)s->dtype))
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "the element type of \"%s\" is not known (%d)", n, s->dtype);
    if (s->ndim < 0)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "the shape of \"%s\" is not known: declare it or feed it", n);
    for (int i = 0; i < s->ndim; i++)
        if (s->dims[i] < 0) return open_extent(b, op, v, i);
    if (!plan_nbytes(s, out_nbytes)) return plan_error(b, WEFT_LIMIT, op, "\"%s\" has more than 2^46 bytes", n);
    return NULL;
}

static weft_status add_value(plan_builder *b, const char *n, const shape *s, int64_t nbytes, int32_t *out_value) {
    const weft_allocator *a = &b->context->allocator;
    shape type = *s; /* may be another value's: the array moves */
    TRY(vector_reserve(a, &b->values, &b->value_capacity, b->nvalues + 1, sizeof *b->values));
    TRY(vector_reserve(a, &b->view_ops, &b->view_op_capacity, b->nvalues + 1, sizeof *b->view_ops));
    const char *kept = arena_string(&b->plan->arena, n, strlen(n));
    if (!kept || !interner_get(&b->names, n, strlen(n))) return base_out_of_memory();
    b->values[b->nvalues] =
        (plan_value){.name = kept, .shape = type, .space = PLAN_TEMPORARY, .nbytes = nbytes, .view_of = -1, .rows = -1};
    b->view_ops[b->nvalues] = NULL;
    *out_value = (int32_t)b->nvalues++;
    return NULL;
}

weft_status plan_new_value(plan_builder *b, const char *stem, const shape *like, int32_t *out_value) {
    const char *n = stem;
    int64_t nbytes;
    for (size_t k = b->nvalues; interner_find(&b->names, n, strlen(n)); k++)
        if (!(n = arena_format(&b->scratch, "%s_%zu", stem, k))) return base_out_of_memory();
    if (!plan_nbytes(like, &nbytes))
        return weft_status_create(WEFT_LIMIT, b->program->place, "\"%s\" has more than 2^46 bytes", stem);
    return add_value(b, n, like, nbytes, out_value);
}

/* Row indices of a SelectedRows value. */
static weft_status add_rows(plan_builder *b, int32_t value) {
    shape s = {.dtype = WEFT_INT64, .ndim = 1, .dims = {b->values[value].shape.dims[0]}, .height = -1};
    const char *stem = arena_format(&b->scratch, "%s#rows", b->values[value].name);
    int32_t rows;
    if (!stem) return base_out_of_memory();
    TRY(plan_new_value(b, stem, &s, &rows));
    b->values[value].rows = rows;
    return NULL;
}

weft_status plan_value_of(plan_builder *b, const weft_op *op, const weft_var *v, int32_t *out_value) {
    if (b->value_of_var[v->id] >= 0) {
        *out_value = b->value_of_var[v->id];
        return NULL;
    }
    shape s = shape_env_get(&b->env, v);
    int64_t nbytes;
    int32_t value;
    TRY(check_type(b, op, v, &s, &nbytes));
    if (interner_find(&b->names, v->name->bytes, strlen(v->name->bytes))) {
        TRY(plan_new_value(b, v->name->bytes, &s, &value)); /* a sub-block's var hides one of its parents' */
    } else {
        TRY(add_value(b, v->name->bytes, &s, nbytes, &value));
    }
    b->values[value].persistable = v->persistable;
    b->values[value].dist = v->dist;
    b->value_of_var[v->id] = value;
    if (s.height >= 0 && s.ndim > 0) TRY(add_rows(b, value));
    *out_value = value;
    return NULL;
}

weft_status plan_name_taken(plan_builder *b, const weft_op *op, const char *stem) {
    if (!interner_find(&b->names, stem, strlen(stem))) return NULL;
    return plan_error(b, WEFT_INVALID_PROGRAM, op, "the name \"%s\" is taken by a var or by another fetch op", stem);
}

/* A var of block 0 that the caller named; one that nobody declares is known by the ops that use it. */
static weft_status value_named(plan_builder *b, const char *what, const char *n, int32_t *out_value) {
    const weft_var *v = block_find_used(b->program->blocks[0], n);
    if (!v) return weft_status_create(WEFT_NOT_FOUND, b->program->place, "%s \"%s\": block 0 has no such var", what, n);
    if (b->value_of_var[v->id] < 0) {
        shape s = shape_env_get(&b->env, v);
        int64_t nbytes;
        if (!plan_nbytes(&s, &nbytes))
            return weft_status_create(WEFT_INVALID_PROGRAM, b->program->place,
                                      "%s \"%s\": no instruction touches it and its type is not known", what, n);
    }
    return plan_value_of(b, NULL, v, out_value);
}

/* Persistables that no instruction touches are still part of the state. */
static weft_status keep_persistables(plan_builder *b) {
    const weft_block *block = b->program->blocks[0];
    for (size_t i = 0; i < block->nvars; i++) {
        const weft_var *v = block_var(block, i);
        int64_t nbytes;
        int32_t value;
        shape s = shape_env_get(&b->env, v);
        bool is_tensor = v->kind == WEFT_DENSE_TENSOR && plan_nbytes(&s, &nbytes);
        if (v->persistable && is_tensor && b->value_of_var[v->id] < 0) TRY(plan_value_of(b, NULL, v, &value));
    }
    return NULL;
}

weft_status plan_keep_values(plan_builder *b) {
    int32_t value;
    TRY(keep_persistables(b));
    for (size_t i = 0; i < b->options->nfeeds; i++) {
        TRY(value_named(b, "feed", b->options->feeds[i].name, &value));
        b->values[value].is_feed = true;
    }
    for (size_t i = 0; i < b->options->nfetches; i++) {
        TRY(value_named(b, "fetch", b->options->fetches[i], &value));
        b->values[value].is_fetch = true;
        if (b->values[value].rows >= 0) b->values[b->values[value].rows].is_fetch = true;
    }
    return NULL;
}
