/* races.c: of two launches that touch a byte, one of them writing, one is complete before the other starts, or they
 * race.
 *
 * Launches are taken in order, over two steps where they overlap. Of every byte range the last read and the last write
 * of each stream are known (ranges.c); a stream runs in order, so if its last conflicting access is complete when this
 * one starts, all of them are (order.c). Each pair is reported once.
 *
 * Most programs order all that touches a buffer, whatever the bytes. So a first look takes buffers as wholes, and byte
 * ranges are made only of those where that is not enough. */
#include "program/grow.h"
#include "proof/checks/across.h"
#include "proof/checks/checks.h"
#include "proof/schedule/order.h"
#include "proof/schedule/ranges.h"

/* The last accesses of a stream to a buffer, as a whole. */
typedef struct whole_touch {
    uint32_t stream_plus_1; /* 0: none */
    uint32_t read, write;   /* epochs; 0: none */
    uint32_t next;          /* of the same buffer: into more_touches, plus one; 0: none */
} whole_touch;

/* Streams that touch a buffer, in order of first touch. */
typedef struct toucher {
    struct toucher *next;
    uint32_t stream, index;
} toucher;

#define ORDERED (UINT64_C(1) << 31) /* beyond any event */

typedef struct hunter {
    const proof_schedule *s;
    arena *arena;
    order_walk walk;
    whole_touch *touches, *more_touches; /* by buffer; of other streams to the same */
    size_t nmore, more_capacity;
    bool *doubtful;       /* by buffer: accesses to it are unordered, if not to the same bytes */
    toucher **touchers;   /* by buffer, where it is doubtful */
    byte_ranges *ranges;  /* by buffer; nstreams 0: none are needed */
    uint32_t *low, *high; /* by access: its parts */
    key_set reported;     /* pairs of events, and with ORDERED those that do not race */
    across *across;       /* order that comes from other ranks; NULL: there are none */
    uint32_t class;
    int64_t rank;
    int nsteps; /* where all streams are idle between steps, a second one shows nothing that the first does not */
    weft_findings *findings;
} hunter;

/* --- a first look ------------------------------------------------------------------------------------------------- */

static weft_status begin_look(hunter *h) {
    h->doubtful = ARENA_ARRAY(h->arena, bool, h->s->nbuffers + 1);
    h->touches = ARENA_ARRAY(h->arena, whole_touch, h->s->nbuffers + 1);
    return h->doubtful && h->touches ? order_begin_clocks(&h->walk, h->s, h->arena) : base_out_of_memory();
}

static weft_status add_touch(hunter *h, whole_touch *last, uint32_t stream, whole_touch **out) {
    last->next = (uint32_t)h->nmore + 1; /* before it moves */
    TRY(grow(h->arena, &h->more_touches, &h->more_capacity, h->nmore + 1, sizeof *h->more_touches));
    *out = &h->more_touches[h->nmore++];
    **out = (whole_touch){.stream_plus_1 = stream + 1};
    return NULL;
}

/* Whether an access of the launch at hand is behind all that conflicts with it on other streams; takes note of it. */
static weft_status look_at(hunter *h, proof_touch x, uint32_t stream, uint32_t epoch, bool *doubts) {
    const uint32_t *clock = h->walk.clock;
    whole_touch *mine = NULL, *t = &h->touches[x.buffer];
    if (h->s->buffers[x.buffer].touched != PROOF_NONE) return NULL; /* one stream runs in order */
    if (!t->stream_plus_1) t->stream_plus_1 = stream + 1;
    for (;; t = &h->more_touches[t->next - 1]) {
        if (t->stream_plus_1 == stream + 1)
            mine = t;
        else if (t->write > clock[t->stream_plus_1 - 1] || (x.is_write && t->read > clock[t->stream_plus_1 - 1]))
            *doubts = h->doubtful[x.buffer] = true;
        if (!t->next) break;
    }
    if (!mine) TRY(add_touch(h, t, stream, &mine));
    *(x.is_write ? &mine->write : &mine->read) = epoch;
    return NULL;
}

static weft_status look(hunter *h, bool *doubts) {
    const proof_schedule *s = h->s;
    TRY(begin_look(h));
    for (int step = 0; step < h->nsteps; step++) {
        for (size_t i = 0; i < s->nevents; i++) {
            order_start(&h->walk, i);
            uint32_t epoch = order_epoch_at_hand(&h->walk, i);
            for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++)
                TRY(look_at(h, s->touches[k], s->events[i].stream, epoch, doubts));
            order_finish(&h->walk, i);
        }
        order_next_step(&h->walk);
    }
    return NULL;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static uint32_t index_of(const hunter *h, uint32_t touched, uint32_t stream) {
    const toucher *t = h->touchers[touched];
    while (t && t->stream != stream) t = t->next;
    return t ? t->index : PROOF_NONE;
}

