/* bucket_chain.c: the items of each kind with their costs, and when a step ends with given buckets. */
#include "passes/bucket_chain.h"

int64_t bucket_kind_ns(const bucket_kind *kind, size_t nbytes) {
    int64_t ns = 0;
    for (size_t i = 0; i < kind->ncurves; i++) ns += plan_curve_ns(&kind->curves[i], (double)nbytes);
    return ns;
}

static weft_status find_lines(arena *scratch, chain *c) {
    const bucket_kind *kind = c->kind;
    line *next = c->lines = ARENA_ARRAY(scratch, line, kind->ncurves * WEFT_CLUSTER_LINKS + 1);
    if (!next) return base_out_of_memory();
    for (size_t i = 0; i < kind->ncurves; i++) {
        const plan_curve *curve = &kind->curves[i];
        for (size_t k = 0; k < curve->nlinks; k++)
            *next++ = (line){1e9 * (curve->times * curve->links[k].seconds + curve->op_seconds),
                             1e9 * curve->times / curve->parts / curve->links[k].bytes};
    }
    return NULL;
}

/* Of items with a later one that is due no later nothing more is to be known. The others lie in `due`, in order of
 * items and of deadlines; those that are due leave it at its front. */
static weft_status find_first(arena *scratch, chain *c) {
    uint32_t *due = ARENA_ARRAY(scratch, uint32_t, c->count + 1), front = 0, back = 0, first = 0;
    if (!due) return base_out_of_memory();
    for (uint32_t j = 0; j < c->count; j++) {
        while (front < back && c->items[due[front]]->deadline <= c->items[j]->position) first = due[front++] + 1;
        while (front < back && c->items[due[back - 1]]->deadline >= c->items[j]->deadline) back--;
        due[back++] = j;
        c->first[j] = c->kind->ncurves ? first : j;
    }
    return NULL;
}

static weft_status fill_chain(const bucket_problem *p, uint32_t kind, arena *scratch, chain *c) {
    c->kind = &p->kinds[kind];
    for (size_t i = 0; i < p->nitems; i++) c->count += p->items[i].kind == kind;
    c->items = ARENA_ARRAY(scratch, const bucket_item *, c->count + 1);
    c->first = ARENA_ARRAY(scratch, uint32_t, c->count + 1);
    c->nbytes = ARENA_ARRAY(scratch, size_t, c->count + 1);
    if (!c->items || !c->first || !c->nbytes) return base_out_of_memory();
    size_t n = 0;
    for (size_t i = 0; i < p->nitems; i++) {
        if (p->items[i].kind != kind) continue;
        c->nbytes[n + 1] = c->nbytes[n] + p->items[i].padded;
        c->items[n++] = &p->items[i];
    }
    TRY(find_lines(scratch, c));
    return find_first(scratch, c);
}

weft_status bucket_chains_create(const bucket_problem *p, arena *scratch, chain **out) {
    chain *chains = ARENA_ARRAY(scratch, chain, p->nkinds + 1);
    if (!chains) return base_out_of_memory();
    for (uint32_t k = 0; k < p->nkinds; k++) TRY(fill_chain(p, k, scratch, &chains[k]));
    *out = chains;
    return NULL;
}

typedef struct open_bucket {
    size_t nitems, nbytes;
    int64_t tail_ns;
    uint32_t last; /* item */
} open_bucket;

weft_status bucket_plan_step(const bucket_problem *p, const bool *begins, arena *scratch, int64_t *out_step_ns) {
    uint32_t *last_of_kind = ARENA_ARRAY(scratch, uint32_t, p->nkinds + 1);
    bool *ends = ARENA_ARRAY(scratch, bool, p->nitems + 1);
    open_bucket *open = ARENA_ARRAY(scratch, open_bucket, p->nkinds + 1);
    int64_t *end = ARENA_ARRAY(scratch, int64_t, p->nkinds + 1); /* by lane */
    if (!last_of_kind || !ends || !open || !end) return base_out_of_memory();
    for (size_t i = p->nitems; i-- > 0;) {
        uint32_t k = p->items[i].kind;
        ends[i] = !last_of_kind[k];
        last_of_kind[k] = !begins[i];
    }
    int64_t step = p->compute_ns;
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        open_bucket *o = &open[item->kind];
        o->nitems++;
        o->nbytes += item->padded;
        o->tail_ns = later(o->tail_ns, item->tail_ns);
        if (!ends[i]) continue;
        int64_t ns = o->nitems == 1 ? item->alone_ns : bucket_kind_ns(&p->kinds[item->kind], o->nbytes);
        int64_t *free_at = &end[p->kinds[item->kind].lane];
        *free_at = sum(later(*free_at, item->ready_ns), ns);
        step = later(step, sum(*free_at, o->tail_ns));
        *o = (open_bucket){0};
    }
    *out_step_ns = step;
    return NULL;
}
