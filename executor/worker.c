/* worker.c: the threads that run steps, one per stream of a rank. The caller's own thread runs the first stream: waking
 * another for it would cost more than a short step.
 *
 * The idea: a stream is an array of calls. A worker walks it; before an instruction it waits until the streams that the
 * plan names have completed so many instructions, after one it publishes its own count if the plan says that somebody
 * waits for it. Ranks meet only in collectives. Nothing here allocates, except to report a failure.
 *
 * With more workers than cores a compute stream would use up its time slice, of milliseconds, before the stream that it
 * has just given a bucket gets a core, and one rank would be done before another begins: nothing would overlap. So a
 * worker that has published yields.
 *
 * The invariant of failures: the first status that says why wins; it aborts the communicator's world and wakes every
 * stream, and a worker looks at the abort flag before each instruction and in every wait. So all workers end their step
 * in the time of the longest kernel that was running. A status that only says "stopped because another failed" is kept
 * apart: the one that caused it may be worded a moment later. */
#include <sched.h>
#include <stdio.h>

#include "executor/denormals.h"
#include "executor/group.h"
#include "executor/pool.h"
#include "executor/watchdog.h"

/* --- failures ----------------------------------------------------------------------------------------------------- */

static void keep_first(_Atomic(weft_status) *kept, weft_status status) {
    weft_status none = NULL;
    if (!atomic_compare_exchange_strong(kept, &none, status)) weft_status_free(status);
}

void workers_wake(weft_executor *x) {
    wait_wake(&x->late);
    for (int r = 0; r < x->nlocal; r++) {
        rank_state *rank = &x->ranks[r];
        for (int s = 0; s < rank->plan->nstreams; s++) wait_wake(&rank->streams[s].done);
    }
}

/* `status` may be freed as soon as it is kept: its words are copied before. */
static void stop_everyone(weft_executor *x, _Atomic(weft_status) *kept, weft_status status) {
    char words[1000];
    bool is_cause = kept == &x->failure;
    snprintf(words, sizeof words, "%s", weft_status_message(status));
    keep_first(kept, status);
    comm_world_abort(x->world, is_cause ? words : NULL);
    workers_wake(x);
}

void workers_abort(weft_executor *x, weft_status status) {
    stop_everyone(x, &x->failure, status);
}

/* `status` with rank, op and ring in front of its message. */
static weft_status name_culprit(const stream_state *s, const bound_instr *b, weft_status status) {
    if (weft_status_code(status) == WEFT_OUT_OF_MEMORY) return status;
    char op[200], on_ring[40] = "";
    if (b->instr->ring_id >= 0) snprintf(on_ring, sizeof on_ring, ", ring %lld", (long long)b->instr->ring_id);
    weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, %s%s: %s", s->rank->rank,
                                            instr_place(b->instr, op, sizeof op), on_ring, weft_status_message(status));
    weft_status_free(status);
    return worded;
}

static void fail(stream_state *s, const bound_instr *b, weft_status status) {
    weft_executor *x = s->executor;
    bool secondary = weft_status_code(status) == WEFT_CANCELLED;
    stop_everyone(x, secondary ? &x->cancellation : &x->failure, name_culprit(s, b, status));
}

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* False if the run was aborted meanwhile. */
static bool wait_for_streams(const stream_state *s, const plan_instr *instr, const _Atomic bool *aborted) {
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        wait_word *done = &s->rank->streams[instr->waits[i].stream].done;
        if (wait_until(done, (uint32_t)instr->waits[i].count, aborted, 0) != WAIT_REACHED) return false;
    }
    return true;
}

static bool is_guarded_off(const bound_instr *b) {
    return (b->outer_guard && !*b->outer_guard) || (b->guard && !*b->guard);
}

enum { NOW_UNKNOWN = 0 };

/* The first of a group runs all of it; its members' times are noted as if they had run one after another. */
static weft_status note_group(stream_state *s, size_t i, trace_event *events, int64_t start, int64_t *now) {
    size_t count = group_count(&s->instrs[i]);
    const int64_t *ns = count ? group_run_timed(&s->instrs[i]) : NULL;
    for (size_t k = 0; k < count; k++) {
        if (events) events[i + k] = (trace_event){start, start + ns[k]};
        if (s->cells) {
            s->cells[i + k].ns += ns[k];
            s->cells[i + k].count++;
        }
        start += ns[k];
    }
    *now = wait_clock_ns();
    return NULL;
}

