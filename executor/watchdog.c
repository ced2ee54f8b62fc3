/* watchdog.c: ends a run in which a collective waits too long, and says for whom.
 *
 * The idea: whoever runs a collective lights a beacon before and puts it out after; workers note which instruction they
 * are at. A thread of its own looks at that, and communicates over nothing that could hang itself. It need not look
 * often: nothing that is not lit now can be too old before the least limit has passed, so it sleeps that long, or until
 * the oldest beacon is due.
 *
 * Members of a ring run the same collectives on it (agree.c), so whoever has entered fewer than the one who waits is
 * missing. What it does instead is where the stream stands that should bring it there, or the stream that this one
 * waits for.
 *
 * The limit follows the run: 3 times what 95 of the last 100 steps stayed below, and never less than the floor; until
 * a type of op has ended once on the ring, in the first step mostly, a limit of its own holds. Steps allocate nothing,
 * lock nothing, and read the clock twice a collective. */
#include "executor/watchdog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct watched_kernel {
    kernel_run_fn run;
    void *state;
    const plan_instr *instr;
    size_t position; /* among the collectives of the ring, in program order */
    inflight_record *inflight;
    watch_history *history;
} watched_kernel;

struct watchdog {
    pthread_t thread;
    wait_word stop;
    int64_t least_ns, first_ns;
};

/* A collective that has lasted too long, on `rank`. */
typedef struct overdue {
    const rank_state *rank;
    const ring_use *ring;
    const watched_kernel *kernel;
    int64_t since_ns, limit_ns;
} overdue;

static int64_t load(const _Atomic int64_t *at) {
    return atomic_load_explicit(at, memory_order_relaxed);
}

