/* write.c: a program as an FX graph (.fx.json), one entry a line, in the layout of the recorded graphs. The form:
 * docs/fx-form.md.
 *
 * A graph defines each name once, a program may write a var again: so `current` has, at each op, the name of the node
 * that wrote a var last. A node that writes again has a name of its own and names the var in weft.out. Members of the
 * document come in the order in which they were read; what is not of the form is given back as it was. */
#include <inttypes.h>
#include <stdio.h>

#include "program/fx/fx.h"
#include "program/grow.h"

static const char empty_document[] = "{\"schema\":\"fx.json/1\",\"name\":\"program\",\"groups\":{},\"inputs\":[],"
                                     "\"constants\":[],\"nodes\":[],\"outputs\":[]}";

/* --- groups ------------------------------------------------------------------------------------------------------- */

static bool same_ranks(const ring *r, const json_t *ranks) {
    if (json_array_size(ranks) != (size_t)r->nranks) return false;
    for (int i = 0; i < r->nranks; i++)
        if (json_integer_value(json_array_get(ranks, (size_t)i)) != r->ranks[i]) return false;
    return true;
}

static void put_ring(buffer *out, const ring *r, int64_t index) {
    buffer_format(out, "{\"size\":%d,\"ranks\":[", r->nranks);
    for (int i = 0; i < r->nranks; i++) buffer_format(out, "%s%" PRId64, i ? "," : "", r->ranks[i]);
    buffer_text(out, "]");
    if (r->id != index) buffer_format(out, ",\"ring_id\":%" PRId64, r->id);
    if (r->type) {
        buffer_text(out, ",\"type\":");
        json_put_string(out, r->type, strlen(r->type));
    }
    buffer_text(out, "}");
}

/* The groups of the document, then rings that passes made. */
static weft_status put_groups(fx_writer *w, buffer *out) {
    const weft_program *p = w->program;
    const json_t *groups = json_object_get(w->document, "groups");
    int64_t index = 0;
    interner names;
    interner_init(&names, &w->scratch);
    buffer_text(out, "{");
    for (void *it = json_object_iter((json_t *)groups); it; it = json_object_iter_next((json_t *)groups, it), index++) {
        const json_t *group = json_object_iter_value(it), *id = json_object_get(group, "ring_id");
        const name *n = interner_get(&names, json_object_iter_key(it), json_object_iter_key_len(it));
        if (!n) return base_out_of_memory();
        const ring *r = program_find_ring(p, id ? json_integer_value(id) : index);
        if (r) w->groups[r - p->rings] = n;
        buffer_text(out, index ? "," : "");
        fx_put_name(out, n);
        buffer_text(out, ":");
        if (r && !same_ranks(r, json_object_get(group, "ranks")))
            put_ring(out, r, index);
        else
            json_put_value(out, group);
    }
    for (size_t i = 0; i < p->nrings; i++) {
        char word[40];
        if (w->groups[i]) continue;
        int n = snprintf(word, sizeof word, "ring%" PRId64, p->rings[i].id);
        while (interner_find(&names, word, (size_t)n) && (size_t)n + 1 < sizeof word) word[n++] = '_', word[n] = '\0';
        if (!(w->groups[i] = interner_get(&names, word, (size_t)n))) return base_out_of_memory();
        buffer_text(out, index ? "," : "");
        fx_put_name(out, w->groups[i]);
        buffer_text(out, ":");
        put_ring(out, &p->rings[i], index++);
    }
    buffer_text(out, "}");
    return NULL;
}

/* --- inputs and constants ----------------------------------------------------------------------------------------- */

static weft_var *var_of(const fx_writer *w, const json_t *entry) {
    const json_t *n = json_object_get(entry, "name");
    const name *found = n ? interner_find(&w->program->names, json_string_value(n), json_string_length(n)) : NULL;
    return found ? block_find_own(w->block, found) : NULL;
}

static weft_status define(fx_writer *w, const json_t *entry, const weft_var *v) {
    const json_t *n = json_object_get(entry, "name");
    if (!json_is_string(n))
        return weft_status_create(WEFT_INVALID_PROGRAM, w->program->place, "fx: an entry has no name");
    const name *taken = interner_get(&w->names, json_string_value(n), json_string_length(n));
    if (!taken) return base_out_of_memory();
    if (v) w->current[v->id].name = taken;
    return NULL;
}

