/* values.c: the small values of a sidecar: integers, meshes, placements. */
#include <stdio.h>
#include <stdlib.h>

#include "base/nearest.h"
#include "dist_attr/dims.h"
#include "program/sidecar/sidecar.h"

void sidecar_problem(sidecar_reader *r, const char *format, ...) {
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    context_diagnose(r->context, WEFT_ERROR, r->place, 0, 0, "%s", message);
    if (r->nproblems++ == 0) r->first_problem = weft_status_create(WEFT_PARSE, r->place, "%s", message);
}

void sidecar_stranger(sidecar_reader *r, const char *format, ...) {
    char message[400];
    va_list args;
    if (r->nstrangers++ >= SIDECAR_STRANGERS) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    context_diagnose(r->context, WEFT_WARNING, r->place, 0, 0, "%s", message);
}

void sidecar_tell_more_strangers(sidecar_reader *r) {
    if (r->nstrangers <= SIDECAR_STRANGERS) return;
    context_diagnose(r->context, WEFT_WARNING, r->place, 0, 0,
                     "and %zu more entries for what the program does not have", r->nstrangers - SIDECAR_STRANGERS);
}

weft_var *sidecar_var(const sidecar_reader *r, const name *n) {
    return n && n->id < r->nvars ? r->vars[n->id] : NULL;
}

static const char *type_word(const json_t *value) {
    if (!value) return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_NULL: return "null";
    default: return "a boolean";
    }
}

bool sidecar_int(sidecar_reader *r, const json_t *value, const char *what, int64_t *out) {
    if (!json_is_integer(value)) {
        sidecar_problem(r, "%s: expected an integer, found %s", what, type_word(value));
        return false;
    }
    *out = json_integer_value(value);
    return true;
}

weft_status sidecar_string(sidecar_reader *r, const json_t *value, const char *what, const char **out) {
    *out = NULL;
    if (json_is_null(value)) return NULL;
    if (!json_is_string(value)) {
        sidecar_problem(r, "%s: expected a string or null, found %s", what, type_word(value));
        return NULL;
    }
    TRY(form_charge(r->program, r->budget, json_string_length(value)));
    *out = arena_string(&r->program->arena, json_string_value(value), json_string_length(value));
    return *out ? NULL : base_out_of_memory();
}

weft_status sidecar_ints(sidecar_reader *r, const json_t *list, const char *what, const int64_t **out,
                         size_t *out_count, bool *out_ok) {
    *out_ok = false;
    if (!json_is_array(list)) {
        sidecar_problem(r, "%s: expected a list of integers, found %s", what, type_word(list));
        return NULL;
    }
    size_t count = json_array_size(list);
    TRY(form_charge(r->program, r->budget, count * sizeof(int64_t)));
    int64_t *values = ARENA_ARRAY(&r->program->arena, int64_t, count);
    if (!values) return base_out_of_memory();
    for (size_t i = 0; i < count; i++)
        if (!sidecar_int(r, json_array_get(list, i), what, &values[i])) return NULL;
    *out = values;
    *out_count = count;
    *out_ok = true;
    return NULL;
}

/* --- members ------------------------------------------------------------------------------------------------------ */

static bool is_among(const char *key, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(key, *list) == 0) return true;
    return false;
}

/* Whether it is kept; of one that may not be there a problem. */
static bool may_keep(sidecar_reader *r, const char *key, const char *what, const sidecar_members *known) {
    const char *const *lists[] = {known->read, known->kept};
    char expected[240] = "";
    size_t n = 0;
    nearest_name nearest = nearest_to(key);
    if (is_among(key, known->kept)) return true;
    for (size_t i = 0; i < 2; i++)
        for (const char *const *k = lists[i]; k && *k; k++) {
            nearest_try(&nearest, *k);
            if (n >= sizeof expected) continue;
            n += (size_t)snprintf(expected + n, sizeof expected - n, "%s%s", n ? ", " : "", *k);
        }
    if (known->is_open && !nearest.name) return true;
    sidecar_problem(r, "%s: unknown member \"%.60s\"%s%.60s%s; known are %s", what, key,
                    nearest.name ? " (did you mean \"" : "", nearest.name ? nearest.name : "",
                    nearest.name ? "\"?)" : "", expected);
    return false;
}

