/* The two sweeps that reorder a block.
 *
 * Sinking goes from the end: an op that stays, a position k, bounds what it conflicts with; an op that sinks gets the
 * least bound of all later ops that it conflicts with, and hands that on. So an op that sinks never passes one that it
 * conflicts with and stays; and of two that sink, the earlier has no larger bound, and equal bounds keep their order.
 * A view or a copy is sent after what it depends on only if that moves past it. Rising is the same the other way round.
 * With a limit of live bytes a bound is also the first position where what is kept longer finds no room; lifetimes and
 * room are those of the order so far. */
#include "passes/schedule.h"

/* What later (or earlier) ops allow those that touch a place, by place. */
typedef struct bounds {
    uint32_t *any, *writes;
} bounds;

static weft_status bounds_create(const schedule *s, uint32_t start, bounds *out) {
    out->any = ARENA_ARRAY(s->arena, uint32_t, s->nplaces);
    out->writes = ARENA_ARRAY(s->arena, uint32_t, s->nplaces);
    if (!out->any || !out->writes) return base_out_of_memory();
    for (size_t i = 0; i < s->nplaces; i++) out->any[i] = out->writes[i] = start;
    return NULL;
}

static uint32_t less(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}
static uint32_t more(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* The least (largest) bound of what `op` conflicts with. */
static uint32_t least_bound(const schedule *s, const bounds *b, uint32_t op, uint32_t bound) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++)
        bound = less(bound, (s->touches[k].writes ? b->any : b->writes)[s->touches[k].place]);
    return bound;
}
static uint32_t largest_bound(const schedule *s, const bounds *b, uint32_t op, uint32_t bound) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++)
        bound = more(bound, (s->touches[k].writes ? b->any : b->writes)[s->touches[k].place]);
    return bound;
}

