/* request.h: what members ask of a ring: whether it can be done, whether they agree, and how it is called. For engines.
 */
#ifndef EXECUTOR_COMM_REQUEST_H
#define EXECUTOR_COMM_REQUEST_H

#include "executor/comm/comm.h"

/* Parts that srcs or dsts of the request have. */
int64_t comm_nparts(const comm_ring *r, const comm_request *q);
/* Elements of part k of what a member gives, and of what it gets. */
int64_t comm_source_count(const comm_request *q, int64_t k);
int64_t comm_result_count(const comm_request *q, int64_t k);

/* What is wrong with a request in itself, of the member of that rank; it has an op. Before others are told of it. */
WEFT_MUST_USE weft_status comm_check_request(const comm_ring *r, int64_t rank, const comm_request *q);
/* What is wrong with a list of ranks; else where `rank` is in it. */
WEFT_MUST_USE weft_status comm_check_ranks(int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                                           int nranks_of_run, int *out_index);

/* Begins what a member asks for, checked and with a name for its op; *busy is the member's until the engine clears it.
 */
WEFT_MUST_USE weft_status comm_begin(const comm_ring *r, int64_t rank, const comm_request *asked, _Atomic bool *busy,
                                     comm_request *out);
/* A ring's error after the end of its world. */
weft_status comm_stopped(const comm_ring *r);
/* Waits until a member whose world was aborted is out of `q`; a status: it is not yet. */
WEFT_MUST_USE weft_status comm_wait_idle(const comm_ring *r, int64_t rank, const _Atomic bool *busy,
                                         const comm_request *q, double timeout_seconds);

/* A pair of members that do not ask for the same; false if there is none. Equal for all members that look. Requests lie
 * `stride` bytes apart, in the order of the ring. */
bool comm_find_different(const comm_request *first, size_t stride, int nranks, int *out_a, int *out_b);
weft_status comm_disagreement(int64_t ring, int64_t rank_a, const comm_request *a, int64_t rank_b,
                              const comm_request *b);

#endif
