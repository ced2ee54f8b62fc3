/* shown.c: what is only moved between processes of one machine, through their slots (near.c).
 *
 * The idea: a process copies what it has for others to its slot, they copy it from there. What is the same for all
 * (all_gather, broadcast) it shows once; else there is a lane for each other process. So a byte is copied twice,
 * however many take it, in segments that stay in a core's cache, and no message is sent.
 *
 * The invariant of rooms is that of staged.c: each lane has two, for segments in turn. A process writes to one again
 * when the others have counted that they have taken the segment before the last. Who shows nothing, or takes nothing,
 * counts all of it at once: nobody waits for it, as in a broadcast its root for no one's segments. */
#include "executor/comm/mpi/move.h"

enum { MOST_SHOWN_NBYTES = 256 << 10 };

/* Runs of bytes, as far as they have been copied. */
typedef struct stream {
    moved *runs;
    int nruns, at;
    size_t within;
} stream;

typedef struct show {
    mpi_ring *r;
    int nlanes;       /* of each process */
    stream *outgoing; /* by lane */
    stream *incoming; /* by process of the ring */
    size_t segment, nsegments;
} show;

/* One lane, or one for each process of the ring. */
static int count_lanes(const mpi_ring *r) {
    return comm_kinds[asked(r, r->locals[0])->kind].src == COMM_WHOLE ? r->nprocs : 1;
}

size_t shown_nbytes(const mpi_ring *r, size_t most) {
    return ((size_t)count_lanes(r) + (size_t)r->nprocs) * (sizeof(stream) + most * sizeof(moved));
}

/* The room holds the streams, then their runs. */
static void list_runs(show *s, void *room, size_t most) {
    const mpi_ring *r = s->r;
    size_t nlanes = (size_t)s->nlanes;
    s->outgoing = room;
    s->incoming = s->outgoing + nlanes;
    moved *runs = (moved *)(void *)(s->incoming + r->nprocs);
    for (int l = 0; l < s->nlanes; l++, runs += most) {
        bool is_own = s->nlanes > 1 && l == r->own_seat;
        int to = s->nlanes > 1 ? r->procs[l] : r->procs[r->own_seat == 0]; /* any other: it is the same for all */
        s->outgoing[l] = (stream){.runs = runs, .nruns = is_own ? 0 : pieces_outgoing(r, to, runs)};
    }
    for (int p = 0; p < r->nprocs; p++, runs += most)
        s->incoming[p] = (stream){.runs = runs, .nruns = p == r->own_seat ? 0 : pieces_incoming(r, r->procs[p], runs)};
}

static char *room_of(const show *s, int seat, int lane, size_t k) {
    size_t n = (s->r->nsegments + k) % 2 * (size_t)s->nlanes + (size_t)lane;
    return s->r->near[seat].slot->rooms + n * s->segment;
}

/* The next bytes of a stream, at most a segment of them, to a room or from there. */
static void copy_segment(stream *s, char *room, size_t most) {
    for (size_t n = 0; n < most && s->at < s->nruns;) {
        const moved *run = &s->runs[s->at];
        size_t here = least(most - n, run->nbytes - s->within);
        if (run->to)
            copy(run->to + s->within, room + n, here);
        else
            copy(room + n, run->from + s->within, here);
        n += here;
        s->within += here;
        if (s->within < run->nbytes) continue;
        s->at++;
        s->within = 0;
    }
}

static bool has_runs(const stream *streams, int count) {
    int n = 0;
    while (n < count && !streams[n].nruns) n++;
    return n < count;
}

static weft_status show_segment(const show *s, uint64_t before, size_t k) {
    mpi_ring *r = s->r;
    if (k >= 2) TRY(near_wait(r, r->locals[0], COUNT_TAKEN, before + k - 1));
    for (int l = 0; l < s->nlanes; l++) copy_segment(&s->outgoing[l], room_of(s, r->own_seat, l, k), s->segment);
    near_count(r, COUNT_STAGED, before + k + 1);
    return NULL;
}

static weft_status take_segment(const show *s, uint64_t before, size_t k) {
    mpi_ring *r = s->r;
    for (int p = 0; p < r->nprocs; p++) {
        if (!s->incoming[p].nruns) continue;
        TRY(near_wait_for(r, r->locals[0], p, COUNT_STAGED, before + k + 1));
        copy_segment(&s->incoming[p], room_of(s, p, s->nlanes > 1 ? r->own_seat : 0, k), s->segment);
    }
    near_count(r, COUNT_TAKEN, before + k + 1);
    return NULL;
}

/* One segment is shown while the one before is taken. */
static weft_status run(const show *s) {
    mpi_ring *r = s->r;
    uint64_t before = r->nsegments;
    bool shows = has_runs(s->outgoing, s->nlanes), takes = has_runs(s->incoming, r->nprocs);
    if (!shows) near_count(r, COUNT_STAGED, before + s->nsegments);
    if (!takes) near_count(r, COUNT_TAKEN, before + s->nsegments);
    for (size_t k = 0; k <= s->nsegments; k++) {
        if (shows && k < s->nsegments) TRY(show_segment(s, before, k));
        if (takes && k >= 1) TRY(take_segment(s, before, k - 1));
    }
    return NULL;
}

weft_status shown_run(mpi_ring *r, void *room, size_t most) {
    show s = {.r = r, .nlanes = count_lanes(r)};
    s.segment = least(ROOMS_NBYTES / (2 * (size_t)s.nlanes) / 64 * 64, MOST_SHOWN_NBYTES);
    s.nsegments = (pieces_longest(r) + s.segment - 1) / s.segment;
    list_runs(&s, room, most);
    weft_status status = run(&s);
    r->nsegments += s.nsegments;
    return status;
}
