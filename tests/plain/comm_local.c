/* comm_local.c: the local engine: the conformance of all engines (tests/support/comm_conformance.c), with all ranks in
 * one process and with a world for every rank and for every two; and what is its own. A plain main, because it runs
 * under ThreadSanitizer too. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "executor/comm/local.h"
#include "tests/support/comm_conformance.h"
#include "tests/support/plain.h"

static bool says(weft_status status, const char *part) {
    return strstr(weft_status_message(status), part) != NULL;
}

static weft_allocator libc;

static weft_status make_world(int nranks, comm_world **out) {
    comm_host host = comm_local_host(nranks);
    return comm_world_create(&libc, &host, out);
}

/* --- factories ---------------------------------------------------------------------------------------------------- */

static weft_status open_one(void *user, int nranks, comm_world **out_worlds, int *out_nworlds) {
    (void)user;
    *out_nworlds = 1;
    return make_world(nranks, out_worlds);
}

static void close_all(void *user, comm_world **worlds, int nworlds) {
    (void)user;
    for (int i = 0; i < nworlds; i++) comm_world_destroy(worlds[i]);
}

typedef struct processes {
    int each; /* ranks of a process, as far as they go */
    local_hub *hub;
} processes;

static weft_status open_processes(void *user, int nranks, comm_world **out_worlds, int *out_nworlds) {
    processes *p = user;
    TRY(local_hub_create(&libc, nranks, &p->hub));
    *out_nworlds = 0;
    for (int first = 0; first < nranks; first += p->each) {
        comm_host host = local_hub_host(p->hub, first, nranks - first < p->each ? nranks - first : p->each);
        TRY(comm_world_create(&libc, &host, &out_worlds[(*out_nworlds)++]));
    }
    return NULL;
}

static void close_processes(void *user, comm_world **worlds, int nworlds) {
    close_all(user, worlds, nworlds);
    local_hub_destroy(((processes *)user)->hub);
}

static void conform(const comm_factory *f) {
    int passed, failed;
    comm_conformance(f, &passed, &failed);
    npassed += passed;
    nfailed += failed;
}

/* --- two streams of one rank on one ring -------------------------------------------------------------------------- */

static void *wait_in_barrier(void *arg) {
    comm_request q = {.kind = COMM_BARRIER, .op = "first"};
    weft_status status = comm_run(arg, &q);
    check(weft_status_code(status) == WEFT_CANCELLED, "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void test_busy_ring_is_refused(void) {
    comm_world *world = NULL;
    comm_ring *member_ring = NULL;
    static const int64_t ranks[] = {0, 1};
    check(!make_world(2, &world) && !comm_ring_get(world, 1, 2, ranks, 0, &member_ring), "world");
    pthread_t thread;
    pthread_create(&thread, NULL, wait_in_barrier, member_ring);
    usleep(50000);
    comm_request q = {.kind = COMM_BARRIER, .op = "second"};
    weft_status status = comm_run(member_ring, &q);
    check(says(status, "rank 0 runs second on ring 1 inside another"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_world_abort(world, NULL);
    pthread_join(thread, NULL);
    comm_world_destroy(world);
}

static void run_programs(void) {
    int passed, failed;
    comm_programs(NULL, NULL, NULL, true, &passed, &failed);
    npassed += passed;
    nfailed += failed;
}

int main(void) {
    processes single = {.each = 1}, pairs = {.each = 2};
    libc = base_libc_allocator();
    conform(&(comm_factory){.name = "local", .open = open_one, .close = close_all, .most_ranks = 16});
    conform(&(comm_factory){.name = "local, a process a rank",
                            .open = open_processes,
                            .close = close_processes,
                            .user = &single,
                            .most_ranks = 4});
    conform(&(comm_factory){.name = "local, two ranks a process",
                            .open = open_processes,
                            .close = close_processes,
                            .user = &pairs,
                            .most_ranks = 4});
    run_programs();
    test_busy_ring_is_refused();
    return report_checks();
}
