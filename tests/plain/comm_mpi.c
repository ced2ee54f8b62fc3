/* comm_mpi.c: the MPI engine: the conformance of all engines (tests/support/comm_conformance.c) in 2, 3 and 4
 * processes. Worlds have up to 4 ranks, so that processes have one rank, several, or none; one more has 300. Started by
 * itself it starts mpirun with itself; without the plugin, or without mpirun, it is skipped. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/plugin.h"
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
    if (weft_processes_count(l.processes) == 2) test_many(&l, &passed, &failed);
    printf("%d passed, %d failed\n", passed, failed);
    fflush(stdout);
    weft_processes_leave(l.processes, failed > 0, 20);
    weft_context_destroy(l.context);
    return failed > 0;
}

/* Minutes: under ThreadSanitizer in the long tests only. */
static bool is_too_slow(void) {
#ifdef __SANITIZE_THREAD__
    return !getenv("WEFT_LONG_TESTS");
#else
    return false;
#endif
}

int main(void) {
    if (weft_processes_launched()) return be_one();
    if (is_too_slow() || !mpirun_exists()) return puts("0 passed, 0 failed, 1 skipped"), 0;
    for (int nprocs = 2; nprocs <= 4; nprocs++) {
        int status = mpirun_self(nprocs, "", &npassed, &nfailed);
        check(status == 0, "%d processes end with status %d", nprocs, status);
    }
    return report_checks();
}
