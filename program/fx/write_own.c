/* write_own.c: ops that no graph has, as weft.<op type>: kwargs by slot and by attr (fx/read_own.c reads them). */
#include <inttypes.h>
#include <math.h>

#include "program/fx/fx.h"

/* --- values ------------------------------------------------------------------------------------------------------- */

static void put_number(buffer *out, double value, bool is_float) {
    if (isnan(value)) {
        buffer_text(out, "{\"f\":\"nan\"}");
    } else if (isinf(value)) {
        buffer_format(out, "{\"f\":\"%sinf\"}", value < 0 ? "-" : "");
    } else {
        buffer_text(out, "{\"f\":");
        if (is_float)
            buffer_float(out, (float)value);
        else
            buffer_double(out, value);
        buffer_text(out, "}");
    }
}

static void put_scalar(buffer *out, const scalar *s) {
    switch (s->type) {
    case SCALAR_BOOLEAN: buffer_text(out, s->b ? "true" : "false"); return;
    case SCALAR_LONG: buffer_format(out, "%" PRId64, s->i); return;
    case SCALAR_FLOAT64: put_number(out, s->r, false); return;
    case SCALAR_COMPLEX128:
        buffer_text(out, "{\"complex\":[");
        put_number(out, s->r, false);
        buffer_text(out, ",");
        put_number(out, s->imaginary, false);
        buffer_text(out, "]}");
        return;
    }
}

static bool is_list(attr_type type) {
    return type == ATTR_INTS || type == ATTR_LONGS || type == ATTR_FLOATS || type == ATTR_FLOAT64S ||
           type == ATTR_BOOLEANS || type == ATTR_STRINGS || type == ATTR_VARS || type == ATTR_SCALARS;
}

static void put_element(buffer *out, const weft_attr *a, size_t i) {
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_LONGS: buffer_format(out, "%" PRId64, a->u.ints[i]); return;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: put_number(out, a->u.floats[i], a->type == ATTR_FLOATS); return;
    case ATTR_BOOLEANS: buffer_text(out, a->u.bools[i] ? "true" : "false"); return;
    case ATTR_STRINGS:
    case ATTR_VARS: json_put_string(out, a->u.strings[i]->bytes, a->u.strings[i]->nbytes); return;
    default: put_scalar(out, &a->u.scalars[i]); return;
    }
}

static void put_bare(buffer *out, const weft_attr *a) {
    if (is_list(a->type)) {
        buffer_text(out, "[");
        for (size_t i = 0; i < a->count; i++) {
            buffer_text(out, i ? "," : "");
            put_element(out, a, i);
        }
        buffer_text(out, "]");
        return;
    }
    switch (a->type) {
    case ATTR_FLOAT:
    case ATTR_FLOAT64: put_number(out, a->u.f, a->type == ATTR_FLOAT); return;
    case ATTR_BOOLEAN: buffer_text(out, a->u.b ? "true" : "false"); return;
    case ATTR_STRING:
    case ATTR_VAR: json_put_string(out, attr_text(a).bytes, a->count); return;
    case ATTR_SCALAR: put_scalar(out, a->u.scalar); return;
    default: buffer_format(out, "%" PRId64, a->u.i); return;
    }
}

/* Whether JSON itself shows the type. */
static bool is_plain(const weft_attr *a) {
    switch (a->type) {
    case ATTR_INT:
    case ATTR_FLOAT:
    case ATTR_BOOLEAN:
    case ATTR_STRING: return true;
    case ATTR_INTS:
    case ATTR_FLOATS:
    case ATTR_BOOLEANS:
    case ATTR_STRINGS: return a->count > 0;
    default: return false;
    }
}

weft_status fx_put_attr(buffer *out, const weft_op *op, const weft_attr *a) {
    const char *word = fx_type_word(a->type);
    if (is_plain(a)) {
        put_bare(out, a);
        return NULL;
    }
    if (!word) return fx_op_error(op, "attribute \"%s\" names a block: this form has one", a->name->bytes);
    buffer_format(out, "{\"%s\":", word);
    put_bare(out, a);
    buffer_text(out, "}");
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* What has no value yet is the op's own output (fx/write.c, is_own_output). */
static weft_status put_input(fx_writer *w, const weft_op *op, const weft_var *v) {
    if (name_is(v->name, "@EMPTY@")) {
        buffer_text(&w->line, "null");
        return NULL;
    }
    if (w->current[v->id].name || w->current[v->id].list) return fx_put_ref(w, &w->line, op, v);
    if (fx_is_output(w, v)) {
        buffer_format(&w->line, "{\"out\":%u}", w->own[v->id].index);
        return NULL;
    }
    return fx_op_error(op, "\"%s\" has no value here", v->name->bytes);
}

static weft_status put_slot(fx_writer *w, const weft_op *op, const slot *s) {
    if (s->nargs == 1) return put_input(w, op, slot_var(op, s, 0));
    buffer_text(&w->line, "[");
    for (uint32_t i = 0; i < s->nargs; i++) {
        buffer_text(&w->line, i ? "," : "");
        TRY(put_input(w, op, slot_var(op, s, i)));
    }
    buffer_text(&w->line, "]");
    return NULL;
}

weft_status fx_put_own_args(fx_writer *w, const weft_op *op) {
    buffer *out = &w->line;
    fx_stamp_outputs(w, op);
    for (uint32_t i = 0; i < op_nslots(op, false); i++) {
        fx_put_name(out, op_slot(op, false, i)->name);
        buffer_text(out, ":");
        TRY(put_slot(w, op, op_slot(op, false, i)));
        buffer_text(out, ",");
    }
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const weft_attr *a = &op->attrs[i];
        if (name_is(a->name, FX_NAME) || name_is(a->name, FX_NODE)) continue;
        if (op_find_slot(op, false, a->name->bytes))
            return fx_op_error(op, "\"%s\" is a slot and an attribute", a->name->bytes);
        fx_put_name(out, a->name);
        buffer_text(out, ":");
        TRY(fx_put_attr(out, op, a));
        buffer_text(out, ",");
    }
    buffer_text(out, "\"weft.slots\":{");
    for (uint32_t i = 0; i < op_nslots(op, true); i++) {
        buffer_text(out, i ? "," : "");
        fx_put_name(out, op_slot(op, true, i)->name);
        buffer_format(out, ":%u", op_slot(op, true, i)->nargs);
    }
    buffer_text(out, "}");
    return NULL;
}

bool fx_has_dist(const weft_op *op) {
    const op_dist *d = op->dist;
    return d && (d->execution_stream || d->event_to_record || op_dist_nwaits(d));
}

static void put_member(buffer *out, const char **before, const char *key, const char *value) {
    if (!value) return;
    buffer_format(out, "%s\"%s\":", *before, key);
    json_put_string(out, value, strlen(value));
    *before = ",";
}

void fx_put_dist(buffer *out, const op_dist *d) {
    const char *before = "";
    buffer_text(out, "\"weft.dist\":{");
    put_member(out, &before, "execution_stream", d->execution_stream);
    put_member(out, &before, "event_to_record", d->event_to_record);
    if (op_dist_nwaits(d)) buffer_format(out, "%s\"events_to_wait\":[", before);
    for (size_t i = 0; i < op_dist_nwaits(d); i++) {
        buffer_text(out, i ? "," : "");
        json_put_string(out, d->waits->events[i], strlen(d->waits->events[i]));
    }
    buffer_text(out, op_dist_nwaits(d) ? "]}" : "}");
}
