/* alike.c: see alike.h. */
#include "proof/checks/alike.h"

/* What of a schedule others can notice: launches that wait, are waited for, communicate, block the host or touch what
 * another stream touches; buffers that several streams touch. */
typedef struct motion {
    const proof_schedule *s;
    const proof_class *class;
    uint32_t *buffers; /* of those that several streams touch SHARED and their number, from 1 in order of first touch by
                        * a launch that counts, 0 before; of others the stream plus one */
    uint32_t *place_of; /* by event: among those that count; before that whether it is waited for */
    uint32_t nbuffers, nplaces;
    size_t next; /* the first event that was not looked at */
    bool with_ops;
    mixture contents;
} motion;

enum { FIRST_LOOK = 32, MORE = 4 }; /* so many launches that count, then so many times as many */

#define SHARED (UINT32_C(1) << 31) /* beyond any stream */

static bool is_shared(const motion *m, size_t access) {
    return m->buffers[m->s->touches[access].buffer] >= SHARED;
}

static bool counts(const motion *m, size_t i) {
    const proof_schedule *s = m->s;
    const proof_event *e = &s->events[i], *end = e + 1;
    if (m->place_of[i] || e->collective != PROOF_NONE || e->blocks_host || end->first_wait > e->first_wait) return true;
    for (size_t k = e->first_access; k < end->first_access; k++)
        if (is_shared(m, k)) return true;
    return false;
}

static void mix_collective(mixture *d, const proof_collective *c, const mixture *moved) {
    mix_text(d, c->word);
    mix(d, (uint64_t)c->ring);
    mix(d, (uint64_t)c->peer << 1 | c->is_send);
    mix(d, (uint64_t)(uint32_t)c->dtype << 32 | (uint32_t)c->reduce);
    mix(d, (uint64_t)c->count);
    mix(d, c->history);
    mix(d, (uint64_t)c->root << 1 | c->is_guarded);
    mix(d, moved->a);
    mix(d, moved->b);
}

static void mix_access(motion *m, const proof_access *x) {
    uint32_t *of = &m->buffers[x->buffer];
    if (*of == SHARED) *of |= ++m->nbuffers;
    mix_three(&m->contents, (uint64_t)*of << 1 | x->is_write, (uint64_t)x->begin, (uint64_t)x->end);
}

static void mix_event(motion *m, size_t i) {
    const proof_schedule *s = m->s;
    const proof_event *e = &s->events[i], *end = e + 1;
    mixture *d = &m->contents;
    uint64_t flags = (uint64_t)e->blocks_host << 1 | (uint64_t)(e->collective != PROOF_NONE) << 2;
    if (m->with_ops && e->op) mix_bytes(d, e->op->type->bytes, e->op->type->nbytes);
    if (m->with_ops) mix(d, e->op_index);
    mix(d, (uint64_t)(end->first_wait - e->first_wait) << 32 | (uint64_t)e->stream << 8 | flags);
    for (size_t k = e->first_access; k < end->first_access; k++)
        if (is_shared(m, k)) mix_access(m, &s->accesses[k]);
    if (e->collective == PROOF_NONE) return;
    mixture moved =
        m->class->moved ? m->class->moved[e->collective] : sequences_moved(s, &s->collectives[e->collective], NULL);
    mix_collective(d, &s->collectives[e->collective], &moved);
}

static weft_status begin(motion *m, const proof_class *c, bool with_ops, arena *a) {
    const proof_schedule *s = c->schedule;
    *m = (motion){.s = s, .class = c, .with_ops = with_ops, .contents = {1, 2}};
    m->buffers = ARENA_ARRAY(a, uint32_t, s->nbuffers + 1);
    m->place_of = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    if (!m->buffers || !m->place_of) return base_out_of_memory();
    for (size_t i = 0; i < s->nbuffers; i++)
        m->buffers[i] = s->buffers[i].touched == PROOF_NONE ? SHARED : s->buffers[i].touched;
    mix(&m->contents, (uint64_t)s->joins_steps << 1 | s->launches_freely);
    for (size_t t = 0; t < s->nstreams; t++) mix_text(&m->contents, s->streams[t]);
    for (size_t k = 0; k < s->nwaits; k++) m->place_of[s->waits[k]] = 1;
    return NULL;
}

