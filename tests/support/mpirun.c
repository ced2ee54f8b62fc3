/* mpirun.c: mpirun as a machine for tests needs it: as root, with more processes than cores, which wait without keeping
 * each other from them. */
#include "tests/support/mpirun.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "executor/plugins.h"

static bool own_path(char *out, size_t nbytes) {
    ssize_t n = readlink("/proc/self/exe", out, nbytes - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The plugin lies in the folder of the variant, build/VARIANT; the test in build/VARIANT/tests/KIND. */
static void set_plugin_path(void) {
    char path[PATH_MAX];
    if (getenv("WEFT_PLUGIN_PATH") || !own_path(path, sizeof path)) return;
    for (int up = 0; up < 3; up++) {
        char *slash = strrchr(path, '/');
        if (slash) *slash = '\0';
    }
    setenv("WEFT_PLUGIN_PATH", path, 1);
}

/* MPI keeps memory until the end that leak checkers report; and its own threads are not seen to synchronise. */
static void quiet_sanitizers(void) {
    char options[500];
    const char *given = getenv("ASAN_OPTIONS");
    snprintf(options, sizeof options, "%s%sdetect_leaks=0", given ? given : "", given ? ":" : "");
    setenv("ASAN_OPTIONS", options, 1);
    given = getenv("TSAN_OPTIONS");
    snprintf(options, sizeof options, "%s%ssuppressions=tests/support/mpi.tsan.supp", given ? given : "",
             given ? ":" : "");
    setenv("TSAN_OPTIONS", options, 1);
}

bool mpirun_exists(void) {
    char why[600];
    set_plugin_path();
    if (!plugin_mpi_describe(why, sizeof why)) return printf("skipped: %s\n", why), false;
    if (system("command -v mpirun >/dev/null 2>&1") != 0) return printf("skipped: no mpirun\n"), false;
    return true;
}

int mpirun_self(int nprocs, const char *arguments, _Atomic int *passed, _Atomic int *failed) {
    char path[PATH_MAX], command[PATH_MAX + 400], line[1000];
    if (!own_path(path, sizeof path)) return -1;
    quiet_sanitizers();
    snprintf(
        command, sizeof command,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
        "OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_osc=^ucx "
        "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none " /* Open MPI 5
                                                                                                            */
        "mpirun -n %d '%s' %s 2>&1",
        nprocs, path, arguments);
    FILE *from = popen(command, "r");
    if (!from) return -1;
    while (fgets(line, sizeof line, from)) {
        int good, bad;
        if (sscanf(line, "%d passed, %d failed", &good, &bad) == 2) {
            *passed += good;
            *failed += bad;
        } else {
            fputs(line, stdout);
        }
    }
    int status = pclose(from);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
