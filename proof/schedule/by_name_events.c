/* by_name_events.c: events as Paddle's executor derives them (new_executor: interpreter/stream_analyzer.cc): what is
 * complete before a launch on another stream starts. They stand only where an output of the one is an argument of the
 * other, or a little later; the names decide, not the bytes. */
#include <stdlib.h>

#include "program/grow.h"
#include "proof/schedule/by_name.h"

typedef struct waiter {
    by_name *z;
    uint32_t *made, *used; /* by var: the instruction at hand + 1, if it writes it, or needs its bytes */
    uint32_t of;           /* the instruction at hand */
    list waiters;
    reach reach; /* from what the host runs */
} waiter;

/* --- shared names ------------------------------------------------------------------------------------------------- */

static void take_instr(waiter *w, uint32_t a) {
    w->of = a;
    FOR_EACH_INSTR_ARG(w->z, a, x) {
        if (x->is & ARG_OUT) w->made[x->var] = a + 1;
        if (x->is & ARG_BYTES) w->used[x->var] = a + 1;
    }
}

/* An output of the instruction at hand is an input of `b` whose bytes it needs; or `b` writes what that reads or
 * writes.
 */
static bool shares_data(const waiter *w, uint32_t b) {
    FOR_EACH_INSTR_ARG(w->z, b, x) {
        bool made = w->made[x->var] == w->of + 1, used = w->used[x->var] == w->of + 1;
        if ((x->is & ARG_BYTES && made) || (x->is & ARG_OUT && (made || used))) return true;
    }
    return false;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Whether what follows from a to b is told by an event, not by launching b later. */
static bool is_event_run(const by_name *z, uint32_t a, uint32_t b) {
    return z->instrs[a].is_async && z->instrs[a].context != z->instrs[b].context;
}

static weft_status follow(waiter *w, const list *next) {
    by_name *z = w->z;
    for (size_t i = 0; i < next->count; i++) {
        if (z->visited[next->items[i]] == z->stamp) continue;
        z->visited[next->items[i]] = z->stamp;
        TRY(by_name_push(z, &z->stack, next->items[i]));
    }
    return NULL;
}

/* Who waits on the way through a successor `b`: b if it shares data with the instruction at hand; else, where b leads
 * on to other streams, b only if one of those shares data; else the first that does behind b. */
static weft_status find_waiters(waiter *w, uint32_t b) {
    by_name *z = w->z;
    bool leads_on = false;
    if (shares_data(w, b) || op_is(z->instrs[b].op, "depend")) return by_name_push(z, &w->waiters, b);
    for (size_t i = 0; i < z->after[b].count; i++) {
        uint32_t next = z->after[b].items[i];
        if (!is_event_run(z, b, next)) continue;
        leads_on = true;
        if (shares_data(w, next)) return by_name_push(z, &w->waiters, b);
    }
    return leads_on ? NULL : follow(w, &z->after[b]);
}

/* An event is recorded when the op has run, and with it the block that it runs. */
static weft_status add_wait(by_name *z, uint32_t waiting, uint32_t recorder) {
    if (recorder >= z->n / 2) return NULL; /* of the second copy: the first one's stands for it */
    return by_name_push(z, &z->waits[z->instrs[waiting % (z->n / 2)].event], z->instrs[recorder].covered);
}

/* Successors on other streams one after another: what was visited on the way of one is not visited again. */
static weft_status add_waits_for(waiter *w, uint32_t a) {
    by_name *z = w->z;
    w->waiters.count = z->stack.count = 0;
    z->stamp++;
    take_instr(w, a);
    for (size_t i = 0; i < z->after[a].count; i++) {
        uint32_t b = z->after[a].items[i];
        if (!is_event_run(z, a, b)) continue;
        TRY(follow(w, &(list){&b, 1, 1}));
        while (z->stack.count) TRY(find_waiters(w, z->stack.items[--z->stack.count]));
    }
    for (size_t i = 0; i < w->waiters.count; i++) TRY(add_wait(z, w->waiters.items[i], a));
    return NULL;
}

/* --- what the host runs ------------------------------------------------------------------------------------------- */

/* What depends on an instruction that the host runs is launched when it has run: so is all that comes after that. The
 * first launch on each stream is enough. */
static weft_status add_waits_for_hosts(waiter *w) {
    by_name *z = w->z;
    const reach *r = &w->reach;
    uint64_t *seen = ARENA_ARRAY(z->arena, uint64_t, z->s->nstreams * REACH_WORDS); /* by stream */
    if (!seen) return base_out_of_memory();
    for (uint32_t y = r->first + 1; y < z->n; y++) {
        uint64_t *row = reach_row(r, y), *of_stream = seen + (size_t)z->instrs[y].context * REACH_WORDS;
        for (uint32_t i = 0; i < REACH_WORDS; i++) {
            for (uint64_t fresh = row[i] & ~of_stream[i]; fresh; fresh &= fresh - 1) {
                uint32_t a = r->sources[64 * i + (uint32_t)__builtin_ctzll(fresh)];
                if (z->instrs[a].context != z->instrs[y].context) TRY(add_wait(z, y, a));
            }
            of_stream[i] |= row[i];
        }
    }
    return NULL;
}

static weft_status wait_for_hosts(waiter *w) {
    by_name *z = w->z;
    list hosts = {0};
    for (uint32_t i = 0; i < z->n / 2; i++)
        if (!z->instrs[i].is_async) TRY(by_name_push(z, &hosts, i));
    if (!hosts.count || z->s->nstreams < 2) return NULL;
    TRY(reach_begin(&w->reach, z, z->n));
    for (size_t i = 0; i < hosts.count; i += REACH_SOURCES) {
        reach_take(&w->reach, hosts.items + i, hosts.count - i < REACH_SOURCES ? hosts.count - i : REACH_SOURCES);
        reach_fill(&w->reach);
        TRY(add_waits_for_hosts(w));
    }
    return NULL;
}

/* Waits of the program's own (c_wait_*) stay; events of sidecars are none of Paddle's. */
static weft_status keep_stream_waits(by_name *z) {
    for (uint32_t i = 0; i < z->s->nevents; i++) {
        const proof_event *e = &z->s->events[i];
        bool own = e->op && e->op->block == z->block && collective_is_wait(op_collective_kind(e->op));
        for (size_t k = 0; own && k < proof_nwaits(z->s, i); k++)
            TRY(by_name_push(z, &z->waits[i], z->s->waits[e->first_wait + k]));
    }
    return NULL;
}

static weft_status write_waits(by_name *z) {
    proof_schedule *s = z->s;
    uint32_t *first = ARENA_ARRAY(s->arena, uint32_t, s->nevents + 1);
    if (!first) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++) first[i + 1] = first[i] + (uint32_t)z->waits[i].count;
    uint32_t *all = ARENA_ARRAY(s->arena, uint32_t, first[s->nevents] + 1);
    if (!all) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++)
        if (z->waits[i].count) memcpy(all + first[i], z->waits[i].items, z->waits[i].count * sizeof *all);
    schedule_replace_waits(s, all, first);
    return NULL;
}