/* An input as it was, with the type that its var has now. */
static weft_status put_input(fx_writer *w, const json_t *entry) {
    const weft_var *v = var_of(w, entry);
    const char *before = "{";
    TRY(define(w, entry, v));
    w->line.nbytes = 0;
    for (void *it = json_object_iter((json_t *)entry); it; it = json_object_iter_next((json_t *)entry, it)) {
        const char *key = json_object_iter_key(it);
        buffer_text(&w->line, before);
        before = ",";
        json_put_string(&w->line, key, json_object_iter_key_len(it));
        buffer_text(&w->line, ":");
        if (v && strcmp(key, "shape") == 0)
            TRY(fx_put_shape(&w->line, w->program, v));
        else if (v && strcmp(key, "dtype") == 0)
            fx_put_dtype(&w->line, v);
        else
            json_put_value(&w->line, json_object_iter_value(it));
    }
    buffer_text(&w->line, "}");
    fx_put_entry(&w->inputs, &w->line);
    return NULL;
}

/* What the program reads before it writes it, and the document does not name. */
static weft_status add_input(fx_writer *w, const weft_var *v) {
    TRY(fx_take_name(w, v->name->bytes, v->name->nbytes, true, &w->current[v->id].name));
    w->line.nbytes = 0;
    buffer_text(&w->line, "{\"name\":");
    fx_put_name(&w->line, w->current[v->id].name);
    buffer_text(&w->line, ",\"shape\":");
    TRY(fx_put_shape(&w->line, w->program, v));
    buffer_text(&w->line, ",\"dtype\":");
    fx_put_dtype(&w->line, v);
    if (v->is_parameter)
        buffer_text(&w->line, ",\"role\":\"param\"");
    else if (v->persistable)
        buffer_text(&w->line, ",\"persistable\":true");
    buffer_text(&w->line, "}");
    fx_put_entry(&w->inputs, &w->line);
    return NULL;
}

static bool is_constant_op(const fx_writer *w, const weft_op *op) {
    const weft_var *v = op_is(op, "assign_value") ? weft_op_output(op, "Out", 0) : NULL;
    return v && weft_op_attr_bool(op, FX_CONSTANT, false) && w->current[v->id].name;
}

/* coalesce_tensor names what it places among its inputs too, though nothing has a value before. */
static bool is_own_output(const fx_writer *w, const weft_var *v) {
    return !v->persistable && fx_is_output(w, v);
}

/* Numbers the last writes and finds what is read before it is written. */
static weft_status find_inputs(fx_writer *w) {
    uint32_t number = 0;
    FOR_EACH_OP(op, w->block) {
        number++;
        fx_stamp_outputs(w, op);
        FOR_EACH_ARG(op, false, u) {
            bool is_known = w->current[u->var_id].name || w->last_writes[u->var_id];
            weft_var *v = use_var(op->program, u);
            if (is_known || name_is(v->name, "@EMPTY@") || is_own_output(w, v)) continue;
            TRY(add_input(w, v));
        }
        FOR_EACH_ARG(op, true, u) {
            w->last_writes[u->var_id] = number;
        }
    }
    return NULL;
}

