/* abstract_machine.c: see abstract_machine.h.
 *
 * Of all that can happen next only the end of work is a choice: hosts, records, waits and starts are done at once,
 * since none of them takes away what another could do. So a state is the set of work that has ended, and every such set
 * is visited once. */
#include "tests/support/abstract_machine.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

enum {
    NSTREAMS = 1 + TOY_RINGS + TOY_STREAMS, /* compute, the rings' own, named ones */
    MOST_ITEMS = 10 * TOY_OPS,
    MOST_TOUCHES = 4,
    MOST_STATES = 1 << 12
};

/* --- programs as what hosts do ------------------------------------------------------------------------------------ */

typedef struct touch {
    int where, begin, end;
    bool writes;
} touch;

typedef struct work {
    touch touches[MOST_TOUCHES];
    int ntouches;
    int ring;     /* TOY_NONE: no collective */
    int turn;     /* the ring's how manieth on this rank */
    int likeness; /* members rendezvous only if it is equal */
} work;

typedef enum item_kind { ITEM_WORK, ITEM_RECORD, ITEM_WAIT } item_kind;

/* What a stream is given, and by which step of the host. */
typedef struct item {
    item_kind kind;
    int id; /* of an op, or of a record */
    int given_at;
} item;

typedef struct host_step {
    int blocks_on; /* the host waits for the work of that op; TOY_NONE: it gives a stream something */
    bool is_collective;
} host_step;

typedef struct place {
    int where, begin, nbytes;
} place;

typedef struct filling {
    int record;
    place at;
} filling;

/* One rank. */
typedef struct machine_rank {
    work works[TOY_OPS];
    uint16_t has_work;
    uint16_t conflicts[TOY_OPS]; /* earlier ops that touch the same bytes, one of the two writing */
    item queue[NSTREAMS][MOST_ITEMS];
    int nitems[NSTREAMS];
    host_step steps[MOST_ITEMS];
    int nsteps, nrecords;
    /* While it is made: */
    place places[TOY_VARS];
    int recorded[TOY_EVENTS]; /* the latest record, or TOY_NONE */
    filling fillings[TOY_OPS];
    int nfillings, nturns[TOY_RINGS];
} machine_rank;

int toy_nbytes(int var) {
    static const int nbytes[TOY_VARS] = {16, 16, 16, 16, 8, 8, 32};
    return nbytes[var];
}

static void give(machine_rank *m, int stream, item_kind kind, int id) {
    m->queue[stream][m->nitems[stream]++] = (item){kind, id, m->nsteps};
    m->steps[m->nsteps++] = (host_step){TOY_NONE, kind == ITEM_WORK && m->works[id].ring != TOY_NONE};
}

static void block_on(machine_rank *m, int op) {
    m->steps[m->nsteps++] = (host_step){op, false};
}

static void add_touch(machine_rank *m, int op, int var, bool writes) {
    const place *p = &m->places[var];
    m->works[op].touches[m->works[op].ntouches++] = (touch){p->where, p->begin, p->begin + p->nbytes, writes};
}

static void coalesce(machine_rank *m, int op, const toy_op *o) {
    bool copies = o->kind == TOY_COALESCE_COPY;
    for (int i = 0; i < 2 && copies; i++) add_touch(m, op, o->in[i], false);
    place whole = m->places[o->out];
    for (int i = 0, offset = 0; i < 2; offset += toy_nbytes(o->in[i++]))
        m->places[o->in[i]] = (place){whole.where, whole.begin + offset, toy_nbytes(o->in[i])};
    for (int i = 0; i < 2 && copies; i++) add_touch(m, op, o->in[i], true);
    if (o->kind == TOY_COALESCE_SET) add_touch(m, op, o->out, true);
}

static int stream_of(const toy_op *o) {
    if (o->stream != TOY_NONE) return 1 + TOY_RINGS + o->stream;
    return o->kind == TOY_REDUCE && o->on_ring ? 1 + o->ring : 0;
}

static void join_streams(machine_rank *m, int earlier, int later) {
    int mark = m->nrecords++;
    give(m, earlier, ITEM_RECORD, mark);
    give(m, later, ITEM_WAIT, mark);
}

static void set_bytes(machine_rank *m, int op, const toy_op *o) {
    switch (o->kind) {
    case TOY_ADD: add_touch(m, op, o->in[1], false); /* fall through */
    case TOY_SCALE:
    case TOY_REDUCE:
    case TOY_ASYNC_REDUCE:
    case TOY_BROADCAST:
        add_touch(m, op, o->in[0], false);
        add_touch(m, op, o->out, true);
        return;
    case TOY_FETCH: add_touch(m, op, o->in[0], false); return;
    case TOY_COALESCE:
    case TOY_COALESCE_COPY:
    case TOY_COALESCE_SET: coalesce(m, op, o); return;
    default: return;
    }
}

