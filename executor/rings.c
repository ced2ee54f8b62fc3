/* rings.c: the rings that a plan communicates on, resolved for a rank; and whether the ranks agree on them.
 *
 * The invariant: before the first step every member of a ring runs the same sequence of (type, dtype, count) on it.
 * Otherwise the first difference is an error here, not a hang in a step. A ring that no program names is all ranks of
 * the run, in order. */
#include <stdio.h>

#include "executor/executor.h"

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
    *u = (ring_use){.id = instr->ring_id};
    TRY(ring_ranks(x, rank, u->id, &nranks, &u->ranks));
    weft_status status = local_ring_get(x->world, u->id, nranks, u->ranks, rank->rank, &u->comm);
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
        for (size_t i = 0; i < plan->ninstrs; i++) u->ninstrs += plan->instrs[i].ring_id == u->id;
        u->instrs = ARENA_ARRAY(&x->arena, const plan_instr *, u->ninstrs);
        if (!u->instrs) return base_out_of_memory();
        size_t n = 0;
        for (size_t i = 0; i < plan->ninstrs; i++) {
            if (plan->instrs[i].ring_id == u->id) u->instrs[n++] = &plan->instrs[i];
        }
    }
    return NULL;
}

/* --- agreement -------------------------------------------------------------------------------------------------------
 */

/* What a collective is about: its first input, else its first output; NULL for a barrier. */
static const plan_value *payload(const weft_plan *plan, const plan_instr *instr) {
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nin; i++) {
        if (instr->in[i] >= 0) return &plan->values[instr->in[i]];
    }
    for (size_t i = 0; i < nout; i++) {
        if (instr->out[i] >= 0) return &plan->values[instr->out[i]];
    }
    return NULL;
}

static bool same_collective(const weft_plan *pa, const plan_instr *a, const weft_plan *pb, const plan_instr *b) {
    if (strcmp(a->schema->type, b->schema->type) != 0) return false;
    const plan_value *va = payload(pa, a), *vb = payload(pb, b);
    if (!va || !vb) return va == vb;
    return va->shape.dtype == vb->shape.dtype && shape_numel(&va->shape) == shape_numel(&vb->shape);
}

/* "runs c_allreduce_sum #41 of 12 float32", or that there is none. */
static void describe(const rank_state *rank, const ring_use *u, size_t i, char *out, size_t nbytes) {
    char op[200];
    if (!u || i >= u->ninstrs) {
        snprintf(out, nbytes, "runs none");
        return;
    }
    const plan_value *v = payload(rank->plan, u->instrs[i]);
    const char *dtype = v ? weft_dtype_name((weft_dtype)v->shape.dtype) : NULL;
    instr_place(u->instrs[i], op, sizeof op);
    if (v) {
        snprintf(out, nbytes, "runs %s of %lld %s", op, (long long)shape_numel(&v->shape), dtype ? dtype : "?");
    } else {
        snprintf(out, nbytes, "runs %s", op);
    }
}

static weft_status compare(const rank_state *a, const ring_use *ua, const rank_state *b, const ring_use *ub) {
    size_t na = ua->ninstrs, nb = ub ? ub->ninstrs : 0, n = na < nb ? na : nb, i = 0;
    while (i < n && same_collective(a->plan, ua->instrs[i], b->plan, ub->instrs[i])) i++;
    if (i == na && i == nb) return NULL;
    char first[300], second[300];
    describe(a, ua, i, first, sizeof first);
    describe(b, ub, i, second, sizeof second);
    return weft_status_create(WEFT_INVALID_PROGRAM, NULL,
                              "ring %lld: ranks disagree on collective %zu: rank %d %s, rank %d %s", (long long)ua->id,
                              i, a->rank, first, b->rank, second);
}

/* The same ring at another member; NULL if that one has no collective on it. */
static const ring_use *counterpart(const rank_state *rank, const ring_use *u) {
    const ring_use *other = rings_find(rank, u->id);
    return other && other->comm->shared == u->comm->shared ? other : NULL;
}

weft_status rings_check(const weft_executor *x) {
    for (int r = 0; r < x->nranks; r++) {
        const rank_state *rank = &x->ranks[r];
        for (size_t i = 0; i < rank->nrings; i++) {
            const ring_use *u = &rank->rings[i];
            for (int m = 0; m < u->comm->nranks; m++) {
                const rank_state *member = &x->ranks[u->ranks[m]];
                const ring_use *other = counterpart(member, u);
                /* Each pair once; all members with the first, and those that lack the ring with any. */
                bool first = m == 0 && member != rank;
                if (first || !other) TRY(compare(rank, u, member, other));
            }
        }
    }
    return NULL;
}
