/* move.c: the data movement of each collective between processes.
 *
 * What is small comes with the heads (ring.c). What is only moved goes from buffer to buffer, by messages or through
 * memory of one machine (shown.c); a source that others read and that its member writes over is copied first.
 *
 * The invariant of order: who sends from p to q and who receives there list the same pieces in the same order. */
#include "executor/comm/mpi/move.h"

enum { BATCH_MOVE = 1 };

/* --- pieces: what process `from` has for process `to` ------------------------------------------------------------- */

typedef struct piece {
    int from, to; /* members; to -1: the same for all there */
    int64_t part; /* of several tensors; else 0 */
    size_t nbytes;
} piece;

static bool goes(const mpi_ring *r, const comm_request *q, int member, int to) {
    if (q->kind == COMM_REDUCE) return r->members[q->root].proc == to;
    return q->kind == COMM_BROADCAST || q->kind == COMM_SCATTER ? member == q->root : q->kind != COMM_BARRIER;
}

static size_t most_pieces(const mpi_ring *r, const comm_request *q) {
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

/* `out`: room for most_pieces. */
static int list_pieces(const mpi_ring *r, const comm_request *q, int from, int to, piece *out) {
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

static size_t most_nbytes(const mpi_ring *r, const comm_request *q) {
    size_t n = (size_t)r->nranks, one = q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count);
    return comm_kinds[q->kind].src == COMM_WHOLE ? n * n * one : n * one;
}

/* Who has all_to_all counts of its own does not know whether it is little for all. */
bool move_is_inline(const mpi_ring *r, const comm_request *q) {
    bool is_several = q->nparts && q->kind != COMM_ALL_REDUCE;
    return q->kind != COMM_ALL_TO_ALL && !is_several && r->nranks <= 32 && most_nbytes(r, q) <= INLINE_NBYTES;
}

size_t move_pack(const mpi_ring *r, const comm_request *q, int from, int to, char *out) {
    piece pieces[32 * 32];
    size_t at = 0;
    int n = list_pieces(r, q, from, to, pieces);
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
        int n = list_pieces(r, q, r->procs[p], own, pieces);
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

int move_outgoing(const mpi_ring *r, int to, moved *out) {
    piece *pieces = r->pieces;
    int n = list_pieces(r, asked(r, r->locals[0]), r->world->host->proc, to, pieces);
    for (int k = 0; k < n; k++) out[k] = (moved){source_of(r, &pieces[k]), NULL, pieces[k].nbytes};
    return n;
}

int move_incoming(const mpi_ring *r, int from, moved *out) {
    piece *pieces = r->pieces;
    int n = list_pieces(r, asked(r, r->locals[0]), from, r->world->host->proc, pieces);
    for (int k = 0; k < n; k++) out[k] = (moved){NULL, place_of(r, &pieces[k]), pieces[k].nbytes};
    return n;
}

size_t move_longest(const mpi_ring *r) {
    size_t longest = 0;
    for (int from = 0; from < r->nprocs; from++) {
        for (int to = 0; to < r->nprocs; to++) {
            size_t nbytes = 0;
            int n = from == to ? 0 : list_pieces(r, asked(r, r->locals[0]), r->procs[from], r->procs[to], r->pieces);
            for (int k = 0; k < n; k++) nbytes += ((const piece *)r->pieces)[k].nbytes;
            if (nbytes > longest) longest = nbytes;
        }
    }
    return longest;
}

static weft_status start_moves(mpi_ring *r, moved *list) {
    mpi_host *host = r->world->host;
    mpi_batch *b = &r->batches[BATCH_MOVE];
    for (int p = 0; p < r->nprocs; p++) {
        int other = r->procs[p];
        if (other == host->proc) continue;
        int n = move_incoming(r, other, list);
        for (int k = 0; k < n; k++)
            TRY(batch_receive_long(host, b, host->data, other, r->tag, list[k].to, list[k].nbytes));
        n = move_outgoing(r, other, list);
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
    size_t most = most_pieces(r, q), nbytes = r->is_near ? shown_nbytes(r, most) : most * sizeof(moved);
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
