/* watchdog.c: ends a run in which a collective waits too long, and says for whom.
 *
 * The idea: whoever runs a collective fills its in-flight record before and clears it after; workers note which
 * instruction they are at. A thread of its own looks at that, and communicates over nothing that could hang itself. It
 * need not look often: nothing that is not in flight now can be too old before the least limit has passed. So it sleeps
 * that long, or until the oldest record is due.
 *
 * Members of a ring run the same collectives on it (agree.c), so whoever has entered fewer than the one who waits is
 * missing. What it does instead is where the stream stands that should bring it there, or the stream that this one
 * waits for.
 *
 * The limit follows the run: 10 times what 95 of the last 100 steps stayed below, and never less than the floor; until
 * a type of op has ended once on the ring, in the first step mostly, a limit of its own holds. From 3 times on a
 * launcher that reads what its processes are at says who is late. Steps allocate nothing, lock nothing, and read the
 * clock twice a collective. */
#include "executor/watchdog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/comm/wait.h"
#include "executor/flight.h"
#include "executor/thread.h"
#include "ops/collectives.h"
#include "plan/rings.h"
#include "plan/signature.h"

struct watched {
    const plan_instr *instr;
    size_t position; /* among the ring's collectives in program order, or of a pair among those of its kind and peer */
    int64_t peer;    /* index in the ring; -1: a collective of all members */
    bool is_send;
    inflight_record *inflight;
    watch_history *history;
    flight_rank *flight; /* NULL: nobody reads it */
    uint64_t awaited[FLIGHT_SET];
    char place[FLIGHT_OP_NBYTES];
};

struct watchdog {
    executor_thread thread;
    _Atomic bool stopping;
    int64_t least_ns, first_ns;
};

/* A collective that has lasted too long, on `rank`. */
typedef struct overdue {
    const rank_state *rank;
    const ring_use *ring;
    const struct watched *kernel;
    int64_t since_ns, limit_ns;
} overdue;

static int64_t load(const _Atomic int64_t *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
}

/* --- in-flight records -------------------------------------------------------------------------------------------- */

int64_t watched_begin(const struct watched *w) {
    inflight_record *b = w->inflight;
    int64_t start_ns = wait_clock_ns();
    atomic_store_explicit(&b->in, w, memory_order_release);
    uint32_t nentered = atomic_load_explicit(&b->nentered, memory_order_relaxed);
    atomic_store_explicit(&b->nentered, nentered + (w->peer < 0), memory_order_relaxed);
    atomic_store_explicit(&b->since_ns, start_ns, memory_order_release);
    if (!w->flight) return start_ns;
    int64_t late_ns = load(&w->history->late_ns);
    flight_enter(w->flight, &(flight_entry){.op = w->place,
                                            .ring_id = w->instr->ring_id,
                                            .since_ns = start_ns,
                                            .late_ns = late_ns ? start_ns + late_ns : 0,
                                            .awaited = w->awaited});
    return start_ns;
}

void watched_end(const struct watched *w, int64_t start_ns) {
    atomic_store_explicit(&w->inflight->since_ns, 0, memory_order_release);
    if (w->flight) flight_end(w->flight);
    watch_note(w->history, wait_clock_ns() - start_ns);
}

static watch_history *history_of(weft_executor *x, inflight_record *b, const op_schema *schema) {
    for (watch_history *h = b->histories; h; h = h->next) {
        if (h->schema == schema) return h;
    }
    watch_history *h = ARENA_NEW(&x->arena, watch_history);
    if (!h) return NULL;
    h->schema = schema;
    h->next = b->histories;
    b->histories = h;
    return h;
}

/* Which of the sends (or receives) with its peer it is. */
static void find_pair(const ring_use *u, struct watched *w) {
    w->peer = op_collective_root(w->instr->op);
    for (size_t k = 0; u->pairs[k] != w->instr; k++) {
        bool is_send;
        (void)plan_is_pair(u->pairs[k], &is_send);
        w->position += is_send == w->is_send && op_collective_root(u->pairs[k]->op) == w->peer;
    }
}

