/* ring.c: collectives on streams. What only moves elements moves bytes. A request of several parts is one group of
 * NCCL's. */
#include <stdio.h>
#include <unistd.h>

#include "executor/comm/nccl/engine.h"
#include "executor/comm/request.h"

/* How long NCCL may take to launch what it was given. */
static const double launch_seconds = 60;

static nccl_ring *ring_of(comm_ring *r) {
    return (nccl_ring *)(void *)r;
}

/* --- types -------------------------------------------------------------------------------------------------------- */

static const struct {
    bool is_there;
    ncclDataType_t type;
} types[] = {
    [WEFT_BOOL] = {true, ncclUint8},   [WEFT_INT8] = {true, ncclInt8},    [WEFT_UINT8] = {true, ncclUint8},
    [WEFT_INT32] = {true, ncclInt32},  [WEFT_INT64] = {true, ncclInt64},  [WEFT_FP16] = {true, ncclFloat16},
    [WEFT_FP32] = {true, ncclFloat32}, [WEFT_FP64] = {true, ncclFloat64}, [WEFT_BF16] = {true, ncclBfloat16},
};
static const struct {
    bool is_there;
    ncclRedOp_t op;
} reductions[] = {
    [WEFT_REDUCE_SUM] = {true, ncclSum},   [WEFT_REDUCE_MAX] = {true, ncclMax}, [WEFT_REDUCE_MIN] = {true, ncclMin},
    [WEFT_REDUCE_PROD] = {true, ncclProd}, [WEFT_REDUCE_AVG] = {true, ncclAvg}, [WEFT_REDUCE_ANY] = {true, ncclMax},
    [WEFT_REDUCE_ALL] = {true, ncclMin},
};

static weft_status check_types(const comm_request *q) {
    size_t ntypes = sizeof types / sizeof *types, nreductions = sizeof reductions / sizeof *reductions;
    if (!comm_kinds[q->kind].has_reduce) return NULL;
    if ((size_t)q->dtype >= ntypes || !types[q->dtype].is_there)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s: NCCL does not reduce %s", q->op,
                                  weft_dtype_name(q->dtype));
    if ((size_t)q->reduce >= nreductions || !reductions[q->reduce].is_there)
        return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s: NCCL has no reduction %d", q->op, (int)q->reduce);
    return NULL;
}

/* --- calls, each within a group ----------------------------------------------------------------------------------- */

typedef struct call {
    const nccl_ring *ring;
    const comm_request *q;
    size_t size; /* of an element */
    cudaStream_t stream;
} call;

/* What NCCL cannot be told goes as it likes. */
#define CONFIGURED(c, name, ...)                                                                                       \
    ((c)->ring->config && nccl.name##Config ? nccl.name##Config(__VA_ARGS__, (c)->ring->config)                        \
                                            : nccl.name(__VA_ARGS__))

/* The part of member k of a larger buffer. */
static const void *source(const call *c, int64_t k) {
    return c->q->srcs ? c->q->srcs[k] : (const char *)c->q->src + (size_t)(k * c->q->count) * c->size;
}
static void *result(const call *c, int64_t k) {
    return c->q->dsts ? c->q->dsts[k] : (char *)c->q->dst + (size_t)(k * c->q->count) * c->size;
}
static size_t source_nbytes(const call *c, int64_t k) {
    return (size_t)comm_source_count(c->q, k) * c->size;
}
static size_t result_nbytes(const call *c, int64_t k) {
    return (size_t)comm_result_count(c->q, k) * c->size;
}

/* Within a group a communicator that does not block may say either. */
static bool is_well(ncclResult_t result) {
    return result == ncclSuccess || result == ncclInProgress;
}

/* Truth is a byte, 0 or 1: "or" is the larger one. */
static ncclRedOp_t op_of(const comm_request *q) {
    ncclRedOp_t op = reductions[q->reduce].op;
    if (q->dtype != WEFT_BOOL) return op;
    return op == ncclSum ? ncclMax : op == ncclProd ? ncclMin : op;
}

static ncclResult_t all_reduce(const call *c) {
    const comm_request *q = c->q;
    ncclDataType_t type = types[q->dtype].type;
    ncclRedOp_t op = op_of(q);
    if (!q->srcs) return CONFIGURED(c, AllReduce, q->src, q->dst, (size_t)q->count, type, op, c->ring->comm, c->stream);
    ncclResult_t worst = ncclSuccess;
    for (int64_t k = 0; k < q->nparts && is_well(worst); k++)
        worst = CONFIGURED(c, AllReduce, q->srcs[k], q->dsts[k], (size_t)comm_source_count(q, k), type, op,
                           c->ring->comm, c->stream);
    return worst;
}

static ncclResult_t reduce(const call *c) {
    const comm_request *q = c->q;
    return CONFIGURED(c, Reduce, q->src, q->dst, (size_t)q->count, types[q->dtype].type, op_of(q), q->root,
                      c->ring->comm, c->stream);
}

