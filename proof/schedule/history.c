/* history.c: what has become of a value before a collective moves it. One member of a ring may give it a value as it
 * was computed, and another one already summed over another ring. They add up what does not belong together, though
 * names, sizes and the order on every single ring agree.
 *
 * Bytes that a collective wrote carry a history: its kind and reduction behind that of what it read. An op that writes
 * to the buffer without reading it starts anew. Only the very bytes that a collective moved are followed, and what is
 * cut from them or filled up: where parts differ, some ranks do that and others need not. */
#include "proof/schedule/schedule.h"

typedef struct past {
    uint32_t buffer;
    int64_t begin, end;
    uint64_t history;
    size_t event; /* that made it */
} past;

typedef struct histories {
    proof_schedule *s;
    past *pasts;
    uint32_t npasts;
    hash_table table; /* of them, by buffer and bytes */
    size_t *fresh_at; /* by buffer: the last event that wrote to it anew, plus one */
} histories;

/* A plan has two buffers for all that there is: there the value tells what belongs together. */
static uint32_t buffer_of(const proof_schedule *s, const proof_access *x) {
    return s->launches_freely ? x->owner : x->buffer;
}

static uint64_t blend(uint64_t x, uint64_t y) {
    x = (x ^ y) * UINT64_C(0x9e3779b97f4a7c15);
    return x ^ (x >> 29);
}

static table_probe find(const histories *h, const proof_access *x) {
    uint32_t id = buffer_of(h->s, x);
    table_probe at = table_find(&h->table, table_hash(blend(blend(id + 1, (uint64_t)x->begin), (uint64_t)x->end)));
    for (; at.item != TABLE_NONE; table_next(&h->table, &at)) {
        const past *p = &h->pasts[at.item];
        if (p->buffer == id && p->begin == x->begin && p->end == x->end) break;
    }
    return at;
}

static uint64_t history_of(const histories *h, const proof_access *x) {
    table_probe at = find(h, x);
    if (at.item == TABLE_NONE) return 0;
    const past *p = &h->pasts[at.item];
    return p->event >= h->fresh_at[buffer_of(h->s, x)] ? p->history : 0;
}

static void keep(histories *h, const proof_access *x, uint64_t history, size_t event) {
    table_probe at = find(h, x);
    if (at.item == TABLE_NONE) table_put(&h->table, &at, h->npasts++);
    h->pasts[at.item] = (past){buffer_of(h->s, x), x->begin, x->end, history, event};
}

/* On a ring of one rank nothing is moved. */
static bool is_alone(const proof_schedule *s, const proof_collective *c) {
    const ring *r = s->program ? program_find_ring(s->program, c->ring) : NULL;
    return r && r->nranks == 1;
}

static void read_collective(histories *h, size_t event, proof_collective *c) {
    const proof_schedule *s = h->s;
    size_t begin = s->events[event].first_access, end = s->events[event + 1].first_access;
    for (size_t k = begin; k < end; k++)
        if (!s->accesses[k].is_write) c->history = blend(c->history, history_of(h, &s->accesses[k]));
    if (is_alone(s, c)) return;
    uint64_t after = blend(blend(c->history + 1, base_hash(c->word, strlen(c->word))), (uint64_t)c->reduce + 2) | 1;
    for (size_t k = begin; k < end; k++) {
        const proof_access *x = &s->accesses[k];
        if (x->is_write) keep(h, x, after, event + 1);
    }
}

static bool fits_parts(const proof_event *e) {
    return e->op && (op_is(e->op, "slice") || op_is(e->op, "pad"));
}

static void read_fitted(histories *h, size_t event) {
    const proof_schedule *s = h->s;
    size_t begin = s->events[event].first_access, end = s->events[event + 1].first_access;
    uint64_t history = 0;
    for (size_t k = begin; k < end && !history; k++)
        if (!s->accesses[k].is_write) history = history_of(h, &s->accesses[k]);
    for (size_t k = begin; k < end; k++) {
        if (!s->accesses[k].is_write) continue;
        h->fresh_at[buffer_of(s, &s->accesses[k])] = event + 1;
        if (history) keep(h, &s->accesses[k], history, event + 1);
    }
}

static void read_other(histories *h, size_t event) {
    const proof_schedule *s = h->s;
    size_t begin = s->events[event].first_access, end = s->events[event + 1].first_access;
    if (fits_parts(&s->events[event])) {
        read_fitted(h, event);
        return;
    }
    for (size_t k = begin; k < end; k++) {
        const proof_access *x = &s->accesses[k];
        bool is_read = !x->is_write;
        for (size_t i = begin; i < end && !is_read; i++)
            is_read = !s->accesses[i].is_write && buffer_of(s, &s->accesses[i]) == buffer_of(s, x);
        if (!is_read) h->fresh_at[buffer_of(s, x)] = event + 1;
    }
}

static weft_status begin_histories(histories *h, proof_schedule *s, arena *a) {
    size_t nwritten = 0, nbuffers = 0;
    for (size_t i = 0; i < s->ncollectives; i++) {
        const proof_event *e = &s->events[s->collectives[i].event];
        nwritten += e[1].first_access - e->first_access;
    }
    for (size_t i = 0; i < s->nevents; i++)
        if (fits_parts(&s->events[i])) nwritten += s->events[i + 1].first_access - s->events[i].first_access;
    for (size_t k = 0; k < s->naccesses; k++)
        if (buffer_of(s, &s->accesses[k]) >= nbuffers) nbuffers = (size_t)buffer_of(s, &s->accesses[k]) + 1;
    *h = (histories){.s = s};
    TRY(table_reserve(a, &h->table, nwritten));
    h->pasts = ARENA_ARRAY(a, past, nwritten + 1);
    h->fresh_at = ARENA_ARRAY(a, size_t, nbuffers + 1);
    return h->pasts && h->fresh_at ? NULL : base_out_of_memory();
}

weft_status schedule_histories(proof_schedule *s) {
    histories h;
    arena scratch;
    if (s->ncollectives < 2) return NULL;
    arena_init(&scratch, &s->context->allocator);
    weft_status status = begin_histories(&h, s, &scratch);
    for (size_t i = 0; i < s->nevents && !status; i++) {
        if (s->events[i].collective != PROOF_NONE)
            read_collective(&h, i, &s->collectives[s->events[i].collective]);
        else
            read_other(&h, i);
    }
    arena_fini(&scratch);
    return status;
}