static int compare_events(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return (a > b) - (a < b);
}

static void sort_waits(by_name *z) {
    for (size_t i = 0; i < z->s->nevents; i++) {
        list *l = &z->waits[i];
        size_t kept = 0;
        if (l->count > 1) qsort(l->items, l->count, sizeof *l->items, compare_events);
        for (size_t k = 0; k < l->count; k++)
            if (!kept || l->items[kept - 1] != l->items[k]) l->items[kept++] = l->items[k];
        l->count = kept;
    }
}

weft_status by_name_wait(by_name *z) {
    size_t nvars = z->s->program->nall_vars + 1;
    waiter w = {.z = z};
    w.made = ARENA_ARRAY(z->arena, uint32_t, nvars);
    w.used = ARENA_ARRAY(z->arena, uint32_t, nvars);
    if (!w.made || !w.used) return base_out_of_memory();
    TRY(keep_stream_waits(z));
    for (uint32_t a = 0; a < z->n / 2; a++)
        if (z->instrs[a].is_async) TRY(add_waits_for(&w, a));
    TRY(wait_for_hosts(&w));
    sort_waits(z);
    return NULL;
}

/* --- blocks ------------------------------------------------------------------------------------------------------- */

/* The launches of a block, and of those that it runs: they follow one another. */
typedef struct stretch {
    size_t first, end;
    uint32_t stream;
    bool several; /* streams */
} stretch;

/* By block. A block is run by the first op that does. */
static weft_status find_stretches(proof_schedule *s, arena *a, stretch **out) {
    const weft_program *p = s->program;
    stretch *all = *out = ARENA_ARRAY(a, stretch, p->nblocks + 1);
    if (!all) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i];
        if (!e->op) continue;
        int32_t at = e->op->block->idx;
        for (int depth = 0; at > 0 && (size_t)at < p->nblocks && depth < 64; depth++) {
            stretch *b = &all[at];
            if (!b->end) b->first = i, b->stream = e->stream;
            b->several |= e->stream != b->stream;
            b->end = i + 1;
            at = p->blocks[at]->parent_idx;
        }
    }
    return NULL;
}

/* A block below block 0 has an executor of its own, which knows its ops alone: what waits for what outside of it is
 * not its affair. On one stream nothing is. */
static weft_status order_blocks(proof_schedule *s, arena *a, by_name **out, size_t *out_n) {
    const weft_program *p = s->program;
    stretch *stretches;
    by_name *z = *out = ARENA_ARRAY(a, by_name, p->nblocks + 1);
    size_t n = 1;
    if (!z) return base_out_of_memory();
    TRY(by_name_depend(&z[0], s, a));
    TRY(by_name_wait(&z[0]));
    TRY(find_stretches(s, a, &stretches));
    for (size_t i = 1; i < p->nblocks; i++) {
        if (!stretches[i].several) continue;
        TRY(by_name_depend_in(&z[n], s, a, p->blocks[i], stretches[i].first, stretches[i].end));
        TRY(by_name_wait(&z[n]));
        for (size_t k = stretches[i].first; k < stretches[i].end; k++)
            if (z[n].waits[k].count) z[0].waits[k] = z[n].waits[k];
        n++;
    }
    *out_n = n;
    return NULL;
}

weft_status schedule_order_by_name(proof_schedule *s) {
    by_name *z;
    size_t n = 0;
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    weft_status status = order_blocks(s, &scratch, &z, &n);
    if (!status) status = write_waits(&z[0]);
    if (!status) status = by_name_free(z, n);
    s->joins_steps = false;
    arena_fini(&scratch);
    return status;
}