void sidecar_only(sidecar_reader *r, const json_t *object, const char *what, const char *const *read) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (!is_among(key, read)) (void)may_keep(r, key, what, &(sidecar_members){.read = read});
    }
}

weft_status sidecar_extra(sidecar_reader *r, const json_t *object, const char *what, const sidecar_members *known,
                          const char **out) {
    const char *key;
    json_t *value, *extra = NULL;
    weft_status status = NULL;
    char *printed = NULL;
    *out = NULL;
    json_object_foreach((json_t *)object, key, value) {
        if (is_among(key, known->read) || !may_keep(r, key, what, known)) continue;
        if (!extra && !(extra = json_object())) TRY_DONE(base_out_of_memory());
        if (json_object_set_nocheck(extra, key, value)) TRY_DONE(base_out_of_memory());
    }
    if (!extra) return NULL;
    if (!(printed = json_dumps(extra, JSON_COMPACT))) TRY_DONE(base_out_of_memory());
    TRY_DONE(form_charge(r->program, r->budget, strlen(printed)));
    if (!(*out = arena_string(&r->program->arena, printed, strlen(printed)))) TRY_DONE(base_out_of_memory());
done:
    free(printed);
    json_decref(extra);
    return status;
}

const char *const sidecar_placed[] = {"mesh", "dims_mapping", "partial", "batch_dim", "chunk_id", "dynamic_dims", NULL};

/* --- placements --------------------------------------------------------------------------------------------------- */

bool sidecar_mesh(sidecar_reader *r, const json_t *value, const char *what, const mesh **out) {
    int64_t index;
    *out = NULL;
    if (!value || json_is_null(value)) return true;
    if (!sidecar_int(r, value, what, &index)) return false;
    if (index < 0 || (uint64_t)index >= r->nmeshes || !r->meshes[index]) {
        sidecar_problem(r, "%s: expected the index of one of %zu meshes, found %lld", what, r->nmeshes,
                        (long long)index);
        return false;
    }
    *out = r->meshes[index];
    return true;
}

/* A mesh axis by its number, or by its name. */
static bool read_axis(sidecar_reader *r, const json_t *value, const char *what, const mesh *on, int64_t *out) {
    char axes[200];
    if (!json_is_string(value)) return sidecar_int(r, value, what, out);
    const char *said = json_string_value(value);
    *out = form_axis(on, said, json_string_length(value));
    if (*out >= 0) return true;
    sidecar_problem(r, "%s: expected an axis %s, found \"%.60s\"", what, form_axes_text(on, axes, sizeof axes), said);
    return false;
}

static bool set_partial(sidecar_reader *r, int64_t axis, int reduce, const char *what, placement *out) {
    if (axis < 0 || axis >= 32 || reduce < 0) {
        sidecar_problem(r, "%s: expected partial mesh axes from 0 to 31 and a reduce kind, found axis %lld", what,
                        (long long)axis);
        return false;
    }
    out->partial_axes |= (uint32_t)1 << axis;
    out->partial_reduce[axis] = (uint8_t)reduce;
    return true;
}

static int reduce_of(const json_t *value) {
    if (json_is_string(value)) return form_reduce_parse(json_string_value(value), json_string_length(value));
    if (!json_is_integer(value)) return -1;
    json_int_t reduce = json_integer_value(value);
    return reduce >= 0 && reduce <= WEFT_REDUCE_ALL ? (int)reduce : -1;
}

weft_status sidecar_partial(sidecar_reader *r, const json_t *value, const char *what, placement *out) {
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)value, key, item) {
            char *end;
            long long axis = strtoll(key, &end, 10);
            if (!*key || *end) axis = form_axis(out->mesh, key, strlen(key));
            if (!set_partial(r, axis, reduce_of(item), what, out)) return NULL;
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            int64_t axis;
            bool ok = read_axis(r, item, what, out->mesh, &axis);
            if (!ok || !set_partial(r, axis, WEFT_REDUCE_SUM, what, out)) return NULL;
        }
    } else {
        sidecar_problem(r, "%s: expected partial as a list or an object, found %s", what, type_word(value));
    }
    return NULL;
}

