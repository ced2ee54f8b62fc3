/* processes.c: opens the plugin that joins processes (executor/comm/plugin.h). */
#include "weft/processes.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "executor/comm/plugin.h"
#include "executor/flight.h"
#include "executor/plugins.h"

static const char *const file_name = "weft_mpi.so";

struct weft_processes {
    weft_allocator allocator;
    const comm_plugin *plugin;
    comm_process process;
    comm_host host;
    flight_process *flight; /* NULL: no launcher of ours */
};

/* --- finding ------------------------------------------------------------------------------------------------------ */

/* How a plugin is looked for: the first file that is there is opened. */
typedef struct search {
    const comm_plugin *found;
    bool was_there;
    char why[600]; /* it is not usable, or not there */
} search;

static bool built_alike(const comm_plugin *plugin) {
    return plugin->abi == COMM_PLUGIN_ABI && plugin->world_nbytes == sizeof(comm_world) &&
           plugin->request_nbytes == sizeof(comm_request) && strcmp(plugin->version, WEFT_VERSION) == 0;
}

static void open_file(search *s, const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* never closed: MPI's threads and handlers stay */
    if (!library) {
        const char *why = dlerror();
        snprintf(s->why, sizeof s->why, "%.500s", why ? why : path);
        return;
    }
    union { /* ISO C has no cast from an object to a function */
        void *object;
        comm_plugin_fn *call;
    } symbol = {dlsym(library, COMM_PLUGIN_SYMBOL)};
    const comm_plugin *plugin = symbol.object ? symbol.call() : NULL;
    if (!plugin)
        snprintf(s->why, sizeof s->why, "%.500s: no plugin of Weft", path);
    else if (!built_alike(plugin))
        snprintf(s->why, sizeof s->why, "%.400s: built with Weft %.40s (ABI %u), this is %s (ABI %d)", path,
                 plugin->abi == COMM_PLUGIN_ABI ? plugin->version : "?", plugin->abi, WEFT_VERSION, COMM_PLUGIN_ABI);
    else
        s->found = plugin;
}

static void look_in(search *s, const char *folder, size_t length, const char *below) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%.*s%s/%s", (int)length, folder, below, file_name);
    if (s->was_there || !length || n < 0 || (size_t)n >= sizeof path || access(path, R_OK) != 0) return;
    s->was_there = true;
    open_file(s, path);
}

static void look_beside(search *s, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return;
    look_in(s, path, (size_t)(slash - path), "");
    look_in(s, path, (size_t)(slash - path), "/../lib/weft");
    look_in(s, path, (size_t)(slash - path), "/weft");
}

static void find(search *s) {
    const char *folders = getenv("WEFT_PLUGIN_PATH");
    while (folders && *folders) {
        size_t length = strcspn(folders, ":");
        look_in(s, folders, length, "");
        folders += length + (folders[length] == ':');
    }
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    look_beside(s, program);
    Dl_info info;
    if (dladdr((const void *)&file_name, &info) && info.dli_fname) look_beside(s, info.dli_fname);
    if (!s->was_there) snprintf(s->why, sizeof s->why, "no %s beside the program, nor in WEFT_PLUGIN_PATH", file_name);
}

bool plugin_mpi_describe(char *out, size_t nbytes) {
    search s = {.found = NULL};
    find(&s);
    if (s.found)
        s.found->describe(out, nbytes);
    else
        snprintf(out, nbytes, "%s", s.why);
    return s.found;
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

/* A launcher says how many it has started: Open MPI; MPICH and others with PMI; one of the user's own, by
 * WEFT_PROCESSES; Slurm, which says so of one process too. */
bool weft_processes_launched(void) {
    static const char *const counts[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "WEFT_PROCESSES"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (getenv(counts[i])) return true;
    const char *step = getenv("SLURM_STEP_NUM_TASKS");
    return step && atoi(step) > 1 && getenv("SLURM_PROCID");
}

weft_status weft_processes_join(weft_context *context, weft_processes **out_processes) {
    search s = {.found = NULL};
    find(&s);
    if (!s.found) return weft_status_create(WEFT_UNSUPPORTED, NULL, "ranks in several processes need MPI: %s", s.why);
    weft_processes *p = base_alloc(&context->allocator, sizeof *p);
    if (!p) return base_out_of_memory();
    *p = (weft_processes){.allocator = context->allocator, .plugin = s.found};
    weft_status status = s.found->join(&p->allocator, &p->process);
    if (status) {
        base_free(&context->allocator, p, sizeof *p);
        return status;
    }
    p->flight = flight_join(p->process.index);
    *out_processes = p;
    return NULL;
}

int weft_processes_index(const weft_processes *p) {
    return p->process.index;
}

int weft_processes_count(const weft_processes *p) {
    return p->process.count;
}

weft_status weft_processes_host(weft_processes *p, int nranks, const comm_host **out_host) {
    if (nranks < p->process.count)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d processes for %d rank%s: each needs one",
                                  p->process.count, nranks, nranks == 1 ? "" : "s");
    TRY(p->plugin->host(&p->process, nranks, &p->host));
    p->host.flight = p->flight;
    if (p->flight) {
        p->flight->first_rank = p->host.first_rank;
        p->flight->nlocal = p->host.nlocal;
    }
    *out_host = &p->host;
    return NULL;
}

void weft_processes_leave(weft_processes *p, int exit_status, double timeout_seconds) {
    if (!p) return;
    weft_allocator allocator = p->allocator;
    flight_leave(p->flight, exit_status);
    p->plugin->leave(&p->process, exit_status, timeout_seconds);
    base_free(&allocator, p, sizeof *p);
}
