/* place.c: which GPU a rank takes. The ranks of a host take its GPUs in turn, however ranks were dealt to hosts. Who is
 * on a host its launcher says, or its name does, which all processes tell one another. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/nccl/engine.h"
#include "executor/launcher.h"

/* So long processes may take to come; before that they read programs and parameters. */
static const double arrival_seconds = 300;

/* What a process says of each of its ranks. */
typedef struct seat {
    char host[200];
    int64_t first, nlocal; /* ranks of the process */
    int64_t local;         /* which process of its host it is, as the launcher says; -1: it does not */
} seat;

/* As NCCL tells hosts apart: by name, and by when they were started. NCCL_HOSTID is another name. */
static void name_host(char *out, size_t nbytes) {
    char called[80] = "", boot[80] = "";
    const char *given = getenv("NCCL_HOSTID");
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (f && !fgets(boot, sizeof boot, f)) boot[0] = '\0';
    if (f) fclose(f);
    gethostname(called, sizeof called - 1);
    snprintf(out, nbytes, "%.79s %.79s", given && *given ? given : called, boot);
}

static seat own_seat(const comm_world *world) {
    seat s = {.first = world->first_rank, .nlocal = world->nlocal, .local = -1};
    name_host(s.host, sizeof s.host);
    if (world->nlocal < world->nranks) s.local = launcher_local_index();
    return s;
}

static bool is_one_host(const seat *a, const seat *b) {
    return strcmp(a->host, b->host) == 0;
}

/* The launcher counts processes: that tells ranks where each has as many. It is not believed if it gives two processes
 * of a host one number: one of them has inherited it. */
static bool launcher_tells(const seat *seats, int64_t nranks) {
    for (int64_t a = 0; a < nranks; a += seats[a].nlocal) {
        if (seats[a].local < 0 || seats[a].nlocal != seats[0].nlocal) return false;
        for (int64_t b = 0; b < a; b += seats[b].nlocal)
            if (seats[a].local == seats[b].local && is_one_host(&seats[a], &seats[b])) return false;
    }
    return true;
}

static int64_t number_on_host(const seat *seats, int64_t rank) {
    int64_t n = 0;
    for (int64_t r = 0; r < rank; r++) n += is_one_host(&seats[r], &seats[rank]);
    return n;
}

static weft_status gather_seats(comm_world *world, arena *a, const seat **out) {
    seat own = own_seat(world), *mine = ARENA_ARRAY(a, seat, world->nlocal), *all = ARENA_ARRAY(a, seat, world->nranks);
    if (!mine || !all) return base_out_of_memory();
    for (int i = 0; i < world->nlocal; i++) mine[i] = own;
    TRY(comm_world_gather(world, &(comm_gather){.channel = COMM_MAIN,
                                                .mine = mine,
                                                .all = all,
                                                .nbytes_each = sizeof own,
                                                .timeout_seconds = arrival_seconds,
                                                .when = "before ranks take their GPUs"}));
    *out = all;
    return NULL;
}

weft_status nccl_place(const nccl_world *w) {
    comm_world *world = w->over.world;
    const seat *seats = NULL;
    arena a;
    arena_init(&a, world->allocator);
    weft_status status = gather_seats(world, &a, &seats);
    bool is_told = !status && launcher_tells(seats, world->nranks);
    for (int64_t i = 0; i < world->nlocal && !status; i++) {
        int64_t rank = world->first_rank + i;
        int64_t turn = is_told ? seats[rank].local * seats[rank].nlocal + i : number_on_host(seats, rank);
        cuda_take_gpu(w->device, (int)rank, turn);
    }
    arena_fini(&a);
    return status;
}
