/* parse_dist.c: meshes, rings and dist attrs from YAML. */
#include <inttypes.h>

#include "dist_attr/dims.h"
#include "program/grow.h"
#include "program/yaml/yaml_form.h"

/* A status of a checker as a problem at `node`. */
static weft_status at_node(yaml_reader *r, const yaml_node *node, weft_status found) {
    if (!found || weft_status_code(found) == WEFT_OUT_OF_MEMORY) return found;
    weft_status status = yaml_error(r->context, node, r->place, "%s", weft_status_message(found));
    weft_status_free(found);
    return status;
}

/* --- rings and meshes --------------------------------------------------------------------------------------------- */

static weft_status get_ring(yaml_reader *r, const yaml_node *key, const yaml_node *node) {
    ring found = {0};
    size_t count = 0;
    const yaml_node *ranks = node;
    TRY(yaml_get_int(r, key, "the id of a ring", INT32_MIN, INT64_MAX, &found.id));
    if (node->kind == NODE_MAPPING) {
        for (size_t i = 0; i < node->count; i++) {
            const yaml_node *k = node->items[2 * i];
            if (yaml_is(k, "type"))
                TRY(yaml_get_string(r, node->items[2 * i + 1], &found.type));
            else if (!yaml_is(k, "ranks"))
                YAML_FAIL(r, k, "expected ranks or type, found \"%s\"", k->bytes);
        }
        if (!(ranks = yaml_get(node, "ranks"))) YAML_FAIL(r, node, "expected the ranks of ring %" PRId64, found.id);
    }
    TRY(yaml_get_ints(r, ranks, "ranks of a ring", &found.ranks, &count));
    if (count > INT32_MAX) return form_over_budget(r->program, r->budget);
    found.nranks = (int)count;
    TRY(at_node(r, node, ring_check(&found, r->place)));
    return program_put_ring(r->program, &found);
}

weft_status yaml_get_rings(yaml_reader *r, const yaml_node *node) {
    if (node->kind != NODE_MAPPING) YAML_FAIL(r, node, "expected rings as a mapping such as {0: [0, 1]}");
    for (size_t i = 0; i < node->count; i++) TRY(get_ring(r, node->items[2 * i], node->items[2 * i + 1]));
    return NULL;
}

static weft_status get_mesh_names(yaml_reader *r, const yaml_node *node, mesh *m) {
    if (node->kind != NODE_SEQUENCE || node->count != (size_t)m->ndim)
        YAML_FAIL(r, node, "expected one name for each of the %d axes", m->ndim);
    const char **names;
    TRY(yaml_array(r, node->count, sizeof *names, &names));
    for (size_t i = 0; i < node->count; i++) TRY(yaml_get_string(r, node->items[i], &names[i]));
    m->names = names;
    return NULL;
}

static weft_status get_mesh(yaml_reader *r, const yaml_node *node) {
    mesh m = {0};
    size_t ndim = 0, nids = 0, places = 1;
    if (node->kind != NODE_MAPPING) YAML_FAIL(r, node, "expected a mesh such as {shape: [2], ids: [0, 1], dims: [dp]}");
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *k = node->items[2 * i], *v = node->items[2 * i + 1];
        if (yaml_is(k, "shape"))
            TRY(yaml_get_ints(r, v, "shape", &m.shape, &ndim));
        else if (yaml_is(k, "ids"))
            TRY(yaml_get_ints(r, v, "ids", &m.ids, &nids));
        else if (!yaml_is(k, "dims"))
            YAML_FAIL(r, k, "expected shape, ids or dims, found \"%s\"", k->bytes);
    }
    if (!m.shape || !m.ids || ndim > 32) YAML_FAIL(r, node, "expected a mesh with a shape of at most 32 axes, and ids");
    m.ndim = (int)ndim;
    for (size_t i = 0; i < ndim; i++)
        if (m.shape[i] < 1 || !base_mul(places, (size_t)m.shape[i], &places)) places = SIZE_MAX;
    if (places != nids) YAML_FAIL(r, node, "expected as many ids as the shape has places, found %zu", nids);
    if (yaml_get(node, "dims")) TRY(get_mesh_names(r, yaml_get(node, "dims"), &m));
    TRY(at_node(r, node, mesh_check(&m, r->place)));
    const mesh *kept;
    size_t before = r->program->nmeshes;
    TRY(program_add_mesh(r->program, &m, &kept));
    if (r->program->nmeshes == before) YAML_FAIL(r, node, "expected meshes that differ: this one is listed twice");
    return NULL;
}

