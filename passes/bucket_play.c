/* bucket_play.c: plays the streams of a plan on virtual clocks as simulate/ does, but for one rank and with buckets in
 * place of the reduces. All ranks run the same program in the same time, so nobody waits for another rank. */
#include "passes/bucket_play.h"

#include <stdlib.h>

static weft_status player_init(player *p, bucket_times *t) {
    *p = (player){.t = t, .plan = t->plan};
    p->start = ARENA_ARRAY(t->scratch, int64_t, t->plan->ninstrs + 1);
    p->end = ARENA_ARRAY(t->scratch, int64_t, t->plan->ninstrs + 1);
    p->waited = ARENA_ARRAY(t->scratch, bool, t->plan->ninstrs + 1);
    p->free_at = ARENA_ARRAY(t->scratch, int64_t, t->nlanes + 1);
    p->scale_ns = ARENA_ARRAY(t->scratch, int64_t, t->nlanes + 1);
    if (!p->start || !p->end || !p->waited || !p->free_at || !p->scale_ns) return base_out_of_memory();
    return plan_list_streams(t->plan, t->scratch, &p->streams);
}

static inline int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static size_t index_of(const player *p, const plan_instr *instr) {
    return (size_t)(instr - p->plan->instrs);
}

/* The instruction before `instr` on its stream, and those that it waits for on others; NULL: none. */
static const plan_instr *waited_for(const player *p, const plan_instr *instr, uint32_t w) {
    if (w == instr->nwaits) return instr->position ? p->streams[instr->stream].instrs[instr->position - 1] : NULL;
    const plan_wait *wait = &instr->waits[w];
    return wait->count ? p->streams[wait->stream].instrs[wait->count - 1] : NULL;
}

/* --- without the reduces ------------------------------------------------------------------------------------------ */

/* When what an instruction waits for has ended, but for reduces. */
static int64_t start_without(player *p, const plan_instr *instr, bool *out_waited) {
    int64_t at = 0;
    for (uint32_t w = 0; w <= instr->nwaits; w++) {
        const plan_instr *before = waited_for(p, instr, w);
        if (!before || bucket_lane(p->t, before->stream) >= 0) continue;
        at = later(at, p->end[index_of(p, before)]);
        *out_waited = *out_waited || p->waited[index_of(p, before)];
    }
    return at;
}

/* When what makes the item has run on the compute stream. */
static int64_t made_at(const player *p, uint32_t item) {
    uint32_t count = p->t->made_after[item];
    return count ? p->end[index_of(p, p->streams[0].instrs[count - 1])] : 0;
}

static weft_status find_ready(player *p, bucket_item *items) {
    bucket_times *t = p->t;
    int64_t *ready = ARENA_ARRAY(t->scratch, int64_t, t->problem.nkinds + 1);
    if (!ready) return base_out_of_memory();
    for (size_t i = 0; i < t->problem.nitems; i++) items[i].made_ns = 0;
    for (size_t i = 0; i < p->plan->ninstrs; i++) {
        const plan_instr *instr = &p->plan->instrs[i];
        bool waited = false;
        for (; p->edge < t->nedges && t->edges[p->edge].instr == i; p->edge++) waited = true;
        int64_t at = start_without(p, instr, &waited);
        int32_t lane = bucket_lane(t, instr->stream);
        if (lane >= 0) {
            bucket_item *item = &items[t->item_of[i]];
            at = later(at, made_at(p, t->item_of[i]));
            item->made_ns = later(item->made_ns, at);
            item->ready_ns = ready[item->kind] = later(ready[item->kind], at);
            t->stalls = t->stalls || waited;
            continue;
        }
        p->waited[i] = waited;
        p->end[i] = plan_later(at, t->ns[i]);
        t->problem.compute_ns = later(t->problem.compute_ns, p->end[i]);
    }
    return NULL;
}

/* From the last instruction back: how long the longest way from the beginning of each to the end is. */
static weft_status find_tails(player *p, bucket_item *items) {
    bucket_times *t = p->t;
    int64_t *rest = ARENA_ARRAY(t->scratch, int64_t, p->plan->ninstrs + 1); /* behind the instruction */
    if (!rest) return base_out_of_memory();
    size_t edge = t->nedges;
    for (size_t i = p->plan->ninstrs; i-- > 0;) {
        const plan_instr *instr = &p->plan->instrs[i];
        bool is_reduce = bucket_lane(t, instr->stream) >= 0;
        int64_t way = plan_later(rest[i], t->ns[i]);
        for (uint32_t w = 0; w <= instr->nwaits && !is_reduce; w++) {
            const plan_instr *before = waited_for(p, instr, w);
            if (before && bucket_lane(t, before->stream) < 0)
                rest[index_of(p, before)] = later(rest[index_of(p, before)], way);
        }
        for (; edge && t->edges[edge - 1].instr == i; edge--) {
            bucket_item *item = &items[t->edges[edge - 1].item];
            if (!is_reduce) item->tail_ns = later(item->tail_ns, way);
        }
    }
    return NULL;
}

