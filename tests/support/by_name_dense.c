/* by_name_dense.c: see by_name_dense.h. */
#include "tests/support/by_name_dense.h"

#include "program/grow.h"
#include "proof/schedule/bind.h"
#include "proof/schedule/by_name.h"

static bool before(const dense_by_name *z, uint32_t x, uint32_t y) {
    return z->earlier[(size_t)y * z->message_nbytes + x / 64] >> (x % 64) & 1;
}

static weft_status push(dense_by_name *z, dense_list *l, uint32_t item) {
    TRY(grow(z->arena, &l->items, &l->capacity, l->count + 1, sizeof *l->items));
    l->items[l->count++] = item;
    return NULL;
}

static bool names(const weft_op *op, bool output, const weft_var *v, bool with_bytes) {
    for (uint32_t k = 0; k < op_nslots(op, output); k++) {
        const slot *s = op_slot(op, output, k);
        if (with_bytes && !output && by_name_needs_no_bytes(op, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++)
            if (slot_var(op, s, i) == v) return true;
    }
    return false;
}

/* --- dependencies ------------------------------------------------------------------------------------------------- */

/* The last writer of a var and who used it since. */
typedef struct use_record {
    dense_list since; /* the last writer, or readers after it */
    uint32_t writer;
} use_record;

static weft_status add_hazard(dense_by_name *z, uint32_t from, uint32_t to) {
    if (from == to) return NULL;
    for (size_t i = 0; i < z->before[to].count; i++)
        if (z->before[to].items[i] == from) return NULL;
    return push(z, &z->before[to], from);
}

static weft_status add_hazards_of(dense_by_name *z, use_record *of_var, uint32_t at) {
    const weft_op *op = z->instrs[at].op;
    FOR_EACH_ARG(op, false, u) {
        use_record *r = &of_var[u->var_id];
        if (!bind_is_named(use_var(op->program, u))) continue;
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        if (!names(op, true, use_var(op->program, u), false)) TRY(push(z, &r->since, at));
    }
    FOR_EACH_ARG(op, true, u) {
        use_record *r = &of_var[u->var_id];
        if (!bind_is_named(use_var(op->program, u))) continue;
        for (size_t i = 0; i < r->since.count; i++) TRY(add_hazard(z, r->since.items[i], at));
        if (r->writer != PROOF_NONE) TRY(add_hazard(z, r->writer, at));
        r->since.count = 0;
        r->writer = at;
    }
    return NULL;
}

static void note_earlier(dense_by_name *z, uint32_t from, uint32_t to) {
    uint64_t *row = z->earlier + (size_t)to * z->message_nbytes;
    const uint64_t *of_from = z->earlier + (size_t)from * z->message_nbytes;
    for (size_t w = 0; w < z->message_nbytes; w++) row[w] |= of_from[w];
    row[from / 64] |= UINT64_C(1) << (from % 64);
}

/* Keeps of the hazards those that no other implies. */
static weft_status shrink(dense_by_name *z) {
    for (uint32_t b = 0; b < z->n; b++) {
        dense_list *l = &z->before[b];
        for (size_t i = 0; i < l->count; i++) note_earlier(z, l->items[i], b);
        size_t kept = 0;
        for (size_t i = 0; i < l->count; i++) {
            bool implied = false;
            for (size_t k = 0; k < l->count && !implied; k++) implied = k != i && before(z, l->items[i], l->items[k]);
            if (!implied) l->items[kept++] = l->items[i];
        }
        /* The order of the rest is untouched, so what was overwritten was looked at already. */
        l->count = kept;
        for (size_t i = 0; i < kept; i++) TRY(push(z, &z->after[l->items[i]], b));
    }
    return NULL;
}

/* An edge that a rule adds: not where a successor of `from` comes before `to` already. */
static weft_status add_edge(dense_by_name *z, uint32_t from, uint32_t to) {
    for (size_t i = 0; i < z->after[from].count; i++) {
        uint32_t next = z->after[from].items[i];
        if (next == to || before(z, next, to)) return NULL;
    }
    TRY(push(z, &z->after[from], to));
    TRY(push(z, &z->before[to], from));
    if (before(z, from, to)) return NULL;
    note_earlier(z, from, to);
    for (uint32_t x = to + 1; x < z->n; x++)
        if (before(z, to, x)) note_earlier(z, to, x);
    return NULL;
}

static bool reads_any(const weft_op *op, const weft_op *coalesce, bool output) {
    const slot *members = op_find_slot(coalesce, true, "Output");
    for (uint32_t i = 0; i < members->nargs; i++)
        if (names(op, output, slot_var(coalesce, members, i), false)) return true;
    return false;
}

/* The reader of a fused buffer comes after all producers of members, and readers of members after it. */
static weft_status add_coalesce_rule(dense_by_name *z, uint32_t at) {
    const weft_var *fused = weft_op_output(z->instrs[at].op, "FusedOutput", 0);
    const weft_op *coalesce = z->instrs[at].op;
    uint32_t reader = at + 1;
    if (!fused || !op_find_slot(coalesce, true, "Output")) return NULL;
    while (reader < z->n && !names(z->instrs[reader].op, false, fused, false)) reader++;
    if (reader == z->n) return NULL;
    for (uint32_t i = at + 1; i < reader; i++)
        if (reads_any(z->instrs[i].op, coalesce, true)) TRY(add_edge(z, i, reader));
    while (reader + 1 < z->n && by_name_communicates(z->instrs[reader].op) &&
           by_name_communicates(z->instrs[reader + 1].op))
        reader++;
    for (uint32_t i = reader + 1; i < z->n; i++)
        if (reads_any(z->instrs[i].op, coalesce, false)) TRY(add_edge(z, reader, i));
    return NULL;
}

static weft_status add_chains(dense_by_name *z) {
    uint32_t communication = PROOF_NONE, random = PROOF_NONE, sync = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) {
        const weft_op *op = z->instrs[i].op;
        if (sync != PROOF_NONE) TRY(add_edge(z, sync, i));
        if (op_is(op, "c_sync_comm_stream") || op_is(op, "sync_comm_stream")) sync = i;
        if (by_name_communicates(op)) {
            if (communication != PROOF_NONE) TRY(add_edge(z, communication, i));
            communication = i;
        }
    }
    for (uint32_t i = 0; i < z->n; i++) {
        if (!by_name_draws(z->instrs[i].op)) continue;
        if (random != PROOF_NONE) TRY(add_edge(z, random, i));
        random = i;
    }
    return NULL;
}

