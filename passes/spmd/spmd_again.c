/* spmd_again.c: what was noted of one rank (spmd_places.c), made again for ranks that stand elsewhere: their programs
 * have the same ops, of which some attrs differ. */
#include "passes/spmd/spmd_places.h"

/* Offsets that the rule names, of which the op has those of the rank that it was made for. */
static weft_status tell_offsets(spmd_places *p, const spmd_op *op, const int64_t *own_at) {
    const axes_rule *r = &op->kind->rule;
    const spmd_mesh *m = &p->plan->mesh;
    for (size_t i = 0; i < r->nchanges; i++) {
        const axes_change *c = &r->changes[i];
        uint32_t axes;
        if (c->kind != AXES_OFFSET) continue;
        int64_t own = axes_offset(r, &m->axes, op->choice->in, c->factor, own_at, &axes);
        int64_t value = attr_int(op->op, c->attr, 0) - own;
        if (!axes) continue;
        value += axes_offset(r, &m->axes, op->choice->in, c->factor, m->at, &axes);
        TRY(spmd_places_note(p, op->op, c->attr, 1, &value));
    }
    return NULL;
}

static weft_status tell_piece(spmd_places *p, const spmd_piece *x, const int64_t *own_at) {
    spmd_emitter e = {.plan = p->plan, .places = p};
    weft_var *made;
    p->now = x;
    p->next = x->first;
    if (!x->op) return spmd_emit_path(&e, x->v, x->from, x->path, x->into, &made);
    return spmd_form_axes(x->op) ? spmd_form_place(&e, x->op, x->op->op) : tell_offsets(p, x->op, own_at);
}

/* The next place along the axes of ranks whose program has the same ops; false: there is none. */
static bool next_place(spmd_mesh *m, uint32_t axes, uint32_t ended, const int64_t *own) {
    for (int k = m->axes.naxes; k-- > 0;) {
        int64_t last = m->axes.extent[k] - 1;
        bool moves = (axes >> k & 1) && !((ended >> k & 1) && own[k] == last);
        if (!moves) continue;
        if (++m->at[k] <= ((ended >> k & 1) ? last - 1 : last)) return true;
        m->at[k] = 0;
    }
    return false;
}

weft_status spmd_places_tell(spmd_places *p) {
    spmd_mesh *m = &p->plan->mesh;
    int64_t own[AXES_MESH];
    memcpy(own, m->at, sizeof own);
    p->is_again = true;
    for (size_t i = 0; i < p->npieces; i++) {
        const spmd_piece *x = &p->pieces[i];
        uint32_t axes = x->axes & ~p->plan->apart.told;
        for (int k = 0; k < m->axes.naxes; k++)
            if ((axes >> k & 1) && !((p->plan->apart.ended >> k & 1) && own[k] == m->axes.extent[k] - 1)) m->at[k] = 0;
        do {
            TRY(tell_piece(p, x, own));
        } while (next_place(m, axes, p->plan->apart.ended, own));
        memcpy(m->at, own, sizeof own);
    }
    p->is_again = false;
    return NULL;
}