static void set_collective(machine_rank *m, int op, const toy_op *o) {
    bool is =
        o->kind == TOY_REDUCE || o->kind == TOY_ASYNC_REDUCE || o->kind == TOY_BROADCAST || o->kind == TOY_BARRIER;
    m->works[op].ring = is ? o->ring : TOY_NONE;
    if (!is) return;
    m->works[op].turn = m->nturns[o->ring]++;
    int what = o->kind == TOY_BROADCAST ? 1 + o->root : o->kind == TOY_BARRIER ? 100 : 0;
    m->works[op].likeness = what * 1000 + (o->kind == TOY_BARRIER ? 0 : toy_nbytes(o->in[0]));
}

static void wait_for_value(machine_rank *m, const place *p, int stream) {
    for (int i = 0; i < m->nfillings; i++) {
        const place *f = &m->fillings[i].at;
        if (f->where == p->where && f->begin < p->begin + p->nbytes && p->begin < f->begin + f->nbytes)
            give(m, stream, ITEM_WAIT, m->fillings[i].record);
    }
}

static void launch(machine_rank *m, int op, const toy_op *o) {
    int stream = stream_of(o);
    if (o->kind == TOY_WAIT_COMPUTE || o->kind == TOY_WAIT_COMM) {
        int own = 1 + o->ring;
        join_streams(m, o->kind == TOY_WAIT_COMPUTE ? 0 : own, o->kind == TOY_WAIT_COMPUTE ? own : 0);
        return;
    }
    if (o->kind == TOY_ASYNC_REDUCE) join_streams(m, 0, stream = 1 + o->ring);
    for (int i = 0; i < 2; i++)
        if (o->wait[i] != TOY_NONE && m->recorded[o->wait[i]] != TOY_NONE)
            give(m, stream, ITEM_WAIT, m->recorded[o->wait[i]]);
    if (o->kind == TOY_WAIT_VALUE) wait_for_value(m, &m->places[o->in[0]], stream);
    set_bytes(m, op, o);
    set_collective(m, op, o);
    m->has_work |= (uint16_t)(1u << op);
    give(m, stream, ITEM_WORK, op);
    if (o->record != TOY_NONE) give(m, stream, ITEM_RECORD, m->recorded[o->record] = m->nrecords++);
    if (o->kind == TOY_ASYNC_REDUCE) {
        m->fillings[m->nfillings++] = (filling){m->nrecords, m->places[o->out]};
        give(m, stream, ITEM_RECORD, m->nrecords++);
    }
    if (o->kind == TOY_SHARE || o->kind == TOY_WAIT_VALUE) m->places[o->out] = m->places[o->in[0]];
    if (o->kind == TOY_SYNC || o->kind == TOY_FETCH || o->kind == TOY_BARRIER) block_on(m, op);
}

static bool conflict(const work *a, const work *b) {
    for (int i = 0; i < a->ntouches; i++)
        for (int k = 0; k < b->ntouches; k++) {
            const touch *x = &a->touches[i], *y = &b->touches[k];
            if (x->where == y->where && x->begin < y->end && y->begin < x->end && (x->writes || y->writes)) return true;
        }
    return false;
}

static void make_rank(machine_rank *m, const toy_program *p) {
    memset(m, 0, sizeof *m);
    for (int v = 0; v < TOY_VARS; v++) m->places[v] = (place){v, 0, toy_nbytes(v)};
    for (int e = 0; e < TOY_EVENTS; e++) m->recorded[e] = TOY_NONE;
    for (int i = 0; i < p->nops; i++) launch(m, i, &p->ops[i]);
    for (int y = 0; y < p->nops; y++)
        for (int x = 0; x < y; x++)
            if (conflict(&m->works[x], &m->works[y])) m->conflicts[y] |= (uint16_t)(1u << x);
}

/* --- states ------------------------------------------------------------------------------------------------------- */

typedef struct rank_state {
    uint16_t started, ended;
    uint64_t recorded; /* at most three an op */
    int8_t host, in_flight, head[NSTREAMS];
} rank_state;

typedef struct state {
    rank_state ranks[TOY_RANKS];
} state;

typedef struct searcher {
    const toy_world *world;
    machine_rank ranks[TOY_RANKS];
    int max_in_flight, max_states;
    arena memory;
    key_set visited;
    toy_outcome *outcome;
} searcher;

/* The host's next step, if it can be done. */
static bool step_host(const searcher *s, int r, rank_state *q) {
    const machine_rank *m = &s->ranks[r];
    if (q->host == m->nsteps) return false;
    const host_step *step = &m->steps[q->host];
    if (step->is_collective && s->max_in_flight && q->in_flight >= s->max_in_flight) return false;
    if (step->blocks_on != TOY_NONE && !(q->ended >> step->blocks_on & 1)) return false;
    q->in_flight = (int8_t)(q->in_flight + step->is_collective);
    q->host++;
    return true;
}