weft_status yaml_get_meshes(yaml_reader *r, const yaml_node *node) {
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "expected a list of meshes");
    for (size_t i = 0; i < node->count; i++) TRY(get_mesh(r, node->items[i]));
    return NULL;
}

weft_status yaml_get_params_grads(yaml_reader *r, const yaml_node *node) {
    weft_program *p = r->program;
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "expected a list of pairs [param, grad]");
    TRY(yaml_array(r, 2 * node->count, sizeof *p->params_grads, &p->params_grads));
    for (size_t i = 0; i < node->count; i++) {
        const yaml_node *pair = node->items[i];
        if (pair->kind != NODE_SEQUENCE || pair->count != 2) YAML_FAIL(r, pair, "expected a pair [param, grad]");
        TRY(yaml_get_name(r, pair->items[0], &p->params_grads[2 * i]));
        TRY(yaml_get_name(r, pair->items[1], &p->params_grads[2 * i + 1]));
    }
    p->nparams_grads = node->count;
    return NULL;
}

/* --- placements --------------------------------------------------------------------------------------------------- */

static weft_status get_mesh_index(yaml_reader *r, const yaml_node *node, const mesh **out) {
    int64_t index;
    *out = NULL;
    if (yaml_is_null(node)) return NULL;
    if (!r->program->nmeshes) YAML_FAIL(r, node, "expected \"meshes\" before \"blocks\" where a mesh is named");
    TRY(yaml_get_int(r, node, "mesh", 0, (int64_t)r->program->nmeshes - 1, &index));
    *out = r->program->meshes[index];
    return NULL;
}

/* A mesh axis from `min` to `max`, or by its name. */
static weft_status get_axis(yaml_reader *r, const yaml_node *node, const char *what, const mesh *on, int64_t min,
                            int64_t max, int64_t *out) {
    char axes[200];
    int64_t number;
    if (node->kind != NODE_SCALAR || yaml_as_int(node, &number)) return yaml_get_int(r, node, what, min, max, out);
    *out = form_axis(on, node->bytes, node->nbytes);
    if (*out >= 0) return NULL;
    YAML_FAIL(r, node, "%s: expected an axis %s, found \"%s\"", what, form_axes_text(on, axes, sizeof axes),
              node->bytes);
}

/* {axis: reduce}, or a list of axes that hold sums. */
static weft_status get_partial(yaml_reader *r, const yaml_node *node, placement *out) {
    if (node->kind == NODE_SCALAR) YAML_FAIL(r, node, "expected partial as {axis: reduce} or a list of axes");
    for (size_t i = 0; i < node->count; i++) {
        bool named = node->kind == NODE_MAPPING;
        int64_t axis;
        int reduce = WEFT_REDUCE_SUM;
        TRY(get_axis(r, node->items[named ? 2 * i : i], "partial mesh axis", out->mesh, 0, 31, &axis));
        if (named) {
            const yaml_node *word = node->items[2 * i + 1];
            reduce = word->kind == NODE_SCALAR ? form_reduce_parse(word->bytes, word->nbytes) : -1;
            if (reduce < 0) YAML_FAIL(r, word, "expected sum, max, min, prod, avg, any or all");
        }
        out->partial_axes |= (uint32_t)1 << axis;
        out->partial_reduce[axis] = (uint8_t)reduce;
    }
    return NULL;
}

static weft_status get_dynamic_dims(yaml_reader *r, const yaml_node *node, placement *out, size_t *out_count) {
    uint8_t *flags;
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "expected dynamic_dims as a list of 0 and 1");
    TRY(yaml_array(r, node->count, 1, &flags));
    for (size_t i = 0; i < node->count; i++) {
        int64_t flag;
        TRY(yaml_get_int(r, node->items[i], "dynamic_dims", 0, 1, &flag));
        flags[i] = (uint8_t)flag;
    }
    out->dynamic_dims = flags;
    *out_count = node->count;
    return NULL;
}

