/* spmd_known.c: decisions that were made, kept by all that they depend on. Layers that are there over again ask the
 * same question: it is answered once. */
#include "base/table.h"
#include "passes/spmd/spmd.h"
#include "program/grow.h"

typedef struct known {
    const uint8_t *key;
    size_t nkey;
    spmd_choice *choice;
} known;

struct spmd_known {
    arena *memory;
    const mesh *mesh; /* on which that is */
    hash_table table;
    known *items;
    size_t nitems, capacity;
    uint8_t *key; /* of the op at hand */
    size_t nkey, key_capacity;
    table_probe at; /* where it would be */
};

weft_status spmd_known_begin(spmd_plan *plan) {
    if (plan->known && plan->known->mesh == plan->mesh.mesh) return NULL;
    arena_reset(&plan->decided);
    plan->known = ARENA_NEW(&plan->decided, struct spmd_known);
    if (!plan->known) return base_out_of_memory();
    *plan->known = (struct spmd_known){.memory = &plan->decided, .mesh = plan->mesh.mesh};
    return NULL;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

enum { PLACED_NBYTES = WEFT_MAX_RANK * (1 + AXES_MESH) + AXES_MESH, ARG_NBYTES = 16 };

static weft_status reserve(struct spmd_known *k, size_t nbytes) {
    if (k->nkey + nbytes <= k->key_capacity) return NULL;
    return grow(k->memory, &k->key, &k->key_capacity, k->nkey + nbytes, 1);
}

static void put(struct spmd_known *k, const void *bytes, size_t nbytes) {
    memcpy(k->key + k->nkey, bytes, nbytes);
    k->nkey += nbytes;
}

static void put_placed(struct spmd_known *k, const axes_placed *p, int32_t ndim, int naxes) {
    for (int d = 0; d < ndim; d++) {
        put(k, &p->naxes[d], 1);
        put(k, p->axes[d], p->naxes[d]);
    }
    put(k, p->partial, (size_t)naxes);
}

static weft_status put_input(spmd_plan *plan, const spmd_state *states, const spmd_op *op, size_t i) {
    struct spmd_known *k = plan->known;
    const spmd_var *v = op->in[i];
    uint32_t same = 0, nversions = 0;
    while (same < i && op->in[same] != op->in[i]) same++;
    TRY(reserve(k, ARG_NBYTES));
    put(k, &same, sizeof same);
    put(k, &(uint8_t){(uint8_t)(!v ? 2 : v->var->persistable)}, 1);
    size_t count_at = k->nkey;
    put(k, &nversions, sizeof nversions);
    for (const spmd_version *x = v && same == i ? states[v->var->id].versions : NULL; x; x = x->next, nversions++) {
        TRY(reserve(k, PLACED_NBYTES));
        put_placed(k, x->placed, v->whole.ndim, plan->mesh.axes.naxes);
    }
    memcpy(k->key + count_at, &nversions, sizeof nversions);
    return NULL;
}

static weft_status put_output(spmd_plan *plan, const spmd_op *op, size_t o) {
    struct spmd_known *k = plan->known;
    const spmd_var *v = op->out[o];
    TRY(reserve(k, ARG_NBYTES + PLACED_NBYTES));
    put(k, &(uint8_t){(uint8_t)(!v ? 2 : v->nreaders || v->is_kept)}, 1);
    if (v) put_placed(k, &v->want, v->whole.ndim, plan->mesh.axes.naxes);
    return NULL;
}

static weft_status make_key(spmd_plan *plan, const spmd_state *states, const spmd_op *op) {
    struct spmd_known *k = plan->known;
    k->nkey = 0;
    TRY(reserve(k, sizeof op->kind + 1));
    put(k, &op->kind, sizeof op->kind);
    put(k, &(uint8_t){plan->policy.gathers_state}, 1);
    for (size_t i = 0; i < op->kind->rule.nin; i++) TRY(put_input(plan, states, op, i));
    for (size_t o = 0; o < op->kind->rule.nout; o++) TRY(put_output(plan, op, o));
    return NULL;
}

/* --- look-up ------------------------------------------------------------------------------------------------------ */

weft_status spmd_known_find(spmd_plan *plan, const spmd_state *states, spmd_op *op, bool *out_found) {
    struct spmd_known *k = plan->known;
    TRY(make_key(plan, states, op));
    k->at = table_find(&k->table, base_hash(k->key, k->nkey));
    while (k->at.item != TABLE_NONE) {
        const known *x = &k->items[k->at.item];
        if (x->nkey == k->nkey && memcmp(x->key, k->key, k->nkey) == 0) break;
        table_next(&k->table, &k->at);
    }
    *out_found = k->at.item != TABLE_NONE;
    if (*out_found) op->choice = k->items[k->at.item].choice;
    *out_found &= !(plan->asks_conflicts && op->choice->is_disputed && !op->choice->conflicts);
    if (!*out_found) return NULL;
    for (spmd_conflict *c = op->choice->conflicts; c; c = c->next) c->nops++;
    return NULL;
}

static weft_status keep_choice(spmd_plan *plan, const axes_rule *r, spmd_choice **out) {
    arena *memory = &plan->decided;
    spmd_choice *made = *out = arena_copy(memory, &plan->chosen, sizeof plan->chosen);
    if (!made) return base_out_of_memory();
    made->in = arena_copy(memory, plan->chosen.in, r->nin * sizeof *made->in);
    made->out = arena_copy(memory, plan->chosen.out, r->nout * sizeof *made->out);
    return made->in && made->out ? NULL : base_out_of_memory();
}

weft_status spmd_known_add(spmd_plan *plan, spmd_op *op) {
    struct spmd_known *k = plan->known;
    TRY(keep_choice(plan, &op->kind->rule, &op->choice));
    if (k->at.item != TABLE_NONE) {
        k->items[k->at.item].choice = op->choice;
        return NULL;
    }
    TRY(table_reserve(k->memory, &k->table, k->nitems + 1));
    TRY(grow(k->memory, &k->items, &k->capacity, k->nitems + 1, sizeof *k->items));
    known *x = &k->items[k->nitems];
    *x = (known){.key = arena_copy(k->memory, k->key, k->nkey), .nkey = k->nkey, .choice = op->choice};
    if (!x->key) return base_out_of_memory();
    k->at = table_find(&k->table, k->at.hash); /* it may have grown */
    while (k->at.item != TABLE_NONE) table_next(&k->table, &k->at);
    table_put(&k->table, &k->at, (uint32_t)k->nitems++);
    return NULL;
}
