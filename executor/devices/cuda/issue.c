/* issue.c: an instruction of the plan as calls on its stream. */
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "executor/comm/nccl/engine.h"
#include "executor/devices/cuda/group.h"
#include "executor/devices/cuda/half.h"
#include "executor/devices/cuda/ranges.h"

enum { SPIN_NS = 200000, PAUSE_US = 50 };

/* --- waiting ------------------------------------------------------------------------------------------------------ */

void cuda_pause_since(int64_t start_ns) {
    if (wait_clock_ns() - start_ns < SPIN_NS)
        sched_yield();
    else
        usleep(PAUSE_US);
}

/* Waits for an event; false: the run was aborted before. */
static weft_status wait_for(const cuda_run *run, cudaEvent_t event, bool *out_came) {
    int64_t start = wait_clock_ns();
    cudaError_t result;
    while ((result = cuda_query(event)) == cudaErrorNotReady && !cuda_is_aborted(run)) cuda_pause_since(start);
    *out_came = result == cudaSuccess;
    return result == cudaErrorNotReady ? NULL : cuda_check(result, "cudaEventQuery");
}

/* --- functions of streams on the host ----------------------------------------------------------------------------- */

static void CUDART_CB sleep_first(void *arg) {
    const cuda_command *c = arg;
    int64_t end = wait_clock_ns() + (int64_t)(c->of->delay_seconds * 1e9);
    while (wait_clock_ns() < end && !cuda_is_aborted(c->lane->rank->run)) usleep(500);
}

static void CUDART_CB tell_begin(void *arg) {
    cuda_command *c = arg;
    c->watch_ns = services->watched_begin(c->of->watched);
}

static void CUDART_CB tell_end(void *arg) {
    const cuda_command *c = arg;
    services->watched_end(c->of->watched, c->watch_ns);
}

/* --- an instruction ----------------------------------------------------------------------------------------------- */

/* The host decides whether it runs: the guards' bytes come back first. */
static weft_status read_guards(const cuda_command *c, bool *out_runs) {
    cuda_rank *r = c->lane->rank;
    bool came;
    *out_runs = true;
    if (!c->guards[0] && !c->guards[1]) return NULL;
    r->guard_bytes[0] = r->guard_bytes[1] = 1;
    for (int k = 0; k < 2; k++)
        if (c->guards[k])
            CUDA_TRY(MemcpyAsync, &r->guard_bytes[k], c->guards[k], 1, cudaMemcpyDeviceToHost, c->lane->stream);
    CUDA_TRY(EventRecord, r->guards_read, c->lane->stream);
    TRY(wait_for(r->run, r->guards_read, &came));
    *out_runs = came && r->guard_bytes[0] && r->guard_bytes[1];
    return NULL;
}

/* Until what was enqueued is on the stream: other ranks enqueue theirs meanwhile. */
static weft_status settle(const cuda_command *c) {
    int64_t start = wait_clock_ns();
    for (bool is_there = false; !is_there;) {
        TRY(comm_settle(c->on_device.ring, &is_there));
        if (is_there) break;
        weft_status (*let_others)(const cuda_command *, int64_t) = c->lane->rank->run->let_others;
        if (let_others)
            TRY(let_others(c, start));
        else
            cuda_pause_since(start);
    }
    return NULL;
}

static weft_status issue_rounds(cuda_command *c) {
    const kernel_rounds *rounds = c->made.rounds;
    for (int k = 0; k <= rounds->count; k++) {
        if (rounds->work) TRY(cuda_host_issue(c, &c->rounds[k]));
        if (k == rounds->count) break;
        comm_request q;
        rounds->ask(&c->on_device, k, &q);
        nccl_configure(c->on_device.ring, c->config);
        TRY(comm_enqueue(c->on_device.ring, &q, c->lane->stream));
        TRY(settle(c));
    }
    return NULL;
}

static weft_status issue_work(cuda_command *c) {
    if (c->is_enqueued) return issue_rounds(c);
    if (!c->op) return cuda_host_issue(c, NULL);
    const cuda_device *d = cuda_device_of(c->lane->rank->run->head.device);
    cuda_launch l = {d, &c->on_device, c->lane->stream, c->lane->rank->own_step, c->lane->rank->handle};
    if (c->group) return cuda_group_launch(&l, c->group);
    if (c->is_away) return NULL;
    if (c->product) {
        l.call = &c->product->on_device;
        return c->product->op->launch(&l);
    }
    return c->half ? cuda_half_launch(&l, c->op, c->half) : c->op->launch(&l);
}

/* A graph sets events with times each time that it runs. */
static weft_status record_time(const cuda_command *c, cudaEvent_t event) {
    unsigned flags = c->lane->rank->is_capturing ? cudaEventRecordExternal : cudaEventRecordDefault;
    CUDA_TRY(EventRecordWithFlags, event, c->lane->stream, flags);
    return NULL;
}

static weft_status issue_running(cuda_command *c) {
    cudaStream_t stream = c->lane->stream;
    if (c->began_at) TRY(record_time(c, c->began_at));
    if (c->of->delay_seconds > 0) CUDA_TRY(LaunchHostFunc, stream, sleep_first, c);
    if (c->of->watched) CUDA_TRY(LaunchHostFunc, stream, tell_begin, c);
    TRY(issue_work(c));
    if (c->of->watched) CUDA_TRY(LaunchHostFunc, stream, tell_end, c);
    if (c->ended_at) TRY(record_time(c, c->ended_at));
    return NULL;
}

static weft_status issue(cuda_command *c) {
    const plan_instr *instr = c->of->instr;
    cuda_lane *l = c->lane;
    for (uint32_t i = 0; i < instr->nwaits; i++) {
        const plan_wait *w = &instr->waits[i];
        const cuda_command *other = w->count > 0 ? &l->rank->lanes[w->stream].commands[w->count - 1] : NULL;
        if (other && other->index >= l->rank->segment_first) CUDA_TRY(StreamWaitEvent, l->stream, other->ended, 0);
    }
    TRY(read_guards(c, &c->has_run));
    if (c->has_run) TRY(issue_running(c));
    if (c->ended) CUDA_TRY(EventRecord, c->ended, l->stream);
    return NULL;
}

void cuda_fail(const cuda_rank *r, const plan_instr *instr, weft_status status) {
    if (status) services->fail(r->run->head.executor, r->state->rank, instr, status);
}

void cuda_issue(cuda_rank *r, size_t i) {
    const plan_instr *instr = &r->state->plan->instrs[i];
    cuda_command *c = &r->lanes[instr->stream].commands[instr->position];
    cuda_range_begin(c->range);
    cuda_fail(r, instr, issue(c));
    cuda_range_end();
}
