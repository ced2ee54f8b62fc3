/* turns.c: the heap of what begins or ends next, by time, then by rank and stream. A stream knows its place in it. */
#include "simulate/simulate.h"

static bool is_before(sim_turn a, sim_turn b) {
    return a.at_ns != b.at_ns ? a.at_ns < b.at_ns : a.stream < b.stream;
}

static void set_turn(weft_simulation *x, size_t at, sim_turn turn) {
    x->turns[at] = turn;
    x->streams[turn.stream].place = (int64_t)at;
}

static void move_up(weft_simulation *x, size_t at, sim_turn turn) {
    for (; at && is_before(turn, x->turns[(at - 1) / 2]); at = (at - 1) / 2) set_turn(x, at, x->turns[(at - 1) / 2]);
    set_turn(x, at, turn);
}

static void move_down(weft_simulation *x, size_t at, sim_turn turn) {
    for (size_t child; (child = 2 * at + 1) < x->nturns; at = child) {
        if (child + 1 < x->nturns && is_before(x->turns[child + 1], x->turns[child])) child++;
        if (!is_before(x->turns[child], turn)) break;
        set_turn(x, at, x->turns[child]);
    }
    set_turn(x, at, turn);
}

void sim_put_turn(weft_simulation *x, sim_stream *s, int64_t at_ns) {
    move_up(x, x->nturns++, (sim_turn){at_ns, (uint32_t)(s - x->streams)});
}

void sim_move_turn(weft_simulation *x, sim_stream *s, int64_t at_ns) {
    size_t at = (size_t)s->place;
    sim_turn now = x->turns[at], moved = {at_ns, now.stream};
    if (is_before(moved, now))
        move_up(x, at, moved);
    else
        move_down(x, at, moved);
}

sim_turn sim_take_turn(weft_simulation *x) {
    sim_turn first = x->turns[0], last = x->turns[--x->nturns];
    x->streams[first.stream].place = SIM_NONE;
    if (x->nturns) move_down(x, 0, last);
    return first;
}
