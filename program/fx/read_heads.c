/* read_heads.c: groups, inputs and outputs of an FX graph: rings, vars that are given, fetch ops. */
#include "program/fx/fx.h"
#include "program/grow.h"

/* --- groups ------------------------------------------------------------------------------------------------------- */

static weft_status get_ranks(fx_reader *r, const char *group, const json_t *list, ring *out) {
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count > INT32_MAX) FX_FAIL(r, "group \"%s\": expected ranks as a list", group);
    int64_t *ranks = ARENA_ARRAY(&r->scratch, int64_t, count ? count : 1);
    if (!ranks) return base_out_of_memory();
    for (size_t i = 0; i < count; i++) {
        if (!json_is_integer(json_array_get(list, i))) FX_FAIL(r, "group \"%s\": expected ranks as integers", group);
        ranks[i] = json_integer_value(json_array_get(list, i));
    }
    out->ranks = ranks;
    out->nranks = (int)count;
    return NULL;
}

static weft_status get_group(fx_reader *r, const name *n, const json_t *group, ring *out) {
    const json_t *size = json_object_get(group, "size"), *id = json_object_get(group, "ring_id"),
                 *type = json_object_get(group, "type");
    if (!json_is_object(group)) FX_FAIL(r, "group \"%s\": expected an object", n->bytes);
    TRY(get_ranks(r, n->bytes, json_object_get(group, "ranks"), out));
    if (size && (!json_is_integer(size) || json_integer_value(size) != out->nranks))
        FX_FAIL(r, "group \"%s\": expected size %d, as many as its ranks", n->bytes, out->nranks);
    if (id && (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX))
        FX_FAIL(r, "group \"%s\": expected ring_id as an integer, 0 or more", n->bytes);
    if (id) out->id = json_integer_value(id);
    if (json_is_string(type)) out->type = json_string_value(type);
    if (program_find_ring(r->program, out->id))
        FX_FAIL(r, "group \"%s\": ring %lld is another group's", n->bytes, (long long)out->id);
    weft_status status = ring_check(out, "");
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY || !status) return status;
    weft_status reported = json_error(&r->text, r->at, "group \"%s\": %s", n->bytes, weft_status_message(status));
    weft_status_free(status);
    return reported;
}

static weft_status read_group(fx_reader *r, const name *n, const json_t *group, size_t index) {
    ring found = {.id = (int64_t)index};
    TRY(get_group(r, n, group, &found));
    TRY(form_charge(r->program, r->budget, (size_t)found.nranks * sizeof(int64_t)));
    TRY(program_put_ring(r->program, &found));
    TRY(grow(&r->scratch, &r->group_rings, &r->group_capacity, (size_t)n->id + 1, sizeof *r->group_rings));
    r->group_rings[n->id] = found.id + 1;
    return NULL;
}

weft_status fx_read_groups(fx_reader *r) {
    json_t *groups;
    weft_status status = NULL;
    TRY(json_take(&r->text, &groups));
    if (!json_is_object(groups)) TRY_DONE(json_error(&r->text, r->at, "expected groups as an object"));
    size_t index = 0;
    for (void *it = json_object_iter(groups); it; it = json_object_iter_next(groups, it)) {
        const name *n;
        TRY_DONE(program_name(r->program, json_object_iter_key(it), json_object_iter_key_len(it), &n));
        TRY_DONE(read_group(r, n, json_object_iter_value(it), index++));
    }
    json_put_value(&r->kept, groups);
done:
    json_decref(groups);
    return status;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static bool has_role(const json_t *entry, const char *role) {
    const json_t *found = json_object_get(entry, "role");
    return json_is_string(found) && strcmp(json_string_value(found), role) == 0;
}

static weft_status read_input(fx_reader *r, const json_t *entry) {
    const name *n;
    weft_var *v;
    TRY(fx_name_of(r, entry, "an input", &n));
    TRY(fx_add_var(r, n->bytes, n->nbytes, &v));
    TRY(fx_define(r, n, &(fx_value){.var = v}));
    TRY(fx_set_type(r, n->bytes, json_object_get(entry, "shape"), json_object_get(entry, "dtype"), v));
    if (!v->has_tensor) v->kind = WEFT_RAW;
    bool is_param = has_role(entry, "param");
    if (is_param || has_role(entry, "grad") || json_is_true(json_object_get(entry, "persistable")))
        v->persistable = v->has_persistable = true;
    if (is_param) v->is_parameter = v->has_is_parameter = true;
    return fx_set_input(r, v);
}

/* Goes through a list and keeps its text. */
static weft_status read_list(fx_reader *r, weft_status (*read)(fx_reader *, const json_t *entry)) {
    bool more;
    TRY(json_next(&r->text, true, &more));
    buffer_text(&r->kept, "[");
    for (bool first = true; more; first = false) {
        json_t *entry;
        r->at = r->text.at;
        TRY(json_take(&r->text, &entry));
        buffer_text(&r->kept, first ? "" : ",");
        json_put_value(&r->kept, entry);
        weft_status status = fx_keep_problem(r, read(r, entry));
        json_decref(entry);
        if (status) return status;
        TRY(form_charge(r->program, r->budget, 0));
        TRY(json_next(&r->text, false, &more));
    }
    buffer_text(&r->kept, "]");
    return NULL;
}

weft_status fx_read_inputs(fx_reader *r) {
    return read_list(r, read_input);
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static weft_status add_fetch(fx_reader *r, weft_var *v, int64_t column) {
    const name *type, *x, *col;
    weft_op *op;
    uint32_t s;
    weft_attr *a;
    TRY(program_name(r->program, "fetch", 5, &type));
    TRY(program_name(r->program, "X", 1, &x));
    TRY(program_name(r->program, "col", 3, &col));
    TRY(op_create(r->program, type, &op));
    TRY(op_append_slot(op, false, x, &s));
    TRY(op_append_arg(op, false, s, v));
    TRY(op_append_attr(op, col, &a));
    a->type = ATTR_INT;
    a->u.i = column;
    weft_block_insert_before(r->block, NULL, op);
    return NULL;
}

static weft_status read_output(fx_reader *r, const json_t *entry) {
    int64_t column = r->noutputs++;
    const json_t *ref = json_object_get(entry, "ref");
    if (!ref) return NULL; /* null or a constant */
    if (!json_is_string(ref)) FX_FAIL(r, "output %lld: expected a name", (long long)column);
    const fx_value *value = fx_find(r, ref);
    if (!value) FX_FAIL(r, "output %lld: \"%.100s\" is not defined", (long long)column, json_string_value(ref));
    if (value->is_broken) return NULL;
    if (!value->var)
        FX_FAIL(r, "output %lld: expected a tensor, \"%s\" is a list", (long long)column, value->name->bytes);
    return add_fetch(r, value->var, column);
}

weft_status fx_read_outputs(fx_reader *r) {
    return read_list(r, read_output);
}
