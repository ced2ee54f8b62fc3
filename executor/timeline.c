/* timeline.c: when instructions ran: the room for it, and what it says about overlap.
 *
 * The last `ntraced_steps` steps lie in a ring of slots per stream, made before the step so that workers only write
 * into them. With trace_steps 0 all steps are kept and the room doubles when it is used up: the one allocation between
 * steps. */
#include <stdlib.h>

#include "executor/executor.h"

#define FOR_EACH_STREAM(s, x)                                                                                          \
    for (int s##_r = 0; s##_r < (x)->nlocal; s##_r++)                                                                  \
        for (stream_state *s = (x)->ranks[s##_r].streams, *s##_end = s ? s + (x)->ranks[s##_r].plan->nstreams : s;     \
             s < s##_end; s++)

static weft_status resize(weft_executor *x, size_t nsteps) {
    FOR_EACH_STREAM(s, x) {
        size_t nbytes;
        if (!base_mul(nsteps, s->ninstrs * sizeof(trace_event), &nbytes)) return base_out_of_memory();
        trace_event *grown = base_alloc(&x->context->allocator, nbytes);
        if (!grown) return base_out_of_memory();
        if (s->events_nbytes) memcpy(grown, s->events, s->events_nbytes);
        base_free(&x->context->allocator, s->events, s->events_nbytes);
        s->events = grown;
        s->events_nbytes = nbytes;
    }
    x->ntraced_steps = nsteps;
    return NULL;
}

weft_status timeline_reserve(weft_executor *x) {
    if (x->options.trace_steps > 0) return x->ntraced_steps ? NULL : resize(x, (size_t)x->options.trace_steps);
    if (x->nsteps < x->ntraced_steps) return NULL;
    return resize(x, x->ntraced_steps ? 2 * x->ntraced_steps : 16);
}

void timeline_free(weft_executor *x) {
    if (!x->ranks) return;
    FOR_EACH_STREAM(s, x) {
        base_free(&x->context->allocator, s->events, s->events_nbytes);
        s->events = NULL;
    }
}

size_t timeline_steps(const weft_executor *x, uint64_t *out_first) {
    size_t kept = x->nsteps < x->ntraced_steps ? (size_t)x->nsteps : x->ntraced_steps;
    *out_first = x->nsteps - kept;
    return kept;
}

const trace_event *timeline_events(const weft_executor *x, const stream_state *s, uint64_t step) {
    return s->events + step % x->ntraced_steps * s->ninstrs;
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

int64_t trace_nbytes(const rank_state *rank, const plan_instr *instr) {
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs];
    for (size_t i = 0; i < nin; i++) {
        if (instr->in[i] >= 0) return rank->plan->values[instr->in[i]].nbytes;
    }
    for (size_t i = 0; i < nout; i++) {
        if (instr->out[i] >= 0) return rank->plan->values[instr->out[i]].nbytes;
    }
    return 0;
}

weft_status trace_check(const weft_executor *x) {
    if (x->ntraced_steps && x->nsteps) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "no timeline: run a step of an executor with options.trace");
}

/* --- overlap ------------------------------------------------------------------------------------------------------ */

typedef struct overlap {
    int64_t collective_ns, hidden_ns;
    size_t ncollectives, nhidden;
} overlap;

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

static void add_stream(const weft_executor *x, const stream_state *s, uint64_t step, overlap *sum) {
    const stream_state *compute = &s->rank->streams[0];
    const trace_event *running = timeline_events(x, compute, step), *events = timeline_events(x, s, step);
    size_t from = 0;
    for (size_t i = 0; i < s->ninstrs; i++) {
        if (s->instrs[i].instr->ring_id < 0 || events[i].start_ns < 0) continue;
        int64_t ns = events[i].end_ns - events[i].start_ns;
        int64_t hidden = covered(running, compute->ninstrs, events[i], &from);
        sum->collective_ns += ns;
        sum->hidden_ns += hidden;
        sum->ncollectives++;
        sum->nhidden += 2 * hidden >= ns;
    }
}

static overlap measure(const weft_executor *x) {
    overlap sum = {0};
    uint64_t first;
    size_t n = timeline_steps(x, &first);
    for (uint64_t step = first; step < first + n; step++) {
        FOR_EACH_STREAM(s, x) {
            if (s->stream != 0) add_stream(x, s, step, &sum);
        }
    }
    return sum;
}

void weft_executor_overlap(const weft_executor *x, double *out_collective_seconds, double *out_hidden_seconds) {
    overlap sum = measure(x);
    *out_collective_seconds = (double)sum.collective_ns * 1e-9;
    *out_hidden_seconds = (double)sum.hidden_ns * 1e-9;
}

void weft_executor_hidden(const weft_executor *x, size_t *out_ncollectives, size_t *out_nhidden) {
    overlap sum = measure(x);
    *out_ncollectives = sum.ncollectives;
    *out_nhidden = sum.nhidden;
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b) {
    const trace_event *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Instructions of a stream that are collectives, or that are not. */
static size_t pick(const weft_executor *x, const stream_state *s, bool collectives, trace_event *out) {
    const trace_event *events = timeline_events(x, s, x->nsteps - 1);
    size_t n = 0;
    for (size_t i = 0; i < s->ninstrs; i++)
        if (events[i].start_ns >= 0 && (s->instrs[i].instr->ring_id >= 0) == collectives) out[n++] = events[i];
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

weft_status weft_executor_rank_times(const weft_executor *x, int rank, weft_rank_times *out_times) {
    TRY(trace_check(x));
    if (!executor_has_rank(x, rank))
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks 0 to %d", rank,
                                  x->nlocal - 1);
    const rank_state *r = executor_rank(x, rank);
    size_t n = 0, from = 0, ncompute, nbytes;
    if (!base_mul(2 * r->plan->ninstrs + 1, sizeof(trace_event), &nbytes)) return base_out_of_memory();
    trace_event *collectives = base_alloc(&x->context->allocator, nbytes);
    if (!collectives) return base_out_of_memory();
    trace_event *compute = collectives + r->plan->ninstrs;
    for (int s = 0; s < r->plan->nstreams; s++) n += pick(x, &r->streams[s], true, collectives + n);
    ncompute = pick(x, &r->streams[0], false, compute);
    if (n > 1) qsort(collectives, n, sizeof *collectives, by_start);
    n = merge(collectives, n);
    int64_t total = sum_of(collectives, n), hidden = 0;
    for (size_t i = 0; i < n; i++) hidden += covered(compute, ncompute, collectives[i], &from);
    *out_times = (weft_rank_times){(double)sum_of(compute, ncompute) * 1e-9, (double)total * 1e-9,
                                   (double)(total - hidden) * 1e-9};
    base_free(&x->context->allocator, collectives, nbytes);
    return NULL;
}