static void lower_bounds(const schedule *s, bounds *b, uint32_t op, uint32_t bound) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++) {
        touch t = s->touches[k];
        b->any[t.place] = less(b->any[t.place], bound);
        if (t.writes) b->writes[t.place] = less(b->writes[t.place], bound);
    }
}
static void raise_bounds(const schedule *s, bounds *b, uint32_t op, uint32_t bound) {
    for (uint32_t k = s->first[op]; k < s->first[op + 1]; k++) {
        touch t = s->touches[k];
        b->any[t.place] = more(b->any[t.place], bound);
        if (t.writes) b->writes[t.place] = more(b->writes[t.place], bound);
    }
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* The first and last positions that touch each class in this order; UINT32_MAX where none does. */
static weft_status lifetimes(const schedule *s, uint32_t **out_first, uint32_t **out_last) {
    uint32_t *first = ARENA_ARRAY(s->arena, uint32_t, s->nclasses + 1);
    uint32_t *last = ARENA_ARRAY(s->arena, uint32_t, s->nclasses + 1);
    if (!first || !last) return base_out_of_memory();
    memset(first, 0xff, s->nclasses * sizeof *first);
    memset(last, 0xff, s->nclasses * sizeof *last);
    for (uint32_t i = 0; i < s->nops; i++) {
        for (uint32_t k = s->first[s->order[i]]; k < s->first[s->order[i] + 1]; k++) {
            uint32_t class = s->touches[k].place;
            if (class >= s->nclasses || !s->nbytes[class]) continue;
            if (first[class] == UINT32_MAX) first[class] = i;
            last[class] = i;
        }
    }
    *out_first = first;
    *out_last = last;
    return NULL;
}

weft_status schedule_peak(const schedule *s, int64_t *out_nbytes) {
    uint32_t *first, *last;
    int64_t *change = ARENA_ARRAY(s->arena, int64_t, s->nops + 1), live = 0, peak = 0;
    if (!change) return base_out_of_memory();
    TRY(lifetimes(s, &first, &last));
    for (size_t class = 0; class < s->nclasses; class ++) {
        if (first[class] == UINT32_MAX) continue;
        change[first[class]] += s->nbytes[class];
        change[last[class] + 1] -= s->nbytes[class];
    }
    for (size_t i = 0; i < s->nops; i++)
        if ((live += change[i]) > peak) peak = live;
    *out_nbytes = peak;
    return NULL;
}

/* Room for what is kept longer, where there is a limit. */
typedef struct room {
    const schedule *s;
    uint32_t *first, *last;
    live_bytes live;
} room;

static weft_status room_create(const schedule *s, room *out) {
    *out = (room){.s = s};
    if (s->limit == INT64_MAX) return NULL;
    TRY(lifetimes(s, &out->first, &out->last));
    TRY(live_bytes_create(&out->live, s->arena, s->nops));
    for (size_t class = 0; class < s->nclasses; class ++)
        if (out->first[class] != UINT32_MAX)
            live_bytes_add(&out->live, out->first[class], (size_t)out->last[class] + 1, s->nbytes[class]);
    return NULL;
}

/* Bytes of `op` that `bound` would keep longer: classes whose last use is before it. */
static int64_t bytes_kept(const room *r, uint32_t op, uint32_t bound, uint32_t *from) {
    int64_t nbytes = 0;
    for (uint32_t k = r->s->first[op]; k < r->s->first[op + 1]; k++) {
        uint32_t class = r->s->touches[k].place;
        if (class >= r->s->nclasses || !r->s->nbytes[class] || r->last[class] + 1 >= bound) continue;
        nbytes += r->s->nbytes[class];
        *from = less(*from, r->last[class] + 1);
    }
    return nbytes;
}

/* The bound up to which the op at position `at` may sink; takes the room. */
static uint32_t take_room_below(room *r, uint32_t op, uint32_t at, uint32_t bound) {
    if (r->s->limit == INT64_MAX) return bound;
    uint32_t from = bound;
    int64_t nbytes = bytes_kept(r, op, bound, &from);
    if (nbytes) bound = more(at + 1, (uint32_t)live_bytes_first_above(&r->live, from, bound, r->s->limit - nbytes));
    for (uint32_t k = r->s->first[op]; k < r->s->first[op + 1]; k++) {
        uint32_t class = r->s->touches[k].place;
        if (class >= r->s->nclasses || !r->s->nbytes[class] || r->last[class] + 1 >= bound) continue;
        live_bytes_add(&r->live, r->last[class] + 1, bound, r->s->nbytes[class]);
        r->last[class] = bound - 1;
    }
    return bound;
}

/* The same for a collective that rises from `at`: what it writes first lives from its bound on. */
static uint32_t take_room_above(room *r, uint32_t op, uint32_t at, uint32_t bound) {
    if (r->s->limit == INT64_MAX) return bound;
    int64_t nbytes = 0;
    for (uint32_t k = r->s->first[op]; k < r->s->first[op + 1]; k++) {
        uint32_t class = r->s->touches[k].place;
        if (class < r->s->nclasses && r->s->nbytes[class] && r->first[class] == at) nbytes += r->s->nbytes[class];
    }
    if (nbytes) bound = (uint32_t)live_bytes_last_above(&r->live, bound, at, r->s->limit - nbytes);
    for (uint32_t k = r->s->first[op]; k < r->s->first[op + 1]; k++) {
        uint32_t class = r->s->touches[k].place;
        if (class >= r->s->nclasses || !r->s->nbytes[class] || r->first[class] != at) continue;
        live_bytes_add(&r->live, bound, at, r->s->nbytes[class]);
        r->first[class] = bound;
    }
    return bound;
}

/* --- fused runs --------------------------------------------------------------------------------------------------- */

/* Whether what is put before the op at this position would part a run. */
static bool parts_run(const schedule *s, uint32_t position) {
    if (position == 0 || position >= s->nops) return false;
    uint32_t run = s->runs[s->order[position]];
    return run && s->runs[s->order[position - 1]] == run;
}

static uint32_t before_run(const schedule *s, uint32_t position) {
    while (parts_run(s, position)) position--;
    return position;
}

static uint32_t behind_run(const schedule *s, uint32_t position) {
    while (parts_run(s, position)) position++;
    return position;
}

/* --- the new order ------------------------------------------------------------------------------------------------ */

/* Puts each op that moves right before the op that stays at its bound; of equal bounds they keep their order. */
static weft_status reorder(schedule *s, const uint32_t *bound, const bool *moves) {
    uint32_t *at = ARENA_ARRAY(s->arena, uint32_t, s->nops + 2), *order = ARENA_ARRAY(s->arena, uint32_t, s->nops + 1);
    if (!at || !order) return base_out_of_memory();
    for (size_t i = 0; i < s->nops; i++) at[moves[i] ? bound[i] : i]++;
    for (size_t i = 0, sum = 0; i <= s->nops; i++) {
        size_t count = at[i];
        at[i] = (uint32_t)sum;
        sum += count;
    }
    for (size_t i = 0; i < s->nops; i++)
        if (moves[i]) s->moved[s->order[i]] = true, order[at[bound[i]]++] = s->order[i];
    for (size_t i = 0; i < s->nops; i++)
        if (!moves[i]) order[at[i]++] = s->order[i];
    s->order = order;
    return NULL;
}

static size_t *count_of(schedule *s, motion m) {
    return m == WAIT ? &s->nwaits : m == COPY ? &s->ncopies : m == LAUNCH ? &s->nlaunches : NULL;
}

/* Counts the ops that pass one that stays. */
static weft_status count_moved(schedule *s, const uint32_t *bound, const bool *moves) {
    uint32_t *stay = ARENA_ARRAY(s->arena, uint32_t, s->nops + 1);
    if (!stay) return base_out_of_memory();
    for (size_t i = 0; i < s->nops; i++) stay[i + 1] = stay[i] + !moves[i];
    for (size_t i = 0; i < s->nops; i++) {
        size_t *count = count_of(s, s->motions[s->order[i]]);
        if (count && moves[i] && stay[bound[i]] != stay[i]) ++*count;
    }
    return NULL;
}

typedef struct sweep {
    schedule *s;
    bool *marked; /* by place */
    bool *may;    /* by position: may move */
    bool *moves;  /* by position */
    uint32_t *bound;
    room room;
} sweep;

static weft_status sweep_create(schedule *s, sweep *out) {
    *out = (sweep){.s = s};
    out->marked = ARENA_ARRAY(s->arena, bool, s->nplaces);
    out->may = ARENA_ARRAY(s->arena, bool, s->nops + 1);
    out->moves = ARENA_ARRAY(s->arena, bool, s->nops + 1);
    out->bound = ARENA_ARRAY(s->arena, uint32_t, s->nops + 1);
    if (!out->marked || !out->may || !out->moves || !out->bound) return base_out_of_memory();
    return room_create(s, &out->room);
}

static motion motion_at(const sweep *w, size_t position) {
    return (motion)w->s->motions[w->s->order[position]];
}

/* Whether the op touches a marked name, as what it makes (writes) or as what it is made of. */
static bool touches_marked(const sweep *w, size_t position, bool writes) {
    uint32_t op = w->s->order[position];
    for (uint32_t k = w->s->first[op]; k < w->s->first[op + 1]; k++)
        if (w->s->touches[k].writes == writes && w->marked[w->s->touches[k].place]) return true;
    return false;
}

static void mark_names(sweep *w, size_t position, bool writes) {
    uint32_t op = w->s->order[position];
    for (uint32_t k = w->s->first[op]; k < w->s->first[op + 1]; k++) {
        touch t = w->s->touches[k];
        if (t.writes == writes && t.place >= w->s->nclasses) w->marked[t.place] = true;
    }
}

static weft_status finish(sweep *w) {
    TRY(count_moved(w->s, w->bound, w->moves));
    return reorder(w->s, w->bound, w->moves);
}

/* --- sinking ------------------------------------------------------------------------------------------------------ */

/* Waits, copies, and views of what a wait gives. */
static void choose_sinking(sweep *w) {
    for (size_t i = 0; i < w->s->nops; i++) {
        motion m = motion_at(w, i);
        w->may[i] = m == WAIT || m == COPY || (m == VIEW && touches_marked(w, i, false));
        if (w->may[i]) mark_names(w, i, true);
    }
}

static weft_status bound_from_below(sweep *w) {
    bounds b;
    uint32_t nops = (uint32_t)w->s->nops, barrier = nops;
    TRY(bounds_create(w->s, nops, &b));
    for (uint32_t i = nops; i-- > 0;) {
        uint32_t op = w->s->order[i], bound = i;
        if (w->may[i]) {
            uint32_t wanted = before_run(w->s, least_bound(w->s, &b, op, barrier));
            bound = before_run(w->s, take_room_below(&w->room, op, i, wanted));
            w->s->nheld += bound < wanted && motion_at(w, i) == WAIT;
        }
        w->bound[i] = bound;
        lower_bounds(w->s, &b, op, bound);
        if (motion_at(w, i) == BARRIER) barrier = i;
    }
    return NULL;
}

/* A view or a copy stays unless what it depends on moves past it. A wait that is there already moves too, so that it
 * keeps its order with those that arrive. */
static weft_status choose_moves_down(sweep *w) {
    bounds b;
    TRY(bounds_create(w->s, 0, &b));
    for (uint32_t i = 0; i < w->s->nops; i++) {
        uint32_t op = w->s->order[i];
        w->moves[i] = w->may[i] && (motion_at(w, i) == WAIT || largest_bound(w->s, &b, op, 0) > i);
        if (w->moves[i]) raise_bounds(w->s, &b, op, w->bound[i]);
    }
    return NULL;
}

weft_status schedule_sink(schedule *s) {
    sweep w;
    TRY(sweep_create(s, &w));
    choose_sinking(&w);
    TRY(bound_from_below(&w));
    TRY(choose_moves_down(&w));
    return finish(&w);
}

/* --- rising ------------------------------------------------------------------------------------------------------- */

/* Collectives, and views that they read. */
static void choose_rising(sweep *w) {
    for (size_t i = w->s->nops; i-- > 0;) {
        motion m = motion_at(w, i);
        w->may[i] = m == LAUNCH || (m == VIEW && touches_marked(w, i, true));
        if (w->may[i]) mark_names(w, i, false);
    }
}

static weft_status bound_from_above(sweep *w) {
    bounds b;
    uint32_t barrier = 0;
    TRY(bounds_create(w->s, 0, &b));
    for (uint32_t i = 0; i < w->s->nops; i++) {
        uint32_t op = w->s->order[i], bound = i + 1;
        if (w->may[i]) {
            uint32_t wanted = behind_run(w->s, largest_bound(w->s, &b, op, barrier));
            bound = motion_at(w, i) == LAUNCH ? behind_run(w->s, take_room_above(&w->room, op, i, wanted)) : wanted;
            w->s->nheld += bound > wanted;
        }
        w->bound[i] = bound;
        raise_bounds(w->s, &b, op, bound);
        if (motion_at(w, i) == BARRIER) barrier = i + 1;
    }
    return NULL;
}

static weft_status choose_moves_up(sweep *w) {
    bounds b;
    TRY(bounds_create(w->s, (uint32_t)w->s->nops, &b));
    for (uint32_t i = (uint32_t)w->s->nops; i-- > 0;) {
        uint32_t op = w->s->order[i];
        w->moves[i] = w->may[i] && w->bound[i] <= i &&
                      (motion_at(w, i) == LAUNCH || least_bound(w->s, &b, op, (uint32_t)w->s->nops) <= i);
        if (w->moves[i]) lower_bounds(w->s, &b, op, w->bound[i]);
    }
    return NULL;
}

weft_status schedule_rise(schedule *s) {
    sweep w;
    TRY(sweep_create(s, &w));
    choose_rising(&w);
    TRY(bound_from_above(&w));
    TRY(choose_moves_up(&w));
    return finish(&w);
}
