/* plugin.c: MPI as this process has it: begun once, ended once. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "executor/comm/mpi/mpi.h"

static void describe(char *out, size_t nbytes) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(text, &n);
    size_t end = strcspn(text, ",\n");
    /* "MPICH Version:      4.0.2": the number is behind white space */
    size_t at = 0;
    bool blank = false;
    for (size_t i = 0; i < end && at + 1 < nbytes; i++) {
        bool is_blank = text[i] == ' ' || text[i] == '\t';
        if (!is_blank || !blank) out[at++] = is_blank ? ' ' : text[i];
        blank = is_blank;
    }
    if (nbytes) out[at] = '\0';
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

static weft_status open_comms(mpi_host *host) {
    int *most = NULL, has = 0;
    MPI_Comm *comms[] = {&host->data, &host->controls, &host->gathers};
    for (size_t i = 0; i < sizeof comms / sizeof *comms; i++) {
        TRY(mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, comms[i]), "MPI_Comm_dup"));
        TRY(mpi_check(MPI_Comm_set_errhandler(*comms[i], MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    }
    TRY(mpi_check(MPI_Comm_get_attr(host->data, MPI_TAG_UB, (void *)&most, &has), "MPI_Comm_get_attr"));
    host->most_tags = has ? *most : 32767;
    host->next_tag = host->most_tags / host->nprocs * host->proc;
    host->end_tag = host->next_tag + host->most_tags / host->nprocs;
    return near_open(host);
}

static weft_status begin(mpi_host *host) {
    int level = MPI_THREAD_SINGLE, has_begun = 0;
    TRY(mpi_check(MPI_Initialized(&has_begun), "MPI_Initialized"));
    if (has_begun)
        TRY(mpi_check(MPI_Query_thread(&level), "MPI_Query_thread"));
    else
        TRY(mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread"));
    if (level < MPI_THREAD_SERIALIZED)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "this MPI takes calls of its first thread only");
    host->is_serial = level < MPI_THREAD_MULTIPLE;
#ifdef __SANITIZE_THREAD__
    host->is_serial = true; /* MPI is not instrumented: our lock shows what its own locks order */
#endif
    MPI_Comm_rank(MPI_COMM_WORLD, &host->proc);
    MPI_Comm_size(MPI_COMM_WORLD, &host->nprocs);
    TRY(open_comms(host));
    return library_open(host);
}

static weft_status join(const weft_allocator *allocator, comm_process *out_process) {
    mpi_host *host = base_alloc(allocator, sizeof *host);
    if (!host) return base_out_of_memory();
    memset(host, 0, sizeof *host);
    host->allocator = allocator;
    pthread_mutex_init(&host->calls, NULL);
    pthread_mutex_init(&host->mutex, NULL);
    weft_status status = begin(host);
    if (!status) status = control_start(host);
    if (status) {
        base_free(allocator, host, sizeof *host);
        return status;
    }
    *out_process = (comm_process){host->proc, host->nprocs, host};
    return NULL;
}

static weft_status host_of(comm_process *process, int nranks, comm_host *out_host) {
    mpi_host *host = process->shared;
    int first = (int)((int64_t)nranks * host->proc / host->nprocs);
    int end = (int)((int64_t)nranks * (host->proc + 1) / host->nprocs);
    *out_host = (comm_host){&mpi_world_engine, nranks, first, end - first, host, NULL, false, NULL};
    return NULL;
}

/* --- leaving ------------------------------------------------------------------------------------------------------ */

/* Whether all processes have come here in time. */
static bool part(mpi_host *host, double timeout_seconds) {
    mpi_batch b;
    wait_result result = WAIT_TIMED_OUT;
    batch_init(&b, host->allocator);
    char mine = 0, *all = base_alloc(host->allocator, (size_t)host->nprocs);
    weft_status status = all ? NULL : base_out_of_memory();
    for (int p = 0; p < host->nprocs && !status; p++) {
        if (p == host->proc) continue;
        status = batch_receive(host, &b, host->gathers, p, host->most_tags, &all[p], 1);
        if (!status) status = batch_send(host, &b, host->gathers, p, host->most_tags, &mine, 1);
    }
    if (!status) status = batch_wait(host, &b, NULL, timeout_seconds, &result);
    weft_status_free(status);
    if (result != WAIT_REACHED) return false; /* MPI may still write to `all` */
    base_free(host->allocator, all, (size_t)host->nprocs);
    batch_fini(&b);
    return true;
}

/* The others get some time to say why. */
static void break_off(double timeout_seconds) {
    double seconds = timeout_seconds < 1 ? timeout_seconds : 1;
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
        NULL);
}

static void leave(comm_process *process, int exit_status, double timeout_seconds) {
    mpi_host *host = process->shared;
    bool is_broken = atomic_load(&host->is_broken);
    if (is_broken) break_off(timeout_seconds);
    if (is_broken || !part(host, timeout_seconds)) MPI_Abort(MPI_COMM_WORLD, exit_status ? exit_status : 1);
    control_stop(host);
    near_close(host);
    library_close(host);
    MPI_Comm_free(&host->data);
    MPI_Comm_free(&host->controls);
    MPI_Comm_free(&host->gathers);
    MPI_Finalize();
    pthread_mutex_destroy(&host->calls);
    pthread_mutex_destroy(&host->mutex);
    base_free(host->allocator, host, sizeof *host);
}

const comm_plugin *weft_comm_plugin(void);
__attribute__((visibility("default"))) const comm_plugin *weft_comm_plugin(void) {
    static const comm_plugin plugin = {.abi = COMM_PLUGIN_ABI,
                                       .world_nbytes = sizeof(comm_world),
                                       .request_nbytes = sizeof(comm_request),
                                       .version = WEFT_VERSION,
                                       .describe = describe,
                                       .join = join,
                                       .host = host_of,
                                       .leave = leave};
    return &plugin;
}