static weft_status add_dependencies(dense_by_name *z) {
    use_record *of_var = ARENA_ARRAY(z->arena, use_record, z->s->program->nall_vars + 1);
    if (!of_var) return base_out_of_memory();
    for (size_t i = 0; i < z->s->program->nall_vars; i++) of_var[i].writer = PROOF_NONE;
    for (uint32_t i = 0; i < z->n; i++) TRY(add_hazards_of(z, of_var, i));
    TRY(shrink(z));
    for (uint32_t i = 0; i < z->n; i++)
        if (op_is(z->instrs[i].op, "coalesce_tensor")) TRY(add_coalesce_rule(z, i));
    return add_chains(z);
}

/* --- instructions ------------------------------------------------------------------------------------------------- */

/* Ops of block 0, twice. A launch that is a mark of a stream wait is no instruction of its own. */
static weft_status list_instrs(dense_by_name *z) {
    z->instrs = ARENA_ARRAY(z->arena, dense_instr, 2 * z->s->nevents + 2);
    if (!z->instrs) return base_out_of_memory();
    for (uint32_t i = 0; i < z->s->nevents; i++) {
        const proof_event *e = &z->s->events[i];
        if (!e->op || e->op->block != z->s->program->blocks[0]) continue;
        if (z->n && z->instrs[z->n - 1].op == e->op) z->n--; /* the launch itself comes last */
        z->instrs[z->n++] = (dense_instr){e->op, i, e->stream, by_name_is_async(e->op)};
    }
    memcpy(z->instrs + z->n, z->instrs, z->n * sizeof *z->instrs);
    z->n *= 2;
    z->message_nbytes = z->n / 64 + 1;
    z->after = ARENA_ARRAY(z->arena, dense_list, z->n + 1);
    z->before = ARENA_ARRAY(z->arena, dense_list, z->n + 1);
    z->visited = ARENA_ARRAY(z->arena, uint32_t, z->n + 1);
    z->earlier = ARENA_ARRAY(z->arena, uint64_t, z->n * z->message_nbytes + 1);
    z->waits = ARENA_ARRAY(z->arena, dense_list, z->s->nevents + 1);
    return z->after && z->before && z->visited && z->earlier && z->waits ? NULL : base_out_of_memory();
}

