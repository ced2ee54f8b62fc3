/* rings.c: rings are few (one per kind of parallelism), so they are looked up one by one. */
#include "plan/rings.h"

#include "ops/collectives.h"

static weft_status find_ranks(const weft_plan *plan, int nranks, arena *a, plan_ring *r) {
    const ring *declared = program_find_ring(plan->program, r->id);
    if (declared) {
        r->nranks = declared->nranks;
        r->ranks = declared->ranks;
        return NULL;
    }
    int64_t *all = ARENA_ARRAY(a, int64_t, nranks);
    if (!all) return base_out_of_memory();
    for (int i = 0; i < nranks; i++) all[i] = i;
    r->nranks = nranks;
    r->ranks = all;
    return NULL;
}

const plan_ring *plan_ring_find(const plan_rings *rings, int64_t id) {
    for (size_t i = 0; i < rings->count; i++)
        if (rings->items[i].id == id) return &rings->items[i];
    return NULL;
}

int plan_ring_index(const plan_ring *r, int64_t rank) {
    for (int m = 0; m < r->nranks; m++)
        if (r->ranks[m] == rank) return m;
    return -1;
}

const plan_instr *plan_ring_first(const plan_ring *r) {
    if (!r->npairs) return r->instrs[0];
    return r->ninstrs && r->instrs[0] < r->pairs[0] ? r->instrs[0] : r->pairs[0];
}

bool plan_is_pair(const plan_instr *instr, bool *out_is_send) {
    collective_kind kind = op_collective_kind(instr->op);
    *out_is_send = kind == COLLECTIVE_SEND;
    return *out_is_send || kind == COLLECTIVE_RECV;
}

static weft_status list_instrs(const weft_plan *plan, arena *a, plan_ring *r) {
    bool is_send;
    size_t count = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) count += plan->instrs[i].ring_id == r->id;
    r->instrs = ARENA_ARRAY(a, const plan_instr *, count + 1);
    r->pairs = ARENA_ARRAY(a, const plan_instr *, count + 1);
    if (!r->instrs || !r->pairs) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        if (instr->ring_id != r->id) continue;
        if (plan_is_pair(instr, &is_send))
            r->pairs[r->npairs++] = instr;
        else
            r->instrs[r->ninstrs++] = instr;
    }
    return NULL;
}

weft_status plan_find_rings(const weft_plan *plan, int nranks, arena *a, plan_rings *out) {
    size_t ncollectives = 0;
    for (size_t i = 0; i < plan->ninstrs; i++) ncollectives += plan->instrs[i].ring_id >= 0;
    plan_rings found = {.items = ARENA_ARRAY(a, plan_ring, ncollectives + 1)};
    if (!found.items) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        int64_t id = plan->instrs[i].ring_id;
        if (id < 0 || plan_ring_find(&found, id)) continue;
        plan_ring *r = &found.items[found.count];
        r->id = id;
        TRY(find_ranks(plan, nranks, a, r));
        found.count++;
    }
    for (size_t k = 0; k < found.count; k++) TRY(list_instrs(plan, a, &found.items[k]));
    *out = found;
    return NULL;
}
