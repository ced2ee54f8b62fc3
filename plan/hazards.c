/* hazards.c: what each instruction must wait for: waits that order every pair of conflicting accesses, and no more.
 *
 * A stream runs its instructions in order. An instruction on stream s starts when those before it on s are complete and
 * its waits are met; its clock says how many instructions of each stream are complete by then, whatever the timing:
 * what its predecessor's clock says, joined with the clocks of the instructions that it waits for. An access that
 * conflicts with an earlier one on another stream needs a wait unless the clock covers it already. Another wait of the
 * same instruction may bring a clock that does (vector clocks: Fidge 1988, Mattern 1989). Collectives of one ring
 * follow one another in plan order on whatever streams they are, since all ranks must issue them in one order. Where an
 * order is given (given.c) only what it asks for is waited for, beside that order of collectives. */
#include <stdlib.h>

#include "plan/builder.h"

typedef struct orderer {
    plan_builder *b;
    plan_ranges *ranges;
    size_t nstreams;
    int32_t *need;             /* of the instruction at hand: instructions of each stream that must be complete */
    int32_t *previous_on_ring; /* by instruction: the collective before it on its ring, or -1 */
    const int32_t **clocks;    /* stream after stream, by position: the clocks of instructions so far */
    size_t *first_of;          /* by stream: where its clocks begin */
} orderer;

typedef struct collective {
    int64_t ring_id;
    int32_t instr;
} collective;

static int compare_collectives(const void *x, const void *y) {
    const collective *a = x, *c = y;
    if (a->ring_id != c->ring_id) return a->ring_id < c->ring_id ? -1 : 1;
    return (a->instr > c->instr) - (a->instr < c->instr);
}

static weft_status chain_collectives(orderer *o) {
    plan_builder *b = o->b;
    collective *all = ARENA_ARRAY(&b->scratch, collective, b->ninstrs + 1);
    size_t n = 0;
    o->previous_on_ring = ARENA_ARRAY(&b->scratch, int32_t, b->ninstrs + 1);
    if (!all || !o->previous_on_ring) return base_out_of_memory();
    for (size_t i = 0; i < b->ninstrs; i++) {
        o->previous_on_ring[i] = -1;
        if (b->instrs[i].ring_id >= 0) all[n++] = (collective){b->instrs[i].ring_id, (int32_t)i};
    }
    if (n > 1) qsort(all, n, sizeof *all, compare_collectives);
    for (size_t k = 1; k < n; k++)
        if (all[k].ring_id == all[k - 1].ring_id) o->previous_on_ring[all[k].instr] = all[k - 1].instr;
    return NULL;
}

/* Where the clock of an instruction is noted. */
static const int32_t **clock_at(const orderer *o, size_t stream, int32_t position) {
    return &o->clocks[o->first_of[stream] + (size_t)position];
}

/* What must be complete before instruction `i`, stream by stream. */
static void gather_needs(orderer *o, size_t i) {
    const plan_builder *b = o->b;
    memset(o->need, 0, o->nstreams * sizeof *o->need);
    if (b->given) plan_given_needs(b, i, o->need);
    for (uint32_t k = b->first_access[i]; !b->given && k < b->first_access[i + 1]; k++)
        plan_ranges_conflicts(o->ranges, b->accesses[k], o->need);
    if (o->previous_on_ring[i] >= 0) {
        const plan_instr *before = &b->instrs[o->previous_on_ring[i]];
        if (before->position >= o->need[before->stream]) o->need[before->stream] = before->position + 1;
    }
}

/* Whether waiting for stream t as far as needed is implied by the need on another stream. */
static bool is_implied(const orderer *o, const int32_t *clock, size_t t) {
    for (size_t other = 0; other < o->nstreams; other++) {
        if (other == t || o->need[other] <= clock[other]) continue;
        if ((*clock_at(o, other, o->need[other] - 1))[t] >= o->need[t]) return true;
    }
    return false;
}

/* The waits of instruction `i`, whose clock holds what its stream knows already; then its clock with them. */
static weft_status make_waits(orderer *o, size_t i, int32_t *clock) {
    plan_builder *b = o->b;
    plan_instr *instr = &b->instrs[i];
    plan_wait waits[PLAN_MAX_STREAMS];
    for (size_t t = 0; t < o->nstreams; t++)
        if (o->need[t] > clock[t] && !is_implied(o, clock, t))
            waits[instr->nwaits++] = (plan_wait){(int32_t)t, o->need[t]};
    for (uint32_t w = 0; w < instr->nwaits; w++) {
        size_t t = (size_t)waits[w].stream;
        const int32_t *brought = *clock_at(o, t, waits[w].count - 1);
        for (size_t s = 0; s < o->nstreams; s++)
            if (brought[s] > clock[s]) clock[s] = brought[s];
        if (waits[w].count > clock[t]) clock[t] = waits[w].count;
    }
    if (!instr->nwaits) return NULL;
    instr->waits = arena_copy(&b->plan->arena, waits, instr->nwaits * sizeof *waits);
    return instr->waits ? NULL : base_out_of_memory();
}

static weft_status order_instr(orderer *o, size_t i) {
    plan_builder *b = o->b;
    const plan_instr *instr = &b->instrs[i];
    size_t s = (size_t)instr->stream;
    int32_t *clock = b->clocks + i * o->nstreams;
    if (instr->position > 0) memcpy(clock, *clock_at(o, s, instr->position - 1), o->nstreams * sizeof *clock);
    clock[s] = instr->position;
    gather_needs(o, i);
    TRY(make_waits(o, i, clock));
    *clock_at(o, s, instr->position) = clock;
    for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++)
        plan_ranges_record(o->ranges, b->accesses[k], instr->stream, instr->position + 1);
    return NULL;
}

weft_status plan_order_accesses(plan_builder *b) {
    orderer o = {.b = b, .nstreams = b->nstreams};
    size_t nclocks;
    if (!base_mul(b->ninstrs, b->nstreams, &nclocks)) return base_out_of_memory();
    b->clocks = ARENA_ARRAY(&b->scratch, int32_t, nclocks + 1);
    o.clocks = ARENA_ARRAY(&b->scratch, const int32_t *, b->ninstrs + 1);
    o.first_of = ARENA_ARRAY(&b->scratch, size_t, b->nstreams);
    o.need = ARENA_ARRAY(&b->scratch, int32_t, b->nstreams);
    if (!b->clocks || !o.clocks || !o.first_of || !o.need) return base_out_of_memory();
    for (size_t s = 1; s < b->nstreams; s++) o.first_of[s] = o.first_of[s - 1] + (size_t)b->stream_length[s - 1];
    TRY(plan_ranges_create(b, &o.ranges));
    TRY(chain_collectives(&o));
    for (size_t i = 0; i < b->ninstrs; i++) TRY(order_instr(&o, i));
    return NULL;
}
