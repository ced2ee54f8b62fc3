/* write_known.c: collectives and waits that passes made, as the nodes that PyTorch has for them: where a row of
 * fx.def has all their slots and attrs. */
#include <inttypes.h>

#include "program/fx/fx.h"

static const slot *written_as(const weft_op *op, const fx_row *row, const fx_out *out) {
    return op_find_slot(op, false, row->args[out->writes].to);
}

/* What the row writes in place is what the op reads. */
static bool same_args(const weft_op *op, const slot *a, const slot *b) {
    if (!a || !b || a->nargs != b->nargs) return false;
    for (uint32_t i = 0; i < a->nargs; i++)
        if (slot_var(op, a, i) != slot_var(op, b, i)) return false;
    return true;
}

bool fx_outputs_agree(const weft_op *op, const fx_row *row) {
    uint32_t nfound = 0;
    for (uint32_t i = 0; i < row->nouts; i++) {
        const fx_out *out = &row->outs[i];
        const slot *s = op_find_slot(op, true, out->slot);
        nfound += s != NULL;
        if (out->writes >= 0 && !same_args(op, s, written_as(op, row, out))) return false;
        if (out->writes < 0 && !s && !out->is_optional && !out->is_list) return false;
        if (s && !out->is_list && out->writes < 0 && s->nargs != 1) return false;
    }
    return nfound == op_nslots(op, true);
}

/* --- which row ---------------------------------------------------------------------------------------------------- */

static const name *group_of(const fx_writer *w, int64_t ring_id) {
    const ring *r = program_find_ring(w->program, ring_id);
    return r ? w->groups[r - w->program->rings] : NULL;
}

static bool value_fits(const fx_writer *w, const fx_arg *arg, const weft_attr *a) {
    bool is_int = a && (a->type == ATTR_INT || a->type == ATTR_LONG);
    switch (arg->type) {
    case FX_INT: return is_int;
    case FX_INTS: return a && (a->type == ATTR_INTS || a->type == ATTR_LONGS);
    case FX_RING: return (!a || is_int) && group_of(w, a ? a->u.i : 0);
    case FX_REDUCE_TYPE: return (!a || is_int) && fx_reduce_name(a ? a->u.i : 0);
    case FX_BOOL: return a && a->type == ATTR_BOOLEAN;
    default: return false;
    }
}

static bool arg_fits(const fx_writer *w, const weft_op *op, const fx_arg *arg) {
    const slot *s;
    const weft_attr *a;
    switch (arg->kind) {
    case FX_TENSOR:
    case FX_TENSORS:
        s = op_find_slot(op, false, arg->to);
        for (uint32_t i = 0; s && i < s->nargs; i++)
            if (name_is(slot_var(op, s, i)->name, "@EMPTY@")) return false;
        return s && (arg->kind == FX_TENSORS || s->nargs == 1);
    case FX_VALUE: return value_fits(w, arg, op_find_attr(op, arg->to));
    case FX_IMPLIED:
        a = op_find_attr(op, arg->to);
        return a && a->type == ATTR_BOOLEAN && a->u.b == json_is_true(arg->literal);
    default: return true;
    }
}

static bool row_fits(const fx_writer *w, const weft_op *op, const fx_row *row) {
    uint32_t nslots = 0;
    if (!op_is(op, row->op_type) || !fx_outputs_agree(op, row)) return false;
    for (uint32_t i = 0; i < row->nargs; i++) {
        if (!arg_fits(w, op, &row->args[i])) return false;
        nslots += row->args[i].kind <= FX_TENSORS;
    }
    return nslots == op_nslots(op, false);
}

/* One that writes in place before one that does not. */
const fx_row *fx_find_collective(const fx_writer *w, const weft_op *op) {
    const fx_row *found = NULL;
    for (size_t i = 0; i < w->table.count; i++) {
        const fx_row *row = &w->table.rows[i];
        bool writes = row->nouts && row->outs[0].writes >= 0;
        if (row->is_collective && (!found || writes) && row_fits(w, op, row)) found = row;
    }
    return found;
}

/* --- its arguments ------------------------------------------------------------------------------------------------ */

static void put_value(fx_writer *w, const fx_arg *arg, const weft_attr *a) {
    buffer *out = &w->line;
    const name *group;
    switch (arg->type) {
    case FX_RING:
        group = group_of(w, a ? a->u.i : 0);
        fx_put_name(out, group);
        return;
    case FX_REDUCE_TYPE: buffer_format(out, "\"%s\"", fx_reduce_name(a ? a->u.i : 0)); return;
    case FX_BOOL: buffer_text(out, a->u.b ? "true" : "false"); return;
    case FX_INTS:
        buffer_text(out, "[");
        for (size_t i = 0; i < a->count; i++) buffer_format(out, "%s%" PRId64, i ? "," : "", a->u.ints[i]);
        buffer_text(out, "]");
        return;
    default: buffer_format(out, "%" PRId64, a->u.i); return;
    }
}

weft_status fx_put_collective_args(fx_writer *w, const weft_op *op, const fx_row *row) {
    buffer *out = &w->line;
    for (uint32_t i = 0; i < row->nnamed; i++) {
        const fx_arg *arg = &row->args[i];
        buffer_text(out, i ? "," : "");
        if (arg->kind == FX_VALUE) {
            put_value(w, arg, op_find_attr(op, arg->to));
            continue;
        }
        const slot *s = op_find_slot(op, false, arg->to);
        if (arg->kind == FX_TENSORS) buffer_text(out, "[");
        for (uint32_t k = 0; k < s->nargs; k++) {
            buffer_text(out, k ? "," : "");
            TRY(fx_put_ref(w, out, op, slot_var(op, s, k)));
        }
        if (arg->kind == FX_TENSORS) buffer_text(out, "]");
    }
    return NULL;
}

static bool row_has(const fx_row *row, const name *attr) {
    for (uint32_t i = 0; i < row->nargs; i++)
        if (row->args[i].kind > FX_TENSORS && row->args[i].to && name_is(attr, row->args[i].to)) return true;
    return false;
}

weft_status fx_put_other_attrs(fx_writer *w, const weft_op *op, const fx_row *row, const char *before) {
    buffer *out = &w->line;
    bool any = false;
    for (uint32_t i = 0; i < op->nattrs; i++) {
        const weft_attr *a = &op->attrs[i];
        if (name_is(a->name, FX_NAME) || name_is(a->name, FX_NODE) || row_has(row, a->name)) continue;
        buffer_text(out, any ? "," : before);
        if (!any) buffer_text(out, "\"weft.attrs\":{");
        any = true;
        fx_put_name(out, a->name);
        buffer_text(out, ":");
        TRY(fx_put_attr(out, op, a));
    }
    buffer_text(out, any ? "}" : "");
    return NULL;
}
