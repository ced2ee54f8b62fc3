/* The events that order gradient syncs between streams.
 *
 * For every alias class that a sync touches, its accesses are walked in program order. The last read and the last write
 * on each stream are remembered. An access must come after the last conflicting one on every other stream; where either
 * of the two is part of a sync, that is a need. Then the ops are swept in program order: of an op's needs the latest of
 * each stream stays. It stays only if the op's stream has not waited for that or a later one. Streams run in order, so
 * the later covers the earlier. That leaves one wait per stream and event. Nothing is needed at the end of the block:
 * an executor ends a step only when all streams are idle.
 *
 * Our events are named grad_sync/<n>, numbered in the order of the ops that record them. Running this again first takes
 * away all of that name, so it gives the same events again. */
#include <stdio.h>

#include "passes/grad_sync.h"
#include "program/grow.h"

#define EVENT_PREFIX "grad_sync/"

/* --- taking our old events away ----------------------------------------------------------------------------------- */

static bool is_ours(const char *event) {
    return event && strncmp(event, EVENT_PREFIX, strlen(EVENT_PREFIX)) == 0;
}

/* Room in which the events of one op are put together. */
typedef struct event_list {
    arena *arena;
    const char **events;
    size_t capacity;
} event_list;

static bool says_nothing(const op_dist *d) {
    return !d->execution_stream && !d->event_to_record && !op_dist_nwaits(d) &&
           op_dist_rest_is_empty(op_dist_rest_of(d));
}

/* Those of other origin, put into `events`. */
static size_t foreign_waits(const op_dist *d, const char **events) {
    size_t count = 0;
    for (size_t i = 0; i < op_dist_nwaits(d); i++)
        if (!is_ours(d->waits->events[i])) events[count++] = d->waits->events[i];
    return count;
}

static weft_status forget_events(weft_op *op, event_list *list) {
    op_dist *d = op->dist;
    if (!d) return NULL;
    bool had_some = is_ours(d->event_to_record);
    if (had_some) d->event_to_record = NULL;
    TRY(grow(list->arena, &list->events, &list->capacity, op_dist_nwaits(d), sizeof *list->events));
    size_t kept = foreign_waits(d, list->events);
    had_some = had_some || kept < op_dist_nwaits(d);
    if (kept < op_dist_nwaits(d)) TRY(op_dist_set_waits(op->program, d, list->events, kept));
    if (had_some && says_nothing(d)) op->dist = NULL;
    return NULL;
}

/* --- what must wait for what -------------------------------------------------------------------------------------- */

/* The op that the list hangs on needs the op at `source`, which is on another stream. Edges are numbered from 1; 0 ends
 * a list. */
typedef struct edge {
    uint32_t next, source;
} edge;

/* The last accesses of one class on one stream. Positions count from 1 here; 0 is none. */
typedef struct touch {
    struct touch *next;
    uint32_t stream, read, write;
    uint32_t sync_read, sync_write; /* the same, of ops that belong to a sync */
} touch;

typedef struct analysis {
    arena *arena;
    event_list list;
    touch *free_touches;
    const access_index *index;
    bit_set on_stream; /* positions of ops that are not on compute; numbered */
    uint32_t *streams; /* of those ops, by number */
    size_t stream_capacity, nstreams;
    bit_set in_sync; /* positions of ops that belong to a sync */
    uint32_t *needs; /* by position: edges */
    edge *edges;     /* not of the arena: how many there will be is not known */
    size_t nedges, edge_capacity;
    bit_set records; /* positions of ops that record an event */
} analysis;

/* Compute is 0. */
static uint32_t stream_of(const analysis *n, size_t position) {
    return bit_set_has(&n->on_stream, position) ? n->streams[bit_set_index(&n->on_stream, position)] : 0;
}

/* Numbers the streams in order of first use, and takes our old events away on the way. */
static weft_status look_at_ops(analysis *n) {
    interner streams;
    interner_init(&streams, n->arena);
    uint32_t count = 0;
    for (size_t i = 0; i < n->index->nops; i++) {
        char of_ring[RING_STREAM_NBYTES];
        weft_op *op = access_op(n->index, i);
        if (!op->block) continue; /* removed by a pass before */
        TRY(forget_events(op, &n->list));
        const char *stream = op_stream(op, of_ring);
        if (!stream) continue;
        const name *known = interner_get(&streams, stream, strlen(stream));
        if (!known) return base_out_of_memory();
        TRY(grow(n->arena, &n->streams, &n->stream_capacity, count + 1, sizeof *n->streams));
        n->streams[count++] = known->id + 1;
        bit_set_add(&n->on_stream, i);
    }
    n->nstreams = streams.count + 1;
    return bit_set_number(&n->on_stream, n->arena, &count) ? NULL : base_out_of_memory();
}

