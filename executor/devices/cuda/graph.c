#include "executor/devices/cuda/graph.h"

/* --- segments ----------------------------------------------------------------------------------------------------- */

static const cuda_command *command_at(const cuda_rank *r, size_t i) {
    const plan_instr *instr = &r->state->plan->instrs[i];
    return &r->lanes[instr->stream].commands[instr->position];
}

static bool can_capture(const cuda_command *c) {
    return !c->guards[0] && !c->guards[1];
}

bool cuda_graph_is_whole(const cuda_rank *r) {
    for (size_t i = 0; i < r->state->plan->ninstrs; i++)
        if (!can_capture(command_at(r, i))) return false;
    return true;
}

weft_status cuda_graph_record(cuda_rank *r) {
    size_t n = r->state->plan->ninstrs;
    arena *a = &r->run->head.executor->arena;
    CUDA_TRY(EventCreateWithFlags, &r->forked, cudaEventDisableTiming);
    for (int k = 1; k < r->state->plan->nstreams; k++)
        CUDA_TRY(EventCreateWithFlags, &r->lanes[k].joined, cudaEventDisableTiming);
    if (r->run->head.executor->options.no_graph || cuda_device_of(r->run->head.device)->is_shared) return NULL;
    r->segments = ARENA_ARRAY(a, cuda_segment, n + 1);
    if (!r->segments) return base_out_of_memory();
    for (size_t i = 0; i < n; i++) {
        bool is_graph = can_capture(command_at(r, i));
        if (!i || r->segments[r->nsegments - 1].is_graph != is_graph)
            r->segments[r->nsegments++] = (cuda_segment){i, i, is_graph, NULL};
        r->segments[r->nsegments - 1].end = i + 1;
    }
    return NULL;
}

void cuda_graph_discard(cuda_rank *r) {
    for (size_t i = 0; i < r->nsegments; i++)
        if (r->segments[i].exec) cuda.GraphExecDestroy(r->segments[i].exec);
    if (r->forked) cuda.EventDestroy(r->forked);
    for (int k = 1; k < r->state->plan->nstreams; k++)
        if (r->lanes[k].joined) cuda.EventDestroy(r->lanes[k].joined);
}

weft_status cuda_graph_fork(cuda_rank *r) {
    int n = r->state->plan->nstreams;
    if (n < 2) return NULL;
    CUDA_TRY(EventRecord, r->forked, r->lanes[0].stream);
    for (int k = 1; k < n; k++) CUDA_TRY(StreamWaitEvent, r->lanes[k].stream, r->forked, 0);
    return NULL;
}

weft_status cuda_graph_join(cuda_rank *r) {
    for (int k = 1; k < r->state->plan->nstreams; k++) {
        CUDA_TRY(EventRecord, r->lanes[k].joined, r->lanes[k].stream);
        CUDA_TRY(StreamWaitEvent, r->lanes[0].stream, r->lanes[k].joined, 0);
    }
    return NULL;
}

/* --- capturing ---------------------------------------------------------------------------------------------------- */

static weft_status issue_all(cuda_rank *r, const cuda_segment *s, cuda_node_map *map) {
    TRY(cuda_node_map_add(map, (size_t)CUDA_NO_OWNER, false));
    for (size_t i = s->first; i < s->end && !cuda_is_aborted(r->run); i++) {
        cuda_issue(r, i);
        TRY(cuda_node_map_add(map, i, command_at(r, i)->is_enqueued));
    }
    return NULL;
}

static weft_status first_of(weft_status a, weft_status b) {
    weft_status_free(a ? b : NULL);
    return a ? a : b;
}

static weft_status issue_captured(cuda_rank *r, const cuda_segment *s, cuda_node_map *map) {
    TRY(cuda_graph_fork(r));
    weft_status status = issue_all(r, s, map);
    return first_of(status, cuda_graph_join(r));
}

/* The capture is ended in any case: the streams would be good for nothing else. */
static weft_status capture_into(cuda_rank *r, const cuda_segment *s, cuda_node_map *map) {
    cudaStream_t stream = r->lanes[0].stream;
    cudaGraph_t same = NULL;
    CUDA_TRY(StreamBeginCaptureToGraph, stream, map->graph, NULL, NULL, 0, cudaStreamCaptureModeThreadLocal);
    r->is_capturing = true;
    weft_status status = issue_captured(r, s, map);
    r->is_capturing = false;
    return first_of(status, cuda_check(cuda.StreamEndCapture(stream, &same), "cudaStreamEndCapture"));
}

static weft_status capture(cuda_rank *r, cuda_segment *s) {
    cuda_node_map map = {.allocator = r->run->head.executor->device->allocator};
    CUDA_TRY(GraphCreate, &map.graph, 0);
    weft_status status = capture_into(r, s, &map);
    bool is_whole = !status && !cuda_is_aborted(r->run);
    if (is_whole) status = cuda_graph_check(r, s, &map);
    if (is_whole && !status)
        status =
            cuda_check(cuda.GraphInstantiateWithFlags(&s->exec, map.graph, cudaGraphInstantiateFlagUseNodePriority),
                       "cudaGraphInstantiateWithFlags");
    cuda_node_map_free(&map);
    cuda.GraphDestroy(map.graph);
    return status;
}

/* --- steps -------------------------------------------------------------------------------------------------------- */

static weft_status run_graph(cuda_rank *r, cuda_segment *s) {
    if (!s->exec) TRY(capture(r, s));
    if (!s->exec) return NULL; /* the run was aborted */
    CUDA_TRY(GraphLaunch, s->exec, r->lanes[0].stream);
    return NULL;
}

/* Graphs run on stream 0, so that those beside them begin and end there. */
static weft_status run_segment(cuda_rank *r, cuda_segment *s, bool is_first) {
    r->segment_first = s->first;
    if (s->is_graph) {
        if (!is_first) TRY(cuda_graph_join(r));
        return run_graph(r, s);
    }
    if (!is_first) TRY(cuda_graph_fork(r));
    for (size_t i = s->first; i < s->end && !cuda_is_aborted(r->run); i++) cuda_issue(r, i);
    return NULL;
}

void cuda_graph_step(cuda_rank *r) {
    for (size_t i = 0; i < r->nsegments && !cuda_is_aborted(r->run); i++) {
        cuda_segment *s = &r->segments[i];
        cuda_fail(r, &r->state->plan->instrs[s->first], run_segment(r, s, i == 0));
    }
}
