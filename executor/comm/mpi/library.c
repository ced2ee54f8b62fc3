/* library.c: sums by MPI's own all_reduce, reduce and reduce_scatter, where a run asks for them.
 *
 * The idea: members of one process add up first, in the order of the ring; MPI adds up the processes' sums, in an order
 * that is its own affair. So a process sends one tensor, however many members it has, and the algorithm is MPI's choice
 * for size and network. The bits may differ from those of threads, and from run to run.
 *
 * Members agree before, as always (ring.c); what is small has come with that, and is added up in ring order.
 *
 * The invariant of ends: MPI cannot take a collective back. Who leaves one unfinished has seen to it that nothing in
 * this process drives MPI any more, so that buffers can go; then the process can only end. */
#include <sched.h>
#include <stdlib.h>

#include "executor/comm/mpi/move.h"

/* An MPI count is an int. */
enum { MOST_ELEMENTS = 1 << 28 };

/* --- elements that MPI does not know ------------------------------------------------------------------------------ */

static void add_halves(weft_dtype dtype, const void *in, void *inout, int count) {
    reduce_block block;
    for (int done = 0, n; done < count; done += n) {
        const void *srcs[] = {(const uint16_t *)in + done, (uint16_t *)inout + done};
        n = (int)least((size_t)(count - done), REDUCE_BLOCK_NBYTES / sizeof(uint16_t));
        reduce_sources(dtype, WEFT_REDUCE_SUM, srcs, 2, (size_t)n, &block);
        memcpy((uint16_t *)inout + done, block.bytes, (size_t)n * sizeof(uint16_t));
    }
}

static void add_fp16(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    add_halves(WEFT_FP16, in, inout, *count);
}

static void add_bf16(void *in, void *inout, int *count, MPI_Datatype *type) {
    (void)type;
    add_halves(WEFT_BF16, in, inout, *count);
}

/* False: MPI does not add these up. */
static bool type_of(const mpi_host *host, weft_dtype dtype, MPI_Datatype *out_type, MPI_Op *out_op) {
    *out_op = MPI_SUM;
    switch (dtype) {
    case WEFT_FP32: *out_type = MPI_FLOAT; return true;
    case WEFT_FP64: *out_type = MPI_DOUBLE; return true;
    case WEFT_INT32: *out_type = MPI_INT32_T; return true;
    case WEFT_INT64: *out_type = MPI_INT64_T; return true;
    case WEFT_FP16: *out_type = MPI_UINT16_T, *out_op = host->add_fp16; return true;
    case WEFT_BF16: *out_type = MPI_UINT16_T, *out_op = host->add_bf16; return true;
    default: return false;
    }
}

/* --- making and unmaking ------------------------------------------------------------------------------------------ */

static int by_id(const void *a, const void *b) {
    const mpi_ring *x = *(mpi_ring *const *)a, *y = *(mpi_ring *const *)b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    if (x->nranks != y->nranks) return x->nranks < y->nranks ? -1 : 1;
    for (int i = 0; i < x->nranks; i++)
        if (x->members[i].rank != y->members[i].rank) return x->members[i].rank < y->members[i].rank ? -1 : 1;
    return 0;
}

/* Whether the ring comes to its process here for the first time. The communicator's ranks are in that order. */
static bool is_first(const mpi_ring *r, int member) {
    for (int i = 0; i < member; i++)
        if (r->members[i].proc == r->members[member].proc) return false;
    return true;
}

static int rank_in_comm(const mpi_ring *r, int member) {
    int rank = 0;
    for (int i = 0; r->members[i].proc != r->members[member].proc; i++) rank += is_first(r, i);
    return rank;
}

static weft_status connect_ring(mpi_ring *r) {
    mpi_host *host = r->world->host;
    MPI_Group all, group;
    size_t nbytes = (size_t)r->nranks * sizeof(int);
    int *procs = base_alloc(host->allocator, nbytes);
    if (!procs) return base_out_of_memory();
    int n = 0;
    for (int i = 0; i < r->nranks; i++)
        if (is_first(r, i)) procs[n++] = r->members[i].proc;
    mpi_enter(host);
    MPI_Comm_group(host->data, &all);
    MPI_Group_incl(all, n, procs, &group);
    weft_status status = mpi_check(MPI_Comm_create_group(host->data, group, 0, &r->comm), "MPI_Comm_create_group");
    if (!status) MPI_Comm_set_errhandler(r->comm, MPI_ERRORS_RETURN);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    mpi_exit(host);
    base_free(host->allocator, procs, nbytes);
    return status;
}

