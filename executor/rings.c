/* rings.c: the rings that a plan communicates on, resolved for a rank. A ring that no program names is all ranks of the
 * run, in order. */
#include <stdio.h>

#include "executor/devices/null.h"
#include "executor/watchdog.h"
#include "ops/collectives.h"

static weft_status ring_ranks(weft_executor *x, const rank_state *rank, int64_t id, int *out_nranks,
                              const int64_t **out_ranks) {
    const ring *declared = program_find_ring(rank->plan->program, id);
    if (declared) {
        *out_nranks = declared->nranks;
        *out_ranks = declared->ranks;
        return NULL;
    }
    int64_t *all = ARENA_ARRAY(&x->arena, int64_t, x->nranks);
    if (!all) return base_out_of_memory();
    for (int r = 0; r < x->nranks; r++) all[r] = r;
    *out_nranks = x->nranks;
    *out_ranks = all;
    return NULL;
}

const ring_use *rings_find(const rank_state *rank, int64_t id) {
    for (size_t i = 0; i < rank->nrings; i++) {
        if (rank->rings[i].id == id) return &rank->rings[i];
    }
    return NULL;
}

static bool communicates(const plan_instr *instr) {
    return instr->ring_id >= 0;
}

static weft_status add_ring(weft_executor *x, rank_state *rank, const plan_instr *instr) {
    ring_use *u = &rank->rings[rank->nrings];
    int nranks = 0;
    char op[200];
    *u = (ring_use){.id = instr->ring_id, .inflight = ARENA_NEW(&x->arena, inflight_record)};
    if (!u->inflight) return base_out_of_memory();
    TRY(ring_ranks(x, rank, u->id, &nranks, &u->ranks));
    weft_status status = x->null ? null_ring_get(x, u->id, nranks, u->ranks, rank->rank, &u->comm)
                                 : comm_ring_get(x->world, u->id, nranks, u->ranks, rank->rank, &u->comm);
    if (status) {
        weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, %s: %s", rank->rank,
                                                instr_place(instr, op, sizeof op), weft_status_message(status));
        weft_status_free(status);
        return worded;
    }
    rank->nrings++;
    return NULL;
}

/* Rings are few (one per kind of parallelism), so they are looked up one by one. */
static size_t count_rings(const weft_plan *plan) {
    size_t n = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) n += communicates(&plan->instrs[i]);
    return n;
}

bool rings_is_pair(const plan_instr *instr, bool *out_is_send) {
    collective_kind kind = op_collective_kind(instr->op);
    *out_is_send = kind == COLLECTIVE_SEND;
    return *out_is_send || kind == COLLECTIVE_RECV;
}

static weft_status list_instrs(weft_executor *x, const weft_plan *plan, ring_use *u) {
    bool is_send;
    size_t count = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) count += plan->instrs[i].ring_id == u->id;
    u->instrs = ARENA_ARRAY(&x->arena, const plan_instr *, count + 1);
    u->pairs = ARENA_ARRAY(&x->arena, const plan_instr *, count + 1);
    if (!u->instrs || !u->pairs) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        if (instr->ring_id != u->id) continue;
        if (rings_is_pair(instr, &is_send))
            u->pairs[u->npairs++] = instr;
        else
            u->instrs[u->ninstrs++] = instr;
    }
    return NULL;
}

weft_status rings_resolve(weft_executor *x, rank_state *rank) {
    const weft_plan *plan = rank->plan;
    size_t ncollectives = count_rings(plan);
    rank->rings = ARENA_ARRAY(&x->arena, ring_use, ncollectives ? ncollectives : 1);
    if (!rank->rings) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        if (!communicates(instr)) continue;
        if (!rings_find(rank, instr->ring_id)) TRY(add_ring(x, rank, instr));
    }
    for (size_t r = 0; r < rank->nrings; r++) {
        ring_use *u = &rank->rings[r];
        TRY(list_instrs(x, plan, u));
    }
    return NULL;
}
