/* graph.h: steps as graphs.
 *
 * The first step of a run is issued instruction by instruction, so that libraries have made what they make when they
 * are first used. The second is captured, and launched as a graph from then on. What the host must decide meanwhile
 * (guards) cannot be captured: the instructions between are segments, each a graph, and others wait at its ends. */
#ifndef EXECUTOR_DEVICES_CUDA_GRAPH_H
#define EXECUTOR_DEVICES_CUDA_GRAPH_H

#include "executor/devices/cuda/cuda.h"

/* Instructions [first, end) of the plan. */
typedef struct cuda_segment {
    size_t first, end;
    bool is_graph;
    cudaGraphExec_t exec; /* NULL: not captured yet */
} cuda_segment;

/* Whether the host has nothing to decide in a step of the rank. */
bool cuda_graph_is_whole(const cuda_rank *r);
/* Once the rank is recorded. */
WEFT_MUST_USE weft_status cuda_graph_record(cuda_rank *r);
void cuda_graph_discard(cuda_rank *r);
/* A step by segments. */
void cuda_graph_step(cuda_rank *r);
/* Other streams begin behind what stream 0 has, or it goes on behind what they have. */
WEFT_MUST_USE weft_status cuda_graph_fork(cuda_rank *r);
WEFT_MUST_USE weft_status cuda_graph_join(cuda_rank *r);

/* --- graph_check.c: the graph is read back, and its order compared with the plan's --- */

/* Which instruction each node of a graph stands for. */
typedef struct cuda_node_map {
    const weft_allocator *allocator;
    cudaGraph_t graph;
    struct {
        cudaGraphNode_t node;
        size_t owner, id;
    } * places; /* a hash table */
    size_t nplaces, n;
    cudaGraphNode_t *nodes; /* as the runtime gives them */
    size_t room;
} cuda_node_map;

void cuda_node_map_free(cuda_node_map *m);
/* Nodes that are new since the last call are those of instruction `owner`: a rank's first_owner and the number in its
 * plan. Of one on a ring they are those that touch the program's memory: NCCL adds functions of the host and events,
 * for itself, which it orders with nothing of the caller's. */
WEFT_MUST_USE weft_status cuda_node_map_add(cuda_node_map *m, size_t owner, bool is_on_ring);
enum { CUDA_NO_OWNER = -1 };
/* A status names two instructions that the plan orders and the graph does not. */
WEFT_MUST_USE weft_status cuda_graph_check(const cuda_rank *r, const cuda_segment *s, const cuda_node_map *m);

#endif
