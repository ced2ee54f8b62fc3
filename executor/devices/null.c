/* null.c: plays a step of all ranks on virtual clocks.
 *
 * The idea: a stream is a clock. An instruction begins when the one before it on its stream has ended and what it waits
 * for has, plus what it is delayed, and takes what the model says (null_time.c). A collective ends, for all members, so
 * long after the last one has come. As soon as all that an instruction waits for has a known end it is put into a heap
 * by the time at which it begins, and the earliest one is taken out: so what happens happens in order of time, and a
 * rank that dies takes part in nothing later. O(n log n) for n instructions of all ranks; one thread.
 *
 * The invariant: whatever is put into the heap begins no earlier than what was taken out last; ties are broken by rank
 * and stream. So the same plans give the same times.
 *
 * A collective whose members have all come ends, even if one of them dies meanwhile. */
#include "executor/devices/null.h"

/* --- making ------------------------------------------------------------------------------------------------------- */

weft_status null_create(weft_executor *x) {
    static const weft_null_options defaults;
    const weft_null_options *o = x->options.null_device ? x->options.null_device : &defaults;
    null_device *d = ARENA_NEW(&x->arena, null_device);
    if (!d) return base_out_of_memory();
    if (x->options.profile)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "the null device runs nothing: there is no profile");
    d->faults = o->faults;
    d->nfaults = o->nfaults;
    d->nring_slots = 16;
    while (d->nring_slots < (size_t)x->nranks) d->nring_slots *= 2;
    d->rings = ARENA_ARRAY(&x->arena, null_ring *, d->nring_slots);
    d->plans = ARENA_ARRAY(&x->arena, null_plan, x->nranks);
    d->ranks = ARENA_ARRAY(&x->arena, null_rank, x->nranks);
    if (!d->rings || !d->plans || !d->ranks) return base_out_of_memory();
    x->null = d;
    return null_set_rates(d, &o->rates);
}

/* Every instruction in its place of its stream. */
static weft_status list_instrs(weft_executor *x, rank_state *rank) {
    const weft_plan *plan = rank->plan;
    size_t *ndone = ARENA_ARRAY(&x->arena, size_t, (size_t)plan->nstreams + 1);
    if (!ndone) return base_out_of_memory();
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        TRY(bind_check_waits(rank, instr, i, ndone));
        rank->streams[instr->stream].instrs[ndone[instr->stream]++].instr = instr;
    }
    return NULL;
}

/* The streams of a rank whose plan is that of `like`: they share instructions. */
static weft_status share_instrs(weft_executor *x, rank_state *rank, const rank_state *like) {
    rank->streams = ARENA_ARRAY(&x->arena, stream_state, rank->plan->nstreams);
    if (!rank->streams) return base_out_of_memory();
    for (int s = 0; s < rank->plan->nstreams; s++) {
        stream_state *stream = &rank->streams[s];
        stream->executor = x;
        stream->rank = rank;
        stream->stream = s;
        stream->instrs = like->streams[s].instrs;
        stream->ninstrs = like->streams[s].ninstrs;
    }
    return NULL;
}

weft_status null_bind_rank(weft_executor *x, rank_state *rank) {
    null_device *d = x->null;
    null_plan *p = &d->plans[x->nplans == 1 ? 0 : rank->rank];
    TRY(rings_resolve(x, rank));
    if (p->plan) {
        TRY(share_instrs(x, rank, &x->ranks[0]));
    } else {
        p->plan = rank->plan;
        TRY(bind_streams(x, rank));
        TRY(list_instrs(x, rank));
        TRY(null_find_times(x, p));
        TRY(null_find_accesses(x, p));
    }
    null_rank *r = &d->ranks[rank->rank];
    *r = (null_rank){.plan = p, .died_ns = NULL_NONE};
    r->nentered = ARENA_ARRAY(&x->arena, uint32_t, rank->nrings + 1);
    if (!r->nentered) return base_out_of_memory();
    d->nstreams += (size_t)rank->plan->nstreams;
    x->ninstrs += rank->plan->ninstrs;
    return NULL;
}

static bool has_op(const weft_plan *plan, int64_t op_index) {
    for (size_t i = 0; i < plan->ninstrs; i++)
        if (plan->instrs[i].op_index == op_index) return true;
    return false;
}