static void store(_Atomic int64_t *at, int64_t value) {
    atomic_store_explicit(at, value, memory_order_relaxed);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t watch_limit(const watch_history *h, int64_t least_ns, int64_t first_ns) {
    int64_t sorted[WATCH_STEPS];
    uint32_t nsteps = atomic_load(&h->nsteps), n = nsteps < WATCH_STEPS ? nsteps : WATCH_STEPS;
    if (!n) return first_ns;
    for (uint32_t i = 0; i < n; i++) sorted[i] = load(&h->steps_ns[i]);
    qsort(sorted, n, sizeof *sorted, by_value);
    int64_t usual = sorted[(n * 95 + 99) / 100 - 1];
    return usual > least_ns / 3 ? 3 * usual : least_ns;
}

void watch_note(watch_history *h, int64_t ns) {
    if (ns > load(&h->longest_ns)) store(&h->longest_ns, ns);
}

void watch_end_step(watch_history *h) {
    uint32_t nsteps = atomic_load(&h->nsteps);
    int64_t longest = load(&h->longest_ns);
    if (!longest) return; /* it did not run */
    store(&h->steps_ns[nsteps % WATCH_STEPS], longest);
    store(&h->longest_ns, 0);
    atomic_store(&h->nsteps, nsteps + 1);
}

/* --- beacons ------------------------------------------------------------------------------------------------------ */

static weft_status run_watched(const kernel_call *c) {
    const watched_kernel *w = c->state;
    inflight_record *b = w->inflight;
    kernel_call call = *c;
    call.state = w->state;
    int64_t start = wait_clock_ns();
    atomic_store_explicit(&b->in, w, memory_order_release);
    uint32_t nentered = atomic_load_explicit(&b->nentered, memory_order_relaxed);
    atomic_store_explicit(&b->nentered, nentered + 1, memory_order_relaxed);
    atomic_store_explicit(&b->since_ns, start, memory_order_release);
    weft_status status = w->run(&call);
    atomic_store_explicit(&b->since_ns, 0, memory_order_release);
    watch_note(w->history, wait_clock_ns() - start);
    return status;
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

weft_status watchdog_bind(weft_executor *x, const rank_state *rank, bound_instr *b) {
    if (x->options.no_watchdog || b->instr->ring_id < 0) return NULL;
    const ring_use *u = rings_find(rank, b->instr->ring_id);
    if (!u || u->comm->nranks < 2) return NULL;
    watched_kernel *w = ARENA_NEW(&x->arena, watched_kernel);
    watch_history *h = history_of(x, u->inflight, b->instr->schema);
    if (!w || !h) return base_out_of_memory();
    *w = (watched_kernel){b->run, b->call.state, b->instr, 0, u->inflight, h};
    while (u->instrs[w->position] != b->instr) w->position++;
    b->run = run_watched;
    b->call.state = w;
    x->nwatched++;
    return NULL;
}

void watchdog_end_step(weft_executor *x) {
    for (int r = 0; x->watchdog && r < x->nranks; r++)
        for (size_t i = 0; i < x->ranks[r].nrings; i++)
            for (watch_history *h = x->ranks[r].rings[i].inflight->histories; h; h = h->next) watch_end_step(h);
}

/* --- who is missing ----------------------------------------------------------------------------------------------- */

enum { MOST_LISTED = 4, MOST_HOPS = 4 };

typedef struct words {
    char text[900];
    size_t n;
    int origin; /* the rank that all this is about: a circle ends there */
    int nhops;  /* waits in waits */
} words;

static void say(words *w, const char *format, ...) WEFT_PRINTF(2, 3);
static void say(words *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->text + w->n, sizeof w->text - w->n, format, args);
    va_end(args);
    if (n > 0) w->n += (size_t)n;
    if (w->n >= sizeof w->text) w->n = sizeof w->text - 1;
}

static size_t position_of(const stream_state *s) {
    return atomic_load_explicit(&s->at, memory_order_relaxed);
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

static void say_missing(const weft_executor *x, words *w, const ring_use *u, const watched_kernel *k);

/* What `rank` does instead of collective `k` of ring `id`. */
static void say_doing(const weft_executor *x, words *w, const rank_state *rank, int64_t id, const watched_kernel *k) {
    char op[200];
    const plan_instr *due = rings_find(rank, id)->instrs[k->position];
    const stream_state *s = &rank->streams[due->stream], *next;
    if (has_ended_step(rank)) {
        say(w, "has ended its step");
        return;
    }
    size_t at = position_of(s); /* read once: the rank may go on meanwhile */
    if (at > (size_t)due->position) say(w, "past it, ");
    for (int i = 0; i < rank->plan->nstreams && at < s->ninstrs && (next = waits_for(s, at)); i++) {
        s = next;
        at = position_of(s);
    }
    if (at >= s->ninstrs) {
        say(w, "has ended stream %s", rank->plan->stream_names[s->stream]);
        return;
    }
    const plan_instr *instr = s->instrs[at].instr;
    const ring_use *u = instr->ring_id >= 0 ? rings_find(rank, instr->ring_id) : NULL;
    const watched_kernel *in = u ? atomic_load_explicit(&u->inflight->in, memory_order_relaxed) : NULL;
    bool is_in = in && in->instr == instr && load(&u->inflight->since_ns);
    say(w, "%s %s", is_in ? "in" : "at", instr_place(instr, op, sizeof op));
    if (!is_in) return;
    say(w, " on ring %lld", (long long)u->id);
    if (rank->rank != w->origin && ++w->nhops < MOST_HOPS) say_missing(x, w, u, in);
}

/* " for rank 1 (at matmul_v2 #3), rank 2 (has ended its step)": who has entered fewer collectives of the ring. */
static void say_missing(const weft_executor *x, words *w, const ring_use *u, const watched_kernel *k) {
    uint32_t nentered = atomic_load(&u->inflight->nentered);
    int nmissing = 0;
    for (int m = 0; m < u->comm->nranks; m++) {
        const rank_state *member = &x->ranks[u->ranks[m]];
        uint32_t its = atomic_load(&rings_find(member, u->id)->inflight->nentered);
        if ((int32_t)(its - nentered) >= 0) continue;
        if (++nmissing > MOST_LISTED) continue;
        say(w, "%s rank %d (", nmissing == 1 ? " for" : ",", member->rank);
        say_doing(x, w, member, u->id, k);
        say(w, ")");
    }
    if (nmissing > MOST_LISTED) say(w, " and %d more", nmissing - MOST_LISTED);
    if (!nmissing) say(w, ", though all ranks have come");
}

static weft_status word(const weft_executor *x, const overdue *o) {
    words w = {.origin = o->rank->rank};
    char op[200];
    double seconds = (double)(wait_clock_ns() - o->since_ns) * 1e-9;
    say_missing(x, &w, o->ring, o->kernel);
    return weft_status_create(WEFT_RUNTIME, NULL, "rank %d, %s, ring %lld: waited %.3g s (limit %.3g s)%s",
                              o->rank->rank, instr_place(o->kernel->instr, op, sizeof op), (long long)o->ring->id,
                              seconds, (double)o->limit_ns * 1e-9, w.text);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Looks at one beacon: overdue before any found so far it becomes *worst; else *next is when it may become so. */
static void look(const struct watchdog *d, const rank_state *rank, const ring_use *u, int64_t now, overdue *worst,
                 int64_t *next) {
    int64_t since = atomic_load_explicit(&u->inflight->since_ns, memory_order_acquire);
    if (!since) return;
    const watched_kernel *k = atomic_load_explicit(&u->inflight->in, memory_order_acquire);
    if (load(&u->inflight->since_ns) != since) return; /* it went on meanwhile */
    int64_t limit = watch_limit(k->history, d->least_ns, d->first_ns);
    if (now - since < limit) {
        if (since + limit < *next) *next = since + limit;
    } else if (!worst->rank || since < worst->since_ns) {
        *worst = (overdue){rank, u, k, since, limit};
    }
}

static void *watch(void *arg) {
    weft_executor *x = arg;
    struct watchdog *d = x->watchdog;
    for (;;) {
        int64_t now = wait_clock_ns(), next = now + d->least_ns;
        overdue worst = {0};
        for (int r = 0; r < x->nranks; r++)
            for (size_t i = 0; i < x->ranks[r].nrings; i++)
                look(d, &x->ranks[r], &x->ranks[r].rings[i], now, &worst, &next);
        if (worst.rank) {
            workers_abort(x, word(x, &worst));
            return NULL;
        }
        if (wait_until(&d->stop, 1, NULL, (double)(next - now) * 1e-9) == WAIT_REACHED) return NULL;
    }
}

weft_status watchdog_start(weft_executor *x) {
    if (!x->nwatched) return NULL;
    struct watchdog *d = ARENA_NEW(&x->arena, struct watchdog);
    if (!d) return base_out_of_memory();
    d->least_ns = (int64_t)(x->options.watchdog_seconds * 1e9);
    d->first_ns = (int64_t)(x->options.first_step_seconds * 1e9);
    x->watchdog = d;
    int failed = pthread_create(&d->thread, NULL, watch, x);
    if (!failed) return NULL;
    x->watchdog = NULL;
    return weft_status_create(WEFT_IO, NULL, "cannot start a thread: %s", strerror(failed));
}

void watchdog_stop(weft_executor *x) {
    if (!x->watchdog) return;
    wait_publish(&x->watchdog->stop, 1);
    pthread_join(x->watchdog->thread, NULL);
    x->watchdog = NULL;
}
