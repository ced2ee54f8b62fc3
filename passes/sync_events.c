/* Streams that passes give ops, and the events that order gradient syncs between streams.
 *
 * For every alias class that a sync touches, its accesses are walked in program order, remembering the last read and
 * the last write on each stream. An access must come after the last conflicting one on every other stream; where either
 * of the two is part of a sync, that is a need. Then the ops are swept in program order: of an op's needs the latest of
 * each stream stays, and only if the op's stream has not waited for that or a later one (streams run in order, so the
 * later covers the earlier). That leaves one wait per stream and event. Nothing is needed at the end of the block: an
 * executor ends a step only when all streams are idle.
 *
 * Our events are named grad_sync/<n>, numbered in the order of the ops that record them. Running this again first takes
 * away all of that name, so it gives the same events again. */
#include "passes/grad_sync.h"
#include "program/grow.h"

#define EVENT_PREFIX "grad_sync/"

weft_status op_set_stream(weft_op *op, const char *stream) {
    op_dist *d;
    const name *n;
    TRY(op_dist_get(op, &d));
    TRY(program_name(op->program, stream, strlen(stream), &n));
    d->execution_stream = n->bytes;
    return NULL;
}

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

static weft_status set_waits(weft_op *op, const char *const *events, size_t count) {
    const char **copy = count ? arena_copy(&op->program->arena, events, count * sizeof *events) : NULL;
    if (count && !copy) return base_out_of_memory();
    op->dist->events_to_wait = copy;
    op->dist->nevents_to_wait = count;
    return NULL;
}

static bool says_nothing(const op_dist *d) {
    const op_dist_rest *rest = op_dist_rest_of(d);
    return !d->mesh && !d->execution_stream && !d->event_to_record && !d->nevents_to_wait && !rest->impl_type &&
           !rest->impl_idx && !rest->is_recompute && !rest->has_recompute && !rest->ninputs && !rest->noutputs &&
           !rest->extra_json;
}

/* Those of other origin, put into `events`. */
static size_t foreign_waits(const op_dist *d, const char **events) {
    size_t count = 0;
    for (size_t i = 0; i < d->nevents_to_wait; i++)
        if (!is_ours(d->events_to_wait[i])) events[count++] = d->events_to_wait[i];
    return count;
}

static weft_status forget_events(weft_op *op, event_list *list) {
    op_dist *d = op->dist;
    if (!d) return NULL;
    bool had_some = is_ours(d->event_to_record);
    if (had_some) d->event_to_record = NULL;
    TRY(grow(list->arena, &list->events, &list->capacity, d->nevents_to_wait, sizeof *list->events));
    size_t kept = foreign_waits(d, list->events);
    had_some = had_some || kept < d->nevents_to_wait;
    if (kept < d->nevents_to_wait) TRY(set_waits(op, list->events, kept));
    if (had_some && says_nothing(d)) op->dist = NULL;
    return NULL;
}

/* --- what must wait for what -------------------------------------------------------------------------------------- */

/* The op that the list hangs on needs the op at `source`, which is on another stream. */
typedef struct edge {
    struct edge *next;
    uint32_t source;
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
    uint32_t *stream_of; /* by position; 0 is compute */
    size_t nstreams;
    bool *in_sync; /* by position: belongs to a sync */
    edge **needs;  /* by position */
    bool *records; /* by position */
} analysis;

/* Numbers the streams in order of first use. */
static weft_status number_streams(analysis *n) {
    interner streams;
    interner_init(&streams, n->arena);
    for (size_t i = 0; i < n->index->nops; i++) {
        char of_ring[RING_STREAM_NBYTES];
        const char *stream = n->index->ops[i]->block ? op_stream(n->index->ops[i], of_ring) : NULL;
        if (!stream) continue;
        const name *known = interner_get(&streams, stream, strlen(stream));
        if (!known) return base_out_of_memory();
        n->stream_of[i] = known->id + 1;
    }
    n->nstreams = streams.count + 1;
    return NULL;
}

static weft_status add_need(analysis *n, uint32_t position, uint32_t source) {
    edge *e = ARENA_NEW(n->arena, edge);
    if (!e) return base_out_of_memory();
    *e = (edge){n->needs[position], source};
    n->needs[position] = e;
    return NULL;
}

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* Edges to `x` from the last conflicting access on each other stream, where either end belongs to a sync. */
static weft_status needs_of(analysis *n, const touch *touches, const access *x) {
    bool sync = n->in_sync[x->position], writes = x->flags & ACCESS_WRITE;
    for (const touch *t = touches; t; t = t->next) {
        if (t->stream == n->stream_of[x->position]) continue;
        uint32_t needed = sync ? t->write : t->sync_write;
        if (writes) needed = later(needed, sync ? t->read : t->sync_read);
        if (needed) TRY(add_need(n, x->position, needed - 1));
    }
    return NULL;
}