/* In one order in all processes, since each waits for the others. */
weft_status library_connect(comm_world *world) {
    mpi_world *w = world->shared;
    size_t n = 0;
    if (!w->by_library) return NULL;
    for (mpi_ring *r = w->rings; r; r = r->next) n++;
    mpi_ring **rings = base_alloc(w->host->allocator, (n + 1) * sizeof *rings);
    if (!rings) return base_out_of_memory();
    n = 0;
    for (mpi_ring *r = w->rings; r; r = r->next) rings[n++] = r;
    qsort(rings, n, sizeof *rings, by_id);
    weft_status status = NULL;
    for (size_t i = 0; i < n && !status; i++) status = connect_ring(rings[i]);
    base_free(w->host->allocator, rings, (n + 1) * sizeof *rings);
    return status;
}

void library_disconnect(mpi_ring *r) {
    if (r->comm == MPI_COMM_NULL || atomic_load(&r->world->aborted)) return; /* others may not free theirs */
    mpi_enter(r->world->host);
    MPI_Comm_free(&r->comm);
    mpi_exit(r->world->host);
}

weft_status library_open(mpi_host *host) {
    TRY(mpi_check(MPI_Op_create(add_fp16, 1, &host->add_fp16), "MPI_Op_create"));
    return mpi_check(MPI_Op_create(add_bf16, 1, &host->add_bf16), "MPI_Op_create");
}

void library_close(mpi_host *host) {
    MPI_Op_free(&host->add_fp16);
    MPI_Op_free(&host->add_bf16);
}

/* --- one collective ----------------------------------------------------------------------------------------------- */

bool library_takes(const mpi_ring *r, const comm_request *q) {
    MPI_Datatype type;
    MPI_Op op;
    if (r->comm == MPI_COMM_NULL || !type_of(r->world->host, q->dtype, &type, &op)) return false;
    if (q->reduce != WEFT_REDUCE_SUM &&
        (q->reduce != WEFT_REDUCE_AVG || (q->dtype != WEFT_FP32 && q->dtype != WEFT_FP64)))
        return false;
    if (q->kind == COMM_REDUCE_SCATTER)
        return r->most_members == 1 && !q->nparts && !q->srcs && q->count <= MOST_ELEMENTS;
    return q->kind == COMM_ALL_REDUCE || q->kind == COMM_REDUCE;
}

/* Others have come, since all have agreed: what is waited for is the transfer alone. */
static weft_status finish(mpi_ring *r, MPI_Request *request) {
    mpi_host *host = r->world->host;
    int64_t aborted_at = 0;
    for (int done = 0;;) {
        mpi_enter(host);
        int code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        mpi_exit(host);
        TRY(mpi_check(code, "MPI_Test"));
        if (done) return NULL;
        if (aborted_at && wait_clock_ns() > aborted_at + 500000000) break;
        if (!aborted_at && atomic_load(&r->world->aborted)) aborted_at = wait_clock_ns();
        if (host->is_crowded)
            sched_yield();
        else
            wait_pause();
    }
    if (!atomic_exchange(&host->is_broken, true)) control_stop(host);
    return ring_cancelled(r, r->locals[0]);
}

/* src NULL: the sum lies in dst, as MPI_IN_PLACE. Of a reduce, dst counts at the root only. */
static weft_status sum_pieces(mpi_ring *r, const comm_request *q, const char *src, char *dst, size_t count) {
    mpi_host *host = r->world->host;
    size_t unit = weft_dtype_nbytes(q->dtype);
    MPI_Datatype type;
    MPI_Op op;
    (void)type_of(host, q->dtype, &type, &op);
    for (size_t at = 0; at < count; at += MOST_ELEMENTS) {
        int n = (int)least(count - at, MOST_ELEMENTS), code;
        const void *from = src ? src + at * unit : MPI_IN_PLACE;
        MPI_Request request;
        mpi_enter(host);
        if (q->kind == COMM_REDUCE)
            code = MPI_Ireduce(from, dst + at * unit, n, type, op, rank_in_comm(r, q->root), r->comm, &request);
        else
            code = MPI_Iallreduce(from, dst + at * unit, n, type, op, r->comm, &request);
        mpi_exit(host);
        TRY(mpi_check(code, q->kind == COMM_REDUCE ? "MPI_Ireduce" : "MPI_Iallreduce"));
        TRY(finish(r, &request));
    }
    return NULL;
}

