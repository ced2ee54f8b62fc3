/* rings.c: rings of a simulation: nothing is sent, but who has come is noted. Found by id and list of ranks, so that equal
 * ids with other ranks are other rings; their number may be large, as that of ranks may. */
#include "simulate/simulate.h"

static uint32_t hash_ring(const plan_ring *r) {
    return base_hash(r->ranks, (size_t)r->nranks * sizeof *r->ranks) ^ base_hash(&r->id, sizeof r->id);
}

static sim_ring *find_ring(const weft_simulation *x, uint32_t hash, const plan_ring *of) {
    for (sim_ring *r = x->rings[hash & (x->nring_slots - 1)]; r; r = r->next)
        if (r->hash == hash && r->id == of->id && r->nranks == of->nranks &&
            memcmp(r->ranks, of->ranks, (size_t)of->nranks * sizeof *of->ranks) == 0) /* none is empty */
            return r;
    return NULL;
}

static weft_status check_ranks(const weft_simulation *x, const plan_ring *r, arena *scratch) {
    bool *is_in = ARENA_ARRAY(scratch, bool, x->nranks);
    if (!is_in) return base_out_of_memory();
    if (r->nranks < 1 || r->nranks > x->nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has %d ranks, the run has %d",
                                  (long long)r->id, r->nranks, x->nranks);
    for (int i = 0; i < r->nranks; i++) {
        if (r->ranks[i] < 0 || r->ranks[i] >= x->nranks)
            return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld has rank %lld, the run has ranks 0 to %d",
                                      (long long)r->id, (long long)r->ranks[i], x->nranks - 1);
        if (is_in[r->ranks[i]])
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has rank %lld twice", (long long)r->id,
                                      (long long)r->ranks[i]);
        is_in[r->ranks[i]] = true;
    }
    return NULL;
}

static weft_status make_ring(weft_simulation *x, uint32_t hash, const plan_ring *of, sim_ring **out) {
    arena scratch;
    arena_init(&scratch, &x->context->allocator);
    weft_status status = check_ranks(x, of, &scratch);
    arena_fini(&scratch);
    if (status) return status;
    sim_ring *r = ARENA_NEW(&x->arena, sim_ring);
    if (!r) return base_out_of_memory();
    *r = (sim_ring){.hash = hash, .id = of->id, .ranks = of->ranks, .nranks = of->nranks};
    r->come = ARENA_ARRAY(&x->arena, sim_stream *, of->nranks);
    r->moving = ARENA_ARRAY(&x->arena, sim_stream *, of->nranks);
    if (!r->come || !r->moving) return base_out_of_memory();
    r->next = x->rings[hash & (x->nring_slots - 1)];
    x->rings[hash & (x->nring_slots - 1)] = r;
    *out = r;
    return NULL;
}

static weft_status join_ring(weft_simulation *x, const sim_rank *rank, const plan_ring *r, sim_member *out) {
    uint32_t hash = r->nranks > 0 ? hash_ring(r) : 0;
    sim_ring *found = find_ring(x, hash, r);
    if (!found) TRY(make_ring(x, hash, r, &found));
    int index = plan_ring_index(r, rank->rank);
    if (index < 0)
        return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld does not contain rank %d", (long long)r->id,
                                  rank->rank);
    *out = (sim_member){.ring = found, .index = index};
    return NULL;
}

weft_status sim_join_rings(weft_simulation *x, sim_rank *rank) {
    const plan_rings *rings = &rank->plan->rings;
    rank->members = ARENA_ARRAY(&x->arena, sim_member, rings->count + 1);
    if (!rank->members) return base_out_of_memory();
    for (size_t k = 0; k < rings->count; k++) {
        const plan_ring *r = &rings->items[k];
        char op[200];
        weft_status status = join_ring(x, rank, r, &rank->members[k]);
        if (!status) continue;
        weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, %s: %s", rank->rank,
                                                instr_place(plan_ring_first(r), op, sizeof op), weft_status_message(status));
        weft_status_free(status);
        return worded;
    }
    return NULL;
}

sim_member *sim_member_of(const sim_rank *rank, int64_t ring_id) {
    return &rank->members[plan_ring_find(&rank->plan->rings, ring_id) - rank->plan->rings.items];
}