static void go_on(motion *m, uint32_t nplaces) {
    for (; m->next < m->s->nevents && m->nplaces < nplaces; m->next++) {
        if (!counts(m, m->next)) continue;
        m->place_of[m->next] = m->nplaces++;
        mix_event(m, m->next);
    }
}

/* Waits are mixed last: an event may wait for a later one. */
static void end(motion *m) {
    go_on(m, UINT32_MAX);
    for (size_t k = 0; k < m->s->nwaits; k++) mix(&m->contents, m->place_of[m->s->waits[k]]);
}

/* Whether there is so much of everything in both that they may be. */
static bool may_be_alike(const proof_schedule *x, const proof_schedule *y) {
    return x->context && y->context && x->nstreams == y->nstreams && x->nwaits == y->nwaits &&
           x->ncollectives == y->ncollectives && x->nmembers == y->nmembers;
}

/* The classes that another one seems to be like so far. */
static void find_likely(const proof_class *classes, const mixture *so_far, size_t n, bool *out) {
    for (size_t c = 0; c < n; c++) {
        out[c] = false;
        for (size_t d = 0; d < n && !out[c]; d++)
            out[c] = d != c && mixture_equal(&so_far[c], &so_far[d]) &&
                     may_be_alike(classes[c].schedule, classes[d].schedule);
    }
}

static weft_status compare(const proof_class *classes, size_t n, bool with_ops, uint32_t *first, arena *a) {
    motion *motions = ARENA_ARRAY(a, motion, n + 1);
    mixture *so_far = ARENA_ARRAY(a, mixture, n + 1);
    bool *likely = ARENA_ARRAY(a, bool, n + 1);
    if (!motions || !so_far || !likely) return base_out_of_memory();
    find_likely(classes, so_far, n, likely);
    for (size_t c = 0; c < n; c++)
        if (likely[c]) TRY(begin(&motions[c], &classes[c], with_ops, a));
    bool is_more = true; /* what differs early is not followed to its end */
    for (uint32_t nplaces = FIRST_LOOK; is_more && nplaces < UINT32_MAX / MORE; nplaces *= MORE) {
        is_more = false;
        for (size_t c = 0; c < n; c++) {
            if (!likely[c]) continue;
            go_on(&motions[c], nplaces);
            so_far[c] = motions[c].contents;
            is_more |= motions[c].next < motions[c].s->nevents;
        }
        find_likely(classes, so_far, n, likely);
    }
    for (size_t c = 0; c < n; c++) {
        first[c] = (uint32_t)c; /* one that could not be made is like no other */
        if (!likely[c]) continue;
        end(&motions[c]);
        first[c] = 0;
        while (!likely[first[c]] || !mixture_equal(&motions[first[c]].contents, &motions[c].contents)) first[c]++;
    }
    return NULL;
}

weft_status alike_in_motion(const proof_class *classes, size_t n, bool with_ops, arena *a, uint32_t **out) {
    uint32_t *first = ARENA_ARRAY(a, uint32_t, n + 1);
    arena scratch;
    if (!first) return base_out_of_memory();
    arena_init(&scratch, a->allocator);
    weft_status status = n > 1 ? compare(classes, n, with_ops, first, &scratch) : NULL;
    arena_fini(&scratch);
    *out = first;
    return status;
}

weft_status alike_ranks(const proof_ranks *ranks, const uint32_t *first_alike, arena *a, proof_ranks *out) {
    proof_class *classes = ARENA_ARRAY(a, proof_class, ranks->nclasses + 1);
    uint32_t *number = ARENA_ARRAY(a, uint32_t, ranks->nclasses + 1);
    uint32_t *class_of = ARENA_ARRAY(a, uint32_t, ranks->nranks + 1);
    if (!classes || !number || !class_of) return base_out_of_memory();
    *out = *ranks;
    out->nclasses = 0;
    for (uint32_t c = 0; c < ranks->nclasses; c++) {
        bool is_first = first_alike[c] == c;
        number[c] = is_first ? (uint32_t)out->nclasses : number[first_alike[c]];
        if (is_first) classes[out->nclasses++] = ranks->classes[c];
    }
    for (int64_t r = 0; r < ranks->nranks; r++)
        class_of[r] = ranks->class_of[r] == PROOF_NONE ? PROOF_NONE : number[ranks->class_of[r]];
    out->classes = classes;
    out->class_of = class_of;
    return NULL;
}
