/* device.c: the table of device cuda. */
#include <stdio.h>

#include "executor/comm/loopback/engine.h"
#include "executor/comm/nccl/engine.h"
#include "executor/devices/cuda/joint.h"
#include "executor/devices/cuda/launch.h"

/* --- opening ------------------------------------------------------------------------------------------------------ */

extern const unsigned char weft_cuda_image[]; /* fatbins of all kernels */

static void close_device(device *head) {
    cuda_device *d = cuda_device_of(head);
    for (int i = 0; d->copies && i < d->ngpus; i++)
        if (d->copies[i]) {
            cuda_turn_to(i);
            cuda.StreamDestroy(d->copies[i]);
        }
    if (d->library) cuda.LibraryUnload(d->library);
    pthread_mutex_destroy(&d->lock);
    base_free(head->allocator, d->copies, (size_t)d->ngpus * sizeof *d->copies);
    base_free(head->allocator, d->gpus, (size_t)head->nranks * sizeof *d->gpus);
    base_free(head->allocator, d, sizeof *d);
}

static weft_status load_kernels(cuda_device *d) {
    static const char *const names[] = {
#define KERNEL(name) #name,
#include "executor/devices/cuda/kernels/kernels.def"
#undef KERNEL
    };
    CUDA_TRY(LibraryLoadData, &d->library, weft_cuda_image, NULL, NULL, 0, NULL, NULL, 0);
    for (int i = 0; i < CUDA_KERNELS; i++) {
        cudaError_t result = cuda_result(cuda.LibraryGetKernel(&d->kernels[i], d->library, names[i]));
        if (result)
            return weft_status_create(WEFT_UNSUPPORTED, NULL, "device cuda: kernel %s: %s", names[i],
                                      cuda.GetErrorString(result));
    }
    return NULL;
}

static weft_status open_device(const weft_allocator *allocator, int nranks, device **out_device) {
    char why[700];
    int ngpus = 0;
    if (!cuda_probe(&ngpus, why, sizeof why)) return weft_status_create(WEFT_UNSUPPORTED, NULL, "device cuda: %s", why);
    cuda_device *d = base_alloc(allocator, sizeof *d);
    if (!d) return base_out_of_memory();
    memset(d, 0, sizeof *d);
    d->head = (device){&device_cuda, allocator, nranks};
    d->ngpus = ngpus < nranks ? ngpus : nranks;
    pthread_mutex_init(&d->lock, NULL);
    d->copies = base_alloc(allocator, (size_t)d->ngpus * sizeof *d->copies);
    d->gpus = base_alloc(allocator, (size_t)nranks * sizeof *d->gpus);
    weft_status status = d->copies && d->gpus ? NULL : base_out_of_memory();
    if (d->copies) memset(d->copies, 0, (size_t)d->ngpus * sizeof *d->copies);
    for (int r = 0; r < nranks && !status; r++) d->gpus[r] = r % d->ngpus;
    if (!status) status = load_kernels(d);
    if (status) {
        close_device(&d->head);
        return status;
    }
    *out_device = &d->head;
    return NULL;
}

static weft_status rings(device *head, comm_host *host, const weft_executor_options *options) {
    static const struct {
        const char *name;
        weft_status (*put)(cuda_device *d, comm_host *host);
        bool is_shared;
    } engines[] = {{"nccl", nccl_host, false}, {"loopback", loop_host, true}};
    cuda_device *d = cuda_device_of(head);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        if (options->rings ? strcmp(options->rings, engines[i].name) != 0 : i != 0) continue;
        d->is_shared = engines[i].is_shared;
        d->rings_gb_per_second = options->rings_gb_per_second;
        return engines[i].put(d, host);
    }
    return weft_status_create(WEFT_INVALID_ARGUMENT, NULL,
                              "no engine \"%s\" of rings on GPUs: there are nccl, loopback", options->rings);
}

