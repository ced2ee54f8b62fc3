/* op_views.c: outputs that are views of inputs ("Out&X" in the op table: view, slice, getitem, wait_tensor, ...).
 *
 * A view whose elements follow one another in its input is a byte range of it: its value is `view_of` what the input is
 * a view of in the end, at an offset. It is so from the first instruction to the last, and the op is no instruction.
 * Any other one (a transposed matrix, an inner slice) is a buffer of its own, which the op's kernel fills when it runs;
 * copied_views.c sees that nothing can observe the difference.
 *
 * The invariant: values that a view op made have a base that none made, one step away. So the order in which views and
 * buckets are declared does not matter: what is a bucket's member is the base. */
#include "plan/builder.h"

weft_status plan_find_view(plan_builder *b, weft_op *op, const op_schema *schema, size_t output, size_t index,
                           plan_view *out) {
    const slot_schema *row = &schema->outputs[output];
    const slot *to = op_find_slot(op, true, row->name),
               *from = op_find_slot(op, false, schema->inputs[row->view_of].name);
    *out = (plan_view){.value = -1};
    if (!to || index >= to->nargs || plan_is_empty_name(slot_var(op, to, index))) return NULL;
    size_t nparents = from ? from->nargs : 0;
    if (nparents != 1 && index >= nparents)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\" is a view of no input",
                          slot_var(op, to, index)->name->bytes);
    TRY(plan_value_of(b, op, slot_var(op, from, nparents == 1 ? 0 : index), &out->parent));
    TRY(plan_value_of(b, op, slot_var(op, to, index), &out->value));
    const plan_value *v = &b->values[out->value], *p = &b->values[out->parent];
    op_view view;
    TRY(op_view_of(op, &p->shape, nparents == 1 ? index : 0, &view));
    bool is_range = op_view_is_contiguous(&view);
    if (v->rows >= 0 || p->rows >= 0)
        return plan_error(b, WEFT_UNSUPPORTED, op,
                          "\"%s\" is SelectedRows (a sparse gradient): only dense tensors have views", p->name);
    if (v->shape.dtype != p->shape.dtype)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\", a view of \"%s\", is of another element type", v->name,
                          p->name);
    out->offset = v->nbytes ? view.offset * (int64_t)weft_dtype_nbytes((weft_dtype)v->shape.dtype) : 0;
    out->is_range = is_range;
    if (is_range && (out->offset < 0 || v->nbytes > p->nbytes - out->offset))
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\" ends beyond \"%s\", which it is a view of", v->name,
                          p->name);
    if (is_range || schema->effects & OP_ONLY_VIEWS) return NULL;
    return plan_error(b, WEFT_UNSUPPORTED, op, "\"%s\" is no byte range of \"%s\"", v->name, p->name);
}

/* --- places ------------------------------------------------------------------------------------------------------- */

typedef struct maker {
    plan_builder *b;
    weft_op **touched_by; /* by var id: the first op that touches it as other than a member of a bucket */
    bool any_copies;
} maker;

int32_t plan_base_of(const plan_builder *b, int32_t value) {
    while (b->view_ops[value]) value = b->values[value].view_of;
    return value;
}

static weft_status refuse_place(const plan_builder *b, weft_op *op, const plan_value *v, weft_op *other) {
    char where[160];
    return plan_error(b, WEFT_UNSUPPORTED, op, "\"%s\" is a view here, but %s uses it before as something else",
                      v->name, op_place(other, where, sizeof where));
}

/* `view` is found in its base from now on. */
static weft_status place_view(maker *m, weft_op *op, const weft_var *var, const plan_view *view) {
    plan_builder *b = m->b;
    plan_value *v = &b->values[view->value];
    int64_t offset = view->offset;
    int32_t base = view->parent;
    for (; b->view_ops[base]; base = b->values[base].view_of) offset += b->values[base].offset;
    bool is_same = base == view->value && offset == 0 && v->nbytes == b->values[base].nbytes;
    if (is_same || (b->view_ops[view->value] && v->view_of == base && v->offset == offset)) return NULL;
    if (base == view->value) return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\" is a part of itself", v->name);
    if (b->view_ops[view->value]) return refuse_place(b, op, v, b->view_ops[view->value]);
    if (m->touched_by[var->id]) return refuse_place(b, op, v, m->touched_by[var->id]);
    v->view_of = base;
    v->offset = offset;
    b->view_ops[view->value] = op;
    return NULL;
}

