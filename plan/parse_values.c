/* parse_values.c: the values of a plan's text: types, places in memory, what they are slices of. */
#include "plan/text.h"

enum { NAME, DTYPE, DIMS, SPACE, OFFSET, VIEW_OF, HEIGHT, ROWS, IS, DIST, NKEYS, MAX_VIEW_DEPTH = 16 };

static const plan_key value_keys[NKEYS] = {
    [NAME] = {"name", true, NULL},        [DTYPE] = {"dtype", true, NULL},  [DIMS] = {"dims", true, NULL},
    [SPACE] = {"space", true, NULL},      [OFFSET] = {"offset", true, NULL}, [VIEW_OF] = {"view_of", false, NULL},
    [HEIGHT] = {"height", false, NULL},   [ROWS] = {"rows", false, NULL},   [IS] = {"is", false, NULL},
    [DIST] = {"dist", false, NULL},
};

static weft_status parse_type(plan_reader *r, const plan_key *keys, plan_value *v) {
    const char *dtype;
    int64_t *dims;
    size_t ndim;
    TRY(plan_read_string(r, keys[DTYPE].node, "dtype", &dtype));
    v->shape = (shape){.dtype = weft_dtype_parse(dtype), .height = -1};
    if (v->shape.dtype == WEFT_DTYPE_NONE)
        return yaml_error(r->context, keys[DTYPE].node, r->place, "\"%s\" is no element type", dtype);
    TRY(plan_read_ints(r, keys[DIMS].node, "dims", 0, PLAN_MAX_NBYTES, &ndim, &dims));
    if (ndim > WEFT_MAX_RANK)
        return yaml_error(r->context, keys[DIMS].node, r->place, "dims: expected at most %d", WEFT_MAX_RANK);
    v->shape.ndim = (int32_t)ndim;
    memcpy(v->shape.dims, dims, ndim * sizeof *dims);
    if (keys[HEIGHT].node) TRY(plan_read_int(r, keys[HEIGHT].node, "height", 0, INT64_MAX, &v->shape.height));
    if (!plan_nbytes(&v->shape, &v->nbytes))
        return yaml_error(r->context, keys[DIMS].node, r->place, "dims: the value has more than 2^46 bytes");
    return NULL;
}

static weft_status parse_place(plan_reader *r, const plan_key *keys, plan_value *v) {
    const char *space;
    TRY(plan_read_string(r, keys[SPACE].node, "space", &space));
    bool persistent = strcmp(space, "persistent") == 0;
    if (!persistent && strcmp(space, "temporary") != 0)
        return yaml_error(r->context, keys[SPACE].node, r->place, "space: expected persistent or temporary");
    v->space = persistent ? PLAN_PERSISTENT : PLAN_TEMPORARY;
    int64_t size = persistent ? r->plan->persistent_nbytes : r->plan->temporary_nbytes;
    TRY(plan_read_int(r, keys[OFFSET].node, "offset", 0, size, &v->offset));
    int64_t step = keys[VIEW_OF].node ? (int64_t)weft_dtype_nbytes((weft_dtype)v->shape.dtype) : PLAN_ALIGNMENT;
    if (v->offset % step)
        return yaml_error(r->context, keys[OFFSET].node, r->place, "offset: expected a multiple of %lld", (long long)step);
    if (v->nbytes > size - v->offset)
        return yaml_error(r->context, keys[OFFSET].node, r->place, "the value ends at %lld, its space has %lld bytes",
                          (long long)(v->offset + v->nbytes), (long long)size);
    return NULL;
}

static weft_status parse_flags(plan_reader *r, const yaml_node *node, plan_value *v) {
    if (!node) return NULL;
    TRY(plan_read_sequence(r, node, "is"));
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *item = node->items[i];
        size_t f = 0;
        while (f < PLAN_NFLAGS && (item->kind != NODE_SCALAR || strcmp(item->bytes, plan_flags[f].word) != 0)) f++;
        if (f == PLAN_NFLAGS)
            return yaml_error(r->context, item, r->place, "expected persistable, feed, fetch, written or read_first");
        *plan_flag_of(v, f) = true;
    }
    return NULL;
}

static weft_status parse_partial(plan_reader *r, const yaml_node *node, placement *p) {
    if (!node) return NULL;
    if (node->kind != NODE_MAPPING) return yaml_error(r->context, node, r->place, "partial: expected a mapping");
    for (size_t i = 0; i < node->count; i++) {
        int64_t axis, reduce;
        TRY(plan_read_int(r, node->items[2 * i], "mesh axis", 0, 31, &axis));
        TRY(plan_read_int(r, node->items[2 * i + 1], "reduce", 0, WEFT_REDUCE_ALL, &reduce));
        p->partial_axes |= UINT32_C(1) << axis;
        p->partial_reduce[axis] = (uint8_t)reduce;
    }
    return NULL;
}