/* Runs an instruction between two readings of the clock, of which the first is that at the end of the one before it, so
 * that a step is divided without gaps. *now is that time; NOW_UNKNOWN: read it anew. */
static weft_status run_timed(stream_state *s, size_t i, trace_event *events, int64_t *now) {
    bound_instr *b = &s->instrs[i];
    int64_t start = *now == NOW_UNKNOWN ? wait_clock_ns() : *now;
    if (b->group) return note_group(s, i, events, start, now);
    weft_status status = b->run(&b->call);
    *now = wait_clock_ns();
    if (events) events[i] = (trace_event){start, *now};
    if (s->cells) {
        s->cells[i].ns += *now - start;
        s->cells[i].count++;
    }
    return status;
}

/* Time that went by without an instruction; where a profile is kept it counts as waiting. */
static void note_waiting(stream_state *s, int64_t *now) {
    int64_t start = *now;
    *now = NOW_UNKNOWN;
    if (!s->cells) return;
    *now = wait_clock_ns();
    s->cells[s->ninstrs].ns += *now - start;
    s->cells[s->ninstrs].count++;
}

static void publish(stream_state *s, size_t i, int64_t *now) {
    wait_publish(&s->done, (uint32_t)i + 1);
    if (s->executor->shares_cores) sched_yield();
    note_waiting(s, now);
}

static trace_event *trace_slot(const weft_executor *x, const stream_state *s) {
    return timeline_slot(x->timeline, &x->timeline->ranks[s->rank->rank - x->first_rank][s->stream]);
}

static void run_step(stream_state *s) {
    weft_executor *x = s->executor;
    const _Atomic bool *aborted = x->world->aborted;
    trace_event *events = x->timeline ? trace_slot(x, s) : NULL;
    bool timed = events || s->cells;
    int64_t now = s->cells ? wait_clock_ns() : NOW_UNKNOWN;
    for (size_t i = 0; i < s->ninstrs; i++) {
        bound_instr *b = &s->instrs[i];
        atomic_store_explicit(&s->at, (uint32_t)i, memory_order_relaxed);
        if (atomic_load_explicit(aborted, memory_order_relaxed)) {
            workers_wake(x); /* another process may have stopped the run */
            return;
        }
        if (b->nwaits) {
            if (!wait_for_streams(s, b->instr, aborted)) return;
            note_waiting(s, &now);
        }
        if (is_guarded_off(b)) {
            if (events) events[i] = (trace_event){-1, -1};
        } else {
            weft_status status = timed ? run_timed(s, i, events, &now) : b->run(&b->call);
            if (status) {
                fail(s, b, status);
                return;
            }
        }
        if (b->signals) publish(s, i, &now);
    }
    atomic_store_explicit(&s->at, (uint32_t)s->ninstrs, memory_order_relaxed);
}

/* Runs the stream's part of a step. Whether it was the last to end. */
static bool run_part(stream_state *s) {
    uint64_t host_mode = denormals_flush();
    run_step(s);
    denormals_restore(host_mode);
    return atomic_fetch_sub(&s->executor->nrunning, 1) == 1;
}