static flight_rank *flight_of(const weft_executor *x, const ring_use *u) {
    struct flight_process *f = x->options.host ? x->options.host->flight : NULL;
    int64_t rank = u->ranks[u->comm->index];
    return f && x->nlocal <= FLIGHT_MOST_RANKS ? &f->ranks[rank - x->first_rank] : NULL;
}

/* Whom this one waits for. */
static void find_awaited(const ring_use *u, struct watched *w) {
    for (int m = 0; m < u->comm->nranks; m++) {
        bool is_awaited = w->peer < 0 ? m != u->comm->index : m == w->peer;
        if (is_awaited && u->ranks[m] < FLIGHT_MOST_RANKS) w->awaited[u->ranks[m] / 64] |= 1ULL << u->ranks[m] % 64;
    }
}

weft_status watchdog_bind(weft_executor *x, device_instr *i) {
    const ring_use *u = i->ring;
    if (x->options.no_watchdog || !u || u->comm->nranks < 2) return NULL;
    struct watched *w = ARENA_NEW(&x->arena, struct watched);
    watch_history *h = history_of(x, u->inflight, i->instr->schema);
    if (!w || !h) return base_out_of_memory();
    *w = (struct watched){
        .instr = i->instr, .peer = -1, .inflight = u->inflight, .history = h, .flight = flight_of(x, u)};
    (void)instr_place(i->instr, w->place, sizeof w->place);
    if (plan_is_pair(i->instr, &w->is_send))
        find_pair(u, w);
    else
        while (u->instrs[w->position] != i->instr) w->position++;
    find_awaited(u, w);
    i->watched = w;
    x->nwatched++;
    return NULL;
}

void watchdog_end_step(weft_executor *x) {
    for (int r = 0; x->watchdog && r < x->nlocal; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++)
            for (watch_history *h = x->ranks[r].rings[i].inflight->histories; h; h = h->next) watch_end_step(h);
}

/* --- who is missing ----------------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 4, MOST_HOPS = 4 };

typedef struct message {
    char text[900];
    size_t n;
    int origin; /* the rank that all this is about: a circle ends there */
    int nhops;  /* waits in waits */
} message;

static void say(message *w, const char *format, ...) WEFT_PRINTF(2, 3);
static void say(message *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->text + w->n, sizeof w->text - w->n, format, args);
    va_end(args);
    if (n > 0) w->n += (size_t)n;
    if (w->n >= sizeof w->text) w->n = sizeof w->text - 1;
}

static size_t position_of(const stream_state *s) {
    return s->executor->device->engine->position(s->executor->run, s);
}

/* The stream that `s` waits for before instruction `at`, or NULL. */
static const stream_state *waits_for(const stream_state *s, size_t at) {
    const plan_instr *instr = s->instrs[at].instr;
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const stream_state *other = &s->rank->streams[instr->waits[i].stream];
        if (position_of(other) < (size_t)instr->waits[i].count) return other;
    }
    return NULL;
}

static bool has_ended(const stream_state *s) {
    return position_of(s) >= s->ninstrs;
}

static bool has_ended_step(const rank_state *rank) {
    for (int s = 0; s < rank->plan->nstreams; s++) {
        if (!has_ended(&rank->streams[s])) return false;
    }
    return true;
}

/* --- questions to all ranks --------------------------------------------------------------------------------------- */

/* A collective that a rank is in: whoever is missing there is asked what it does instead. */
typedef struct question {
    int64_t ring;
    uint64_t members;    /* tells rings of equal id apart */
    int64_t peer, index; /* peer -1: all members; index: of the rank that asks */
    uint64_t position;
    uint32_t nentered; /* by the rank that asks */
    int32_t is_send;
} question;

