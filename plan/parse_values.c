/* parse_values.c: the values of a plan's text: types, places in memory, what they are slices of. */
#include "dist_attr/dims.h"
#include "plan/text.h"

enum { NAME, DTYPE, DIMS, SPACE, OFFSET, VIEW_OF, HEIGHT, ROWS, IS, DIST, NKEYS, MAX_VIEW_DEPTH = 16 };

static const plan_key value_keys[NKEYS] = {
    [NAME] = {"name", true, NULL},      [DTYPE] = {"dtype", true, NULL},   [DIMS] = {"dims", true, NULL},
    [SPACE] = {"space", true, NULL},    [OFFSET] = {"offset", true, NULL}, [VIEW_OF] = {"view_of", false, NULL},
    [HEIGHT] = {"height", false, NULL}, [ROWS] = {"rows", false, NULL},    [IS] = {"is", false, NULL},
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
    int64_t step = plan_alignment(v->nbytes);
    if (keys[VIEW_OF].node) step = (int64_t)weft_dtype_nbytes((weft_dtype)v->shape.dtype);
    if (v->offset % step)
        return yaml_error(r->context, keys[OFFSET].node, r->place, "offset: expected a multiple of %lld",
                          (long long)step);
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

/* A mesh axis, -1, or a list of mesh axes. */
static weft_status parse_dims_entry(plan_reader *r, const yaml_node *node, int64_t *out) {
    bool is_list = node->kind == NODE_SEQUENCE;
    *out = -1;
    for (size_t i = 0; i < (is_list ? node->count : 1); i++) {
        int64_t axis;
        TRY(plan_read_int(r, is_list ? node->items[i] : node, "dims_mapping", is_list ? 0 : -1, MESH_MAX_NDIM - 1,
                          &axis));
        if (axis < 0) return NULL;
        if ((*out = dim_add(*out, axis)) < 0)
            return yaml_error(r->context, node, r->place, "dims_mapping: expected at most %d mesh axes", DIM_MAX_AXES);
    }
    return NULL;
}

static weft_status parse_dims_mapping(plan_reader *r, const yaml_node *node, placement *p) {
    TRY(plan_read_sequence(r, node, "dims_mapping"));
    if (node->count > WEFT_MAX_RANK) return yaml_error(r->context, node, r->place, "dims_mapping: too many axes");
    int64_t *entries = ARENA_ARRAY(&r->program->arena, int64_t, node->count + 1);
    if (!entries) return base_out_of_memory();
    for (size_t i = 0; i < node->count; i++) TRY(parse_dims_entry(r, node->items[i], &entries[i]));
    p->ndim = (int)node->count;
    p->dims_mapping = entries;
    return NULL;
}

static weft_status parse_dist(plan_reader *r, const yaml_node *node, plan_value *v) {
    plan_key keys[] = {{"mesh", true, NULL}, {"dims_mapping", true, NULL}, {"partial", false, NULL}};
    int64_t index;
    if (!node) return NULL;
    TRY(plan_read_keys(r, node, keys, 3));
    placement *p = ARENA_NEW(&r->plan->arena, placement);
    if (!p) return base_out_of_memory();
    TRY(plan_read_int(r, keys[0].node, "mesh", 0, (int64_t)r->nmeshes - 1, &index));
    TRY(parse_dims_mapping(r, keys[1].node, p));
    p->mesh = r->meshes[index];
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

/* What the value names is looked up when all values have names. */
static weft_status keep_references(plan_reader *r, const plan_key *keys, const yaml_node *node) {
    plan_reference *ref;
    if (!keys[VIEW_OF].node && !keys[ROWS].node) return NULL;
    TRY(vector_reserve(&r->context->allocator, &r->references, &r->reference_capacity, r->nreferences + 1,
                       sizeof *ref));
    ref = &r->references[r->nreferences++];
    *ref = (plan_reference){.value = (int32_t)r->nvalues, .place = {.line = node->line, .column = node->column}};
    if (keys[VIEW_OF].node) TRY(plan_read_string(r, keys[VIEW_OF].node, "view_of", &ref->view_of));
    if (keys[ROWS].node) TRY(plan_read_string(r, keys[ROWS].node, "rows", &ref->rows));
    return NULL;
}

weft_status plan_parse_value(plan_reader *r, const yaml_node *node) {
    const weft_allocator *a = &r->context->allocator;
    plan_key keys[NKEYS];
    plan_value v = {.view_of = -1, .rows = -1};
    memcpy(keys, value_keys, sizeof keys);
    TRY(plan_read_keys(r, node, keys, NKEYS));
    TRY(plan_read_string(r, keys[NAME].node, "name", &v.name));
    if (interner_find(&r->names, v.name, strlen(v.name)) || strcmp(v.name, "@EMPTY@") == 0)
        return yaml_error(r->context, keys[NAME].node, r->place, "the name \"%s\" is taken", v.name);
    if (!interner_get(&r->names, v.name, strlen(v.name))) return base_out_of_memory();
    TRY(parse_type(r, keys, &v));
    TRY(parse_place(r, keys, &v));
    TRY(parse_flags(r, keys[IS].node, &v));
    TRY(parse_dist(r, keys[DIST].node, &v));
    if (!keys[ROWS].node != (v.shape.height < 0))
        return yaml_error(r->context, node, r->place, "expected height and rows, or neither");
    TRY(keep_references(r, keys, node));
    if (r->nvalues >= INT32_MAX / 2) return yaml_error(r->context, node, r->place, "values: too many");
    TRY(vector_reserve(a, &r->values, &r->value_capacity, r->nvalues + 1, sizeof *r->values));
    TRY(vector_reserve(a, &r->vars, &r->var_capacity, r->nvalues + 1, sizeof *r->vars));
    TRY(add_var(r, &v, &r->vars[r->nvalues]));
    r->values[r->nvalues++] = v;
    return NULL;
}

/* --- once all values have names ----------------------------------------------------------------------------------- */

static weft_status find_named(plan_reader *r, const plan_reference *ref, const char *n, int32_t *out_value) {
    const name *found = interner_find(&r->names, n, strlen(n));
    if (!found) return yaml_error(r->context, &ref->place, r->place, "no value is named \"%s\"", n);
    *out_value = (int32_t)found->id;
    return NULL;
}

static weft_status resolve_view(plan_reader *r, const plan_reference *ref) {
    plan_value *v = &r->values[ref->value];
    if (!ref->view_of) return NULL;
    TRY(find_named(r, ref, ref->view_of, &v->view_of));
    const plan_value *w = &r->values[v->view_of];
    if (w->space == v->space && v->offset >= w->offset && v->offset + v->nbytes <= w->offset + w->nbytes) return NULL;
    return yaml_error(r->context, &ref->place, r->place, "\"%s\" does not lie within \"%s\"", v->name, w->name);
}

static weft_status resolve_rows(plan_reader *r, const plan_reference *ref) {
    plan_value *v = &r->values[ref->value];
    if (!ref->rows) return NULL;
    TRY(find_named(r, ref, ref->rows, &v->rows));
    const shape *s = &r->values[v->rows].shape;
    bool fits = v->shape.ndim > 0 && s->dtype == WEFT_INT64 && s->ndim == 1 && s->dims[0] == v->shape.dims[0];
    if (fits && s->height < 0) return NULL;
    return yaml_error(r->context, &ref->place, r->place, "rows: expected an int64 value with one element for each row");
}

static weft_status check_view_depth(plan_reader *r, const plan_reference *ref) {
    int depth = 0;
    for (int32_t v = ref->value; r->values[v].view_of >= 0; v = r->values[v].view_of)
        if (++depth > MAX_VIEW_DEPTH)
            return yaml_error(r->context, &ref->place, r->place, "views of views go round, or deeper than %d",
                              MAX_VIEW_DEPTH);
    return NULL;
}

weft_status plan_end_values(plan_reader *r) {
    for (size_t i = 0; i < r->nreferences; i++) {
        TRY(resolve_view(r, &r->references[i]));
        TRY(resolve_rows(r, &r->references[i]));
    }
    for (size_t i = 0; i < r->nreferences; i++) TRY(check_view_depth(r, &r->references[i]));
    TRY(shape_env_init(&r->env, r->program, &r->scratch));
    for (size_t i = 0; i < r->nvalues; i++) TRY(shape_env_set(&r->env, r->vars[i], &r->values[i].shape));
    return NULL;
}
