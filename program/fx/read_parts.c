/* read_parts.c: what the readers of an FX graph share: problems, names, vars and their types, numbers. */
#include <math.h>

#include "program/fx/fx.h"
#include "program/grow.h"

enum { MOST_PROBLEMS = 100 };

weft_status fx_keep_problem(fx_reader *r, weft_status found) {
    if (!found || weft_status_code(found) != WEFT_PARSE || r->nproblems >= MOST_PROBLEMS) return found;
    if (r->nproblems++ == 0)
        r->first_problem = found;
    else
        weft_status_free(found);
    return NULL;
}

/* --- names and vars ----------------------------------------------------------------------------------------------- */

weft_status fx_name_of(fx_reader *r, const json_t *entry, const char *what, const name **out) {
    const json_t *n = json_object_get(entry, "name");
    if (!json_is_object(entry)) FX_FAIL(r, "expected %s as an object", what);
    if (!json_is_string(n) || json_string_length(n) == 0) FX_FAIL(r, "%s has no name", what);
    return program_name(r->program, json_string_value(n), json_string_length(n), out);
}

fx_value *fx_find(const fx_reader *r, const json_t *ref) {
    const name *n = interner_find(&r->program->names, json_string_value(ref), json_string_length(ref));
    return n && n->id < r->value_capacity ? r->values[n->id] : NULL;
}

weft_status fx_find_before(fx_reader *r, const fx_node *n, const json_t *ref, const fx_value **out) {
    *out = fx_find(r, ref);
    if (*out) return NULL;
    FX_FAIL(r, "node \"%s\": \"%.100s\" is not defined before it", n->name->bytes, json_string_value(ref));
}

weft_status fx_define(fx_reader *r, const name *n, const fx_value *value) {
    TRY(grow(&r->scratch, &r->values, &r->value_capacity, (size_t)n->id + 1, sizeof *r->values));
    if (r->values[n->id]) FX_FAIL(r, "\"%s\" is defined twice", n->bytes);
    fx_value *kept = arena_copy(&r->scratch, value, sizeof *value);
    if (!kept) return base_out_of_memory();
    kept->name = n;
    r->values[n->id] = kept;
    return NULL;
}

weft_status fx_add_var(fx_reader *r, const char *wanted, size_t nbytes, weft_var **out) {
    const name *n;
    TRY(form_charge(r->program, r->budget, nbytes + sizeof **out));
    TRY(program_name(r->program, wanted, nbytes, &n));
    if (block_find_own(r->block, n)) TRY(program_unique_name(r->program, n->bytes, &n));
    return block_add_var(r->block, n, out);
}

static weft_status get_extents(fx_reader *r, const char *who, const json_t *shape, int64_t *dims) {
    size_t ndim = json_array_size(shape);
    for (size_t i = 0; i < ndim; i++) {
        const json_t *extent = json_array_get(shape, i);
        if (!json_is_integer(extent) || json_integer_value(extent) < -1)
            FX_FAIL(r, "\"%s\": expected the extents of its shape to be integers, 0 or more (-1: unknown)", who);
        dims[i] = json_integer_value(extent);
    }
    return NULL;
}

weft_status fx_set_type(fx_reader *r, const char *who, const json_t *shape, const json_t *dtype, weft_var *v) {
    bool no_shape = !shape || json_is_null(shape), no_dtype = !dtype || json_is_null(dtype);
    if (no_shape && no_dtype) return NULL;
    if (no_shape != no_dtype) FX_FAIL(r, "\"%s\": expected shape and dtype, or null for both", who);
    if (!json_is_array(shape) || !json_is_string(dtype))
        FX_FAIL(r, "\"%s\": expected shape as a list of integers and dtype as a word", who);
    if (json_array_size(shape) > WEFT_MAX_RANK)
        FX_FAIL(r, "\"%s\" has %zu axes, at most %d are possible", who, json_array_size(shape), WEFT_MAX_RANK);
    v->dtype = weft_dtype_parse(json_string_value(dtype));
    if (v->dtype == WEFT_DTYPE_NONE) FX_FAIL(r, "\"%s\": unknown dtype \"%.40s\"", who, json_string_value(dtype));
    v->ndim = (uint32_t)json_array_size(shape);
    v->dims = ARENA_ARRAY(&r->program->arena, int64_t, v->ndim ? v->ndim : 1);
    if (!v->dims) return base_out_of_memory();
    v->has_tensor = true;
    return get_extents(r, who, shape, v->dims);
}

static weft_status facts_of(fx_reader *r, const weft_var *v, fx_var_facts **out) {
    TRY(grow(&r->scratch, &r->facts, &r->facts_capacity, (size_t)v->id + 1, sizeof *r->facts));
    *out = &r->facts[v->id];
    return NULL;
}

weft_status fx_set_view(fx_reader *r, const weft_var *v, const weft_var *of) {
    fx_var_facts *facts, *from;
    if (v == of) return NULL;
    TRY(facts_of(r, v->id > of->id ? v : of, &facts)); /* room for both */
    from = &r->facts[of->id];
    r->facts[v->id].root = from->root ? from->root : of->id + 1;
    return NULL;
}

weft_status fx_set_input(fx_reader *r, const weft_var *v) {
    fx_var_facts *facts;
    TRY(facts_of(r, v, &facts));
    facts->is_input = true;
    return NULL;
}

/* What a graph writes of its inputs outlives the step. */
weft_status fx_set_written(fx_reader *r, const weft_var *v) {
    fx_var_facts *facts;
    TRY(facts_of(r, v, &facts));
    weft_var *root = program_var(r->program, facts->root ? facts->root - 1 : v->id);
    if (root->id < r->facts_capacity && r->facts[root->id].is_input) {
        root->persistable = root->has_persistable = true;
        var_changed(root);
    }
    return NULL;
}

weft_status fx_ring_of(fx_reader *r, const char *who, const json_t *group, int64_t *out) {
    const name *n = interner_find(&r->program->names, json_string_value(group), json_string_length(group));
    if (!n || n->id >= r->group_capacity || !r->group_rings[n->id])
        FX_FAIL(r, "node \"%s\": groups have no \"%.100s\"", who, json_string_value(group));
    *out = r->group_rings[n->id] - 1;
    return NULL;
}

bool fx_number(const json_t *value, double *out) {
    const json_t *f = json_is_object(value) && json_object_size(value) == 1 ? json_object_get(value, "f") : NULL;
    if (json_is_number(f ? f : value)) return *out = json_number_value(f ? f : value), true;
    if (!json_is_string(f)) return false;
    const char *word = json_string_value(f);
    bool negative = *word == '-';
    if (strcmp(word + negative, "inf") == 0)
        *out = negative ? -HUGE_VAL : HUGE_VAL;
    else if (strcmp(word, "nan") == 0)
        *out = (double)NAN;
    else
        return false;
    return true;
}

bool fx_is_node_key(const char *key) {
    static const char *const keys[] = {"name", "op", "target", "args", "kwargs", "shape", "dtype"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}
