/* match.c: which collectives of several ranks are one. The n-th on a ring of each of its members are one. The n-th
 * message that one member sends another is the n-th that this one receives of it. */
#include "proof/together/together.h"

#include "ops/collectives.h"

#include <stdlib.h>

enum { NO_MESSAGE, SENT, RECEIVED };

static int by_turn(const void *a, const void *b) {
    const turn *x = a, *y = b;
    if (x->ring != y->ring) return x->ring < y->ring ? -1 : 1;
    if (x->way != y->way) return x->way < y->way ? -1 : 1;
    if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static bool are_of_one(const turn *x, const turn *y) {
    return x->ring == y->ring && x->way == y->way && x->peer == y->peer;
}

static turn turn_of(const weft_op *op, uint32_t index) {
    collective_kind kind = op_collective_kind(op);
    bool is_message = kind == COLLECTIVE_SEND || kind == COLLECTIVE_RECV;
    return (turn){.ring = op_ring(op),
                  .peer = is_message ? op_collective_root(op) : -1,
                  .way = kind == COLLECTIVE_SEND ? SENT
                         : is_message            ? RECEIVED
                                                 : NO_MESSAGE,
                  .index = index};
}

/* What only keeps a part of what the rank has takes no turn. */
weft_status turns_find(together *g, reading *r) {
    size_t n = r->read.nopened;
    r->turns = ARENA_ARRAY(&g->memory, turn, n + 1);
    r->turn_of = ARENA_ARRAY(&g->memory, const turn *, n + 1);
    if (!r->turns || !r->turn_of) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        r->turns[i] = turn_of(r->read.opened[i].op, (uint32_t)i);
        if (op_collective_kind(r->read.opened[i].op) == COLLECTIVE_SPLIT) r->turns[i].way = -1;
    }
    if (n) qsort(r->turns, n, sizeof *r->turns, by_turn);
    for (size_t i = 0; i < n; i++) {
        bool is_next = i && are_of_one(&r->turns[i - 1], &r->turns[i]);
        r->turns[i].number = is_next ? r->turns[i - 1].number + 1 : 0;
        r->turn_of[r->turns[i].index] = &r->turns[i];
    }
    return NULL;
}

/* The collective that takes that turn; NULL: there is none. */
static const opened *find_turn(const reading *r, const turn *wanted) {
    size_t low = 0, high = r->read.nopened;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        turn x = r->turns[middle], first = *wanted;
        x.index = x.number;
        first.index = wanted->number;
        if (by_turn(&x, &first) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == r->read.nopened || !are_of_one(&r->turns[low], wanted) || r->turns[low].number != wanted->number)
        return NULL;
    return &r->read.opened[r->turns[low].index];
}

/* --- rings -------------------------------------------------------------------------------------------------------- */

/* A ring that the program does not name is all ranks. */
static bool members_of(const together *g, const weft_program *p, int64_t id, meeting *out) {
    const ring *r = program_find_ring(p, id);
    int64_t n = r ? r->nranks : (int64_t)g->nranks;
    if (n < 1 || n > MOST_TOGETHER) return false;
    out->count = (size_t)n;
    for (size_t i = 0; i < out->count; i++) {
        int64_t rank = r ? r->ranks[i] : (int64_t)i;
        if (rank < 0 || rank >= (int64_t)g->nranks) return false;
        out->ranks[i] = (uint32_t)rank;
    }
    return true;
}

static size_t position_of(const meeting *m, uint32_t rank) {
    size_t at = 0;
    while (at < m->count && m->ranks[at] != rank) at++;
    return at;
}

static bool same_members(const together *g, const reading *r, int64_t ring_id, const meeting *m) {
    meeting there;
    return members_of(g, r->program, ring_id, &there) && there.count == m->count &&
           memcmp(there.ranks, m->ranks, m->count * sizeof *m->ranks) == 0;
}

/* --- meetings ----------------------------------------------------------------------------------------------------- */

static const char *find_message(const together *g, int side, const turn *own, meeting *m) {
    if (own->peer < 0 || own->peer >= (int64_t)m->count) return "a message of no member of the ring";
    uint32_t sender = m->ranks[own->peer];
    const reading *there = g->of[side][sender];
    turn sent = {.ring = own->ring, .peer = (int64_t)m->position, .way = SENT, .number = own->number};
    if (!same_members(g, there, own->ring, m)) return "a message on a ring that has other members for its sender";
    const opened *o = find_turn(there, &sent);
    if (!o || o->nargs != 1) return "a message that nobody sends";
    m->of[0] = o;
    m->ranks[0] = sender;
    m->count = 1;
    return NULL;
}

static const char *find_members(const together *g, int side, const turn *own, const weft_op *op, meeting *m) {
    for (size_t i = 0; i < m->count; i++) {
        const reading *there = g->of[side][m->ranks[i]];
        if (!same_members(g, there, own->ring, m)) return "a collective on a ring that has other members elsewhere";
        m->of[i] = find_turn(there, own);
        if (!m->of[i]) return "a collective that a member of its ring has not";
        if (m->of[i]->op->type != op->type && strcmp(m->of[i]->op->type->bytes, op->type->bytes) != 0)
            return "a collective that is another one elsewhere";
        if (op_collective_reduce(m->of[i]->op) != op_collective_reduce(op) ||
            op_collective_root(m->of[i]->op) != op_collective_root(op))
            return "a collective that reduces otherwise, or to another root, elsewhere";
    }
    return NULL;
}

void meeting_find(const together *g, int side, uint32_t rank, uint32_t index, meeting *out) {
    const reading *r = g->of[side][rank];
    const turn *own = r->turn_of[index];
    const weft_op *op = r->read.opened[index].op;
    *out = (meeting){.why = NULL};
    if (!members_of(g, r->program, own->ring, out)) {
        out->why = "a collective on a ring of ranks that do not run";
        return;
    }
    out->position = position_of(out, rank);
    if (out->position == out->count)
        out->why = "a collective on a ring that the rank is not in";
    else if (own->way == RECEIVED)
        out->why = find_message(g, side, own, out);
    else if (own->way < 0)
        out->count = 1, out->ranks[0] = rank, out->of[0] = &r->read.opened[index];
    else
        out->why = find_members(g, side, own, op, out);
}
