/* ops.c: the per-op entries of a sidecar, found by block and index and believed only where the type agrees. If
 * most do not agree the sidecar is that of another program: then none is taken. */
#include <stdio.h>

#include "program/sidecar/sidecar.h"

/* --- finding ops -------------------------------------------------------------------------------------------------- */

typedef struct op_table {
    weft_op ***blocks; /* ops by block and index */
} op_table;

static weft_status make_table(sidecar_reader *r, op_table *out) {
    const weft_program *p = r->program;
    out->blocks = ARENA_ARRAY(&r->scratch, weft_op **, p->nblocks);
    if (!out->blocks) return base_out_of_memory();
    for (size_t i = 0; i < p->nblocks; i++) {
        size_t n = 0;
        out->blocks[i] = ARENA_ARRAY(&r->scratch, weft_op *, p->blocks[i]->nops + 1);
        if (!out->blocks[i]) return base_out_of_memory();
        FOR_EACH_OP(op, p->blocks[i]) out->blocks[i][n++] = op;
    }
    return NULL;
}

/* The op that an entry means, NULL if there is none of that place and type. */
static weft_op *find_op(const weft_program *p, const op_table *table, const json_t *entry) {
    const json_t *block = json_object_get(entry, "block"), *idx = json_object_get(entry, "idx"),
                 *type = json_object_get(entry, "type");
    json_int_t b = block ? json_integer_value(block) : 0, i = json_integer_value(idx);
    if (!json_is_integer(idx) || b < 0 || (uint64_t)b >= p->nblocks || i < 0) return NULL;
    if ((uint64_t)i >= p->blocks[b]->nops) return NULL;
    weft_op *op = table->blocks[b][i];
    bool agrees = json_string_length(type) == op->type->nbytes && json_is_string(type) &&
                  memcmp(json_string_value(type), op->type->bytes, op->type->nbytes) == 0;
    return agrees ? op : NULL;
}

/* --- one entry ---------------------------------------------------------------------------------------------------- */

static weft_status read_partials(sidecar_reader *r, const json_t *partials, const char *what, const op_placement *list,
                                 placement *where, size_t count) {
    for (size_t i = 0; partials && i < count; i++) {
        const json_t *value = json_object_getn(partials, list[i].var->bytes, list[i].var->nbytes);
        if (value) TRY(sidecar_partial(r, value, what, &where[i]));
    }
    return NULL;
}

static weft_status read_one_placement(sidecar_reader *r, const json_t *value, const char *what, placement *out,
                                      bool *out_ok) {
    size_t ndim;
    if (json_is_object(value)) {
        sidecar_only(r, value, what, sidecar_placed);
        return sidecar_placement(r, value, what, out, out_ok);
    }
    TRY(sidecar_dims_mapping(r, value, what, out->mesh, &out->dims_mapping, &ndim, out_ok));
    if (*out_ok) out->ndim = (int)ndim;
    return NULL;
}

/* Whether the axes are those of the mesh that the var itself is on. */
static weft_status check_on_own_mesh(const sidecar_reader *r, const op_placement *one, bool *out_fits) {
    const weft_var *v = sidecar_var(r, one->var);
    placement own = *one->placement;
    *out_fits = v && v->dist && v->dist->mesh && v->dist->mesh != own.mesh;
    if (!*out_fits) return NULL;
    own.mesh = v->dist->mesh;
    weft_status status = placement_check(&own, -1, "");
    *out_fits = !status;
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status_free(status);
    return NULL;
}

/* Recorded sidecars give axes of the var's mesh where the op is on another one (Paddle's coalesce_tensor): then on
 * which mesh they are is not known. */
