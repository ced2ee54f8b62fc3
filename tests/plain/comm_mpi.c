/* comm_mpi.c: the MPI engine: the conformance of all engines (tests/support/comm_conformance.c) in 2, 3 and 4
 * processes, through memory that they share and by messages alone. Worlds have up to 4 ranks, so that processes have
 * one rank, several, or none; one more has 300. Started by itself it starts mpirun with itself; without the plugin, or
 * without mpirun, it is skipped. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/plugin.h"
#include "executor/kernel.h"
#include "executor/plugins.h"
#include "tests/support/comm_conformance.h"
#include "tests/support/mpirun.h"
#include "tests/support/plain.h"
#include "weft/processes.h"

/* --- one of the processes ----------------------------------------------------------------------------------------- */

typedef struct launched {
    weft_context *context;
    weft_processes *processes;
    const comm_host *host; /* of a run with a rank for each process */
} launched;

static weft_allocator libc;

/* A run of any number of ranks, shared out as weft_processes_host does: some processes may have none. */
static weft_status open_world(void *user, int nranks, comm_world **out_worlds, int *out_nworlds) {
    const launched *l = user;
    int64_t index = weft_processes_index(l->processes), count = weft_processes_count(l->processes);
    comm_host host = *l->host;
    host.nranks = nranks;
    host.first_rank = (int)(nranks * index / count);
    host.nlocal = (int)(nranks * (index + 1) / count) - host.first_rank;
    *out_nworlds = 1;
    return comm_world_create(&libc, &host, out_worlds);
}

static void close_world(void *user, comm_world **worlds, int nworlds) {
    (void)user;
    for (int i = 0; i < nworlds; i++) comm_world_destroy(worlds[i]);
}

/* --- a ring of many members --------------------------------------------------------------------------------------- */

enum { MANY = 300, MANY_ELEMENTS = 1000 };

typedef struct one_of_many {
    comm_ring *ring;
    pthread_t thread;
    bool is_right;
} one_of_many;

/* A sum, and one element to the member half a ring away: in another process, where there are two. */
static void *be_of_many(void *arg) {
    one_of_many *m = arg;
    int32_t x[MANY_ELEMENTS], sum = MANY * (MANY - 1) / 2, self = m->ring->index, got = -1;
    for (int i = 0; i < MANY_ELEMENTS; i++) x[i] = self + i;
    comm_request q = {.kind = COMM_ALL_REDUCE, .dtype = WEFT_INT32, .count = MANY_ELEMENTS, .src = x, .dst = x};
    must(comm_run(m->ring, &q));
    m->is_right = true;
    for (int i = 0; i < MANY_ELEMENTS; i++) m->is_right = m->is_right && x[i] == sum + MANY * i;
    comm_request both[] = {{.kind = COMM_SEND, .dtype = WEFT_INT32, .count = 1, .src = &self},
                           {.kind = COMM_RECV, .dtype = WEFT_INT32, .count = 1, .dst = &got}};
    both[0].peer = both[1].peer = (self + MANY / 2) % MANY;
    must(comm_run(m->ring, &(comm_request){.kind = COMM_GROUP, .group = both, .ngroup = 2}));
    m->is_right = m->is_right && got == both[1].peer;
    return NULL;
}

static void test_many(launched *l, int *passed, int *failed) {
    static one_of_many members[MANY];
    static int64_t ranks[MANY];
    comm_world *world;
    int nworlds, nright = 0;
    must(open_world(l, MANY, &world, &nworlds));
    for (int r = 0; r < MANY; r++) ranks[r] = r;
    for (int i = 0; i < world->nlocal; i++)
        must(comm_ring_get(world, 7, MANY, ranks, world->first_rank + i, &members[i].ring));
    for (int i = 0; i < world->nlocal; i++) pthread_create(&members[i].thread, NULL, be_of_many, &members[i]);
    for (int i = 0; i < world->nlocal; i++) {
        pthread_join(members[i].thread, NULL);
        nright += members[i].is_right;
    }
    *passed += nright == world->nlocal;
    *failed += nright != world->nlocal;
    close_world(l, &world, 1);
}

