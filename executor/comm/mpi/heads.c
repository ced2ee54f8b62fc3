/* heads.c: what all files of a ring use: its memory, the status of its end, and what members ask for as processes tell
 * it.
 */
#include <stdio.h>

#include "executor/comm/mpi/mpi.h"

weft_status ring_reserve(mpi_ring *r, size_t nbytes) {
    if (nbytes <= r->scratch_nbytes) return NULL;
    char *bytes = base_resize(r->world->host->allocator, r->scratch, r->scratch_nbytes, nbytes);
    if (!bytes) return base_out_of_memory();
    r->scratch = bytes;
    r->scratch_nbytes = nbytes;
    return NULL;
}

weft_status ring_cancelled(const mpi_ring *r, int self) {
    return weft_status_create(WEFT_CANCELLED, NULL, "rank %lld left %s on ring %lld: the run was stopped",
                              (long long)r->members[self].rank, r->members[self].request.op, (long long)r->id);
}

weft_status ring_know_tag(mpi_ring *r, int self) {
    if (atomic_load(&r->world->aborted)) return ring_cancelled(r, self);
    if (atomic_load(&r->known.value)) return NULL;
    return wait_until(&r->known, 1, &r->world->aborted, WAIT_FOREVER) == WAIT_REACHED ? NULL : ring_cancelled(r, self);
}

/* --- requests as others see them ---------------------------------------------------------------------------------- */

uint64_t head_hash_counts(const comm_request *q) {
    return q->nparts && q->src_counts ? base_hash(q->src_counts, (size_t)q->nparts * sizeof *q->src_counts) : 0;
}

void head_of(const mpi_ring *r, const comm_request *q, mpi_head *out) {
    *out = (mpi_head){.kind = q->kind,
                      .dtype = q->dtype,
                      .reduce = q->reduce,
                      .root = q->root,
                      .peer = q->peer,
                      .count = q->count,
                      .nparts = q->nparts,
                      .counts_hash = head_hash_counts(q),
                      .slot = r->slot,
                      .first_mail = r->slot < 0 ? 0 : r->near[r->own_seat].first_mail,
                      .first_segment = r->slot < 0 ? 0 : r->near[r->own_seat].first_segment};
    snprintf(out->op, sizeof out->op, "%s", q->op);
    for (int k = 0; q->kind == COMM_ALL_TO_ALL && k < r->nranks; k++) {
        out->counts[k] = comm_source_count(q, k);
        out->counts[r->nranks + k] = comm_result_count(q, k);
    }
}

comm_request head_request(const mpi_ring *r, const mpi_head *head) {
    bool has_counts = head->kind == COMM_ALL_TO_ALL;
    return (comm_request){.kind = (comm_kind)head->kind,
                          .dtype = (weft_dtype)head->dtype,
                          .reduce = (weft_reduce)head->reduce,
                          .root = head->root,
                          .peer = head->peer,
                          .count = head->count,
                          .nparts = head->nparts,
                          .op = head->op,
                          .src_counts = has_counts ? head->counts : NULL,
                          .dst_counts = has_counts ? head->counts + r->nranks : NULL};
}
