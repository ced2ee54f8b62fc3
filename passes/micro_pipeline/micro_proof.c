/* micro_proof.c: the plans of all members, run as they say, with a vector clock for each stream of each member.
 *
 * Steps run as soon as their stream, their waits and, of messages, the other member let them: if none can, they would
 * wait for ever. What a buffer holds is told by a number: a chunk's rows, a product of a member, a sum of products. A
 * step that reads finds what was written last; that, and whether it is ordered behind it, is checked with the clocks
 * (Fidge 1988): so the order in which this run takes steps does not matter. */
#include <stdio.h>

#include "passes/micro_pipeline/micro_plan.h"

/* What a buffer holds: rows of a chunk (members 0), or the sum of products of a chunk's rows over some members. */
typedef struct content {
    int32_t chunk; /* -1: nothing */
    bool is_rows;
    int32_t to;       /* 1 + the member that an all-to-all's rows are for; 0: any */
    uint64_t members; /* as bits */
    int32_t in_order; /* members were added up in order so far: the last one; -1: not */
} content;

typedef struct place {
    content holds;
    uint32_t writer, written_at; /* stream, and its step count then */
    uint32_t *read_at;           /* by stream: its step count at its last read; 0: none */
} place;

typedef struct prover {
    arena *a;
    const chunk_plan *plans;
    int nranks;
    uint32_t nstreams;     /* of all members */
    uint32_t *clocks;      /* by stream: what it has seen of each */
    uint32_t *done_clocks; /* by member and step: the stream's clock when it was done */
    bool *done;            /* the same */
    size_t *next;          /* by stream: the step at which it looks */
    size_t most;           /* steps of a member */
    place *places[CHUNK_SPACES];
    size_t nplaces; /* of one member in one space */
    const char *message;
} prover;

static uint32_t stream_of(const chunk_step *s, int member) {
    return (uint32_t)(member * CHUNK_STREAMS + s->stream);
}

static place *place_at(const prover *v, int member, int space, int32_t index) {
    return &v->places[space][(size_t)member * v->nplaces + (size_t)index];
}

static weft_status complain(prover *v, int member, size_t step, const char *what) {
    char words[160];
    if (v->message) return NULL;
    snprintf(words, sizeof words, "member %d, step %zu: %s", member, step, what);
    v->message = arena_string(v->a, words, strlen(words));
    return v->message ? NULL : base_out_of_memory();
}

static void join(const prover *v, uint32_t *to, const uint32_t *from) {
    for (uint32_t i = 0; i < v->nstreams; i++)
        if (from[i] > to[i]) to[i] = from[i];
}

/* --- touching buffers --------------------------------------------------------------------------------------------- */

static weft_status read_place(prover *v, int member, size_t step, int space, int32_t index, content *out) {
    const chunk_step *s = &v->plans[member].steps[step];
    uint32_t me = stream_of(s, member), *clock = v->clocks + (size_t)me * v->nstreams;
    place *p = place_at(v, member, space, index);
    *out = p->holds;
    if (p->holds.chunk < 0) return complain(v, member, step, "it reads a buffer that nothing was written to");
    if (p->written_at > clock[p->writer]) return complain(v, member, step, "it may read before the buffer is written");
    p->read_at[me] = clock[me];
    int reader = s->action == CHUNK_SEND ? s->peer : member;
    if (out->to && out->to != reader + 1) return complain(v, member, step, "it reads rows that are for another member");
    return NULL;
}