/* A mesh axis, -1, or a list of mesh axes, major first. */
static weft_status get_dims_entry(yaml_reader *r, const yaml_node *node, const mesh *on, int64_t *out) {
    bool is_list = node->kind == NODE_SEQUENCE;
    *out = -1;
    for (size_t i = 0; i < (is_list ? node->count : 1); i++) {
        int64_t axis;
        TRY(get_axis(r, is_list ? node->items[i] : node, "dims_mapping", on, is_list ? 0 : -1, MESH_MAX_NDIM - 1,
                     &axis));
        if (axis < 0) return NULL;
        if ((*out = dim_add(*out, axis)) < 0)
            YAML_FAIL(r, node, "dims_mapping: expected at most %d mesh axes", DIM_MAX_AXES);
    }
    return NULL;
}

static weft_status get_dims_mapping(yaml_reader *r, const yaml_node *node, const mesh *on, const int64_t **out,
                                    size_t *out_count) {
    int64_t *entries;
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "expected dims_mapping as a list");
    TRY(yaml_array(r, node->count, sizeof *entries, &entries));
    for (size_t i = 0; i < node->count; i++) TRY(get_dims_entry(r, node->items[i], on, &entries[i]));
    *out = entries;
    *out_count = node->count;
    return NULL;
}

/* A list is dims_mapping alone. `extra` is NULL where no such member may be. */
static weft_status get_placement(yaml_reader *r, const yaml_node *node, placement *out, const char **extra) {
    size_t ndim = 0, ndynamic = 0;
    if (node->kind == NODE_SEQUENCE) {
        TRY(get_dims_mapping(r, node, out->mesh, &out->dims_mapping, &ndim));
    } else if (node->kind == NODE_SCALAR) {
        YAML_FAIL(r, node, "expected a placement such as [0, -1] or {mesh: 0, dims_mapping: [0, -1]}");
    }
    if (yaml_get(node, "mesh")) TRY(get_mesh_index(r, yaml_get(node, "mesh"), &out->mesh)); /* it names axes */
    for (size_t i = 0; node->kind == NODE_MAPPING && i < node->count; i++) {
        const yaml_node *k = node->items[2 * i], *v = node->items[2 * i + 1];
        if (yaml_is(k, "mesh"))
            continue;
        else if (yaml_is(k, "dims_mapping"))
            TRY(get_dims_mapping(r, v, out->mesh, &out->dims_mapping, &ndim));
        else if (yaml_is(k, "partial"))
            TRY(get_partial(r, v, out));
        else if (yaml_is(k, "batch_dim"))
            TRY(yaml_get_int(r, v, "batch_dim", INT64_MIN, INT64_MAX, &out->batch_dim));
        else if (yaml_is(k, "chunk_id"))
            TRY(yaml_get_int(r, v, "chunk_id", INT64_MIN, INT64_MAX, &out->chunk_id));
        else if (yaml_is(k, "dynamic_dims"))
            TRY(get_dynamic_dims(r, v, out, &ndynamic));
        else if (yaml_is(k, "extra") && extra)
            TRY(yaml_get_string(r, v, extra));
        else
            YAML_FAIL(r, k, "expected mesh, dims_mapping, partial, batch_dim, chunk_id or dynamic_dims, found \"%s\"",
                      k->bytes);
    }
    if (ndim > INT32_MAX) return form_over_budget(r->program, r->budget);
    out->ndim = (int)ndim;
    if (out->dynamic_dims && ndynamic != ndim)
        YAML_FAIL(r, node, "expected %zu flags in dynamic_dims, found %zu", ndim, ndynamic);
    return out->mesh ? at_node(r, node, placement_check(out, -1, r->place)) : NULL;
}