/* --- tensors of many segments ------------------------------------------------------------------------------------- */

#ifdef __SANITIZE_THREAD__
enum { LONG_TURNS = 1 };
#else
enum { LONG_TURNS = 3 };
#endif
enum { RING_RANKS = 4, LONG_ELEMENTS = 500003, LONG_SPLIT = 123457 };

static float awkward(int rank, int64_t i) {
    return ldexpf(sinf((float)(i % 1009 + 1) * (float)(rank + 1)), rank * 3 - 8);
}

/* Whether x[0 .. count) are the sums of elements `first` and following, in the order of the ring. */
static bool is_in_order(const float *x, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float want = awkward(0, first + i);
        for (int r = 1; r < RING_RANKS; r++) want += awkward(r, first + i);
        if (memcmp(&want, &x[i], sizeof want) != 0) return false;
    }
    return true;
}

/* Whether y[0 .. count) are elements `first` and following of a rank's. */
static bool is_of(const float *y, int rank, int64_t first, int64_t count) {
    bool same = true;
    for (int64_t i = 0; i < count; i++) {
        float want = awkward(rank, first + i);
        same = same && memcmp(&want, &y[i], sizeof want) == 0;
    }
    return same;
}

/* What is only moved; x holds this rank's elements. */
static bool move_long(comm_ring *in, int turn, float *x, float *y) {
    int self = in->index, n = RING_RANKS;
    int64_t each = LONG_ELEMENTS / n, parts[] = {each - 1001, 1001};
    bool right = true;
    comm_request q = {.kind = COMM_ALL_GATHER, .dtype = WEFT_FP32, .count = each, .src = x, .dst = y, .op = "test"};
    must(comm_run(in, &q));
    for (int r = 0; r < n; r++) right = right && is_of(y + r * each, r, 0, each);
    q.nparts = 2;
    q.srcs = (const void *[]){x, x + parts[0]};
    q.dsts = (void *[]){y, y + n * parts[0]};
    q.src_counts = q.dst_counts = parts;
    must(comm_run(in, &q));
    for (int r = 0; r < n; r++)
        right = right && is_of(y + r * parts[0], r, 0, parts[0]) &&
                is_of(y + n * parts[0] + r * parts[1], r, parts[0], parts[1]);
    q = (comm_request){.kind = COMM_ALL_TO_ALL, .dtype = WEFT_FP32, .count = each, .src = x, .dst = y, .op = "test"};
    must(comm_run(in, &q));
    for (int r = 0; r < n; r++) right = right && is_of(y + r * each, r, self * each, each);
    q.kind = COMM_SCATTER;
    q.root = turn % n;
    must(comm_run(in, &q));
    right = right && is_of(y, q.root, self * each, each);
    q.kind = COMM_BROADCAST;
    q.count = LONG_ELEMENTS;
    must(comm_run(in, &q));
    return right && is_of(y, q.root, 0, LONG_ELEMENTS);
}

