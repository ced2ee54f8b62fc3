/* Equality of programs: everything that a serialized form holds, in the order in which it holds it.
 *
 * Floats are compared by their bits, so that NaN equals itself and 0.0 differs from -0.0, as in the printed forms. */
#include "program/ir.h"

static bool name_equal(const name *a, const name *b) {
    if (!a || !b) return a == b;
    return a->nbytes == b->nbytes && memcmp(a->bytes, b->bytes, a->nbytes) == 0;
}

static bool string_equal(const char *a, const char *b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool text_equal(text a, text b) {
    return a.nbytes == b.nbytes && (a.nbytes == 0 || memcmp(a.bytes, b.bytes, a.nbytes) == 0);
}

static bool array_equal(const void *a, const void *b, size_t count, size_t size) {
    return count == 0 || memcmp(a, b, count * size) == 0;
}

/* --- attrs -------------------------------------------------------------------------------------------------------- */

static bool scalar_equal(const scalar *a, const scalar *b) {
    if (a->type != b->type) return false;
    switch (a->type) {
    case SCALAR_BOOLEAN: return a->b == b->b;
    case SCALAR_LONG: return a->i == b->i;
    case SCALAR_FLOAT64: return memcmp(&a->r, &b->r, sizeof a->r) == 0;
    case SCALAR_COMPLEX128:
        return memcmp(&a->r, &b->r, sizeof a->r) == 0 && memcmp(&a->imaginary, &b->imaginary, sizeof a->r) == 0;
    }
    return false;
}

static bool list_equal(const weft_attr *a, const weft_attr *b) {
    if (a->count != b->count) return false;
    switch (a->type) {
    case ATTR_INTS:
    case ATTR_LONGS:
    case ATTR_BLOCKS: return array_equal(a->u.ints, b->u.ints, a->count, sizeof *a->u.ints);
    case ATTR_FLOATS:
    case ATTR_FLOAT64S: return array_equal(a->u.floats, b->u.floats, a->count, sizeof *a->u.floats);
    case ATTR_BOOLEANS: return array_equal(a->u.bools, b->u.bools, a->count, sizeof *a->u.bools);
    case ATTR_STRINGS:
    case ATTR_VARS:
        for (size_t i = 0; i < a->count; i++)
            if (!name_equal(a->u.strings[i], b->u.strings[i])) return false;
        return true;
    default:
        for (size_t i = 0; i < a->count; i++)
            if (!scalar_equal(&a->u.scalars[i], &b->u.scalars[i])) return false;
        return true;
    }
}

bool attr_equal(const weft_attr *a, const weft_attr *b) {
    if (a->type != b->type || !name_equal(a->name, b->name)) return false;
    switch (a->type) {
    case ATTR_INT:
    case ATTR_LONG:
    case ATTR_BLOCK: return a->u.i == b->u.i;
    case ATTR_FLOAT:
    case ATTR_FLOAT64: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
    case ATTR_BOOLEAN: return a->u.b == b->u.b;
    case ATTR_STRING:
    case ATTR_VAR: return text_equal(attr_text(a), attr_text(b));
    case ATTR_SCALAR: return scalar_equal(a->u.scalar, b->u.scalar);
    default: return list_equal(a, b);
    }
}

static bool attrs_equal(const weft_attr *a, size_t na, const weft_attr *b, size_t nb) {
    if (na != nb) return false;
    for (size_t i = 0; i < na; i++)
        if (!attr_equal(&a[i], &b[i])) return false;
    return true;
}

/* --- dist attrs --------------------------------------------------------------------------------------------------- */

/* mesh_equal leaves out the names of dims, which are printed. */
static bool mesh_same(const mesh *a, const mesh *b) {
    if (!a || !b) return a == b;
    if (!mesh_equal(a, b) || !a->names != !b->names) return false;
    for (int i = 0; a->names && i < a->ndim; i++)
        if (strcmp(a->names[i], b->names[i]) != 0) return false;
    return true;
}

static bool placement_same(const placement *a, const placement *b) {
    if (!a || !b) return a == b;
    if (!mesh_same(a->mesh, b->mesh) || a->ndim != b->ndim || a->partial_axes != b->partial_axes) return false;
    if (a->batch_dim != b->batch_dim || a->chunk_id != b->chunk_id || !a->dynamic_dims != !b->dynamic_dims)
        return false;
    size_t n = (size_t)a->ndim;
    for (int i = 0; i < 32; i++)
        if (a->partial_axes >> i & 1 && a->partial_reduce[i] != b->partial_reduce[i]) return false;
    return array_equal(a->dims_mapping, b->dims_mapping, n, sizeof *a->dims_mapping) &&
           (!a->dynamic_dims || array_equal(a->dynamic_dims, b->dynamic_dims, n, 1));
}

static bool op_placements_equal(const op_placement *a, size_t na, const op_placement *b, size_t nb) {
    if (na != nb) return false;
    for (size_t i = 0; i < na; i++)
        if (!name_equal(a[i].var, b[i].var) || !placement_same(a[i].placement, b[i].placement)) return false;
    return true;
}

static bool op_dist_rest_equal(const op_dist_rest *a, const op_dist_rest *b) {
    return mesh_same(a->mesh, b->mesh) && string_equal(a->impl_type, b->impl_type) && a->impl_idx == b->impl_idx &&
           a->is_recompute == b->is_recompute && a->has_recompute == b->has_recompute &&
           string_equal(a->extra_json, b->extra_json) &&
           op_placements_equal(a->inputs, a->ninputs, b->inputs, b->ninputs) &&
           op_placements_equal(a->outputs, a->noutputs, b->outputs, b->noutputs);
}

static bool op_dist_equal(const op_dist *a, const op_dist *b) {
    if (!a || !b) return a == b;
    if (op_dist_nwaits(a) != op_dist_nwaits(b)) return false;
    for (size_t i = 0; i < op_dist_nwaits(a); i++)
        if (strcmp(a->waits->events[i], b->waits->events[i]) != 0) return false;
    return string_equal(a->execution_stream, b->execution_stream) &&
           string_equal(a->event_to_record, b->event_to_record) &&
           op_dist_rest_equal(op_dist_rest_of(a), op_dist_rest_of(b));
}

/* --- vars, ops, blocks -------------------------------------------------------------------------------------------- */

static bool flag_equal(bool has_a, bool a, bool has_b, bool b) {
    return has_a == has_b && a == b;
}

static bool rest_equal(const var_rest *a, const var_rest *b) {
    return attrs_equal(a->attrs, a->nattrs, b->attrs, b->nattrs) && text_equal(a->type_bytes, b->type_bytes) &&
           text_equal(a->unknown_fields, b->unknown_fields) && string_equal(a->dist_extra_json, b->dist_extra_json);
}

bool var_equal(const weft_var *a, const weft_var *b) {
    return name_equal(a->name, b->name) && a->kind == b->kind && a->dtype == b->dtype &&
           a->has_tensor == b->has_tensor && a->ndim == b->ndim &&
           array_equal(a->dims, b->dims, a->ndim, sizeof *a->dims) && a->has_lod_level == b->has_lod_level &&
           (!a->has_lod_level || a->lod_level == b->lod_level) &&
           flag_equal(a->has_persistable, a->persistable, b->has_persistable, b->persistable) &&
           flag_equal(a->has_need_check_feed, a->need_check_feed, b->has_need_check_feed, b->need_check_feed) &&
           flag_equal(a->has_is_parameter, a->is_parameter, b->has_is_parameter, b->is_parameter) &&
           flag_equal(a->has_stop_gradient, a->stop_gradient, b->has_stop_gradient, b->stop_gradient) &&
           placement_same(a->dist, b->dist) && a->dist_is_null == b->dist_is_null && rest_equal(a->rest, b->rest);
}

static bool slots_equal(const weft_op *a, const weft_op *b, bool output) {
    if (op_nslots(a, output) != op_nslots(b, output)) return false;
    for (uint32_t i = 0; i < op_nslots(a, output); i++) {
        const slot *s = op_slot(a, output, i), *t = op_slot(b, output, i);
        if (!name_equal(s->name, t->name) || s->nargs != t->nargs) return false;
        for (size_t k = 0; k < s->nargs; k++)
            if (!name_equal(slot_var(a, s, k)->name, slot_var(b, t, k)->name)) return false;
    }
    return true;
}

bool op_equal(const weft_op *a, const weft_op *b) {
    return name_equal(a->type, b->type) && slots_equal(a, b, false) && slots_equal(a, b, true) &&
           attrs_equal(a->attrs, a->nattrs, b->attrs, b->nattrs) &&
           flag_equal(a->has_is_target, a->is_target, b->has_is_target, b->is_target) &&
           op_dist_equal(a->dist, b->dist) && text_equal(op_unknown_fields(a), op_unknown_fields(b));
}

static bool block_equal(const weft_block *a, const weft_block *b) {
    if (a->idx != b->idx || a->parent_idx != b->parent_idx || a->nvars != b->nvars || a->nops != b->nops ||
        a->has_forward_block_idx != b->has_forward_block_idx ||
        (a->has_forward_block_idx && a->forward_block_idx != b->forward_block_idx) ||
        !text_equal(a->unknown_fields, b->unknown_fields))
        return false;
    for (size_t i = 0; i < a->nvars; i++)
        if (!var_equal(block_var(a, i), block_var(b, i))) return false;
    for (const weft_op *x = a->first, *y = b->first; x; x = x->next, y = y->next)
        if (!op_equal(x, y)) return false;
    return true;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static bool ring_same(const ring *a, const ring *b) {
    return a->id == b->id && a->nranks == b->nranks && string_equal(a->type, b->type) &&
           array_equal(a->ranks, b->ranks, (size_t)a->nranks, sizeof *a->ranks);
}

static bool program_dist_equal(const weft_program *a, const weft_program *b) {
    if (a->has_dist != b->has_dist || a->rank != b->rank || a->nmeshes != b->nmeshes || a->nrings != b->nrings ||
        a->nparams_grads != b->nparams_grads || !string_equal(a->dist_extra_json, b->dist_extra_json) ||
        !string_equal(a->fx_json, b->fx_json))
        return false;
    for (size_t i = 0; i < a->nmeshes; i++)
        if (!mesh_same(a->meshes[i], b->meshes[i])) return false;
    for (size_t i = 0; i < a->nrings; i++)
        if (!ring_same(&a->rings[i], &b->rings[i])) return false;
    for (size_t i = 0; i < a->nparams_grads * 2; i++)
        if (!name_equal(a->params_grads[i], b->params_grads[i])) return false;
    return true;
}

bool weft_program_equal(const weft_program *a, const weft_program *b) {
    if (a->nblocks != b->nblocks || a->has_version != b->has_version || (a->has_version && a->version != b->version) ||
        a->has_op_version_map != b->has_op_version_map || !text_equal(a->op_version_map, b->op_version_map) ||
        !text_equal(a->unknown_fields, b->unknown_fields) || !program_dist_equal(a, b))
        return false;
    for (size_t i = 0; i < a->nblocks; i++)
        if (!block_equal(a->blocks[i], b->blocks[i])) return false;
    return true;
}
