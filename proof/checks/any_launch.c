/* any_launch.c: races under Paddle's executor whatever order its worker pools launch in.
 *
 * Dependencies order launches, and a stream runs in the order of launches. So of two ops on one stream only those are
 * ordered that depend on one another. Events order as before: who waits depends on who records. An op that the host
 * runs is complete before all that depends on it. Steps are launched one after another. What follows from these, closed
 * under transitivity, is all that every order of launches keeps; a search over pairs finds what it leaves open. */
#include "proof/checks/checks.h"
#include "proof/schedule/by_name.h"

enum { MAX_INSTRS = 40000 }; /* a matrix takes a bit for each pair */

typedef struct closure {
    by_name z;
    size_t nwords;
    uint64_t *launched; /* n rows of bits: which instructions are launched before it */
    uint64_t *done;     /* n rows of bits: which instructions are complete before it starts */
    uint32_t *instr_of; /* by event: of the first step, or PROOF_NONE */
    uint32_t *records;  /* by event that others wait for: the same; of an op that runs a block it is in the block */
    list *touching;     /* by buffer: accesses */
    uint32_t *owner;    /* by access: its event */
} closure;

static bool has(const closure *c, const uint64_t *rows, uint32_t x, uint32_t y) {
    return rows[(size_t)y * c->nwords + x / 64] >> (x % 64) & 1;
}

/* x, and what comes before it, comes before y. */
static void add(const closure *c, uint64_t *rows, uint32_t x, uint32_t y) {
    uint64_t *row = rows + (size_t)y * c->nwords, *of_x = rows + (size_t)x * c->nwords;
    for (size_t w = 0; w < c->nwords; w++) row[w] |= of_x[w];
    row[x / 64] |= UINT64_C(1) << (x % 64);
}

static bool is_done(const closure *c, uint32_t x, uint32_t y) {
    return has(c, c->done, x, y);
}

static void add_done(closure *c, uint32_t x, uint32_t y) {
    add(c, c->done, x, y);
}

/* Instructions come in an order that dependencies keep, so what is complete before x is known when y asks. */
static void close_over(closure *c) {
    const by_name *z = &c->z;
    uint32_t half = (uint32_t)z->n / 2;
    for (uint32_t y = 0; y < z->n; y++) {
        for (size_t i = 0; i < z->before[y].count; i++) add(c, c->launched, z->before[y].items[i], y);
        for (uint32_t x = y; x-- > 0;) {
            if (is_done(c, x, y)) continue;
            bool depends = has(c, c->launched, x, y) || (x < half && y >= half);
            if (depends && (z->instrs[x].context == z->instrs[y].context || !z->instrs[x].is_async)) add_done(c, x, y);
        }
        const list *waits = &z->waits[z->instrs[y].event];
        for (size_t i = 0; i < waits->count; i++) {
            uint32_t x = c->records[waits->items[i]];
            if (x == PROOF_NONE) continue;
            if (y >= half) add_done(c, x, y);
            if (x + (y >= half ? half : 0) < y) add_done(c, x + (y >= half ? half : 0), y);
        }
    }
}

static weft_status list_touching(closure *c) {
    const proof_schedule *s = c->z.s;
    for (uint32_t i = 0; i < s->nevents; i++)
        for (uint32_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++) {
            c->owner[k] = i;
            if (c->instr_of[i] != PROOF_NONE) TRY(by_name_push(&c->z, &c->touching[s->accesses[k].buffer], k));
        }
    return NULL;
}

/* Both within one step, then x in one step and y in the next. */
static weft_status check_pair(closure *c, uint32_t x_access, uint32_t y_access, int64_t rank, weft_findings *f) {
    const proof_schedule *s = c->z.s;
    const proof_access *x = &s->accesses[x_access], *y = &s->accesses[y_access];
    uint32_t a = c->instr_of[c->owner[x_access]], b = c->instr_of[c->owner[y_access]], half = (uint32_t)c->z.n / 2;
    if (a == b || !(x->is_write || y->is_write) || x->begin >= y->end || y->begin >= x->end) return NULL;
    if (!is_done(c, a, b)) return race_report(s, rank, c->owner[x_access], false, c->owner[y_access], y, f);
    if (!is_done(c, b, a + half)) return race_report(s, rank, c->owner[y_access], true, c->owner[x_access], x, f);
    return NULL;
}

/* Each pair of launches is reported once. */
static weft_status check_buffer(closure *c, const list *accesses, int64_t rank, weft_findings *f) {
    for (size_t k = 0; k < accesses->count; k++) {
        uint32_t reported = PROOF_NONE;
        for (size_t i = 0; i < k; i++) {
            size_t before = f->count + f->nleft_out;
            if (c->owner[accesses->items[i]] == reported) continue;
            TRY(check_pair(c, accesses->items[i], accesses->items[k], rank, f));
            if (f->count + f->nleft_out > before) reported = c->owner[accesses->items[i]];
        }
        while (k + 1 < accesses->count && reported != PROOF_NONE &&
               c->owner[accesses->items[k + 1]] == c->owner[accesses->items[k]])
            k++;
    }
    return NULL;
}

static weft_status prepare(closure *c, proof_schedule *s, arena *a) {
    TRY(by_name_depend(&c->z, s, a));
    TRY(by_name_wait(&c->z));
    if (c->z.n > MAX_INSTRS)
        return weft_status_create(WEFT_LIMIT, s->program->place, "any launch: expected at most %d ops, found %zu",
                                  MAX_INSTRS / 2, c->z.n / 2);
    c->nwords = c->z.n / 64 + 1;
    c->launched = ARENA_ARRAY(a, uint64_t, c->z.n * c->nwords + 1);
    c->done = ARENA_ARRAY(a, uint64_t, c->z.n * c->nwords + 1);
    c->instr_of = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    c->records = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    c->touching = ARENA_ARRAY(a, list, s->nbuffers + 1);
    c->owner = ARENA_ARRAY(a, uint32_t, s->naccesses + 1);
    if (!c->launched || !c->done || !c->instr_of || !c->records || !c->touching || !c->owner)
        return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++) c->instr_of[i] = c->records[i] = PROOF_NONE;
    for (uint32_t i = 0; i < c->z.n / 2; i++) {
        c->instr_of[c->z.instrs[i].event] = i;
        c->records[c->z.instrs[i].event] = c->records[c->z.instrs[i].covered] = i;
    }
    close_over(c);
    return list_touching(c);
}

weft_status check_any_launch(const proof_schedule *s, int64_t rank, weft_findings *f) {
    closure c = {0};
    proof_schedule own = *s;
    arena scratch;
    arena_init(&scratch, &s->context->allocator);
    weft_status status = prepare(&c, &own, &scratch);
    for (size_t i = 0; i < s->nbuffers && !status; i++) status = check_buffer(&c, &c.touching[i], rank, f);
    arena_fini(&scratch);
    return status;
}