/* In turns of kinds and of places, so that each finds what the one before has left. */
static void *sum_long(void *arg) {
    static const int64_t parts[] = {LONG_SPLIT, LONG_ELEMENTS - LONG_SPLIT};
    one_of_many *m = arg;
    int self = m->ring->index;
    int64_t each = LONG_ELEMENTS / RING_RANKS;
    float *x = malloc(LONG_ELEMENTS * sizeof *x), *y = malloc(LONG_ELEMENTS * sizeof *y);
    m->is_right = true;
    for (int turn = 0; turn < LONG_TURNS; turn++) {
        comm_request q = {.dtype = WEFT_FP32, .count = LONG_ELEMENTS, .src = x, .dst = y, .op = "test"};
        for (int64_t i = 0; i < LONG_ELEMENTS; i++) x[i] = awkward(self, i);
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_in_order(y, 0, LONG_ELEMENTS);
        q.srcs = (const void *[]){x, x + LONG_SPLIT};
        q.dsts = (void *[]){y, y + LONG_SPLIT};
        q.nparts = 2;
        q.src_counts = q.dst_counts = parts;
        memset(y, 0, LONG_ELEMENTS * sizeof *y);
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_in_order(y, 0, LONG_ELEMENTS);
        q = (comm_request){
            .kind = COMM_REDUCE_SCATTER, .dtype = WEFT_FP32, .count = each, .src = x, .dst = y, .op = "test"};
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_in_order(y, self * each, each);
        q = (comm_request){
            .kind = COMM_REDUCE, .dtype = WEFT_FP32, .count = LONG_ELEMENTS, .src = x, .dst = y, .op = "test"};
        q.root = turn;
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && (self != turn || is_in_order(y, 0, LONG_ELEMENTS));
        m->is_right = move_long(m->ring, turn, x, y) && m->is_right;
        q = (comm_request){.dtype = WEFT_FP32, .count = LONG_ELEMENTS, .src = x, .dst = x, .op = "test"};
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_in_order(x, 0, LONG_ELEMENTS);
    }
    free(x);
    free(y);
    return NULL;
}

/* --- long messages ------------------------------------------------------------------------------------------------ */

enum { MOVED = 400009, MOVED_SPLIT = 70001, MOVED_SHORT = 5 };

static int32_t element_of(int rank, int what, int64_t i) {
    return (int32_t)(i * 7 + rank * 1000003 + what * 101);
}

static bool has_come(const int32_t *x, int64_t count, int rank, int what) {
    for (int64_t i = 0; i < count; i++)
        if (x[i] != element_of(rank, what, i)) return false;
    return true;
}

/* Three messages each way to one peer, long and short in turn: they come in the order in which they are sent. */
static void swap_long(one_of_many *m, const int32_t *x, int32_t *y) {
    static const int64_t counts[] = {MOVED, MOVED_SHORT, MOVED_SPLIT};
    comm_request group[6];
    int peer = m->ring->index ^ 1;
    int64_t at = 0;
    for (int k = 0; k < 3; at += counts[k++]) {
        group[k] = (comm_request){
            .kind = COMM_SEND, .dtype = WEFT_INT32, .count = counts[k], .src = x + k * MOVED, .peer = peer};
        group[3 + k] =
            (comm_request){.kind = COMM_RECV, .dtype = WEFT_INT32, .count = counts[k], .dst = y + at, .peer = peer};
    }
    must(comm_run(m->ring, &(comm_request){.kind = COMM_GROUP, .group = group, .ngroup = 6, .op = "test"}));
    at = 0;
    for (int k = 0; k < 3; at += counts[k++]) m->is_right = m->is_right && has_come(y + at, counts[k], peer, k);
}

/* Two tensors of each member to all, a long one and a short one. */
static void gather_long(one_of_many *m, const int32_t *x, int32_t *y) {
    static const int64_t counts[] = {MOVED_SPLIT, MOVED_SHORT};
    comm_request q = {.kind = COMM_ALL_GATHER, .dtype = WEFT_INT32, .nparts = 2, .op = "test"};
    q.srcs = (const void *[]){x, x + MOVED};
    q.dsts = (void *[]){y, y + RING_RANKS * MOVED_SPLIT};
    q.src_counts = q.dst_counts = counts;
    must(comm_run(m->ring, &q));
    for (int r = 0; r < RING_RANKS; r++) {
        const int32_t *short_one = y + RING_RANKS * MOVED_SPLIT + r * MOVED_SHORT;
        m->is_right = m->is_right && has_come(y + r * MOVED_SPLIT, MOVED_SPLIT, r, 0);
        m->is_right = m->is_right && has_come(short_one, MOVED_SHORT, r, 1);
    }
    q = (comm_request){.kind = COMM_ALL_GATHER, .dtype = WEFT_INT32, .count = MOVED, .src = x, .dst = y, .op = "test"};
    must(comm_run(m->ring, &q));
    for (int r = 0; r < RING_RANKS; r++) m->is_right = m->is_right && has_come(y + (int64_t)r * MOVED, MOVED, r, 0);
}

