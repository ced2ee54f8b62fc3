/* read_placed.c: the mesh of an FX graph, and how inputs, outputs and other values lie on it. A graph that names no
 * mesh is one of all ranks in a row. How its inputs and outputs lie is left to who asks for it, since who runs it gives
 * each rank its parts. */
#include "dist_attr/dims.h"
#include "program/fx/fx.h"

#include <stdio.h>

/* --- the mesh ----------------------------------------------------------------------------------------------------- */

static weft_status get_numbers(fx_reader *r, const json_t *list, const char *what, int64_t **out, size_t *out_count) {
    size_t count = json_array_size(list);
    if (!json_is_array(list)) FX_FAIL(r, "mesh: expected %s as a list", what);
    TRY(form_charge(r->program, r->budget, count * sizeof(int64_t)));
    int64_t *numbers = ARENA_ARRAY(&r->scratch, int64_t, count + 1);
    if (!numbers) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        if (!json_is_integer(json_array_get(list, i))) FX_FAIL(r, "mesh: expected %s as integers", what);
        numbers[i] = json_integer_value(json_array_get(list, i));
    }
    *out = numbers;
    *out_count = count;
    return NULL;
}

/* Its ranks: those that are listed, else 0, 1, ... */
static weft_status get_ids(fx_reader *r, const json_t *list, mesh *m) {
    size_t count = 0, wanted = 1;
    int64_t *ids = NULL;
    for (int i = 0; i < m->ndim; i++)
        if (m->shape[i] < 1 || !base_mul(wanted, (size_t)m->shape[i], &wanted) || wanted > MAX_RANKS)
            FX_FAIL(r, "mesh: expected a shape of 1 to %d ranks", MAX_RANKS);
    if (list) {
        TRY(get_numbers(r, list, "ids", &ids, &count));
        if (count != wanted) FX_FAIL(r, "mesh: expected %zu ids, as many as its shape has, found %zu", wanted, count);
    } else {
        TRY(form_charge(r->program, r->budget, wanted * sizeof *ids));
        if (!(ids = ARENA_ARRAY(&r->scratch, int64_t, wanted))) return base_out_of_memory();
        for (size_t i = 0; i < wanted; i++) ids[i] = (int64_t)i;
    }
    m->ids = ids;
    return NULL;
}

static weft_status get_axis_names(fx_reader *r, const json_t *list, mesh *m) {
    if (!list) return NULL;
    if (json_array_size(list) != (size_t)m->ndim) FX_FAIL(r, "mesh: expected dims as a list of %d names", m->ndim);
    const char **names = ARENA_ARRAY(&r->scratch, const char *, m->ndim);
    if (!names) return base_out_of_memory();
    for (int i = 0; i < m->ndim; i++) {
        names[i] = json_string_value(json_array_get(list, (size_t)i));
        if (!names[i]) FX_FAIL(r, "mesh: expected dims as a list of %d names", m->ndim);
    }
    m->names = names;
    return NULL;
}

static weft_status get_mesh(fx_reader *r, const json_t *object) {
    mesh m = {0};
    int64_t *shape;
    size_t ndim;
    if (!json_is_object(object)) FX_FAIL(r, "mesh: expected an object");
    TRY(get_numbers(r, json_object_get(object, "shape"), "a shape", &shape, &ndim));
    if (ndim < 1 || ndim > MESH_MAX_NDIM)
        FX_FAIL(r, "mesh: expected 1 to %d axes, found %zu", (int)MESH_MAX_NDIM, ndim);
    m.ndim = (int)ndim;
    m.shape = shape;
    TRY(get_ids(r, json_object_get(object, "ids"), &m));
    TRY(get_axis_names(r, json_object_get(object, "dims"), &m));
    weft_status status = mesh_check(&m, "");
    if (!status) return program_add_mesh(r->program, &m, &r->mesh);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status reported = json_error(&r->text, r->at, "%s", weft_status_message(status));
    weft_status_free(status);
    return reported;
}

weft_status fx_read_mesh(fx_reader *r) {
    json_t *object;
    TRY(json_take(&r->text, &object));
    weft_status status = get_mesh(r, object);
    if (!status) json_put_value(&r->kept, object);
    json_decref(object);
    return status;
}

/* --- placements_in ------------------------------------------------------------------------------------------------ */

int fx_placement_dim(const char *said) {
    static const char *const forms[] = {"Shard(dim=%d)%n", "Shard(%d)%n", "S(%d)%n", "S%d%n"};
    if (!said) return FX_NO_PLACEMENT;
    if (strcmp(said, "R") == 0 || strcmp(said, "Replicate()") == 0) return FX_REPLICATED;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        int d = -1, end = 0;
        if (sscanf(said, forms[i], &d, &end) == 1 && end > 0 && !said[end] && d >= 0) return d;
    }
    return FX_NO_PLACEMENT;
}

/* The reduce of "P(sum)"; -1: it is another placement. */
static int reduce_of(const char *said) {
    char word[16];
    int end = 0;
    bool is_partial = said && sscanf(said, "P(%15[a-z])%n", word, &end) == 1 && end > 0 && !said[end];
    return is_partial ? form_reduce_parse(word, strlen(word)) : -1;
}

