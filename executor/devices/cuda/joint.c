/* joint.c: the invariant: each thread comes to each meeting of a step, whatever has gone wrong, so that nobody waits
 * for ever. What has gone wrong ends the world, and then nobody issues. */
#include "executor/devices/cuda/joint.h"

typedef struct cuda_joint {
    pthread_mutex_t turn; /* while capturing: who has it issues */
    int nmet;             /* at the meeting at hand: with the run's lock */
    uint64_t nmeetings;
    bool is_forked; /* all streams take part in the capture */
    cudaEvent_t forked, launched;
    cuda_node_map map; /* while capturing */
    cudaGraphExec_t exec;
} cuda_joint;

static cuda_rank *leader_of(cuda_run *run) {
    return &run->ranks[0];
}

static void meet(cuda_run *run) {
    cuda_joint *j = run->joint;
    pthread_mutex_lock(&run->lock);
    uint64_t meeting = j->nmeetings;
    if (++j->nmet == run->nranks) {
        j->nmet = 0;
        j->nmeetings++;
        pthread_cond_broadcast(&run->changed);
    }
    while (j->nmeetings == meeting) pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

/* What goes wrong with the whole is the first instruction's. */
static void fail(const cuda_rank *r, weft_status status) {
    if (r->state->plan->ninstrs)
        cuda_fail(r, &r->state->plan->instrs[0], status);
    else
        weft_status_free(status);
}

/* --- making it ---------------------------------------------------------------------------------------------------- */

/* Its thread gives its turn away meanwhile. */
static weft_status let_others(const cuda_command *c, int64_t start_ns) {
    const cuda_rank *r = c->lane->rank;
    cuda_joint *j = r->run->joint;
    bool has_turn = r->is_capturing;
    if (has_turn) {
        TRY(cuda_node_map_add(&j->map, r->first_owner + c->index, false));
        pthread_mutex_unlock(&j->turn);
    }
    cuda_pause_since(start_ns);
    if (has_turn) pthread_mutex_lock(&j->turn);
    return NULL;
}

weft_status cuda_joint_record(cuda_run *run) {
    weft_executor *x = run->head.executor;
    bool is_whole = cuda_device_of(run->head.device)->is_shared && run->nranks > 1 && !x->options.no_graph;
    size_t ninstrs = 0;
    for (int i = 0; i < run->nranks; i++) {
        run->ranks[i].first_owner = ninstrs;
        ninstrs += run->ranks[i].state->plan->ninstrs;
        is_whole = is_whole && cuda_graph_is_whole(&run->ranks[i]);
    }
    if (!is_whole) {
        for (int i = 0; i < run->nranks; i++) run->ranks[i].first_owner = 0;
        return NULL;
    }
    cuda_joint *j = ARENA_NEW(&x->arena, cuda_joint);
    if (!j) return base_out_of_memory();
    pthread_mutex_init(&j->turn, NULL);
    run->joint = j;
    run->let_others = let_others;
    CUDA_TRY(SetDevice, 0);
    CUDA_TRY(EventCreateWithFlags, &j->forked, cudaEventDisableTiming);
    CUDA_TRY(EventCreateWithFlags, &j->launched, cudaEventDisableTiming);
    for (int i = 0; i < run->nranks; i++)
        CUDA_TRY(EventCreateWithFlags, &run->ranks[i].lanes[0].joined, cudaEventDisableTiming);
    return NULL;
}

void cuda_joint_discard(cuda_run *run) {
    cuda_joint *j = run->joint;
    if (!j) return;
    if (j->exec) cuda.GraphExecDestroy(j->exec);
    if (j->forked) cuda.EventDestroy(j->forked);
    if (j->launched) cuda.EventDestroy(j->launched);
    for (int i = 0; i < run->nranks; i++)
        if (run->ranks[i].lanes[0].joined) cuda.EventDestroy(run->ranks[i].lanes[0].joined);
    pthread_mutex_destroy(&j->turn);
}

/* --- capturing ---------------------------------------------------------------------------------------------------- */

static weft_status fork_all(cuda_run *run) {
    cuda_joint *j = run->joint;
    CUDA_TRY(EventRecord, j->forked, leader_of(run)->lanes[0].stream);
    for (cuda_rank *r = run->ranks; r < run->ranks + run->nranks; r++)
        for (int k = r == leader_of(run); k < r->state->plan->nstreams; k++)
            CUDA_TRY(StreamWaitEvent, r->lanes[k].stream, j->forked, 0);
    j->is_forked = true;
    return cuda_node_map_add(&j->map, (size_t)CUDA_NO_OWNER, false);
}

static weft_status begin_capture(cuda_run *run) {
    cuda_joint *j = run->joint;
    j->map = (cuda_node_map){.allocator = run->head.device->allocator};
    j->is_forked = false;
    CUDA_TRY(GraphCreate, &j->map.graph, 0);
    CUDA_TRY(StreamBeginCaptureToGraph, leader_of(run)->lanes[0].stream, j->map.graph, NULL, NULL, 0,
             cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < run->nranks; i++) run->ranks[i].is_capturing = true;
    return fork_all(run);
}

static void issue_captured(cuda_rank *r) {
    cuda_joint *j = r->run->joint;
    for (size_t i = 0; i < r->state->plan->ninstrs && !cuda_is_aborted(r->run); i++) {
        pthread_mutex_lock(&j->turn);
        cuda_issue(r, i);
        fail(r, cuda_node_map_add(&j->map, r->first_owner + i, false));
        pthread_mutex_unlock(&j->turn);
    }
    if (!j->is_forked) return;
    fail(r, cuda_graph_join(r));
    fail(r, cuda_check(cuda.EventRecord(r->lanes[0].joined, r->lanes[0].stream), "cudaEventRecord"));
}

static weft_status check_all(cuda_run *run) {
    for (const cuda_rank *r = run->ranks; r < run->ranks + run->nranks; r++) {
        cuda_segment whole = {0, r->state->plan->ninstrs, true, NULL};
        TRY(cuda_graph_check(r, &whole, &run->joint->map));
    }
    return NULL;
}

/* The capture is ended in any case: the streams would be good for nothing else. */
static weft_status end_capture(cuda_run *run) {
    cuda_joint *j = run->joint;
    cuda_rank *leader = leader_of(run);
    cudaGraph_t same = NULL;
    weft_status status = NULL;
    for (cuda_rank *r = run->ranks + 1; r < run->ranks + run->nranks && j->is_forked && !status; r++)
        status =
            cuda_check(cuda.StreamWaitEvent(leader->lanes[0].stream, r->lanes[0].joined, 0), "cudaStreamWaitEvent");
    for (int i = 0; i < run->nranks; i++) run->ranks[i].is_capturing = false;
    weft_status ended = cuda_check(cuda.StreamEndCapture(leader->lanes[0].stream, &same), "cudaStreamEndCapture");
    weft_status_free(status ? ended : NULL);
    if (status || ended) return status ? status : ended;
    if (cuda_is_aborted(run)) return NULL;
    TRY(check_all(run));
    CUDA_TRY(GraphInstantiateWithFlags, &j->exec, j->map.graph, cudaGraphInstantiateFlagUseNodePriority);
    return NULL;
}

static void capture(cuda_rank *r) {
    cuda_run *run = r->run;
    bool leads = r == leader_of(run);
    if (leads) fail(r, begin_capture(run));
    meet(run);
    issue_captured(r);
    meet(run);
    if (!leads) return;
    if (r->is_capturing) fail(r, end_capture(run));
    cuda_node_map_free(&run->joint->map);
    if (run->joint->map.graph) cuda.GraphDestroy(run->joint->map.graph);
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

/* Behind what each rank's first stream has. */
static weft_status launch(cuda_run *run) {
    cuda_joint *j = run->joint;
    cudaStream_t stream = leader_of(run)->lanes[0].stream;
    if (!j->exec || cuda_is_aborted(run)) return NULL;
    for (cuda_rank *r = run->ranks + 1; r < run->ranks + run->nranks; r++)
        CUDA_TRY(StreamWaitEvent, stream, r->forked, 0);
    CUDA_TRY(GraphLaunch, j->exec, stream);
    CUDA_TRY(EventRecord, j->launched, stream);
    return NULL;
}

static weft_status follow(cuda_rank *r) {
    if (r == leader_of(r->run) || !r->run->joint->exec || cuda_is_aborted(r->run)) return NULL;
    CUDA_TRY(StreamWaitEvent, r->lanes[0].stream, r->run->joint->launched, 0);
    return NULL;
}

void cuda_joint_step(cuda_rank *r) {
    cuda_run *run = r->run;
    fail(r, cuda_check(cuda.EventRecord(r->forked, r->lanes[0].stream), "cudaEventRecord"));
    bool captures = !run->joint->exec;
    if (captures) fail(r, cuda_check(cuda.StreamSynchronize(r->lanes[0].stream), "cudaStreamSynchronize"));
    meet(run);
    if (captures) capture(r);
    if (r == leader_of(run)) fail(r, launch(run));
    meet(run);
    fail(r, follow(r));
}