static void *move_pieces(void *arg) {
    one_of_many *m = arg;
    int32_t *x = malloc(3 * MOVED * sizeof *x), *y = malloc(RING_RANKS * MOVED * sizeof *y);
    m->is_right = true;
    for (int k = 0; k < 3; k++)
        for (int64_t i = 0; i < MOVED; i++) x[k * MOVED + i] = element_of(m->ring->index, k, i);
    for (int turn = 0; turn < LONG_TURNS; turn++) {
        swap_long(m, x, y);
        gather_long(m, x, y);
    }
    free(x);
    free(y);
    return NULL;
}

/* --- MPI's own sums ----------------------------------------------------------------------------------------------- */

enum { LIBRARY_ELEMENTS = 20000 };

/* Sums of small whole numbers have no rounding: they are right in any order. */
static bool is_sum(const comm_request *q, const void *x, int64_t first, int64_t count, double divisor) {
    for (int64_t i = 0; i < count; i++) {
        double at = (double)((first + i) % 5), found = 0;
        double want = (RING_RANKS * at + RING_RANKS * (RING_RANKS - 1) / 2.0) / divisor;
        if (q->dtype == WEFT_FP32) found = (double)((const float *)x)[i];
        if (q->dtype == WEFT_FP64) found = ((const double *)x)[i];
        if (q->dtype == WEFT_INT32) found = ((const int32_t *)x)[i];
        if (q->dtype == WEFT_INT64) found = (double)((const int64_t *)x)[i];
        if (q->dtype == WEFT_BF16) found = (double)bf16_to_f32(((const uint16_t *)x)[i]);
        if (q->dtype == WEFT_FP16) found = (double)fp16_to_f32(((const uint16_t *)x)[i]);
        if (found != want) return false;
    }
    return true;
}

static void fill(weft_dtype dtype, int rank, void *x) {
    for (int i = 0; i < LIBRARY_ELEMENTS; i++) {
        int v = i % 5 + rank;
        if (dtype == WEFT_FP32) ((float *)x)[i] = (float)v;
        if (dtype == WEFT_FP64) ((double *)x)[i] = v;
        if (dtype == WEFT_INT32) ((int32_t *)x)[i] = v;
        if (dtype == WEFT_INT64) ((int64_t *)x)[i] = v;
        if (dtype == WEFT_BF16) ((uint16_t *)x)[i] = f32_to_bf16((float)v);
        if (dtype == WEFT_FP16) ((uint16_t *)x)[i] = f32_to_fp16((float)v);
    }
}

/* One after another, in place or not, in one run of bytes or in parts. */
static void *sum_all(void *arg) {
    static const weft_dtype dtypes[] = {WEFT_FP32, WEFT_FP64, WEFT_INT32, WEFT_INT64, WEFT_BF16, WEFT_FP16};
    static const int64_t parts[] = {LIBRARY_ELEMENTS - 7000, 7000};
    one_of_many *m = arg;
    int self = m->ring->index, root = 2;
    char *x = malloc(8 * LIBRARY_ELEMENTS), *y = malloc(8 * LIBRARY_ELEMENTS);
    m->is_right = true;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        size_t unit = weft_dtype_nbytes(dtypes[d]);
        bool is_wide = dtypes[d] == WEFT_FP32 || dtypes[d] == WEFT_FP64;
        comm_request q = {.dtype = dtypes[d], .count = LIBRARY_ELEMENTS, .src = x, .dst = y, .op = "test"};
        fill(dtypes[d], self, x);
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_sum(&q, y, 0, q.count, 1);
        q.kind = COMM_REDUCE_SCATTER;
        q.count = LIBRARY_ELEMENTS / RING_RANKS;
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_sum(&q, y, self * q.count, q.count, 1);
        q = (comm_request){.dtype = dtypes[d], .count = LIBRARY_ELEMENTS, .nparts = 2, .op = "test"};
        q.srcs = (const void *[]){x + 7000 * unit, x};
        q.dsts = (void *[]){y + 7000 * unit, y};
        q.src_counts = q.dst_counts = parts;
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && is_sum(&q, y, 0, q.count, 1);
        q = (comm_request){.dtype = dtypes[d], .count = LIBRARY_ELEMENTS, .src = x, .dst = x, .op = "test"};
        q.kind = COMM_REDUCE;
        q.root = root;
        q.reduce = is_wide ? WEFT_REDUCE_AVG : WEFT_REDUCE_SUM;
        must(comm_run(m->ring, &q));
        m->is_right = m->is_right && (self != root || is_sum(&q, x, 0, q.count, is_wide ? RING_RANKS : 1));
    }
    free(x);
    free(y);
    return NULL;
}

