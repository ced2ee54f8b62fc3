/* pieces.c: what one process has for another in a collective, piece by piece, and where that lies here.
 *
 * The invariant of order: who sends from p to q and who receives there list the same pieces in the same order. */
#include "executor/comm/mpi/move.h"

static bool goes(const mpi_ring *r, const comm_request *q, int member, int to) {
    if (q->kind == COMM_REDUCE) return r->members[q->root].proc == to;
    return q->kind == COMM_BROADCAST || q->kind == COMM_SCATTER ? member == q->root : q->kind != COMM_BARRIER;
}

size_t pieces_most(const mpi_ring *r, const comm_request *q) {
    size_t members = (size_t)r->most_members, nparts = (size_t)q->nparts;
    return members * (nparts > members ? nparts : members);
}

static int list_gathered_tensors(const mpi_ring *r, const comm_request *q, int from, piece *out) {
    int n = 0;
    for (int64_t k = 0; k < q->nparts; k++)
        for (int i = 0; i < r->nranks; i++)
            if (r->members[i].proc == from) out[n++] = (piece){i, -1, k, nbytes_of(q, comm_source_count(q, k))};
    return n;
}

int pieces_list(const mpi_ring *r, const comm_request *q, int from, int to, piece *out) {
    bool in_parts = comm_kinds[q->kind].src == COMM_WHOLE;
    int n = 0;
    if (q->nparts && q->kind == COMM_ALL_GATHER) return list_gathered_tensors(r, q, from, out);
    for (int i = 0; i < r->nranks; i++) {
        if (r->members[i].proc != from || !goes(r, q, i, to)) continue;
        const comm_request *of_i = asked(r, i);
        if (!in_parts)
            out[n++] = (piece){i, -1, 0, q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count)};
        for (int j = 0; in_parts && j < r->nranks; j++)
            if (r->members[j].proc == to) out[n++] = (piece){i, j, 0, nbytes_of(q, comm_source_count(of_i, j))};
    }
    return n;
}

size_t pieces_most_nbytes(const mpi_ring *r, const comm_request *q) {
    size_t n = (size_t)r->nranks, one = q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count);
    return comm_kinds[q->kind].src == COMM_WHOLE ? n * n * one : n * one;
}

/* --- where they lie ---------------------------------------------------------------------------------------------- */

static const char *source_of(const mpi_ring *r, const piece *p) {
    const comm_request *from = asked(r, p->from);
    if (from->nparts) return from->srcs[p->part];
    return p->to < 0 ? from->src : source_part(from, p->to);
}

/* Where a piece goes that comes from another process. */
static char *place_of(const mpi_ring *r, const piece *p) {
    const comm_request *to = asked(r, p->to < 0 ? r->locals[0] : p->to);
    if (to->nparts) return (char *)to->dsts[p->part] + (size_t)p->from * p->nbytes;
    bool in_parts = to->kind == COMM_ALL_GATHER || to->kind == COMM_ALL_TO_ALL;
    return in_parts ? result_part(to, p->from) : to->dst;
}

int pieces_outgoing(const mpi_ring *r, int to, moved *out) {
    piece *pieces = r->pieces;
    int n = pieces_list(r, asked(r, r->locals[0]), r->world->host->proc, to, pieces);
    for (int k = 0; k < n; k++) out[k] = (moved){source_of(r, &pieces[k]), NULL, pieces[k].nbytes};
    return n;
}

int pieces_incoming(const mpi_ring *r, int from, moved *out) {
    piece *pieces = r->pieces;
    int n = pieces_list(r, asked(r, r->locals[0]), from, r->world->host->proc, pieces);
    for (int k = 0; k < n; k++) out[k] = (moved){NULL, place_of(r, &pieces[k]), pieces[k].nbytes};
    return n;
}

size_t pieces_longest(const mpi_ring *r) {
    size_t longest = 0;
    for (int from = 0; from < r->nprocs; from++) {
        for (int to = 0; to < r->nprocs; to++) {
            size_t nbytes = 0;
            int n = from == to ? 0 : pieces_list(r, asked(r, r->locals[0]), r->procs[from], r->procs[to], r->pieces);
            for (int k = 0; k < n; k++) nbytes += ((const piece *)r->pieces)[k].nbytes;
            if (nbytes > longest) longest = nbytes;
        }
    }
    return longest;
}