/* What one rank answers. */
typedef struct answer {
    int64_t index; /* in the ring; -1: it is no member */
    uint32_t nentered;
    int32_t is_in; /* it is in a collective itself: `its` */
    question its;
    char text[200];
} answer;

/* The collective that has lasted too long on a rank; seconds 0: none has. */
typedef struct lateness {
    double seconds, limit;
    question its;
    char op[200];
} lateness;

typedef struct inquiry {
    weft_executor *x;
    arena scratch;
    message report;
    weft_status failure; /* processes did not answer */
} inquiry;

enum { ANSWER_SECONDS = 2 };

/* Every rank's `nbytes`. Processes take part in as many rounds: what is asked next follows from what was answered. */
static bool ask_all(inquiry *q, const void *mine, size_t nbytes, void *all) {
    if (q->failure) return false;
    q->failure = comm_world_gather(q->x->world, &(comm_gather){.channel = COMM_WATCH,
                                                               .mine = mine,
                                                               .all = all,
                                                               .nbytes_each = nbytes,
                                                               .timeout_seconds = ANSWER_SECONDS,
                                                               .when = "to hear what ranks are at"});
    return !q->failure;
}

static void *room(inquiry *q, int count, size_t nbytes) {
    void *bytes = arena_array(&q->scratch, (size_t)count, nbytes);
    if (!bytes && !q->failure) q->failure = base_out_of_memory();
    return bytes;
}

static uint64_t hash_members(const ring_use *u) {
    uint64_t h = (uint64_t)u->comm->nranks;
    for (int m = 0; m < u->comm->nranks; m++) h = signature_mix(h, (uint64_t)u->ranks[m]);
    return h;
}

static question question_of(const ring_use *u, const struct watched *k) {
    return (question){.ring = u->id,
                      .members = hash_members(u),
                      .peer = k->peer,
                      .index = u->comm->index,
                      .position = k->position,
                      .nentered = atomic_load(&u->inflight->nentered),
                      .is_send = k->is_send};
}

/* The instruction with which a member takes part in what is asked about, or NULL. */
static const plan_instr *part_in(const ring_use *u, const question *q) {
    if (q->peer < 0) return q->position < u->ninstrs ? u->instrs[q->position] : NULL;
    uint64_t at = q->position;
    for (size_t k = 0; k < u->npairs; k++) {
        bool is_send;
        (void)plan_is_pair(u->pairs[k], &is_send);
        if (is_send != q->is_send && op_collective_root(u->pairs[k]->op) == q->index && at-- == 0) return u->pairs[k];
    }
    return NULL;
}

/* What `rank` does instead of its part in what is asked about. */
static void answer_doing(const rank_state *rank, const plan_instr *due, answer *out) {
    message w = {.n = 0};
    char op[200];
    const stream_state *s = due ? &rank->streams[due->stream] : NULL, *next;
    if (!s || has_ended_step(rank)) {
        snprintf(out->text, sizeof out->text, "%s", s ? "has ended its step" : "has no part in it");
        return;
    }
    size_t at = position_of(s); /* read once: the rank may go on meanwhile */
    if (at > (size_t)due->position) say(&w, "past it, ");
    for (int i = 0; i < rank->plan->nstreams && at < s->ninstrs && (next = waits_for(s, at)); i++) {
        s = next;
        at = position_of(s);
    }
    if (at >= s->ninstrs) {
        say(&w, "has ended stream %s", rank->plan->stream_names[s->stream]);
    } else {
        const plan_instr *instr = s->instrs[at].instr;
        const ring_use *u = instr->ring_id >= 0 ? rings_find(rank, instr->ring_id) : NULL;
        const struct watched *in = u ? atomic_load_explicit(&u->inflight->in, memory_order_relaxed) : NULL;
        out->is_in = in && in->instr == instr && load(&u->inflight->since_ns);
        say(&w, "%s %s", out->is_in ? "in" : "at", instr_place(instr, op, sizeof op));
        if (out->is_in) {
            say(&w, " on ring %lld", (long long)u->id);
            out->its = question_of(u, in);
        }
    }
    snprintf(out->text, sizeof out->text, "%.199s", w.text);
}

