/* spmd_places.c: what ranks' programs differ in where their ops are the same: see spmd.h. */
#include "passes/spmd/spmd_places.h"
#include "program/grow.h"

weft_status spmd_places_create(spmd_plan *plan, rank_edits *edits, spmd_places **out) {
    spmd_places *made = ARENA_NEW(&plan->memory, spmd_places);
    if (!made) return base_out_of_memory();
    *made = (spmd_places){.plan = plan, .edits = edits};
    *out = made;
    return NULL;
}

/* --- noting ------------------------------------------------------------------------------------------------------- */

static weft_status add_piece(spmd_places *p, const spmd_piece *x) {
    TRY(grow(&p->plan->memory, &p->pieces, &p->piece_capacity, p->npieces + 1, sizeof *x));
    p->pieces[p->npieces++] = *x;
    return NULL;
}

weft_status spmd_places_begin(spmd_places *p, uint32_t axes, const spmd_var *v, weft_var *from, const spmd_path *path,
                              weft_var *into) {
    spmd_path *kept = ARENA_NEW(&p->plan->memory, spmd_path);
    if (!kept) return base_out_of_memory();
    *kept = *path;
    p->is_noting = true;
    return add_piece(p,
                     &(spmd_piece){.axes = axes, .v = v, .from = from, .into = into, .path = kept, .first = p->nmade});
}

void spmd_places_end(spmd_places *p) {
    p->is_noting = false;
}

weft_status spmd_places_add_op(spmd_places *p, uint32_t axes, spmd_op *op) {
    return add_piece(p, &(spmd_piece){.axes = axes, .op = op});
}

weft_status spmd_places_made(spmd_places *p, weft_op *op) {
    if (!p || !p->is_noting) return NULL;
    TRY(grow(&p->plan->memory, &p->made, &p->made_capacity, p->nmade + 1, sizeof(weft_op *)));
    p->made[p->nmade++] = op;
    return NULL;
}

/* --- again, at other places --------------------------------------------------------------------------------------- */

bool spmd_places_again(const spmd_places *p) {
    return p && p->is_again;
}

weft_op *spmd_places_next(spmd_places *p) {
    return spmd_places_again(p) ? p->made[p->next++] : NULL;
}

weft_status spmd_places_note(spmd_places *p, const weft_op *op, const char *attr, size_t count, const int64_t *values) {
    const weft_attr *have = op_find_attr(op, attr);
    weft_attr value = *have;
    bool is_list = have->type == ATTR_INTS;
    if (!count) return NULL; /* an empty list is one at all places */
    if (is_list ? memcmp(have->u.ints, values, count * sizeof *values) == 0 : have->u.i == *values) return NULL;
    if (is_list)
        value.u.ints = values;
    else
        value.u.i = *values;
    const spmd_mesh *m = &p->plan->mesh;
    return rank_edits_add(p->edits, m->mesh, p->now->axes, m->at, (weft_op *)op, &value);
}
