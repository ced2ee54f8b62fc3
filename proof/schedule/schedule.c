/* schedule.c: growing a schedule, launch by launch; what collectives of either era are called. */
#include <stdio.h>

#include "program/grow.h"
#include "proof/schedule/schedule.h"

weft_status schedule_init(proof_schedule *s, weft_context *context, arena *a) {
    *s = (proof_schedule){.context = context, .arena = a};
    uint32_t compute;
    return schedule_stream(s, "compute", &compute);
}

weft_status schedule_reserve(proof_schedule *s, size_t nevents, size_t naccesses, size_t nbuffers) {
    TRY(grow(s->arena, &s->events, &s->event_capacity, nevents + 1, sizeof *s->events));
    TRY(grow(s->arena, &s->accesses, &s->access_capacity, naccesses, sizeof *s->accesses));
    TRY(grow(s->arena, &s->touches, &s->touch_capacity, naccesses, sizeof *s->touches));
    return grow(s->arena, &s->buffers, &s->buffer_capacity, nbuffers, sizeof *s->buffers);
}

static weft_status add_name(arena *a, const char ***list, size_t *count, size_t *capacity, const char *text_) {
    TRY(grow(a, list, capacity, *count + 1, sizeof **list));
    if (!((*list)[*count] = arena_string(a, text_, strlen(text_)))) return base_out_of_memory();
    ++*count;
    return NULL;
}

weft_status schedule_stream(proof_schedule *s, const char *stream, uint32_t *out) {
    for (size_t i = 0; i < s->nstreams; i++)
        if (strcmp(s->streams[i], stream) == 0) return *out = (uint32_t)i, NULL;
    TRY(add_name(s->arena, &s->streams, &s->nstreams, &s->stream_capacity, stream));
    *out = (uint32_t)s->nstreams - 1;
    return NULL;
}

weft_status schedule_buffer(proof_schedule *s, const char *buffer_name, bool is_given, uint32_t *out) {
    TRY(grow(s->arena, &s->buffers, &s->buffer_capacity, s->nbuffers + 1, sizeof *s->buffers));
    /* The name is the program's, which outlives the schedule. */
    s->buffers[s->nbuffers] = (proof_buffer){.name = buffer_name, .is_given = is_given};
    *out = (uint32_t)s->nbuffers++;
    return NULL;
}

weft_status schedule_event(proof_schedule *s, const weft_op *op, uint32_t op_index, uint32_t stream, uint32_t *out) {
    TRY(grow(s->arena, &s->events, &s->event_capacity, s->nevents + 2, sizeof *s->events));
    s->events[s->nevents] = (proof_event){.op = op,
                                          .op_index = op_index,
                                          .stream = stream,
                                          .first_access = (uint32_t)s->naccesses,
                                          .first_wait = (uint32_t)s->nwaits,
                                          .collective = PROOF_NONE};
    if (out) *out = (uint32_t)s->nevents;
    s->nevents++;
    return NULL;
}

weft_status schedule_access(proof_schedule *s, const proof_access *x) {
    if (x->end <= x->begin) return NULL;
    TRY(grow(s->arena, &s->accesses, &s->access_capacity, s->naccesses + 1, sizeof *s->accesses));
    TRY(grow(s->arena, &s->touches, &s->touch_capacity, s->naccesses + 1, sizeof *s->touches));
    s->touches[s->naccesses] =
        (proof_touch){.buffer = x->buffer & INT32_MAX, .is_write = x->is_write, .owner = x->owner};
    s->accesses[s->naccesses++] = *x;
    uint32_t *touched = &s->buffers[x->buffer].touched, by = s->events[s->nevents - 1].stream + 1;
    *touched = *touched && *touched != by ? PROOF_NONE : by;
    return NULL;
}

weft_status schedule_wait(proof_schedule *s, uint32_t event) {
    TRY(grow(s->arena, &s->waits, &s->wait_capacity, s->nwaits + 1, sizeof *s->waits));
    s->waits[s->nwaits++] = event;
    return NULL;
}

