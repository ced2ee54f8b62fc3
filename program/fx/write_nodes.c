/* write_nodes.c: an op as a node: the member of a list (getitem), the node as which it was read (fx_node), a
 * collective that PyTorch has, or weft.<op type>; in this order. */
#include <inttypes.h>

#include "program/fx/fx.h"

typedef struct node {
    const weft_op *op;
    const fx_row *row;   /* a collective's */
    json_t *text;        /* fx_node; NULL: of no use */
    const fx_list *list; /* getitem: of what */
    uint32_t item;
    fx_value value;
    weft_var **inputs, **outputs; /* in order of slots; outputs: those of the value */
    uint32_t ninputs, noutputs;
} node;

/* --- outputs of the value ----------------------------------------------------------------------------------------- */

static void take_slot(node *n, const slot *s) {
    for (uint32_t i = 0; s && i < s->nargs; i++) n->outputs[n->noutputs++] = slot_var(n->op, s, i);
}

/* What the row says is the value; where it writes in place and nothing else, that. */
static void take_row_outputs(node *n, const fx_row *row) {
    for (uint32_t i = 0; i < row->nouts; i++)
        if (row->outs[i].writes < 0) take_slot(n, op_find_slot(n->op, true, row->outs[i].slot));
    for (uint32_t i = 0; i < row->nouts && !n->noutputs; i++)
        take_slot(n, op_find_slot(n->op, true, row->outs[i].slot));
}

static bool row_is_list(const fx_row *row) {
    bool is_list = false;
    for (uint32_t i = 0; i < row->nouts; i++) is_list = is_list || (row->outs[i].writes < 0 && row->outs[i].is_list);
    return is_list;
}

static weft_status new_list(fx_writer *w, size_t count, fx_value *out) {
    *out = (fx_value){.is_list = true, .count = (uint32_t)count};
    out->items = ARENA_ARRAY(&w->scratch, fx_value, count ? count : 1);
    return out->items ? NULL : base_out_of_memory();
}

static weft_status flat_value(fx_writer *w, node *n, bool is_list) {
    if (!is_list && n->noutputs == 1) return n->value = (fx_value){.var = n->outputs[0]}, NULL;
    TRY(new_list(w, n->noutputs, &n->value));
    for (uint32_t i = 0; i < n->noutputs; i++) n->value.items[i].var = n->outputs[i];
    return NULL;
}

/* "out" of fx_node: lists of numbers of outputs, in which null is a null. */
static weft_status value_of(fx_writer *w, const node *n, const json_t *out, fx_value *value, uint32_t *next, bool *ok) {
    *value = (fx_value){.is_null = true};
    if (json_is_null(out)) return NULL;
    if (!json_is_array(out)) {
        *ok = *ok && json_is_integer(out) && json_integer_value(out) == *next && *next < n->noutputs;
        if (*ok) *value = (fx_value){.var = n->outputs[(*next)++]};
        return NULL;
    }
    TRY(new_list(w, json_array_size(out), value));
    for (uint32_t i = 0; i < value->count; i++) TRY(value_of(w, n, json_array_get(out, i), &value->items[i], next, ok));
    return NULL;
}

static weft_status text_value(fx_writer *w, node *n, bool *out_ok) {
    const json_t *out = json_object_get(n->text, "out");
    uint32_t next = 0;
    *out_ok = true;
    if (json_is_null(out)) { /* it has none: what it writes is what it was given */
        n->noutputs = 0;
        return value_of(w, n, out, &n->value, &next, out_ok);
    }
    if (out && !json_is_array(out)) return *out_ok = false, NULL;
    if (!out) {
        *out_ok = n->noutputs == 1;
        return *out_ok ? flat_value(w, n, false) : NULL;
    }
    TRY(value_of(w, n, out, &n->value, &next, out_ok));
    *out_ok = *out_ok && next == n->noutputs;
    return NULL;
}

/* --- which node --------------------------------------------------------------------------------------------------- */

/* Whether the tensors of a value are `vars`, one by one. */
static bool are_leaves(const fx_value *value, weft_var *const *vars, uint32_t *at) {
    if (value->var) return vars[(*at)++] == value->var;
    for (uint32_t i = 0; i < value->count; i++)
        if (!are_leaves(&value->items[i], vars, at)) return false;
    return true;
}