static ncclResult_t broadcast(const call *c) {
    return CONFIGURED(c, Broadcast, c->q->src, c->q->dst, (size_t)c->q->count * c->size, ncclInt8, c->q->root,
                      c->ring->comm, c->stream);
}

static ncclResult_t all_gather(const call *c) {
    const comm_request *q = c->q;
    if (!q->dsts)
        return CONFIGURED(c, AllGather, q->src, q->dst, (size_t)q->count * c->size, ncclInt8, c->ring->comm, c->stream);
    ncclResult_t worst = ncclSuccess;
    for (int64_t k = 0; k < q->nparts && is_well(worst); k++)
        worst = CONFIGURED(c, AllGather, q->srcs[k], q->dsts[k], (size_t)comm_source_count(q, k) * c->size, ncclInt8,
                           c->ring->comm, c->stream);
    for (int k = 0; !q->nparts && k < c->ring->view.nranks && is_well(worst); k++)
        worst =
            CONFIGURED(c, Broadcast, q->src, q->dsts[k], result_nbytes(c, k), ncclInt8, k, c->ring->comm, c->stream);
    return worst;
}

static ncclResult_t reduce_scatter(const call *c) {
    const comm_request *q = c->q;
    ncclDataType_t type = types[q->dtype].type;
    ncclRedOp_t op = op_of(q);
    if (!q->srcs)
        return CONFIGURED(c, ReduceScatter, q->src, q->dst, (size_t)q->count, type, op, c->ring->comm, c->stream);
    ncclResult_t worst = ncclSuccess;
    for (int64_t k = 0; k < q->nparts && is_well(worst); k++)
        worst = CONFIGURED(c, ReduceScatter, q->srcs[k], q->dsts[k], (size_t)comm_source_count(q, k), type, op,
                           c->ring->comm, c->stream);
    for (int k = 0; !q->nparts && k < c->ring->view.nranks && is_well(worst); k++)
        worst = CONFIGURED(c, Reduce, q->srcs[k], q->dst, (size_t)comm_source_count(q, k), type, op, k, c->ring->comm,
                           c->stream);
    return worst;
}

static ncclResult_t send(const call *c, const void *from, size_t nbytes, int peer) {
    return nbytes ? nccl.Send(from, nbytes, ncclInt8, peer, c->ring->comm, c->stream) : ncclSuccess;
}
static ncclResult_t receive(const call *c, void *to, size_t nbytes, int peer) {
    return nbytes ? nccl.Recv(to, nbytes, ncclInt8, peer, c->ring->comm, c->stream) : ncclSuccess;
}

static ncclResult_t all_to_all(const call *c) {
    ncclResult_t worst = ncclSuccess;
    for (int k = 0; k < c->ring->view.nranks && is_well(worst); k++) {
        worst = send(c, source(c, k), source_nbytes(c, k), k);
        if (is_well(worst)) worst = receive(c, result(c, k), result_nbytes(c, k), k);
    }
    return worst;
}

static ncclResult_t scatter(const call *c) {
    const comm_request *q = c->q;
    bool is_root = c->ring->view.index == q->root;
    ncclResult_t worst = ncclSuccess;
    for (int k = 0; k < c->ring->view.nranks && is_root && is_well(worst); k++)
        worst = send(c, source(c, k), (size_t)q->count * c->size, k);
    return is_well(worst) ? receive(c, q->dst, (size_t)q->count * c->size, q->root) : worst;
}

static ncclResult_t barrier(const call *c) {
    return CONFIGURED(c, AllReduce, c->ring->barrier, c->ring->barrier, 1, ncclFloat32, ncclSum, c->ring->comm,
                      c->stream);
}

static ncclResult_t one_send(const call *c) {
    return send(c, c->q->src, (size_t)c->q->count * c->size, c->q->peer);
}
static ncclResult_t one_recv(const call *c) {
    return receive(c, c->q->dst, (size_t)c->q->count * c->size, c->q->peer);
}

static ncclResult_t group(const call *c) {
    ncclResult_t worst = ncclSuccess;
    for (int64_t i = 0; i < c->q->ngroup && is_well(worst); i++) {
        const comm_request *q = &c->q->group[i];
        call one = {c->ring, q, weft_dtype_nbytes(q->dtype), c->stream};
        worst = q->kind == COMM_SEND ? one_send(&one) : one_recv(&one);
    }
    return worst;
}

static ncclResult_t (*const calls[COMM_KINDS])(const call *) = {
    [COMM_ALL_REDUCE] = all_reduce, [COMM_REDUCE] = reduce,         [COMM_BROADCAST] = broadcast,
    [COMM_ALL_GATHER] = all_gather, [COMM_ALL_TO_ALL] = all_to_all, [COMM_REDUCE_SCATTER] = reduce_scatter,
    [COMM_SCATTER] = scatter,       [COMM_BARRIER] = barrier,       [COMM_SEND] = one_send,
    [COMM_RECV] = one_recv,         [COMM_GROUP] = group,
};

