/* given.c: order between streams that somebody else derived (weft_plan_order), and nothing else: what a reading of
 * `weft verify` makes of a program.
 *
 * Ops are launched in the order's order, each on the stream that it names. An op starts when the one before it on its
 * stream is complete and the launches that it waits for are. Not all ops become instructions, so what is complete with
 * a launch is expressed in instructions: how many of each stream. A launch that has none (a nop, a wait) hands on what
 * its stream waits for. Steps do not overlap, so a wait for a launch of the step before is met: it is left out.
 *
 * A plan made so is as unsafe as its program under that reading: it is there to show what a missing wait does. */
#include <stdlib.h>

#include "plan/builder.h"
#include "program/grow.h"

struct given_order {
    const weft_plan_order *order;
    uint32_t *launch_of; /* by step: its first launch */
    int32_t **until;     /* by launch that another waits for: instructions of each stream complete with it; else NULL */
    bool *is_waited_for; /* by launch */
    int32_t **entered;   /* by frame: what is complete with the launch of its conditional */
    int32_t *pending;    /* by stream: instructions of each stream that its next instruction waits for */
    int32_t **needs;     /* by instruction: the same; NULL: none */
    size_t need_capacity, nneeds;
};

/* --- the order of steps ------------------------------------------------------------------------------------------- */

/* By number of op: its first launch; order->nlaunches where it has none. */
static weft_status list_launches(plan_builder *b, const weft_plan_order *order, uint32_t **out) {
    uint32_t nops = (uint32_t)weft_program_nops(b->program), *first = ARENA_ARRAY(&b->scratch, uint32_t, nops + 1);
    if (!first) return base_out_of_memory();
    if (nops != order->nops)
        return weft_status_create(WEFT_INVALID_ARGUMENT, b->program->place,
                                  "the order is one of a program of %u ops: expected %u", order->nops, nops);
    for (uint32_t i = 0; i < nops; i++) first[i] = (uint32_t)order->nlaunches;
    for (size_t i = order->nlaunches; i-- > 0;) first[order->launches[i].op] = (uint32_t)i;
    *out = first;
    return NULL;
}

typedef struct placed_step {
    plan_step step;
    uint32_t launch;
} placed_step;

static int compare_steps(const void *x, const void *y) {
    const placed_step *a = x, *c = y;
    return (a->launch > c->launch) - (a->launch < c->launch);
}

static weft_status place_steps(plan_builder *b, const uint32_t *first_launch, placed_step *out) {
    uint32_t number = 0;
    for (size_t i = 0; i < b->program->nblocks; i++) {
        FOR_EACH_OP(op, b->program->blocks[i]) {
            uint32_t launch = first_launch[number++];
            if (!op->mark) continue; /* nothing runs its block */
            if (launch == b->given->order->nlaunches)
                return plan_error(b, WEFT_INVALID_ARGUMENT, op, "the order has no launch of it");
            out[op->mark - 1] = (placed_step){b->steps[op->mark - 1], launch};
        }
    }
    return NULL;
}

static weft_status order_steps(plan_builder *b) {
    given_order *g = b->given;
    placed_step *placed = ARENA_ARRAY(&b->scratch, placed_step, b->nsteps + 1);
    uint32_t *first_launch = NULL;
    g->launch_of = ARENA_ARRAY(&b->scratch, uint32_t, b->nsteps + 1);
    if (!placed || !g->launch_of) return base_out_of_memory();
    TRY(list_launches(b, g->order, &first_launch));
    TRY(place_steps(b, first_launch, placed));
    if (b->nsteps > 1) qsort(placed, b->nsteps, sizeof *placed, compare_steps);
    for (size_t i = 0; i < b->nsteps; i++) {
        b->steps[i] = placed[i].step;
        b->steps[i].op->mark = (uint32_t)i + 1;
        g->launch_of[i] = placed[i].launch;
    }
    return NULL;
}

weft_status plan_take_order(plan_builder *b) {
    const weft_plan_order *order = b->options->order;
    if (!order) return NULL;
    given_order *g = b->given = ARENA_NEW(&b->scratch, given_order);
    if (!g) return base_out_of_memory();
    g->order = order;
    g->until = ARENA_ARRAY(&b->scratch, int32_t *, order->nlaunches + 1);
    g->is_waited_for = ARENA_ARRAY(&b->scratch, bool, order->nlaunches + 1);
    g->entered = ARENA_ARRAY(&b->scratch, int32_t *, b->nframes + 1);
    g->pending = ARENA_ARRAY(&b->scratch, int32_t, order->nstreams * order->nstreams);
    if (!g->until || !g->is_waited_for || !g->entered || !g->pending) return base_out_of_memory();
    size_t nwaits = order->launches[order->nlaunches].first_wait;
    for (size_t i = 0; i < nwaits; i++) g->is_waited_for[order->waits[i]] = true;
    for (size_t i = 0; i < order->nstreams; i++) {
        int32_t stream;
        TRY(plan_find_stream(b, NULL, order->streams[i], &stream));
    }
    return order_steps(b);
}

