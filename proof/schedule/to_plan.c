/* to_plan.c: what a reading makes of a program, handed to the planner: the launches of a schedule, with their streams
 * and waits, in the usual order or, by name, in another that Paddle's worker pools may take.
 *
 * Dependencies order launches there, and nothing else does. The latest that an op can be launched is right before the
 * first that depends on it: all that does not goes first. */
#include "plan/plan.h"
#include "proof/schedule/by_name.h"

typedef struct handover {
    proof_schedule *s;
    arena *arena; /* scratch */
    weft_plan_order *order;
    uint32_t *sequence; /* events in the order in which they are launched */
} handover;

/* --- the order of launches ---------------------------------------------------------------------------------------- */

/* The instruction of op number `op_index` of block 0. */
static weft_status find_instr(const by_name *z, int64_t op_index, uint32_t *out) {
    for (*out = 0; *out < z->n / 2; ++*out)
        if (z->s->events[z->instrs[*out].event].op_index == op_index) return NULL;
    return weft_status_create(WEFT_INVALID_ARGUMENT, z->s->program->place, "late op: expected one of %zu, found %lld",
                              z->n / 2, (long long)op_index);
}

/* Lets what does not depend on `late` come before it. Both parts keep their order, so what depends stays behind. */
static weft_status put_off(by_name *z, uint32_t late, uint32_t *instrs) {
    size_t half = z->n / 2, at = 0, ndependent = 0;
    uint32_t *dependent = ARENA_ARRAY(z->arena, uint32_t, half);
    bool *behind;
    if (!dependent) return base_out_of_memory();
    TRY(by_name_behind(z, late, &behind));
    for (size_t i = 0; i < half; i++) {
        if (instrs[i] == late) continue;
        if (behind[instrs[i]])
            dependent[ndependent++] = instrs[i];
        else
            instrs[at++] = instrs[i];
    }
    instrs[at++] = late;
    memcpy(instrs + at, dependent, ndependent * sizeof *instrs);
    return NULL;
}

/* An instruction takes along what it launches: marks of stream waits, the ops of blocks that it runs. */
static void sequence_instrs(const handover *h, const by_name *z, const uint32_t *instrs) {
    const proof_schedule *s = h->s;
    for (size_t i = 0, at = 0; i < z->n / 2; i++) {
        uint32_t first = z->instrs[instrs[i]].event, op_index = s->events[first].op_index;
        while (first > 0 && s->events[first - 1].op_index == op_index) first--;
        for (uint32_t e = first; e < s->nevents && s->events[e].op_index == op_index; e++) h->sequence[at++] = e;
    }
}

