/* move.c: the data movement of each collective between processes.
 *
 * The idea: owner computes, as in local_move.c. What is reduced has lanes, each of one process, which gets every
 * member's elements of its lane, adds them up in the order of the ring and gives the result to who needs it: each
 * element is added up as threads of one process would, so the bits are theirs. Volume is that of a ring
 * (reduce-scatter, then all-gather) for processes of one member; lanes go in segments, so that one is reduced while the
 * next is on its way.
 *
 * What is small comes with the heads (ring.c). What is only moved goes from buffer to buffer; a source that others read
 * and that its member writes over is copied first.
 *
 * The invariant of order: who sends from p to q and who receives there list the same pieces in the same order. */
#include "executor/comm/mpi/mpi.h"

/* Segments: as large as fits in a core's cache, two of each member at a time. */
enum {
    SEGMENT_NBYTES = 1 << 18,
    ROOM_NBYTES = 1 << 24,
    BATCH_MOVE = 1,
    BATCH_SENDS = 2,
    BATCH_RECEIVES = 4,
    BATCH_RESULTS = 6
};

static const comm_request *asked(const mpi_ring *r, int member) {
    return &r->members[member].request;
}

static bool is_here(const mpi_ring *r, int member) {
    return r->members[member].proc == r->world->host->proc;
}

static size_t nbytes_of(const comm_request *q, int64_t count) {
    return (size_t)count * weft_dtype_nbytes(q->dtype);
}

