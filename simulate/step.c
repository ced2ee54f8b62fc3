/* step.c: plays a step of all ranks on virtual clocks.
 *
 * The idea: a stream is a clock. An instruction begins when the one before it on its stream has ended and what it waits
 * for has, plus what it is delayed. It takes what the model says (plan/cost.c). A collective ends, for all members, so
 * long after the last one has come (with contention the ends of compute and of collectives are turns themselves:
 * contention.c). As soon as all that an instruction waits for has a known end it is put into a heap
 * by the time at which it begins. The earliest one is taken out: so what happens happens in order of time, and a rank
 * that dies takes part in nothing later. O(n log n) for n instructions of all ranks; one thread.
 *
 * The invariant: whatever is put into the heap begins no earlier than what was taken out last; ties are broken by rank
 * and stream. So the same plans give the same times.
 *
 * A collective whose members have all come ends, even if one of them dies meanwhile. */
#include "ops/collectives.h"
#include "simulate/simulate.h"

static const plan_instr *next_of(const sim_stream *s) {
    return s->lane->instrs->instrs[s->ndone];
}

/* Puts the next instruction of a stream into the heap, unless something that it waits for has no end yet. */
static void offer(weft_simulation *x, sim_stream *s) {
    s->awaits = SIM_NONE;
    if (s->ndone == s->lane->instrs->ninstrs) return;
    const plan_instr *instr = next_of(s);
    const sim_stream *streams = x->ranks[s->lane->rank].streams;
    int64_t at = s->free_ns;
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        const sim_stream *t = &streams[w->stream];
        if (!w->count) continue;
        if (t->ndone < (uint32_t)w->count) {
            s->awaits = w->stream;
            return;
        }
        if (t->events[w->count - 1].end_ns > at) at = t->events[w->count - 1].end_ns;
    }
    double late = plan_seconds_late(x->options.delays, x->options.ndelays, s->lane->rank, instr);
    sim_put_turn(x, s, plan_later(at, plan_ns(late)));
}

/* The instruction that stream `s` is at ends then: what waited for it may begin. */
static void end_instr(weft_simulation *x, sim_stream *s, int64_t end_ns) {
    const sim_rank *rank = &x->ranks[s->lane->rank];
    s->events[s->ndone++].end_ns = end_ns;
    s->free_ns = end_ns;
    if (end_ns > x->end_ns) x->end_ns = end_ns;
    offer(x, s);
    for (int t = 0; t < rank->plan->plan->nstreams; t++)
        if (rank->streams[t].awaits == s->lane->stream) offer(x, &rank->streams[t]);
}

static int64_t duration_of(const weft_simulation *x, const sim_stream *s) {
    const sim_plan *p = x->ranks[s->lane->rank].plan;
    return p->ns[next_of(s) - p->plan->instrs];
}

/* The last member, `last`, has come. A ring that already moves data is one with two streams of a rank on it: what comes
 * second neither slows down nor is slowed. */
static void end_collective(weft_simulation *x, sim_ring *r, sim_stream *last, int64_t now) {
    int64_t longest = 0;
    for (int m = 0; m < r->nranks; m++) {
        int64_t ns = duration_of(x, r->come[m]);
        if (ns > longest) longest = ns;
    }
    if (x->contends && !r->is_moving) {
        sim_begin_moving(x, r, last, longest, now);
        return;
    }
    r->ncome = 0;
    for (int m = 0; m < r->nranks; m++) {
        sim_stream *s = r->come[m];
        r->come[m] = NULL;
        s->in = NULL;
        end_instr(x, s, plan_later(now, longest));
    }
}

/* The stream of the other member that is in what fits; the one that came first. */
static sim_stream *find_partner(const weft_simulation *x, const sim_member *m, int64_t peer, bool is_send) {
    const sim_rank *other = &x->ranks[m->ring->ranks[peer]];
    sim_stream *first = NULL;
    for (int s = 0; s < other->plan->plan->nstreams; s++) {
        sim_stream *t = &other->streams[s];
        if (!t->in || t->in->ring != m->ring || t->peer != m->index || t->is_send == is_send) continue;
        if (!first || t->events[t->ndone].start_ns < first->events[first->ndone].start_ns) first = t;
    }
    return first;
}

/* A send and the receive that it is for end together. */
static weft_status enter_pair(weft_simulation *x, sim_stream *s, bool is_send, int64_t now) {
    const plan_instr *instr = next_of(s);
    sim_member *m = sim_member_of(&x->ranks[s->lane->rank], instr->ring_id);
    int64_t peer = op_collective_root(instr->op);
    char op[200];
    if (peer < 0 || peer >= m->ring->nranks || peer == m->index)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "rank %d, %s, ring %lld: there is no peer %lld",
                                  s->lane->rank, instr_place(instr, op, sizeof op), (long long)m->ring->id,
                                  (long long)peer);
    sim_stream *t = find_partner(x, m, peer, is_send);
    if (!t) {
        s->in = m;
        s->peer = peer;
        s->is_send = is_send;
        return NULL;
    }
    int64_t own = duration_of(x, s), its = duration_of(x, t), end = plan_later(now, own > its ? own : its);
    t->in = NULL;
    end_instr(x, s, end);
    end_instr(x, t, end);
    return NULL;
}