static weft_status put_off_all(handover *h, const int64_t *late, size_t nlate) {
    by_name z;
    TRY(by_name_depend(&z, h->s, h->arena));
    uint32_t *instrs = ARENA_ARRAY(h->arena, uint32_t, z.n / 2 + 1), late_instr;
    if (!instrs) return base_out_of_memory();
    for (uint32_t i = 0; i < z.n / 2; i++) instrs[i] = i;
    for (size_t k = 0; k < nlate; k++) {
        TRY(find_instr(&z, late[k], &late_instr));
        TRY(put_off(&z, late_instr, instrs));
    }
    sequence_instrs(h, &z, instrs);
    return NULL;
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

/* Where a block has been followed to: launches of a block come in its order. */
typedef struct cursor {
    const weft_op *op;
    uint32_t number;
} cursor;

/* Numbers of the ops that events launch. */
static weft_status number_ops(const handover *h, uint32_t *number_of_event) {
    const weft_program *p = h->s->program;
    cursor *cursors = ARENA_ARRAY(h->arena, cursor, p->nblocks + 1);
    if (!cursors) return base_out_of_memory();
    for (size_t i = 0; i < p->nblocks; i++) {
        cursors[i] = (cursor){p->blocks[i]->first, h->order->nops};
        h->order->nops += (uint32_t)p->blocks[i]->nops;
    }
    for (size_t i = 0; i < h->s->nevents; i++) {
        const weft_op *op = h->s->events[i].op;
        cursor *c = &cursors[op->block->idx];
        while (c->op != op) *c = (cursor){c->op->next, c->number + 1};
        number_of_event[i] = c->number;
    }
    return NULL;
}

static weft_status write_streams(const handover *h) {
    const proof_schedule *s = h->s;
    const char **streams = ARENA_ARRAY(&h->order->arena, const char *, s->nstreams);
    if (!streams) return base_out_of_memory();
    for (size_t i = 0; i < s->nstreams; i++)
        if (!(streams[i] = arena_string(&h->order->arena, s->streams[i], strlen(s->streams[i]))))
            return base_out_of_memory();
    h->order->streams = streams;
    h->order->nstreams = s->nstreams;
    return NULL;
}

static weft_status write_launches(const handover *h) {
    const proof_schedule *s = h->s;
    weft_plan_order *order = h->order;
    uint32_t *number = ARENA_ARRAY(h->arena, uint32_t, s->nevents + 1);
    uint32_t *launch_of = ARENA_ARRAY(h->arena, uint32_t, s->nevents + 1), nwaits = 0;
    order->launches = ARENA_ARRAY(&order->arena, plan_launch, s->nevents + 1);
    order->waits = ARENA_ARRAY(&order->arena, uint32_t, s->nwaits + 1);
    if (!number || !launch_of || !order->launches || !order->waits) return base_out_of_memory();
    TRY(number_ops(h, number));
    order->nlaunches = s->nevents;
    for (uint32_t i = 0; i < s->nevents; i++) launch_of[h->sequence[i]] = i;
    for (size_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[h->sequence[i]];
        order->launches[i] = (plan_launch){number[h->sequence[i]], e->stream, nwaits, e->blocks_host};
        for (uint32_t k = e->first_wait; k < e[1].first_wait; k++) order->waits[nwaits++] = launch_of[s->waits[k]];
    }
    order->launches[s->nevents].first_wait = nwaits;
    return NULL;
}

static weft_status hand_over(handover *h, const weft_program *program, const weft_order_options *o) {
    proof_schedule schedule;
    TRY(schedule_from_program(program, &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = o->reading},
                              h->arena, &schedule));
    h->s = &schedule;
    h->sequence = ARENA_ARRAY(h->arena, uint32_t, schedule.nevents + 1);
    if (!h->sequence) return base_out_of_memory();
    for (uint32_t i = 0; i < schedule.nevents; i++) h->sequence[i] = i;
    if (o->reading == WEFT_READING_BY_NAME) TRY(schedule_order_by_name(&schedule));
    if (o->nlate) TRY(put_off_all(h, o->late, o->nlate));
    TRY(write_streams(h));
    return write_launches(h);
}

weft_status weft_plan_order_create(const weft_program *program, const weft_order_options *given,
                                   weft_plan_order **out_order) {
    weft_context *context = program->context;
    *out_order = NULL;
    weft_order_options taken, *options = &taken;
    TRY(base_take_struct("weft_order_options", &taken, sizeof taken, given));
    if (options->nlate && options->reading != WEFT_READING_BY_NAME)
        return weft_status_create(
            WEFT_INVALID_ARGUMENT, program->place,
            "late ops: expected the reading by_name, found %s: the host launches in program order",
            weft_reading_name(options->reading));
    if (options->reading == WEFT_READING_BY_BYTES) return NULL;
    arena scratch;
    handover h = {.arena = &scratch, .order = base_alloc(&context->allocator, sizeof *h.order)};
    if (!h.order) return base_out_of_memory();
    *h.order = (weft_plan_order){.context = context};
    arena_init(&h.order->arena, &context->allocator);
    arena_init(&scratch, &context->allocator);
    weft_status status = hand_over(&h, program, options);
    arena_fini(&scratch);
    if (status)
        weft_plan_order_destroy(h.order);
    else
        *out_order = h.order;
    return status;
}
