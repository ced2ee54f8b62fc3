/* timeline.c: the room for the times of instructions, and what they say about overlap.
 *
 * The last `most_steps` steps lie in a ring of slots per stream. The slots are made before the step, so that those who
 * run it only write into them. With most_steps 0 all steps are kept and the room doubles when it is used up: the one
 * allocation between steps. */
#include "plan/timeline/timeline.h"

#include <stdlib.h>

#include "plan/timeline/trace.h"

#define FOR_EACH_LANE(l, t)                                                                                            \
    for (int l##_r = 0; l##_r < (t)->nranks; l##_r++)                                                                  \
        for (timeline_lane *l = (t)->ranks[l##_r], *l##_end = l ? l + timeline_plan(t, l##_r)->nstreams : l;           \
             l < l##_end; l++)

static timeline_lane *make_lanes(arena *a, int rank, const weft_plan *plan, const plan_stream *streams) {
    timeline_lane *lanes = ARENA_ARRAY(a, timeline_lane, (size_t)plan->nstreams + 1);
    for (int s = 0; lanes && s < plan->nstreams; s++)
        lanes[s] = (timeline_lane){.rank = rank, .stream = s, .instrs = &streams[s]};
    return lanes;
}

weft_status timeline_init(timeline *t, arena *a, const weft_plan *const *plans, size_t nplans, int first_rank,
                          int nranks, size_t most_steps) {
    *t = (timeline){.allocator = a->allocator, .most_steps = most_steps};
    t->ranks = ARENA_ARRAY(a, timeline_lane *, nranks);
    t->plans = arena_copy(a, plans, nplans * sizeof *plans);
    if (!t->ranks || !t->plans) return base_out_of_memory();
    t->nplans = nplans;
    t->first_rank = first_rank;
    t->nranks = nranks;
    plan_stream *streams = NULL;
    for (int r = 0; r < nranks; r++) {
        if ((size_t)r < nplans) TRY(plan_list_streams(plans[r], a, &streams));
        if (!(t->ranks[r] = make_lanes(a, r, timeline_plan(t, r), streams))) return base_out_of_memory();
    }
    return NULL;
}

static weft_status resize(timeline *t, size_t nsteps) {
    FOR_EACH_LANE(l, t) {
        size_t nbytes;
        if (!base_mul(nsteps, l->instrs->ninstrs * sizeof(trace_event), &nbytes)) return base_out_of_memory();
        trace_event *grown = base_alloc(t->allocator, nbytes);
        if (!grown) return base_out_of_memory();
        if (l->nbytes) memcpy(grown, l->events, l->nbytes);
        base_free(t->allocator, l->events, l->nbytes);
        l->events = grown;
        l->nbytes = nbytes;
    }
    t->nslots = nsteps;
    return NULL;
}

weft_status timeline_reserve(timeline *t) {
    if (t->most_steps) return t->nslots ? NULL : resize(t, t->most_steps);
    if (t->nsteps < t->nslots) return NULL;
    return resize(t, t->nslots ? 2 * t->nslots : 16);
}

void timeline_fini(timeline *t) {
    if (!t->ranks) return;
    FOR_EACH_LANE(l, t) {
        base_free(t->allocator, l->events, l->nbytes);
        l->events = NULL;
    }
}

size_t timeline_steps(const timeline *t, uint64_t *out_first) {
    size_t kept = t->nsteps < t->nslots ? (size_t)t->nsteps : t->nslots;
    *out_first = t->nsteps - kept;
    return kept;
}

const trace_event *timeline_events(const timeline *t, const timeline_lane *lane, uint64_t step) {
    return lane->events + step % t->nslots * lane->instrs->ninstrs;
}

trace_class trace_class_of(const plan_instr *instr) {
    if (instr->ring_id >= 0) return TRACE_COLLECTIVE;
    int role = op_role(instr->op);
    if (role == WEFT_ROLE_NOT_SPECIFIED) return TRACE_FORWARD;
    if (role & (WEFT_ROLE_OPTIMIZE | WEFT_ROLE_LR_SCHED)) return TRACE_OPTIMIZE;
    return role & WEFT_ROLE_BACKWARD ? TRACE_BACKWARD : TRACE_FORWARD;
}

const char *trace_class_name(trace_class class_) {
    static const char *const names[TRACE_CLASSES] = {"forward", "backward", "optimize", "collective"};
    return class_ >= TRACE_FORWARD && class_ < TRACE_CLASSES ? names[class_] : "unknown";
}

int64_t trace_nbytes(const weft_plan *plan, const plan_instr *instr) {
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nin; i++) {
        if (instr->in[i] >= 0) return plan->values[instr->in[i]].nbytes;
    }
    for (size_t i = 0; i < nout; i++) {
        if (instr->out[i] >= 0) return plan->values[instr->out[i]].nbytes;
    }
    return 0;
}

const char *trace_value_name(const weft_plan *plan, const plan_instr *instr) {
    size_t nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nout; i++)
        if (instr->out[i] >= 0) return plan->values[instr->out[i]].name;
    return "";
}

size_t trace_waits(const timeline *t, int rank, const plan_instr *instr, size_t most, size_t *out) {
    const plan_instr *all = timeline_plan(t, rank)->instrs;
    size_t n = 0;
    for (uint32_t i = 0; i < instr->nwaits && n < most; i++) {
        const plan_wait *w = &instr->waits[i];
        if (w->count > 0) out[n++] = (size_t)(t->ranks[rank][w->stream].instrs->instrs[w->count - 1] - all);
    }
    return n;
}

weft_status timeline_check(const timeline *t) {
    if (t && t->nslots && t->nsteps) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no timeline: run a step with options.trace");
}

/* --- overlap ------------------------------------------------------------------------------------------------------ */

/* Nanoseconds of `e` during which the compute stream was running an instruction. `*from` moves on with the collectives,
 * which come in order of time. */
static int64_t covered(const trace_event *compute, size_t ncompute, trace_event e, size_t *from) {
    while (*from < ncompute && compute[*from].end_ns <= e.start_ns) ++*from;
    int64_t ns = 0;
    for (size_t i = *from; i < ncompute && (compute[i].start_ns < e.end_ns); i++) {
        int64_t start = compute[i].start_ns > e.start_ns ? compute[i].start_ns : e.start_ns;
        int64_t end = compute[i].end_ns < e.end_ns ? compute[i].end_ns : e.end_ns;
        if (compute[i].start_ns >= 0 && end > start) ns += end - start;
    }
    return ns;
}

static void add_lane(const timeline *t, const timeline_lane *l, uint64_t step, timeline_overlap *sum) {
    const timeline_lane *compute = &t->ranks[l->rank][0];
    const trace_event *running = timeline_events(t, compute, step), *events = timeline_events(t, l, step);
    size_t from = 0;
    for (size_t i = 0; i < l->instrs->ninstrs; i++) {
        if (l->instrs->instrs[i]->ring_id < 0 || events[i].start_ns < 0) continue;
        int64_t ns = events[i].end_ns - events[i].start_ns;
        int64_t hidden = covered(running, compute->instrs->ninstrs, events[i], &from);
        sum->collective_ns += ns;
        sum->hidden_ns += hidden;
        sum->ncollectives++;
        sum->nhidden += 2 * hidden >= ns;
    }
}

timeline_overlap timeline_measure(const timeline *t) {
    timeline_overlap sum = {0};
    uint64_t first;
    size_t n = timeline_steps(t, &first);
    for (uint64_t step = first; step < first + n; step++) {
        FOR_EACH_LANE(l, t) {
            if (l->stream != 0) add_lane(t, l, step, &sum);
        }
    }
    return sum;
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
    const trace_event *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Instructions of a stream that are collectives, or that are not. */
static size_t pick(const timeline *t, const timeline_lane *l, bool collectives, trace_event *out) {
    const trace_event *events = timeline_events(t, l, t->nsteps - 1);
    size_t n = 0;
    for (size_t i = 0; i < l->instrs->ninstrs; i++)
        if (events[i].start_ns >= 0 && (l->instrs->instrs[i]->ring_id >= 0) == collectives) out[n++] = events[i];
    return n;
}

static int64_t sum_of(const trace_event *events, size_t n) {
    int64_t ns = 0;
    for (size_t i = 0; i < n; i++) ns += events[i].end_ns - events[i].start_ns;
    return ns;
}

/* Makes one of events that overlap; they are sorted. */
static size_t merge(trace_event *events, size_t n) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept && events[i].start_ns <= events[kept - 1].end_ns) {
            if (events[i].end_ns > events[kept - 1].end_ns) events[kept - 1].end_ns = events[i].end_ns;
        } else {
            events[kept++] = events[i];
        }
    }
    return kept;
}