/* Bytes of what a member of an all_reduce gives, or of its part of what is gathered or scattered. */
static size_t total_nbytes(const comm_request *q) {
    if (!q->nparts) return nbytes_of(q, q->count);
    size_t total = 0;
    for (int64_t k = 0; k < q->nparts; k++) total += nbytes_of(q, comm_source_count(q, k));
    return total;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

static void copy(void *dst, const void *src, size_t nbytes) {
    if (dst != src && nbytes) memcpy(dst, src, nbytes);
}

/* Part k of what a member gives, and of what it gets. */
static const char *source_part(const comm_request *q, int64_t k) {
    return q->srcs ? q->srcs[k] : (const char *)q->src + (size_t)k * nbytes_of(q, q->count);
}

static char *result_part(const comm_request *q, int64_t k) {
    return q->dsts ? q->dsts[k] : (char *)q->dst + (size_t)k * nbytes_of(q, q->count);
}

/* --- parts as one run of bytes ------------------------------------------------------------------------------------ */

/* Bytes [at, at + nbytes) of a member's source, of what is for member `to` of several tensors that are scattered: where
 * they are, or copied to `room` where they lie in several parts. */
static const char *source_bytes(const comm_request *q, int to, size_t at, size_t nbytes, char *room) {
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

static void write_result(const comm_request *q, size_t at, const char *bytes, size_t nbytes) {
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

/* --- pieces: what process `from` has for process `to` ------------------------------------------------------------- */

typedef struct piece {
    int from, to; /* members; to -1: the same for all there */
    size_t nbytes;
} piece;

static bool goes(const mpi_ring *r, const comm_request *q, int member, int to) {
    if (q->kind == COMM_REDUCE) return r->members[q->root].proc == to;
    return q->kind == COMM_BROADCAST || q->kind == COMM_SCATTER ? member == q->root : q->kind != COMM_BARRIER;
}

/* `out`: room for nranks * nranks. */
static int list_pieces(const mpi_ring *r, const comm_request *q, int from, int to, piece *out) {
    bool in_parts = comm_kinds[q->kind].src == COMM_WHOLE;
    int n = 0;
    for (int i = 0; i < r->nranks; i++) {
        if (r->members[i].proc != from || !goes(r, q, i, to)) continue;
        const comm_request *of_i = asked(r, i);
        if (!in_parts) out[n++] = (piece){i, -1, q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count)};
        for (int j = 0; in_parts && j < r->nranks; j++)
            if (r->members[j].proc == to) out[n++] = (piece){i, j, nbytes_of(q, comm_source_count(of_i, j))};
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
            copy(out + at, source_bytes(given, -1, 0, pieces[k].nbytes, out + at), pieces[k].nbytes);
        at += pieces[k].nbytes;
    }
    return at;
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

/* The reduction of `nbytes` at srcs[0 .. nranks), to the results of member `to` (-1: all) here, and to `also`. */
static void reduce_to(const mpi_ring *r, const char *const *srcs, size_t nbytes, int to, size_t at, char *also) {
    const comm_request *q = asked(r, r->locals[0]);
    reduce_block block;
    const void *from[MOST_MEMBERS];
    for (size_t done = 0; done < nbytes; done += REDUCE_BLOCK_NBYTES) {
        size_t n = least(nbytes - done, REDUCE_BLOCK_NBYTES);
        for (int i = 0; i < r->nranks; i++) from[i] = srcs[i] + done;
        reduce_sources(q->dtype, q->reduce, from, r->nranks, n / weft_dtype_nbytes(q->dtype), &block);
        for (int i = 0; i < r->nlocal; i++)
            if (to < 0 || r->locals[i] == to)
                write_result(asked(r, r->locals[i]), at + done, (const char *)block.bytes, n);
        if (also) memcpy(also + done, block.bytes, n);
    }
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
    const char *srcs[MOST_MEMBERS];
    bool scatters = q->kind == COMM_REDUCE_SCATTER;
    for (int k = 0; k < (scatters ? r->nlocal : 1); k++) {
        int j = scatters ? r->locals[k] : 0, to = scatters ? j : q->kind == COMM_REDUCE ? q->root : -1;
        for (int i = 0; i < r->nranks; i++) srcs[i] = got[i * r->nranks + (scatters ? j : 0)];
        size_t nbytes = q->kind == COMM_ALL_REDUCE ? total_nbytes(q) : nbytes_of(q, q->count);
        reduce_to(r, srcs, nbytes, to, 0, NULL);
    }
}

static weft_status run_inline(mpi_ring *r, const char *const *inlined) {
    const comm_request *q = asked(r, r->locals[0]);
    const char *got[32 * 32] = {NULL};
    piece pieces[32 * 32];
    int own = r->world->host->proc;
    TRY(ring_reserve(r, INLINE_NBYTES));
    (void)move_pack(r, q, own, own, r->scratch); /* results may lie over sources */
    for (int p = 0; p < r->nprocs; p++) {
        const char *at = r->procs[p] == own ? r->scratch : inlined[p];
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

/* Copies them to the scratch, and leaves `room_nbytes` behind them, aligned; the requests then name the copies. */
static weft_status save_sources(mpi_ring *r, size_t room_nbytes, char **out_room) {
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

/* --- what is only moved ------------------------------------------------------------------------------------------- */

/* Where a piece goes that comes from another process. */
static char *place_of(const mpi_ring *r, const comm_request *q, const piece *p) {
    const comm_request *to = asked(r, p->to < 0 ? r->locals[0] : p->to);
    bool in_parts = q->kind == COMM_ALL_GATHER || q->kind == COMM_ALL_TO_ALL;
    return in_parts ? result_part(to, p->from) : to->dst;
}

static weft_status start_moves(mpi_ring *r, piece *pieces) {
    mpi_host *host = r->world->host;
    const comm_request *q = asked(r, r->locals[0]);
    mpi_batch *b = &r->batches[BATCH_MOVE];
    for (int p = 0; p < r->nprocs; p++) {
        int other = r->procs[p];
        if (other == host->proc) continue;
        int n = list_pieces(r, q, other, host->proc, pieces);
        for (int k = 0; k < n; k++)
            TRY(batch_receive(host, b, host->data, other, r->tag, place_of(r, q, &pieces[k]), pieces[k].nbytes));
        n = list_pieces(r, q, host->proc, other, pieces);
        for (int k = 0; k < n; k++) {
            const comm_request *from = asked(r, pieces[k].from);
            const char *bytes = pieces[k].to < 0 ? from->src : source_part(from, pieces[k].to);
            TRY(batch_send(host, b, host->data, other, r->tag, bytes, pieces[k].nbytes));
        }
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

static weft_status wait_for(mpi_ring *r, mpi_batch *b) {
    wait_result result;
    TRY(batch_wait(r->world->host, b, &r->world->aborted, 0, &result));
    return result == WAIT_REACHED ? NULL : ring_cancelled(r, r->locals[0]);
}

/* All tensors at once, each from and to where it lies. */
static weft_status start_gathers(mpi_ring *r) {
    mpi_host *host = r->world->host;
    mpi_batch *b = &r->batches[BATCH_MOVE];
    const comm_request *q = asked(r, r->locals[0]);
    for (int64_t k = 0; k < q->nparts; k++) {
        size_t part = nbytes_of(q, comm_source_count(q, k));
        for (int i = 0; i < r->nranks; i++) {
            int proc = r->members[i].proc;
            if (proc != host->proc)
                TRY(batch_receive(host, b, host->data, proc, r->tag, (char *)q->dsts[k] + (size_t)i * part, part));
            for (int p = 0; proc == host->proc && p < r->nprocs; p++)
                if (r->procs[p] != proc)
                    TRY(batch_send(host, b, host->data, r->procs[p], r->tag, asked(r, i)->srcs[k], part));
        }
    }
    return NULL;
}

static weft_status run_gathers(mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    TRY(start_gathers(r));
    TRY(wait_for(r, &r->batches[BATCH_MOVE]));
    for (int64_t k = 0; k < q->nparts; k++) {
        size_t part = nbytes_of(q, comm_source_count(q, k));
        for (int m = 0; m < r->nlocal; m++)
            for (int i = 0; i < r->nranks; i++) {
                size_t at = (size_t)i * part;
                copy((char *)asked(r, r->locals[m])->dsts[k] + at,
                     is_here(r, i) ? asked(r, i)->srcs[k] : (const char *)q->dsts[k] + at, part);
            }
    }
    return NULL;
}

static weft_status run_moves(mpi_ring *r) {
    if (asked(r, r->locals[0])->nparts) return run_gathers(r);
    size_t pieces_nbytes = (size_t)r->nranks * (size_t)r->nranks * sizeof(piece);
    char *room;
    TRY(save_sources(r, pieces_nbytes, &room));
    TRY(start_moves(r, (piece *)(void *)room));
    TRY(wait_for(r, &r->batches[BATCH_MOVE]));
    finish_moves(r);
    return NULL;
}

/* --- what is reduced ---------------------------------------------------------------------------------------------- */

/* Bytes [at, at + nbytes) of all sources, reduced by process `owner` for member `to` (-1: all). */
typedef struct lane {
    int owner, to;
    size_t at, nbytes;
} lane;

typedef struct flow {
    mpi_ring *r;
    mpi_host *host;
    const comm_request *q;
    lane lanes[MOST_MEMBERS];
    int nlanes;
    size_t segment, nsegments;
    char *rooms; /* a segment for each lane and member, and for its result, twice */
} flow;

static void make_lanes(flow *f) {
    const mpi_ring *r = f->r;
    const comm_request *q = f->q;
    size_t total = total_nbytes(q), longest = 0;
    if (q->kind == COMM_REDUCE) f->lanes[f->nlanes++] = (lane){r->members[q->root].proc, q->root, 0, total};
    for (int j = 0; q->kind == COMM_REDUCE_SCATTER && j < r->nranks; j++)
        f->lanes[f->nlanes++] = (lane){r->members[j].proc, j, q->nparts ? 0 : (size_t)j * total, total};
    for (int p = 0; q->kind == COMM_ALL_REDUCE && p < r->nprocs; p++) {
        size_t n = (size_t)r->nprocs, first = total / n * (size_t)p / 64 * 64;
        size_t end = p + 1 < r->nprocs ? total / n * ((size_t)p + 1) / 64 * 64 : total;
        f->lanes[f->nlanes++] = (lane){r->procs[p], -1, first, end - first};
    }
    for (int l = 0; l < f->nlanes; l++)
        if (f->lanes[l].nbytes > longest) longest = f->lanes[l].nbytes;
    size_t share = ROOM_NBYTES / (2 * (size_t)f->nlanes * ((size_t)r->nranks + 1));
    f->segment = least(SEGMENT_NBYTES, share) / REDUCE_BLOCK_NBYTES * REDUCE_BLOCK_NBYTES;
    if (!f->segment) f->segment = REDUCE_BLOCK_NBYTES;
    f->nsegments = (longest + f->segment - 1) / f->segment;
}

/* `member` nranks: of the result. */
static char *room_of(const flow *f, size_t k, int l, int member) {
    size_t per_lane = (size_t)f->r->nranks + 1;
    return f->rooms + ((k % 2 * (size_t)f->nlanes + (size_t)l) * per_lane + (size_t)member) * f->segment;
}

/* Bytes of segment k of a lane. */
static size_t extent(const flow *f, const lane *l, size_t k) {
    size_t at = k * f->segment;
    return at < l->nbytes ? least(f->segment, l->nbytes - at) : 0;
}

static weft_status start_segment(flow *f, size_t k) {
    mpi_ring *r = f->r;
    for (int l = 0; l < f->nlanes; l++) {
        const lane *n = &f->lanes[l];
        bool is_own = n->owner == f->host->proc;
        size_t nbytes = extent(f, n, k);
        for (int i = 0; i < r->nranks && nbytes; i++) {
            if (is_own == is_here(r, i)) continue;
            char *room = room_of(f, k, l, i);
            if (is_own) {
                TRY(batch_receive(f->host, &r->batches[BATCH_RECEIVES + k % 2], f->host->data, r->members[i].proc,
                                  r->tag, room, nbytes));
            } else {
                TRY(batch_send(f->host, &r->batches[BATCH_SENDS + k % 2], f->host->data, n->owner, r->tag,
                               source_bytes(asked(r, i), n->to, n->at + k * f->segment, nbytes, room), nbytes));
            }
        }
    }
    return NULL;
}

static void reduce_segment(const flow *f, size_t k) {
    const mpi_ring *r = f->r;
    const char *srcs[MOST_MEMBERS];
    for (int l = 0; l < f->nlanes; l++) {
        const lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k), at = k * f->segment;
        if (n->owner != f->host->proc || !nbytes) continue;
        for (int i = 0; i < r->nranks; i++) {
            char *room = room_of(f, k, l, i);
            srcs[i] = is_here(r, i) ? source_bytes(asked(r, i), n->to, n->at + at, nbytes, room) : room;
        }
        bool is_sent_apart = n->to < 0 && f->q->dsts;
        reduce_to(r, srcs, nbytes, n->to, n->to < 0 ? n->at + at : at,
                  is_sent_apart ? room_of(f, k, l, r->nranks) : NULL);
    }
}

/* Of lanes whose results all members get. */
static weft_status start_results(flow *f, size_t k) {
    mpi_ring *r = f->r;
    mpi_batch *b = &r->batches[BATCH_RESULTS + k % 2];
    for (int l = 0; l < f->nlanes; l++) {
        const lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k);
        if (n->to >= 0 || !nbytes) continue;
        char *bytes = f->q->dsts ? room_of(f, k, l, r->nranks) : (char *)f->q->dst + n->at + k * f->segment;
        if (n->owner != f->host->proc) TRY(batch_receive(f->host, b, f->host->data, n->owner, r->tag, bytes, nbytes));
        for (int p = 0; n->owner == f->host->proc && p < r->nprocs; p++)
            if (r->procs[p] != f->host->proc)
                TRY(batch_send(f->host, b, f->host->data, r->procs[p], r->tag, bytes, nbytes));
    }
    return NULL;
}

/* Results of other processes, from where they came to every member here. */
static void spread_results(const flow *f, size_t k) {
    const mpi_ring *r = f->r;
    for (int l = 0; l < f->nlanes; l++) {
        const lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k), at = n->at + k * f->segment;
        if (n->to >= 0 || n->owner == f->host->proc || !nbytes) continue;
        const char *bytes = f->q->dsts ? room_of(f, k, l, r->nranks) : (char *)f->q->dst + at;
        for (int i = 0; i < r->nlocal; i++) write_result(asked(r, r->locals[i]), at, bytes, nbytes);
    }
}

/* Results of a segment are not waited for while the next one can be reduced; a receive over a source begins when that
 * has been sent. */
static weft_status run_flow(flow *f) {
    mpi_batch *b = f->r->batches;
    for (size_t k = 0; k < f->nsegments + 2; k++) {
        if (k < f->nsegments) TRY(start_segment(f, k));
        if (k >= 1 && k <= f->nsegments) {
            TRY(wait_for(f->r, &b[BATCH_RECEIVES + (k - 1) % 2]));
            reduce_segment(f, k - 1);
            TRY(wait_for(f->r, &b[BATCH_SENDS + (k - 1) % 2]));
            TRY(start_results(f, k - 1));
        }
        if (k >= 2) {
            TRY(wait_for(f->r, &b[BATCH_RESULTS + (k - 2) % 2]));
            spread_results(f, k - 2);
        }
    }
    return NULL;
}

static weft_status run_reduction(mpi_ring *r) {
    flow f = {.r = r, .host = r->world->host, .q = asked(r, r->locals[0])};
    make_lanes(&f);
    TRY(save_sources(r, 2 * (size_t)f.nlanes * ((size_t)r->nranks + 1) * f.segment, &f.rooms));
    return run_flow(&f);
}

weft_status move_run(mpi_ring *r, const char *const *inlined) {
    const comm_request *q = asked(r, r->locals[0]);
    if (q->kind == COMM_BARRIER) return NULL;
    if (inlined) return run_inline(r, inlined);
    return comm_kinds[q->kind].has_reduce ? run_reduction(r) : run_moves(r);
}