static weft_status begin_inputs(fx_writer *w) {
    static const char *const sections[] = {"constants", "inputs"};
    for (int k = 0; k < 2; k++) {
        const json_t *list = json_object_get(w->document, sections[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            const json_t *entry = json_array_get(list, i);
            TRY(k ? put_input(w, entry) : define(w, entry, var_of(w, entry)));
        }
    }
    return find_inputs(w);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool is_fetch(const weft_op *op) {
    return (op_is(op, "fetch") || op_is(op, "fetch_v2")) && weft_op_ninputs(op, "X") == 1;
}

/* A fetch of what nothing writes later is an output of the graph. */
static weft_status take_fetch(fx_writer *w, const weft_op *op, uint32_t number, bool *out_taken) {
    int64_t column = weft_op_attr_int(op, "col", 0);
    weft_var *v = weft_op_input(op, "X", 0);
    *out_taken = is_fetch(op) && column >= 0 && (uint64_t)column < w->nfetched && !w->fetched[column] &&
                 w->last_writes[v->id] <= number;
    if (!*out_taken) return NULL;
    buffer scratch;
    buffer_init(&scratch, w->scratch.allocator);
    weft_status status = fx_put_ref(w, &scratch, op, v);
    if (!status) status = buffer_status(&scratch);
    buffer_fini(&scratch);
    w->fetched[column] = v;
    w->outputs[column] = w->current[v->id].name;
    return status;
}

static weft_status write_ops(fx_writer *w) {
    uint32_t number = 0;
    const weft_op *fused = NULL; /* the last op of those that a node has already */
    FOR_EACH_OP(op, w->block) {
        bool taken = false;
        number++;
        if (!fused) TRY(fx_write_fused(w, op, &fused));
        if (fused) {
            if (op == fused) fused = NULL;
            continue;
        }
        if (is_constant_op(w, op)) continue;
        if (is_fetch(op)) TRY(take_fetch(w, op, number, &taken));
        if (!taken) TRY(fx_write_op(w, op));
    }
    return NULL;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

/* An output as it was, of the name that its value has now. */
static void put_output(fx_writer *w, buffer *out, size_t column, const json_t *entry) {
    const name *n = w->outputs[column];
    bool had_ref = json_object_get(entry, "ref") != NULL;
    if (!had_ref && !n) {
        json_put_value(out, entry);
    } else if (!n) {
        buffer_text(out, "null");
    } else {
        buffer_text(out, "{\"ref\":");
        fx_put_name(out, n);
        for (void *it = had_ref ? json_object_iter((json_t *)entry) : NULL; it;
             it = json_object_iter_next((json_t *)entry, it)) {
            if (strcmp(json_object_iter_key(it), "ref") == 0) continue;
            buffer_text(out, ",");
            json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
            buffer_text(out, ":");
            json_put_value(out, json_object_iter_value(it));
        }
        buffer_text(out, "}");
    }
}

static void put_outputs(fx_writer *w, buffer *out) {
    const json_t *list = json_object_get(w->document, "outputs");
    size_t count = json_array_size(list);
    for (size_t i = 0; i < w->nfetched; i++)
        if (w->outputs[i] && i >= count) count = i + 1;
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++) {
        buffer_text(out, i ? ",\n" : "\n");
        put_output(w, out, i, json_array_get(list, i));
    }
    buffer_text(out, count ? "\n]" : "]");
}

/* --- the document ------------------------------------------------------------------------------------------------- */

static void put_section(buffer *out, const buffer *entries) {
    buffer_text(out, "[");
    buffer_append(out, entries->bytes, entries->nbytes);
    buffer_text(out, entries->nbytes ? "\n]" : "]");
}

static void put_lines(buffer *out, const json_t *list) {
    buffer_text(out, "[");
    for (size_t i = 0; i < json_array_size(list); i++) {
        buffer_text(out, i ? ",\n" : "\n");
        json_put_value(out, json_array_get(list, i));
    }
    buffer_text(out, json_array_size(list) ? "\n]" : "]");
}

/* The value of a member of the document. `groups`: their text. */
static void put_member(fx_writer *w, buffer *out, const char *key, const json_t *value, const buffer *groups) {
    if (strcmp(key, "groups") == 0)
        buffer_append(out, groups->bytes, groups->nbytes);
    else if (strcmp(key, "inputs") == 0)
        put_section(out, &w->inputs);
    else if (strcmp(key, "constants") == 0)
        put_lines(out, value);
    else if (strcmp(key, "nodes") == 0)
        put_section(out, &w->nodes);
    else if (strcmp(key, "outputs") == 0)
        put_outputs(w, out);
    else if (strcmp(key, "placements") == 0 && w->placements.nbytes)
        buffer_append(out, w->placements.bytes, w->placements.nbytes);
    else if (value)
        json_put_value(out, value);
}

static void put_document(fx_writer *w, buffer *out, const buffer *groups) {
    static const char *const always[] = {"groups", "inputs", "nodes", "outputs"};
    const char *before = "{\n";
    for (void *it = json_object_iter(w->document); it; it = json_object_iter_next(w->document, it)) {
        buffer_text(out, before);
        before = ",\n";
        json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(out, ": ");
        put_member(w, out, json_object_iter_key(it), json_object_iter_value(it), groups);
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        if (json_object_get(w->document, always[i])) continue;
        buffer_format(out, "%s\"%s\": ", before, always[i]);
        before = ",\n";
        put_member(w, out, always[i], NULL, groups);
    }
    if (w->placements.nbytes && !json_object_get(w->document, "placements")) {
        buffer_format(out, "%s\"placements\": ", before);
        put_member(w, out, "placements", NULL, groups);
    }
    buffer_text(out, "\n}\n");
}

static weft_status check_document(const fx_writer *w) {
    static const char *const lists[] = {"inputs", "constants", "outputs"};
    const json_t *groups = json_object_get(w->document, "groups");
    bool is_sound = json_is_object(w->document) && (!groups || json_is_object(groups));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const json_t *list = json_object_get(w->document, lists[i]);
        if (list && !json_is_array(list)) is_sound = false;
    }
    if (is_sound) return NULL;
    return weft_status_create(
        WEFT_INVALID_PROGRAM, w->program->place,
        "fx: expected an object with groups as an object, inputs, constants and outputs as lists");
}

static weft_status begin(fx_writer *w) {
    const weft_program *p = w->program;
    const char *json = p->fx_json ? p->fx_json : empty_document;
    if (p->nblocks != 1)
        return weft_status_create(WEFT_UNSUPPORTED, p->place, "%zu blocks: this form has one", p->nblocks);
    TRY(json_read(p->context, json, strlen(json), "fx", &w->document));
    TRY(check_document(w));
    TRY(fx_table_init(&w->table, &w->scratch));
    interner_init(&w->names, &w->scratch);
    w->nfetched = json_array_size(json_object_get(w->document, "outputs"));
    FOR_EACH_OP(op, w->block) {
        w->nfetched += is_fetch(op);
    }
    w->current = ARENA_ARRAY(&w->scratch, fx_current, p->nall_vars + 1);
    w->last_writes = ARENA_ARRAY(&w->scratch, uint32_t, p->nall_vars + 1);
    w->own = ARENA_ARRAY(&w->scratch, fx_own, p->nall_vars + 1);
    w->groups = ARENA_ARRAY(&w->scratch, const name *, p->nrings + 1);
    w->fetched = ARENA_ARRAY(&w->scratch, weft_var *, w->nfetched + 1);
    w->outputs = ARENA_ARRAY(&w->scratch, const name *, w->nfetched + 1);
    bool ok = w->current && w->last_writes && w->own && w->groups && w->fetched && w->outputs;
    return ok ? NULL : base_out_of_memory();
}

static weft_status write_program(fx_writer *w, buffer *out, buffer *groups) {
    TRY(begin(w));
    TRY(put_groups(w, groups));
    TRY(begin_inputs(w));
    TRY(write_ops(w));
    TRY(fx_list_placements(w));
    put_document(w, out, groups);
    TRY(buffer_status(groups));
    TRY(buffer_status(&w->inputs));
    TRY(buffer_status(&w->nodes));
    TRY(buffer_status(&w->line));
    return buffer_status(out);
}

weft_status fx_print(const weft_program *p, buffer *out) {
    fx_writer w = {.program = p, .block = p->blocks[0]};
    buffer groups;
    arena_init(&w.scratch, &p->context->allocator);
    buffer_init(&groups, &p->context->allocator);
    buffer_init(&w.inputs, &p->context->allocator);
    buffer_init(&w.nodes, &p->context->allocator);
    buffer_init(&w.placements, &p->context->allocator);
    buffer_init(&w.line, &p->context->allocator);
    weft_status status = write_program(&w, out, &groups);
    buffer_fini(&w.line);
    buffer_fini(&w.placements);
    buffer_fini(&w.nodes);
    buffer_fini(&w.inputs);
    buffer_fini(&groups);
    fx_table_fini(&w.table);
    json_decref(w.document);
    arena_fini(&w.scratch);
    return status;
}