/* Faults are of instructions that there are. */
static weft_status check_faults(const weft_executor *x) {
    for (size_t i = 0; i < x->null->nfaults; i++) {
        const weft_fault *f = &x->null->faults[i];
        int rank = f->rank < 0 ? 0 : f->rank;
        if (rank >= x->nranks)
            return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d: the run has ranks 0 to %d", rank,
                                      x->nranks - 1);
        if (!has_op(x->ranks[rank].plan, f->op_index))
            return weft_status_create(WEFT_NOT_FOUND, NULL, "a fault before op #%lld: rank %d has no such instruction",
                                      (long long)f->op_index, rank);
    }
    return NULL;
}

weft_status null_bind(weft_executor *x) {
    null_device *d = x->null;
    d->streams = ARENA_ARRAY(&x->arena, null_stream, d->nstreams + 1);
    d->turns = ARENA_ARRAY(&x->arena, null_turn, d->nstreams + 1);
    if (!d->streams || !d->turns) return base_out_of_memory();
    null_stream *next = d->streams;
    for (int r = 0; r < x->nranks; r++) {
        d->ranks[r].streams = next;
        for (int s = 0; s < x->ranks[r].plan->nstreams; s++) (next++)->state = &x->ranks[r].streams[s];
    }
    TRY(check_faults(x));
    return null_make_nodes(x);
}

/* --- the heap ----------------------------------------------------------------------------------------------------- */

static bool is_before(null_turn a, null_turn b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.stream < b.stream;
}

static void put_turn(null_device *d, null_turn turn) {
    size_t at = d->nturns++;
    for (; at && is_before(turn, d->turns[(at - 1) / 2]); at = (at - 1) / 2) d->turns[at] = d->turns[(at - 1) / 2];
    d->turns[at] = turn;
}

static null_turn take_turn(null_device *d) {
    null_turn first = d->turns[0], last = d->turns[--d->nturns];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < d->nturns; at = child) {
        if (child + 1 < d->nturns && is_before(d->turns[child + 1], d->turns[child])) child++;
        if (!is_before(d->turns[child], last)) break;
        d->turns[at] = d->turns[child];
    }
    d->turns[at] = last;
    return first;
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

static const plan_instr *next_of(const null_stream *s) {
    return s->state->instrs[s->ndone].instr;
}

/* Puts the next instruction of a stream into the heap, unless something that it waits for has no end yet. */
static void offer(weft_executor *x, null_stream *s) {
    null_device *d = x->null;
    s->awaits = NULL_NONE;
    if (s->ndone == s->state->ninstrs) return;
    const plan_instr *instr = next_of(s);
    const null_stream *streams = d->ranks[s->state->rank->rank].streams;
    int64_t at = s->free_ns;
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        const null_stream *t = &streams[w->stream];
        if (!w->count) continue;
        if (t->ndone < (uint32_t)w->count) {
            s->awaits = w->stream;
            return;
        }
        if (t->events[w->count - 1].end_ns > at) at = t->events[w->count - 1].end_ns;
    }
    at = null_later(at, null_ns(bind_delay(x, s->state->rank->rank, instr)));
    put_turn(d, (null_turn){at, (uint32_t)(s - d->streams)});
}

/* The instruction that stream `s` is at ends then: what waited for it may begin. */
static void end_instr(weft_executor *x, null_stream *s, int64_t end_ns) {
    const rank_state *rank = s->state->rank;
    null_stream *streams = x->null->ranks[rank->rank].streams;
    s->events[s->ndone++].end_ns = end_ns;
    s->free_ns = end_ns;
    if (end_ns > x->null->end_ns) x->null->end_ns = end_ns;
    offer(x, s);
    for (int t = 0; t < rank->plan->nstreams; t++)
        if (streams[t].awaits == s->state->stream) offer(x, &streams[t]);
}

static int64_t duration_of(const null_device *d, const null_stream *s) {
    const null_plan *p = d->ranks[s->state->rank->rank].plan;
    return p->ns[next_of(s) - p->plan->instrs];
}

/* The last member has come. */
static void end_collective(weft_executor *x, null_ring *r, int64_t now) {
    int64_t longest = 0;
    for (int m = 0; m < r->nranks; m++) {
        int64_t ns = duration_of(x->null, r->come[m]);
        if (ns > longest) longest = ns;
    }
    r->ncome = 0;
    for (int m = 0; m < r->nranks; m++) {
        null_stream *s = r->come[m];
        r->come[m] = NULL;
        s->in = NULL;
        end_instr(x, s, null_later(now, longest));
    }
}

