/* by_name_events.c: events as Paddle's executor derives them (new_executor: interpreter/stream_analyzer.cc): what is
 * complete before a launch on another stream starts. They stand only where an output of the one is an argument of the
 * other, or a little later; the names decide, not the bytes. */
#include "proof/schedule/by_name.h"

/* An output of `a` is an input of `b` whose bytes it needs; or `b` writes what `a` reads or writes. */
static bool shares_data(const weft_op *a, const weft_op *b) {
    FOR_EACH_ARG(a, true, u) {
        if (name_is(u->var->name, "@EMPTY@")) continue;
        if (by_name_names(b, false, u->var, true) || by_name_names(b, true, u->var, false)) return true;
    }
    FOR_EACH_ARG(b, true, u) {
        if (!name_is(u->var->name, "@EMPTY@") && by_name_names(a, false, u->var, true)) return true;
    }
    return false;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Whether what follows from a to b is told by an event, not by launching b later. */
static bool is_event_run(const by_name *z, uint32_t a, uint32_t b) {
    return z->instrs[a].is_async && z->instrs[a].context != z->instrs[b].context;
}

/* Who waits for `a` on the way through its successor `b`: b if it shares data with a; else, where b leads on to other
 * streams, b only if one of those shares data with a; else the first that does behind b. */
static weft_status find_waiters(by_name *z, uint32_t a, uint32_t b, list *out) {
    if (z->visited[b] == z->stamp) return NULL;
    z->visited[b] = z->stamp;
    const weft_op *of_a = z->instrs[a].op;
    if (shares_data(of_a, z->instrs[b].op) || op_is(z->instrs[b].op, "depend")) return by_name_push(z, out, b);
    bool leads_on = false;
    for (size_t i = 0; i < z->after[b].count; i++) {
        uint32_t next = z->after[b].items[i];
        if (!is_event_run(z, b, next)) continue;
        leads_on = true;
        if (shares_data(of_a, z->instrs[next].op)) return by_name_push(z, out, b);
    }
    for (size_t i = 0; i < z->after[b].count && !leads_on; i++) TRY(find_waiters(z, a, z->after[b].items[i], out));
    return NULL;
}

static weft_status add_wait(by_name *z, uint32_t waiter, uint32_t recorder) {
    if (recorder >= z->n / 2) return NULL; /* of the second copy: the first one's stands for it */
    uint32_t event = z->instrs[waiter % (z->n / 2)].event, of = z->instrs[recorder].event;
    for (size_t i = 0; i < z->waits[event].count; i++)
        if (z->waits[event].items[i] == of) return NULL;
    return by_name_push(z, &z->waits[event], of);
}

/* What depends on an instruction that the host runs is launched when it has run: so is all that comes after that. The
 * first launch on each stream is enough. */
static weft_status add_waits_for_host(by_name *z, uint32_t a) {
    z->stamp++;
    for (uint32_t b = a + 1; b < z->n; b++) {
        uint32_t *seen = &z->visited[z->instrs[b].context]; /* there are no more streams than instructions */
        if (*seen == z->stamp || z->instrs[b].context == z->instrs[a].context || !by_name_before(z, a, b)) continue;
        *seen = z->stamp;
        TRY(add_wait(z, b, a));
    }
    return NULL;
}

static weft_status add_waits_for(by_name *z, uint32_t a) {
    list waiters = {0};
    if (!z->instrs[a].is_async) return add_waits_for_host(z, a);
    z->stamp++;
    for (size_t i = 0; i < z->after[a].count; i++) {
        uint32_t b = z->after[a].items[i];
        if (is_event_run(z, a, b)) TRY(find_waiters(z, a, b, &waiters));
    }
    for (size_t i = 0; i < waiters.count; i++) TRY(add_wait(z, waiters.items[i], a));
    return NULL;
}

/* Waits of the program's own (c_wait_*) stay; events of sidecars are none of Paddle's. */
static weft_status keep_stream_waits(by_name *z) {
    for (uint32_t i = 0; i < z->s->nevents; i++) {
        const proof_event *e = &z->s->events[i];
        bool own =
            e->op && (op_is(e->op, "c_wait_compute") || op_is(e->op, "c_wait_comm") || op_is(e->op, "wait_tensor"));
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

weft_status by_name_wait(by_name *z) {
    TRY(keep_stream_waits(z));
    for (uint32_t a = 0; a < z->n; a++) TRY(add_waits_for(z, a));
    return NULL;
}

weft_status schedule_order_by_name(proof_schedule *s) {
    by_name z;
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    weft_status status = by_name_depend(&z, s, &scratch);
    if (!status) status = by_name_wait(&z);
    if (!status) status = write_waits(&z);
    s->joins_steps = false;
    arena_fini(&scratch);
    return status;
}