static weft_status list_touchers(hunter *h) {
    const proof_schedule *s = h->s;
    for (size_t i = 0; i < s->nevents; i++)
        for (size_t k = 0; k < proof_naccesses(s, i); k++) {
            uint32_t touched = s->accesses[s->events[i].first_access + k].buffer, stream = s->events[i].stream;
            if (!h->doubtful[touched] || index_of(h, touched, stream) != PROOF_NONE) continue;
            toucher *t = ARENA_NEW(h->arena, toucher);
            if (!t) return base_out_of_memory();
            *t = (toucher){h->touchers[touched], stream, h->touchers[touched] ? h->touchers[touched]->index + 1 : 0};
            h->touchers[touched] = t;
        }
    return NULL;
}

/* Where accesses to each buffer begin and end, sorted, once each. */
static weft_status list_points(hunter *h) {
    const proof_schedule *s = h->s;
    for (size_t k = 0; k < s->naccesses; k++) h->ranges[s->accesses[k].buffer].npoints += 2;
    for (size_t i = 0; i < s->nbuffers; i++) {
        byte_ranges *r = &h->ranges[i];
        bool shared = h->touchers[i] && h->touchers[i]->index > 0;
        r->nstreams = shared ? h->touchers[i]->index + 1 : 0;
        if (shared && !(r->points = ARENA_ARRAY(h->arena, int64_t, r->npoints))) return base_out_of_memory();
        r->npoints = 0;
    }
    for (size_t k = 0; k < s->naccesses; k++) {
        byte_ranges *r = &h->ranges[s->accesses[k].buffer];
        if (!r->nstreams) continue;
        r->points[r->npoints++] = s->accesses[k].begin;
        r->points[r->npoints++] = s->accesses[k].end;
    }
    return NULL;
}

static weft_status build_ranges(hunter *h) {
    for (size_t i = 0; i < h->s->nbuffers; i++) {
        byte_ranges *r = &h->ranges[i];
        if (!r->nstreams) continue;
        r->npoints = points_sort(r->points, r->npoints);
        if (!(r->streams = ARENA_ARRAY(h->arena, uint32_t, r->nstreams))) return base_out_of_memory();
        for (const toucher *t = h->touchers[i]; t; t = t->next) r->streams[t->index] = t->stream;
        TRY(ranges_build(r, h->arena));
    }
    for (size_t k = 0; k < h->s->naccesses; k++) {
        const proof_access *x = &h->s->accesses[k];
        size_t low = 0, high = 0;
        if (h->ranges[x->buffer].nstreams) ranges_find(&h->ranges[x->buffer], x->begin, x->end, &low, &high);
        h->low[k] = (uint32_t)low;
        h->high[k] = (uint32_t)high;
    }
    return NULL;
}

static weft_status prepare(hunter *h) {
    const proof_schedule *s = h->s;
    h->touchers = ARENA_ARRAY(h->arena, toucher *, s->nbuffers + 1);
    h->ranges = ARENA_ARRAY(h->arena, byte_ranges, s->nbuffers + 1);
    h->low = ARENA_ARRAY(h->arena, uint32_t, s->naccesses + 1);
    h->high = ARENA_ARRAY(h->arena, uint32_t, s->naccesses + 1);
    if (!h->touchers || !h->ranges || !h->low || !h->high) return base_out_of_memory();
    TRY(list_touchers(h));
    TRY(list_points(h));
    TRY(build_ranges(h));
    return order_begin(&h->walk, s, h->arena);
}

/* --- findings ----------------------------------------------------------------------------------------------------- */

static uint64_t pair_of(size_t x, size_t y) {
    return x < y ? (uint64_t)(x + 1) << 32 | (y + 1) : (uint64_t)(y + 1) << 32 | (x + 1);
}

static weft_status note(hunter *h, uint64_t pair) {
    bool is_new;
    return key_set_add(h->arena, &h->reported, pair, &is_new);
}

/* The access of `event` that conflicts with `with`. */
static const proof_access *partner(const proof_schedule *s, size_t event, const proof_access *with) {
    for (size_t k = 0; k < proof_naccesses(s, event); k++) {
        const proof_access *x = &s->accesses[s->events[event].first_access + k];
        if (x->buffer == with->buffer && x->begin < with->end && with->begin < x->end &&
            (x->is_write || with->is_write))
            return x;
    }
    return with;
}

