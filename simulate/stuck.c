/* stuck.c: the message for a step that cannot end: who died, and which ranks wait in which collective for whom. It
 * reads as the watchdog's, which finds the same in real runs. */
#include <stdio.h>

#include "simulate/simulate.h"

enum { MOST_LISTED = 4 };

static bool has_ended(const sim_stream *s) {
    return s->ndone == s->lane->instrs->ninstrs;
}

static bool has_ended_step(const weft_simulation *x, int rank) {
    for (int s = 0; s < x->ranks[rank].plan->plan->nstreams; s++)
        if (!has_ended(&x->ranks[rank].streams[s])) return false;
    return true;
}

static double milliseconds(int64_t ns) {
    return (double)ns * 1e-6;
}

/* "died before matmul_v2 #3 at 1.2 ms" */
static void say_death(const sim_rank *r, buffer *out) {
    char op[200];
    buffer_format(out, "died before %s at %.6g ms", instr_place(r->died_at, op, sizeof op), milliseconds(r->died_ns));
}

/* Where a stream stands, or the one that it waits for in the end. */
static void say_standing(const sim_rank *r, const sim_stream *s, buffer *out) {
    const weft_plan *plan = r->plan->plan;
    char op[200];
    for (int i = 0; i < plan->nstreams && s->awaits != SIM_NONE; i++) s = &r->streams[s->awaits];
    if (has_ended(s)) {
        buffer_format(out, "has ended stream %s", plan->stream_names[s->lane->stream]);
        return;
    }
    const plan_instr *instr = s->lane->instrs->instrs[s->ndone];
    buffer_format(out, "%s %s", s->in ? "in" : "at", instr_place(instr, op, sizeof op));
    if (s->in) buffer_format(out, " on ring %lld", (long long)s->in->ring->id);
}

/* Dead, or through with the step. */
static bool say_gone(const weft_simulation *x, int rank, buffer *out) {
    if (x->ranks[rank].died_ns != SIM_NONE)
        say_death(&x->ranks[rank], out);
    else if (has_ended_step(x, rank))
        buffer_text(out, "has ended its step");
    else
        return false;
    return true;
}

/* What a rank does instead of its next collective of ring `id`. */
static void say_doing(const weft_simulation *x, int rank, int64_t id, buffer *out) {
    const sim_rank *r = &x->ranks[rank];
    const plan_ring *u = plan_ring_find(&r->plan->rings, id);
    size_t due = sim_member_of(r, id)->nentered;
    if (say_gone(x, rank, out)) return;
    if (due >= u->ninstrs)
        buffer_text(out, "has ended its step");
    else
        say_standing(r, &r->streams[u->instrs[due]->stream], out);
}

/* What a rank does instead of a send or receive. */
static void say_absent(const weft_simulation *x, int rank, buffer *out) {
    const sim_rank *r = &x->ranks[rank];
    const sim_stream *s = r->streams;
    if (say_gone(x, rank, out)) return;
    while (has_ended(s)) s++;
    say_standing(r, s, out);
}

static void say_missing(const weft_simulation *x, const sim_ring *r, buffer *out) {
    int nmissing = 0;
    for (int m = 0; m < r->nranks; m++) {
        if (r->come[m] || ++nmissing > MOST_LISTED) continue;
        buffer_format(out, "%s rank %lld (", nmissing == 1 ? " for" : ",", (long long)r->ranks[m]);
        say_doing(x, (int)r->ranks[m], r->id, out);
        buffer_text(out, ")");
    }
    if (nmissing > MOST_LISTED) buffer_format(out, " and %d more", nmissing - MOST_LISTED);
}

/* "rank 0, c_allreduce_sum #41, ring 0: waits for ever, since 1.2 ms, for rank 1 (...); so do 2 more ranks" */
static void say_waiting(const weft_simulation *x, const sim_ring *r, const sim_stream *first, buffer *out) {
    char op[200];
    const plan_instr *instr = first->lane->instrs->instrs[first->ndone];
    buffer_format(out, "rank %d, %s, ring %lld: waits for ever, since %.6g ms,", first->lane->rank,
                  instr_place(instr, op, sizeof op), (long long)r->id,
                  milliseconds(first->events[first->ndone].start_ns));
    say_missing(x, r, out);
    if (r->ncome > 1)
        buffer_format(out, "; so do%s %d more rank%s", r->ncome == 2 ? "es" : "", r->ncome - 1,
                      r->ncome == 2 ? "" : "s");
}

/* "rank 0, send_v2 #3, ring 0: waits for ever, since 1.2 ms, for rank 1 (...)" */
static void say_waiting_pair(const weft_simulation *x, const sim_stream *s, buffer *out) {
    int rank = (int)s->in->ring->ranks[s->peer];
    char op[200];
    buffer_format(out, "rank %d, %s, ring %lld: waits for ever, since %.6g ms, for rank %d (", s->lane->rank,
                  instr_place(s->lane->instrs->instrs[s->ndone], op, sizeof op), (long long)s->in->ring->id,
                  milliseconds(s->events[s->ndone].start_ns), rank);
    say_absent(x, rank, out);
    buffer_text(out, ")");
}

/* Whether `s` was the first member of its collective to come; equal times: the one that is first in the ring. */
static bool came_first(const sim_stream *s) {
    const sim_ring *r = s->in->ring;
    const sim_stream *first = NULL;
    for (int m = 0; m < r->nranks; m++) {
        const sim_stream *t = r->come[m];
        if (t && (!first || t->events[t->ndone].start_ns < first->events[first->ndone].start_ns)) first = t;
    }
    return first == s;
}

static int count_dead(const weft_simulation *x, int *out_first) {
    int count = 0;
    for (int r = 0; r < x->nranks; r++) {
        if (x->ranks[r].died_ns == SIM_NONE) continue;
        if (!count++) *out_first = r;
    }
    return count;
}

weft_status sim_check_end(const weft_simulation *x) {
    int dead = 0, ndead = count_dead(x, &dead), nwaits = 0;
    buffer out;
    buffer_init(&out, &x->context->allocator);
    for (size_t i = 0; i < x->nstreams; i++) {
        const sim_stream *s = &x->streams[i];
        bool is_pair = s->in && s->peer != SIM_NONE;
        if (!s->in || (!is_pair && !came_first(s)) || ++nwaits > MOST_LISTED) continue;
        if (nwaits > 1) buffer_text(&out, "; ");
        if (is_pair)
            say_waiting_pair(x, s, &out);
        else
            say_waiting(x, s->in->ring, s, &out);
    }
    if (nwaits > MOST_LISTED) buffer_format(&out, "; ranks wait in %d more collectives", nwaits - MOST_LISTED);
    if (ndead && !nwaits) {
        buffer_format(&out, "rank %d ", dead);
        say_death(&x->ranks[dead], &out);
        if (ndead > 1) buffer_format(&out, ", %d more rank%s died", ndead - 1, ndead == 2 ? "" : "s");
        buffer_text(&out, "; no other rank waits for it");
    }
    weft_status status = NULL;
    if (out.failed) status = base_out_of_memory();
    if (!status && (ndead || nwaits))
        status = weft_status_create(WEFT_RUNTIME, NULL, "%.*s", (int)out.nbytes, out.bytes);
    buffer_fini(&out);
    return status;
}
