/* alike.c: see alike.h. */
#include "proof/alike.h"

/* What of a schedule others can notice: launches that wait, are waited for, communicate, block the host or touch what
 * another stream touches; buffers that several streams touch. */
typedef struct motion {
    const proof_schedule *s;
    uint32_t *stream_of; /* by buffer: plus one; SHARED */
    uint32_t *number_of; /* by buffer: plus one, in order of first touch by a launch that counts; 0: none yet */
    uint32_t *place_of;  /* by event: among those that count; PROOF_NONE */
    uint32_t nbuffers;
    bool with_ops;
    mixture contents;
} motion;

enum { SHARED = UINT32_MAX };

static void find_shared(motion *m) {
    const proof_schedule *s = m->s;
    for (size_t i = 0; i < s->nevents; i++)
        for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++) {
            uint32_t *of = &m->stream_of[s->accesses[k].buffer], stream = s->events[i].stream + 1;
            *of = *of && *of != stream ? SHARED : stream;
        }
}

static bool is_shared(const motion *m, const proof_access *x) {
    return m->stream_of[x->buffer] == SHARED;
}

/* Numbers the launches that count. */
static void find_places(motion *m) {
    const proof_schedule *s = m->s;
    uint32_t n = 0;
    for (size_t k = 0; k < s->nwaits; k++) m->place_of[s->waits[k]] = 1;
    for (size_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i], *end = e + 1;
        bool counts =
            m->place_of[i] || e->collective != PROOF_NONE || e->blocks_host || end->first_wait > e->first_wait;
        for (size_t k = e->first_access; k < end->first_access && !counts; k++) counts = is_shared(m, &s->accesses[k]);
        m->place_of[i] = counts ? n++ : PROOF_NONE;
    }
}

static void mix_collective(mixture *d, const proof_schedule *s, const proof_collective *c) {
    mix_text(d, c->kind);
    mix(d, (uint64_t)c->ring);
    mix(d, (uint64_t)c->peer << 1 | c->is_send);
    mix(d, (uint64_t)(uint32_t)c->dtype << 32 | (uint32_t)c->reduce);
    mix(d, (uint64_t)c->count);
    mix(d, c->history);
    mix(d, (uint64_t)c->root << 1 | c->is_guarded);
    mix(d, c->nmembers);
    for (uint32_t i = 0; i < c->nmembers; i++) {
        const proof_member *m = &s->members[c->first_member + i];
        mix_text(d, m->name);
        mix(d, (uint64_t)m->offset);
        mix(d, (uint64_t)m->nbytes);
    }
}

static void mix_access(motion *m, const proof_access *x) {
    uint32_t *number = &m->number_of[x->buffer];
    if (!*number) *number = ++m->nbuffers;
    mix(&m->contents, (uint64_t)*number << 1 | x->is_write);
    mix(&m->contents, (uint64_t)x->begin);
    mix(&m->contents, (uint64_t)x->end);
}

static void mix_event(motion *m, size_t i) {
    const proof_schedule *s = m->s;
    const proof_event *e = &s->events[i], *end = e + 1;
    mixture *d = &m->contents;
    uint64_t flags = (uint64_t)e->blocks_host << 1 | (uint64_t)(e->collective != PROOF_NONE) << 2;
    if (m->with_ops && e->op) mix_bytes(d, e->op->type->bytes, e->op->type->nbytes);
    if (m->with_ops) mix(d, e->op_index);
    mix(d, (uint64_t)(end->first_wait - e->first_wait) << 32 | (uint64_t)e->stream << 8 | flags);
    for (size_t k = e->first_wait; k < end->first_wait; k++) mix(d, m->place_of[s->waits[k]]);
    for (size_t k = e->first_access; k < end->first_access; k++)
        if (is_shared(m, &s->accesses[k])) mix_access(m, &s->accesses[k]);
    if (e->collective != PROOF_NONE) mix_collective(d, s, &s->collectives[e->collective]);
}

static weft_status motion_of(const proof_schedule *s, bool with_ops, arena *a, mixture *out) {
    motion m = {.s = s, .with_ops = with_ops, .contents = {1, 2}};
    m.stream_of = ARENA_ARRAY(a, uint32_t, s->nbuffers + 1);
    m.number_of = ARENA_ARRAY(a, uint32_t, s->nbuffers + 1);
    m.place_of = ARENA_ARRAY(a, uint32_t, s->nevents + 1);
    if (!m.stream_of || !m.number_of || !m.place_of) return base_out_of_memory();
    find_shared(&m);
    find_places(&m);
    mix(&m.contents, (uint64_t)s->joins_steps << 1 | s->launches_freely);
    for (size_t t = 0; t < s->nstreams; t++) mix_text(&m.contents, s->streams[t]);
    for (size_t i = 0; i < s->nevents; i++)
        if (m.place_of[i] != PROOF_NONE) mix_event(&m, i);
    *out = m.contents;
    return NULL;
}

weft_status alike_in_motion(const proof_schedule *schedules, size_t n, bool with_ops, arena *a, uint32_t **out) {
    uint32_t *first = ARENA_ARRAY(a, uint32_t, n + 1);
    mixture *motions = ARENA_ARRAY(a, mixture, n + 1);
    if (!first || !motions) return base_out_of_memory();
    for (size_t c = 0; c < n && n > 1; c++) {
        arena scratch;
        first[c] = (uint32_t)c; /* one that could not be made is like no other */
        if (!schedules[c].context) continue;
        first[c] = 0;
        arena_init(&scratch, &schedules[c].context->allocator);
        weft_status status = motion_of(&schedules[c], with_ops, &scratch, &motions[c]);
        arena_fini(&scratch);
        if (status) return status;
        while (!mixture_equal(&motions[first[c]], &motions[c])) first[c]++;
    }
    *out = first;
    return NULL;
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