static bool is_value(const fx_value *value, weft_var *const *vars, uint32_t count) {
    uint32_t at = 0;
    return fx_ntensors(value) == count && are_leaves(value, vars, &at);
}

static weft_status as_getitem(fx_writer *w, node *n, bool *out_is) {
    const slot *x = op_find_slot(n->op, false, "X");
    *out_is = false;
    if (!(op_is(n->op, "getitem") || op_is(n->op, "getitem_list")) || !n->ninputs || !x || op_nslots(n->op, false) != 1)
        return NULL;
    const fx_current *c = &w->current[n->inputs[0]->id];
    if (!c->list) return NULL;
    const fx_value *member = &c->list->value.items[c->item];
    n->noutputs = 0;
    take_slot(n, op_find_slot(n->op, true, "Out"));
    if (!is_value(member, n->inputs, n->ninputs) || n->noutputs != n->ninputs) return NULL;
    if (member->is_list != (json_object_get(n->text, "out") != NULL)) return NULL;
    n->list = c->list;
    n->item = c->item;
    *out_is = true;
    return member->is_list ? text_value(w, n, out_is) : flat_value(w, n, false);
}

/* Marks of arguments are in range and of vars that have a name. */
static bool marks_fit(const node *n, const json_t *arg) {
    const char *key;
    json_t *item;
    size_t i;
    const json_t *mark = json_is_object(arg) && json_object_size(arg) == 1 ? json_object_get(arg, "arg") : NULL;
    if (json_is_array(mark)) {
        json_int_t first = json_integer_value(json_array_get(mark, 0)),
                   count = json_integer_value(json_array_get(mark, 1));
        return json_array_size(mark) == 2 && first >= 0 && count >= 0 && first <= n->ninputs &&
               count <= (json_int_t)n->ninputs - first;
    }
    if (mark) {
        json_int_t k = json_is_integer(mark) ? json_integer_value(mark) : -1;
        return k >= 0 && k < n->ninputs && !name_is(n->inputs[k]->name, "@EMPTY@");
    }
    if (json_is_array(arg)) {
        json_array_foreach(arg, i, item) {
            if (!marks_fit(n, item)) return false;
        }
    } else if (json_is_object(arg)) {
        json_object_foreach((json_t *)arg, key, item) {
            if (!marks_fit(n, item)) return false;
        }
    }
    return true;
}

/* An op of its target's name writes in place what it reads first, if anything. */
static bool unknown_agrees(const node *n) {
    const slot *out = op_find_slot(n->op, true, "Out"), *written = op_find_slot(n->op, true, "args_out");
    if (!out || op_nslots(n->op, true) != 1u + (written != NULL)) return false;
    for (uint32_t i = 0; written && i < written->nargs; i++)
        if (i >= n->ninputs || slot_var(n->op, written, i) != n->inputs[i]) return false;
    return true;
}

static weft_status as_text(fx_writer *w, node *n, bool *out_is) {
    const json_t *target = json_object_get(n->text, "target"), *args = json_object_get(n->text, "args"),
                 *kwargs = json_object_get(n->text, "kwargs");
    *out_is = false;
    if (!json_is_string(target) || !json_is_array(args) || !json_is_object(kwargs)) return NULL;
    const fx_row *row = fx_table_find(&w->table, json_string_value(target), json_string_length(target));
    while (row && !(op_is(n->op, row->op_type) && fx_outputs_agree(n->op, row))) row = row->next;
    if (!row && (!name_is(n->op->type, json_string_value(target)) || !unknown_agrees(n))) return NULL;
    if (!marks_fit(n, args) || !marks_fit(n, kwargs)) return NULL;
    n->noutputs = 0;
    if (row)
        take_row_outputs(n, row);
    else
        take_slot(n, op_find_slot(n->op, true, "Out"));
    return text_value(w, n, out_is);
}

static weft_status as_collective(fx_writer *w, node *n, bool *out_is) {
    n->row = fx_find_collective(w, n->op);
    *out_is = n->row != NULL;
    if (!n->row) return NULL;
    bool is_list = row_is_list(n->row);
    n->noutputs = 0;
    take_row_outputs(n, n->row);
    *out_is = is_list ? n->noutputs == n->ninputs : n->noutputs == 1;
    if (*out_is) return flat_value(w, n, is_list);
    n->row = NULL;
    return NULL;
}