weft_status race_report(const proof_schedule *s, int64_t rank, size_t earlier, bool of_step_before, size_t later,
                        const proof_access *x, weft_findings *f) {
    weft_finding *found;
    TRY(finding_add(f, WEFT_VERDICT_RACE, &found));
    if (!found) return NULL;
    const proof_access *y = partner(s, earlier, x);
    TRY(finding_op(f, found, s, earlier, rank, y->is_write ? "writes" : "reads"));
    TRY(finding_op(f, found, s, later, rank, x->is_write ? "writes" : "reads"));
    found->begin = x->begin > y->begin ? x->begin : y->begin;
    found->end = x->end < y->end ? x->end : y->end;
    TRY(finding_says(f, &found->value, "%s", s->buffers[x->buffer].name));
    const weft_finding_op *a = &found->ops[0], *b = &found->ops[1];
    char a_text[256], b_text[256];
    finding_op_text(a, a_text, sizeof a_text);
    finding_op_text(b, b_text, sizeof b_text);
    TRY(finding_says(
        f, &found->message,
        "%s on stream %s %s \"%s\"%s, %s on stream %s %s \"%s\": bytes %lld to %lld of \"%s\", and nothing "
        "orders the two (rank %lld)",
        a_text, a->stream, a->role, y->name, of_step_before ? " in one step" : "", b_text, b->stream, b->role, x->name,
        (long long)found->begin, (long long)found->end, found->value, (long long)rank));
    return finding_says(f, &found->remedy, "%s #%lld waits for %s #%lld%s", b->type, (long long)b->index, a->type,
                        (long long)a->index, of_step_before ? " of the step before" : "");
}

/* Whether other ranks order a pair of one step: asked once. */
static weft_status is_ordered_across(hunter *h, size_t earlier, size_t later, bool *out) {
    uint64_t ordered = pair_of(earlier, later) | ORDERED;
    *out = key_set_has(&h->reported, ordered);
    if (*out || !h->across) return NULL;
    TRY(across_orders(h->across, h->class, (uint32_t)earlier, (uint32_t)later, out));
    return *out ? note(h, ordered) : NULL;
}

/* *out_races: false if other ranks order the two. */
static weft_status report(hunter *h, size_t earlier, bool of_step_before, size_t later, const proof_access *x,
                          bool *out_races) {
    uint64_t pair = pair_of(earlier, later);
    bool is_ordered = false;
    *out_races = true;
    if (key_set_has(&h->reported, pair)) return NULL;
    if (!of_step_before) TRY(is_ordered_across(h, earlier, later, &is_ordered));
    *out_races = !is_ordered;
    if (is_ordered) return NULL;
    TRY(note(h, pair));
    return race_report(h->s, h->rank, earlier, of_step_before, later, x, h->findings);
}

/* --- hunting ------------------------------------------------------------------------------------------------------ */

static weft_status check_access(hunter *h, size_t event, size_t k) {
    const proof_access *x = &h->s->accesses[k];
    const byte_ranges *r = &h->ranges[x->buffer];
    for (uint32_t i = 0; i < r->nstreams; i++) {
        uint32_t stream = r->streams[i];
        if (stream == h->s->events[event].stream) continue;
        uint32_t last = ranges_last(r, h->low[k], h->high[k], i, x->is_write);
        if (last <= h->walk.clock[stream]) continue;
        bool earlier_step, races = false;
        uint32_t other = order_event_at(&h->walk, stream, last, &earlier_step);
        if (h->walk.step == 0 || earlier_step) TRY(report(h, other, earlier_step, event, x, &races));
        if (races) return NULL; /* the first of this access is enough */
    }
    return NULL;
}

static weft_status check_event(hunter *h, size_t event) {
    const proof_event *e = &h->s->events[event];
    size_t end = h->s->events[event + 1].first_access;
    order_start(&h->walk, event);
    for (size_t k = e->first_access; k < end; k++)
        if (h->ranges[h->s->accesses[k].buffer].nstreams) TRY(check_access(h, event, k));
    order_finish(&h->walk, event);
    for (size_t k = e->first_access; k < end; k++) {
        const proof_access *x = &h->s->accesses[k];
        byte_ranges *r = &h->ranges[x->buffer];
        if (r->nstreams)
            ranges_note(r, h->low[k], h->high[k], index_of(h, x->buffer, e->stream), x->is_write,
                        order_epoch(&h->walk, event));
    }
    return NULL;
}

static weft_status hunt(hunter *h) {
    bool doubts = false;
    h->nsteps = h->s->joins_steps ? 1 : 2;
    TRY(look(h, &doubts));
    if (!doubts) return NULL;
    TRY(prepare(h));
    for (int step = 0; step < h->nsteps; step++) {
        for (size_t i = 0; i < h->s->nevents; i++) TRY(check_event(h, i));
        order_next_step(&h->walk);
    }
    return NULL;
}

static weft_status hunt_alone(hunter *h) {
    if (h->s->nstreams < 2) return NULL; /* one stream runs in order */
    arena own, *shared = h->across ? h->across->scratch : NULL;
    arena_init(&own, &h->s->context->allocator);
    h->arena = shared ? shared : &own;
    weft_status status = hunt(h);
    if (shared) arena_reset(shared);
    arena_fini(&own);
    return status;
}

weft_status check_races(const proof_schedule *s, int64_t rank, weft_findings *f) {
    return hunt_alone(&(hunter){.s = s, .rank = rank, .findings = f});
}

weft_status check_races_among(across *others, uint32_t class, int64_t rank, weft_findings *f) {
    const proof_schedule *s = others->ranks->classes[class].schedule;
    return hunt_alone(&(hunter){.s = s, .across = others, .class = class, .rank = rank, .findings = f});
}
