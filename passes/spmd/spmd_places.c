/* spmd_places.c: what ranks' programs differ in where their ops are the same: see spmd.h. */
#include "passes/spmd/spmd.h"
#include "program/grow.h"

/* An op whose own attrs say where the rank stands, or the steps of a path. */
typedef struct piece {
    uint32_t axes;
    spmd_op *op; /* NULL: a path, for which the ops from `first` on were made */
    const spmd_var *v;
    weft_var *from, *into;
    const spmd_path *path;
    size_t first;
} piece;

struct spmd_places {
    spmd_plan *plan;
    rank_edits *edits;
    piece *pieces;
    size_t npieces, piece_capacity;
    weft_op **made;
    size_t nmade, made_capacity;
    bool is_noting, is_again;
    const piece *now; /* being made again: */
    size_t next;      /* the op that its next one was */
};

weft_status spmd_places_create(spmd_plan *plan, rank_edits *edits, spmd_places **out) {
    spmd_places *made = ARENA_NEW(&plan->memory, spmd_places);
    if (!made) return base_out_of_memory();
    *made = (spmd_places){.plan = plan, .edits = edits};
    *out = made;
    return NULL;
}

/* --- noting ------------------------------------------------------------------------------------------------------- */

static weft_status add_piece(spmd_places *p, const piece *x) {
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
    return add_piece(p, &(piece){.axes = axes, .v = v, .from = from, .into = into, .path = kept, .first = p->nmade});
}

void spmd_places_end(spmd_places *p) {
    p->is_noting = false;
}

weft_status spmd_places_add_op(spmd_places *p, uint32_t axes, spmd_op *op) {
    return add_piece(p, &(piece){.axes = axes, .op = op});
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
    if (is_list ? memcmp(have->u.ints, values, count * sizeof *values) == 0 : have->u.i == *values) return NULL;
    if (is_list)
        value.u.ints = values;
    else
        value.u.i = *values;
    const spmd_mesh *m = &p->plan->mesh;
    return rank_edits_add(p->edits, m->mesh, p->now->axes, m->at, (weft_op *)op, &value);
}

/* Offsets that the rule names, of which the op has those of the rank that it was made for. */
static weft_status tell_offsets(spmd_places *p, const spmd_op *op, const int64_t *own_at) {
    const axes_rule *r = &op->kind->rule;
    const spmd_mesh *m = &p->plan->mesh;
    for (size_t i = 0; i < r->nchanges; i++) {
        const axes_change *c = &r->changes[i];
        uint32_t axes;
        if (c->kind != AXES_OFFSET) continue;
        int64_t own = axes_offset(r, &m->axes, op->choice.in, c->factor, own_at, &axes);
        int64_t value = attr_int(op->op, c->attr, 0) - own;
        if (!axes) continue;
        value += axes_offset(r, &m->axes, op->choice.in, c->factor, m->at, &axes);
        TRY(spmd_places_note(p, op->op, c->attr, 1, &value));
    }
    return NULL;
}

static weft_status tell_piece(spmd_places *p, const piece *x, const int64_t *own_at) {
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
        const piece *x = &p->pieces[i];
        uint32_t axes = x->axes & ~p->plan->told;
        for (int k = 0; k < m->axes.naxes; k++)
            if ((axes >> k & 1) && !((p->plan->ended >> k & 1) && own[k] == m->axes.extent[k] - 1)) m->at[k] = 0;
        do {
            TRY(tell_piece(p, x, own));
        } while (next_place(m, axes, p->plan->ended, own));
        memcpy(m->at, own, sizeof own);
    }
    p->is_again = false;
    return NULL;
}
