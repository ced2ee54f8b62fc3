/* null_words.c: what a step that cannot end is told as: who died, and which ranks wait in which collective for whom. In
 * the watchdog's words, for the same thing found by other means. */
#include <stdio.h>

#include "executor/devices/null.h"

enum { MOST_LISTED = 4 };

static bool has_ended(const null_stream *s) {
    return s->ndone == s->state->ninstrs;
}

static bool has_ended_step(const weft_executor *x, int rank) {
    for (int s = 0; s < x->ranks[rank].plan->nstreams; s++)
        if (!has_ended(&x->null->ranks[rank].streams[s])) return false;
    return true;
}

static double milliseconds(int64_t ns) {
    return (double)ns * 1e-6;
}

/* "died before matmul_v2 #3 at 1.2 ms" */
static void say_death(const null_rank *r, buffer *out) {
    char op[200];
    buffer_format(out, "died before %s at %.6g ms", instr_place(r->died_at, op, sizeof op), milliseconds(r->died_ns));
}

/* What a rank does instead of its next collective of ring `id`. */
static void say_doing(const weft_executor *x, int rank, int64_t id, buffer *out) {
    const null_rank *r = &x->null->ranks[rank];
    const rank_state *state = &x->ranks[rank];
    const ring_use *u = rings_find(state, id);
    char op[200];
    if (r->died_ns != NULL_NONE) {
        say_death(r, out);
        return;
    }
    size_t due = r->nentered[u - state->rings];
    if (has_ended_step(x, rank) || due >= u->ninstrs) {
        buffer_text(out, "has ended its step");
        return;
    }
    const null_stream *s = &r->streams[u->instrs[due]->stream];
    for (int i = 0; i < state->plan->nstreams && s->awaits != NULL_NONE; i++) s = &r->streams[s->awaits];
    if (has_ended(s)) {
        buffer_format(out, "has ended stream %s", state->plan->stream_names[s->state->stream]);
        return;
    }
    const plan_instr *instr = s->state->instrs[s->ndone].instr;
    buffer_format(out, "%s %s", s->in ? "in" : "at", instr_place(instr, op, sizeof op));
    if (s->in) buffer_format(out, " on ring %lld", (long long)s->in->id);
}

static void say_missing(const weft_executor *x, const null_ring *r, buffer *out) {
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
static void say_waiting(const weft_executor *x, const null_ring *r, const null_stream *first, buffer *out) {
    char op[200];
    const plan_instr *instr = first->state->instrs[first->ndone].instr;
    buffer_format(out, "rank %d, %s, ring %lld: waits for ever, since %.6g ms,", first->state->rank->rank,
                  instr_place(instr, op, sizeof op), (long long)r->id,
                  milliseconds(first->events[first->ndone].start_ns));
    say_missing(x, r, out);
    if (r->ncome > 1)
        buffer_format(out, "; so do%s %d more rank%s", r->ncome == 2 ? "es" : "", r->ncome - 1,
                      r->ncome == 2 ? "" : "s");
}

/* Whether `s` was the first member of its collective to come; equal times: the one that is first in the ring. */
static bool came_first(const null_stream *s) {
    const null_ring *r = s->in;
    const null_stream *first = NULL;
    for (int m = 0; m < r->nranks; m++) {
        const null_stream *t = r->come[m];
        if (t && (!first || t->events[t->ndone].start_ns < first->events[first->ndone].start_ns)) first = t;
    }
    return first == s;
}

static int count_dead(const weft_executor *x, int *out_first) {
    int count = 0;
    for (int r = 0; r < x->nranks; r++) {
        if (x->null->ranks[r].died_ns == NULL_NONE) continue;
        if (!count++) *out_first = r;
    }
    return count;
}

weft_status null_check_end(const weft_executor *x) {
    const null_device *d = x->null;
    int dead = 0, ndead = count_dead(x, &dead), nwaits = 0;
    buffer out;
    buffer_init(&out, &x->context->allocator);
    for (size_t i = 0; i < d->nstreams; i++) {
        const null_stream *s = &d->streams[i];
        if (!s->in || !came_first(s) || ++nwaits > MOST_LISTED) continue;
        if (nwaits > 1) buffer_text(&out, "; ");
        say_waiting(x, s->in, s, &out);
    }
    if (nwaits > MOST_LISTED) buffer_format(&out, "; ranks wait in %d more collectives", nwaits - MOST_LISTED);
    if (ndead && !nwaits) {
        buffer_format(&out, "rank %d ", dead);
        say_death(&d->ranks[dead], &out);
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
