/* spmd_made.c: the rings and vars that a rank's program has beside the whole one's. All ranks number and name them
 * alike. */
#include "passes/spmd/spmd.h"

#include <stdio.h>

int64_t spmd_part(const spmd_mesh *m, uint32_t axes) {
    int64_t at = 0;
    for (int i = 0; i < m->axes.naxes; i++)
        if (axes >> i & 1) at = at * m->axes.extent[i] + m->at[i];
    return at;
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* Rings are numbered by the set of axes along which their ranks differ; one that is there is taken. */
static weft_status find_ring(spmd_plan *plan, uint32_t axes, int64_t *out_id) {
    const spmd_mesh *m = &plan->mesh;
    int64_t n = spmd_extent(m, axes), all = mesh_size(m->mesh), count = 0, at[MESH_MAX_NDIM];
    int64_t *ranks = ARENA_ARRAY(plan->scratch, int64_t, n);
    if (!ranks) return base_out_of_memory();
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        bool is_member = true;
        for (int k = m->mesh->ndim - 1; k >= 0; k--) {
            at[k] = rest % m->mesh->shape[k];
            rest /= m->mesh->shape[k];
            is_member &= (axes >> k & 1) || at[k] == m->at[k];
        }
        if (is_member) ranks[count++] = m->mesh->ids[i];
    }
    for (size_t i = 0; i < plan->program->nrings; i++) {
        const ring *r = &plan->program->rings[i];
        *out_id = r->id;
        if (r->nranks == count && memcmp(r->ranks, ranks, (size_t)count * sizeof *ranks) == 0) return NULL;
    }
    *out_id = axes;
    while (program_find_ring(plan->program, *out_id)) *out_id += INT64_C(1) << AXES_MESH;
    return weft_program_set_ring(plan->program, *out_id, (size_t)count, ranks);
}

weft_status spmd_ring(spmd_plan *plan, uint32_t axes, int64_t *out_id) {
    int64_t *known = &plan->ring_of[axes];
    if (!*known) {
        TRY(find_ring(plan, axes, known));
        ++*known;
    }
    *out_id = *known - 1;
    return NULL;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static bool is_taken(const spmd_plan *plan, const char *bytes) {
    return interner_find(&plan->program->names, bytes, strlen(bytes));
}

/* A name that nothing has: numbered from the last one on, since one value may come in many parts. */
static void name_anew(spmd_plan *plan, const spmd_var *v, char *out, size_t room) {
    uint32_t *n = &plan->vars[v->var->id].nnames;
    do {
        char number[16] = "";
        if (*n) snprintf(number, sizeof number, "_%u", *n);
        snprintf(out, room, "%.200s@RESHARD%s", v->var->name->bytes, number);
        ++*n;
    } while (is_taken(plan, out));
}

/* Of what only some ranks fit to a collective: it takes no number, so that all ranks name equal values alike. */
static void name_fitted(const spmd_plan *plan, const spmd_var *v, char *out, size_t room) {
    uint32_t before = plan->vars[v->var->id].nnames, n = 0;
    do snprintf(out, room, "%.200s@FIT_%u_%u", v->var->name->bytes, before, n++);
    while (is_taken(plan, out));
}

weft_status spmd_add_var(spmd_plan *plan, const spmd_var *v, const int64_t *extents, weft_var **out) {
    char unique[256];
    if (plan->fits)
        name_fitted(plan, v, unique, sizeof unique);
    else
        name_anew(plan, v, unique, sizeof unique);
    TRY(weft_block_add_var(plan->block, unique, (weft_dtype)v->whole.dtype, (size_t)v->whole.ndim, extents, out));
    (*out)->has_stop_gradient = v->var->has_stop_gradient;
    (*out)->stop_gradient = v->var->stop_gradient;
    return NULL;
}

weft_status spmd_new_var(spmd_plan *plan, const spmd_var *v, const axes_placed *placed, weft_var **out) {
    int64_t extents[WEFT_MAX_RANK];
    placed_extents(&plan->mesh, placed, &v->whole, extents);
    TRY(spmd_add_var(plan, v, extents, out));
    return placed_write(&plan->mesh, placed, v->whole.ndim, *out);
}

void spmd_set_arg(const spmd_op *op, size_t arg, weft_var *to) {
    use *u = &op->op->args[op->at[arg]];
    if (u->var_id != to->id) use_rename(u, to);
}