/* Members of a ring that goes round the ranks from the last to the first. */
static void test_ring(launched *l, bool by_library, void *(*be)(void *), int *passed, int *failed) {
    one_of_many members[RING_RANKS];
    int64_t ranks[RING_RANKS];
    comm_host host = *l->host;
    launched other = *l;
    comm_world *world;
    int nworlds, nright = 0;
    host.by_library = by_library;
    other.host = &host;
    must(open_world(&other, RING_RANKS, &world, &nworlds));
    for (int r = 0; r < RING_RANKS; r++) ranks[r] = RING_RANKS - 1 - r;
    for (int i = 0; i < world->nlocal; i++)
        must(comm_ring_get(world, 3, RING_RANKS, ranks, world->first_rank + i, &members[i].ring));
    must(comm_world_connect(world));
    for (int i = 0; i < world->nlocal; i++) pthread_create(&members[i].thread, NULL, be, &members[i]);
    for (int i = 0; i < world->nlocal; i++) {
        pthread_join(members[i].thread, NULL);
        nright += members[i].is_right;
    }
    *passed += nright == world->nlocal;
    *failed += nright != world->nlocal;
    close_world(l, &world, 1);
}

static int be_one(void) {
    launched l;
    int passed, failed;
    libc = base_libc_allocator();
    must(weft_context_create(NULL, &l.context));
    must(weft_processes_join(l.context, &l.processes));
    must(weft_processes_host(l.processes, weft_processes_count(l.processes), &l.host));
    comm_conformance(
        &(comm_factory){.name = "mpi", .open = open_world, .close = close_world, .user = &l, .most_ranks = 4}, &passed,
        &failed);
    test_ring(&l, false, sum_long, &passed, &failed);
    test_ring(&l, false, move_pieces, &passed, &failed);
    test_ring(&l, true, sum_all, &passed, &failed);
    if (weft_processes_count(l.processes) == 2) test_many(&l, &passed, &failed);
    printf("%d passed, %d failed\n", passed, failed);
    fflush(stdout);
    weft_processes_leave(l.processes, failed > 0, 20);
    weft_context_destroy(l.context);
    return failed > 0;
}

/* ThreadSanitizer makes it many times slower: there two processes do, with up to two ranks each and more. */
static int most_processes(void) {
#ifdef __SANITIZE_THREAD__
    return getenv("WEFT_LONG_TESTS") ? 4 : 2;
#else
    return 4;
#endif
}

int main(void) {
    if (weft_processes_launched()) return be_one();
    if (!mpirun_exists()) return puts("0 passed, 0 failed, 1 skipped"), 0;
    for (int shares = 1; shares >= 0; shares--) {
        setenv("WEFT_MPI_SHARED", shares ? "1" : "0", 1);
        int most = shares || getenv("WEFT_LONG_TESTS") ? most_processes() : 2;
        for (int nprocs = 2; nprocs <= most; nprocs++) {
            int status = mpirun_self(nprocs, "", &npassed, &nfailed);
            check(status == 0, "%d processes end with status %d, WEFT_MPI_SHARED=%d", nprocs, status, shares);
        }
    }
    return report_checks();
}