weft_status timeline_rank_times(const timeline *t, int rank, weft_rank_times *out_times) {
    TRY(timeline_check(t));
    int own = rank - t->first_rank;
    if (own < 0 || own >= t->nranks)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks %d to %d", rank,
                                  t->first_rank, t->first_rank + t->nranks - 1);
    const weft_plan *plan = timeline_plan(t, own);
    const timeline_lane *lanes = t->ranks[own];
    size_t n = 0, from = 0, ncompute, nbytes;
    if (!base_mul(2 * plan->ninstrs + 1, sizeof(trace_event), &nbytes)) return base_out_of_memory();
    trace_event *collectives = base_alloc(t->allocator, nbytes);
    if (!collectives) return base_out_of_memory();
    trace_event *compute = collectives + plan->ninstrs;
    for (int s = 0; s < plan->nstreams; s++) n += pick(t, &lanes[s], true, collectives + n);
    ncompute = pick(t, &lanes[0], false, compute);
    if (n > 1) qsort(collectives, n, sizeof *collectives, by_start);
    n = merge(collectives, n);
    int64_t total = sum_of(collectives, n), hidden = 0;
    for (size_t i = 0; i < n; i++) hidden += covered(compute, ncompute, collectives[i], &from);
    *out_times = (weft_rank_times){(double)sum_of(compute, ncompute) * 1e-9, (double)total * 1e-9,
                                   (double)(total - hidden) * 1e-9};
    base_free(t->allocator, collectives, nbytes);
    return NULL;
}