static weft_status add_need(analysis *n, uint32_t position, uint32_t source) {
    if (n->nedges == UINT32_MAX) return weft_status_create(WEFT_LIMIT, n->index->program->place, "too many waits");
    if (n->nedges + 1 >= n->edge_capacity)
        TRY(vector_reserve(n->arena->allocator, &n->edges, &n->edge_capacity, n->nedges + 2, sizeof *n->edges));
    n->edges[++n->nedges] = (edge){n->needs[position], source};
    n->needs[position] = (uint32_t)n->nedges;
    return NULL;
}

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* Edges to `x` from the last conflicting access on each other stream, where either end belongs to a sync. */
static weft_status needs_of(analysis *n, const touch *touches, const access *x) {
    bool sync = bit_set_has(&n->in_sync, x->position), writes = x->flags & ACCESS_WRITE;
    uint32_t stream = stream_of(n, x->position);
    for (const touch *t = touches; t; t = t->next) {
        if (t->stream == stream) continue;
        uint32_t needed = sync ? t->write : t->sync_write;
        if (writes) needed = later(needed, sync ? t->read : t->sync_read);
        if (needed) TRY(add_need(n, x->position, needed - 1));
    }
    return NULL;
}

static weft_status remember(analysis *n, touch **touches, const access *x) {
    uint32_t stream = stream_of(n, x->position), now = x->position + 1;
    bool sync = bit_set_has(&n->in_sync, x->position);
    touch *t = *touches;
    while (t && t->stream != stream) t = t->next;
    if (!t) {
        if ((t = n->free_touches))
            n->free_touches = t->next;
        else if (!(t = ARENA_NEW(n->arena, touch)))
            return base_out_of_memory();
        *t = (touch){.next = *touches, .stream = stream};
        *touches = t;
    }
    if (x->flags & ACCESS_READ) {
        t->read = now;
        if (sync) t->sync_read = now;
    }
    if (x->flags & ACCESS_WRITE) {
        t->write = now;
        if (sync) t->sync_write = now;
    }
    return NULL;
}

/* Making views (coalesce_tensor) touches no bytes. */
static weft_status analyse_class(analysis *n, const access *accesses, size_t count) {
    touch *touches = NULL;
    for (size_t i = 0; i < count; i++) {
        if (accesses[i].flags & ACCESS_ALIAS) continue;
        TRY(needs_of(n, touches, &accesses[i]));
        TRY(remember(n, &touches, &accesses[i]));
    }
    for (touch *next; touches; touches = next) {
        next = touches->next;
        touches->next = n->free_touches;
        n->free_touches = touches;
    }
    return NULL;
}

static weft_status analyse(analysis *n, const grad_syncs *syncs) {
    for (size_t i = 0; i < syncs->count; i++) {
        const access *ops = grad_sync_ops(syncs, &syncs->items[i]);
        for (size_t k = 0; k < grad_sync_nops(&syncs->items[i]); k++) bit_set_add(&n->in_sync, ops[k].position);
    }
    bit_set seen;
    if (!bit_set_init(&seen, n->arena, n->index->program->nall_vars)) return base_out_of_memory();
    for (size_t i = 0; i < syncs->count; i++) {
        const weft_var *v = syncs->items[i].var;
        uint32_t class = access_class(n->index, v);
        if (bit_set_has(&seen, class)) continue;
        bit_set_add(&seen, class);
        size_t count;
        const access *accesses = accesses_of(n->index, v, &count);
        TRY(analyse_class(n, accesses, count));
    }
    return NULL;
}

/* --- fewest waits ------------------------------------------------------------------------------------------------- */

/* Stream `waiter` has waited for all of `source` up to `position` (from 1). */
typedef struct waited {
    struct waited *next;
    uint32_t source, position;
} waited;

static weft_status waited_get(analysis *n, waited **list, uint32_t source, waited **out) {
    waited *w = *list;
    while (w && w->source != source) w = w->next;
    if (!w) {
        if (!(w = ARENA_NEW(n->arena, waited))) return base_out_of_memory();
        *w = (waited){.next = *list, .source = source};
        *list = w;
    }
    *out = w;
    return NULL;
}

