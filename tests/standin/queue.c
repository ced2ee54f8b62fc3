#include "executor/comm/wait.h"
#include "tests/standin/graphs.h"
#include "tests/support/draw.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* initialised as the library is loaded */
static standin_stream *streams;
static standin_stream *running; /* whose item some thread runs */
static uint64_t seed;
static uint64_t nchanges; /* items that came or went */
static _Atomic int alive[STANDIN_KINDS];

void standin_lock(void) {
    pthread_mutex_lock(&lock);
}
void standin_unlock(void) {
    pthread_mutex_unlock(&lock);
}

void standin_broken(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("stand-in: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    fflush(stderr);
    abort();
}

/* --- virtual time ------------------------------------------------------------------------------------------------- */

static _Thread_local int64_t host_ns; /* what a thread of it has seen the end of */

bool standin_clock_is_virtual(void) {
    const char *asked = getenv("WEFT_STANDIN_CLOCK");
    return asked && *asked;
}

void standin_host_waits(int64_t ns) {
    if (ns > host_ns) host_ns = ns;
}

int64_t standin_stream_ns(cudaStream_t stream) {
    const standin_stream *s = (const standin_stream *)(void *)stream;
    return s->ns;
}

int64_t standin_item_ns(const standin_item *item) {
    int64_t ns = standin_stream_ns(item->stream);
    return ns > item->given_ns ? ns : item->given_ns;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

enum { MOST_NAMED = 8 };

/* Whether this is a call that a variable names: CALL:N, or several of these, apart by commas. Each is counted; of N 0
 * it is any. */
static bool is_named(const char *variable, const char *call, _Atomic int *ncalls) {
    size_t n = strlen(call);
    const char *text = getenv(variable);
    for (int k = 0; text && k < MOST_NAMED; k++) {
        int wanted = strncmp(text, call, n) == 0 && text[n] == ':' ? atoi(text + n + 1) : -1;
        if (wanted == 0 || (wanted > 0 && ++ncalls[k] == wanted)) return true;
        text = strchr(text, ',');
        if (text) text++;
    }
    return false;
}

bool standin_fails(const char *call) {
    static _Atomic int ncalls[MOST_NAMED];
    bool fails = is_named("WEFT_STANDIN_FAIL", call, ncalls);
    if (fails && getenv("WEFT_STANDIN_TELL")) fprintf(stderr, "stand-in: %s fails\n", call);
    return fails;
}

bool standin_loses(const char *call) {
    static _Atomic int ncalls[MOST_NAMED];
    return is_named("WEFT_STANDIN_LOSE", call, ncalls);
}

bool standin_bends(const char *way) {
    static _Atomic int ncalls[MOST_NAMED];
    return is_named("WEFT_STANDIN_BEND", way, ncalls);
}

bool standin_ends_early(const char *call) {
    static _Atomic int ncalls[MOST_NAMED];
    return is_named("WEFT_STANDIN_EARLY", call, ncalls);
}

/* --- leaks -------------------------------------------------------------------------------------------------------- */

void standin_count(standin_kind kind, int change) {
    alive[kind] += change;
}

SHOWN void standin_seed(unsigned given);
void standin_seed(unsigned given) {
    standin_lock();
    seed = (uint64_t)given * 2 + 1;
    standin_unlock();
}

__attribute__((constructor)) static void read_seed(void) {
    const char *given = getenv("WEFT_STANDIN_SEED");
    standin_seed(given ? (unsigned)strtoul(given, NULL, 10) : 0);
}

__attribute__((constructor)) static void init_changed(void) {
    if (wait_condition_init(&changed)) abort();
}

__attribute__((destructor)) static void report_leaks(void) {
    static const char *const names[] = {"streams",           "events",      "blocks of memory", "libraries", "graphs",
                                        "executable graphs", "descriptors", "handles of cuDNN"};
    for (int k = 0; k < STANDIN_KINDS; k++)
        if (alive[k]) standin_broken("%d %s left at the end", alive[k], names[k]);
}

/* --- what streams run --------------------------------------------------------------------------------------------- */

static bool can_go(const standin_stream *s) {
    return s->first && (!s->launched || standin_node_can_go(s)) && (!s->first->can_go || s->first->can_go(s->first));
}

/* Where the list has it; what is there is NULL: it was destroyed. */
static standin_stream **place_of(const standin_stream *s) {
    standin_stream **at = &streams;
    while (*at && *at != s) at = &(*at)->next;
    return at;
}

static void remove_stream(const standin_stream *s) {
    standin_stream **at = place_of(s);
    if (!*at) standin_broken("no such stream");
    *at = s->next;
}

/* With the lock, while nobody else runs something. */
static void run_first(standin_stream *s) {
    standin_item *item = s->first;
    running = s;
    item->start_ns = s->ns > item->given_ns ? s->ns : item->given_ns;
    standin_unlock();
    item->run(item);
    standin_lock();
    s->ns = item->start_ns + item->cost_ns;
    running = NULL;
    nchanges++;
    s->first = item->next;
    if (!s->first) s->end = &s->first;
    free(item);
    if (s->launched) {
        remove_stream(s);
        standin_node_ends(s);
        free(s);
    }
    pthread_cond_broadcast(&changed);
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

void standin_stream_add(standin_stream *s) {
    s->next = streams;
    streams = s;
    nchanges++;
}

standin_stream *standin_stream_create(int priority) {
    standin_stream *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->priority = priority;
    s->end = &s->first;
    standin_lock();
    s->slot = standin_slot_take();
    s->clock = standin_host;
    standin_stream_add(s);
    standin_unlock();
    standin_count(STANDIN_STREAMS, 1);
    return s;
}

void standin_stream_destroy(standin_stream *s) {
    standin_lock();
    while (running) pthread_cond_wait(&changed, &lock); /* what it did last is seen before it has ended */
    if (s->first) standin_broken("a stream is destroyed that has work: %s", s->first->what);
    if (s->clock.at[s->slot] > standin_host.at[s->slot])
        standin_broken("a stream is destroyed, and nobody has seen the end of its last work");
    if (s->capture) standin_broken("a stream is destroyed that captures");
    remove_stream(s);
    standin_slot_give(s->slot);
    standin_unlock();
    free(s);
    standin_count(STANDIN_STREAMS, -1);
}

void standin_release_captured(uint64_t capture) {
    for (standin_stream *s = streams; s; s = s->next)
        if (s->capture == capture) s->capture = 0;
}

bool standin_stream_is_idle(const standin_stream *s) {
    return !s->first;
}

standin_item *standin_item_create(const char *what, size_t nbytes) {
    standin_item *item = calloc(1, sizeof *item + nbytes);
    if (!item) abort();
    item->what = what;
    item->nbytes = nbytes;
    return item;
}

standin_clock *standin_stream_clock(cudaStream_t stream) {
    return &((standin_stream *)(void *)stream)->clock;
}

void standin_push_locked(cudaStream_t stream, standin_item *item) {
    standin_stream *s = (standin_stream *)(void *)stream;
    if (!s) standin_broken("the legacy stream: expected one of the device's own");
    if (!*place_of(s)) standin_broken("%s comes to a stream that was destroyed", item->what);
    item->stream = stream;
    if (s->capture) {
        standin_capture_item(s, item);
        return;
    }
    item->slot = s->slot;
    item->given_ns = host_ns;
    standin_clock_join(&s->clock, &standin_host);
    standin_clock_tick(&s->clock, s->slot, item->what);
    item->clock = s->clock;
    *s->end = item;
    s->end = &item->next;
    nchanges++;
    pthread_cond_broadcast(&changed);
}

void standin_push(cudaStream_t stream, standin_item *item) {
    standin_lock();
    standin_push_locked(stream, item);
    standin_unlock();
}

int *standin_group_depth(void) {
    static _Thread_local int depth;
    return &depth;
}

void standin_check_group(const char *call) {
    if (*standin_group_depth()) standin_broken("%s within a group, whose collectives are not launched yet", call);
}

/* --- streams that wait for one another ---------------------------------------------------------------------------- */

enum { UNSEEN, OPEN, DONE };

/* The k-th stream that the head of one waits for. */
static cudaStream_t blocker(const standin_stream *s, int k) {
    if (s->launched && !standin_node_can_go(s)) return standin_node_waits_for(s, k);
    return s->first && s->first->waits_for ? s->first->waits_for(s->first, k) : NULL;
}

static void print_cycle(const standin_stream *from) {
    const standin_stream *s = from;
    char text[2000] = "";
    do {
        const standin_stream *next = NULL;
        cudaStream_t t;
        for (int k = 0; !next && (t = blocker(s, k)); k++)
            if (((standin_stream *)(void *)t)->mark == OPEN) next = (standin_stream *)(void *)t;
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%sstream %d (%s)", n ? " waits for " : "", s->slot, s->first->what);
        s = next;
    } while (s && s != from);
    standin_broken("nothing can go: %s waits for stream %d", text, from->slot);
}

/* Heads of streams wait for all that they wait for, so that a cycle never ends. */
static void seek_cycle(standin_stream *s) {
    cudaStream_t t;
    s->mark = OPEN;
    for (int k = 0; (t = blocker(s, k)); k++) {
        standin_stream *next = (standin_stream *)(void *)t;
        if (next->mark == OPEN) print_cycle(next);
        if (next->mark == UNSEEN) seek_cycle(next);
    }
    s->mark = DONE;
}

static void seek_cycles(void) {
    static uint64_t seen;
    if (seen == nchanges) return;
    seen = nchanges;
    for (standin_stream *s = streams; s; s = s->next) s->mark = UNSEEN;
    for (standin_stream *s = streams; s; s = s->next)
        if (s->mark == UNSEEN) seek_cycle(s);
}

/* --- the scheduler ------------------------------------------------------------------------------------------------ */

/* One of the streams whose head can go; NULL: none can. The last one goes on mostly: far ahead of the others it meets
 * what they have not done yet. */
static standin_stream *choose(void) {
    static standin_stream *last;
    standin_stream *chosen = NULL;
    uint32_t n = 0;
    bool goes_on = draw_next(&seed) % 8 != 0;
    for (standin_stream *s = streams; s; s = s->next) {
        if (!can_go(s)) continue;
        if (goes_on && s == last) return s;
        if (draw_next(&seed) % ++n == 0) chosen = s;
    }
    last = chosen;
    return chosen;
}

/* With the lock; false: nothing can go, or another thread runs something. */
static bool run_one(void) {
    standin_stream *s = running ? NULL : choose();
    if (!s && !running) s = choose(); /* whom one that was asked later has let go */
    if (!s && !running) seek_cycles();
    if (!s) return false;
    run_first(s);
    return true;
}

int standin_run(int most) {
    int n = 0;
    standin_lock();
    while (n < most && run_one()) n++;
    standin_unlock();
    return n;
}

/* Until something changes: in another process too, or by the end of a communicator, which tells nobody. */
static void pause_briefly(void) {
    struct timespec until = wait_condition_deadline(0.001);
    pthread_cond_timedwait(&changed, &lock, &until);
}

void standin_run_until(bool (*is_done)(void *arg), void *arg) {
    standin_lock();
    while (!is_done(arg))
        if (!run_one()) pause_briefly();
    standin_unlock();
}
