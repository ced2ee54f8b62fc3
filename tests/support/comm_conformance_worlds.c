/* comm_conformance_worlds.c: which rings a world has, and what its processes gather. */
#include <pthread.h>

#include "tests/support/comm_member.h"

static bool says(weft_status status, const char *part) {
    return strstr(weft_status_message(status), part) != NULL;
}

static void test_rings(void) {
    comm_world *worlds[MOST_RANKS], *world;
    int nworlds = 0;
    must(comm_factory_at_hand->open(comm_factory_at_hand->user, 4, worlds, &nworlds));
    world = worlds[0];
    weft_status status;
    if (world->nlocal < world->nranks) {
        comm_factory_at_hand->close(comm_factory_at_hand->user, worlds, nworlds);
        return;
    }
    comm_ring *a = NULL, *b = NULL, *c = NULL, *d = NULL;
    static const int64_t low[] = {0, 1}, high[] = {2, 3}, swapped[] = {1, 0}, outside[] = {0, 4}, twice[] = {1, 1};
    comm_check(!comm_ring_get(world, 3, 2, low, 0, &a) && !comm_ring_get(world, 3, 2, low, 1, &b) &&
              !comm_ring_get(world, 3, 2, high, 3, &c) && !comm_ring_get(world, 3, 2, swapped, 1, &d),
          "four rings");
    comm_check(a->shared == b->shared && a->shared != c->shared && a->shared != d->shared,
          "rings are distinguished by ranks");
    comm_check(a->index == 0 && b->index == 1 && c->index == 1 && d->index == 0, "indices");
    status = comm_ring_get(world, 3, 2, low, 2, &a);
    comm_check(weft_status_code(status) == WEFT_NOT_FOUND && says(status, "ring 3 does not contain rank 2"), "\"%s\"",
          weft_status_message(status));
    weft_status_free(status);
    status = comm_ring_get(world, 5, 2, outside, 0, &a);
    comm_check(says(status, "ring 5 has rank 4, the run has ranks 0 to 3"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    status = comm_ring_get(world, 5, 2, twice, 1, &a);
    comm_check(says(status, "twice"), "\"%s\"", weft_status_message(status));
    weft_status_free(status);
    comm_factory_at_hand->close(comm_factory_at_hand->user, worlds, nworlds);
}

/* --- gathers ------------------------------------------------------------------------------------------------------ */

typedef struct visitor {
    comm_world *world;
    pthread_t thread;
} visitor;

/* Rank r gives r + round bytes, in several rounds and on both channels. */
static void *gather_rounds(void *arg) {
    comm_world *w = ((visitor *)arg)->world;
    for (int round = 0; round < 20; round++) {
        size_t nbytes[MOST_RANKS], n = 0, at = 0;
        char mine[4000], all[4000];
        for (int r = 0; r < w->nranks; r++) nbytes[r] = (size_t)(r + round);
        for (int r = w->first_rank; r < w->first_rank + w->nlocal; r++)
            for (size_t i = 0; i < nbytes[r]; i++) mine[n++] = (char)(r * 16 + round);
        weft_status status = comm_world_gather(
            w, &(comm_gather){round % 3 ? COMM_MAIN : COMM_WATCH, mine, all, nbytes, 0, 20, "in a test"});
        bool good = !status;
        for (int r = 0; r < w->nranks; r++)
            for (size_t i = 0; i < nbytes[r]; i++) good = good && all[at++] == (char)(r * 16 + round);
        comm_check(good, "gather %d of rank %d: %s", round, w->first_rank, weft_status_message(status));
        weft_status_free(status);
    }
    return NULL;
}

/* The last world does not come: the others are told, and which ranks are missing. */
static void *gather_alone(void *arg) {
    comm_world *w = ((visitor *)arg)->world;
    char mine[MOST_RANKS] = {0}, all[MOST_RANKS];
    weft_status status =
        comm_world_gather(w, &(comm_gather){COMM_MAIN, mine, all, NULL, 1, 0.1, "in a test"});
    comm_check(status && (strstr(weft_status_message(status), "waited 0.1 s in a test for rank ") ||
                     strstr(weft_status_message(status), "given up")),
          "gather without the last ranks: \"%s\"", weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

static void test_gathers(void *(*fn)(void *), bool last_comes) {
    comm_world *worlds[MOST_RANKS];
    visitor visitors[MOST_RANKS];
    int nworlds = 0;
    must(comm_factory_at_hand->open(comm_factory_at_hand->user, 4, worlds, &nworlds));
    int n = 0;
    for (int i = 0; i < nworlds; i++) {
        if (!last_comes && worlds[i]->first_rank + worlds[i]->nlocal == 4) continue;
        visitors[n].world = worlds[i];
        pthread_create(&visitors[n].thread, NULL, fn, &visitors[n]);
        n++;
    }
    for (int i = 0; i < n; i++) pthread_join(visitors[i].thread, NULL);
    comm_factory_at_hand->close(comm_factory_at_hand->user, worlds, nworlds);
}

void comm_test_worlds(void) {
    test_rings();
    test_gathers(gather_rounds, true);
    test_gathers(gather_alone, false);
}
