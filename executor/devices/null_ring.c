/* null_ring.c: rings of the null device: nothing is sent, but who has come is noted. Found by id and list of ranks, so
 * that equal ids with other ranks are other rings; their number may be large, as that of ranks may. */
#include "executor/devices/null.h"

static uint32_t hash_ring(int64_t id, int nranks, const int64_t *ranks) {
    return base_hash(ranks, (size_t)nranks * sizeof *ranks) ^ base_hash(&id, sizeof id);
}

static null_ring *find_ring(const null_device *d, uint32_t hash, int64_t id, int nranks, const int64_t *ranks) {
    for (null_ring *r = d->rings[hash & (d->nring_slots - 1)]; r; r = r->next)
        if (r->hash == hash && r->id == id && r->nranks == nranks &&
            memcmp(r->ranks, ranks, (size_t)nranks * sizeof *ranks) == 0) /* none is empty */
            return r;
    return NULL;
}

static weft_status check_ranks(const weft_executor *x, int64_t id, int nranks, const int64_t *ranks, arena *scratch) {
    bool *is_in = ARENA_ARRAY(scratch, bool, x->nranks);
    if (!is_in) return base_out_of_memory();
    if (nranks < 1 || nranks > x->nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has %d ranks, the run has %d", (long long)id,
                                  nranks, x->nranks);
    for (int i = 0; i < nranks; i++) {
        if (ranks[i] < 0 || ranks[i] >= x->nranks)
            return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld has rank %lld, the run has ranks 0 to %d",
                                      (long long)id, (long long)ranks[i], x->nranks - 1);
        if (is_in[ranks[i]])
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "ring %lld has rank %lld twice", (long long)id,
                                      (long long)ranks[i]);
        is_in[ranks[i]] = true;
    }
    return NULL;
}

static weft_status make_ring(weft_executor *x, uint32_t hash, int64_t id, int nranks, const int64_t *ranks,
                             null_ring **out) {
    null_device *d = x->null;
    arena scratch;
    arena_init(&scratch, &x->context->allocator);
    weft_status status = check_ranks(x, id, nranks, ranks, &scratch);
    arena_fini(&scratch);
    if (status) return status;
    null_ring *r = ARENA_NEW(&x->arena, null_ring);
    if (!r) return base_out_of_memory();
    *r = (null_ring){.hash = hash, .id = id, .nranks = nranks};
    r->ranks = arena_copy(&x->arena, ranks, (size_t)nranks * sizeof *ranks);
    r->come = ARENA_ARRAY(&x->arena, null_stream *, nranks);
    r->views = ARENA_ARRAY(&x->arena, comm_ring, nranks);
    if (!r->ranks || !r->come || !r->views) return base_out_of_memory();
    for (int m = 0; m < nranks; m++) r->views[m] = (comm_ring){NULL, id, m, nranks, r};
    r->next = d->rings[hash & (d->nring_slots - 1)];
    d->rings[hash & (d->nring_slots - 1)] = r;
    *out = r;
    return NULL;
}

weft_status null_ring_get(weft_executor *x, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                          comm_ring **out) {
    uint32_t hash = nranks > 0 ? hash_ring(id, nranks, ranks) : 0;
    null_ring *r = find_ring(x->null, hash, id, nranks, ranks);
    if (!r) TRY(make_ring(x, hash, id, nranks, ranks, &r));
    for (int m = 0; m < nranks; m++) {
        if (ranks[m] != rank) continue;
        *out = &r->views[m];
        return NULL;
    }
    return weft_status_create(WEFT_NOT_FOUND, NULL, "ring %lld does not contain rank %lld", (long long)id,
                              (long long)rank);
}