static void answer_one(const rank_state *rank, const question *q, answer *out) {
    const ring_use *u = rings_find(rank, q->ring);
    *out = (answer){.index = -1};
    if (!u || hash_members(u) != q->members) return;
    out->index = u->comm->index;
    out->nentered = atomic_load(&u->inflight->nentered);
    answer_doing(rank, part_in(u, q), out);
}

/* The ranks that are missing in what is asked about, in the order of the ring. */
static int find_missing(const inquiry *i, const question *q, const answer *all, int *out_ranks) {
    int nranks = i->x->nranks, n = 0;
    for (int r = 0; r < nranks; r++) out_ranks[r] = -1;
    for (int r = 0; r < nranks; r++) {
        const answer *a = &all[r];
        if (a->index < 0 || a->index >= nranks) continue;
        bool is_missing = q->peer < 0 ? (int32_t)(a->nentered - q->nentered) < 0 : a->index == q->peer;
        if (is_missing) out_ranks[a->index] = r;
    }
    for (int m = 0; m < nranks; m++)
        if (out_ranks[m] >= 0) out_ranks[n++] = out_ranks[m];
    return n;
}

/* " for rank 1 (at matmul_v2 #3), rank 2 (has ended its step)". */
static void say_missing(inquiry *i, const question *q) {
    const weft_executor *x = i->x;
    message *w = &i->report;
    answer *mine = room(i, x->nlocal, sizeof *mine), *all = room(i, x->nranks, sizeof *all);
    int *missing = room(i, x->nranks, sizeof *missing);
    if (!mine || !all || !missing) return;
    for (int r = 0; r < x->nlocal; r++) answer_one(&x->ranks[r], q, &mine[r]);
    if (!ask_all(i, mine, sizeof *mine, all)) return;
    int nmissing = find_missing(i, q, all, missing);
    for (int k = 0; k < nmissing && k < MOST_LISTED; k++) {
        const answer *a = &all[missing[k]];
        say(w, "%s rank %d (%s", k ? "," : " for", missing[k], a->text);
        if (a->is_in && missing[k] != w->origin && ++w->nhops < MOST_HOPS) say_missing(i, &a->its);
        say(w, ")");
    }
    if (nmissing > MOST_LISTED) say(w, " and %d more", nmissing - MOST_LISTED);
    if (!nmissing) say(w, ", though all ranks have come");
}

static void measure(const overdue *o, lateness *out) {
    *out = (lateness){.seconds = (double)(wait_clock_ns() - o->since_ns) * 1e-9, .limit = (double)o->limit_ns * 1e-9};
    out->its = question_of(o->ring, o->kernel);
    (void)instr_place(o->kernel->instr, out->op, sizeof out->op);
}

/* All processes come to the same message, those that wait for nothing too. */
static weft_status inquire(inquiry *i, const overdue *o) {
    weft_executor *x = i->x;
    lateness *mine = room(i, x->nlocal, sizeof *mine), *all = room(i, x->nranks, sizeof *all);
    if (!mine || !all) return i->failure;
    if (o->rank) measure(o, &mine[o->rank->rank - x->first_rank]);
    lateness own = o->rank ? mine[o->rank->rank - x->first_rank] : (lateness){.seconds = 0};
    if (!ask_all(i, mine, sizeof *mine, all)) {
        if (!o->rank) return i->failure;
        weft_status worded = weft_status_create(
            WEFT_RUNTIME, NULL, "rank %d, %s, ring %lld: waited %.3g s (limit %.3g s); %s", o->rank->rank, own.op,
            (long long)own.its.ring, own.seconds, own.limit, weft_status_message(i->failure));
        weft_status_free(i->failure);
        return worded;
    }
    int worst = 0;
    for (int r = 1; r < x->nranks; r++)
        if (all[r].seconds > all[worst].seconds) worst = r;
    const lateness *late = &all[worst];
    i->report.origin = worst;
    if (!(late->seconds > 0)) return NULL; /* it came in the meantime */
    say_missing(i, &late->its);
    if (i->failure) return i->failure;
    return weft_status_create(WEFT_RUNTIME, NULL, "rank %d, %s, ring %lld: waited %.3g s (limit %.3g s)%s", worst,
                              late->op, (long long)late->its.ring, late->seconds, late->limit, i->report.text);
}