static weft_status gather(fx_writer *w, node *n) {
    uint32_t nin = 0, nout = 0;
    FOR_EACH_ARG(n->op, false, u) {
        nin += u != NULL;
    }
    FOR_EACH_ARG(n->op, true, u) {
        nout += u != NULL;
    }
    n->inputs = ARENA_ARRAY(&w->scratch, weft_var *, nin + 1);
    n->outputs = ARENA_ARRAY(&w->scratch, weft_var *, nout + 1);
    if (!n->inputs || !n->outputs) return base_out_of_memory();
    FOR_EACH_ARG(n->op, false, u) {
        n->inputs[n->ninputs++] = use_var(n->op->program, u);
    }
    const weft_attr *a = op_find_attr(n->op, FX_NODE);
    if (!a || a->type != ATTR_STRING) return NULL;
    weft_status status = json_read(w->program->context, attr_text(a).bytes, a->count, FX_NODE, &n->text);
    if (weft_status_code(status) != WEFT_PARSE) return status;
    weft_status reported = fx_op_error(n->op, FX_NODE ": %s", weft_status_message(status));
    weft_status_free(status);
    return reported;
}

static weft_status choose(fx_writer *w, node *n) {
    bool is;
    TRY(gather(w, n));
    TRY(as_getitem(w, n, &is));
    if (is) return NULL;
    TRY(as_text(w, n, &is));
    if (is) return NULL;
    json_decref(n->text);
    n->text = NULL;
    TRY(as_collective(w, n, &is));
    if (is) return NULL;
    n->noutputs = 0;
    FOR_EACH_ARG(n->op, true, u) {
        n->outputs[n->noutputs++] = use_var(n->op->program, u);
    }
    return flat_value(w, n, n->noutputs != 1);
}

/* --- its text ----------------------------------------------------------------------------------------------------- */

static bool is_defined(const fx_writer *w, const weft_var *v) {
    return w->current[v->id].name || w->current[v->id].list;
}

/* A list's member that is written again needs a node of its own first, under the name that is its due. */
static weft_status name_var(fx_writer *w, const node *n, const weft_var *v) {
    buffer ref;
    buffer_init(&ref, w->scratch.allocator);
    weft_status status = fx_put_ref(w, &ref, n->op, v);
    if (!status) status = buffer_status(&ref);
    buffer_fini(&ref);
    return status;
}

static weft_status take_name(fx_writer *w, const node *n, const name **out) {
    const weft_attr *given = op_find_attr(n->op, FX_NAME);
    const weft_var *v = n->value.var;
    if (given && given->type == ATTR_STRING && given->count)
        return fx_take_name(w, given->u.s, given->count, true, out);
    if (v && is_defined(w, v)) TRY(name_var(w, n, v));
    if (v) return fx_take_name(w, v->name->bytes, v->name->nbytes, !is_defined(w, v), out);
    const char *dot = strrchr(n->op->type->bytes, '.'), *stem = dot && dot[1] ? dot + 1 : n->op->type->bytes;
    return fx_take_name(w, stem, strlen(stem), true, out);
}

/* weft.out for the tensors of a value; *any: one of them is not a new var of the usual name, which `path` ends in. */
static weft_status put_outs(fx_writer *w, const node *n, const fx_value *value, buffer *path, buffer *out, bool *any) {
    size_t length = path->nbytes;
    if (value->is_list) {
        for (uint32_t i = 0; i < value->count; i++) {
            buffer_format(path, ".%u", i);
            TRY(put_outs(w, n, &value->items[i], path, out, any));
            path->nbytes = length;
        }
        return NULL;
    }
    if (!value->var) return NULL;
    const name *v = value->var->name;
    bool is_new = !is_defined(w, value->var),
         is_usual = v->nbytes == length && memcmp(v->bytes, path->bytes, length) == 0;
    buffer_text(out, out->nbytes ? "," : "");
    *any = *any || !is_new || !is_usual;
    if (!is_new) return fx_put_ref(w, out, n->op, value->var);
    if (is_usual)
        buffer_text(out, "null");
    else
        fx_put_name(out, v);
    return NULL;
}