/* Flags; all zero is the same as none. */
static weft_status read_dynamic_dims(sidecar_reader *r, const json_t *list, const char *what, placement *out) {
    if (json_is_null(list)) return NULL;
    if (!json_is_array(list) || json_array_size(list) != (size_t)out->ndim) {
        sidecar_problem(r, "%s: expected dynamic_dims with one flag for each of the %d axes", what, out->ndim);
        return NULL;
    }
    uint8_t *flags = arena_alloc(&r->program->arena, (size_t)out->ndim);
    if (!flags) return base_out_of_memory();
    bool any = false;
    for (size_t i = 0; i < (size_t)out->ndim; i++) {
        const json_t *flag = json_array_get(list, i);
        flags[i] = json_is_true(flag) || (json_is_integer(flag) && json_integer_value(flag) != 0);
        any = any || flags[i];
    }
    if (any) out->dynamic_dims = flags;
    return NULL;
}

/* Checks axes against the mesh; a problem is reported and false returned. */
static weft_status check_placement(sidecar_reader *r, const placement *p, const char *what, bool *out_ok) {
    *out_ok = true;
    if (!p->mesh) return NULL;
    weft_status status = placement_check(p, -1, r->place);
    if (!status) return NULL;
    *out_ok = false;
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    sidecar_problem(r, "%s: %s", what, weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* One entry of a dims_mapping: a mesh axis, -1, or a list of mesh axes, major first. */
static bool read_entry(sidecar_reader *r, const json_t *entry, const char *what, const mesh *on, size_t dim,
                       int64_t *out) {
    size_t n = json_is_array(entry) ? json_array_size(entry) : 1;
    *out = -1;
    for (size_t i = 0; i < n; i++) {
        int64_t axis;
        if (!read_axis(r, json_is_array(entry) ? json_array_get(entry, i) : entry, what, on, &axis)) return false;
        if (axis == -1 && !json_is_array(entry)) return true;
        if ((*out = dim_add(*out, axis)) >= 0) continue;
        sidecar_problem(r, "%s: dims_mapping[%zu]: expected -1 or at most %d mesh axes below %d, found %lld", what, dim,
                        DIM_MAX_AXES, MESH_MAX_NDIM, (long long)axis);
        return false;
    }
    return true;
}

weft_status sidecar_dims_mapping(sidecar_reader *r, const json_t *list, const char *what, const mesh *on,
                                 const int64_t **out, size_t *out_count, bool *out_ok) {
    size_t count = json_array_size(list); /* 0 of what is no list */
    if (!json_is_array(list)) return sidecar_ints(r, list, what, out, out_count, out_ok);
    *out_ok = false;
    TRY(form_charge(r->program, r->budget, count * sizeof(int64_t)));
    int64_t *values = ARENA_ARRAY(&r->program->arena, int64_t, count);
    if (!values) return base_out_of_memory();
    for (size_t d = 0; d < count; d++)
        if (!read_entry(r, json_array_get(list, d), what, on, d, &values[d])) return NULL;
    *out = values;
    *out_count = count;
    *out_ok = true;
    return NULL;
}

weft_status sidecar_placement(sidecar_reader *r, const json_t *object, const char *what, placement *out, bool *out_ok) {
    json_t *o = (json_t *)object, *value;
    size_t ndim = 0;
    bool ok;
    *out_ok = false;
    if (!sidecar_mesh(r, json_object_get(o, "mesh"), what, &out->mesh)) return NULL;
    if ((value = json_object_get(o, "dims_mapping"))) {
        TRY(sidecar_dims_mapping(r, value, what, out->mesh, &out->dims_mapping, &ndim, &ok));
        if (!ok) return NULL;
    }
    if (ndim > INT32_MAX) return form_over_budget(r->program, r->budget);
    out->ndim = (int)ndim;
    if ((value = json_object_get(o, "batch_dim")) && !sidecar_int(r, value, what, &out->batch_dim)) return NULL;
    if ((value = json_object_get(o, "chunk_id")) && !sidecar_int(r, value, what, &out->chunk_id)) return NULL;
    if ((value = json_object_get(o, "dynamic_dims"))) TRY(read_dynamic_dims(r, value, what, out));
    if ((value = json_object_get(o, "partial"))) TRY(sidecar_partial(r, value, what, out));
    return check_placement(r, out, what, out_ok);
}