static void divide(const comm_request *q, int nranks, char *bytes, size_t count) {
    float *floats = (float *)(void *)bytes;
    double *doubles = (double *)(void *)bytes;
    if (q->reduce != WEFT_REDUCE_AVG) return;
    for (size_t i = 0; i < count && q->dtype == WEFT_FP32; i++) floats[i] /= (float)nranks;
    for (size_t i = 0; i < count && q->dtype == WEFT_FP64; i++) doubles[i] /= (double)nranks;
}

/* The sum of the members here, in the order of the ring. */
static void add_locals(const mpi_ring *r, const comm_request *q, size_t nbytes, char *out) {
    reduce_block block;
    for (size_t at = 0; at < nbytes; at += REDUCE_BLOCK_NBYTES) {
        size_t n = least(nbytes - at, REDUCE_BLOCK_NBYTES);
        char *parts = out + nbytes; /* room behind: a block of each member, where parts lie apart */
        for (int i = 0; i < r->nlocal; i++)
            r->from[i] = part_source(asked(r, r->locals[i]), -1, at, n, parts + (size_t)i * REDUCE_BLOCK_NBYTES);
        reduce_sources(q->dtype, WEFT_REDUCE_SUM, r->from, r->nlocal, n / weft_dtype_nbytes(q->dtype), &block);
        memcpy(out + at, block.bytes, n);
    }
}

/* Of one member a process, with a source and a result that are one run each. */
static weft_status run_alone(mpi_ring *r, const comm_request *q) {
    size_t count = (size_t)q->count;
    bool gets = q->kind != COMM_REDUCE || q->root == r->locals[0], is_in_place = gets && q->src == q->dst;
    TRY(sum_pieces(r, q, is_in_place ? NULL : q->src, q->dst, count));
    if (gets) divide(q, r->nranks, q->dst, count);
    return NULL;
}

static weft_status run_together(mpi_ring *r, const comm_request *q) {
    size_t nbytes = total_nbytes(q), count = nbytes / weft_dtype_nbytes(q->dtype);
    bool gets = q->kind != COMM_REDUCE || is_here(r, q->root);
    TRY(ring_reserve(r, nbytes + (size_t)r->nlocal * REDUCE_BLOCK_NBYTES));
    add_locals(r, q, nbytes, r->scratch);
    TRY(sum_pieces(r, q, gets ? NULL : r->scratch, r->scratch, count));
    if (gets) divide(q, r->nranks, r->scratch, count);
    for (int i = 0; i < r->nlocal; i++)
        if (q->kind != COMM_REDUCE || r->locals[i] == q->root)
            part_write_result(asked(r, r->locals[i]), 0, r->scratch, nbytes);
    return NULL;
}

static weft_status run_scatter(mpi_ring *r) {
    mpi_host *host = r->world->host;
    char *room;
    MPI_Datatype type;
    MPI_Op op;
    MPI_Request request;
    TRY(part_save_sources(r, 0, &room));
    const comm_request *q = asked(r, r->locals[0]);
    (void)type_of(host, q->dtype, &type, &op);
    mpi_enter(host);
    int code = MPI_Ireduce_scatter_block(q->src, q->dst, (int)q->count, type, op, r->comm, &request);
    mpi_exit(host);
    TRY(mpi_check(code, "MPI_Ireduce_scatter_block"));
    TRY(finish(r, &request));
    divide(q, r->nranks, q->dst, (size_t)q->count);
    return NULL;
}

weft_status library_run(mpi_ring *r) {
    const comm_request *q = asked(r, r->locals[0]);
    if (q->kind == COMM_REDUCE_SCATTER) return run_scatter(r);
    bool is_alone = r->nlocal == 1 && !q->srcs && !q->dsts && !q->nparts;
    return is_alone ? run_alone(r, q) : run_together(r, q);
}
