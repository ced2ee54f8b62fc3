#include "executor/launcher.h"

#include <limits.h>
#include <stdlib.h>

/* A launcher is there where its count of processes is more than `least`, and `also` is set, where they are given. What
 * torchrun has set, launchers that it starts hand on: so it comes last, and is none of MPI's kind. */
static const struct {
    const char *count, *also;
    int least; /* -1: the count may be anything */
    const char *local;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", NULL, -1, "OMPI_COMM_WORLD_LOCAL_RANK"}, /* Open MPI */
    {"PMI_SIZE", NULL, -1, "MPI_LOCALRANKID"},                        /* Hydra: MPICH, Intel MPI */
    {"PMIX_RANK", NULL, -1, NULL},
    {"WEFT_PROCESSES", NULL, -1, NULL},                           /* one of the user's own */
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 1, "SLURM_LOCALID"}, /* which counts one process too */
    {NULL, NULL, -1, "LOCAL_RANK"},                               /* torchrun */
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

bool launcher_has_started(void) {
    for (int i = 0; i < LAUNCHERS; i++) {
        const char *count = launchers[i].count ? getenv(launchers[i].count) : NULL;
        bool is_enough = count && (launchers[i].least < 0 || atoi(count) > launchers[i].least);
        if (is_enough && (!launchers[i].also || getenv(launchers[i].also))) return true;
    }
    return false;
}

int launcher_local_index(void) {
    for (int i = 0; i < LAUNCHERS; i++) {
        const char *given = launchers[i].local ? getenv(launchers[i].local) : NULL;
        char *end = NULL;
        long index = given ? strtol(given, &end, 10) : -1;
        if (given && *given && !*end && index >= 0 && index <= INT_MAX) return (int)index;
    }
    return -1;
}
