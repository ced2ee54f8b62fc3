/* rings.c: the rings that a plan communicates on, resolved for a rank. */
#include "plan/rings.h"
#include "executor/watchdog.h"

const ring_use *rings_find(const rank_state *rank, int64_t id) {
    for (size_t i = 0; i < rank->nrings; i++) {
        if (rank->rings[i].id == id) return &rank->rings[i];
    }
    return NULL;
}

/* Somebody runs the ring's collectives: a thread, or the device's streams. */
static weft_status check_carrier(const weft_executor *x, const rank_state *rank, const plan_ring *r,
                                 const comm_ring_engine *engine) {
    const char *device_name = x->device->engine->name;
    char op[200];
    if (engine->run || comm_can_enqueue(rank->rings[rank->nrings - 1].comm, device_name)) return NULL;
    return weft_status_create(
        WEFT_UNSUPPORTED, NULL, "rank %d, %s: rings of engine %s run on streams of device %s only, and this is %s",
        rank->rank, instr_place(plan_ring_first(r), op, sizeof op), engine->name, engine->enqueues_on, device_name);
}

static weft_status add_ring(weft_executor *x, rank_state *rank, const plan_ring *r) {
    ring_use *u = &rank->rings[rank->nrings];
    char op[200];
    *u = (ring_use){.id = r->id,
                    .ranks = r->ranks,
                    .instrs = r->instrs,
                    .pairs = r->pairs,
                    .ninstrs = r->ninstrs,
                    .npairs = r->npairs,
                    .inflight = ARENA_NEW(&x->arena, inflight_record)};
    if (!u->inflight) return base_out_of_memory();
    weft_status status = comm_ring_get(x->world, u->id, r->nranks, u->ranks, rank->rank, &u->comm);
    if (status) {
        weft_status worded =
            weft_status_create(weft_status_code(status), NULL, "rank %d, %s: %s", rank->rank,
                               instr_place(plan_ring_first(r), op, sizeof op), weft_status_message(status));
        weft_status_free(status);
        return worded;
    }
    rank->nrings++;
    return check_carrier(x, rank, r, u->comm->engine);
}

weft_status rings_resolve(weft_executor *x, rank_state *rank) {
    plan_rings rings;
    TRY(plan_find_rings(rank->plan, x->nranks, &x->arena, &rings));
    rank->rings = ARENA_ARRAY(&x->arena, ring_use, rings.count + 1);
    if (!rank->rings) return base_out_of_memory();
    for (size_t k = 0; k < rings.count; k++) TRY(add_ring(x, rank, &rings.items[k]));
    return NULL;
}
