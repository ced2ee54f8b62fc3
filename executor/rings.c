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

static int64_t count_elements(const weft_plan *plan, const int32_t *values, uint32_t n) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        if (values[i] >= 0) sum += shape_numel(&plan->values[values[i]].shape);
    return sum;
}

/* Elements that all ranks must agree on: of the inputs; of the output where only the root's inputs count. -1 where
 * ranks may send each other parts of different sizes: the engine compares these pair by pair. */
static int64_t agreed_count(const weft_plan *plan, const plan_instr *instr) {
    const op_schema *s = instr->schema;
    size_t nsplits, nreceived;
    attr_ints(instr->op, "in_splits", &nsplits);
    attr_ints(instr->op, "out_splits", &nreceived);
    if (nsplits || nreceived || strcmp(s->type, "all_to_all_list") == 0) return -1;
    uint32_t nin = instr->in_first[s->ninputs], nout = instr->out_first[s->noutputs];
    bool by_output = !nin || strcmp(s->type, "scatter_list") == 0;
    return by_output ? count_elements(plan, instr->out, nout) : count_elements(plan, instr->in, nin);
}

static bool same_collective(const weft_plan *pa, const plan_instr *a, const weft_plan *pb, const plan_instr *b) {
    if (strcmp(a->schema->type, b->schema->type) != 0) return false;
    const plan_value *va = payload(pa, a), *vb = payload(pb, b);
    if (!va || !vb) return va == vb;
    int64_t na = agreed_count(pa, a), nb = agreed_count(pb, b);
    return va->shape.dtype == vb->shape.dtype && (na == nb || na < 0 || nb < 0);
}

/* "runs c_allreduce_sum #41 of 12 float32", or that there is none. */
static void describe(const rank_state *rank, const ring_use *u, size_t i, char *out, size_t nbytes) {
    char op[200];
    if (!u || i >= u->ninstrs) {
        snprintf(out, nbytes, "runs none");
        return;
    }
    const plan_value *v = payload(rank->plan, u->instrs[i]);
    int64_t count = agreed_count(rank->plan, u->instrs[i]);
    const char *dtype = v ? weft_dtype_name((weft_dtype)v->shape.dtype) : NULL;
    instr_place(u->instrs[i], op, sizeof op);
    if (v && count >= 0) {
        snprintf(out, nbytes, "runs %s of %lld %s", op, (long long)count, dtype ? dtype : "?");
    } else if (v) {
        snprintf(out, nbytes, "runs %s of %s", op, dtype ? dtype : "?");
    } else {
        snprintf(out, nbytes, "runs %s", op);
    }
}

/* What a pass says of the gradients that one bucket reduces; 0 if it is no bucket. */
static uint64_t fingerprint(const plan_instr *instr) {
    return (uint64_t)attr_int(instr->op, "bucket_fingerprint", 0);
}

/* Buckets may have equal sizes and other members: sums of different gradients, which nothing else would notice. */
static weft_status compare_buckets(const rank_state *a, const ring_use *ua, const rank_state *b, const ring_use *ub) {
    char op[200], other[200];
    for (size_t i = 0; i < ua->ninstrs; i++) {
        uint64_t x = fingerprint(ua->instrs[i]), y = fingerprint(ub->instrs[i]);
        if (x == y) continue;
        return weft_status_create(
            WEFT_INVALID_PROGRAM, NULL,
            "ring %lld: ranks put different gradients into a bucket: rank %d %s has fingerprint %016llx, rank %d %s "
            "%016llx",
            (long long)ua->id, a->rank, instr_place(ua->instrs[i], op, sizeof op), (unsigned long long)x, b->rank,
            instr_place(ub->instrs[i], other, sizeof other), (unsigned long long)y);
    }
    return NULL;
}

static weft_status compare(const rank_state *a, const ring_use *ua, const rank_state *b, const ring_use *ub) {
    size_t na = ua->ninstrs, nb = ub ? ub->ninstrs : 0, n = na < nb ? na : nb, i = 0;
    while (i < n && same_collective(a->plan, ua->instrs[i], b->plan, ub->instrs[i])) i++;
    if (i == na && i == nb && n) return compare_buckets(a, ua, b, ub);
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
