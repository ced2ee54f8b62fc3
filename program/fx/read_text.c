/* read_text.c: the attr fx_node, which lets the writer give a node back as it was: JSON text of its target, args and
 * kwargs in which {"arg": k} stands for the k-th input argument of the op and {"arg": [k, n]} for a list of n that came
 * as one name. A value that is a list stands in "out", by the numbers of the op's outputs; members that are not of the
 * form in "extra". */
#include "program/fx/fx.h"
#include "program/grow.h"

static bool is_arg_mark(const json_t *value) {
    return json_is_object(value) && json_object_size(value) == 1 && json_object_get(value, "arg");
}

/* An argument; *next is the number of the next input. */
static weft_status put_arg(fx_reader *r, const fx_node *n, const json_t *arg, uint32_t *next) {
    buffer *out = &r->made;
    const json_t *ref = fx_ref(arg);
    if (ref) {
        const fx_value *value = fx_find(r, ref);
        uint32_t count = fx_ntensors(value);
        buffer_format(out, value->is_list ? "{\"arg\":[%u,%u]}" : "{\"arg\":%u}", *next, count);
        *next += count;
    } else if (json_is_array(arg)) {
        for (size_t i = 0; i < json_array_size(arg); i++) {
            buffer_text(out, i ? "," : "[");
            TRY(put_arg(r, n, json_array_get(arg, i), next));
        }
        buffer_text(out, json_array_size(arg) ? "]" : "[]");
    } else if (json_is_object(arg)) {
        if (is_arg_mark(arg)) FX_FAIL(r, "node \"%s\": an argument cannot be {\"arg\": ..}", n->name->bytes);
        const char *before = "{";
        for (void *it = json_object_iter((json_t *)arg); it; it = json_object_iter_next((json_t *)arg, it)) {
            buffer_text(out, before);
            before = ",";
            json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
            buffer_text(out, ":");
            TRY(put_arg(r, n, json_object_iter_value(it), next));
        }
        buffer_text(out, json_object_size(arg) ? "}" : "{}");
    } else {
        json_put_value(out, arg);
    }
    return NULL;
}

static uint32_t index_of(const fx_row *row, const char *n) {
    uint32_t i = 0;
    while (i + 1 < row->nnamed && strcmp(row->args[i].name, n) != 0) i++;
    return i;
}

static weft_status put_args(fx_reader *r, const fx_node *n, const fx_row *row, const uint32_t *first) {
    buffer *out = &r->made;
    uint32_t next = 0;
    buffer_text(out, ",\"args\":[");
    for (size_t i = 0; i < json_array_size(n->args); i++) {
        if (first) next = first[i];
        buffer_text(out, i ? "," : "");
        TRY(put_arg(r, n, json_array_get(n->args, i), &next));
    }
    buffer_text(out, "],\"kwargs\":{");
    const char *comma = "";
    for (void *it = json_object_iter((json_t *)n->kwargs); it; it = json_object_iter_next((json_t *)n->kwargs, it)) {
        if (fx_is_own_key(json_object_iter_key(it))) continue;
        if (first) next = first[index_of(row, json_object_iter_key(it))];
        buffer_text(out, comma);
        comma = ",";
        json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(out, ":");
        TRY(put_arg(r, n, json_object_iter_value(it), &next));
    }
    buffer_text(out, "}");
    return NULL;
}

static void put_out(buffer *out, const fx_value *value, uint32_t *next) {
    if (!value->is_list) {
        if (value->var)
            buffer_format(out, "%u", (*next)++);
        else
            buffer_text(out, "null");
        return;
    }
    buffer_text(out, "[");
    for (uint32_t i = 0; i < value->count; i++) {
        buffer_text(out, i ? "," : "");
        put_out(out, &value->items[i], next);
    }
    buffer_text(out, "]");
}

static void put_extra(buffer *out, const json_t *entry) {
    const char *comma = ",\"extra\":{";
    for (void *it = json_object_iter((json_t *)entry); it; it = json_object_iter_next((json_t *)entry, it)) {
        if (fx_is_node_key(json_object_iter_key(it))) continue;
        buffer_text(out, comma);
        comma = ",";
        json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(out, ":");
        json_put_value(out, json_object_iter_value(it));
    }
    buffer_text(out, "}");
}

weft_status fx_append_string(weft_op *op, const char *attr, const char *bytes, size_t nbytes) {
    const name *n;
    weft_attr *a;
    TRY(program_name(op->program, attr, strlen(attr), &n));
    const char *copy = arena_string(&op->program->arena, bytes, nbytes);
    if (!copy) return base_out_of_memory();
    TRY(op_append_attr(op, n, &a));
    a->type = ATTR_STRING;
    attr_set_text(a, (text){copy, nbytes});
    return NULL;
}

weft_status fx_append_node(fx_reader *r, const fx_node *n, const fx_row *row, const uint32_t *first,
                           const fx_value *value, weft_op *op) {
    buffer *out = &r->made;
    uint32_t next = 0;
    out->nbytes = 0;
    buffer_text(out, "{\"target\":");
    json_put_string(out, n->target.bytes, n->target.nbytes);
    TRY(put_args(r, n, row, first));
    if (value->is_list || !value->var) {
        buffer_text(out, ",\"out\":");
        put_out(out, value, &next);
    }
    if (n->has_extra) put_extra(out, n->entry);
    buffer_text(out, "}");
    TRY(buffer_status(out));
    TRY(form_charge(r->program, r->budget, out->nbytes));
    return fx_append_string(op, FX_NODE, out->bytes, out->nbytes);
}
