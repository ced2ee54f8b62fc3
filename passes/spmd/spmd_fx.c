/* spmd_fx.c: traced graphs (.fx.json): one mesh axis of all ranks, or the mesh of `--dist`; placements of inputs from
 * `placements_in`, those of outputs into `placements_out`. "S(0)", "S0": sharded at dimension 0; "R": replicated; on
 * a mesh of several axes a list of these. */
#include "passes/spmd/spmd.h"

#include "base/json.h"
#include "program/form.h"

static weft_status read_document(const spmd_plan *plan, json_t **out) {
    const char *json = plan->program->fx_json;
    return json_read(plan->program->context, json, strlen(json), "fx", out);
}

/* One mesh axis after another, as DTensor lists them: of those that shard one dimension the first is the major one. */
static weft_status place_along(spmd_plan *plan, spmd_var *v, const char *input, int axis, const json_t *value) {
    const char *said = json_string_value(value);
    int d = fx_placement_dim(said);
    if (d == FX_NO_PLACEMENT || d >= v->whole.ndim)
        return weft_pass_refuse(plan->pass, "placements_in: %s: expected R or S(dim) of %d dimensions, found \"%s\"",
                                input, v->whole.ndim, said ? said : "no text");
    if (d < 0 || plan->mesh.axes.extent[axis] < 2) return NULL;
    placed_shard(&v->want, d, axis);
    if (placed_fitting(&plan->mesh, &v->want, d, v->whole.dims[d]) == v->want.naxes[d]) return NULL;
    return weft_pass_left(plan->pass, NULL, WEFT_REASON_SHAPE,
                          "input %s: dimension %d of extent %lld leaves some of %lld ranks without elements", input, d,
                          (long long)v->whole.dims[d],
                          (long long)spmd_extent(&plan->mesh, placed_dim_axes(&v->want, d)));
}

static weft_status place_input(spmd_plan *plan, const char *input, const json_t *value) {
    const name *n = interner_find(&plan->program->names, input, strlen(input));
    spmd_var *v = spmd_var_of(plan, n ? block_find_own(plan->block, n) : NULL);
    int naxes = plan->mesh.axes.naxes;
    if (!v) return weft_pass_refuse(plan->pass, "placements_in: the graph has no input \"%s\"", input);
    if (v->var->dist) return NULL; /* it was read with the graph, and annotated so */
    if (json_is_array(value) ? (int)json_array_size(value) != naxes : naxes != 1)
        return weft_pass_refuse(plan->pass,
                                "placements_in: %s: expected a list of placements, one for each of %d mesh "
                                "axes",
                                input, naxes);
    v->want = (axes_placed){.naxes = {0}};
    for (int a = 0; a < naxes; a++)
        TRY(place_along(plan, v, input, a, json_is_array(value) ? json_array_get(value, (size_t)a) : value));
    v->is_fixed = true;
    return NULL;
}

weft_status spmd_fx_read(spmd_plan *plan) {
    json_t *document = NULL, *value;
    const char *key;
    TRY(read_document(plan, &document));
    weft_status status = NULL;
    json_t *placements = json_object_get(document, "placements_in");
    json_object_foreach(placements, key, value) TRY_DONE(place_input(plan, key, value));
    for (size_t k = 0; k < plan->nops; k++) /* a constant is in the graph as it is */
        if (weft_op_attr_bool(plan->ops[k].op, "fx_constant", false))
            for (size_t o = 0; o < plan->ops[k].kind->rule.nout; o++) {
                spmd_var *v = plan->ops[k].out[o];
                if (v) v->is_pinned = true;
            }
done:
    json_decref(document);
    return status;
}

weft_status spmd_fx_mesh(spmd_plan *plan, mesh *out) {
    static const char *const names[] = {"ranks"};
    json_t *document = NULL;
    TRY(read_document(plan, &document));
    int64_t *n = ARENA_ARRAY(&plan->memory, int64_t, 1);
    if (n) *n = json_integer_value(json_object_get(document, "world_size"));
    json_decref(document);
    if (!n) return base_out_of_memory();
    if (*n < 1 || *n > MAX_RANKS)
        return weft_pass_refuse(plan->pass, "the graph has no world_size of 1 to %d ranks", MAX_RANKS);
    int64_t *ranks = ARENA_ARRAY(&plan->memory, int64_t, *n);
    if (!ranks) return base_out_of_memory();
    for (int64_t i = 0; i < *n; i++) ranks[i] = i;
    *out = (mesh){1, n, ranks, names};
    return NULL;
}