static const char *lacks(int row) {
    return services->kernel_is_there(row) ? NULL : "no kernel";
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static weft_status begin(device *d, weft_executor *x, device_run **out_run) {
    cuda_run *run = ARENA_NEW(&x->arena, cuda_run);
    if (!run) return base_out_of_memory();
    run->head = (device_run){.device = d, .executor = x};
    run->ranks = ARENA_ARRAY(&x->arena, cuda_rank, x->nlocal);
    if (!run->ranks) return base_out_of_memory();
    if (wait_condition_init(&run->changed) != 0) return base_out_of_memory();
    pthread_mutex_init(&run->lock, NULL);
    *out_run = &run->head;
    return NULL;
}

static weft_status start(device_run *head) {
    cuda_run *run = cuda_run_of(head);
    TRY(cuda_joint_record(run));
    for (cuda_rank *r = run->ranks; r < run->ranks + run->nranks; r++) {
        int failed = pthread_create(&r->issuer, NULL, cuda_issue_steps, r);
        if (failed) return weft_status_create(WEFT_IO, NULL, "cuda: no thread: %s", strerror(failed));
        r->has_issuer = true;
    }
    return NULL;
}

static void discard(device_run *head) {
    cuda_run *run = cuda_run_of(head);
    pthread_mutex_lock(&run->lock);
    run->stopping = true;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    for (cuda_rank *r = run->ranks; r < run->ranks + run->nranks; r++) {
        if (r->has_issuer) pthread_join(r->issuer, NULL);
        cuda_discard_rank(r);
    }
    cuda_joint_discard(run);
    pthread_cond_destroy(&run->changed);
    pthread_mutex_destroy(&run->lock);
}

static size_t run_nbytes(const device_run *head) {
    return ((const cuda_run *)(const void *)head)->nbytes;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static void submit(device_run *head) {
    cuda_run *run = cuda_run_of(head);
    pthread_mutex_lock(&run->lock);
    run->nrunning = run->nranks;
    run->nsubmitted++;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static bool wait_for_step(device_run *head, double timeout_seconds) {
    cuda_run *run = cuda_run_of(head);
    struct timespec end = wait_condition_deadline(timeout_seconds);
    pthread_mutex_lock(&run->lock);
    while (run->nrunning && pthread_cond_timedwait(&run->changed, &run->lock, &end) == 0) {
    }
    bool ended = !run->nrunning;
    pthread_mutex_unlock(&run->lock);
    return ended;
}

static void abort_run(device_run *head) {
    (void)head; /* whoever issues or waits looks at the world */
}

static cuda_lane *lane_of(const device_run *head, const stream_state *s) {
    const cuda_run *run = (const cuda_run *)(const void *)head;
    return &run->ranks[s->rank->rank - s->executor->first_rank].lanes[s->stream];
}

static size_t position(const device_run *head, const stream_state *s) {
    return lane_of(head, s)->position;
}

static int64_t time_of(const cuda_rank *r, cudaEvent_t event) {
    float ms = 0;
    cudaError_t result = cuda_result(cuda.EventElapsedTime(&ms, r->began_at, event));
    return result ? -1 : r->began_ns + (int64_t)((double)ms * 1e6);
}

static void times(const device_run *head, const stream_state *s, trace_event *out_events, profile_cell *out_waiting) {
    const cuda_lane *l = lane_of(head, s);
    for (size_t i = 0; i < s->ninstrs; i++) {
        const cuda_command *c = &l->commands[i];
        out_events[i] = (trace_event){-1, -1};
        if (c->has_run) out_events[i] = (trace_event){time_of(l->rank, c->began_at), time_of(l->rank, c->ended_at)};
    }
    *out_waiting = (profile_cell){0};
}

static weft_status measure(device *d, int nthreads, struct roofline *out_roofline) {
    return services->measure(d, nthreads, out_roofline);
}

const device_engine device_cuda = {
    .name = "cuda",
    .lacks = lacks,
    .hosts = cuda_op_hosts,
    .open = open_device,
    .rings = rings,
    .close = close_device,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .begin = begin,
    .record = cuda_record,
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
