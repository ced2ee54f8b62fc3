/* bucket_contention.c: a rank's streams on virtual clocks where compute and collectives slow one another down, and
 * collectives of several streams each other (simulate/contention.c). */
#include "passes/bucket_play.h"
#include "plan/work.h"

enum { MOST_PARTS = 16 };

/* --- whether ------------------------------------------------------------------------------------------------------ */

/* Of instructions on lanes: a ring on two streams would move data twice at once, which the model has no time for. */
static weft_status find_shared_ring(const bucket_times *t, bool *out) {
    size_t nrings = 0;
    int64_t *rings = ARENA_ARRAY(t->scratch, int64_t, t->plan->ninstrs + 1);
    int32_t *streams = ARENA_ARRAY(t->scratch, int32_t, t->plan->ninstrs + 1);
    if (!rings || !streams) return base_out_of_memory();
    *out = false;
    for (size_t i = 0; i < t->plan->ninstrs && !*out; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        size_t k = 0;
        if (instr->ring_id < 0 || instr->stream == 0) continue;
        while (k < nrings && rings[k] != instr->ring_id) k++;
        *out = k < nrings && streams[k] != instr->stream;
        if (k < nrings) continue;
        rings[nrings] = instr->ring_id;
        streams[nrings++] = instr->stream;
    }
    return NULL;
}

weft_status bucket_contention_find(bucket_times *t) {
    const weft_cluster *c = &t->cluster;
    bool shared = false;
    t->contends = false;
    t->ignored = NULL;
    if (!(c->compute_beside_collective > 1 || c->collective_beside_compute > 1)) return NULL;
    TRY(find_shared_ring(t, &shared));
    if ((uint32_t)t->plan->nstreams != 1 + t->nlanes)
        t->ignored = "the program has other streams than those of compute and reduces";
    else if (shared)
        t->ignored = "a ring is on two streams";
    for (size_t e = 0; e < t->nedges && !t->ignored; e++)
        if (t->plan->instrs[t->edges[e].instr].stream != 0) t->ignored = "reduces wait for one another";
    t->contends = !t->ignored;
    return NULL;
}

/* Instructions that a bucket runs one after another. */
typedef struct part {
    int64_t ns;
    bool is_collective;
} part;

/* What a lane is at. */
typedef struct runner {
    size_t bucket, part; /* at hand, or next */
    bool reduces;        /* the part has begun */
    plan_work transfer;
} runner;

typedef struct race {
    player *p;
    const plan_stream *compute;
    const uint32_t *bucket_of;
    uint32_t *needs; /* by bucket: so many instructions of compute */
    part *parts;     /* by bucket MOST_PARTS */
    size_t *nparts;
    runner *lanes;
    size_t instr;  /* at hand */
    bool computes; /* it has begun */
    plan_work work;
    int64_t now;
} race;

/* --- what buckets run --------------------------------------------------------------------------------------------- */

static uint32_t lane_of(const race *r, size_t bucket) {
    const bucket_times *t = r->p->t;
    return t->problem.kinds[t->problem.items[t->buckets[bucket].last].kind].lane;
}

/* The first bucket of a lane from `bucket` on. */
static size_t next_of_lane(const race *r, uint32_t lane, size_t bucket) {
    while (bucket < r->p->t->nbuckets && lane_of(r, bucket) != lane) bucket++;
    return bucket;
}

static void add_part(race *r, size_t bucket, int64_t ns, bool is_collective) {
    if (r->nparts[bucket] < MOST_PARTS) r->parts[bucket * MOST_PARTS + r->nparts[bucket]++] = (part){ns, is_collective};
}

/* A stream is in order: a bucket needs what the one before it on its lane does. */
static void keep_order(race *r) {
    for (uint32_t lane = 0; lane < r->p->t->nlanes; lane++) {
        uint32_t most = 0;
        for (size_t k = next_of_lane(r, lane, 0); k < r->p->t->nbuckets; k = next_of_lane(r, lane, k + 1)) {
            if (r->needs[k] < most) r->needs[k] = most;
            most = r->needs[k];
        }
    }
}

static void list_parts(race *r) {
    bucket_times *t = r->p->t;
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (bucket_lane(t, instr->stream) < 0) continue;
        size_t k = r->bucket_of[t->item_of[i]];
        if (t->made_after[t->item_of[i]] > r->needs[k]) r->needs[k] = t->made_after[t->item_of[i]];
        if (t->buckets[k].count == 1) add_part(r, k, t->ns[i], instr->ring_id >= 0);
    }
    for (size_t k = 0; k < t->nbuckets; k++) {
        const bucket_time *b = &t->buckets[k];
        const bucket_kind *kind = &t->problem.kinds[t->problem.items[b->last].kind];
        for (size_t i = 0; b->count > 1 && i < kind->ncurves; i++)
            add_part(r, k, plan_curve_ns(&kind->curves[i], (double)b->nbytes), i < kind->ncollectives);
    }
    keep_order(r);
}

/* --- clocks ------------------------------------------------------------------------------------------------------- */

static const part *part_at(const race *r, const runner *lane) {
    return &r->parts[lane->bucket * MOST_PARTS + lane->part];
}

static bool moves(const race *r, const runner *lane) {
    return lane->reduces && part_at(r, lane)->is_collective;
}