/* --- the engine --------------------------------------------------------------------------------------------------- */

/* NCCL sends from where it receives: an exchange of a buffer with itself has no order. */
static weft_status check_places(const comm_request *q) {
    bool in_place = q->kind == COMM_ALL_TO_ALL && q->src && q->src == q->dst;
    if (!in_place) return NULL;
    return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s: NCCL has no all_to_all in place", q->op);
}

static weft_status launch(const nccl_ring *r, const comm_request *q, cudaStream_t stream) {
    call c = {r, q, weft_dtype_nbytes(q->dtype), stream};
    TRY(nccl_check(nccl.GroupStart(), "ncclGroupStart"));
    ncclResult_t asked = calls[q->kind](&c), ended = nccl.GroupEnd();
    TRY(nccl_check(asked, comm_kind_name(q->kind)));
    return nccl_settle(r->comm, ended, r->world, launch_seconds, comm_kind_name(q->kind));
}

static void *abort_comm(void *arg) {
    nccl_ring *r = arg;
    nccl.CommAbort(r->aborted);
    r->is_gone = true;
    return NULL;
}

/* ncclCommAbort tells kernels to end, and then waits: for them, which may be behind those of other rings, and for the
 * end of all graphs that have some, of which the caller may hold one. */
void nccl_ring_end(nccl_ring *r) {
    if (r->comm && !r->has_ended) {
        r->aborted = r->comm;
        r->has_aborter = pthread_create(&r->aborter, NULL, abort_comm, r) == 0;
    }
    r->has_ended = true;
    if (r->has_aborter) r->comm = NULL;
}

/* A GPU that has failed may never let graphs go. */
bool nccl_ring_has_ended(nccl_ring *r) {
    int64_t end = wait_clock_ns() + 10000000000;
    if (!r->has_aborter) return true;
    while (!r->was_awaited && !r->is_gone && wait_clock_ns() < end) usleep(1000);
    bool is_gone = r->is_gone;
    if (!r->was_awaited && is_gone) pthread_join(r->aborter, NULL);
    if (!r->was_awaited && !is_gone) pthread_detach(r->aborter);
    r->was_awaited = true;
    return is_gone;
}

static weft_status enqueue(comm_ring *view, const comm_request *request, void *device_stream) {
    nccl_ring *r = ring_of(view);
    comm_request q = *request;
    if (!q.op) q.op = comm_kind_name(q.kind);
    TRY(comm_check_request(view, r->rank, &q));
    TRY(check_types(&q));
    TRY(check_places(&q));
    pthread_mutex_lock(&r->lock);
    weft_status status = r->has_ended || !r->comm ? comm_stopped(view) : launch(r, &q, device_stream);
    if (status)
        nccl_ring_end(r); /* what NCCL has not launched yet would come behind the step's end, on a stream that goes */
    pthread_mutex_unlock(&r->lock);
    return status;
}

static void keep(nccl_ring *r, ncclResult_t state) {
    if (r->has_failed || state == ncclSuccess || state == ncclInProgress) return;
    const char *last = nccl.GetLastError(r->comm);
    r->has_failed = true;
    snprintf(r->words, sizeof r->words, "NCCL: %s%s%.300s", nccl.GetErrorString(state), last && *last ? ": " : "",
             last ? last : "");
}

static weft_status error(comm_ring *view) {
    nccl_ring *r = ring_of(view);
    pthread_mutex_lock(&r->lock);
    ncclResult_t state = ncclSuccess;
    if (r->comm && !r->has_ended && !r->has_failed) {
        ncclResult_t asked = nccl.CommGetAsyncError(r->comm, &state);
        keep(r, asked == ncclSuccess ? state : asked);
    }
    weft_status status = r->has_failed ? weft_status_create(WEFT_RUNTIME, NULL, "%s", r->words) : NULL;
    pthread_mutex_unlock(&r->lock);
    return status;
}

static weft_status end(comm_ring *view, double timeout_seconds) {
    nccl_ring *r = ring_of(view);
    (void)timeout_seconds; /* ncclCommAbort has none */
    pthread_mutex_lock(&r->lock);
    nccl_ring_end(r);
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

nccl_ring *nccl_ring_of(comm_ring *view) {
    return view->engine == &nccl_ring_engine ? ring_of(view) : NULL;
}

void nccl_configure(comm_ring *view, const nccl_config *config) {
    nccl_ring *r = nccl_ring_of(view);
    if (r) r->config = config;
}

const comm_ring_engine nccl_ring_engine = {
    .name = "nccl", .enqueues_on = "cuda", .enqueue = enqueue, .error = error, .abort = end};
