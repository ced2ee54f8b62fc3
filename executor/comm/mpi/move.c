/* move.c: the data movement of each collective between processes.
 *
 * What is small comes with the heads (ring.c). What is only moved goes from buffer to buffer, by messages or through
 * memory of one machine (shown.c). A source that others read and that its member writes over is copied first. */
#include "executor/comm/mpi/move.h"

enum { BATCH_MOVE = 1 };

/* Who has all_to_all counts of its own does not know whether it is little for all. */
bool move_is_inline(const mpi_ring *r, const comm_request *q) {
    bool is_several = q->nparts && q->kind != COMM_ALL_REDUCE;
    return q->kind != COMM_ALL_TO_ALL && !is_several && r->nranks <= 32 && pieces_most_nbytes(r, q) <= INLINE_NBYTES;
}

size_t move_pack(const mpi_ring *r, const comm_request *q, int from, int to, char *out) {
    piece pieces[32 * 32];
    size_t at = 0;
    int n = pieces_list(r, q, from, to, pieces);
    for (int k = 0; k < n; k++) {
        const comm_request *given = asked(r, pieces[k].from);
        if (pieces[k].to >= 0)
            copy(out + at, source_part(given, pieces[k].to), pieces[k].nbytes);
        else
            copy(out + at, part_source(given, -1, 0, pieces[k].nbytes, out + at), pieces[k].nbytes);
        at += pieces[k].nbytes;
    }
    return at;
}

/* --- what has come with the heads --------------------------------------------------------------------------------- */

/* What is moved only: from `got` (by member that gives, and by member that gets where they differ). */
static void deliver(const mpi_ring *r, const char *const *got) {
    const comm_request *q = asked(r, r->locals[0]);
    size_t part = nbytes_of(q, q->count);
    for (int k = 0; k < r->nlocal; k++) {
        int j = r->locals[k], n = r->nranks;
        const comm_request *to = asked(r, j);
        for (int i = 0; q->kind == COMM_ALL_GATHER && i < n; i++) copy(result_part(to, i), got[i * n], part);
        if (q->kind == COMM_BROADCAST) copy(to->dst, got[q->root * n], part);
        if (q->kind == COMM_SCATTER) copy(to->dst, got[q->root * n + j], part);
    }
}

static void reduce_mail(const mpi_ring *r, const char *const *got) {
    const comm_request *q = asked(r, r->locals[0]);
    bool scatters = q->kind == COMM_REDUCE_SCATTER;
    for (int k = 0; k < (scatters ? r->nlocal : 1); k++) {
        int j = scatters ? r->locals[k] : 0, to = scatters ? j : q->kind == COMM_REDUCE ? q->root : -1;
        for (int i = 0; i < r->nranks; i++) r->srcs[i] = got[i * r->nranks + (scatters ? j : 0)];
        size_t nbytes = q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count);
        part_reduce(r, nbytes, to, 0, NULL);
    }
}

static weft_status run_inline(mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    const char *got[32 * 32] = {NULL};
    piece pieces[32 * 32];
    int own = r->world->host->proc;
    TRY(ring_reserve(r, INLINE_NBYTES));
    (void)move_pack(r, q, own, own, r->scratch); /* results may lie over sources */
    for (int p = 0; p < r->nprocs; p++) {
        const char *at = r->procs[p] == own ? r->scratch : r->inlined[p];
        int n = pieces_list(r, q, r->procs[p], own, pieces);
        for (int k = 0; k < n; at += pieces[k++].nbytes)
            got[pieces[k].from * r->nranks + (pieces[k].to < 0 ? 0 : pieces[k].to)] = at;
    }
    if (!q->count && !q->nparts) return NULL;
    if (!comm_kinds[q->kind].has_reduce)
        deliver(r, got);
    else if (q->kind != COMM_REDUCE || is_here(r, q->root))
        reduce_mail(r, got);
    return NULL;
}

/* --- what is only moved ------------------------------------------------------------------------------------------- */

static weft_status start_moves(mpi_ring *r, moved *list) {
    mpi_host *host = r->world->host;
    mpi_batch *b = &r->batches[BATCH_MOVE];
    for (int p = 0; p < r->nprocs; p++) {
        int other = r->procs[p];
        if (other == host->proc) continue;
        int n = pieces_incoming(r, other, list);
        for (int k = 0; k < n; k++)
            TRY(batch_receive_long(host, b, host->data, other, r->tag, list[k].to, list[k].nbytes));
        n = pieces_outgoing(r, other, list);
        for (int k = 0; k < n; k++)
            TRY(batch_send_long(host, b, host->data, other, r->tag, list[k].from, list[k].nbytes));
    }
    return NULL;
}

/* Between members here, and to those that share what came for one. */
static void finish_moves(const mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    size_t part = nbytes_of(q, q->count);
    for (int k = 0; k < r->nlocal; k++) {
        int j = r->locals[k];
        const comm_request *to = asked(r, j);
        bool has_root = comm_kinds[q->kind].has_root && is_here(r, q->root);
        if (q->kind == COMM_BROADCAST) copy(to->dst, has_root ? asked(r, q->root)->src : q->dst, part);
        if (q->kind == COMM_SCATTER && has_root) copy(to->dst, source_part(asked(r, q->root), j), part);
        for (int i = 0; q->kind == COMM_ALL_GATHER && i < r->nranks; i++)
            copy(result_part(to, i), is_here(r, i) ? asked(r, i)->src : result_part(q, i), part);
        for (int i = 0; q->kind == COMM_ALL_TO_ALL && i < r->nranks; i++)
            if (is_here(r, i))
                copy(result_part(to, i), source_part(asked(r, i), j), nbytes_of(q, comm_source_count(asked(r, i), j)));
    }
}

/* The same of several tensors. */
static void finish_gathers(const mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    for (int64_t k = 0; k < q->nparts; k++) {
        size_t part = nbytes_of(q, comm_source_count(q, k));
        for (int m = 0; m < r->nlocal; m++)
            for (int i = 0; i < r->nranks; i++) {
                size_t at = (size_t)i * part;
                copy((char *)asked(r, r->locals[m])->dsts[k] + at,
                     is_here(r, i) ? asked(r, i)->srcs[k] : (const char *)q->dsts[k] + at, part);
            }
    }
}

static weft_status run_messages(mpi_ring *r, moved *list) {
    TRY(start_moves(r, list));
    return move_wait(r, &r->batches[BATCH_MOVE]);
}

static weft_status run_moves(mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    size_t most = pieces_most(r, q), nbytes = r->is_near ? shown_nbytes(r, most) : most * sizeof(moved);
    char *room;
    TRY(part_save_sources(r, nbytes + most * sizeof(piece), &room));
    r->pieces = room + nbytes;
    TRY(r->is_near ? shown_run(r, room, most) : run_messages(r, (moved *)(void *)room));
    if (q->nparts)
        finish_gathers(r);
    else
        finish_moves(r);
    return NULL;
}

weft_status move_run(mpi_ring *r, bool is_inline) {
    const comm_request *q = asked(r, r->locals[0]);
    if (q->kind == COMM_BARRIER) return NULL;
    if (is_inline) return run_inline(r);
    if (library_takes(r, q)) return library_run(r);
    if (!comm_kinds[q->kind].has_reduce) return run_moves(r);
    return staged_takes(r) ? staged_run(r) : flow_run(r);
}
