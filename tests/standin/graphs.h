/* graphs.h: captures and graphs of the stand-in for the CUDA runtime.
 *
 * What a capturing stream is given becomes a node behind what the stream depends on. A launch makes an item of each
 * node, a queue each, which can go when those before it have: in any order that edges allow. */
#ifndef TESTS_STANDIN_GRAPHS_H
#define TESTS_STANDIN_GRAPHS_H

#include "tests/standin/queue.h"

/* All with the lock. */

/* The item of a stream that captures becomes a node. */
void standin_capture_item(standin_stream *s, standin_item *item);
/* An event that is recorded has what the stream depends on; a stream that waits for it depends on that too. */
void standin_capture_wait(standin_stream *s, uint64_t capture, const standin_deps *deps);
/* What is given next comes behind their begin alone: an edge that orders nothing. */
void standin_capture_early(standin_stream *s, uint64_t capture, const standin_deps *deps);
/* Of queue.c: streams that take part capture no more. */
void standin_release_captured(uint64_t capture);
/* Ends the process when this thread captures: the call would take memory, or wait. */
void standin_check_capture(const char *call);

/* --- for queue.c: nodes of a launch --- */
bool standin_node_can_go(const standin_stream *s);
cudaStream_t standin_node_waits_for(const standin_stream *s, int k);
void standin_node_ends(standin_stream *s);

#endif
