/* read_views.c: what single ops say of vars: extents, views ("Out&X" in ops.def), whose random numbers they draw. */
#include "ops/view.h"
#include "proof/equivalence/read.h"

bool var_knows_dims(const weft_var *v) {
    if (v->kind != WEFT_DENSE_TENSOR || !v->has_tensor || !v->block) return false;
    for (size_t i = 0; i < v->ndim; i++)
        if (v->dims[i] < 0) return false;
    return v->ndim <= WEFT_MAX_RANK;
}

int64_t var_numel_from(const weft_var *v, size_t from) {
    int64_t n = 1;
    for (size_t i = from; i < v->ndim; i++)
        if (__builtin_mul_overflow(n, v->dims[i], &n)) return -1;
    return n;
}

const weft_var *random_var(weft_op *op) {
    const op_schema *s = op_schema_of(op);
    for (size_t i = 0; s && i < s->noutputs; i++) {
        const slot *out = op_find_slot(op, true, s->outputs[i].name);
        if (out && out->nargs) return slot_var(op, out, 0);
    }
    return NULL;
}

const weft_var *view_base(weft_op *op, const slot *s, size_t index) {
    const op_schema *schema = op_schema_of(op);
    for (size_t i = 0; schema && i < schema->noutputs; i++) {
        if (schema->outputs[i].view_of < 0 || !name_is(s->name, schema->outputs[i].name)) continue;
        const slot *from = op_find_slot(op, false, schema->inputs[schema->outputs[i].view_of].name);
        if (!from || !from->nargs) return NULL;
        return slot_var(op, from, from->nargs > 1 && index < from->nargs ? index : 0);
    }
    return NULL;
}

size_t view_part(const weft_op *op, size_t index) {
    return op_nslots(op, false) && op_slot(op, false, 0)->nargs > 1 ? 0 : index;
}

/* A view whose elements follow one another is a slice of its base; any other is a function of it. */
weft_status view_result(reader *r, weft_op *op, const slot *s, size_t index, const weft_var *base, uint32_t of,
                        uint32_t *out) {
    shape type = shape_of_var(base);
    op_view view;
    value x = value_of(of);
    const weft_var *v = slot_var(op, s, index);
    TRY(op_view_of(op, &type, view_part(op, index), &view));
    if (view.ndim >= 0 && op_view_is_contiguous(&view) && var_knows_dims(base) && var_knows_dims(v) &&
        view.offset >= 0) {
        TRY(term_part(r->t, x, view.offset, var_numel_from(v, 0), &x));
        TRY(term_reshape(r->t, x, v->ndim, v->dims, &x));
        *out = x.term;
        return NULL;
    }
    if (type.ndim < 0 || !var_knows_dims(base)) { /* the whole under another name, or a function that is not known */
        if (op_is(op, "wait_tensor") || op_is(op, "getitem")) return *out = x.term, NULL;
    }
    if (op_nargs(op, false) != 1) return term_unknown(r->t, "a view with strides", out);
    uint32_t head_id, op_id;
    TRY(op_head(r, op, &head_id));
    TRY(term_make(r->t, head_id, &x, 1, WEFT_DTYPE_NONE, 0, NULL, &op_id));
    return out_term(r, op, op_id, s, index, out);
}
