/* far_device.c: a device whose memory the host cannot touch, whose streams run by themselves, and which has no kernels
 * of its own.
 *
 * The idea: its memory is a file in memory, mapped twice. The addresses that it gives out lie in the first mapping,
 * which nobody may read or write; the device reaches the bytes by the second one. Each stream is a thread with a list
 * of commands: wait for events, bring guards to the host, copy arguments to scratch of the stream, run the CPU kernel
 * there, copy results back, set the event. Arguments that overlap in its memory overlap in the scratch in the same way.
 *
 * Results are those of the CPU, to the bit: same kernels, same order. */
#include "tests/support/far_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "executor/comm/wait.h"
#include "executor/devices/cpu/cpu.h"
#include "executor/devices/cpu/denormals.h"
#include "executor/watchdog.h"

static _Atomic long ninstrs, ncopied_in, ncopied_out, nguards;

far_counts far_device_counts(void) {
    return (far_counts){ninstrs, ncopied_in, ncopied_out, nguards};
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

typedef struct far_block {
    unsigned char *front, *back; /* what is given out; where the bytes are reached */
    size_t nbytes;
    struct far_block *next;
} far_block;

typedef struct far_device {
    device head;
    far_block *blocks;
} far_device;

static unsigned char *back_of(const device *d, const void *address) {
    const unsigned char *at = address;
    for (const far_block *b = ((const far_device *)(const void *)d)->blocks; b; b = b->next)
        if (at >= b->front && at < b->front + b->nbytes) return b->back + (at - b->front);
    return NULL;
}

static weft_status open_device(const weft_allocator *allocator, int nranks, device **out_device) {
    far_device *d = base_alloc(allocator, sizeof *d);
    if (!d) return base_out_of_memory();
    *d = (far_device){.head = {&device_far, allocator, nranks}};
    *out_device = &d->head;
    return NULL;
}

static void close_device(device *d) {
    base_free(d->allocator, d, sizeof(far_device));
}

static weft_status map_twice(far_block *b) {
    int file = memfd_create("far", 0);
    if (file < 0 || ftruncate(file, (off_t)b->nbytes) != 0)
        return weft_status_create(WEFT_IO, NULL, "far: no memory file of %zu bytes: %s", b->nbytes, strerror(errno));
    b->front = mmap(NULL, b->nbytes, PROT_NONE, MAP_SHARED, file, 0);
    b->back = mmap(NULL, b->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (b->front != MAP_FAILED && b->back != MAP_FAILED) return NULL;
    return weft_status_create(WEFT_IO, NULL, "far: cannot map %zu bytes: %s", b->nbytes, strerror(errno));
}

static weft_status alloc_far(far_device *d, size_t nbytes, device_memory *out) {
    far_block *b = base_alloc(d->head.allocator, sizeof *b);
    if (!b) return base_out_of_memory();
    *b = (far_block){.nbytes = nbytes, .next = d->blocks};
    weft_status status = map_twice(b);
    if (status) {
        base_free(d->head.allocator, b, sizeof *b);
        return status;
    }
    d->blocks = b;
    out->block = b;
    out->bytes = b->front;
    return NULL;
}

static weft_status alloc(device *d, int rank, device_space space, size_t nbytes, device_memory *out) {
    (void)rank;
    *out = (device_memory){.space = space};
    if (!nbytes) return NULL;
    if (nbytes > SIZE_MAX / 2) return base_out_of_memory();
    out->block_nbytes = nbytes;
    if (space == DEVICE_OWN) return alloc_far((far_device *)(void *)d, nbytes, out);
    out->block = out->bytes = base_alloc(d->allocator, nbytes);
    if (!out->bytes) return base_out_of_memory();
    memset(out->bytes, 0, nbytes);
    return NULL;
}

static void free_memory(device *d, device_memory *m) {
    if (m->bytes && m->space == DEVICE_HOST) base_free(d->allocator, m->block, m->block_nbytes);
    if (m->bytes && m->space == DEVICE_OWN) {
        far_block *b = m->block, **at = &((far_device *)(void *)d)->blocks;
        while (*at != b) at = &(*at)->next;
        *at = b->next;
        munmap(b->front, b->nbytes);
        munmap(b->back, b->nbytes);
        base_free(d->allocator, b, sizeof *b);
    }
    *m = (device_memory){0};
}

static weft_status copy_in(device *d, int rank, void *to, const void *from, size_t nbytes) {
    (void)rank;
    ncopied_in++;
    memcpy(back_of(d, to), from, nbytes);
    return NULL;
}

static weft_status copy_out(device *d, int rank, void *to, const void *from, size_t nbytes) {
    (void)rank;
    ncopied_out++;
    memcpy(to, back_of(d, from), nbytes);
    return NULL;
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

/* Bytes of the device and where the stream's scratch has them. */
typedef struct far_move {
    unsigned char *back;
    size_t offset, nbytes;
} far_move;

typedef struct far_command {
    device_instr *of;
    kernel_call call;
    kernel_run_fn run;
    const unsigned char *guards[2]; /* in the second mapping; NULL: none */
    far_move *in, *out;
    size_t nin, nout;
    size_t workspace_nbytes;
} far_command;

typedef struct far_stream {
    struct far_run *run;
    const stream_state *state;
    struct far_stream *of_rank;
    far_command *commands;
    size_t scratch_nbytes, workspace_nbytes;
    unsigned char *scratch, *workspace;
    size_t nset; /* events set in this step, under the run's lock */
    _Atomic size_t position;
    pthread_t thread;
    bool has_thread;
    trace_event *events;
} far_stream;

typedef struct far_run {
    device_run head;
    far_stream **ranks;
    int nranks;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t nsubmitted; /* steps */
    int nrunning;        /* streams in the last one */
    bool stopping;
} far_run;

#define FOR_EACH_STREAM(s, run)                                                                                        \
    for (int s##_r = 0; s##_r < (run)->nranks; s##_r++)                                                                \
        for (far_stream *s = (run)->ranks[s##_r], *s##_end = s + (run)->head.executor->ranks[s##_r].plan->nstreams;    \
             s < s##_end; s++)

static far_run *run_of(device_run *head) {
    return (far_run *)(void *)head;
}

static weft_status begin(device *d, weft_executor *x, device_run **out_run) {
    far_run *run = ARENA_NEW(&x->arena, far_run);
    if (!run) return base_out_of_memory();
    run->head = (device_run){.device = d, .executor = x};
    run->ranks = ARENA_ARRAY(&x->arena, far_stream *, x->nlocal);
    if (!run->ranks) return base_out_of_memory();
    pthread_mutex_init(&run->lock, NULL);
    pthread_cond_init(&run->changed, NULL);
    *out_run = &run->head;
    return NULL;
}

static int by_address(const void *a, const void *b) {
    const far_move *x = a, *y = b;
    if (x->back != y->back) return x->back < y->back ? -1 : 1;
    return (x->nbytes < y->nbytes) - (x->nbytes > y->nbytes);
}

static void add_range(const device *d, const void *address, size_t nbytes, far_move *moves, size_t *n) {
    if (address && nbytes) moves[(*n)++] = (far_move){back_of(d, address), 0, nbytes};
}

static void add_tensor(const device *d, const tensor *t, far_move *moves, size_t *n) {
    if (t->dtype == WEFT_DTYPE_NONE) return;
    add_range(d, t->data, (size_t)t->numel * weft_dtype_nbytes(t->dtype), moves, n);
    if (t->rows) add_range(d, t->rows, (size_t)t->dims[0] * sizeof *t->rows, moves, n);
}

/* What overlaps becomes one piece; each gets a place in the scratch, as far behind a cache line as it lies here. */
static size_t lay_out(far_move *moves, size_t n, size_t *out_nbytes) {
    size_t kept = 0, at = 0;
    if (n) qsort(moves, n, sizeof *moves, by_address);
    for (size_t i = 0; i < n; i++) {
        far_move *last = kept ? &moves[kept - 1] : NULL;
        if (last && moves[i].back < last->back + last->nbytes) {
            size_t end = (size_t)(moves[i].back - last->back) + moves[i].nbytes;
            if (end > last->nbytes) last->nbytes = end;
        } else {
            moves[kept++] = moves[i];
        }
    }
    for (size_t i = 0; i < kept; i++) {
        moves[i].offset = (at + 63) / 64 * 64 + ((uintptr_t)moves[i].back & 63);
        at = moves[i].offset + moves[i].nbytes;
    }
    *out_nbytes = at;
    return kept;
}

static size_t offset_of(const far_command *c, const unsigned char *back) {
    size_t i = 0;
    while (back < c->in[i].back || back >= c->in[i].back + c->in[i].nbytes) i++;
    return c->in[i].offset + (size_t)(back - c->in[i].back);
}

/* All arguments go in, since kernels write parts of results; results come out. */
static weft_status plan_moves(far_run *run, far_stream *s, far_command *c) {
    const device *d = run->head.device;
    const plan_instr *instr = c->of->instr;
    size_t nin = instr->in_first[instr->schema->ninputs], nout = instr->out_first[instr->schema->noutputs], nbytes;
    c->in = ARENA_ARRAY(&run->head.executor->arena, far_move, 2 * (nin + nout) + 1);
    c->out = ARENA_ARRAY(&run->head.executor->arena, far_move, 2 * nout + 1);
    if (!c->in || !c->out) return base_out_of_memory();
    for (size_t i = 0; i < nout; i++) add_tensor(d, &c->of->out[i], c->out, &c->nout);
    memcpy(c->in, c->out, c->nout * sizeof *c->in);
    c->nin = c->nout;
    for (size_t i = 0; i < nin; i++) add_tensor(d, &c->of->in[i], c->in, &c->nin);
    c->nin = lay_out(c->in, c->nin, &nbytes);
    for (size_t i = 0; i < c->nout; i++) c->out[i].offset = offset_of(c, c->out[i].back);
    if (nbytes > s->scratch_nbytes) s->scratch_nbytes = nbytes;
    return NULL;
}

static weft_status record_instr(far_run *run, rank_state *rank, far_stream *s, device_instr *i, far_command *c) {
    weft_executor *x = run->head.executor;
    const plan_instr *instr = i->instr;
    TRY(bind_check_kernel(rank, run->head.device, instr));
    kernel_prepare p = {.op = instr->op,
                        .schema = instr->schema,
                        .in = i->in,
                        .out = i->out,
                        .in_first = instr->in_first,
                        .out_first = instr->out_first,
                        .arena = &x->arena,
                        .rank = rank->rank,
                        .nranks = x->nranks,
                        .ring_nranks = i->ring ? i->ring->comm->nranks : 1,
                        .ring_index = i->ring ? i->ring->comm->index : 0,
                        .nthreads = 1};
    *c = (far_command){.of = i};
    weft_status status = kernel_bind(&p, &c->run);
    if (status) return bind_refusal(rank, instr, status);
    device_instr_locate(rank, i);
    c->call = (kernel_call){.schema = instr->schema,
                            .in = i->in,
                            .out = i->out,
                            .in_first = instr->in_first,
                            .out_first = instr->out_first,
                            .state = p.state,
                            .ring = i->ring ? i->ring->comm : NULL,
                            .rank = rank->rank,
                            .nranks = x->nranks,
                            .seed = x->options.seed,
                            .op_seed = i->op_seed,
                            .step = &x->step,
                            .nthreads = 1,
                            .split = p.split};
    c->guards[0] = i->outer_guard ? back_of(run->head.device, i->outer_guard) : NULL;
    c->guards[1] = i->guard ? back_of(run->head.device, i->guard) : NULL;
    if (p.workspace_nbytes > s->workspace_nbytes) s->workspace_nbytes = p.workspace_nbytes;
    return plan_moves(run, s, c);
}

static void aim(const device *d, const far_command *c, const far_stream *s, tensor *t) {
    if (t->dtype == WEFT_DTYPE_NONE) return;
    if (t->data && t->numel) t->data = s->scratch + offset_of(c, back_of(d, t->data));
    if (t->rows && t->dims[0]) t->rows = (int64_t *)(void *)(s->scratch + offset_of(c, back_of(d, (void *)t->rows)));
}

static weft_status make_scratch(const far_run *run, far_stream *s) {
    if (posix_memalign((void **)&s->scratch, 64, s->scratch_nbytes + 64) ||
        posix_memalign((void **)&s->workspace, 64, s->workspace_nbytes + 64))
        return base_out_of_memory();
    for (size_t i = 0; i < s->state->ninstrs; i++) {
        far_command *c = &s->commands[i];
        const plan_instr *instr = c->of->instr;
        for (size_t k = 0; k < instr->in_first[instr->schema->ninputs]; k++) aim(run->head.device, c, s, &c->of->in[k]);
        for (size_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++)
            aim(run->head.device, c, s, &c->of->out[k]);
        c->call.workspace = s->workspace;
    }
    return NULL;
}

static weft_status record(device_run *head, rank_state *rank) {
    far_run *run = run_of(head);
    arena *a = &head->executor->arena;
    const weft_plan *plan = rank->plan;
    far_stream *streams = ARENA_ARRAY(a, far_stream, plan->nstreams);
    if (!streams) return base_out_of_memory();
    run->ranks[run->nranks++] = streams;
    for (int i = 0; i < plan->nstreams; i++) {
        far_stream *s = &streams[i];
        s->run = run;
        s->state = &rank->streams[i];
        s->of_rank = streams;
        s->commands = ARENA_ARRAY(a, far_command, s->state->ninstrs + 1);
        s->events = ARENA_ARRAY(a, trace_event, s->state->ninstrs + 1);
        if (!s->commands || !s->events) return base_out_of_memory();
    }
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        far_stream *s = &streams[instr->stream];
        device_instr *of = &rank->streams[instr->stream].instrs[instr->position];
        TRY(record_instr(run, rank, s, of, &s->commands[instr->position]));
    }
    for (int i = 0; i < plan->nstreams; i++) TRY(make_scratch(run, &streams[i]));
    return NULL;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

static bool is_aborted(const far_run *run) {
    return comm_world_aborted(run->head.executor->world);
}

/* Waits for events of other streams; false: the run was aborted. */
static bool wait_for_events(far_stream *s, const plan_instr *instr) {
    far_run *run = s->run;
    pthread_mutex_lock(&run->lock);
    for (uint32_t i = 0; i < instr->nwaits; i++)
        while (s->of_rank[instr->waits[i].stream].nset < (size_t)instr->waits[i].count && !is_aborted(run))
            pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
    return !is_aborted(run);
}

static void set_event(far_stream *s, size_t count) {
    pthread_mutex_lock(&s->run->lock);
    s->nset = count;
    pthread_cond_broadcast(&s->run->changed);
    pthread_mutex_unlock(&s->run->lock);
}

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

static void sleep_for(const far_run *run, double seconds) {
    int64_t end = wait_clock_ns() + (int64_t)(seconds * 1e9);
    while (wait_clock_ns() < end && !is_aborted(run)) usleep(500);
}

static weft_status run_command(far_stream *s, const far_command *c) {
    if (c->of->delay_seconds > 0) sleep_for(s->run, c->of->delay_seconds);
    for (size_t i = 0; i < c->nin; i++) memcpy(s->scratch + c->in[i].offset, c->in[i].back, c->in[i].nbytes);
    int64_t start_ns = c->of->watched ? watched_begin(c->of->watched) : 0;
    weft_status status = c->run(&c->call);
    if (c->of->watched) watched_end(c->of->watched, start_ns);
    for (size_t i = 0; i < c->nout && !status; i++)
        memcpy(c->out[i].back, s->scratch + c->out[i].offset, c->out[i].nbytes);
    ninstrs++;
    return status;
}

static void run_commands(far_stream *s) {
    for (size_t i = 0; i < s->state->ninstrs; i++) {
        const far_command *c = &s->commands[i];
        s->events[i] = (trace_event){-1, -1};
        if (!wait_for_events(s, c->of->instr)) return;
        if (!is_guarded_off(c)) {
            s->events[i].start_ns = wait_clock_ns();
            weft_status status = run_command(s, c);
            s->events[i].end_ns = wait_clock_ns();
            if (status) {
                executor_fail(s->run->head.executor, s->state->rank->rank, c->of->instr, status);
                return;
            }
        }
        s->position = i + 1;
        if (c->of->signals) set_event(s, i + 1);
    }
}

static void *work(void *arg) {
    far_stream *s = arg;
    far_run *run = s->run;
    denormals_flush();
    for (uint64_t step = 1;; step++) {
        pthread_mutex_lock(&run->lock);
        while (run->nsubmitted < step && !run->stopping) pthread_cond_wait(&run->changed, &run->lock);
        bool stops = run->stopping;
        pthread_mutex_unlock(&run->lock);
        if (stops) return NULL;
        run_commands(s);
        pthread_mutex_lock(&run->lock);
        run->nrunning--;
        pthread_cond_broadcast(&run->changed);
        pthread_mutex_unlock(&run->lock);
    }
}

static weft_status start(device_run *head) {
    far_run *run = run_of(head);
    FOR_EACH_STREAM(s, run) {
        int failed = pthread_create(&s->thread, NULL, work, s);
        if (failed) return weft_status_create(WEFT_IO, NULL, "far: no thread: %s", strerror(failed));
        s->has_thread = true;
    }
    return NULL;
}

static void discard(device_run *head) {
    far_run *run = run_of(head);
    pthread_mutex_lock(&run->lock);
    run->stopping = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    FOR_EACH_STREAM(s, run) {
        if (s->has_thread) pthread_join(s->thread, NULL);
        free(s->scratch);
        free(s->workspace);
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
    far_run *run = run_of(head);
    pthread_mutex_lock(&run->lock);
    run->nrunning = 0;
    FOR_EACH_STREAM(s, run) {
        s->nset = 0;
        s->position = 0;
        run->nrunning++;
    }
    run->nsubmitted++;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static bool wait_for_step(device_run *head, double timeout_seconds) {
    far_run *run = run_of(head);
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    int64_t ns = end.tv_nsec + (int64_t)(timeout_seconds * 1e9);
    end.tv_sec += ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    pthread_mutex_lock(&run->lock);
    while (run->nrunning && pthread_cond_timedwait(&run->changed, &run->lock, &end) == 0) {
    }
    bool ended = !run->nrunning;
    pthread_mutex_unlock(&run->lock);
    return ended;
}

static void abort_run(device_run *head) {
    far_run *run = run_of(head);
    pthread_mutex_lock(&run->lock);
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static const far_stream *stream_of(const device_run *head, const stream_state *s) {
    return &((const far_run *)(const void *)head)->ranks[s->rank->rank - s->executor->first_rank][s->stream];
}

static size_t position(const device_run *head, const stream_state *s) {
    return stream_of(head, s)->position;
}

static void times(const device_run *head, const stream_state *s, trace_event *out_events, profile_cell *out_waiting) {
    memcpy(out_events, stream_of(head, s)->events, s->ninstrs * sizeof *out_events);
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
    .free = free_memory,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .begin = begin,
    .record = record,
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
