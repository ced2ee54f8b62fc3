/* by_name_reach.c: which instructions come before which, a strip of columns at a time. An edge leads to a higher
 * number, so one pass fills the rows. n * REACH_SOURCES bits of memory; n edges / REACH_SOURCES passes for all columns.
 */
#include "proof/schedule/by_name.h"

weft_status reach_begin(reach *r, const by_name *z, size_t nrows) {
    size_t nwords;
    if (!base_mul(nrows + 1, REACH_WORDS, &nwords)) return base_out_of_memory();
    *r = (reach){.z = z, .nrows = nrows};
    r->rows = ARENA_ARRAY(z->arena, uint64_t, nwords);
    r->column_of = ARENA_ARRAY(z->arena, uint16_t, z->n + 1);
    if (!r->rows || !r->column_of) return base_out_of_memory();
    for (size_t i = 0; i < z->n; i++) r->column_of[i] = NO_COLUMN;
    return NULL;
}

void reach_drop(reach *r) {
    for (size_t i = 0; i < r->nsources; i++) r->column_of[r->sources[i]] = NO_COLUMN;
    r->nsources = 0;
}

void reach_take(reach *r, const uint32_t *sources, size_t nsources) {
    reach_drop(r);
    r->sources = sources;
    r->nsources = nsources;
    r->first = sources[0];
    for (size_t i = 0; i < nsources; i++) r->column_of[sources[i]] = (uint16_t)i;
}

void reach_join(const reach *r, uint32_t y, uint64_t *row) {
    const list *l = &r->z->before[y];
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i] <= r->first) continue;
        const uint64_t *of = reach_row(r, l->items[i]);
        for (size_t w = 0; w < REACH_WORDS; w++) row[w] |= of[w];
    }
}

static void join_own(const reach *r, uint32_t y, uint64_t *row) {
    const list *l = &r->z->before[y];
    for (size_t i = 0; i < l->count; i++)
        if (r->column_of[l->items[i]] != NO_COLUMN) reach_set(row, r->column_of[l->items[i]]);
}

void reach_fill(reach *r) {
    for (uint32_t y = r->first + 1; y < r->nrows; y++) {
        uint64_t row[REACH_WORDS] = {0};
        reach_join(r, y, row);
        join_own(r, y, row);
        memcpy(reach_row(r, y), row, sizeof row);
    }
}

/* --- shrinking ---------------------------------------------------------------------------------------------------- */

typedef struct shrinker {
    reach reach;
    size_t *first_edge; /* by instruction: of the edges into it */
    bool *implied;      /* by edge */
    uint32_t *last;     /* by instruction: the last that a path through a third may lead to as an edge does; 0: none */
} shrinker;

/* An edge from the highest predecessor is implied by no other. */
static void find_sources(shrinker *k, const by_name *z) {
    for (uint32_t b = 0; b < z->n; b++) {
        const list *l = &z->before[b];
        uint32_t highest = 0;
        for (size_t i = 0; i < l->count; i++)
            if (l->items[i] > highest) highest = l->items[i];
        for (size_t i = 0; i < l->count; i++)
            if (l->items[i] != highest) k->last[l->items[i]] = b;
        k->first_edge[b + 1] = k->first_edge[b] + l->count;
    }
}

static void mark_implied(shrinker *k, const by_name *z) {
    const reach *r = &k->reach;
    uint32_t end = 0;
    for (size_t i = 0; i < r->nsources; i++)
        if (k->last[r->sources[i]] > end) end = k->last[r->sources[i]];
    for (uint32_t y = r->first + 1; y <= end; y++) {
        const list *l = &z->before[y];
        uint64_t row[REACH_WORDS] = {0};
        reach_join(r, y, row);
        for (size_t i = 0; i < l->count; i++) {
            uint16_t column = r->column_of[l->items[i]];
            if (column != NO_COLUMN && reach_has(row, column)) k->implied[k->first_edge[y] + i] = true;
        }
        join_own(r, y, row);
        memcpy(reach_row(r, y), row, sizeof row);
    }
}

weft_status by_name_shrink(by_name *z) {
    shrinker k;
    TRY(reach_begin(&k.reach, z, z->n));
    k.first_edge = ARENA_ARRAY(z->arena, size_t, z->n + 1);
    k.last = ARENA_ARRAY(z->arena, uint32_t, z->n + 1);
    uint32_t *sources = ARENA_ARRAY(z->arena, uint32_t, z->n + 1);
    if (!k.first_edge || !k.last || !sources) return base_out_of_memory();
    find_sources(&k, z);
    if (!(k.implied = ARENA_ARRAY(z->arena, bool, k.first_edge[z->n] + 1))) return base_out_of_memory();
    size_t nsources = 0;
    for (uint32_t i = 0; i < z->n; i++)
        if (k.last[i]) sources[nsources++] = i;
    for (size_t i = 0; i < nsources; i += REACH_SOURCES) {
        reach_take(&k.reach, sources + i, nsources - i < REACH_SOURCES ? nsources - i : REACH_SOURCES);
        mark_implied(&k, z);
    }
    for (uint32_t b = 0; b < z->n; b++) {
        list *l = &z->before[b];
        size_t kept = 0;
        for (size_t i = 0; i < l->count; i++)
            if (!k.implied[k.first_edge[b] + i]) l->items[kept++] = l->items[i];
        l->count = kept;
        for (size_t i = 0; i < kept; i++) TRY(by_name_push(z, &z->after[l->items[i]], b));
    }
    return NULL;
}