static weft_status write_place(prover *v, int member, size_t step, int space, int32_t index, const content *what) {
    const chunk_step *s = &v->plans[member].steps[step];
    uint32_t me = stream_of(s, member), *clock = v->clocks + (size_t)me * v->nstreams;
    place *p = place_at(v, member, space, index);
    if (p->written_at > clock[p->writer]) return complain(v, member, step, "it may write before another does");
    for (uint32_t i = 0; i < v->nstreams; i++)
        if (p->read_at[i] > clock[i]) return complain(v, member, step, "it may write before the buffer is read");
    p->holds = *what;
    p->writer = me;
    p->written_at = clock[me];
    return NULL;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static weft_status multiply(prover *v, int member, size_t step) {
    const chunk_step *s = &v->plans[member].steps[step];
    content x, made;
    TRY(read_place(v, member, step, s->from, s->from_buffer, &x));
    if (!x.is_rows || x.chunk != s->chunk) return complain(v, member, step, "it multiplies other rows than it says");
    made = (content){.chunk = x.chunk, .members = UINT64_C(1) << member, .in_order = member ? -1 : 0};
    return write_place(v, member, step, s->to, s->buffer, &made);
}

static weft_status add_up(prover *v, int member, size_t step) {
    const chunk_step *s = &v->plans[member].steps[step];
    content x, sum = {.in_order = -1};
    TRY(read_place(v, member, step, s->from, s->from_buffer, &x));
    int from = s->chunk / v->plans[member].nsub, sub = s->chunk % v->plans[member].nsub;
    if (x.is_rows || x.members != UINT64_C(1) << from ||
        x.chunk != v->plans[member].member * v->plans[member].nsub + sub)
        return complain(v, member, step, "it adds another product than it says");
    TRY(read_place(v, member, step, s->to, s->buffer, &sum));
    if (sum.members & x.members || sum.chunk != x.chunk) return complain(v, member, step, "it adds a product twice");
    sum.in_order = sum.in_order >= 0 && from == sum.in_order + 1 ? from : -1;
    sum.members |= x.members;
    return write_place(v, member, step, s->to, s->buffer, &sum);
}

/* The product of a chunk's rows, added to what the members' chunks of that piece gave so far. */
static weft_status accumulate(prover *v, int member, size_t step) {
    const chunk_step *s = &v->plans[member].steps[step];
    int owner = s->chunk / v->plans[member].nsub, sub = s->chunk % v->plans[member].nsub;
    content x, sum = {.chunk = sub, .in_order = -1};
    TRY(read_place(v, member, step, s->from, s->from_buffer, &x));
    if (!x.is_rows || x.chunk != s->chunk) return complain(v, member, step, "it multiplies other rows than it says");
    if (place_at(v, member, s->to, s->buffer)->holds.chunk >= 0)
        TRY(read_place(v, member, step, s->to, s->buffer, &sum));
    if (sum.chunk != sub || sum.members >> owner & 1) return complain(v, member, step, "it adds a product twice");
    sum.members |= UINT64_C(1) << owner;
    return write_place(v, member, step, s->to, s->buffer, &sum);
}

static weft_status keep(prover *v, int member, size_t step) {
    const chunk_step *s = &v->plans[member].steps[step];
    content x;
    TRY(read_place(v, member, step, s->from, s->from_buffer, &x));
    return write_place(v, member, step, s->to, s->buffer, &x);
}

/* What it waits for is done, and of a message what the member has before it on its lane. */
static bool waits_are_over(const prover *v, int member, const chunk_step *s) {
    const chunk_step *all = v->plans[member].steps;
    for (const chunk_step *x = all; s->lane >= 0 && x < s; x++)
        if (x->lane == s->lane && !v->done[(size_t)member * v->most + (size_t)(x - all)]) return false;
    for (int32_t i = 0; i < s->nwaits; i++)
        if (!v->done[(size_t)member * v->most + (size_t)s->waits[i]]) return false;
    return true;
}

/* Takes the stream on: it has seen what it waited for, and counts one more. */
static void enter(prover *v, int member, const chunk_step *s) {
    uint32_t me = stream_of(s, member), *clock = v->clocks + (size_t)me * v->nstreams;
    for (int32_t i = 0; i < s->nwaits; i++)
        join(v, clock, v->done_clocks + ((size_t)member * v->most + (size_t)s->waits[i]) * v->nstreams);
    clock[me]++;
}

static void leave(prover *v, int member, size_t step) {
    uint32_t me = stream_of(&v->plans[member].steps[step], member);
    size_t at = (size_t)member * v->most + step;
    memcpy(v->done_clocks + at * v->nstreams, v->clocks + (size_t)me * v->nstreams, v->nstreams * sizeof(uint32_t));
    v->done[at] = true;
    v->next[me] = step + 1;
}

/* The step at which a stream stands; SIZE_MAX: it is through. */
static size_t stand(const prover *v, int member, int stream) {
    const chunk_plan *p = &v->plans[member];
    size_t *at = &v->next[member * CHUNK_STREAMS + stream];
    while (*at < p->count && p->steps[*at].stream != stream) ++*at;
    return *at < p->count ? *at : SIZE_MAX;
}

/* Both ends of a message, if the receiver stands there too. */
static weft_status exchange(prover *v, int from, size_t step, bool *out_moved) {
    const chunk_step *s = &v->plans[from].steps[step];
    content x;
    *out_moved = false;
    if (s->peer < 0 || s->peer >= v->nranks) return complain(v, from, step, "there is no such member");
    size_t other = stand(v, s->peer, s->stream == CHUNK_SENDS_BACK ? CHUNK_RECEIVES_BACK : CHUNK_RECEIVES);
    if (other == SIZE_MAX) return NULL;
    const chunk_step *r = &v->plans[s->peer].steps[other];
    if (r->action != CHUNK_RECEIVE || r->peer != from || r->lane != s->lane || !waits_are_over(v, s->peer, r))
        return NULL;
    *out_moved = true;
    enter(v, from, s);
    enter(v, s->peer, r);
    uint32_t *a = v->clocks + (size_t)stream_of(s, from) * v->nstreams,
             *b = v->clocks + (size_t)stream_of(r, s->peer) * v->nstreams;
    TRY(read_place(v, from, step, s->from, s->from_buffer, &x));
    join(v, b, a);
    if (x.chunk != r->chunk) TRY(complain(v, s->peer, other, "it receives another chunk than it says"));
    TRY(write_place(v, s->peer, other, r->to, r->buffer, &x)); /* the sender need not learn that it came */
    leave(v, from, step);
    leave(v, s->peer, other);
    return NULL;
}

/* A collective of all members, once each stands there. */
static weft_status reduce(prover *v, bool *out_moved) {
    size_t at[64] = {0};
    *out_moved = false;
    for (int r = 0; r < v->nranks; r++) {
        at[r] = stand(v, r, CHUNK_SENDS);
        if (at[r] == SIZE_MAX) return NULL;
        const chunk_step *s = &v->plans[r].steps[at[r]];
        if (s->action != CHUNK_REDUCE || !waits_are_over(v, r, s)) return NULL;
    }
    *out_moved = true;
    uint64_t members = 0;
    int32_t chunk = v->plans[0].steps[at[0]].chunk;
    for (int r = 0; r < v->nranks; r++) enter(v, r, &v->plans[r].steps[at[r]]);
    for (int k = 0; k < 2; k++) /* all that each has seen, to each */
        for (int r = 0; r < v->nranks; r++) {
            uint32_t *a = v->clocks + (size_t)stream_of(&v->plans[0].steps[at[0]], 0) * v->nstreams,
                     *b = v->clocks + (size_t)stream_of(&v->plans[r].steps[at[r]], r) * v->nstreams;
            join(v, k ? b : a, k ? a : b);
        }
    for (int r = 0; r < v->nranks; r++) {
        const chunk_step *s = &v->plans[r].steps[at[r]];
        content x;
        TRY(read_place(v, r, at[r], s->from, s->from_buffer, &x));
        if (x.chunk != chunk || s->chunk != chunk || x.is_rows) TRY(complain(v, r, at[r], "it reduces another chunk"));
        members |= x.members;
    }
    content sum = {.chunk = chunk, .members = members, .in_order = v->nranks - 1};
    for (int r = 0; r < v->nranks; r++) {
        const chunk_step *s = &v->plans[r].steps[at[r]];
        TRY(write_place(v, r, at[r], s->to, s->buffer, &sum));
        leave(v, r, at[r]);
    }
    return NULL;
}

static weft_status run_step(prover *v, int member, int stream, bool *out_moved) {
    size_t step = stand(v, member, stream);
    *out_moved = false;
    if (step == SIZE_MAX) return NULL;
    const chunk_step *s = &v->plans[member].steps[step];
    if (!waits_are_over(v, member, s) || s->action == CHUNK_RECEIVE) return NULL;
    if (s->action == CHUNK_REDUCE) return member ? NULL : reduce(v, out_moved);
    if (s->action == CHUNK_SEND) return exchange(v, member, step, out_moved);
    *out_moved = true;
    enter(v, member, s);
    TRY(s->action == CHUNK_MULTIPLY     ? multiply(v, member, step)
        : s->action == CHUNK_ADD        ? add_up(v, member, step)
        : s->action == CHUNK_ACCUMULATE ? accumulate(v, member, step)
                                        : keep(v, member, step));
    leave(v, member, step);
    return NULL;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static weft_status begin(prover *v) {
    const chunk_plan *p = v->plans;
    v->nranks = p->nranks;
    v->nstreams = (uint32_t)(v->nranks * CHUNK_STREAMS);
    for (int r = 0; r < v->nranks; r++)
        if (v->plans[r].count > v->most) v->most = v->plans[r].count;
    size_t nchunks = (size_t)(p->nranks * p->nsub), nsteps = (size_t)v->nranks * v->most;
    v->nplaces = nchunks + MICRO_TURNS;
    v->clocks = ARENA_ARRAY(v->a, uint32_t, (size_t)v->nstreams * v->nstreams);
    v->done_clocks = ARENA_ARRAY(v->a, uint32_t, nsteps * v->nstreams + 1);
    v->done = ARENA_ARRAY(v->a, bool, nsteps + 1);
    v->next = ARENA_ARRAY(v->a, size_t, v->nstreams);
    if (!v->clocks || !v->done_clocks || !v->done || !v->next) return base_out_of_memory();
    for (int s = 0; s < CHUNK_SPACES; s++) {
        size_t n = v->nplaces * (size_t)v->nranks;
        uint32_t *reads = ARENA_ARRAY(v->a, uint32_t, n * v->nstreams);
        if (!(v->places[s] = ARENA_ARRAY(v->a, place, n)) || !reads) return base_out_of_memory();
        for (size_t i = 0; i < n; i++)
            v->places[s][i] = (place){.holds = {.chunk = -1}, .read_at = reads + i * v->nstreams};
    }
    for (int r = 0; r < v->nranks; r++)
        for (int32_t i = 0;
             i < (p->kind == MICRO_SCATTER || p->is_scattered || p->exchanges ? (int32_t)nchunks : p->nsub); i++)
            place_at(v, r, CHUNK_OWN, i)->holds =
                (content){.chunk = p->kind == MICRO_GATHER ? r * p->nsub + i % p->nsub : i,
                          .is_rows = true,
                          .in_order = -1,
                          .to = p->kind == MICRO_GATHER && p->exchanges ? i / p->nsub + 1 : 0};
    return NULL;
}

static uint64_t all_members(const prover *v) {
    return v->nranks == 64 ? UINT64_MAX : (UINT64_C(1) << v->nranks) - 1;
}

static weft_status check_gathered(prover *v, int r) {
    const chunk_plan *p = &v->plans[r];
    for (int32_t i = 0; i < p->nranks * p->nsub; i++) {
        const content *x = &place_at(v, r, CHUNK_RESULTS, i)->holds, *rows = &place_at(v, r, CHUNK_ROWS, i)->holds;
        if (p->multiplies && (x->chunk != i || x->members != UINT64_C(1) << r))
            return complain(v, r, p->count, "a product is missing");
        if (p->keeps_rows && (rows->chunk != i || !rows->is_rows))
            return complain(v, r, p->count, "gathered rows are missing");
    }
    for (int32_t i = 0; i < p->nsub && p->accumulates; i++)
        if (place_at(v, r, CHUNK_TOTALS, i)->holds.members != all_members(v))
            return complain(v, r, p->count, "a sum is not complete");
    return NULL;
}

static weft_status check_reduced(prover *v, int r) {
    const chunk_plan *p = &v->plans[r];
    for (int32_t i = 0; i < (p->is_scattered ? p->nranks : 1) * p->nsub; i++) {
        const content *x = &place_at(v, r, CHUNK_RESULTS, i)->holds;
        if (x->chunk != i || x->members != all_members(v)) return complain(v, r, p->count, "a sum is not complete");
        if (p->is_scattered && p->in_rank_order && x->in_order != p->nranks - 1)
            return complain(v, r, p->count, "a sum is not in the order of ranks");
    }
    return NULL;
}

static weft_status check_exchanged(prover *v, int r) {
    const chunk_plan *p = &v->plans[r];
    for (int32_t i = 0; i < p->nranks * p->nsub; i++) {
        const content *x = &place_at(v, r, CHUNK_RESULTS, i)->holds;
        if (x->chunk != r * p->nsub + i % p->nsub || x->members != UINT64_C(1) << i / p->nsub)
            return complain(v, r, p->count, "a product is missing");
    }
    return NULL;
}

static weft_status check_sums(prover *v, int r) {
    const chunk_plan *p = &v->plans[r];
    if (p->exchanges) return check_exchanged(v, r);
    uint64_t all = all_members(v);
    for (int32_t i = 0; i < p->nsub; i++) {
        const content *x = &place_at(v, r, CHUNK_RESULTS, i)->holds;
        if (x->chunk != r * p->nsub + i || x->members != all) return complain(v, r, p->count, "a sum is not complete");
        if (p->in_rank_order && x->in_order != p->nranks - 1)
            return complain(v, r, p->count, "a sum is not in the order of ranks");
    }
    return NULL;
}

weft_status chunk_plans_prove(arena *a, const chunk_plan *plans, const char **out_message) {
    prover v = {.a = a, .plans = plans};
    bool any = true;
    *out_message = NULL;
    TRY(begin(&v));
    while (any && !v.message) {
        any = false;
        for (int r = 0; r < v.nranks; r++)
            for (int s = 0; s < CHUNK_STREAMS; s++) {
                bool moved;
                TRY(run_step(&v, r, s, &moved));
                any |= moved;
            }
    }
    for (int r = 0; r < v.nranks && !v.message; r++)
        for (int s = 0; s < CHUNK_STREAMS; s++) {
            size_t at = stand(&v, r, s);
            if (at != SIZE_MAX) TRY(complain(&v, r, at, "it waits for ever"));
        }
    for (int r = 0; r < v.nranks && !v.message; r++)
        TRY(plans[0].kind == MICRO_GATHER    ? check_gathered(&v, r)
            : plans[0].kind == MICRO_SCATTER ? check_sums(&v, r)
                                             : check_reduced(&v, r));
    *out_message = v.message;
    return NULL;
}
