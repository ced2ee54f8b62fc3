/* contention.c: compute and collectives that slow one another down: what is under way goes on at a speed that changes
 * when something begins or ends beside it.
 *
 * An instruction of the compute stream is slow while a collective of its rank moves data on another stream; such a
 * collective is slow while any of its members computes. Ends move when that changes: each has a turn in the heap, which
 * is moved with it. Sends and receives, and collectives on the compute stream, slow nothing down. */
#include "simulate/simulate.h"

/* Its end is in the heap, at this stream. */
static sim_stream *compute_of(const sim_rank *rank) {
    return &rank->streams[0];
}

static int64_t ring_speed(const weft_simulation *x, const sim_ring *r) {
    return r->nbusy ? x->collective_speed : PLAN_FULL_SPEED;
}

static int64_t compute_speed(const weft_simulation *x, const sim_rank *rank) {
    return rank->nmoving ? x->compute_speed : PLAN_FULL_SPEED;
}

static void turn_ring(weft_simulation *x, sim_ring *r, int64_t now) {
    plan_work_turn(&r->work, now, ring_speed(x, r));
    sim_move_turn(x, r->ender, plan_work_end(&r->work));
}

static void turn_compute(weft_simulation *x, const sim_rank *rank, int64_t now) {
    plan_work_turn(&compute_of(rank)->work, now, compute_speed(x, rank));
    sim_move_turn(x, compute_of(rank), plan_work_end(&compute_of(rank)->work));
}

/* Collectives that move data on other streams of the rank have one more member that computes, or one less. */
static void change_busy(weft_simulation *x, sim_rank *rank, int by, int64_t now) {
    for (int s = 1; s < rank->plan->plan->nstreams; s++) {
        sim_ring *r = rank->streams[s].in ? rank->streams[s].in->ring : NULL;
        if (!r || !r->is_moving || rank->streams[s].peer != SIM_NONE) continue;
        r->nbusy += by;
        if (r->nbusy == (by > 0)) turn_ring(x, r, now);
    }
}

void sim_begin_compute(weft_simulation *x, sim_rank *rank, int64_t ns, int64_t now) {
    sim_stream *s = compute_of(rank);
    plan_work_begin(&s->work, ns, now, compute_speed(x, rank));
    s->ends = true;
    rank->computes = true;
    sim_put_turn(x, s, plan_work_end(&s->work));
    change_busy(x, rank, 1, now);
}

void sim_end_compute(weft_simulation *x, sim_rank *rank, int64_t now) {
    compute_of(rank)->ends = false;
    rank->computes = false;
    change_busy(x, rank, -1, now);
}

/* On another stream of its rank than compute. */
static bool is_beside(const sim_stream *s) {
    return s->lane->stream != 0;
}

static void change_moving(weft_simulation *x, const sim_stream *s, int by, int64_t now) {
    sim_rank *rank = &x->ranks[s->lane->rank];
    if (!is_beside(s)) return;
    rank->nmoving += by;
    if (rank->computes && rank->nmoving == (by > 0)) turn_compute(x, rank, now);
}

/* `last` is the stream of the member that came last: it has no turn in the heap. */
void sim_begin_moving(weft_simulation *x, sim_ring *r, sim_stream *last, int64_t ns, int64_t now) {
    r->is_moving = true;
    r->ender = last;
    r->nbusy = 0;
    last->ends = true;
    for (int m = 0; m < r->nranks; m++) {
        r->moving[m] = r->come[m];
        r->come[m] = NULL;
        r->nbusy += is_beside(r->moving[m]) && x->ranks[r->moving[m]->lane->rank].computes;
    }
    r->ncome = 0;
    plan_work_begin(&r->work, ns, now, ring_speed(x, r));
    sim_put_turn(x, last, plan_work_end(&r->work));
    for (int m = 0; m < r->nranks; m++) change_moving(x, r->moving[m], 1, now);
}

void sim_end_moving(weft_simulation *x, sim_ring *r, int64_t now) {
    r->is_moving = false;
    r->ender->ends = false;
    for (int m = 0; m < r->nranks; m++) {
        change_moving(x, r->moving[m], -1, now);
        r->moving[m]->in = NULL;
    }
}
