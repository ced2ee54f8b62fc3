/* write_parts.c: what the writers of an FX graph share: errors, names, references, types. */
#include <inttypes.h>
#include <stdio.h>

#include "program/fx/fx.h"
#include "program/grow.h"

weft_status fx_op_error(const weft_op *op, const char *format, ...) {
    char message[512], place[200];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return weft_status_create(WEFT_UNSUPPORTED, op->program->place, "%s: %s", op_place(op, place, sizeof place),
                              message);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static bool is_taken(const fx_writer *w, const char *bytes, size_t nbytes, bool may_be_vars) {
    if (interner_find(&w->names, bytes, nbytes)) return true;
    return !may_be_vars && interner_find(&w->program->names, bytes, nbytes);
}

weft_status fx_take_name(fx_writer *w, const char *stem, size_t nbytes, bool may_be_stem, const name **out) {
    if (may_be_stem && !is_taken(w, stem, nbytes, true)) {
        *out = interner_get(&w->names, stem, nbytes);
        return *out ? NULL : base_out_of_memory();
    }
    const name *base = interner_get(&w->names, stem, nbytes); /* taken from now on, if it was not */
    if (!base) return base_out_of_memory();
    TRY(grow(&w->scratch, &w->suffixes, &w->suffix_capacity, (size_t)base->id + 1, sizeof *w->suffixes));
    buffer candidate;
    buffer_init(&candidate, w->scratch.allocator);
    do {
        candidate.nbytes = 0;
        buffer_append(&candidate, stem, nbytes);
        buffer_format(&candidate, "_%u", ++w->suffixes[base->id]);
    } while (!candidate.failed && is_taken(w, candidate.bytes, candidate.nbytes, false));
    weft_status status = buffer_status(&candidate);
    if (!status && !(*out = interner_get(&w->names, candidate.bytes, candidate.nbytes))) status = base_out_of_memory();
    buffer_fini(&candidate);
    return status;
}

void fx_put_name(buffer *out, const name *n) {
    json_put_string(out, n->bytes, n->nbytes);
}

void fx_put_entry(buffer *section, const buffer *entry) {
    buffer_text(section, section->nbytes ? ",\n" : "\n");
    buffer_append(section, entry->bytes, entry->nbytes);
}

weft_status fx_put_shape(buffer *out, const weft_program *p, const weft_var *v) {
    if (v->kind == WEFT_SELECTED_ROWS || v->kind == WEFT_DENSE_TENSOR_ARRAY || v->kind == WEFT_STEP_SCOPES)
        return weft_status_create(WEFT_UNSUPPORTED, p->place, "\"%s\" is no dense tensor: this form has no other",
                                  v->name->bytes);
    if (!v->has_tensor) {
        buffer_text(out, "null");
        return NULL;
    }
    buffer_text(out, "[");
    for (uint32_t i = 0; i < v->ndim; i++)
        buffer_format(out, "%s%" PRId64, i ? "," : "", v->dims[i] < 0 ? -1 : v->dims[i]);
    buffer_text(out, "]");
    return weft_dtype_name((weft_dtype)v->dtype)
               ? NULL
               : weft_status_create(WEFT_UNSUPPORTED, p->place, "\"%s\" has no known dtype", v->name->bytes);
}

void fx_put_dtype(buffer *out, const weft_var *v) {
    if (v->has_tensor)
        buffer_format(out, "\"%s\"", weft_dtype_name((weft_dtype)v->dtype));
    else
        buffer_text(out, "null");
}

/* A member of a list as a node of its own: under its var's name, by which the reader knows it, if that is free. */
static weft_status add_getitem(fx_writer *w, const weft_op *op, const weft_var *v, fx_current *c) {
    if (c->list->value.items[c->item].is_list)
        return fx_op_error(op, "\"%s\" is within a list of lists", v->name->bytes);
    TRY(fx_take_name(w, v->name->bytes, v->name->nbytes, true, &c->name));
    bool is_own = name_is(c->name, v->name->bytes);
    buffer line;
    weft_status status;
    buffer_init(&line, w->scratch.allocator);
    buffer_text(&line, "{\"name\":");
    fx_put_name(&line, c->name);
    buffer_text(&line, ",\"op\":\"call\",\"target\":\"getitem\",\"args\":[{\"ref\":");
    fx_put_name(&line, c->list->name);
    buffer_format(&line, "},%u],\"kwargs\":{", c->item);
    if (!is_own) {
        buffer_text(&line, "\"weft.out\":[");
        fx_put_name(&line, v->name);
        buffer_text(&line, "]");
    }
    buffer_text(&line, "},\"shape\":");
    TRY_DONE(fx_put_shape(&line, w->program, v));
    buffer_text(&line, ",\"dtype\":");
    fx_put_dtype(&line, v);
    buffer_text(&line, "}");
    TRY_DONE(buffer_status(&line));
    fx_put_entry(&w->nodes, &line);
done:
    buffer_fini(&line);
    return status;
}

weft_status fx_put_ref(fx_writer *w, buffer *out, const weft_op *op, const weft_var *v) {
    fx_current *c = &w->current[v->id];
    if (!c->name && !c->list) return fx_op_error(op, "\"%s\" has no value here", v->name->bytes);
    if (!c->name) TRY(add_getitem(w, op, v, c));
    buffer_text(out, "{\"ref\":");
    fx_put_name(out, c->name);
    buffer_text(out, "}");
    return NULL;
}

void fx_stamp_outputs(fx_writer *w, const weft_op *op) {
    uint32_t index = 0;
    w->stamp++;
    FOR_EACH_ARG(op, true, u) {
        w->own[u->var_id] = (fx_own){w->stamp, index++};
    }
}