static weft_status put_out_kwarg(fx_writer *w, const node *n, const name *node_name, const char **comma) {
    buffer path, outs;
    bool any = false;
    buffer_init(&path, w->scratch.allocator);
    buffer_init(&outs, w->scratch.allocator);
    buffer_append(&path, node_name->bytes, node_name->nbytes);
    weft_status status;
    TRY_DONE(put_outs(w, n, &n->value, &path, &outs, &any));
    TRY_DONE(buffer_status(&path));
    TRY_DONE(buffer_status(&outs));
    if (any) {
        buffer_format(&w->line, "%s\"weft.out\":[", *comma);
        buffer_append(&w->line, outs.bytes, outs.nbytes);
        buffer_text(&w->line, "]");
        *comma = ",";
    }
done:
    buffer_fini(&outs);
    buffer_fini(&path);
    return status;
}

static weft_status put_list_ref(fx_writer *w, const node *n, uint32_t first, uint32_t count) {
    const fx_list *list = count ? w->current[n->inputs[first]->id].list : NULL;
    bool is_whole = list && is_value(&list->value, n->inputs + first, count);
    for (uint32_t i = 0; i < count && is_whole; i++) is_whole = w->current[n->inputs[first + i]->id].list == list;
    if (is_whole) {
        buffer_text(&w->line, "{\"ref\":");
        fx_put_name(&w->line, list->name);
        buffer_text(&w->line, "}");
        return NULL;
    }
    buffer_text(&w->line, "[");
    for (uint32_t i = 0; i < count; i++) {
        buffer_text(&w->line, i ? "," : "");
        TRY(fx_put_ref(w, &w->line, n->op, n->inputs[first + i]));
    }
    buffer_text(&w->line, "]");
    return NULL;
}

static weft_status put_arg(fx_writer *w, const node *n, const json_t *arg) {
    buffer *out = &w->line;
    const json_t *mark = json_is_object(arg) && json_object_size(arg) == 1 ? json_object_get(arg, "arg") : NULL;
    if (json_is_array(mark))
        return put_list_ref(w, n, (uint32_t)json_integer_value(json_array_get(mark, 0)),
                            (uint32_t)json_integer_value(json_array_get(mark, 1)));
    if (mark) return fx_put_ref(w, out, n->op, n->inputs[json_integer_value(mark)]);
    if (json_is_array(arg)) {
        buffer_text(out, "[");
        for (size_t i = 0; i < json_array_size(arg); i++) {
            buffer_text(out, i ? "," : "");
            TRY(put_arg(w, n, json_array_get(arg, i)));
        }
        buffer_text(out, "]");
    } else if (json_is_object(arg)) {
        const char *before = "{";
        for (void *it = json_object_iter((json_t *)arg); it; it = json_object_iter_next((json_t *)arg, it)) {
            buffer_text(out, before);
            before = ",";
            json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
            buffer_text(out, ":");
            TRY(put_arg(w, n, json_object_iter_value(it)));
        }
        buffer_text(out, json_object_size(arg) ? "}" : "{}");
    } else {
        json_put_value(out, arg);
    }
    return NULL;
}

static weft_status put_shape(buffer *out, const weft_program *p, const fx_value *value, bool as_dtype) {
    if (!value->is_list) {
        if (!value->var) return buffer_text(out, "null"), NULL;
        if (!as_dtype) return fx_put_shape(out, p, value->var);
        fx_put_dtype(out, value->var);
        return NULL;
    }
    buffer_text(out, "[");
    for (uint32_t i = 0; i < value->count; i++) {
        buffer_text(out, i ? "," : "");
        TRY(put_shape(out, p, &value->items[i], as_dtype));
    }
    buffer_text(out, "]");
    return NULL;
}

