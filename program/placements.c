/* placements.c: meshes and placements, for hosts (weft/placement.h). */
#include "program/grow.h"
#include "program/ir.h"
#include "weft/placement.h"

_Static_assert((int)WEFT_MESH_MAX_NDIM == (int)MESH_MAX_NDIM, "a bit a mesh axis");

static void give_mesh(const mesh *m, weft_mesh *out) {
    *out = (weft_mesh){(size_t)m->ndim, m->shape, m->ids, m->names};
}

size_t weft_program_nmeshes(const weft_program *program) {
    return program->nmeshes;
}

bool weft_program_mesh(const weft_program *program, size_t index, weft_mesh *out_mesh) {
    if (index >= program->nmeshes) return false;
    give_mesh(program->meshes[index], out_mesh);
    return true;
}

static bool give_placement(const placement *p, weft_placement *out) {
    if (!p || !p->mesh) return false;
    *out = (weft_placement){.ndim = (size_t)p->ndim, .dims_mapping = p->dims_mapping, .partial_axes = p->partial_axes};
    give_mesh(p->mesh, &out->mesh);
    memcpy(out->reduce, p->partial_reduce, sizeof out->reduce);
    return true;
}

static weft_status take_mesh(weft_program *p, const weft_mesh *from, const mesh **out) {
    if (from->ndim > MESH_MAX_NDIM)
        return weft_status_create(WEFT_INVALID_ARGUMENT, p->place, "a mesh has at most %d axes, found %zu",
                                  MESH_MAX_NDIM, from->ndim);
    mesh m = {(int)from->ndim, from->shape, from->ids, from->names};
    TRY(mesh_check(&m, p->place));
    TRY(program_add_mesh(p, &m, out));
    p->has_dist = true;
    return NULL;
}

/* `old` keeps what weft_placement does not tell; NULL: there is none. */
static weft_status take_placement(weft_program *p, const weft_placement *from, size_t ndim, const placement *old,
                                  placement **out) {
    if (from->ndim > WEFT_MAX_RANK || from->ndim != ndim)
        return weft_status_create(WEFT_INVALID_ARGUMENT, p->place,
                                  "expected a mesh axis, or -1, for each of %zu axes, found %zu", ndim, from->ndim);
    placement made = old ? *old : (placement){.ndim = (int)ndim};
    TRY(take_mesh(p, &from->mesh, &made.mesh));
    made.ndim = (int)from->ndim;
    made.dims_mapping = from->dims_mapping;
    made.partial_axes = from->partial_axes;
    memcpy(made.partial_reduce, from->reduce, sizeof made.partial_reduce);
    TRY(placement_check(&made, made.ndim, p->place));
    return placement_clone(p, &made, out);
}

bool weft_var_placement(const weft_var *var, weft_placement *out_placement) {
    return give_placement(var->dist, out_placement);
}

weft_status weft_var_set_placement(weft_var *var, const weft_placement *from) {
    placement *made = NULL;
    if (from) TRY(take_placement(var->program, from, var->ndim, var->dist, &made));
    var->dist = made;
    var->dist_is_null = false;
    var_changed(var);
    var->program->edits++;
    return NULL;
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

bool weft_op_mesh(const weft_op *op, weft_mesh *out_mesh) {
    const mesh *m = op->dist ? op_dist_mesh(op->dist) : NULL;
    if (m) give_mesh(m, out_mesh);
    return m != NULL;
}

weft_status weft_op_set_mesh(weft_op *op, const weft_mesh *from) {
    const mesh *m = NULL;
    op_dist *d;
    if (from) TRY(take_mesh(op->program, from, &m));
    TRY(op_dist_get(op, &d));
    TRY(op_dist_set_mesh(op->program, d, m));
    op_changed(op);
    return NULL;
}

static op_placement *find_placement(const weft_op *op, bool output, const weft_var *var) {
    const op_dist_rest *rest = op->dist ? op_dist_rest_of(op->dist) : NULL;
    size_t n = !rest ? 0 : output ? rest->noutputs : rest->ninputs;
    for (size_t i = 0; i < n; i++) {
        op_placement *at = &(output ? rest->outputs : rest->inputs)[i];
        if (at->var == var->name) return at;
    }
    return NULL;
}

bool weft_op_arg_placement(const weft_op *op, bool output, const weft_var *var, weft_placement *out_placement) {
    const op_placement *at = find_placement(op, output, var);
    return at && give_placement(at->placement, out_placement);
}

static weft_status add_placement(weft_op *op, bool output, op_placement made) {
    op_dist *d;
    op_dist_rest *rest;
    TRY(op_dist_get(op, &d));
    TRY(op_dist_rest_get(op->program, d, &rest));
    op_placement **list = output ? &rest->outputs : &rest->inputs;
    size_t *count = output ? &rest->noutputs : &rest->ninputs;
    op_placement *more = ARENA_ARRAY(&op->program->arena, op_placement, *count + 1);
    if (!more) return base_out_of_memory();
    if (*count) memcpy(more, *list, *count * sizeof *more);
    more[*count] = made;
    *list = more;
    *count += 1;
    return NULL;
}

static void drop_placement(weft_op *op, bool output, op_placement *at) {
    op_dist_rest *rest = op->dist->rest;
    op_placement *list = output ? rest->outputs : rest->inputs;
    size_t *count = output ? &rest->noutputs : &rest->ninputs;
    memmove(at, at + 1, (*count - (size_t)(at - list) - 1) * sizeof *at);
    *count -= 1;
}

weft_status weft_op_set_arg_placement(weft_op *op, bool output, const weft_var *var, const weft_placement *from) {
    op_placement *at = find_placement(op, output, var);
    placement *made = NULL;
    if (from) TRY(take_placement(op->program, from, var->ndim, at ? at->placement : NULL, &made));
    if (made && at)
        at->placement = made;
    else if (made)
        TRY(add_placement(op, output, (op_placement){var->name, made}));
    else if (at)
        drop_placement(op, output, at);
    op_changed(op);
    return NULL;
}