static weft_status make_views_of(maker *m, weft_op *op, const op_schema *schema) {
    for (size_t o = 0; o < schema->noutputs; o++) {
        const slot *to = schema->outputs[o].view_of < 0 ? NULL : op_find_slot(op, true, schema->outputs[o].name);
        for (size_t k = 0; to && k < to->nargs; k++) {
            plan_view view;
            TRY(plan_find_view(m->b, op, schema, o, k, &view));
            if (view.value < 0) continue;
            m->any_copies |= !view.is_range;
            if (view.is_range) TRY(place_view(m, op, slot_var(op, to, k), &view));
        }
    }
    return NULL;
}

static void note_touched(const maker *m, weft_op *op) {
    if (op_has_effect(op, OP_NO_BYTES | OP_ALIASES)) return;
    for (int output = 0; output < 2; output++) FOR_EACH_ARG(op, output, u) {
            if (!m->touched_by[u->var_id]) m->touched_by[u->var_id] = op;
        }
}

static bool has_views(const plan_builder *b) {
    for (size_t i = 0; i < b->nsteps; i++)
        if (op_has_effect(b->steps[i].op, OP_VIEWS)) return true;
    return false;
}

weft_status plan_make_op_views(plan_builder *b, bool *out_any_copies) {
    maker m = {.b = b};
    *out_any_copies = false;
    if (!has_views(b)) return NULL;
    m.touched_by = ARENA_ARRAY(&b->scratch, weft_op *, b->program->nall_vars + 1);
    if (!m.touched_by) return base_out_of_memory();
    for (size_t i = 0; i < b->nsteps; i++) {
        weft_op *op = b->steps[i].op;
        const op_schema *schema = op_schema_of(op);
        if (schema && schema->effects & OP_VIEWS) TRY(make_views_of(&m, op, schema));
        note_touched(&m, op);
    }
    *out_any_copies = m.any_copies;
    return NULL;
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

weft_status plan_prune_views(plan_builder *b, weft_op *op, const op_schema *schema, plan_args *out) {
    uint32_t at = 0, next = 0;
    for (size_t s = 0; s < schema->noutputs; s++) {
        uint32_t begin = next, first = at, nleft = 0;
        next = out->first[s + 1];
        out->first[s] = at;
        for (uint32_t k = begin; k < next; k++) {
            int32_t value = out->values[k];
            plan_view view = {.value = -1};
            if (value >= 0 && schema->outputs[s].view_of >= 0) TRY(plan_find_view(b, op, schema, s, k - begin, &view));
            if (view.value >= 0 && view.is_range) value = -1;
            nleft += value >= 0;
            out->values[at++] = value;
        }
        if (schema->outputs[s].view_of >= 0 && !nleft) at = first;
    }
    out->first[schema->noutputs] = at;
    return NULL;
}

/* --- later writes ------------------------------------------------------------------------------------------------- */

static weft_status note_write(plan_builder *b, weft_op *op, const op_schema *schema, size_t output, size_t k,
                              const weft_var *v) {
    int32_t value = b->value_of_var[v->id];
    int64_t begin;
    plan_view view = {.value = -1};
    if (value < 0 || (size_t)value >= b->nviewed) return NULL;
    if (schema->outputs[output].view_of >= 0) TRY(plan_find_view(b, op, schema, output, k, &view));
    if (view.value >= 0 && view.is_range) return NULL;
    b->last_write[plan_find_root(b, value, &begin)] = op->mark;
    return NULL;
}

weft_status plan_note_last_writes(plan_builder *b) {
    b->nviewed = b->nvalues;
    b->last_write = ARENA_ARRAY(&b->scratch, uint64_t, b->nviewed + 1);
    if (!b->last_write) return base_out_of_memory();
    for (size_t i = 0; b->nviewed && i < b->nsteps; i++) {
        weft_op *op = b->steps[i].op;
        const op_schema *schema = op_schema_of(op);
        if (!schema || schema->effects & OP_NO_BYTES) continue;
        for (size_t o = 0; o < schema->noutputs; o++) {
            const slot *s = op_find_slot(op, true, schema->outputs[o].name);
            for (size_t k = 0; s && k < s->nargs; k++) TRY(note_write(b, op, schema, o, k, slot_var(op, s, k)));
        }
    }
    return NULL;
}
