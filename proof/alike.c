/* alike.c: see alike.h. */
#include "proof/alike.h"

/* Whether several streams touch each buffer. */
static weft_status find_shared(const proof_schedule *s, arena *a, bool **out) {
    uint32_t *stream_of = ARENA_ARRAY(a, uint32_t, s->nbuffers + 1);
    bool *shared = ARENA_ARRAY(a, bool, s->nbuffers + 1);
    if (!stream_of || !shared) return base_out_of_memory();
    for (size_t i = 0; i < s->nevents; i++)
        for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++) {
            uint32_t touched = s->accesses[k].buffer, stream = s->events[i].stream + 1;
            shared[touched] |= stream_of[touched] && stream_of[touched] != stream;
            stream_of[touched] = stream;
        }
    *out = shared;
    return NULL;
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

static void mix_event(mixture *d, const proof_schedule *s, size_t i, const bool *shared) {
    const proof_event *e = &s->events[i], *end = e + 1;
    uint64_t flags = (uint64_t)e->blocks_host << 1 | e->is_guarded | (uint64_t)(e->collective != PROOF_NONE) << 2;
    if (e->op) mix_bytes(d, e->op->type->bytes, e->op->type->nbytes);
    mix(d, (uint64_t)e->op_index << 32 | e->stream);
    mix(d, (uint64_t)(end->first_wait - e->first_wait) << 8 | flags);
    for (size_t k = e->first_wait; k < end->first_wait; k++) mix(d, s->waits[k]);
    for (size_t k = e->first_access; k < end->first_access; k++) {
        const proof_access *x = &s->accesses[k];
        mix(d, (uint64_t)x->buffer << 1 | x->is_write);
        if (!shared[x->buffer] && !s->buffers[x->buffer].parts) continue; /* all of it, as far as anyone asks */
        mix(d, (uint64_t)x->begin);
        mix(d, (uint64_t)x->end);
    }
    if (e->collective != PROOF_NONE) mix_collective(d, s, &s->collectives[e->collective]);
}

static void mix_buffer(mixture *d, const proof_buffer *b) {
    mix(d, (uint64_t)b->nparts << 1 | b->is_given);
    for (size_t i = 0; i < b->nparts; i++) {
        mix(d, (uint64_t)b->parts[i].begin);
        mix(d, (uint64_t)b->parts[i].end);
    }
}

static weft_status motion_of(const proof_schedule *s, arena *a, mixture *out) {
    mixture d = {1, 2};
    bool *shared = NULL;
    TRY(find_shared(s, a, &shared));
    mix(&d, (uint64_t)s->nevents << 2 | (uint64_t)s->joins_steps << 1 | s->launches_freely);
    for (size_t t = 0; t < s->nstreams; t++) mix_text(&d, s->streams[t]);
    for (size_t i = 0; i < s->nbuffers; i++) mix_buffer(&d, &s->buffers[i]);
    for (size_t i = 0; i < s->nevents; i++) mix_event(&d, s, i, shared);
    *out = d;
    return NULL;
}

weft_status alike_in_motion(const proof_schedule *schedules, size_t n, arena *a, uint32_t **out) {
    uint32_t *first = ARENA_ARRAY(a, uint32_t, n + 1);
    mixture *motions = ARENA_ARRAY(a, mixture, n + 1);
    if (!first || !motions) return base_out_of_memory();
    for (size_t c = 0; c < n && n > 1; c++) {
        arena scratch;
        first[c] = (uint32_t)c; /* one that could not be made is like no other */
        if (!schedules[c].context) continue;
        first[c] = 0;
        arena_init(&scratch, &schedules[c].context->allocator);
        weft_status status = motion_of(&schedules[c], &scratch, &motions[c]);
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