static void put_target(buffer *out, const node *n) {
    const weft_op *op = n->op;
    const json_t *target = json_object_get(n->text, "target");
    if (n->list)
        buffer_text(out, "\"getitem\"");
    else if (n->text)
        json_put_value(out, target);
    else if (n->row)
        json_put_string(out, n->row->target, strlen(n->row->target));
    else {
        buffer_text(out, "\"" FX_OWN);
        size_t quote = out->nbytes;
        fx_put_name(out, op->type);
        if (!out->failed)
            memmove(out->bytes + quote, out->bytes + quote + 1, out->nbytes - quote - 1); /* its opening quote */
        if (!out->failed) out->nbytes--;
    }
}

static weft_status put_args(fx_writer *w, const node *n, const name *node_name) {
    buffer *out = &w->line;
    const char *comma = "";
    buffer_text(out, ",\"args\":");
    if (n->list) {
        buffer_text(out, "[{\"ref\":");
        fx_put_name(out, n->list->name);
        buffer_format(out, "},%u],\"kwargs\":{", n->item);
    } else if (n->text) {
        TRY(put_arg(w, n, json_object_get(n->text, "args")));
        buffer_text(out, ",\"kwargs\":");
        const json_t *kwargs = json_object_get(n->text, "kwargs");
        TRY(put_arg(w, n, kwargs));
        if (!out->failed) out->nbytes--; /* its brace */
        comma = json_object_size(kwargs) ? "," : "";
    } else if (n->row) {
        buffer_text(out, "[");
        TRY(fx_put_collective_args(w, n->op, n->row));
        buffer_text(out, "],\"kwargs\":{");
        size_t start = out->nbytes;
        TRY(fx_put_other_attrs(w, n->op, n->row, ""));
        comma = out->nbytes > start ? "," : "";
    } else {
        buffer_text(out, "[],\"kwargs\":{");
        TRY(fx_put_own_args(w, n->op));
        comma = ",";
    }
    TRY(put_out_kwarg(w, n, node_name, &comma));
    if (fx_has_dist(n->op)) {
        buffer_text(out, comma);
        fx_put_dist(out, n->op->dist);
    }
    buffer_text(out, "}");
    return NULL;
}

static void put_extra(buffer *out, const json_t *extra) {
    for (void *it = json_object_iter((json_t *)extra); it; it = json_object_iter_next((json_t *)extra, it)) {
        buffer_text(out, ",");
        json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(out, ":");
        json_put_value(out, json_object_iter_value(it));
    }
}

static void set_members(fx_writer *w, const fx_list *list, uint32_t item, const fx_value *value) {
    if (value->var) w->current[value->var->id] = (fx_current){.list = list, .item = item};
    for (uint32_t i = 0; i < value->count; i++) set_members(w, list, item, &value->items[i]);
}

/* From here on its vars are known by this node. */
static weft_status define(fx_writer *w, const node *n, const name *node_name) {
    if (n->value.var) {
        w->current[n->value.var->id] = (fx_current){.name = node_name};
        return NULL;
    }
    fx_list *list = ARENA_NEW(&w->scratch, fx_list);
    if (!list) return base_out_of_memory();
    *list = (fx_list){.name = node_name, .value = n->value};
    for (uint32_t i = 0; i < list->value.count; i++) set_members(w, list, i, &list->value.items[i]);
    return NULL;
}

static weft_status put_node(fx_writer *w, const node *n, const name *node_name) {
    buffer *out = &w->line;
    out->nbytes = 0;
    buffer_text(out, "{\"name\":");
    fx_put_name(out, node_name);
    buffer_text(out, ",\"op\":\"call\",\"target\":");
    put_target(out, n);
    TRY(put_args(w, n, node_name));
    buffer_text(out, ",\"shape\":");
    TRY(put_shape(out, w->program, &n->value, false));
    buffer_text(out, ",\"dtype\":");
    TRY(put_shape(out, w->program, &n->value, true));
    put_extra(out, json_object_get(n->text, "extra"));
    buffer_text(out, "}");
    TRY(buffer_status(out));
    fx_put_entry(&w->nodes, out);
    return NULL;
}

weft_status fx_write_op(fx_writer *w, const weft_op *op) {
    node n = {.op = op};
    const name *node_name;
    weft_status status;
    TRY_DONE(choose(w, &n));
    TRY_DONE(take_name(w, &n, &node_name));
    TRY_DONE(put_node(w, &n, node_name));
    TRY_DONE(define(w, &n, node_name));
done:
    json_decref(n.text);
    return status;
}
