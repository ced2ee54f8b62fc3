/* move.h: what the files that move a collective's elements share. */
#ifndef EXECUTOR_COMM_MPI_MOVE_H
#define EXECUTOR_COMM_MPI_MOVE_H

#include "executor/comm/mpi/mpi.h"

static inline const comm_request *asked(const mpi_ring *r, int member) {
    return &r->members[member].request;
}

static inline bool is_here(const mpi_ring *r, int member) {
    return r->members[member].proc == r->world->host->proc;
}

static inline size_t nbytes_of(const comm_request *q, int64_t count) {
    return (size_t)count * weft_dtype_nbytes(q->dtype);
}

/* Bytes of what a member of an all_reduce gives, or of its part of what is gathered or scattered. */
static inline size_t total_nbytes(const comm_request *q) {
    if (!q->nparts) return nbytes_of(q, q->count);
    size_t total = 0;
    for (int64_t k = 0; k < q->nparts; k++) total += nbytes_of(q, comm_source_count(q, k));
    return total;
}

static inline size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline void copy(void *dst, const void *src, size_t nbytes) {
    if (dst != src && nbytes) memcpy(dst, src, nbytes);
}

/* Part k of what a member gives, and of what it gets. */
static inline const char *source_part(const comm_request *q, int64_t k) {
    return q->srcs ? q->srcs[k] : (const char *)q->src + (size_t)k * nbytes_of(q, q->count);
}

static inline char *result_part(const comm_request *q, int64_t k) {
    return q->dsts ? q->dsts[k] : (char *)q->dst + (size_t)k * nbytes_of(q, q->count);
}

/* --- parts.c ------------------------------------------------------------------------------------------------------ */

/* Bytes [at, at + nbytes) of a member's source, of what is for member `to` of several tensors that are scattered: where
 * they are, or copied to `room` where they lie in several parts. */
const char *part_source(const comm_request *q, int to, size_t at, size_t nbytes, char *room);
void part_write_result(const comm_request *q, size_t at, const char *bytes, size_t nbytes);
/* The reduction of `nbytes` at r->srcs[0 .. nranks), to the results of member `to` (-1: all) here, and to `also`. */
void part_reduce(const mpi_ring *r, size_t nbytes, int to, size_t at, char *also);
/* Copies sources that results lie over to the scratch, and leaves `room_nbytes` behind them, aligned; the requests then
 * name the copies. */
WEFT_MUST_USE weft_status part_save_sources(mpi_ring *r, size_t room_nbytes, char **out_room);

/* A status where the run ends before. */
WEFT_MUST_USE weft_status move_wait(mpi_ring *r, mpi_batch *b);

/* --- pieces.c: what one process has for another ------------------------------------------------------------------ */

typedef struct piece {
    int from, to; /* members; to -1: the same for all there */
    int64_t part; /* of several tensors; else 0 */
    size_t nbytes;
} piece;

/* How many there are at most, and of how many bytes in all. */
size_t pieces_most(const mpi_ring *r, const comm_request *q);
size_t pieces_most_nbytes(const mpi_ring *r, const comm_request *q);
/* `out` has room for pieces_most. Returns how many there are. Both processes list the same ones in the same order. */
int pieces_list(const mpi_ring *r, const comm_request *q, int from, int to, piece *out);

/* A run of bytes that goes to another process, or comes from there. */
typedef struct moved {
    const char *from;
    char *to;
    size_t nbytes;
} moved;

/* What goes to a process, or comes from it, where it lies here: a run for each piece. */
int pieces_outgoing(const mpi_ring *r, int to, moved *out);
int pieces_incoming(const mpi_ring *r, int from, moved *out);
/* The most bytes that one process has for another; all processes say the same. */
size_t pieces_longest(const mpi_ring *r);

/* --- shown.c: the same through memory that all processes of the ring see ------------------------------------------ */

/* Room that it needs where no process has more than `most` runs for another. */
size_t shown_nbytes(const mpi_ring *r, size_t most);
WEFT_MUST_USE weft_status shown_run(mpi_ring *r, void *room, size_t most);

/* --- flow.c ------------------------------------------------------------------------------------------------------- */

/* What is reduced and too large to come with the heads. */
WEFT_MUST_USE weft_status flow_run(mpi_ring *r);
/* Who reduces what, in r->lanes; the longest has out_longest bytes. Returns how many lanes there are. */
int flow_lanes(mpi_ring *r, size_t *out_longest);

/* --- staged.c ----------------------------------------------------------------------------------------------------- */

/* The same through memory that all processes of the ring see. False: there is not room enough. */
bool staged_takes(const mpi_ring *r);
WEFT_MUST_USE weft_status staged_run(mpi_ring *r);

#endif