static weft_status check_or_unmesh(sidecar_reader *r, const char *what, placement *p, const op_placement *one) {
    bool fits;
    weft_status status = p->mesh ? placement_check(p, -1, "") : NULL;
    if (!status || weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    weft_status own = check_on_own_mesh(r, one, &fits);
    if (!own && fits) p->mesh = NULL;
    if (!own && !fits) sidecar_problem(r, "%s: var \"%.100s\": %s", what, one->var->bytes, weft_status_message(status));
    weft_status_free(status);
    return own;
}

static weft_status read_placements(sidecar_reader *r, const json_t *object, const char *what, const mesh *m,
                                   op_placement **out, size_t *out_count) {
    if (!object || json_is_null(object)) return NULL;
    if (!json_is_object(object)) {
        sidecar_problem(r, "%s: expected inputs and outputs as objects by var", what);
        return NULL;
    }
    weft_program *p = r->program;
    size_t count = 0, size = json_object_size(object);
    TRY(form_charge(p, r->budget, size * (sizeof(op_placement) + sizeof(placement))));
    op_placement *list = ARENA_ARRAY(&p->arena, op_placement, size);
    placement *where = ARENA_ARRAY(&p->arena, placement, size);
    if (!list || !where) return base_out_of_memory();
    for (void *it = json_object_iter((json_t *)object); it; it = json_object_iter_next((json_t *)object, it)) {
        const char *key = json_object_iter_key(it);
        bool ok;
        if (strcmp(key, "@partial") == 0) continue;
        TRY(form_charge(p, r->budget, json_object_iter_key_len(it)));
        TRY(program_name(p, key, json_object_iter_key_len(it), &list[count].var));
        where[count].mesh = m;
        TRY(read_one_placement(r, json_object_iter_value(it), what, &where[count], &ok));
        list[count].placement = &where[count];
        if (ok) count++;
    }
    TRY(read_partials(r, json_object_get(object, "@partial"), what, list, where, count));
    for (size_t i = 0; i < count; i++) TRY(check_or_unmesh(r, what, &where[i], &list[i]));
    *out = list;
    *out_count = count;
    return NULL;
}

static weft_status read_events(sidecar_reader *r, const json_t *list, const char *what, op_dist *d) {
    size_t count = json_array_size(list);
    if (!list || json_is_null(list)) return NULL;
    if (!json_is_array(list)) {
        sidecar_problem(r, "%s: expected events_to_wait to be a list", what);
        return NULL;
    }
    op_waits *waits;
    TRY(form_charge(r->program, r->budget, sizeof *waits + count * sizeof *waits->events));
    TRY(op_waits_create(r->program, count, &waits));
    waits->count = 0;
    for (size_t i = 0; i < count; i++) {
        TRY(sidecar_string(r, json_array_get(list, i), what, &waits->events[waits->count]));
        if (waits->events[waits->count]) waits->count++;
    }
    d->waits = waits;
    return NULL;
}

static weft_status read_strings(sidecar_reader *r, const json_t *entry, const char *what, op_dist *d) {
    const json_t *value;
    if ((value = json_object_get(entry, "execution_stream"))) TRY(sidecar_string(r, value, what, &d->execution_stream));
    if (d->execution_stream && strcmp(d->execution_stream, "default") == 0) d->execution_stream = NULL;
    if ((value = json_object_get(entry, "event_to_record"))) TRY(sidecar_string(r, value, what, &d->event_to_record));
    return read_events(r, json_object_get(entry, "events_to_wait"), what, d);
}

/* Most ops that a pass of ours gave a stream or an event have nothing more. */
static weft_status keep_rest(sidecar_reader *r, op_dist *d, const op_dist_rest *rest) {
    op_dist_rest *kept;
    if (op_dist_rest_is_empty(rest)) return NULL;
    TRY(form_charge(r->program, r->budget, sizeof *kept));
    TRY(op_dist_rest_get(r->program, d, &kept));
    *kept = *rest;
    return NULL;
}

static weft_status read_op(sidecar_reader *r, weft_op *op, const json_t *entry, size_t index) {
    static const char *const read[] = {"block",
                                       "idx",
                                       "type",
                                       "mesh",
                                       "inputs",
                                       "outputs",
                                       "impl_type",
                                       "impl_idx",
                                       "is_recompute",
                                       "execution_stream",
                                       "event_to_record",
                                       "events_to_wait",
                                       NULL};
    static const char *const kept[] = {"stale_names", "dist_attr", NULL};
    static const sidecar_members known = {.read = read, .kept = kept};
    char what[160];
    snprintf(what, sizeof what, "ops entry %zu (%.100s)", index, op->type->bytes);
    TRY(form_charge(r->program, r->budget, sizeof(op_dist)));
    op_dist *d = ARENA_NEW(&r->program->arena, op_dist);
    op_dist_rest rest = {.impl_type = NULL};
    const json_t *value;
    if (!d) return base_out_of_memory();
    if ((value = json_object_get(entry, "impl_idx")) && !sidecar_int(r, value, what, &rest.impl_idx)) return NULL;
    if ((value = json_object_get(entry, "is_recompute"))) {
        rest.has_recompute = true;
        rest.is_recompute = json_is_true(value);
    }
    if (!sidecar_mesh(r, json_object_get(entry, "mesh"), what, &rest.mesh)) return NULL;
    if ((value = json_object_get(entry, "impl_type"))) TRY(sidecar_string(r, value, what, &rest.impl_type));
    TRY(read_strings(r, entry, what, d));
    TRY(read_placements(r, json_object_get(entry, "inputs"), what, rest.mesh, &rest.inputs, &rest.ninputs));
    TRY(read_placements(r, json_object_get(entry, "outputs"), what, rest.mesh, &rest.outputs, &rest.noutputs));
    TRY(sidecar_extra(r, entry, what, &known, &rest.extra_json));
    op->dist = d;
    return keep_rest(r, d, &rest);
}

/* --- all entries -------------------------------------------------------------------------------------------------- */

static void warn_of_strangers(sidecar_reader *r, const json_t *ops, const op_table *table) {
    size_t i;
    json_t *entry;
    json_array_foreach(ops, i, entry) {
        if (find_op(r->program, table, entry)) continue;
        const char *type = json_string_value(json_object_get(entry, "type"));
        sidecar_stranger(r, "ops entry %zu: the program has no op %.100s at index %lld of block %lld: ignored", i,
                         type ? type : "(no type)", (long long)json_integer_value(json_object_get(entry, "idx")),
                         (long long)json_integer_value(json_object_get(entry, "block")));
    }
}

weft_status sidecar_read_ops(sidecar_reader *r, const json_t *ops) {
    op_table table;
    json_t *entry;
    size_t i, agreeing = 0, count = json_array_size(ops);
    if (!ops || json_is_null(ops)) return NULL;
    if (!json_is_array(ops)) {
        sidecar_problem(r, "expected \"ops\" to be a list");
        return NULL;
    }
    TRY(make_table(r, &table));
    json_array_foreach(ops, i, entry) agreeing += find_op(r->program, &table, entry) != NULL;
    if (agreeing * 2 < count) {
        context_diagnose(r->context, WEFT_WARNING, r->place, 0, 0,
                         "only %zu of %zu entries for ops agree with the program: none is taken", agreeing, count);
        return NULL;
    }
    if (agreeing < count) warn_of_strangers(r, ops, &table);
    json_array_foreach(ops, i, entry) {
        weft_op *op = find_op(r->program, &table, entry);
        if (op) TRY(read_op(r, op, entry, i));
    }
    return NULL;
}
