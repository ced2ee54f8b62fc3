/* worker.c: the threads that run steps, one per stream of a rank. The caller's own thread runs the first stream: waking
 * another for it would cost more than a short step.
 *
 * The idea: a stream is an array of calls. A worker walks it; before an instruction it waits until the streams that the
 * plan names have completed so many instructions. After one it publishes its own count if the plan says that somebody
 * waits for it. Ranks meet only in collectives. Nothing here allocates, except to word a failure.
 *
 * With more workers than cores a compute stream would use up its time slice, of milliseconds. Only then would the
 * stream that it has just given a bucket get a core. One rank would be done before another begins: nothing would
 * overlap. So a worker that has published yields. A stream of collectives that has slept until its peers or data came
 * must not wait for the end of a slice either: it computes little, and holds up all ranks. So it asks for short slices.
 * By these Linux 6.12 and later lets it go first when it wakes.
 *
 * The invariant of failures: a worker looks at the world's abort flag before each instruction and in every wait, and
 * cpu_abort wakes every stream. So all workers end their step in the time of the longest kernel that was running. */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "executor/devices/cpu/cpu.h"
#include "executor/devices/cpu/denormals.h"
#include "executor/devices/cpu/pool.h"

#define FOR_EACH_STREAM(s, run)                                                                                        \
    for (int s##_r = 0; s##_r < (run)->nranks; s##_r++)                                                                \
        for (cpu_stream *s = (run)->ranks[s##_r], *s##_end = s + cpu_nstreams(run, s##_r); s < s##_end; s++)

/* --- a step ------------------------------------------------------------------------------------------------------- */

/* False if the run was aborted meanwhile. */
static bool wait_for_streams(const cpu_stream *s, const plan_instr *instr, const _Atomic bool *aborted) {
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        wait_word *done = &s->of_rank[instr->waits[i].stream].done;
        if (wait_until(done, (uint32_t)instr->waits[i].count, aborted, WAIT_FOREVER) != WAIT_REACHED) return false;
    }
    return true;
}

static bool is_guarded_off(const cpu_call *b) {
    return (b->outer_guard && !*b->outer_guard) || (b->guard && !*b->guard);
}

/* The first of a group runs all of it; its members' times are noted as if they had run one after another. */
static void note_group(cpu_stream *s, size_t i, int64_t start) {
    size_t count = cpu_group_count(&s->calls[i]);
    const int64_t *ns = count ? cpu_group_run_timed(&s->calls[i]) : NULL;
    for (size_t k = 0; k < count; k++) {
        s->events[i + k] = (trace_event){start, start + ns[k]};
        start += ns[k];
    }
}

/* Runs a call between two readings of the clock. The first is that at the end of the call before it, *now, so that a
 * step is divided without gaps. */
static weft_status run_timed(cpu_stream *s, size_t i, int64_t *now) {
    cpu_call *b = &s->calls[i];
    int64_t start = *now;
    weft_status status = NULL;
    if (b->group)
        note_group(s, i, start);
    else
        status = b->run(&b->call);
    *now = wait_clock_ns();
    if (!b->group) s->events[i] = (trace_event){start, *now};
    return status;
}

/* Time that went by without an instruction. */
static void note_waiting(cpu_stream *s, int64_t *now) {
    if (!s->events) return;
    int64_t start = *now;
    *now = wait_clock_ns();
    s->waiting.ns += *now - start;
    s->waiting.count++;
}

static void publish(cpu_stream *s, size_t i, int64_t *now) {
    wait_publish(&s->done, (uint32_t)i + 1);
    if (s->run->shares_cores) sched_yield();
    note_waiting(s, now);
}

static void run_step(cpu_stream *s) {
    weft_executor *x = s->run->head.executor;
    const _Atomic bool *aborted = x->world->aborted;
    bool timed = s->events;
    int64_t now = timed ? wait_clock_ns() : 0;
    for (size_t i = 0; i < s->ncalls; i++) {
        cpu_call *b = &s->calls[i];
        atomic_store_explicit(&s->at, (uint32_t)i, memory_order_relaxed);
        if (atomic_load_explicit(aborted, memory_order_relaxed)) {
            cpu_abort(&s->run->head); /* another process may have stopped the run */
            return;
        }
        if (b->nwaits) {
            if (!wait_for_streams(s, b->instr, aborted)) return;
            note_waiting(s, &now);
        }
        if (is_guarded_off(b)) {
            if (timed) s->events[i] = (trace_event){-1, -1};
        } else {
            weft_status status = timed ? run_timed(s, i, &now) : b->run(&b->call);
            if (status) {
                executor_fail(x, s->state->rank->rank, b->instr, status);
                return;
            }
        }
        if (b->signals) publish(s, i, &now);
    }
    atomic_store_explicit(&s->at, (uint32_t)s->ncalls, memory_order_relaxed);
}

/* Runs the stream's part of a step. Whether it was the last to end. */
static bool run_part(cpu_stream *s) {
    uint64_t host_mode = denormals_flush();
    run_step(s);
    denormals_restore(host_mode);
    return atomic_fetch_sub(&s->run->nrunning, 1) == 1;
}

/* As linux/sched/types.h has it, which not every libc knows. */
typedef struct slice_request {
    uint32_t nbytes, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline, period;
    uint32_t least, most;
} slice_request;

/* Where the kernel knows no slices nothing changes. */
static void ask_for_short_slices(void) {
    enum { SLICE_NS = 100000 };
    slice_request r = {.nbytes = sizeof r};
    if (syscall(SYS_sched_getattr, 0, &r, sizeof r, 0) != 0 || r.policy != SCHED_OTHER) return;
    r.slice_ns = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &r, 0);
}

static void *work(void *arg) {
    cpu_stream *s = arg;
    cpu_run *run = s->run;
    bool asks = s->state->stream != 0 && !run->head.executor->options.spawn; /* a lent thread is the host's */
    for (uint32_t turn = 1;; turn++) {
        wait_until(&run->go, turn, NULL, WAIT_FOREVER);
        if (atomic_load(&run->stopping)) return NULL;
        if (asks && run->shares_cores) ask_for_short_slices();
        asks = asks && !run->shares_cores;
        if (run_part(s)) wait_publish(&run->finished, turn);
    }
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static int count_workers(const cpu_run *run) {
    int count = 0;
    FOR_EACH_STREAM(s, run) count += s->ncalls > 0;
    return count;
}

/* Every rank gets its nthreads - 1 helpers, but several ranks share those that the cores can carry. */
static int count_helpers(const cpu_run *run) {
    int64_t own = run->head.executor->options.nthreads - 1, wanted = own * run->nranks, most = thread_pool_cores() - 1;
    if (most < own) most = own;
    return (int)(wanted < most ? wanted : most);
}

static weft_status start_pool(cpu_run *run) {
    int nworkers = count_workers(run), nhelpers = count_helpers(run), member = 0;
    if (nhelpers < 1 || nworkers < 1) return NULL;
    TRY(thread_pool_create(run->head.device->allocator, &run->head.executor->options, nhelpers, nworkers,
                           nworkers + nhelpers <= thread_pool_cores(), &run->pool));
    FOR_EACH_STREAM(s, run) {
        for (size_t k = 0; k < s->ncalls; k++) s->calls[k].call.slot = thread_pool_slot(run->pool, member);
        member += s->ncalls > 0;
    }
    return NULL;
}

static weft_status start_worker(cpu_stream *s) {
    const rank_state *rank = s->state->rank;
    weft_status status = executor_thread_start(&s->thread, &s->run->head.executor->options, work, s);
    if (!status) return NULL;
    weft_status worded = weft_status_create(weft_status_code(status), NULL, "rank %d, stream %s: %s", rank->rank,
                                            rank->plan->stream_names[s->state->stream], weft_status_message(status));
    weft_status_free(status);
    return worded;
}

weft_status cpu_start(device_run *head) {
    cpu_run *run = cpu_run_of(head);
    TRY(start_pool(run));
    FOR_EACH_STREAM(s, run) {
        if (!s->ncalls) continue;
        if (run->callers)
            TRY(start_worker(s));
        else
            run->callers = s;
        run->nworkers++;
    }
    run->shares_cores = (int64_t)run->nworkers > thread_pool_cores();
    return NULL;
}

void cpu_stop(cpu_run *run) {
    atomic_store(&run->stopping, true);
    wait_publish(&run->go, atomic_load(&run->go.value) + 1);
    FOR_EACH_STREAM(s, run) executor_thread_join(&s->thread);
}

/* --- steps as the executor asks for them -------------------------------------------------------------------------- */

void cpu_submit(device_run *head) {
    cpu_run *run = cpu_run_of(head);
    FOR_EACH_STREAM(s, run) {
        atomic_store(&s->done.value, 0);
        atomic_store(&s->at, 0);
        s->waiting = (profile_cell){0};
    }
    run->caller_has_run = false;
    atomic_store(&run->nrunning, run->nworkers);
    if (run->nworkers) wait_publish(&run->go, atomic_load(&run->go.value) + 1);
}

bool cpu_wait(device_run *head, double timeout_seconds) {
    cpu_run *run = cpu_run_of(head);
    if (!run->nworkers) return true;
    uint32_t turn = atomic_load(&run->go.value);
    if (!run->caller_has_run) {
        run->caller_has_run = true;
        if (run_part(run->callers)) wait_publish(&run->finished, turn);
    }
    return wait_until(&run->finished, turn, NULL, timeout_seconds) == WAIT_REACHED;
}

void cpu_abort(device_run *head) {
    cpu_run *run = cpu_run_of(head);
    wait_wake(&run->late);
    FOR_EACH_STREAM(s, run) wait_wake(&s->done);
}
