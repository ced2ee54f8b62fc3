/* far_device.c: a device whose memory the host cannot touch, whose streams run by themselves, and which has no kernels
 * of its own.
 *
 * The idea: a thread of the host for each rank walks its instructions in the order of the plan and puts work on
 * streams. The stream waits for events, copies arguments to its scratch, runs the CPU kernel there, copies results
 * back, and sets the event. The thread never waits for a stream, but before a guarded instruction: the guard's byte has
 * to come back first. Collectives of an engine that takes streams of this device (far_engine.h) are given to it; those
 * of others run on the stream's thread.
 *
 * Kernels get copies in memory of the host, values that they read on the host among them: whether such a slot is marked
 * in ops.def (`^`) is not this device's to find. host_scalar and its like assert it (executor/kernels/typed.c), in each
 * test of a kernel, whatever the device.
 *
 * Results are those of the CPU, to the bit: same kernels, same order. */
#include "tests/support/far_device.h"

#include <stdlib.h>
#include <unistd.h>

#include "executor/devices/cpu/cpu.h"
#include "executor/watchdog.h"
#include "tests/support/far_engine.h"
#include "tests/support/far_run.h"

static _Atomic long ninstrs, ncopied_in, ncopied_out, nguards, nenqueued, nfreed_early;

far_counts far_device_counts(void) {
    return (far_counts){ninstrs, ncopied_in, ncopied_out, nguards, nenqueued, nfreed_early};
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static weft_status open_device(const weft_allocator *allocator, int nranks, device **out_device) {
    device *d = base_alloc(allocator, sizeof *d);
    if (!d) return base_out_of_memory();
    *d = (device){&device_far, allocator, nranks};
    *out_device = d;
    return NULL;
}

static void close_device(device *d) {
    base_free(d->allocator, d, sizeof *d);
}

static weft_status alloc(device *d, int rank, device_space space, size_t nbytes, device_memory *out) {
    (void)rank;
    *out = (device_memory){.space = space};
    if (!nbytes) return NULL;
    if (nbytes > SIZE_MAX / 2) return base_out_of_memory();
    out->block_nbytes = nbytes;
    if (space == DEVICE_OWN) {
        far_block *b;
        TRY(far_block_create(nbytes, &b));
        out->block = b;
        out->bytes = b->front;
        return NULL;
    }
    out->block = out->bytes = base_alloc(d->allocator, nbytes);
    if (!out->bytes) return base_out_of_memory();
    memset(out->bytes, 0, nbytes);
    return NULL;
}

static void free_memory(device *d, device_memory *m) {
    if (m->bytes && m->space == DEVICE_HOST) base_free(d->allocator, m->block, m->block_nbytes);
    if (m->bytes && m->space == DEVICE_OWN) far_block_destroy(m->block);
    *m = (device_memory){0};
}

/* An executor's memory: rings end before it goes, since a library may have told others of it. */
static void free_of_executor(device *d, device_memory *m) {
    if (m->bytes && m->space == DEVICE_OWN && far_engine_has_rings()) nfreed_early++;
    free_memory(d, m);
}

static weft_status copy_in(device *d, int rank, void *to, const void *from, size_t nbytes) {
    (void)d, (void)rank;
    ncopied_in++;
    memcpy(far_back(to), from, nbytes);
    return NULL;
}

static weft_status copy_out(device *d, int rank, void *to, const void *from, size_t nbytes) {
    (void)d, (void)rank;
    ncopied_out++;
    memcpy(to, far_back(from), nbytes);
    return NULL;
}

/* --- work on a stream --------------------------------------------------------------------------------------------- */

static bool is_aborted(const far_run *run) {
    return comm_world_aborted(run->head.executor->world);
}

static void fail(const far_command *c, weft_status status) {
    executor_fail(c->lane->run->head.executor, c->made.call.rank, c->of->instr, status);
}

/* Waits for events of other streams; false: the run was aborted. */
static bool wait_for_events(const far_command *c) {
    const plan_instr *instr = c->of->instr;
    far_run *run = c->lane->run;
    pthread_mutex_lock(&run->lock);
    for (uint32_t i = 0; i < instr->nwaits; i++)
        while (c->lane->of_rank[instr->waits[i].stream].nset < (size_t)instr->waits[i].count && !is_aborted(run))
            pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
    return !is_aborted(run);
}

static void sleep_for(const far_run *run, double seconds) {
    int64_t end = wait_clock_ns() + (int64_t)(seconds * 1e9);
    while (wait_clock_ns() < end && !is_aborted(run)) usleep(500);
}

static void await(void *arg) {
    (void)wait_for_events(arg);
}

static void begin_command(void *arg) {
    far_command *c = arg;
    c->lane->events[c->position] = (trace_event){-1, -1};
    c->has_begun = wait_for_events(c);
    if (!c->has_begun) return;
    c->lane->events[c->position].start_ns = wait_clock_ns();
    if (c->of->delay_seconds > 0) sleep_for(c->lane->run, c->of->delay_seconds);
    if (c->of->watched) c->watch_ns = watched_begin(c->of->watched);
}

static void finish(far_command *c) {
    far_lane *l = c->lane;
    l->position = c->position + 1;
    if (!c->of->signals) return;
    pthread_mutex_lock(&l->run->lock);
    l->nset = c->position + 1;
    pthread_cond_broadcast(&l->run->changed);
    pthread_mutex_unlock(&l->run->lock);
}

static void end_command(void *arg) {
    far_command *c = arg;
    if (!c->has_begun) return;
    if (c->of->watched) watched_end(c->of->watched, c->watch_ns);
    c->lane->events[c->position].end_ns = wait_clock_ns();
    if (is_aborted(c->lane->run)) return;
    ninstrs++;
    finish(c);
}

static void skip_command(void *arg) {
    far_command *c = arg;
    c->lane->events[c->position] = (trace_event){-1, -1};
    finish(c);
}

/* `round` < 0: all that the kernel does. */
static void compute(far_command *c, int round) {
    if (!c->has_begun || is_aborted(c->lane->run)) return;
    unsigned char *scratch = c->lane->scratch;
    for (size_t i = 0; i < c->nin; i++) memcpy(scratch + c->in[i].offset, c->in[i].back, c->in[i].nbytes);
    weft_status status = round < 0 ? c->made.run(&c->made.call) : c->made.rounds->work(&c->made.call, round);
    for (size_t i = 0; i < c->nout && !status; i++)
        memcpy(c->out[i].back, scratch + c->out[i].offset, c->out[i].nbytes);
    if (status) fail(c, status);
}

static void run_kernel(void *arg) {
    compute(arg, -1);
}

static void run_round(void *arg) {
    const far_round *r = arg;
    compute(r->command, r->number);
}

static void end_lane(void *arg) {
    far_run *run = ((far_lane *)arg)->run;
    pthread_mutex_lock(&run->lock);
    run->nrunning--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

/* The host decides: the byte comes back first. */
static bool is_guarded_off(const far_command *c) {
    for (int k = 0; k < 2; k++) {
        if (!c->guards[k]) continue;
        unsigned char on_host;
        memcpy(&on_host, c->guards[k], 1);
        nguards++;
        if (!on_host) return true;
    }
    return false;
}

static weft_status launch_rounds(const far_command *c) {
    const kernel_rounds *rounds = c->made.rounds;
    for (int k = 0; k <= rounds->count; k++) {
        if (rounds->work) far_stream_push(c->lane->stream, run_round, &c->rounds[k]);
        if (k == rounds->count) break;
        comm_request q;
        rounds->ask(&c->on_device, k, &q);
        TRY(comm_enqueue(c->made.call.ring, &q, c->lane->stream));
        nenqueued++;
    }
    return NULL;
}

static weft_status launch(far_command *c) {
    far_stream *s = c->lane->stream;
    if (c->guards[0] || c->guards[1]) {
        far_stream_push(s, await, c);
        far_stream_drain(s);
        if (is_aborted(c->lane->run)) return NULL;
        if (is_guarded_off(c)) {
            far_stream_push(s, skip_command, c);
            return NULL;
        }
    }
    far_stream_push(s, begin_command, c);
    if (c->is_enqueued)
        TRY(launch_rounds(c));
    else
        far_stream_push(s, run_kernel, c);
    far_stream_push(s, end_command, c);
    return NULL;
}

static void launch_step(const far_rank *r) {
    const weft_plan *plan = r->state->plan;
    for (size_t i = 0; i < plan->ninstrs && !is_aborted(r->run); i++) {
        far_command *c = &r->lanes[plan->instrs[i].stream].commands[plan->instrs[i].position];
        weft_status status = launch(c);
        if (status) fail(c, status);
    }
    for (int k = 0; k < plan->nstreams; k++) far_stream_push(r->lanes[k].stream, end_lane, &r->lanes[k]);
}

static void *launch_steps(void *arg) {
    const far_rank *r = arg;
    far_run *run = r->run;
    for (uint64_t step = 1;; step++) {
        pthread_mutex_lock(&run->lock);
        while (run->nsubmitted < step && !run->stopping) pthread_cond_wait(&run->changed, &run->lock);
        bool stops = run->stopping;
        pthread_mutex_unlock(&run->lock);
        if (stops) return NULL;
        launch_step(r);
    }
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static weft_status begin(device *d, weft_executor *x, device_run **out_run) {
    far_run *run = ARENA_NEW(&x->arena, far_run);
    if (!run) return base_out_of_memory();
    run->head = (device_run){.device = d, .executor = x};
    run->ranks = ARENA_ARRAY(&x->arena, far_rank, x->nlocal);
    if (!run->ranks) return base_out_of_memory();
    if (wait_condition_init(&run->changed) != 0) return base_out_of_memory();
    pthread_mutex_init(&run->lock, NULL);
    *out_run = &run->head;
    return NULL;
}

static weft_status start(device_run *head) {
    far_run *run = far_run_of(head);
    for (far_rank *r = run->ranks; r < run->ranks + run->nranks; r++) {
        for (int k = 0; k < r->state->plan->nstreams; k++) TRY(far_stream_create(false, &r->lanes[k].stream));
        int failed = pthread_create(&r->launcher, NULL, launch_steps, r);
        if (failed) return weft_status_create(WEFT_IO, NULL, "far: no thread: %s", strerror(failed));
        r->has_launcher = true;
    }
    return NULL;
}

static void discard_lane(device *d, far_lane *l) {
    far_stream_destroy(l->stream);
    for (size_t i = 0; l->commands && i < l->state->ninstrs; i++) free_memory(d, &l->commands[i].workspace);
    free(l->scratch);
    free(l->workspace);
}

static void discard(device_run *head) {
    far_run *run = far_run_of(head);
    pthread_mutex_lock(&run->lock);
    run->stopping = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    for (far_rank *r = run->ranks; r < run->ranks + run->nranks; r++) {
        if (r->has_launcher) pthread_join(r->launcher, NULL);
        for (int k = 0; k < r->state->plan->nstreams; k++) discard_lane(head->device, &r->lanes[k]);
    }
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
}

static size_t run_nbytes(const device_run *head) {
    (void)head;
    return 0; /* the scratch is the test's */
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void submit(device_run *head) {
    far_run *run = far_run_of(head);
    pthread_mutex_lock(&run->lock);
    run->nrunning = 0;
    for (far_rank *r = run->ranks; r < run->ranks + run->nranks; r++)
        for (int k = 0; k < r->state->plan->nstreams; k++) {
            r->lanes[k].nset = 0;
            r->lanes[k].position = 0;
            run->nrunning++;
        }
    run->nsubmitted++;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static bool wait_for_step(device_run *head, double timeout_seconds) {
    far_run *run = far_run_of(head);
    struct timespec end = wait_condition_deadline(timeout_seconds);
    pthread_mutex_lock(&run->lock);
    while (run->nrunning && pthread_cond_timedwait(&run->changed, &run->lock, &end) == 0) {
    }
    bool ended = !run->nrunning;
    pthread_mutex_unlock(&run->lock);
    return ended;
}

static void abort_run(device_run *head) {
    far_run *run = far_run_of(head);
    pthread_mutex_lock(&run->lock);
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static const far_lane *lane_of(const device_run *head, const stream_state *s) {
    const far_run *run = (const far_run *)(const void *)head;
    return &run->ranks[s->rank->rank - s->executor->first_rank].lanes[s->stream];
}

static size_t position(const device_run *head, const stream_state *s) {
    return lane_of(head, s)->position;
}

static void times(const device_run *head, const stream_state *s, trace_event *out_events, profile_cell *out_waiting) {
    memcpy(out_events, lane_of(head, s)->events, s->ninstrs * sizeof *out_events);
    *out_waiting = (profile_cell){0};
}

static weft_status measure(device *d, int nthreads, struct roofline *out_roofline) {
    return device_cpu.measure(d, nthreads, out_roofline);
}

static const char *lacks(int row) {
    return device_cpu.lacks(row);
}

const device_engine device_far = {
    .name = "far",
    .lacks = lacks,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .free = free_of_executor,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .begin = begin,
    .record = far_record,
    .start = start,
    .discard = discard,
    .nbytes = run_nbytes,
    .submit = submit,
    .wait = wait_for_step,
    .abort = abort_run,
    .position = position,
    .times = times,
    .measure = measure,
};
