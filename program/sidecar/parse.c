/* parse.c: NAME.dist.json to a program's meshes, rings and dist attrs. Schema: docs/sidecar.md.
 *
 * What the program does not have (a var, an op at its index) is passed over, with a warning: it may be misspelt. A
 * sidecar of a program before some pass may well name more. What is malformed is a problem; all are reported, and the
 * program keeps what was right. */
#include <stdio.h>
#include <stdlib.h>

#include "base/nearest.h"
#include "program/grow.h"
#include "program/sidecar/sidecar.h"

/* --- rings -------------------------------------------------------------------------------------------------------- */

static weft_status read_ring(sidecar_reader *r, const char *key, const json_t *group) {
    char what[64], *end;
    snprintf(what, sizeof what, "ring %.40s", key);
    ring found = {.id = strtoll(key, &end, 10)};
    size_t count = 0;
    bool ok;
    if (!*key || *end || !json_is_object(group)) {
        sidecar_problem(r, "process_groups: expected an object by ring id, found \"%.40s\"", key);
        return NULL;
    }
    TRY(sidecar_ints(r, json_object_get(group, "ranks"), what, &found.ranks, &count, &ok));
    if (!ok || count > INT32_MAX) return NULL;
    found.nranks = (int)count;
    if (json_object_get(group, "type")) TRY(sidecar_string(r, json_object_get(group, "type"), what, &found.type));
    weft_status status = ring_check(&found, r->place);
    if (!status) return program_put_ring(r->program, &found);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    sidecar_problem(r, "%s: %s", what, weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static weft_status read_rings(sidecar_reader *r, const json_t *groups) {
    const char *key;
    json_t *group;
    if (!groups) return NULL;
    if (!json_is_object(groups)) {
        sidecar_problem(r, "expected \"process_groups\" to be an object");
        return NULL;
    }
    json_object_foreach((json_t *)groups, key, group) TRY(read_ring(r, key, group));
    return NULL;
}

/* --- meshes ------------------------------------------------------------------------------------------------------- */

static weft_status read_dim_names(sidecar_reader *r, const json_t *list, const char *what, mesh *m, bool *out_ok) {
    *out_ok = true;
    if (!list || json_is_null(list)) return NULL;
    *out_ok = json_is_array(list) && json_array_size(list) == (size_t)m->ndim;
    if (!*out_ok) {
        sidecar_problem(r, "%s: expected \"dims\" to name its %d axes", what, m->ndim);
        return NULL;
    }
    const char **names = ARENA_ARRAY(&r->program->arena, const char *, m->ndim);
    if (!names) return base_out_of_memory();
    for (size_t i = 0; i < (size_t)m->ndim; i++) {
        TRY(sidecar_string(r, json_array_get(list, i), what, &names[i]));
        if (!names[i]) *out_ok = false;
    }
    m->names = names;
    return NULL;
}

/* A mesh has no count of its ids: it must be that of its shape before anything reads them. */
static bool ids_fit(sidecar_reader *r, const mesh *m, size_t nids, const char *what) {
    size_t wanted = 1;
    for (int i = 0; i < m->ndim; i++)
        if (m->shape[i] < 1 || !base_mul(wanted, (size_t)m->shape[i], &wanted)) wanted = SIZE_MAX;
    if (wanted == nids) return true;
    sidecar_problem(r, "%s: expected as many ids as its shape has places, found %zu", what, nids);
    return false;
}

static weft_status read_mesh(sidecar_reader *r, const json_t *object, size_t index) {
    static const char *const read[] = {"shape", "ids", "dims", NULL};
    char what[64];
    snprintf(what, sizeof what, "mesh %zu", index);
    sidecar_only(r, object, what, read);
    mesh m = {0};
    size_t ndim = 0, nids = 0;
    bool ok;
    TRY(sidecar_ints(r, json_object_get(object, "shape"), what, &m.shape, &ndim, &ok));
    if (ok) TRY(sidecar_ints(r, json_object_get(object, "ids"), what, &m.ids, &nids, &ok));
    if (!ok) return NULL;
    if (ndim > 32) {
        sidecar_problem(r, "%s: expected at most 32 axes, found %zu", what, ndim);
        return NULL;
    }
    m.ndim = (int)ndim;
    if (!ids_fit(r, &m, nids, what)) return NULL;
    TRY(read_dim_names(r, json_object_get(object, "dims"), what, &m, &ok));
    if (!ok) return NULL;
    weft_status status = mesh_check(&m, r->place);
    if (!status) return program_add_mesh(r->program, &m, &r->meshes[index]);
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    sidecar_problem(r, "%s: %s", what, weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static weft_status read_meshes(sidecar_reader *r, const json_t *meshes) {
    json_t *item;
    size_t i;
    if (!meshes) return NULL;
    if (!json_is_array(meshes)) {
        sidecar_problem(r, "expected \"meshes\" to be a list");
        return NULL;
    }
    r->nmeshes = json_array_size(meshes);
    r->meshes = ARENA_ARRAY(&r->scratch, const mesh *, r->nmeshes);
    if (!r->meshes) return base_out_of_memory();
    json_array_foreach(meshes, i, item) {
        TRY(form_charge(r->program, r->budget, 0));
        TRY(read_mesh(r, item, i));
    }
    return NULL;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static weft_status read_var(sidecar_reader *r, weft_var *v, const json_t *entry) {
    static const char *const kept[] = {"priority", "annotated", "chosen", "conflicts", "placed_by", NULL};
    static const sidecar_members known = {.read = sidecar_placed, .kept = kept};
    char what[160];
    snprintf(what, sizeof what, "var \"%.100s\"", v->name->bytes);
    if (json_is_null(entry)) {
        v->dist_is_null = true;
        return NULL;
    }
    if (!json_is_object(entry)) {
        sidecar_problem(r, "%s: expected an object or null", what);
        return NULL;
    }
    TRY(form_charge(r->program, r->budget, sizeof(placement)));
    placement *p = ARENA_NEW(&r->program->arena, placement);
    if (!p) return base_out_of_memory();
    bool ok;
    TRY(sidecar_placement(r, entry, what, p, &ok));
    if (!ok) return NULL;
    v->dist = p;
    v->dist_is_null = false;
    const char *extra = NULL;
    TRY(sidecar_extra(r, entry, what, &known, &extra));
    var_rest *rest;
    if (!extra && !v->rest->dist_extra_json) return NULL;
    TRY(var_rest_get(r->program, v, &rest));
    rest->dist_extra_json = extra;
    return NULL;
}

/* The nearest name is that of a var; which a misspelt one meant. */
static void warn_of_stranger(sidecar_reader *r, const char *unknown) {
    nearest_name nearest = nearest_to(unknown);
    bool is_told = r->nstrangers < SIDECAR_STRANGERS;
    for (size_t i = 0; i < r->program->nall_vars && is_told; i++)
        nearest_try(&nearest, program_var(r->program, i)->name->bytes);
    if (nearest.name)
        sidecar_stranger(r, "vars: the program has no var \"%.100s\": ignored; did you mean \"%.100s\"?", unknown,
                         nearest.name);
    else
        sidecar_stranger(r, "vars: the program has no var \"%.100s\": ignored", unknown);
}

/* `is_own`: no pass has removed vars since it was written. */
static weft_status read_vars(sidecar_reader *r, const json_t *vars, bool is_own) {
    r->nvars = r->program->names.count;
    TRY(vars_by_name(r->program, &r->scratch, &r->vars));
    if (!vars) return NULL;
    if (!json_is_object(vars)) {
        sidecar_problem(r, "expected \"vars\" to be an object");
        return NULL;
    }
    for (void *it = json_object_iter((json_t *)vars); it; it = json_object_iter_next((json_t *)vars, it)) {
        const char *key = json_object_iter_key(it);
        weft_var *v = sidecar_var(r, interner_find(&r->program->names, key, json_object_iter_key_len(it)));
        if (v) TRY(read_var(r, v, json_object_iter_value(it)));
        if (!v && is_own) warn_of_stranger(r, key);
    }
    return NULL;
}

/* --- the rest ----------------------------------------------------------------------------------------------------- */

static weft_status read_params_grads(sidecar_reader *r, const json_t *pairs) {
    weft_program *p = r->program;
    json_t *pair;
    size_t i;
    if (!pairs || json_is_null(pairs)) return NULL;
    if (!json_is_array(pairs)) {
        sidecar_problem(r, "expected \"params_grads\" to be a list of pairs");
        return NULL;
    }
    TRY(form_charge(p, r->budget, json_array_size(pairs) * 2 * sizeof(name *)));
    const name **names = ARENA_ARRAY(&p->arena, const name *, json_array_size(pairs) * 2);
    if (!names) return base_out_of_memory();
    size_t count = 0;
    json_array_foreach(pairs, i, pair) {
        const json_t *param = json_array_get(pair, 0), *grad = json_array_get(pair, 1);
        if (!json_is_string(param) || !json_is_string(grad) || json_array_size(pair) != 2) {
            sidecar_problem(r, "params_grads: expected [param, grad] as entry %zu", i);
            continue;
        }
        TRY(form_charge(p, r->budget, json_string_length(param) + json_string_length(grad)));
        TRY(program_name(p, json_string_value(param), json_string_length(param), &names[2 * count]));
        TRY(program_name(p, json_string_value(grad), json_string_length(grad), &names[2 * count + 1]));
        count++;
    }
    p->params_grads = names;
    p->nparams_grads = count;
    return NULL;
}

static weft_status read_root(sidecar_reader *r, const json_t *root, bool with_ops) {
    static const char *const read[] = {"meshes", "vars", "ops", "process_groups", "params_grads", "rank", "fx", NULL};
    static const char *const kept[] = {"loss", "groups", NULL}; /* recorded so; they are no misspellings */
    static const sidecar_members known = {.read = read, .kept = kept, .is_open = true};
    weft_program *p = r->program;
    const json_t *rank = json_object_get(root, "rank");
    if (!json_is_object(root)) {
        sidecar_problem(r, "expected an object");
        return NULL;
    }
    p->has_dist = true;
    if (rank && !json_is_null(rank)) {
        int64_t value = -1;
        if (sidecar_int(r, rank, "rank", &value) && value < -1)
            sidecar_problem(r, "rank: expected a rank, or -1 for every rank, found %lld", (long long)value);
        else
            p->rank = value;
    }
    TRY(read_rings(r, json_object_get(root, "process_groups")));
    TRY(read_meshes(r, json_object_get(root, "meshes")));
    TRY(read_params_grads(r, json_object_get(root, "params_grads")));
    TRY(read_vars(r, json_object_get(root, "vars"), with_ops));
    if (!with_ops) return NULL;
    if (json_object_get(root, "fx")) TRY(sidecar_string(r, json_object_get(root, "fx"), "fx", &p->fx_json));
    TRY(sidecar_read_ops(r, json_object_get(root, "ops")));
    return sidecar_extra(r, root, "the sidecar", &known, &p->dist_extra_json);
}

weft_status sidecar_parse(weft_program *p, const char *json, size_t nbytes, const char *place, bool with_ops) {
    json_t *root = NULL;
    TRY(json_read(p->context, json, nbytes, place, &root));
    sidecar_reader r = {.program = p, .context = p->context, .place = place};
    size_t budget = form_budget(nbytes);
    if (!base_add(budget, program_nbytes(p), &r.budget)) r.budget = SIZE_MAX;
    arena_init(&r.scratch, &p->context->allocator);
    weft_status status = read_root(&r, root, with_ops);
    sidecar_tell_more_strangers(&r);
    arena_fini(&r.scratch);
    json_decref(root);
    if (!status && r.nproblems > 1) {
        status = weft_status_create(WEFT_PARSE, place, "%zu problems; the first: %s", r.nproblems,
                                    weft_status_message(r.first_problem));
    } else if (!status) {
        status = r.first_problem;
        r.first_problem = NULL;
    }
    weft_status_free(r.first_problem);
    return base_status_at(status, place);
}
