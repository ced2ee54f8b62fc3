/* step.c: the thread of the host that issues a rank's steps, and waits for their end. */
#include <sched.h>

#include "executor/devices/cuda/graph.h"
#include "executor/devices/cuda/joint.h"
#include "executor/devices/cuda/launch.h"
#include "executor/devices/cuda/ranges.h"

/* Kernels that draw read the number of the step from the GPU's memory. */
static weft_status send_step(cuda_rank *r) {
    if (!r->draws) return NULL;
    *r->step = r->run->head.executor->step;
    CUDA_TRY(MemcpyAsync, r->own_step, r->step, sizeof *r->step, cudaMemcpyHostToDevice, r->lanes[0].stream);
    return r->is_graph ? NULL : cuda_graph_fork(r); /* a graph begins behind it */
}

static weft_status begin(cuda_rank *r) {
    for (int k = 0; k < r->state->plan->nstreams; k++) r->lanes[k].position = 0;
    r->segment_first = 0;
    r->is_graph = r->nsteps > 0 && (r->run->joint || (r->segments && r->segments[0].is_graph));
    TRY(send_step(r));
    if (!r->began_at) return NULL;
    CUDA_TRY(EventRecord, r->began_at, r->lanes[0].stream);
    r->began_ns = wait_clock_ns();
    return NULL;
}

static void issue_step(cuda_rank *r) {
    const weft_plan *plan = r->state->plan;
    if (plan->ninstrs) cuda_fail(r, &plan->instrs[0], begin(r));
    if ((r->segments || r->run->joint) && r->nsteps++ > 0) {
        (r->run->joint ? cuda_joint_step : cuda_graph_step)(r);
        return;
    }
    for (size_t i = 0; i < plan->ninstrs && !cuda_is_aborted(r->run); i++) cuda_issue(r, i);
}

/* How far a stream is known to be: up to the last instruction that others wait for. Of graphs nothing is known. */
static void see_position(cuda_lane *l) {
    for (size_t i = l->position; i < l->state->ninstrs; i++) {
        const cuda_command *c = &l->commands[i];
        if (!c->ended) continue;
        if (cuda_query(c->ended) != cudaSuccess) return;
        l->position = i + 1;
    }
}

/* A sleep lasts longer than it was asked to, which a short step feels: about when the last one ended time is burnt. */
static void pause_in_step(const cuda_rank *r, int64_t start_ns) {
    enum { MARGIN_NS = 200000 };
    int64_t waited = wait_clock_ns() - start_ns, margin = r->waited_ns / 8 + MARGIN_NS;
    if (waited > r->waited_ns - margin && waited < r->waited_ns + margin)
        sched_yield();
    else
        cuda_pause_since(start_ns);
}

/* Streams end by themselves, after an abort too: whoever holds one then is a ring, which is told to let go. */
static void finish_step(cuda_rank *r) {
    const plan_instr *first = r->state->plan->instrs;
    int64_t start = wait_clock_ns();
    for (int k = 0; k < r->state->plan->nstreams; k++) {
        cudaError_t result = cuda_result(cuda.EventRecord(r->lanes[k].end, r->lanes[k].stream));
        if (first) cuda_fail(r, first, cuda_check(result, "cudaEventRecord"));
        if (result) cuda_result(cuda.StreamSynchronize(r->lanes[k].stream)); /* no event says when it has ended */
    }
    for (int k = 0; k < r->state->plan->nstreams; k++) {
        cuda_lane *l = &r->lanes[k];
        cudaError_t result;
        while ((result = cuda_query(l->end)) == cudaErrorNotReady) {
            pause_in_step(r, start);
            if (!cuda_is_aborted(r->run) && r->nsteps < 2) see_position(l);
        }
        if (result && first) cuda_fail(r, first, cuda_check(result, "cudaEventQuery"));
        if (result) cuda_result(cuda.StreamSynchronize(l->stream)); /* what was not seen to end may go on */
        l->position = l->state->ninstrs;
    }
    r->waited_ns = wait_clock_ns() - start;
}

static void end_step(cuda_run *run) {
    pthread_mutex_lock(&run->lock);
    run->nrunning--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

void *cuda_issue_steps(void *arg) {
    cuda_rank *r = arg;
    cuda_run *run = r->run;
    cuda_turn_to(cuda_gpu_of(cuda_device_of(run->head.device), r->state->rank));
    for (uint64_t step = 1;; step++) {
        pthread_mutex_lock(&run->lock);
        while (run->nsubmitted < step && !run->stopping) pthread_cond_wait(&run->changed, &run->lock);
        bool stops = run->stopping;
        pthread_mutex_unlock(&run->lock);
        if (stops) return NULL;
        cuda_range_begin("step");
        issue_step(r);
        cuda_range_end();
        finish_step(r);
        end_step(run);
    }
}
