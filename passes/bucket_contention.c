/* bucket_contention.c: a rank's streams on virtual clocks where compute and collectives slow one another down
 * (simulate/contention.c). */
#include "passes/bucket_play.h"
#include "plan/work.h"

enum { MOST_PARTS = 16 };

bool bucket_contends(const bucket_times *t) {
    const weft_cluster *c = &t->cluster;
    return (c->compute_beside_collective > 1 || c->collective_beside_compute > 1) && t->plan->nstreams == 2;
}

/* Instructions that a bucket runs one after another. */
typedef struct part {
    int64_t ns;
    bool is_collective;
} part;

typedef struct race_of_two {
    player *p;
    const plan_stream *compute;
    const uint32_t *bucket_of;
    uint32_t *needs; /* by bucket: so many instructions of compute */
    part *parts;     /* by bucket MOST_PARTS */
    size_t *nparts;
    size_t instr, bucket, part; /* at hand */
    bool computes, reduces;     /* they have begun */
    plan_work work, transfer;
    int64_t now;
} race_of_two;

/* --- what buckets run --------------------------------------------------------------------------------------------- */

static void add_part(race_of_two *r, size_t bucket, int64_t ns, bool is_collective) {
    if (r->nparts[bucket] < MOST_PARTS) r->parts[bucket * MOST_PARTS + r->nparts[bucket]++] = (part){ns, is_collective};
}

static void list_parts(race_of_two *r) {
    bucket_times *t = r->p->t;
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (bucket_lane(t, instr->stream) < 0) continue;
        size_t k = r->bucket_of[t->item_of[i]];
        for (uint32_t w = 0; w < instr->nwaits; w++)
            if (instr->waits[w].stream == 0 && (uint32_t)instr->waits[w].count > r->needs[k])
                r->needs[k] = (uint32_t)instr->waits[w].count;
        if (t->buckets[k].count == 1) add_part(r, k, t->ns[i], instr->ring_id >= 0);
    }
    for (size_t k = 0; k < t->nbuckets; k++) {
        const bucket_time *b = &t->buckets[k];
        const bucket_kind *kind = &t->problem.kinds[t->problem.items[b->last].kind];
        for (size_t i = 0; b->count > 1 && i < kind->ncurves; i++)
            add_part(r, k, plan_curve_ns(&kind->curves[i], (double)b->nbytes), i < kind->ncollectives);
        if (k && r->needs[k - 1] > r->needs[k]) r->needs[k] = r->needs[k - 1]; /* the stream is in order */
    }
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

static const part *part_at(const race_of_two *r) {
    return &r->parts[r->bucket * MOST_PARTS + r->part];
}

static bool moves(const race_of_two *r) {
    return r->reduces && part_at(r)->is_collective;
}

static const plan_instr *instr_at(const race_of_two *r) {
    return r->compute->instrs[r->instr];
}

static bool contends(const race_of_two *r) {
    return r->computes && instr_at(r)->ring_id < 0;
}

/* Both go on at the speed that what runs beside them leaves. */
static void turn_both(race_of_two *r) {
    const weft_cluster *c = &r->p->t->cluster;
    bool both = moves(r) && contends(r);
    if (r->computes)
        plan_work_turn(&r->work, r->now, both ? plan_speed(c->compute_beside_collective) : PLAN_FULL_SPEED);
    if (r->reduces)
        plan_work_turn(&r->transfer, r->now, both ? plan_speed(c->collective_beside_compute) : PLAN_FULL_SPEED);
}

/* Whether all buckets that the instruction needs have ended; p->edge is the first edge from it on. */
static bool may_compute(const race_of_two *r) {
    const bucket_times *t = r->p->t;
    uint32_t i = (uint32_t)(instr_at(r) - t->plan->instrs);
    size_t e = r->p->edge;
    while (e < t->nedges && t->edges[e].instr < i) e++;
    r->p->edge = e;
    for (; e < t->nedges && t->edges[e].instr == i; e++)
        if (r->bucket_of[t->edges[e].item] >= r->bucket) return false;
    return true;
}

static void begin_what_may(race_of_two *r) {
    bucket_times *t = r->p->t;
    if (!r->computes && r->instr < r->compute->ninstrs && may_compute(r)) {
        size_t i = (size_t)(instr_at(r) - t->plan->instrs);
        r->computes = true;
        r->p->start[i] = r->now;
        plan_work_begin(&r->work, t->ns[i], r->now, PLAN_FULL_SPEED);
    }
    if (!r->reduces && r->bucket < t->nbuckets && r->needs[r->bucket] <= r->instr) {
        r->reduces = true;
        if (!r->part) t->buckets[r->bucket].start_ns = r->now;
        plan_work_begin(&r->transfer, part_at(r)->ns, r->now, PLAN_FULL_SPEED);
    }
    turn_both(r);
}

static void end_part(race_of_two *r) {
    bucket_time *b = &r->p->t->buckets[r->bucket];
    if (part_at(r)->is_collective) b->collective_ns = r->now - b->start_ns;
    r->reduces = false;
    if (++r->part < r->nparts[r->bucket]) return;
    b->end_ns = r->now;
    r->bucket++;
    r->part = 0;
}

/* Ends what ends next; false: nothing is under way. */
static bool advance(race_of_two *r) {
    int64_t compute = r->computes ? plan_work_end(&r->work) : INT64_MAX,
            reduce = r->reduces ? plan_work_end(&r->transfer) : INT64_MAX;
    if (!r->computes && !r->reduces) return false;
    r->now = compute < reduce ? compute : reduce;
    if (compute == r->now) {
        r->p->end[instr_at(r) - r->p->t->plan->instrs] = r->now;
        r->computes = false;
        r->instr++;
    }
    if (reduce == r->now) end_part(r);
    turn_both(r);
    return true;
}

weft_status bucket_play_contended(player *p, const uint32_t *bucket_of) {
    bucket_times *t = p->t;
    race_of_two r = {.p = p, .compute = &p->streams[0], .bucket_of = bucket_of};
    r.needs = ARENA_ARRAY(t->scratch, uint32_t, t->nbuckets + 1);
    r.parts = ARENA_ARRAY(t->scratch, part, (t->nbuckets + 1) * MOST_PARTS);
    r.nparts = ARENA_ARRAY(t->scratch, size_t, t->nbuckets + 1);
    if (!r.needs || !r.parts || !r.nparts) return base_out_of_memory();
    list_parts(&r);
    do begin_what_may(&r);
    while (advance(&r));
    t->step_ns = r.now;
    for (size_t k = 0; k < t->nbuckets; k++) {
        bucket_time *b = &t->buckets[k];
        b->ready_ns = r.needs[k] ? p->end[r.compute->instrs[r.needs[k] - 1] - t->plan->instrs] : 0;
    }
    return NULL;
}
