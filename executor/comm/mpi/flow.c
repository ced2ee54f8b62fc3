/* flow.c: reductions between processes.
 *
 * The idea: owner computes, as in local_move.c. What is reduced has lanes, each of one process. That gets every
 * member's elements of its lane, adds them up in the order of the ring and gives the result to who needs it: each
 * element is added up as threads of one process would, so the bits are theirs. Volume is that of a ring
 * (reduce-scatter, then all-gather) for processes of one member; lanes go in segments, so that one is reduced while the
 * next is on its way. */
#include "executor/comm/mpi/move.h"

/* Segments: as large as fits in a core's cache, two of each member at a time. */
enum {
    SEGMENT_NBYTES = 1 << 18,
    LEAST_SEGMENT_NBYTES = 1 << 10,
    ROOM_NBYTES = 1 << 24,
    BATCH_SENDS = 2,
    BATCH_RECEIVES = 4,
    BATCH_RESULTS = 6
};

typedef struct flow {
    mpi_ring *r;
    mpi_host *host;
    const comm_request *q;
    mpi_lane *lanes;
    int nlanes;
    size_t segment, nsegments;
    size_t nrooms; /* of a segment each: of own lanes for each member, of others for each one here; and for results */
    char *rooms;   /* twice so many */
} flow;

static bool is_own(const flow *f, int l) {
    return f->lanes[l].owner == f->host->proc;
}

static int nrooms_of(const flow *f, int l) {
    return (is_own(f, l) ? f->r->nranks : f->r->nlocal) + 1;
}

int flow_lanes(mpi_ring *r, size_t *out_longest) {
    const comm_request *q = asked(r, r->locals[0]);
    size_t total = total_nbytes(q);
    int n = 0;
    if (q->kind == COMM_REDUCE) r->lanes[n++] = (mpi_lane){r->members[q->root].proc, q->root, 0, total, 0};
    for (int j = 0; q->kind == COMM_REDUCE_SCATTER && j < r->nranks; j++)
        r->lanes[n++] = (mpi_lane){r->members[j].proc, j, q->nparts ? 0 : (size_t)j * total, total, 0};
    for (int p = 0; q->kind == COMM_ALL_REDUCE && p < r->nprocs; p++) {
        size_t each = total / (size_t)r->nprocs, first = each * (size_t)p / 64 * 64;
        size_t end = p + 1 < r->nprocs ? each * ((size_t)p + 1) / 64 * 64 : total;
        r->lanes[n++] = (mpi_lane){r->procs[p], -1, first, end - first, 0};
    }
    *out_longest = 0;
    for (int l = 0; l < n; l++)
        if (r->lanes[l].nbytes > *out_longest) *out_longest = r->lanes[l].nbytes;
    return n;
}

static void make_lanes(flow *f) {
    size_t longest;
    f->nlanes = flow_lanes(f->r, &longest);
    for (int l = 0; l < f->nlanes; l++) {
        f->lanes[l].first_room = f->nrooms;
        f->nrooms += (size_t)nrooms_of(f, l);
    }
    f->segment = least(SEGMENT_NBYTES, ROOM_NBYTES / (2 * f->nrooms)) / REDUCE_BLOCK_NBYTES * REDUCE_BLOCK_NBYTES;
    if (!f->segment) f->segment = LEAST_SEGMENT_NBYTES;
    f->nsegments = (longest + f->segment - 1) / f->segment;
}

static char *room_at(const flow *f, size_t k, int l, int place) {
    return f->rooms + (k % 2 * f->nrooms + f->lanes[l].first_room + (size_t)place) * f->segment;
}

static char *room_of_result(const flow *f, size_t k, int l) {
    return room_at(f, k, l, nrooms_of(f, l) - 1);
}

/* Bytes of segment k of a lane. */
static size_t extent(const flow *f, const mpi_lane *l, size_t k) {
    size_t at = k * f->segment;
    return at < l->nbytes ? least(f->segment, l->nbytes - at) : 0;
}