static weft_status parse_dist(plan_reader *r, const yaml_node *node, plan_value *v) {
    plan_key keys[] = {{"mesh", true, NULL}, {"dims_mapping", true, NULL}, {"partial", false, NULL}};
    int64_t index, *mapping;
    size_t ndim;
    if (!node) return NULL;
    TRY(plan_read_keys(r, node, keys, 3));
    placement *p = ARENA_NEW(&r->plan->arena, placement);
    if (!p) return base_out_of_memory();
    TRY(plan_read_int(r, keys[0].node, "mesh", 0, (int64_t)r->nmeshes - 1, &index));
    TRY(plan_read_ints(r, keys[1].node, "dims_mapping", -1, 31, &ndim, &mapping));
    if (ndim > WEFT_MAX_RANK) return yaml_error(r->context, node, r->place, "dims_mapping: too many axes");
    p->mesh = r->meshes[index];
    p->ndim = (int)ndim;
    p->dims_mapping = mapping;
    TRY(parse_partial(r, keys[2].node, p));
    v->dist = p;
    return NULL;
}

/* The var that stands for a value in the plan's program. */
static weft_status add_var(plan_reader *r, const plan_value *v, weft_var **out) {
    const name *n;
    TRY(program_name(r->program, v->name, strlen(v->name), &n));
    TRY(block_add_var(r->program->blocks[0], n, out));
    (*out)->dtype = v->shape.dtype;
    (*out)->persistable = v->persistable;
    if (v->shape.height >= 0) (*out)->kind = WEFT_SELECTED_ROWS;
    return NULL;
}

static weft_status parse_value(plan_reader *r, const yaml_node *node, size_t i) {
    plan_key keys[NKEYS];
    plan_value *v = &r->plan->values[i];
    memcpy(keys, value_keys, sizeof keys);
    *v = (plan_value){.view_of = -1, .rows = -1};
    TRY(plan_read_keys(r, node, keys, NKEYS));
    TRY(plan_read_string(r, keys[NAME].node, "name", &v->name));
    if (interner_find(&r->names, v->name, strlen(v->name)) || strcmp(v->name, "@EMPTY@") == 0)
        return yaml_error(r->context, keys[NAME].node, r->place, "the name \"%s\" is taken", v->name);
    if (!interner_get(&r->names, v->name, strlen(v->name))) return base_out_of_memory();
    TRY(parse_type(r, keys, v));
    TRY(parse_place(r, keys, v));
    TRY(parse_flags(r, keys[IS].node, v));
    TRY(parse_dist(r, keys[DIST].node, v));
    return add_var(r, v, &r->vars[i]);
}

/* References to other values, once all have names. */
static weft_status parse_references(plan_reader *r, const yaml_node *node, size_t i) {
    plan_value *values = r->plan->values, *v = &values[i];
    const yaml_node *view_of = yaml_get(node, "view_of"), *rows = yaml_get(node, "rows");
    if (view_of) {
        TRY(plan_read_value_name(r, view_of, false, &v->view_of));
        const plan_value *w = &values[v->view_of];
        if (w->space != v->space || v->offset < w->offset || v->offset + v->nbytes > w->offset + w->nbytes)
            return yaml_error(r->context, view_of, r->place, "\"%s\" does not lie within \"%s\"", v->name, w->name);
    }
    if (!rows != (v->shape.height < 0))
        return yaml_error(r->context, node, r->place, "expected height and rows, or neither");
    if (!rows) return NULL;
    TRY(plan_read_value_name(r, rows, false, &v->rows));
    const shape *s = &values[v->rows].shape;
    if (v->shape.ndim < 1 || s->dtype != WEFT_INT64 || s->ndim != 1 || s->dims[0] != v->shape.dims[0] || s->height >= 0)
        return yaml_error(r->context, rows, r->place, "expected an int64 value with one element for each row");
    return NULL;
}

static weft_status check_view_depth(plan_reader *r, const yaml_node *node, size_t i) {
    int depth = 0;
    for (int32_t v = (int32_t)i; r->plan->values[v].view_of >= 0; v = r->plan->values[v].view_of)
        if (++depth > MAX_VIEW_DEPTH)
            return yaml_error(r->context, node, r->place, "views of views go round, or deeper than %d", MAX_VIEW_DEPTH);
    return NULL;
}

weft_status plan_parse_values(plan_reader *r, const yaml_node *sequence) {
    TRY(plan_read_sequence(r, sequence, "values"));
    size_t n = sequence->count;
    if (n > INT32_MAX / 2) return yaml_error(r->context, sequence, r->place, "values: too many");
    r->plan->values = ARENA_ARRAY(&r->plan->arena, plan_value, n + 1);
    r->vars = ARENA_ARRAY(&r->scratch, weft_var *, n + 1);
    if (!r->plan->values || !r->vars) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) TRY(parse_value(r, sequence->items[i], i));
    r->plan->nvalues = n;
    for (size_t i = 0; i < n; i++) TRY(parse_references(r, sequence->items[i], i));
    for (size_t i = 0; i < n; i++) TRY(check_view_depth(r, sequence->items[i], i));
    TRY(shape_env_init(&r->env, r->program, &r->scratch));
    for (size_t i = 0; i < n; i++) r->env.shapes[r->vars[i]->id] = r->plan->values[i].shape;
    return NULL;
}