weft_status bucket_play_alone(bucket_times *t, bucket_item *items) {
    player p;
    TRY(player_init(&p, t));
    TRY(find_ready(&p, items));
    return find_tails(&p, items);
}

/* --- with buckets ------------------------------------------------------------------------------------------------- */

/* Which bucket each item is in. */
static weft_status list_buckets(bucket_times *t, uint32_t **out_bucket_of) {
    const bucket_problem *p = &t->problem;
    uint32_t *of = ARENA_ARRAY(t->scratch, uint32_t, p->nitems + 1),
             *open = ARENA_ARRAY(t->scratch, uint32_t, p->nkinds);
    uint32_t *place = ARENA_ARRAY(t->scratch, uint32_t, p->nitems + 1);
    t->buckets = ARENA_ARRAY(t->scratch, bucket_time, p->nitems + 1);
    if (!of || !open || !place || !t->buckets) return base_out_of_memory();
    /* numbered by their last items: the order of their reduces */
    uint32_t n = 0;
    for (size_t k = 0; k < p->nkinds; k++) open[k] = UINT32_MAX;
    for (size_t i = p->nitems; i-- > 0;) {
        uint32_t k = p->items[i].kind;
        if (open[k] == UINT32_MAX) open[k] = (uint32_t)i;
        of[i] = open[k];
        if (t->answer.begins[i]) open[k] = UINT32_MAX;
    }
    for (size_t i = 0; i < p->nitems; i++)
        if (of[i] == i) place[i] = n++;
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        bucket_time *b = &t->buckets[of[i] = place[of[i]]];
        if (!b->count++) *b = (bucket_time){.first = (uint32_t)i, .count = 1, .beside_first = -1, .beside_last = -1};
        b->nbytes += b->count == 1 ? item->nbytes : item->padded;
        if (b->count == 2) b->nbytes += p->items[b->first].padded - p->items[b->first].nbytes;
        b->last = (uint32_t)i;
        b->ready_ns = later(b->ready_ns, item->ready_ns);
    }
    t->nbuckets = n;
    *out_bucket_of = of;
    return NULL;
}

/* `scale_ns` is of its last item alone. */
static void play_bucket(player *p, bucket_time *b, int64_t at, int64_t scale_ns) {
    const bucket_item *item = &p->t->problem.items[b->last];
    const bucket_kind *kind = &p->t->problem.kinds[item->kind];
    int64_t ns = b->count == 1 ? item->alone_ns : bucket_kind_ns(kind, b->nbytes);
    if (b->count > 1) scale_ns = 0;
    for (size_t i = kind->ncollectives; b->count > 1 && i < kind->ncurves; i++)
        scale_ns += plan_curve_ns(&kind->curves[i], (double)b->nbytes);
    b->collective_ns = ns - scale_ns;
    b->start_ns = later(p->free_at[kind->lane], at);
    b->end_ns = p->free_at[kind->lane] = plan_later(b->start_ns, ns);
    p->t->step_ns = later(p->t->step_ns, b->end_ns);
}

/* The item of the instruction at `position` of a stream of reduces; UINT32_MAX: there is none. */
static uint32_t item_at(const player *p, int32_t stream, int32_t position) {
    const plan_stream *s = &p->streams[stream];
    return position >= 0 && (size_t)position < s->ninstrs ? p->t->item_of[index_of(p, s->instrs[position])]
                                                          : UINT32_MAX;
}

static void play_reduce(player *p, size_t i, const uint32_t *bucket_of, int64_t at, int64_t *ready) {
    const plan_instr *instr = &p->plan->instrs[i];
    uint32_t item = p->t->item_of[i], k = bucket_of[item];
    int64_t *scale_ns = &p->scale_ns[bucket_lane(p->t, instr->stream)];
    if (item_at(p, instr->stream, instr->position - 1) != item) *scale_ns = 0;
    if (instr->ring_id < 0) *scale_ns += p->t->ns[i];
    ready[k] = later(ready[k], at);
    if (item_at(p, instr->stream, instr->position + 1) != item && p->t->buckets[k].last == item)
        play_bucket(p, &p->t->buckets[k], ready[k], *scale_ns);
}

/* Members' producers have run when the last member's turn comes; `ready` is by bucket. */
static void play_all(player *p, const uint32_t *bucket_of, int64_t *ready) {
    bucket_times *t = p->t;
    for (size_t i = 0; i < p->plan->ninstrs; i++) {
        const plan_instr *instr = &p->plan->instrs[i];
        bool waited = false;
        int64_t at = start_without(p, instr, &waited);
        for (; p->edge < t->nedges && t->edges[p->edge].instr == i; p->edge++)
            at = later(at, t->buckets[bucket_of[t->edges[p->edge].item]].end_ns);
        if (bucket_lane(t, instr->stream) >= 0) {
            play_reduce(p, i, bucket_of, later(at, made_at(p, t->item_of[i])), ready);
            continue;
        }
        p->start[i] = at;
        p->end[i] = plan_later(at, t->ns[i]);
        t->step_ns = later(t->step_ns, p->end[i]);
    }
}

