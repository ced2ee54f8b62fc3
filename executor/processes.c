/* processes.c: opens the plugin that joins processes (executor/comm/plugin.h). */
#include "weft/processes.h"

#include <stdio.h>

#include "executor/comm/plugin.h"
#include "executor/flight.h"
#include "executor/launcher.h"
#include "executor/plugin_file.h"
#include "executor/plugins.h"

struct weft_processes {
    weft_allocator allocator;
    const comm_plugin *plugin;
    comm_process process;
    comm_host host;
    flight_process *flight; /* NULL: no launcher of ours */
    bool by_library;
};

/* --- finding ------------------------------------------------------------------------------------------------------ */

static const comm_plugin *find(plugin_search *s) {
    *s = (plugin_search){.file_name = "weft_mpi.so", .symbol = COMM_PLUGIN_SYMBOL};
    plugin_search_run(s);
    const comm_plugin *plugin = s->found;
    if (!plugin) return NULL;
    if (plugin->abi == COMM_PLUGIN_ABI && plugin->world_nbytes == sizeof(comm_world) &&
        plugin->request_nbytes == sizeof(comm_request) && strcmp(plugin->version, WEFT_VERSION) == 0)
        return plugin;
    plugin_search_differs(s, plugin->abi, COMM_PLUGIN_ABI, plugin->version);
    return NULL;
}

bool plugin_mpi_describe(char *out, size_t nbytes) {
    plugin_search s;
    const comm_plugin *plugin = find(&s);
    if (plugin)
        plugin->describe(out, nbytes);
    else
        snprintf(out, nbytes, "%s", s.why);
    return plugin;
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

bool weft_processes_launched(void) {
    return launcher_has_started();
}

weft_status weft_processes_join(weft_context *context, weft_processes **out_processes) {
    plugin_search s;
    const comm_plugin *plugin = find(&s);
    if (!plugin) return weft_status_create(WEFT_UNSUPPORTED, NULL, "ranks in several processes need MPI: %s", s.why);
    weft_processes *p = base_alloc(&context->allocator, sizeof *p);
    if (!p) return base_out_of_memory();
    *p = (weft_processes){.allocator = context->allocator, .plugin = plugin};
    weft_status status = plugin->join(&p->allocator, &p->process);
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

bool weft_processes_watched(const weft_processes *p) {
    return p->flight != NULL;
}

bool weft_processes_tells_first(weft_processes *p, const char *text) {
    return !p->flight || flight_tells_first(p->flight, p->process.index, text);
}

void weft_processes_set_collectives(weft_processes *p, weft_collectives how) {
    p->by_library = how == WEFT_COLLECTIVES_LIBRARY;
}

weft_status weft_processes_host(weft_processes *p, int nranks, const comm_host **out_host) {
    if (nranks < p->process.count)
        return weft_status_create(WEFT_INVALID_ARGUMENT, NULL, "%d processes for %d rank%s: each needs one",
                                  p->process.count, nranks, nranks == 1 ? "" : "s");
    TRY(p->plugin->host(&p->process, nranks, &p->host));
    p->host.flight = p->flight;
    p->host.by_library = p->by_library;
    if (p->flight) {
        p->flight->first_rank = p->host.first_rank;
        p->flight->nlocal = p->host.nlocal;
    }
    *out_host = &p->host;
    return NULL;
}

void weft_processes_ranks(const weft_processes *p, int nranks, int *out_first, int *out_nlocal) {
    int64_t first = (int64_t)nranks * p->process.index / p->process.count;
    *out_first = (int)first;
    *out_nlocal = (int)((int64_t)nranks * (p->process.index + 1) / p->process.count - first);
}

void weft_processes_leave(weft_processes *p, int exit_status, double timeout_seconds) {
    if (!p) return;
    weft_allocator allocator = p->allocator;
    flight_leave(p->flight, exit_status);
    p->plugin->leave(&p->process, exit_status, timeout_seconds);
    base_free(&allocator, p, sizeof *p);
}