/* An output of `a` is an input of `b` whose bytes it needs; or `b` writes what `a` reads or writes. */
static bool shares_data(const weft_op *a, const weft_op *b) {
    FOR_EACH_ARG(a, true, u) {
        if (name_is(use_var(a->program, u)->name, "@EMPTY@")) continue;
        if (names(b, false, use_var(a->program, u), true) || names(b, true, use_var(a->program, u), false)) return true;
    }
    FOR_EACH_ARG(b, true, u) {
        if (!name_is(use_var(b->program, u)->name, "@EMPTY@") && names(a, false, use_var(b->program, u), true))
            return true;
    }
    return false;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Whether what follows from a to b is reported by an event, not by launching b later. */
static bool is_event_run(const dense_by_name *z, uint32_t a, uint32_t b) {
    return z->instrs[a].is_async && z->instrs[a].context != z->instrs[b].context;
}

/* Who waits for `a` on the way through its successor `b`: b if it shares data with a; else, where b leads on to other
 * streams, b only if one of those shares data with a; else the first that does behind b. */
static weft_status find_waiters(dense_by_name *z, uint32_t a, uint32_t b, dense_list *out) {
    if (z->visited[b] == z->stamp) return NULL;
    z->visited[b] = z->stamp;
    const weft_op *of_a = z->instrs[a].op;
    if (shares_data(of_a, z->instrs[b].op) || op_is(z->instrs[b].op, "depend")) return push(z, out, b);
    bool leads_on = false;
    for (size_t i = 0; i < z->after[b].count; i++) {
        uint32_t next = z->after[b].items[i];
        if (!is_event_run(z, b, next)) continue;
        leads_on = true;
        if (shares_data(of_a, z->instrs[next].op)) return push(z, out, b);
    }
    for (size_t i = 0; i < z->after[b].count && !leads_on; i++) TRY(find_waiters(z, a, z->after[b].items[i], out));
    return NULL;
}

static weft_status add_wait(dense_by_name *z, uint32_t waiter, uint32_t recorder) {
    if (recorder >= z->n / 2) return NULL; /* of the second copy: the first one's stands for it */
    uint32_t event = z->instrs[waiter % (z->n / 2)].event, of = z->instrs[recorder].event;
    for (size_t i = 0; i < z->waits[event].count; i++)
        if (z->waits[event].items[i] == of) return NULL;
    return push(z, &z->waits[event], of);
}

/* What depends on an instruction that the host runs is launched when it has run: so is all that comes after that. The
 * first launch on each stream is enough. */
static weft_status add_waits_for_host(dense_by_name *z, uint32_t a) {
    z->stamp++;
    for (uint32_t b = a + 1; b < z->n; b++) {
        uint32_t *seen = &z->visited[z->instrs[b].context]; /* there are no more streams than instructions */
        if (*seen == z->stamp || z->instrs[b].context == z->instrs[a].context || !before(z, a, b)) continue;
        *seen = z->stamp;
        TRY(add_wait(z, b, a));
    }
    return NULL;
}

static weft_status add_waits_for(dense_by_name *z, uint32_t a) {
    dense_list waiters = {0};
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
static weft_status keep_stream_waits(dense_by_name *z) {
    for (uint32_t i = 0; i < z->s->nevents; i++) {
        const proof_event *e = &z->s->events[i];
        bool own =
            e->op && (op_is(e->op, "c_wait_compute") || op_is(e->op, "c_wait_comm") || op_is(e->op, "wait_tensor"));
        for (size_t k = 0; own && k < proof_nwaits(z->s, i); k++)
            TRY(push(z, &z->waits[i], z->s->waits[e->first_wait + k]));
    }
    return NULL;
}

weft_status dense_make(dense_by_name *z, proof_schedule *s, arena *a) {
    *z = (dense_by_name){.s = s, .arena = a};
    TRY(list_instrs(z));
    TRY(add_dependencies(z));
    TRY(keep_stream_waits(z));
    for (uint32_t x = 0; x < z->n; x++) TRY(add_waits_for(z, x));
    return NULL;
}