static weft_status enter_collective(weft_executor *x, null_stream *s, int64_t now) {
    rank_state *rank = s->state->rank;
    const plan_instr *instr = next_of(s);
    const ring_use *u = rings_find(rank, instr->ring_id);
    null_ring *r = u->comm->shared;
    char op[200];
    if (r->come[u->comm->index])
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "rank %d, %s, ring %lld: the rank is already in a "
                                  "collective of the ring",
                                  rank->rank, instr_place(instr, op, sizeof op), (long long)u->id);
    x->null->ranks[rank->rank].nentered[u - rank->rings]++;
    r->come[u->comm->index] = s;
    s->in = r;
    if (++r->ncome == r->nranks) end_collective(x, r, now);
    return NULL;
}

static bool is_fault(const weft_executor *x, int rank, const plan_instr *instr) {
    for (size_t i = 0; i < x->null->nfaults && !x->nsteps; i++) {
        const weft_fault *f = &x->null->faults[i];
        if (f->op_index == instr->op_index && (f->rank < 0 || f->rank == rank)) return true;
    }
    return false;
}

/* It leaves the collectives that others have yet to come to. */
static void die(weft_executor *x, null_rank *r, const rank_state *rank, const plan_instr *instr, int64_t now) {
    r->died_ns = now;
    r->died_at = instr;
    for (int s = 0; s < rank->plan->nstreams; s++) {
        null_ring *in = r->streams[s].in;
        r->streams[s].in = NULL;
        for (int m = 0; in && m < in->nranks; m++) {
            if (in->come[m] != &r->streams[s]) continue;
            in->come[m] = NULL;
            in->ncome--;
        }
    }
    if (now > x->null->end_ns) x->null->end_ns = now;
}

static weft_status begin_instr(weft_executor *x, null_stream *s, int64_t now) {
    null_device *d = x->null;
    const rank_state *rank = s->state->rank;
    null_rank *r = &d->ranks[rank->rank];
    const plan_instr *instr = next_of(s);
    if (r->died_ns != NULL_NONE) return NULL;
    if (is_fault(x, rank->rank, instr)) {
        die(x, r, rank, instr, now);
        return NULL;
    }
    s->events[s->ndone].start_ns = now;
    if (now > d->end_ns) d->end_ns = now;
    if (instr->ring_id >= 0) return enter_collective(x, s, now);
    end_instr(x, s, null_later(now, duration_of(d, s)));
    return NULL;
}

static void begin_step(weft_executor *x) {
    null_device *d = x->null;
    d->nturns = 0;
    for (int r = 0; r < x->nranks; r++)
        memset(d->ranks[r].nentered, 0, x->ranks[r].nrings * sizeof *d->ranks[r].nentered);
    for (size_t i = 0; i < d->nstreams; i++) {
        null_stream *s = &d->streams[i];
        s->events = s->state->events + x->nsteps % x->ntraced_steps * s->state->ninstrs;
        for (size_t k = 0; k < s->state->ninstrs; k++) s->events[k] = (trace_event){-1, -1};
        s->free_ns = x->start_ns;
        s->ndone = 0;
        s->awaits = NULL_NONE;
    }
    for (size_t i = 0; i < d->nstreams; i++) offer(x, &d->streams[i]);
}

/* What has begun and never ends lasts as long as anything happens, in a timeline. */
static void end_step(weft_executor *x) {
    null_device *d = x->null;
    for (size_t i = 0; i < d->nstreams; i++) {
        null_stream *s = &d->streams[i];
        if (s->ndone == s->state->ninstrs || s->events[s->ndone].start_ns < 0) continue;
        s->events[s->ndone].end_ns = d->end_ns;
    }
    x->end_ns = d->end_ns;
}

weft_status null_run(weft_executor *x) {
    null_device *d = x->null;
    weft_status status = NULL;
    x->start_ns = d->end_ns;
    begin_step(x);
    while (!status && d->nturns) {
        null_turn turn = take_turn(d);
        status = begin_instr(x, &d->streams[turn.stream], turn.at_ns);
    }
    end_step(x);
    if (!status) status = null_check_end(x);
    if (!status) status = null_find_races(x);
    x->has_failed = status != NULL;
    x->nsteps++; /* a step that failed is in the timeline, too */
    x->step++;
    return status;
}