static weft_status remember(analysis *n, touch **touches, const access *x) {
    uint32_t stream = n->stream_of[x->position], now = x->position + 1;
    bool sync = n->in_sync[x->position];
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
        const grad_sync *s = &syncs->items[i];
        for (size_t k = 0; k < s->nreduces; k++) n->in_sync[s->reduces[k].op->mark] = true;
        for (size_t k = 0; k < s->nscales; k++) n->in_sync[s->scales[k]->mark] = true;
    }
    bool *seen = ARENA_ARRAY(n->arena, bool, n->index->program->nall_vars + 1);
    if (!seen) return base_out_of_memory();
    for (size_t i = 0; i < syncs->count; i++) {
        const grad_sync *s = &syncs->items[i];
        uint32_t class = access_class(n->index, s->var);
        if (seen[class]) continue;
        seen[class] = true;
        TRY(analyse_class(n, s->accesses, s->naccesses));
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
        waited *w = NULL, **list = &lists[n->stream_of[i]];
        edge *all = n->needs[i];
        n->needs[i] = NULL;
        for (edge *e = all, *next; e; e = next) {
            next = e->next;
            TRY(waited_get(n, list, n->stream_of[e->source], &w));
            if (w->position > e->source) continue;
            w->position = e->source + 1;
            edge **same = &n->needs[i];
            while (*same && n->stream_of[(*same)->source] != n->stream_of[e->source]) same = &(*same)->next;
            if (*same)
                (*same)->source = e->source;
            else
                *same = e, e->next = NULL;
        }
    }
    return NULL;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* An op that already records an event of other origin keeps it. */
static weft_status name_events(analysis *n, size_t *out_nevents) {
    for (size_t i = 0; i < n->index->nops; i++)
        for (const edge *e = n->needs[i]; e; e = e->next) n->records[e->source] = true;
    size_t count = 0;
    for (size_t i = 0; i < n->index->nops; i++) {
        weft_op *op = n->index->ops[i];
        if (!n->records[i]) continue;
        op_dist *d;
        TRY(op_dist_get(op, &d));
        if (!d->event_to_record && !(d->event_to_record = arena_format(&op->program->arena, EVENT_PREFIX "%zu", count)))
            return base_out_of_memory();
        count++;
    }
    *out_nevents = count;
    return NULL;
}

static weft_status write_waits(analysis *n, size_t i) {
    weft_op *op = n->index->ops[i];
    op_dist *d;
    TRY(op_dist_get(op, &d));
    size_t count = d->nevents_to_wait;
    for (const edge *e = n->needs[i]; e; e = e->next) count++;
    TRY(grow(n->list.arena, &n->list.events, &n->list.capacity, count, sizeof *n->list.events));
    const char **events = n->list.events;
    for (size_t k = 0; k < d->nevents_to_wait; k++) events[k] = d->events_to_wait[k];
    count = d->nevents_to_wait;
    for (const edge *e = n->needs[i]; e; e = e->next) {
        const char *event = n->index->ops[e->source]->dist->event_to_record;
        bool already = false;
        for (size_t k = 0; k < count; k++) already = already || strcmp(events[k], event) == 0;
        if (!already) events[count++] = event;
    }
    return set_waits(op, events, count);
}

weft_status grad_sync_write_events(weft_pass_context *pass, weft_program *p, size_t *out_nevents) {
    arena *a = pass_scratch(pass);
    grad_syncs syncs;
    TRY(grad_syncs_find(pass, p, &syncs));
    size_t nops = syncs.index.nops;
    analysis n = {.arena = a, .list = {.arena = a}, .index = &syncs.index};
    n.stream_of = ARENA_ARRAY(a, uint32_t, nops + 1);
    n.in_sync = ARENA_ARRAY(a, bool, nops + 1);
    n.records = ARENA_ARRAY(a, bool, nops + 1);
    n.needs = ARENA_ARRAY(a, edge *, nops + 1);
    if (!n.stream_of || !n.in_sync || !n.records || !n.needs) return base_out_of_memory();
    TRY(number_streams(&n));
    TRY(analyse(&n, &syncs));
    TRY(reduce_needs(&n));
    FOR_EACH_OP(op, p->blocks[0]) TRY(forget_events(op, &n.list));
    TRY(name_events(&n, out_nevents));
    for (size_t i = 0; i < nops; i++)
        if (n.needs[i]) TRY(write_waits(&n, i));
    return NULL;
}