/* What stands first on a stream, if it can be passed or started. */
static bool step_stream(const searcher *s, int r, int t, rank_state *q) {
    const machine_rank *m = &s->ranks[r];
    if (q->head[t] == m->nitems[t]) return false;
    const item *i = &m->queue[t][q->head[t]];
    if (i->given_at >= q->host) return false;
    switch (i->kind) {
    case ITEM_RECORD: q->recorded |= (uint64_t)1 << i->id; break;
    case ITEM_WAIT:
        if (!(q->recorded >> i->id & 1)) return false;
        break;
    case ITEM_WORK:
        if (q->started >> i->id & 1) return false;
        q->started |= (uint16_t)(1u << i->id);
        s->outcome->started[r] |= (uint16_t)(1u << i->id);
        s->outcome->races[r][i->id] |= (uint16_t)(m->conflicts[i->id] & ~q->ended);
        return true;
    }
    q->head[t]++;
    return true;
}

static void settle(const searcher *s, state *at) {
    for (int r = 0; r < s->world->nranks; r++) {
        bool any = true;
        while (any) {
            any = false;
            while (step_host(s, r, &at->ranks[r])) any = true;
            for (int t = 0; t < NSTREAMS; t++)
                while (step_stream(s, r, t, &at->ranks[r])) any = true;
        }
    }
}

/* The op that works on a stream; TOY_NONE: none. */
static int running(const searcher *s, const state *at, int r, int t) {
    const machine_rank *m = &s->ranks[r];
    if (at->ranks[r].head[t] == m->nitems[t]) return TOY_NONE;
    const item *i = &m->queue[t][at->ranks[r].head[t]];
    return i->kind == ITEM_WORK && (at->ranks[r].started >> i->id & 1) ? i->id : TOY_NONE;
}

static int stream_running(const searcher *s, const state *at, int r, const work *same) {
    for (int t = 0; t < NSTREAMS; t++) {
        int op = running(s, at, r, t);
        const work *w = op == TOY_NONE ? NULL : &s->ranks[r].works[op];
        if (w && w->ring == same->ring && w->turn == same->turn && w->likeness == same->likeness) return t;
    }
    return TOY_NONE;
}

static void end_work(const searcher *s, state *at, int r, int t) {
    int op = running(s, at, r, t);
    at->ranks[r].ended |= (uint16_t)(1u << op);
    at->ranks[r].head[t]++;
    if (s->ranks[r].works[op].ring != TOY_NONE) at->ranks[r].in_flight--;
}

/* Ends what runs on a stream, with its partners; false if it cannot end now, or a lower member ends it. */
static bool end(const searcher *s, const state *at, int r, int t, state *out) {
    int op = running(s, at, r, t);
    if (op == TOY_NONE) return false;
    const work *w = &s->ranks[r].works[op];
    *out = *at;
    if (w->ring == TOY_NONE) {
        end_work(s, out, r, t);
        return true;
    }
    for (int q = 0; q < s->world->nranks; q++) {
        if (!(s->world->members[w->ring] >> q & 1)) continue;
        int theirs = stream_running(s, at, q, w);
        if (q < r || theirs == TOY_NONE) return false;
        end_work(s, out, q, theirs);
    }
    return true;
}

static bool is_done(const searcher *s, const state *at) {
    for (int r = 0; r < s->world->nranks; r++)
        if (at->ranks[r].ended != s->ranks[r].has_work) return false;
    return true;
}

static bool is_new(searcher *s, const state *at) {
    uint64_t key = 1; /* a set of at most 12 ops each */
    for (int r = 0; r < TOY_RANKS; r++) key = key << 16 | at->ranks[r].ended;
    bool fresh;
    if (key_set_add(&s->memory, &s->visited, key, &fresh)) abort();
    return fresh;
}

static bool visit(searcher *s, state *at) {
    settle(s, at);
    if (!is_new(s, at)) return true;
    if (++s->outcome->nstates > s->max_states) return false;
    bool any = false;
    for (int r = 0; r < s->world->nranks; r++)
        for (int t = 0; t < NSTREAMS; t++) {
            state next;
            if (!end(s, at, r, t, &next)) continue;
            any = true;
            if (!visit(s, &next)) return false;
        }
    if (!any && !is_done(s, at)) s->outcome->gets_stuck = true;
    return true;
}

bool toy_search(const toy_world *w, int max_in_flight, int max_states, toy_outcome *out) {
    static const toy_outcome nothing;
    searcher s = {.world = w, .max_in_flight = max_in_flight, .outcome = out};
    s.max_states = max_states < MOST_STATES ? max_states : MOST_STATES;
    *out = nothing;
    const weft_allocator libc = base_libc_allocator();
    arena_init(&s.memory, &libc);
    for (int r = 0; r < w->nranks; r++) make_rank(&s.ranks[r], &w->ranks[r]);
    state start;
    memset(&start, 0, sizeof start);
    bool all = visit(&s, &start);
    arena_fini(&s.memory);
    return all;
}