static weft_status enter_collective(weft_simulation *x, sim_stream *s, int64_t now) {
    const plan_instr *instr = next_of(s);
    sim_member *m = sim_member_of(&x->ranks[s->lane->rank], instr->ring_id);
    sim_ring *r = m->ring;
    char op[200];
    if (r->come[m->index])
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                                  "rank %d, %s, ring %lld: the rank is already in a collective of the ring",
                                  s->lane->rank, instr_place(instr, op, sizeof op), (long long)r->id);
    m->nentered++;
    r->come[m->index] = s;
    s->in = m;
    s->peer = SIM_NONE;
    if (++r->ncome == r->nranks) end_collective(x, r, s, now);
    return NULL;
}

static bool is_fault(const weft_simulation *x, int rank, const plan_instr *instr) {
    for (size_t i = 0; i < x->options.nfaults && !x->timeline.nsteps; i++) {
        const weft_fault *f = &x->options.faults[i];
        if (f->op_index == instr->op_index && (f->rank < 0 || f->rank == rank)) return true;
    }
    return false;
}

/* It leaves the collectives that others have yet to come to. */
static void die(weft_simulation *x, sim_rank *r, const plan_instr *instr, int64_t now) {
    r->died_ns = now;
    r->died_at = instr;
    for (int s = 0; s < r->plan->plan->nstreams; s++) {
        sim_member *in = r->streams[s].in;
        r->streams[s].in = NULL;
        if (!in || r->streams[s].peer != SIM_NONE) continue;
        if (in->ring->is_moving && in->ring->moving[in->index] == &r->streams[s]) {
            r->streams[s].in = in; /* all had come */
            continue;
        }
        in->ring->come[in->index] = NULL;
        in->ring->ncome--;
    }
    if (now > x->end_ns) x->end_ns = now;
}

static weft_status begin_instr(weft_simulation *x, sim_stream *s, int64_t now) {
    sim_rank *r = &x->ranks[s->lane->rank];
    const plan_instr *instr = next_of(s);
    if (r->died_ns != SIM_NONE) return NULL;
    if (is_fault(x, r->rank, instr)) {
        die(x, r, instr, now);
        return NULL;
    }
    s->events[s->ndone].start_ns = now;
    if (now > x->end_ns) x->end_ns = now;
    bool is_send;
    if (plan_is_pair(instr, &is_send)) return enter_pair(x, s, is_send, now);
    if (instr->ring_id >= 0) return enter_collective(x, s, now);
    if (x->contends && s->lane->stream == 0)
        sim_begin_compute(x, r, duration_of(x, s), now);
    else
        end_instr(x, s, plan_later(now, duration_of(x, s)));
    return NULL;
}

/* What was under way at the stream's turn has ended: the collective that it came to last, or compute. */
static void end_turn(weft_simulation *x, sim_stream *s, int64_t now) {
    sim_ring *r = s->in ? s->in->ring : NULL;
    if (!r) {
        sim_end_compute(x, &x->ranks[s->lane->rank], now);
        end_instr(x, s, now);
        return;
    }
    sim_end_moving(x, r, now);
    for (int m = 0; m < r->nranks; m++) end_instr(x, r->moving[m], now);
}

static void begin_step(weft_simulation *x) {
    x->nturns = 0;
    x->start_ns = x->end_ns;
    for (int r = 0; r < x->nranks; r++)
        for (size_t k = 0; k < x->ranks[r].plan->rings.count; k++) x->ranks[r].members[k].nentered = 0;
    for (size_t i = 0; i < x->nstreams; i++) {
        sim_stream *s = &x->streams[i];
        s->events = timeline_slot(&x->timeline, s->lane);
        for (size_t k = 0; k < s->lane->instrs->ninstrs; k++) s->events[k] = (trace_event){-1, -1};
        s->free_ns = x->start_ns;
        s->ndone = 0;
        s->awaits = SIM_NONE;
        s->place = SIM_NONE;
        s->ends = false;
    }
    for (size_t i = 0; i < x->nstreams; i++) offer(x, &x->streams[i]);
}

/* What has begun and never ends lasts as long as anything happens, in a timeline. */
static void end_step(weft_simulation *x) {
    for (size_t i = 0; i < x->nstreams; i++) {
        sim_stream *s = &x->streams[i];
        if (s->ndone == s->lane->instrs->ninstrs || s->events[s->ndone].start_ns < 0) continue;
        s->events[s->ndone].end_ns = x->end_ns;
    }
}

weft_status sim_play_step(weft_simulation *x) {
    weft_status status = NULL;
    begin_step(x);
    while (!status && x->nturns) {
        sim_turn turn = sim_take_turn(x);
        sim_stream *stream = &x->streams[turn.stream];
        if (stream->ends)
            end_turn(x, stream, turn.at_ns);
        else
            status = begin_instr(x, stream, turn.at_ns);
    }
    end_step(x);
    return status;
}