/* Leaves of each op's needs the last of each stream, where it is later than all that the op's stream waited for. */
static weft_status reduce_needs(analysis *n) {
    waited **lists = ARENA_ARRAY(n->arena, waited *, n->nstreams);
    if (!lists) return base_out_of_memory();
    for (size_t i = 0; i < n->index->nops; i++) {
        uint32_t all = n->needs[i];
        if (!all) continue;
        waited *w = NULL, **list = &lists[stream_of(n, i)];
        n->needs[i] = 0;
        for (uint32_t e = all, next; e; e = next) {
            edge *need = &n->edges[e];
            uint32_t stream = stream_of(n, need->source);
            next = need->next;
            TRY(waited_get(n, list, stream, &w));
            if (w->position > need->source) continue;
            w->position = need->source + 1;
            uint32_t *same = &n->needs[i];
            while (*same && stream_of(n, n->edges[*same].source) != stream) same = &n->edges[*same].next;
            if (*same)
                n->edges[*same].source = need->source;
            else
                *same = e, need->next = 0;
        }
    }
    return NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static weft_status name_event(weft_program *p, size_t number, const char **out) {
    char text_of[sizeof EVENT_PREFIX + 20];
    int nbytes = snprintf(text_of, sizeof text_of, EVENT_PREFIX "%zu", number);
    return (*out = arena_string(&p->arena, text_of, (size_t)nbytes)) ? NULL : base_out_of_memory();
}

/* An op that already records an event of other origin keeps it. */
static weft_status name_events(analysis *n, size_t *out_nevents) {
    size_t count = 0;
    for (size_t i = 0; i < n->index->nops; i++) {
        if (!bit_set_has(&n->records, i)) continue;
        weft_op *op = access_op(n->index, i);
        op_dist *d;
        TRY(op_dist_get(op, &d));
        if (!d->event_to_record) TRY(name_event(op->program, count, &d->event_to_record));
        count++;
    }
    *out_nevents = count;
    return NULL;
}

static weft_status write_waits(analysis *n, size_t i) {
    weft_op *op = access_op(n->index, i);
    op_dist *d;
    op_waits *waits;
    TRY(op_dist_get(op, &d));
    size_t room = op_dist_nwaits(d), count = room;
    for (uint32_t e = n->needs[i]; e; e = n->edges[e].next) room++;
    TRY(op_waits_create(op->program, room, &waits));
    for (size_t k = 0; k < count; k++) waits->events[k] = d->waits->events[k];
    for (uint32_t e = n->needs[i]; e; e = n->edges[e].next) {
        const char *event = access_op(n->index, n->edges[e].source)->dist->event_to_record;
        bool already = false;
        for (size_t k = 0; k < count; k++) already = already || strcmp(waits->events[k], event) == 0;
        if (!already) waits->events[count++] = event;
    }
    waits->count = count;
    d->waits = waits;
    return NULL;
}

static weft_status write_events(analysis *n, const grad_syncs *syncs, size_t *out_nevents) {
    size_t nops = syncs->index.nops;
    n->needs = ARENA_ARRAY(n->arena, uint32_t, nops + 1);
    if (!n->needs || !bit_set_init(&n->on_stream, n->arena, nops) || !bit_set_init(&n->in_sync, n->arena, nops) ||
        !bit_set_init(&n->records, n->arena, nops))
        return base_out_of_memory();
    TRY(look_at_ops(n));
    TRY(analyse(n, syncs));
    TRY(reduce_needs(n));
    for (size_t i = 0; i < nops; i++)
        for (uint32_t e = n->needs[i]; e; e = n->edges[e].next) bit_set_add(&n->records, n->edges[e].source);
    TRY(name_events(n, out_nevents));
    for (size_t i = 0; i < nops; i++)
        if (n->needs[i]) TRY(write_waits(n, i));
    return NULL;
}

weft_status grad_sync_write_events(weft_pass_context *pass, weft_program *p, size_t *out_nevents) {
    arena *a = pass_scratch(pass);
    grad_syncs syncs;
    TRY(grad_syncs_find(pass, p, &syncs));
    analysis n = {.arena = a, .list = {.arena = a}, .index = &syncs.index};
    weft_status status = write_events(&n, &syncs, out_nevents);
    base_free(a->allocator, n.edges, n.edge_capacity * sizeof *n.edges);
    return status;
}