weft_status yaml_get_var_dist(yaml_reader *r, weft_var *v, const yaml_node *node) {
    if (yaml_is_null(node)) {
        v->dist_is_null = true;
        return NULL;
    }
    TRY(yaml_array(r, 1, sizeof *v->dist, &v->dist));
    const char *extra = NULL;
    TRY(get_placement(r, node, v->dist, &extra));
    var_rest *rest;
    if (!extra) return NULL;
    TRY(var_rest_get(r->program, v, &rest));
    rest->dist_extra_json = extra;
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static weft_status get_op_placements(yaml_reader *r, const yaml_node *node, const mesh *op_mesh, op_placement **out,
                                     size_t *out_count) {
    yaml_node **items;
    size_t count;
    op_placement *list;
    placement *where;
    TRY(yaml_pairs(r, node, "placements by variable", &items, &count));
    TRY(yaml_array(r, count, sizeof *list, &list));
    TRY(yaml_array(r, count, sizeof *where, &where));
    for (size_t i = 0; i < count; i++) {
        TRY(yaml_get_name(r, items[2 * i], &list[i].var));
        where[i].mesh = op_mesh;
        TRY(get_placement(r, items[2 * i + 1], &where[i], NULL));
        list[i].placement = &where[i];
    }
    *out = list;
    *out_count = count;
    return NULL;
}

static weft_status get_events(yaml_reader *r, const yaml_node *node, op_dist *d) {
    op_waits *waits;
    if (node->kind != NODE_SEQUENCE) YAML_FAIL(r, node, "expected wait as a list of events");
    TRY(form_charge(r->program, r->budget, r->item.total_nbytes + node->count * sizeof *waits->events));
    TRY(op_waits_create(r->program, node->count, &waits));
    for (size_t i = 0; i < node->count; i++) TRY(yaml_get_string(r, node->items[i], &waits->events[i]));
    d->waits = waits;
    return NULL;
}

/* The members that few ops have. */
static weft_status get_op_dist_rest(yaml_reader *r, op_dist *d, const yaml_node *k, const yaml_node *v) {
    op_dist_rest *rest;
    TRY(op_dist_rest_get(r->program, d, &rest));
    if (yaml_is(k, "impl")) return yaml_get_string(r, v, &rest->impl_type);
    if (yaml_is(k, "impl_idx")) return yaml_get_int(r, v, "impl_idx", INT64_MIN, INT64_MAX, &rest->impl_idx);
    if (yaml_is(k, "in")) return get_op_placements(r, v, rest->mesh, &rest->inputs, &rest->ninputs);
    if (yaml_is(k, "out")) return get_op_placements(r, v, rest->mesh, &rest->outputs, &rest->noutputs);
    if (yaml_is(k, "extra")) return yaml_get_string(r, v, &rest->extra_json);
    if (!yaml_is(k, "recompute"))
        YAML_FAIL(r, k,
                  "expected mesh, impl, impl_idx, recompute, stream, record, wait, in, out or extra, found \"%s\"",
                  k->bytes);
    rest->has_recompute = true;
    return yaml_get_bool(r, v, "recompute", &rest->is_recompute);
}

static weft_status get_op_dist_member(yaml_reader *r, op_dist *d, const yaml_node *k, const yaml_node *v) {
    if (yaml_is(k, "mesh")) return NULL; /* read first */
    if (yaml_is(k, "stream")) return yaml_get_string(r, v, &d->execution_stream);
    if (yaml_is(k, "record")) return yaml_get_string(r, v, &d->event_to_record);
    if (yaml_is(k, "wait")) return get_events(r, v, d);
    return get_op_dist_rest(r, d, k, v);
}

weft_status yaml_get_op_dist(yaml_reader *r, weft_op *op, const yaml_node *node) {
    if (node->kind != NODE_MAPPING)
        YAML_FAIL(r, node, "expected dist as a mapping such as {mesh: 0, stream: gradient_sync}");
    op_dist *d;
    TRY(yaml_array(r, 1, sizeof *d, &d));
    if (yaml_get(node, "mesh")) {
        const mesh *m;
        TRY(get_mesh_index(r, yaml_get(node, "mesh"), &m));
        TRY(op_dist_set_mesh(r->program, d, m));
    }
    for (size_t i = 0; i < node->count; i++) TRY(get_op_dist_member(r, d, node->items[2 * i], node->items[2 * i + 1]));
    if (d->execution_stream && strcmp(d->execution_stream, "default") == 0) d->execution_stream = NULL;
    op->dist = d;
    return NULL;
}
