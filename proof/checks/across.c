/* across.c: a search from a launch back through what is complete before it starts: the one before it on its stream,
 * what it waits for, and what the host had waited for. Of each collective among these it is the same on every member of
 * its ring. Asked only of what seems to race, so the graph of all launches of all ranks is never made. Sends and
 * receives are not followed to their other ends. */
#include "proof/checks/across.h"

#include "program/grow.h"

enum { MOST_STEPS = 1 << 20 };
#define ALL_MEMBERS (UINT64_C(1) << 63) /* of a key: of the collective that this is the first part of */

weft_status across_begin(across *x, const proof_ranks *ranks, arena *a) {
    *x = (across){.ranks = ranks, .arena = a};
    x->turns = ARENA_ARRAY(a, uint32_t *, ranks->nclasses + 1);
    x->blockers = ARENA_ARRAY(a, uint32_t *, ranks->nclasses + 1);
    x->previous = ARENA_ARRAY(a, uint32_t *, ranks->nclasses + 1);
    return x->turns && x->blockers && x->previous ? NULL : base_out_of_memory();
}

/* --- a class ------------------------------------------------------------------------------------------------------ */

static weft_status know_class(across *x, uint32_t class) {
    const proof_class *c = &x->ranks->classes[class];
    const proof_schedule *s = c->schedule;
    if (x->turns[class]) return NULL;
    uint32_t *turns = ARENA_ARRAY(x->arena, uint32_t, s->ncollectives + 1), blocker = PROOF_NONE;
    uint32_t *blockers = ARENA_ARRAY(x->arena, uint32_t, s->nevents + 1);
    uint32_t *previous = ARENA_ARRAY(x->arena, uint32_t, s->nevents + 1);
    uint32_t *last = ARENA_ARRAY(x->arena, uint32_t, s->nstreams + 1);
    if (!turns || !blockers || !previous || !last) return base_out_of_memory();
    for (size_t t = 0; t < s->nstreams; t++) last[t] = PROOF_NONE;
    for (size_t i = 0; i < c->nsequences; i++)
        for (uint32_t k = 0; k < c->sequences[i].count; k++) turns[c->order[c->sequences[i].first + k]] = k;
    for (uint32_t i = 0; i < s->nevents; i++) {
        blockers[i] = blocker;
        previous[i] = last[s->events[i].stream];
        last[s->events[i].stream] = i;
        if (s->events[i].blocks_host && !s->launches_freely) blocker = i;
    }
    x->turns[class] = turns;
    x->blockers[class] = blockers;
    x->previous[class] = previous;
    return NULL;
}

/* --- a search ----------------------------------------------------------------------------------------------------- */

static uint64_t key_of(int64_t rank, uint32_t event) {
    return ((uint64_t)rank << 32 | event) + 1;
}

/* Whether this search sees a key for the first time. */
static weft_status see(across *x, uint64_t key, bool *out_new) {
    x->nsteps++;
    return key_set_add(x->arena, &x->seen, key, out_new);
}

/* Notes that a launch of a rank is complete before; it is looked at once. */
static weft_status meet(across *x, int64_t rank, uint32_t event) {
    bool is_new = false;
    TRY(see(x, key_of(rank, event), &is_new));
    if (!is_new) return NULL;
    TRY(grow(x->arena, &x->stack, &x->stack_capacity, x->nstack + 1, sizeof *x->stack));
    x->stack[x->nstack++] = key_of(rank, event);
    return NULL;
}

static weft_status meet_before(across *x, int64_t rank, uint32_t event) {
    uint32_t class = x->ranks->class_of[rank];
    const proof_schedule *s = x->ranks->classes[class].schedule;
    TRY(know_class(x, class));
    uint32_t before = x->previous[class][event], blocker = x->blockers[class][event];
    if (before != PROOF_NONE) TRY(meet(x, rank, before));
    if (blocker != PROOF_NONE) TRY(meet(x, rank, blocker));
    for (size_t k = 0; k < proof_nwaits(s, event); k++) {
        uint32_t wait = s->waits[s->events[event].first_wait + k];
        if (wait < event) TRY(meet(x, rank, wait));
    }
    return NULL;
}

/* The event of a rank that is number `turn` on a ring; PROOF_NONE if there is none. */
static uint32_t event_in_turn(const proof_ranks *r, int64_t rank, int64_t ring_id, uint32_t turn) {
    if (rank < 0 || rank >= r->nranks || r->class_of[rank] == PROOF_NONE) return PROOF_NONE;
    const proof_class *c = &r->classes[r->class_of[rank]];
    const ring_sequence *list = sequences_find(c, ring_id);
    if (!list || turn >= list->count) return PROOF_NONE;
    return c->schedule->collectives[c->order[list->first + turn]].event;
}

/* The same collective on the ring's other members: once, whichever of them is met first. */
static weft_status meet_members(across *x, int64_t rank, int64_t ring_id, uint32_t turn) {
    size_t count;
    bool is_first = true;
    const int64_t *members = ring_members(x->ranks, rank, ring_id, &count);
    for (size_t i = 0, nmet = 0; i < count && is_first && x->nsteps < MOST_STEPS; i++) {
        uint32_t event = event_in_turn(x->ranks, members[i], ring_id, turn);
        if (event == PROOF_NONE) continue;
        if (nmet++ == 0) TRY(see(x, key_of(members[i], event) | ALL_MEMBERS, &is_first));
        if (is_first) TRY(meet(x, members[i], event));
    }
    return NULL;
}

/* What is complete when `event` is: what comes before its start, and its other parts. */
static weft_status meet_parts(across *x, int64_t rank, uint32_t event) {
    uint32_t class = x->ranks->class_of[rank];
    const proof_schedule *s = x->ranks->classes[class].schedule;
    TRY(meet_before(x, rank, event));
    uint32_t c = s->events[event].collective;
    if (c == PROOF_NONE || s->collectives[c].peer >= 0) return NULL;
    return meet_members(x, rank, s->collectives[c].ring, x->turns[class][c]);
}

static weft_status orders_on(across *x, int64_t rank, uint32_t earlier, uint32_t later, bool *out) {
    *out = false;
    if (x->nsteps >= MOST_STEPS) return NULL;
    x->nstack = 0;
    x->nsteps += x->seen.capacity / 64;
    key_set_clear(&x->seen);
    TRY(meet_before(x, rank, later));
    while (x->nstack && x->nsteps < MOST_STEPS) {
        uint64_t key = x->stack[--x->nstack];
        if ((*out = key == key_of(rank, earlier))) return NULL;
        TRY(meet_parts(x, (int64_t)((key - 1) >> 32), (uint32_t)(key - 1)));
    }
    return NULL;
}

weft_status across_orders(across *x, uint32_t class, uint32_t earlier, uint32_t later, bool *out) {
    const proof_ranks *r = x->ranks;
    x->nasked++;
    *out = r->nclasses > 1 && earlier < later; /* ranks with one program know nothing that each does not */
    for (int64_t rank = 0; rank < r->nranks && *out; rank++)
        if (r->class_of[rank] == class) TRY(orders_on(x, rank, earlier, later, out));
    return NULL;
}