static weft_status overdue_error(weft_executor *x, const overdue *o) {
    inquiry i = {.x = x};
    arena_init(&i.scratch, &x->context->allocator);
    weft_status status = inquire(&i, o);
    arena_fini(&i.scratch);
    return status;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Looks at one record: overdue before any found so far it becomes *worst; else *next is when it may become so. */
static void look(const struct watchdog *d, const rank_state *rank, const ring_use *u, int64_t now, overdue *worst,
                 int64_t *next) {
    int64_t since = atomic_load_explicit(&u->inflight->since_ns, memory_order_acquire);
    if (!since) return;
    const struct watched *k = atomic_load_explicit(&u->inflight->in, memory_order_acquire);
    if (load(&u->inflight->since_ns) != since) return; /* it went on meanwhile */
    int64_t limit = watch_limit(k->history, d->least_ns, d->first_ns);
    if (now - since < limit) {
        if (since + limit < *next) *next = since + limit;
    } else if (!worst->rank || since < worst->since_ns) {
        *worst = (overdue){rank, u, k, since, limit};
    }
}

/* The collective that has lasted too long, if there is one; when to look again. */
static overdue look_at_all(const weft_executor *x, int64_t *next) {
    overdue worst = {.rank = NULL};
    int64_t now = wait_clock_ns();
    *next = now + x->watchdog->least_ns;
    for (int r = 0; r < x->nlocal; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++)
            look(x->watchdog, &x->ranks[r], &x->ranks[r].rings[i], now, &worst, next);
    return worst;
}

/* The alarm is that of another process, or this one's own: then all hear it. */
static void *watch(void *arg) {
    weft_executor *x = arg;
    for (;;) {
        int64_t next;
        overdue worst = look_at_all(x, &next);
        bool is_alarmed = worst.rank;
        if (!is_alarmed)
            is_alarmed = wait_until(&x->world->alarm, 1, NULL, (double)(next - wait_clock_ns()) * 1e-9) == WAIT_REACHED;
        if (atomic_load(&x->watchdog->stopping)) return NULL;
        if (!is_alarmed) continue;
        executor_wake(x); /* it may be that another process has stopped the run */
        if (comm_world_aborted(x->world)) return NULL;
        if (worst.rank && x->nlocal < x->nranks) comm_world_alarm(x->world);
        weft_status status = overdue_error(x, &worst);
        if (status) executor_abort(x, status);
        return NULL;
    }
}

weft_status watchdog_start(weft_executor *x) {
    if (!x->nwatched && (x->options.no_watchdog || x->nlocal == x->nranks)) return NULL;
    struct watchdog *d = ARENA_NEW(&x->arena, struct watchdog);
    if (!d) return base_out_of_memory();
    d->least_ns = (int64_t)(x->options.watchdog_seconds * 1e9);
    d->first_ns = (int64_t)(x->options.first_step_seconds * 1e9);
    x->watchdog = d;
    weft_status status = executor_thread_start(&d->thread, &x->options, watch, x);
    if (status) x->watchdog = NULL;
    return status;
}

void watchdog_stop(weft_executor *x) {
    if (!x->watchdog) return;
    atomic_store(&x->watchdog->stopping, true);
    wait_publish(&x->world->alarm, 1);
    executor_thread_join(&x->watchdog->thread);
    x->watchdog = NULL;
}