static weft_status start_segment(flow *f, size_t k) {
    mpi_ring *r = f->r;
    for (int l = 0; l < f->nlanes; l++) {
        const mpi_lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k);
        for (int i = 0; i < r->nranks && nbytes && is_own(f, l); i++)
            if (!is_here(r, i))
                TRY(batch_receive(f->host, &r->batches[BATCH_RECEIVES + k % 2], f->host->data, r->members[i].proc,
                                  r->tag, room_at(f, k, l, i), nbytes));
        for (int i = 0; i < r->nlocal && nbytes && !is_own(f, l); i++) {
            const char *bytes =
                part_source(asked(r, r->locals[i]), n->to, n->at + k * f->segment, nbytes, room_at(f, k, l, i));
            TRY(batch_send(f->host, &r->batches[BATCH_SENDS + k % 2], f->host->data, n->owner, r->tag, bytes, nbytes));
        }
    }
    return NULL;
}

static void reduce_segment(const flow *f, size_t k) {
    const mpi_ring *r = f->r;
    for (int l = 0; l < f->nlanes; l++) {
        const mpi_lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k), at = k * f->segment;
        if (!is_own(f, l) || !nbytes) continue;
        for (int i = 0; i < r->nranks; i++) {
            char *room = room_at(f, k, l, i);
            r->srcs[i] = is_here(r, i) ? part_source(asked(r, i), n->to, n->at + at, nbytes, room) : room;
        }
        bool is_sent_apart = n->to < 0 && f->q->dsts;
        part_reduce(r, nbytes, n->to, n->to < 0 ? n->at + at : at, is_sent_apart ? room_of_result(f, k, l) : NULL);
    }
}

/* Of lanes whose results all members get. */
static weft_status start_results(flow *f, size_t k) {
    mpi_ring *r = f->r;
    mpi_batch *b = &r->batches[BATCH_RESULTS + k % 2];
    for (int l = 0; l < f->nlanes; l++) {
        const mpi_lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k);
        if (n->to >= 0 || !nbytes) continue;
        char *bytes = f->q->dsts ? room_of_result(f, k, l) : (char *)f->q->dst + n->at + k * f->segment;
        if (!is_own(f, l)) TRY(batch_receive(f->host, b, f->host->data, n->owner, r->tag, bytes, nbytes));
        for (int p = 0; is_own(f, l) && p < r->nprocs; p++)
            if (r->procs[p] != f->host->proc)
                TRY(batch_send(f->host, b, f->host->data, r->procs[p], r->tag, bytes, nbytes));
    }
    return NULL;
}

/* Results of other processes, from where they came to every member here. */
static void spread_results(const flow *f, size_t k) {
    const mpi_ring *r = f->r;
    for (int l = 0; l < f->nlanes; l++) {
        const mpi_lane *n = &f->lanes[l];
        size_t nbytes = extent(f, n, k), at = n->at + k * f->segment;
        if (n->to >= 0 || is_own(f, l) || !nbytes) continue;
        const char *bytes = f->q->dsts ? room_of_result(f, k, l) : (char *)f->q->dst + at;
        for (int i = 0; i < r->nlocal; i++) part_write_result(asked(r, r->locals[i]), at, bytes, nbytes);
    }
}

/* Results of a segment are not waited for while the next one can be reduced; a receive over a source begins when that
 * has been sent. */
static weft_status run_flow(flow *f) {
    mpi_batch *b = f->r->batches;
    for (size_t k = 0; k < f->nsegments + 2; k++) {
        if (k < f->nsegments) TRY(start_segment(f, k));
        if (k >= 1 && k <= f->nsegments) {
            TRY(move_wait(f->r, &b[BATCH_RECEIVES + (k - 1) % 2]));
            reduce_segment(f, k - 1);
            TRY(move_wait(f->r, &b[BATCH_SENDS + (k - 1) % 2]));
            TRY(start_results(f, k - 1));
        }
        if (k >= 2) {
            TRY(move_wait(f->r, &b[BATCH_RESULTS + (k - 2) % 2]));
            spread_results(f, k - 2);
        }
    }
    return NULL;
}

weft_status flow_run(mpi_ring *r) {
    flow f = {.r = r, .host = r->world->host, .q = asked(r, r->locals[0]), .lanes = r->lanes};
    make_lanes(&f);
    TRY(part_save_sources(r, 2 * f.nrooms * f.segment, &f.rooms));
    return run_flow(&f);
}