static const plan_launch *last_launch(const given_order *g, const plan_step *step) {
    const plan_launch *l = &g->order->launches[g->launch_of[step->op->mark - 1]];
    while (l + 1 < g->order->launches + g->order->nlaunches && l[1].op == l->op) l++;
    return l;
}

int32_t plan_given_stream(const plan_builder *b, const weft_op *op) {
    return (int32_t)last_launch(b->given, &b->steps[op->mark - 1])->stream;
}

/* --- waits -------------------------------------------------------------------------------------------------------- */

static void join(int32_t *into, const int32_t *other, size_t nstreams) {
    for (size_t t = 0; t < nstreams; t++)
        if (other[t] > into[t]) into[t] = other[t];
}

static int32_t *pending_of(const given_order *g, size_t stream) {
    return g->pending + stream * g->order->nstreams;
}

/* What is complete once all that the stream has been given so far is. */
static weft_status keep_moment(plan_builder *b, uint32_t stream, int32_t **out) {
    const given_order *g = b->given;
    *out = arena_copy(&b->scratch, pending_of(g, stream), g->order->nstreams * sizeof **out);
    if (!*out) return base_out_of_memory();
    (*out)[stream] = b->stream_length[stream];
    return NULL;
}

static void begin_launch(given_order *g, const plan_launch *l) {
    for (uint32_t k = l->first_wait; k < l[1].first_wait; k++)
        if (g->until[g->order->waits[k]])
            join(pending_of(g, l->stream), g->until[g->order->waits[k]], g->order->nstreams);
}

static weft_status end_launch(plan_builder *b, const plan_launch *l) {
    given_order *g = b->given;
    size_t i = (size_t)(l - g->order->launches), n = g->order->nstreams;
    if (!g->is_waited_for[i] && !l->blocks_host) return NULL;
    TRY(keep_moment(b, l->stream, &g->until[i]));
    for (size_t t = 0; l->blocks_host && t < n; t++) join(pending_of(g, t), g->until[i], n);
    return NULL;
}

weft_status plan_given_before(plan_builder *b, const plan_step *step) {
    given_order *g = b->given;
    const plan_launch *l = &g->order->launches[g->launch_of[step->op->mark - 1]], *last = last_launch(g, step);
    for (; l < last; l++) {
        begin_launch(g, l);
        TRY(end_launch(b, l));
    }
    begin_launch(g, last);
    if (step->frame < 0) return NULL;
    /* The condition has been looked at when what it guards is launched. */
    if (!g->entered[step->frame])
        return plan_error(b, WEFT_INVALID_ARGUMENT, step->op,
                          "the order launches it before the op that runs its block");
    join(pending_of(g, last->stream), g->entered[step->frame], g->order->nstreams);
    return NULL;
}

/* The first new instruction of each stream takes what the stream waits for. */
static weft_status hand_out_waits(plan_builder *b) {
    given_order *g = b->given;
    size_t nbytes = g->order->nstreams * sizeof *g->pending;
    TRY(grow(&b->scratch, &g->needs, &g->need_capacity, b->ninstrs + 1, sizeof *g->needs));
    for (; g->nneeds < b->ninstrs; g->nneeds++) {
        int32_t *pending = pending_of(g, (size_t)b->instrs[g->nneeds].stream);
        bool any = false;
        for (size_t t = 0; t < g->order->nstreams; t++) any |= pending[t] > 0;
        if (any && !(g->needs[g->nneeds] = arena_copy(&b->scratch, pending, nbytes))) return base_out_of_memory();
        memset(pending, 0, nbytes);
    }
    return NULL;
}

weft_status plan_given_after(plan_builder *b, const plan_step *step) {
    const plan_launch *last = last_launch(b->given, step);
    TRY(hand_out_waits(b));
    if (step->opens >= 0) TRY(keep_moment(b, last->stream, &b->given->entered[step->opens]));
    return end_launch(b, last);
}

void plan_given_needs(const plan_builder *b, size_t i, int32_t *need) {
    if (b->given->needs[i]) memcpy(need, b->given->needs[i], b->given->order->nstreams * sizeof *need);
}

/* --- orders ------------------------------------------------------------------------------------------------------- */

void weft_plan_order_destroy(weft_plan_order *order) {
    if (!order) return;
    weft_context *context = order->context;
    arena_fini(&order->arena);
    base_free(&context->allocator, order, sizeof *order);
}
