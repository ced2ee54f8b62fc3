/* cpu.c: this machine's cores as a device: a thread for each stream of each rank. Memory is the host's. */
#include "executor/devices/cpu/cpu.h"

#include "executor/devices/cpu/pool.h"

static const char *lacks(int row) {
    return kernel_is_there(row) ? NULL : "no kernel";
}

static weft_status open_device(const weft_allocator *allocator, int nranks, device **out_device) {
    device *d = base_alloc(allocator, sizeof *d);
    if (!d) return base_out_of_memory();
    *d = (device){&device_cpu, allocator, nranks};
    *out_device = d;
    return NULL;
}

static void close_device(device *d) {
    base_free(d->allocator, d, sizeof *d);
}

static weft_status copy(device *d, int rank, void *to, const void *from, size_t nbytes) {
    (void)d, (void)rank;
    if (nbytes) memcpy(to, from, nbytes);
    return NULL;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static weft_status begin(device *d, weft_executor *x, device_run **out_run) {
    cpu_run *run = ARENA_NEW(&x->arena, cpu_run);
    if (!run) return base_out_of_memory();
    run->head = (device_run){.device = d, .executor = x};
    run->ranks = ARENA_ARRAY(&x->arena, cpu_stream *, x->nlocal);
    if (!run->ranks) return base_out_of_memory();
    *out_run = &run->head;
    return NULL;
}

static void discard(device_run *head) {
    cpu_run *run = cpu_run_of(head);
    cpu_stop(run);
    thread_pool_destroy(run->pool);
    for (int r = 0; r < run->nranks; r++)
        for (int s = 0; s < cpu_nstreams(run, r); s++) cpu_free(head->device, &run->ranks[r][s].workspace);
}

static size_t run_nbytes(const device_run *head) {
    const cpu_run *run = (const cpu_run *)(const void *)head;
    size_t nbytes = 0;
    for (int r = 0; r < run->nranks; r++)
        for (int s = 0; s < cpu_nstreams(run, r); s++) nbytes += run->ranks[r][s].workspace.block_nbytes;
    return nbytes;
}

static const cpu_stream *stream_of(const device_run *head, const stream_state *s) {
    return &((const cpu_run *)(const void *)head)->ranks[s->rank->rank - s->executor->first_rank][s->stream];
}

static size_t position(const device_run *head, const stream_state *s) {
    return atomic_load_explicit(&stream_of(head, s)->at, memory_order_relaxed);
}

static void times(const device_run *head, const stream_state *state, trace_event *out_events,
                  profile_cell *out_waiting) {
    const cpu_stream *s = stream_of(head, state);
    if (s->ncalls) memcpy(out_events, s->events, s->ncalls * sizeof *out_events);
    *out_waiting = s->waiting;
}

const device_engine device_cpu = {
    .name = "cpu",
    .has_host_memory = true,
    .lacks = lacks,
    .open = open_device,
    .close = close_device,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .copy_in = copy,
    .copy_out = copy,
    .begin = begin,
    .record = cpu_record,
    .start = cpu_start,
    .discard = discard,
    .nbytes = run_nbytes,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .abort = cpu_abort,
    .position = position,
    .times = times,
    .measure = cpu_measure,
};
