/* views.c: values that are slices of others. coalesce_tensor's outputs lie one after another in its fused buffer, and
 * from then on byte ranges do all the work: a member that was used before the op, or through another name, is the same
 * bytes. Offsets follow the kernel (phi/kernels/coalesce_tensor_kernel.cc): each slice is padded to the alignment.
 * Views of inputs (op_views.c) are placed before: a member that is a view of all of its base stands for the base. */
#include "plan/builder.h"

enum { MAX_DEPTH = 8 };

/* Bytes that one member takes in the buffer, as infer_coalesce_tensor counts them. */
static bool slice_nbytes(const weft_op *op, int64_t nbytes, int64_t element, int64_t *out) {
    int64_t alignment = coalesce_alignment(op);
    if (alignment < 1 || __builtin_add_overflow(nbytes, alignment - 1, out)) return false;
    *out = *out / alignment * alignment / element * element;
    return true;
}

static weft_status check_member(const plan_builder *b, const weft_op *op, int32_t member, int32_t fused) {
    const plan_value *m = &b->values[member], *f = &b->values[fused];
    if (m->shape.dtype != f->shape.dtype)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\" is %s, the buffer \"%s\" is %s", m->name,
                          weft_dtype_name((weft_dtype)m->shape.dtype), f->name,
                          weft_dtype_name((weft_dtype)f->shape.dtype));
    int depth = 1;
    for (int32_t v = fused; v >= 0; v = b->values[v].view_of, depth++)
        if (v == member || depth > MAX_DEPTH)
            return plan_error(b, WEFT_INVALID_PROGRAM, op,
                              "\"%s\" is a part of \"%s\", which is a part of it (or buffers "
                              "within buffers, more than %d deep)",
                              m->name, f->name, MAX_DEPTH);
    return NULL;
}

/* `member` is found `offset` bytes into `fused` from now on. */
static weft_status place_member(plan_builder *b, const weft_op *op, int32_t member, int32_t fused, int64_t offset) {
    plan_value *m = &b->values[member];
    const plan_value *f = &b->values[fused];
    if (m->view_of >= 0 && (m->view_of != fused || m->offset != offset))
        return plan_error(b, WEFT_UNSUPPORTED, op, "\"%s\" is a part of the buffer \"%s\" already", m->name,
                          b->values[m->view_of].name);
    if (offset > f->nbytes - m->nbytes)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "\"%s\" ends %lld bytes into \"%s\", which has %lld", m->name,
                          (long long)(offset + m->nbytes), f->name, (long long)f->nbytes);
    m->view_of = fused;
    m->offset = offset;
    return NULL;
}

/* The value that becomes a slice when `v` does. */
static weft_status member_of(plan_builder *b, const weft_op *op, const weft_var *v, int32_t *out_member) {
    TRY(plan_value_of(b, op, v, out_member));
    int32_t base = plan_base_of(b, *out_member);
    if (b->values[base].nbytes == b->values[*out_member].nbytes) *out_member = base;
    return NULL;
}

static weft_status check_dense(plan_builder *b, const weft_op *op, const slot *outputs) {
    for (size_t i = 0; i < outputs->nargs; i++) {
        int32_t member;
        TRY(plan_value_of(b, op, slot_var(op, outputs, i), &member));
        if (b->values[member].rows >= 0)
            return plan_error(b, WEFT_UNSUPPORTED, op,
                              "\"%s\" is SelectedRows (a sparse gradient): only dense tensors can be coalesced",
                              b->values[member].name);
    }
    return NULL;
}

static weft_status make_views_of(plan_builder *b, weft_op *op) {
    weft_var *fused_var = weft_op_output(op, "FusedOutput", 0);
    const slot *outputs = op_find_slot(op, true, "Output");
    int32_t fused, member;
    if (!fused_var || !outputs)
        return plan_error(b, WEFT_INVALID_PROGRAM, op, "expected the slots Output and FusedOutput");
    TRY(check_dense(b, op, outputs));
    TRY(plan_value_of(b, op, fused_var, &fused));
    int64_t offset = 0, step;
    for (size_t i = 0; i < outputs->nargs; i++) {
        TRY(member_of(b, op, slot_var(op, outputs, i), &member));
        TRY(check_member(b, op, member, fused));
        TRY(place_member(b, op, member, fused, offset));
        int64_t element = (int64_t)weft_dtype_nbytes((weft_dtype)b->values[member].shape.dtype);
        if (!slice_nbytes(op, b->values[member].nbytes, element, &step) ||
            __builtin_add_overflow(offset, step, &offset))
            return plan_error(b, WEFT_LIMIT, op, "the buffer has more than 2^63 bytes");
    }
    return NULL;
}

/* Buffers may become members after their own members were placed: check the depth from below. */
static weft_status check_depth(const plan_builder *b) {
    for (size_t i = 0; i < b->nvalues; i++) {
        int depth = 0;
        for (int32_t v = (int32_t)i; b->values[v].view_of >= 0; v = b->values[v].view_of)
            if (++depth > MAX_DEPTH)
                return weft_status_create(WEFT_LIMIT, b->program->place,
                                          "\"%s\" lies in buffers within buffers, more than %d deep", b->values[i].name,
                                          MAX_DEPTH);
    }
    return NULL;
}

weft_status plan_make_views(plan_builder *b) {
    size_t nvars = b->program->nall_vars;
    b->value_of_var = ARENA_ARRAY(&b->scratch, int32_t, nvars ? nvars : 1);
    if (!b->value_of_var) return base_out_of_memory();
    for (size_t i = 0; i < nvars; i++) b->value_of_var[i] = -1;
    bool any_copies;
    TRY(plan_make_op_views(b, &any_copies));
    for (size_t i = 0; i < b->nsteps; i++)
        if (op_has_effect(b->steps[i].op, OP_ALIASES)) TRY(make_views_of(b, b->steps[i].op));
    TRY(check_depth(b));
    if (!any_copies) TRY(plan_place_parts(b));
    TRY(plan_note_last_writes(b));
    return any_copies ? plan_check_copied_views(b) : NULL;
}