/* --- what is exposed ---------------------------------------------------------------------------------------------- */

typedef struct span {
    int64_t start, end;
} span;

static int by_start(const void *a, const void *b) {
    const span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Collectives of all streams, those that overlap as one. */
static weft_status list_collectives(const player *p, span **out, size_t *out_count) {
    const bucket_times *t = p->t;
    span *spans = ARENA_ARRAY(t->scratch, span, t->plan->ninstrs + 1);
    size_t n = 0, kept = 0;
    if (!spans) return base_out_of_memory();
    for (size_t i = 0; i < t->plan->ninstrs; i++) {
        const plan_instr *instr = &t->plan->instrs[i];
        if (instr->ring_id >= 0 && bucket_lane(t, instr->stream) < 0) spans[n++] = (span){p->start[i], p->end[i]};
    }
    for (size_t k = 0; k < t->nbuckets; k++)
        spans[n++] = (span){t->buckets[k].start_ns, t->buckets[k].start_ns + t->buckets[k].collective_ns};
    qsort(spans, n, sizeof *spans, by_start);
    for (size_t i = 0; i < n; i++) {
        if (kept && spans[i].start <= spans[kept - 1].end)
            spans[kept - 1].end = later(spans[kept - 1].end, spans[i].end);
        else
            spans[kept++] = spans[i];
    }
    *out = spans;
    *out_count = kept;
    return NULL;
}

/* How much of a span compute ran in; *from is the first instruction of the stream that may. */
static int64_t covered(const player *p, span s, size_t *from, int32_t *out_first, int32_t *out_last) {
    const plan_stream *compute = &p->streams[0];
    int64_t ns = 0;
    while (*from < compute->ninstrs && p->end[index_of(p, compute->instrs[*from])] <= s.start) ++*from;
    for (size_t i = *from; i < compute->ninstrs; i++) {
        size_t at = index_of(p, compute->instrs[i]);
        int64_t start = p->start[at];
        if (start >= s.end) break;
        if (compute->instrs[i]->ring_id >= 0) continue;
        int64_t end = p->end[at] < s.end ? p->end[at] : s.end;
        start = later(start, s.start);
        if (end <= start) continue;
        ns += end - start;
        if (*out_first < 0) *out_first = (int32_t)at;
        *out_last = (int32_t)at;
    }
    return ns;
}

/* The first instruction of compute that waits within a span; -1: compute runs, or has ended. */
static int32_t stalled_in(const player *p, span s, size_t from) {
    const plan_stream *compute = &p->streams[0];
    for (size_t i = from; i < compute->ninstrs; i++) {
        size_t at = index_of(p, compute->instrs[i]);
        int64_t idle = i ? p->end[index_of(p, compute->instrs[i - 1])] : 0;
        if (idle >= s.end) return -1;
        if (p->start[at] > later(idle, s.start)) return (int32_t)at;
    }
    return -1;
}

static weft_status measure(const player *p) {
    bucket_times *t = p->t;
    span *spans = NULL;
    size_t n = 0, from = 0;
    int32_t first = -1, last = -1;
    TRY(list_collectives(p, &spans, &n));
    for (size_t i = 0; i < n; i++) {
        t->exposed_ns += spans[i].end - spans[i].start;
        t->exposed_ns -= covered(p, spans[i], &from, &first, &last);
    }
    from = 0;
    for (size_t k = 0; k < t->nbuckets; k++) {
        bucket_time *b = &t->buckets[k];
        span s = {b->start_ns, b->start_ns + b->collective_ns};
        b->hidden_ns = covered(p, s, &from, &b->beside_first, &b->beside_last);
        b->stalled = stalled_in(p, s, from);
    }
    return NULL;
}

weft_status bucket_play(bucket_times *t) {
    player p;
    uint32_t *bucket_of = NULL;
    TRY(player_init(&p, t));
    TRY(list_buckets(t, &bucket_of));
    int64_t *ready = ARENA_ARRAY(t->scratch, int64_t, t->nbuckets + 1);
    if (!ready) return base_out_of_memory();
    t->step_ns = t->exposed_ns = 0;
    if (t->contends)
        TRY(bucket_play_contended(&p, bucket_of));
    else
        play_all(&p, bucket_of, ready);
    for (size_t i = 0; i < t->plan->ninstrs; i++)
        t->played[i] = t->plan->instrs[i].stream == 0 ? p.end[i] - p.start[i] : t->ns[i];
    return measure(&p);
}