static const plan_instr *instr_at(const race *r) {
    return r->compute->instrs[r->instr];
}

/* All go on at the speed that what runs beside them leaves. */
static void turn_all(race *r) {
    const weft_cluster *c = &r->p->t->cluster;
    bool contends = r->computes && instr_at(r)->ring_id < 0;
    size_t nmoving = 0;
    for (uint32_t k = 0; k < r->p->t->nlanes; k++) {
        runner *lane = &r->lanes[k];
        if (!lane->reduces) continue;
        bool slow = contends && moves(r, lane);
        nmoving += moves(r, lane);
        plan_work_turn(&lane->transfer, r->now, slow ? plan_speed(c->collective_beside_compute) : PLAN_FULL_SPEED);
    }
    if (r->computes)
        plan_work_turn(&r->work, r->now,
                       contends && nmoving ? plan_speed(c->compute_beside_collective) : PLAN_FULL_SPEED);
}

/* Whether all buckets that the instruction needs have ended; p->edge is the first edge from it on. */
static bool may_compute(const race *r) {
    const bucket_times *t = r->p->t;
    uint32_t i = (uint32_t)(instr_at(r) - t->plan->instrs);
    size_t e = r->p->edge;
    while (e < t->nedges && t->edges[e].instr < i) e++;
    r->p->edge = e;
    for (; e < t->nedges && t->edges[e].instr == i; e++) {
        size_t bucket = r->bucket_of[t->edges[e].item];
        if (bucket >= r->lanes[lane_of(r, bucket)].bucket) return false;
    }
    return true;
}

static void begin_part(race *r, runner *lane) {
    bucket_times *t = r->p->t;
    if (lane->reduces || lane->bucket == t->nbuckets || r->needs[lane->bucket] > r->instr) return;
    lane->reduces = true;
    if (!lane->part) t->buckets[lane->bucket].start_ns = r->now;
    plan_work_begin(&lane->transfer, part_at(r, lane)->ns, r->now, PLAN_FULL_SPEED);
}

static void begin_what_may(race *r) {
    bucket_times *t = r->p->t;
    if (!r->computes && r->instr < r->compute->ninstrs && may_compute(r)) {
        size_t i = (size_t)(instr_at(r) - t->plan->instrs);
        r->computes = true;
        r->p->start[i] = r->now;
        plan_work_begin(&r->work, t->ns[i], r->now, PLAN_FULL_SPEED);
    }
    for (uint32_t k = 0; k < t->nlanes; k++) begin_part(r, &r->lanes[k]);
    turn_all(r);
}

static void end_part(race *r, runner *lane) {
    bucket_time *b = &r->p->t->buckets[lane->bucket];
    if (part_at(r, lane)->is_collective) b->collective_ns = r->now - b->start_ns;
    lane->reduces = false;
    if (++lane->part < r->nparts[lane->bucket]) return;
    b->end_ns = r->now;
    lane->bucket = next_of_lane(r, lane_of(r, lane->bucket), lane->bucket + 1);
    lane->part = 0;
}

static int64_t next_end(const race *r) {
    int64_t end = r->computes ? plan_work_end(&r->work) : INT64_MAX;
    for (uint32_t k = 0; k < r->p->t->nlanes; k++) {
        const runner *lane = &r->lanes[k];
        if (lane->reduces && plan_work_end(&lane->transfer) < end) end = plan_work_end(&lane->transfer);
    }
    return end;
}

/* Ends what ends next; false: nothing is under way. */
static bool advance(race *r) {
    int64_t end = next_end(r);
    if (end == INT64_MAX) return false;
    r->now = end;
    for (uint32_t k = 0; k < r->p->t->nlanes; k++) {
        runner *lane = &r->lanes[k];
        if (lane->reduces && plan_work_end(&lane->transfer) == end) end_part(r, lane);
    }
    if (r->computes && plan_work_end(&r->work) == end) {
        r->p->end[instr_at(r) - r->p->t->plan->instrs] = end;
        r->computes = false;
        r->instr++;
    }
    return true;
}

weft_status bucket_play_contended(player *p, const uint32_t *bucket_of) {
    bucket_times *t = p->t;
    race r = {.p = p, .compute = &p->streams[0], .bucket_of = bucket_of};
    r.needs = ARENA_ARRAY(t->scratch, uint32_t, t->nbuckets + 1);
    r.parts = ARENA_ARRAY(t->scratch, part, (t->nbuckets + 1) * MOST_PARTS);
    r.nparts = ARENA_ARRAY(t->scratch, size_t, t->nbuckets + 1);
    r.lanes = ARENA_ARRAY(t->scratch, runner, t->nlanes + 1);
    if (!r.needs || !r.parts || !r.nparts || !r.lanes) return base_out_of_memory();
    list_parts(&r);
    for (uint32_t k = 0; k < t->nlanes; k++) r.lanes[k].bucket = next_of_lane(&r, k, 0);
    do begin_what_may(&r);
    while (advance(&r));
    t->step_ns = r.now;
    for (size_t k = 0; k < t->nbuckets; k++) {
        bucket_time *b = &t->buckets[k];
        b->ready_ns = r.needs[k] ? p->end[r.compute->instrs[r.needs[k] - 1] - t->plan->instrs] : 0;
    }
    return NULL;
}