weft_status schedule_problem(proof_schedule *s, weft_verdict verdict, uint32_t event, const char *format, ...) {
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    TRY(grow(s->arena, &s->problems, &s->problem_capacity, s->nproblems + 1, sizeof *s->problems));
    const char *kept = arena_string(s->arena, message, strlen(message));
    if (!kept) return base_out_of_memory();
    s->problems[s->nproblems++] = (proof_problem){verdict, event, kept};
    return NULL;
}

weft_status schedule_end(proof_schedule *s) {
    TRY(grow(s->arena, &s->events, &s->event_capacity, s->nevents + 1, sizeof *s->events));
    s->events[s->nevents] = (proof_event){
        .first_access = (uint32_t)s->naccesses, .first_wait = (uint32_t)s->nwaits, .collective = PROOF_NONE};
    return schedule_histories(s);
}

void schedule_replace_waits(proof_schedule *s, uint32_t *list, const uint32_t *first) {
    s->waits = list;
    s->nwaits = s->wait_capacity = first[s->nevents];
    for (size_t i = 0; i <= s->nevents; i++) s->events[i].first_wait = first[i];
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

/* What members must agree on: the kind, and the type where that alone says how the parts lie. */
static const char *word_of(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    bool is_plain = c && c->kind != COLLECTIVE_NONE && c->kind != COLLECTIVE_OTHER && !collective_has_lists(c) &&
                    c->form != COLLECTIVE_COUNTS;
    return is_plain ? collective_kind_name(c->kind) : op->type->bytes;
}

weft_status schedule_collective(proof_schedule *s, int64_t ring_id, int32_t dtype, int64_t count,
                                proof_collective **out) {
    TRY(grow(s->arena, &s->collectives, &s->collective_capacity, s->ncollectives + 1, sizeof *s->collectives));
    proof_collective *c = &s->collectives[s->ncollectives];
    proof_event *e = &s->events[s->nevents - 1];
    collective_kind kind = e->op ? op_collective_kind(e->op) : COLLECTIVE_ALL_REDUCE;
    bool is_send = kind == COLLECTIVE_SEND, is_p2p = is_send || kind == COLLECTIVE_RECV;
    bool is_rooted = kind == COLLECTIVE_REDUCE || kind == COLLECTIVE_BROADCAST || kind == COLLECTIVE_SCATTER;
    *c = (proof_collective){.event = (uint32_t)s->nevents - 1,
                            .kind = kind,
                            .word = e->op ? word_of(e->op) : collective_kind_name(kind),
                            .ring = ring_id,
                            .peer = is_p2p ? op_collective_root(e->op) : -1,
                            .is_send = is_send,
                            .dtype = dtype,
                            .count = count,
                            .root = is_rooted ? op_collective_root(e->op) : -1,
                            .made_for = PROOF_UNSET,
                            .reduce = e->op ? op_collective_reduce(e->op) : WEFT_REDUCE_SUM,
                            .first_member = (uint32_t)s->nmembers};
    if (e->op && exchange_is(e->op)) {
        size_t given = exchange_nparts(e->op, false), got = exchange_nparts(e->op, true);
        if (given || got) c->made_for = (int64_t)(given ? given : got);
        if (!exchange_is_even(e->op)) c->count = -1; /* members give different counts: exchanges.c */
    }
    if (e->op && op_find_attr(e->op, "nranks")) c->made_for = attr_int(e->op, "nranks", PROOF_UNSET);
    e->collective = (uint32_t)s->ncollectives++;
    *out = c;
    return NULL;
}

weft_status schedule_member(proof_schedule *s, const proof_member *m) {
    TRY(grow(s->arena, &s->members, &s->member_capacity, s->nmembers + 1, sizeof *s->members));
    s->members[s->nmembers++] = *m;
    s->collectives[s->ncollectives - 1].nmembers++;
    return NULL;
}