/* --- the graph of a rank ------------------------------------------------------------------------------------------ */

static json_t *placement_along(const axes_placed *p, int32_t ndim, int axis) {
    char word[FX_PLACEMENT_WORD];
    fx_placement_word(placed_dim_of(p, ndim, axis), p->partial[axis] - 1, word);
    return json_string(word);
}

/* A text, or a list by mesh axis. */
static json_t *placement_text(const spmd_plan *plan, const axes_placed *p, int32_t ndim) {
    int naxes = plan->mesh.axes.naxes;
    json_t *list = naxes > 1 ? json_array() : placement_along(p, ndim, 0);
    for (int a = 0; naxes > 1 && a < naxes; a++) json_array_append_new(list, placement_along(p, ndim, a));
    return list;
}

static json_t *output_placements(const spmd_plan *plan, size_t noutputs) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < noutputs; i++)
        json_array_append_new(list, placement_text(plan, &(axes_placed){.naxes = {0}}, 0));
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        int64_t column = weft_op_attr_int(op->op, "col", 0);
        if (!op_is(op->op, "fetch") || op->kind->rule.nin != 1 || column < 0) continue;
        json_array_set_new(list, (size_t)column, placement_text(plan, &op->choice->in[0], op->kind->rule.in[0].ndim));
    }
    return list;
}

/* A list by mesh axis has the major axis of a dimension first. */
static weft_status check_order(const spmd_plan *plan) {
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        if (!op_is(op->op, "fetch") || op->kind->rule.nin != 1) continue;
        for (int d = 0; d < op->kind->rule.in[0].ndim; d++)
            for (int i = 1; i < op->choice->in[0].naxes[d]; i++)
                if (op->choice->in[0].axes[d][i] < op->choice->in[0].axes[d][i - 1])
                    return weft_pass_refuse(
                        plan->pass,
                        "placements_out: output %lld: dimension %d is sharded by mesh axis %d before "
                        "%d, which a list by mesh axis cannot say",
                        (long long)weft_op_attr_int(op->op, "col", 0), d, op->choice->in[0].axes[d][i - 1],
                        op->choice->in[0].axes[d][i]);
    }
    return NULL;
}

static json_t *integers(const int64_t *values, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < count; i++) json_array_append_new(list, json_integer(values[i]));
    return list;
}

/* All ranks in a row go without saying. */
static bool is_row_of_ranks(const mesh *m) {
    for (int64_t i = 0; m->ndim == 1 && i < m->shape[0]; i++)
        if (m->ids[i] != i) return false;
    return m->ndim == 1;
}

static json_t *mesh_text(const mesh *m) {
    json_t *object = json_object(), *names = m->names ? json_array() : NULL;
    json_object_set_new(object, "shape", integers(m->shape, m->ndim));
    json_object_set_new(object, "ids", integers(m->ids, mesh_size(m)));
    for (int i = 0; names && i < m->ndim; i++) json_array_append_new(names, json_string(m->names[i]));
    if (names) json_object_set_new(object, "dims", names);
    return object;
}

weft_status spmd_fx_write(spmd_plan *plan) {
    json_t *document = NULL;
    TRY(check_order(plan));
    TRY(read_document(plan, &document));
    size_t noutputs = json_array_size(json_object_get(document, "outputs"));
    buffer json;
    buffer_init(&json, &plan->program->context->allocator);
    json_object_set_new(document, "placements_out", output_placements(plan, noutputs));
    if (!is_row_of_ranks(plan->mesh.mesh)) json_object_set_new(document, "mesh", mesh_text(plan->mesh.mesh));
    if (plan->rank >= 0) json_object_set_new(document, "rank", json_integer(plan->rank));
    json_object_set_new(document, "shapes", json_string("local"));
    json_put_value(&json, document);
    json_decref(document);
    weft_status status = buffer_status(&json);
    if (!status) {
        plan->program->fx_json = arena_string(&plan->program->arena, json.bytes, json.nbytes);
        if (!plan->program->fx_json) status = base_out_of_memory();
    }
    buffer_fini(&json);
    return status;
}