/* `what` and `who`: in messages. `sums`: it may be partial. */
static weft_status place(fx_reader *r, const mesh *on, const char *what, const char *who, const json_t *value,
                         bool sums, weft_var *v) {
    int64_t mapping[WEFT_MAX_RANK];
    placement made = {.mesh = on, .ndim = (int)v->ndim, .dims_mapping = mapping}, *p;
    int naxes = on->ndim;
    if (json_is_array(value) ? json_array_size(value) != (size_t)naxes : naxes != 1)
        FX_FAIL(r, "%s: %.100s: expected a list of placements, one for each of %d mesh axes", what, who, naxes);
    for (uint32_t d = 0; d < v->ndim && d < WEFT_MAX_RANK; d++) mapping[d] = -1;
    for (int a = 0; a < naxes; a++) {
        const char *said = json_string_value(json_is_array(value) ? json_array_get(value, (size_t)a) : value);
        int d = fx_placement_dim(said), reduce = sums ? reduce_of(said) : -1;
        if (reduce >= 0) {
            made.partial_axes |= UINT32_C(1) << a;
            made.partial_reduce[a] = (uint8_t)reduce;
            continue;
        }
        if (d == FX_NO_PLACEMENT || d >= (int)v->ndim || d >= WEFT_MAX_RANK)
            FX_FAIL(r, "%s: %.100s: expected R or S(dim) of %u dimensions, found \"%.40s\"", what, who, v->ndim,
                    said ? said : "no text");
        if (d >= 0) mapping[d] = dim_add(mapping[d], a);
        if (d >= 0 && mapping[d] < -1)
            FX_FAIL(r, "%s: %.100s: more than %d mesh axes shard dimension %d", what, who, DIM_MAX_AXES, d);
    }
    TRY(placement_clone(r->program, &made, &p));
    v->dist = p;
    return NULL;
}

static weft_status place_input(fx_reader *r, const char *input, const json_t *value) {
    const name *n = interner_find(&r->program->names, input, strlen(input));
    const fx_value *known = n && n->id < r->value_capacity ? r->values[n->id] : NULL;
    if (!known || !known->var) FX_FAIL(r, "placements_in: the graph has no input \"%.100s\"", input);
    return place(r, r->mesh, "placements_in", input, value, false, known->var);
}

/* Takes a member that tells of placements, and keeps its text. */
static weft_status take(fx_reader *r, weft_status (*read)(fx_reader *, const json_t *)) {
    json_t *placements;
    TRY(json_take(&r->text, &placements));
    weft_status status = r->mesh ? read(r, placements) : NULL;
    if (!status) json_put_value(&r->kept, placements);
    json_decref(placements);
    return status;
}

static weft_status place_inputs(fx_reader *r, const json_t *placements) {
    const char *key;
    json_t *value;
    if (!json_is_object(placements)) FX_FAIL(r, "expected placements_in as an object");
    json_object_foreach((json_t *)placements, key, value) TRY(place_input(r, key, value));
    return NULL;
}

weft_status fx_read_placements_in(fx_reader *r) {
    return take(r, place_inputs);
}

/* By column; an input that is an output too lies as it is. */
static weft_status place_outputs(fx_reader *r, const json_t *placements) {
    char column[32];
    if (!json_is_array(placements)) return NULL;
    FOR_EACH_OP(op, r->block) {
        if (!op_is(op, "fetch")) continue;
        int64_t at = weft_op_attr_int(op, "col", 0);
        weft_var *v = use_var(r->program, op_args(op, false));
        const json_t *value = at >= 0 ? json_array_get(placements, (size_t)at) : NULL;
        if (!value || v->dist || !v->has_tensor) continue;
        snprintf(column, sizeof column, "output %lld", (long long)at);
        TRY(place(r, r->mesh, "placements_out", column, value, true, v));
    }
    return NULL;
}

weft_status fx_read_placements_out(fx_reader *r) {
    return take(r, place_outputs);
}

/* --- placements --------------------------------------------------------------------------------------------------- */

weft_status fx_read_world_size(fx_reader *r) {
    json_t *size;
    TRY(json_take(&r->text, &size));
    r->world_size = json_integer_value(size);
    json_put_value(&r->kept, size);
    json_decref(size);
    return NULL;
}

/* The mesh that the graph names, else all ranks in a row; NULL: it does not say how many. */
static weft_status mesh_of_values(fx_reader *r, const mesh **out) {
    static const char *const names[] = {"ranks"};
    mesh m = {.ndim = 1, .shape = &r->world_size, .names = names};
    *out = r->mesh;
    if (r->mesh || r->world_size < 1 || r->world_size > MAX_RANKS) return NULL;
    TRY(get_ids(r, NULL, &m));
    return program_add_mesh(r->program, &m, out);
}

static weft_status place_values(fx_reader *r, const mesh *on, const json_t *placements) {
    const char *key;
    json_t *value;
    if (!json_is_object(placements)) FX_FAIL(r, "expected placements as an object");
    json_object_foreach((json_t *)placements, key, value) {
        const name *n = interner_find(&r->program->names, key, strlen(key));
        weft_var *v = n ? block_find_own(r->block, n) : NULL;
        if (!v || !v->has_tensor) FX_FAIL(r, "placements: the graph has no tensor \"%.100s\"", key);
        if (!v->dist) TRY(place(r, on, "placements", key, value, true, v));
    }
    return NULL;
}

weft_status fx_read_placements(fx_reader *r) {
    json_t *placements;
    const mesh *on;
    TRY(json_take(&r->text, &placements));
    weft_status status = mesh_of_values(r, &on);
    if (!status && on) status = place_values(r, on, placements);
    if (!status) json_put_value(&r->kept, placements);
    json_decref(placements);
    return status;
}