static void *work(void *arg) {
    stream_state *s = arg;
    weft_executor *x = s->executor;
    for (uint32_t step = 1;; step++) {
        wait_until(&x->go, step, NULL, 0);
        if (atomic_load(&x->stopping)) return NULL;
        if (run_part(s)) wait_publish(&x->finished, step);
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static int count_workers(const weft_executor *x) {
    int count = 0;
    for (int r = 0; r < x->nlocal; r++)
        for (int i = 0; i < x->ranks[r].plan->nstreams; i++) count += x->ranks[r].streams[i].ninstrs > 0;
    return count;
}

/* Every rank gets its nthreads - 1 helpers, but several ranks share those that the cores can carry. */
static int count_helpers(const weft_executor *x) {
    int64_t own = x->options.nthreads - 1, wanted = own * x->nlocal, most = thread_pool_cores() - 1;
    if (most < own) most = own;
    return (int)(wanted < most ? wanted : most);
}

static weft_status start_pool(weft_executor *x) {
    int nworkers = count_workers(x), nhelpers = count_helpers(x), member = 0;
    if (nhelpers < 1 || nworkers < 1) return NULL;
    TRY(thread_pool_create(&x->context->allocator, nhelpers, nworkers, nworkers + nhelpers <= thread_pool_cores(),
                           &x->pool));
    for (int r = 0; r < x->nlocal; r++)
        for (int i = 0; i < x->ranks[r].plan->nstreams; i++) {
            stream_state *s = &x->ranks[r].streams[i];
            for (size_t k = 0; k < s->ninstrs; k++) s->instrs[k].call.slot = thread_pool_slot(x->pool, member);
            member += s->ninstrs > 0;
        }
    return NULL;
}

static weft_status start_worker(stream_state *s) {
    int failed = pthread_create(&s->thread, NULL, work, s);
    if (failed)
        return weft_status_create(WEFT_IO, NULL, "rank %d, stream %s: cannot start a thread: %s", s->rank->rank,
                                  s->rank->plan->stream_names[s - s->rank->streams], strerror(failed));
    s->has_thread = true;
    return NULL;
}

weft_status workers_start(weft_executor *x) {
    TRY(start_pool(x));
    for (int r = 0; r < x->nlocal; r++) {
        rank_state *rank = &x->ranks[r];
        for (int i = 0; i < rank->plan->nstreams; i++) {
            stream_state *s = &rank->streams[i];
            if (!s->ninstrs) continue;
            if (x->callers)
                TRY(start_worker(s));
            else
                x->callers = s;
            x->nworkers++;
        }
    }
    x->shares_cores = (int64_t)x->nworkers > thread_pool_cores();
    return NULL;
}

void workers_stop(weft_executor *x) {
    atomic_store(&x->stopping, true);
    wait_publish(&x->go, atomic_load(&x->go.value) + 1);
    for (int r = 0; r < x->nlocal && x->ranks; r++) {
        rank_state *rank = &x->ranks[r];
        for (int i = 0; rank->streams && i < rank->plan->nstreams; i++) {
            if (rank->streams[i].has_thread) pthread_join(rank->streams[i].thread, NULL);
            rank->streams[i].has_thread = false;
        }
    }
}

static void reset_streams(weft_executor *x) {
    for (int r = 0; r < x->nlocal; r++) {
        rank_state *rank = &x->ranks[r];
        for (int i = 0; i < rank->plan->nstreams; i++) {
            atomic_store(&rank->streams[i].done.value, 0);
            atomic_store(&rank->streams[i].at, 0);
        }
    }
}

/* The words of the process that stopped the run, where it told them. */
static weft_status stopped_elsewhere(const weft_executor *x) {
    const char *why = comm_world_why(x->world);
    if (!why && x->nlocal == x->nranks) return NULL;
    return weft_status_create(WEFT_RUNTIME, NULL, "%s", why ? why : "another process stopped the run");
}

weft_status weft_executor_run(weft_executor *x) {
    if (x->has_failed) {
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "the executor failed in an earlier step: destroy it");
    }
    if (x->timeline) TRY(timeline_reserve(x->timeline));
    profile_begin_step(x);
    reset_streams(x);
    x->start_ns = wait_clock_ns();
    if (x->nworkers) {
        uint32_t step = atomic_load(&x->go.value) + 1;
        atomic_store(&x->nrunning, x->nworkers);
        wait_publish(&x->go, step);
        if (!run_part(x->callers)) wait_until(&x->finished, step, NULL, 0);
    }
    x->end_ns = wait_clock_ns();
    weft_status failure = atomic_exchange(&x->failure, NULL), cancelled = atomic_exchange(&x->cancellation, NULL);
    if (!failure && comm_world_aborted(x->world)) failure = stopped_elsewhere(x);
    x->has_failed = failure || cancelled;
    if (!x->has_failed) {
        x->nsteps++;
        x->step++;
        if (x->timeline) timeline_end_step(x->timeline);
        profile_count_step(x);
        watchdog_end_step(x);
    }
    if (!failure) return cancelled;
    weft_status_free(cancelled);
    return failure;
}
