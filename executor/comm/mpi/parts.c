/* parts.c: a member's source and result as one run of bytes each, wherever their parts lie; their reduction in the
 * order of the ring; sources that results lie over. */
#include "executor/comm/mpi/move.h"

/* --- parts as one run of bytes ------------------------------------------------------------------------------------ */

const char *part_source(const comm_request *q, int to, size_t at, size_t nbytes, char *room) {
    if (!q->srcs) return (const char *)q->src + at;
    size_t n = 0, before = q->nparts && q->kind == COMM_REDUCE_SCATTER ? (size_t)to : 0;
    for (int64_t k = 0; n < nbytes; k++) {
        size_t part = nbytes_of(q, comm_source_count(q, k));
        if (at >= part) {
            at -= part;
            continue;
        }
        const char *from = (const char *)q->srcs[k] + before * part + at;
        size_t here = least(part - at, nbytes - n);
        if (here == nbytes) return from;
        memcpy(room + n, from, here);
        n += here;
        at = 0;
    }
    return room;
}

void part_write_result(const comm_request *q, size_t at, const char *bytes, size_t nbytes) {
    if (!q->dsts) {
        copy((char *)q->dst + at, bytes, nbytes);
        return;
    }
    for (int64_t k = 0; nbytes; k++) {
        size_t part = nbytes_of(q, comm_result_count(q, k));
        if (at >= part) {
            at -= part;
            continue;
        }
        size_t here = least(part - at, nbytes);
        memcpy((char *)q->dsts[k] + at, bytes, here);
        bytes += here;
        nbytes -= here;
        at = 0;
    }
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

void part_reduce(const mpi_ring *r, size_t nbytes, int to, size_t at, char *also) {
    const comm_request *q = asked(r, r->locals[0]);
    bool is_direct = also && !reduce_widens(q->dtype);
    reduce_block apart;
    for (size_t done = 0; done < nbytes; done += REDUCE_BLOCK_NBYTES) {
        size_t n = least(nbytes - done, REDUCE_BLOCK_NBYTES);
        reduce_block *block = is_direct ? (reduce_block *)(void *)(also + done) : &apart;
        for (int i = 0; i < r->nranks; i++) r->from[i] = r->srcs[i] + done;
        reduce_sources(q->dtype, q->reduce, r->from, r->nranks, n / weft_dtype_nbytes(q->dtype), block);
        for (int i = 0; i < r->nlocal; i++)
            if (to < 0 || r->locals[i] == to)
                part_write_result(asked(r, r->locals[i]), at + done, (const char *)block->bytes, n);
        if (also && !is_direct) memcpy(also + done, block->bytes, n);
    }
}

/* --- sources that results lie over -------------------------------------------------------------------------------- */

static bool is_overwritten(const comm_request *q) {
    bool moves_apart = q->kind == COMM_ALL_GATHER || q->kind == COMM_ALL_TO_ALL || q->kind == COMM_SCATTER ||
                       q->kind == COMM_REDUCE_SCATTER;
    return moves_apart && !q->srcs && !q->dsts && q->src == q->dst;
}

static size_t source_nbytes(const mpi_ring *r, const comm_request *q) {
    bool whole = comm_kinds[q->kind].src == COMM_WHOLE;
    return nbytes_of(q, q->count) * (whole ? (size_t)r->nranks : 1);
}

weft_status part_save_sources(mpi_ring *r, size_t room_nbytes, char **out_room) {
    size_t nbytes = 0;
    for (int k = 0; k < r->nlocal; k++)
        if (is_overwritten(asked(r, r->locals[k]))) nbytes += source_nbytes(r, asked(r, r->locals[k]));
    nbytes = (nbytes + 63) / 64 * 64;
    TRY(ring_reserve(r, nbytes + room_nbytes + 64));
    char *at = r->scratch;
    for (int k = 0; k < r->nlocal; k++) {
        comm_request *q = &r->members[r->locals[k]].request;
        if (!is_overwritten(q) || (q->kind == COMM_SCATTER && q->root != r->locals[k])) continue;
        size_t n = source_nbytes(r, q);
        memcpy(at, q->src, n);
        q->src = at;
        at += n;
    }
    *out_room = (char *)(((uintptr_t)r->scratch + nbytes + 63) / 64 * 64);
    return NULL;
}

weft_status move_wait(mpi_ring *r, mpi_batch *b) {
    wait_result result;
    TRY(batch_wait(r->world->host, b, &r->world->aborted, WAIT_FOREVER, &result));
    return result == WAIT_REACHED ? NULL : ring_cancelled(r, r->locals[0]);
}
