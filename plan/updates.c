/* updates.c: an optimizer's update may run as soon as the gradient is complete. It does where the gradient would be out
 * of the cache behind all of the backward pass: the gradient is still in the cache, as is the parameter that its op
 * read. The gradient's memory is free for the next one.
 *
 * An update must stay behind the last instruction before it that it conflicts with: that touches a buffer that the
 * update writes, or writes one that it reads. Anywhere from there on every instruction finds in memory what it would
 * find in program order. The update moves there, but lets light instructions that follow go first.
 *
 * It stays where that instruction is on another stream (a gradient that is being reduced): waiting for it there and
 * then would hold up what is to run meanwhile. It stays where little is touched between: an update drives out of the
 * cache what comes next, and would gain less than that costs. Small ones stay, conditional ones, and all in an order
 * that somebody else derived. */
#include "plan/builder.h"

enum { NONE = -1, SMALL_NBYTES = 64 * 1024, FAR_NBYTES = 32 * 1024 * 1024, MOST_LIGHT = 16 };

typedef struct mover {
    plan_builder *b;
    int32_t *last_touch, *last_write;  /* by root: the latest instruction so far */
    int64_t *nbytes_before;            /* by instruction: touched by those before it */
    int32_t *behind;                   /* by instruction: the one that it moves behind; NONE: it stays */
    int32_t *first_moved, *next_moved; /* by instruction: those that move behind it, in program order */
} mover;

/* The last instruction before `i` that touches what it writes or writes what it touches. */
static int32_t last_conflict(const mover *m, size_t i) {
    const plan_builder *b = m->b;
    int32_t last = NONE;
    for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++) {
        int32_t root = b->root_of[b->accesses[k].value];
        int32_t before = b->accesses[k].is_write ? m->last_touch[root] : m->last_write[root];
        if (before > last) last = before;
    }
    return last;
}

static void note_accesses(const mover *m, size_t i) {
    const plan_builder *b = m->b;
    for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++) {
        int32_t root = b->root_of[b->accesses[k].value];
        m->last_touch[root] = (int32_t)i;
        if (b->accesses[k].is_write) m->last_write[root] = (int32_t)i;
    }
}

static int64_t nbytes_of(const plan_builder *b, size_t i) {
    int64_t nbytes = 0;
    for (uint32_t k = b->first_access[i]; k < b->first_access[i + 1]; k++)
        nbytes += b->values[b->accesses[k].value].nbytes;
    return nbytes;
}

/* The last of some light instructions that follow `after` and precede the update: those that work row by row, products
 * apart, take little, read what has just been written, and may be fused with their neighbours. */
static int32_t behind_light(const plan_builder *b, int32_t after, int32_t update) {
    for (int n = 0; n < MOST_LIGHT && after + 1 < update; n++, after++) {
        const plan_instr *next = &b->instrs[after + 1];
        if (next->stream != b->instrs[update].stream || !(next->schema->effects & OP_ROWS)) break;
        if (strcmp(next->schema->family, "matmul") == 0) break;
    }
    return after;
}

/* The instruction behind which update `i` is to run; NONE: it stays. */
static int32_t place_of(const mover *m, size_t i) {
    const plan_builder *b = m->b;
    const plan_instr *update = &b->instrs[i];
    if (!(update->schema->effects & OP_OPTIMIZER) || update->guard >= 0 || nbytes_of(b, i) < SMALL_NBYTES) return NONE;
    int32_t after = last_conflict(m, i);
    if (after == NONE || b->instrs[after].stream != update->stream) return NONE;
    return m->nbytes_before[i] - m->nbytes_before[after + 1] < FAR_NBYTES ? NONE : behind_light(b, after, (int32_t)i);
}

static void find_moves(mover *m, size_t *out_nmoves) {
    plan_builder *b = m->b;
    *out_nmoves = 0;
    for (size_t i = 0; i < b->ninstrs; i++) {
        m->behind[i] = place_of(m, i);
        *out_nmoves += m->behind[i] != NONE;
        m->nbytes_before[i + 1] = m->nbytes_before[i] + nbytes_of(b, i);
        note_accesses(m, i);
    }
}

/* Lists of those that move behind the same instruction: filled from the last, so they are in order. */
static void list_moves(const mover *m) {
    for (size_t i = 0; i < m->b->ninstrs; i++) m->first_moved[i] = NONE;
    for (size_t i = m->b->ninstrs; i-- > 0;) {
        if (m->behind[i] == NONE) continue;
        m->next_moved[i] = m->first_moved[m->behind[i]];
        m->first_moved[m->behind[i]] = (int32_t)i;
    }
}

/* Instructions and their accesses as they now follow one another. */
typedef struct reordered {
    plan_instr *instrs;
    plan_access *accesses;
    uint32_t *first_access;
    size_t count;
    uint32_t naccesses;
    int32_t *stream_length;
} reordered;

static void append(const plan_builder *b, reordered *r, int32_t i) {
    uint32_t first = b->first_access[i], n = b->first_access[i + 1] - first;
    plan_instr *instr = &r->instrs[r->count];
    *instr = b->instrs[i];
    instr->position = r->stream_length[instr->stream]++;
    if (n) memcpy(r->accesses + r->naccesses, b->accesses + first, n * sizeof *r->accesses);
    r->first_access[r->count++] = r->naccesses;
    r->naccesses += n;
}

static weft_status move(const mover *m) {
    plan_builder *b = m->b;
    reordered r = {.instrs = ARENA_ARRAY(&b->scratch, plan_instr, b->ninstrs),
                   .accesses = ARENA_ARRAY(&b->scratch, plan_access, b->first_access[b->ninstrs] + 1),
                   .first_access = ARENA_ARRAY(&b->scratch, uint32_t, b->ninstrs + 1),
                   .stream_length = ARENA_ARRAY(&b->scratch, int32_t, PLAN_MAX_STREAMS)};
    if (!r.instrs || !r.accesses || !r.first_access || !r.stream_length) return base_out_of_memory();
    for (size_t i = 0; i < b->ninstrs; i++) {
        if (m->behind[i] == NONE) append(b, &r, (int32_t)i);
        for (int32_t k = m->first_moved[i]; k != NONE; k = m->next_moved[k]) append(b, &r, k);
    }
    r.first_access[r.count] = r.naccesses;
    memcpy(b->instrs, r.instrs, b->ninstrs * sizeof *b->instrs);
    b->accesses = r.accesses;
    b->first_access = r.first_access;
    return NULL;
}

weft_status plan_advance_updates(plan_builder *b) {
    mover m = {.b = b};
    size_t nmoves;
    if (b->given || !b->ninstrs) return NULL;
    m.last_touch = ARENA_ARRAY(&b->scratch, int32_t, b->nvalues + 1);
    m.last_write = ARENA_ARRAY(&b->scratch, int32_t, b->nvalues + 1);
    m.nbytes_before = ARENA_ARRAY(&b->scratch, int64_t, b->ninstrs + 1);
    m.behind = ARENA_ARRAY(&b->scratch, int32_t, b->ninstrs);
    m.first_moved = ARENA_ARRAY(&b->scratch, int32_t, b->ninstrs);
    m.next_moved = ARENA_ARRAY(&b->scratch, int32_t, b->ninstrs);
    if (!m.last_touch || !m.last_write || !m.nbytes_before || !m.behind || !m.first_moved || !m.next_moved)
        return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) m.last_touch[v] = m.last_write[v] = NONE;
    find_moves(&m, &nmoves);
    if (!nmoves) return NULL;
    list_moves(&m);
    return move(&m);
}
