/* staged.c: reductions between processes of one machine, through their slots (near.c).
 *
 * The idea: lanes are those of flow.c. Who does not own a lane copies its members' elements of it to its slot; the
 * owner adds them up from there, in the order of the ring. It leaves the result in its own slot, from where all others
 * copy it. That is two copies of what is not a process's own, in segments that stay in a core's cache, and no message.
 *
 * The invariant of rooms: each has two, for segments in turn. A process writes to one again when the others have
 * counted that they are done with the segment before the last. When heads have been exchanged, all are done with all.
 */
#include "executor/comm/mpi/move.h"

enum { MOST_SEGMENT_NBYTES = 256 << 10 };

typedef struct stage {
    mpi_ring *r;
    const comm_request *q;
    int nlanes;
    size_t segment, nsegments;
    char *parts; /* by member here: room for a segment whose bytes lie in several tensors */
} stage;

/* The same in all processes. 0: there is not room enough. */
static size_t segment_nbytes(const mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    size_t nlanes = 1;
    if (q->kind == COMM_REDUCE_SCATTER) nlanes = (size_t)r->nranks;
    if (q->kind == COMM_ALL_REDUCE) nlanes = (size_t)r->nprocs;
    size_t most = ROOMS_NBYTES / (2 * nlanes * (size_t)r->most_members);
    return least(most, MOST_SEGMENT_NBYTES) / REDUCE_BLOCK_NBYTES * REDUCE_BLOCK_NBYTES;
}

bool staged_takes(const mpi_ring *r) {
    return r->is_near && segment_nbytes(r) > 0;
}

/* Segment k of a lane in the slot of a process: of one of its members, or the result (place 0) if the lane is its own.
 */
static char *room(const stage *s, size_t k, int seat, int lane, int place) {
    const mpi_ring *r = s->r;
    size_t n = (r->nsegments + k) % 2 * (size_t)s->nlanes + (size_t)lane;
    return r->near[seat].slot->rooms + (n * (size_t)r->most_members + (size_t)place) * s->segment;
}

static bool is_own(const stage *s, int l) {
    return s->r->lanes[l].owner == s->r->world->host->proc;
}

/* Bytes of segment k of a lane. */
static size_t extent(const stage *s, int l, size_t k) {
    size_t at = k * s->segment, nbytes = s->r->lanes[l].nbytes;
    return at < nbytes ? least(s->segment, nbytes - at) : 0;
}

static const char *source(const stage *s, int l, size_t k, int member, char *parts) {
    const mpi_lane *lane = &s->r->lanes[l];
    return part_source(asked(s->r, member), lane->to, lane->at + k * s->segment, extent(s, l, k), parts);
}

static void give_segment(const stage *s, size_t k) {
    const mpi_ring *r = s->r;
    for (int l = 0; l < s->nlanes; l++) {
        for (int i = 0; i < r->nlocal && !is_own(s, l) && extent(s, l, k); i++) {
            char *to = room(s, k, r->own_seat, l, i);
            copy(to, source(s, l, k, r->locals[i], to), extent(s, l, k));
        }
    }
}

static void reduce_lane(const stage *s, int l, size_t k) {
    const mpi_ring *r = s->r;
    const mpi_lane *lane = &r->lanes[l];
    for (int i = 0; i < r->nranks; i++) {
        const mpi_member *m = &r->members[i];
        char *parts = s->parts + (size_t)m->place * s->segment;
        r->srcs[i] = m->seat == r->own_seat ? source(s, l, k, i, parts) : room(s, k, m->seat, l, m->place);
    }
    bool is_for_all = lane->to < 0;
    size_t at = k * s->segment + (is_for_all ? lane->at : 0);
    part_reduce(r, extent(s, l, k), lane->to, at, is_for_all ? room(s, k, r->own_seat, l, 0) : NULL);
}

/* Who owns nothing of it waits for nobody. */
static weft_status reduce_segment(const stage *s, int self, size_t k) {
    bool owns = false;
    for (int l = 0; l < s->nlanes; l++) owns = owns || (is_own(s, l) && extent(s, l, k));
    if (owns) TRY(near_wait(s->r, self, COUNT_STAGED, s->r->nsegments + k + 1));
    for (int l = 0; l < s->nlanes; l++)
        if (is_own(s, l) && extent(s, l, k)) reduce_lane(s, l, k);
    return NULL;
}

static void take_segment(const stage *s, size_t k) {
    const mpi_ring *r = s->r;
    for (int l = 0; l < s->nlanes; l++) {
        const mpi_lane *lane = &r->lanes[l];
        size_t nbytes = extent(s, l, k);
        if (lane->to >= 0 || is_own(s, l) || !nbytes) continue;
        int owner = 0;
        while (r->procs[owner] != lane->owner) owner++;
        for (int i = 0; i < r->nlocal; i++)
            part_write_result(asked(r, r->locals[i]), lane->at + k * s->segment, room(s, k, owner, l, 0), nbytes);
    }
}

/* One segment is copied, the one before added up, and the result of the one before that taken. */
static weft_status run(const stage *s) {
    mpi_ring *r = s->r;
    int self = r->locals[0];
    uint64_t before = r->nsegments;
    for (size_t k = 0; k < s->nsegments + 2; k++) {
        if (k < s->nsegments) {
            if (k >= 2) TRY(near_wait(r, self, COUNT_REDUCED, before + k - 1));
            give_segment(s, k);
            near_count(r, COUNT_STAGED, before + k + 1);
        }
        if (k >= 1 && k <= s->nsegments) {
            if (k >= 3) TRY(near_wait(r, self, COUNT_TAKEN, before + k - 2));
            TRY(reduce_segment(s, self, k - 1));
            near_count(r, COUNT_REDUCED, before + k);
        }
        if (k >= 2) {
            if (s->q->kind == COMM_ALL_REDUCE) TRY(near_wait(r, self, COUNT_REDUCED, before + k - 1));
            take_segment(s, k - 2);
            near_count(r, COUNT_TAKEN, before + k - 1);
        }
    }
    return NULL;
}

weft_status staged_run(mpi_ring *r) {
    stage s = {.r = r, .q = asked(r, r->locals[0]), .segment = segment_nbytes(r)};
    size_t longest;
    s.nlanes = flow_lanes(r, &longest);
    s.nsegments = (longest + s.segment - 1) / s.segment;
    TRY(part_save_sources(r, (size_t)r->nlocal * s.segment, &s.parts));
    weft_status status = run(&s);
    r->nsegments += s.nsegments;
    return status;
}
