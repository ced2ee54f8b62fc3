/* nccl_calls.c: the collectives of the stand-in for NCCL, and what they do to data. Sums are those of Weft's own
 * engines (executor/comm/reduce.h), so that losses of both can be compared to the bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor/comm/reduce.h"
#include "tests/standin/nccl.h"

static const struct {
    weft_dtype dtype;
    size_t nbytes;
} types[ncclNumTypes] = {
    [ncclInt8] = {WEFT_INT8, 1},    [ncclUint8] = {WEFT_UINT8, 1},   [ncclInt32] = {WEFT_INT32, 4},
    [ncclInt64] = {WEFT_INT64, 8},  [ncclFloat16] = {WEFT_FP16, 2},  [ncclFloat32] = {WEFT_FP32, 4},
    [ncclFloat64] = {WEFT_FP64, 8}, [ncclBfloat16] = {WEFT_BF16, 2},
};
static const weft_reduce reductions[ncclNumOps] = {[ncclSum] = WEFT_REDUCE_SUM,
                                                   [ncclProd] = WEFT_REDUCE_PROD,
                                                   [ncclMax] = WEFT_REDUCE_MAX,
                                                   [ncclMin] = WEFT_REDUCE_MIN,
                                                   [ncclAvg] = WEFT_REDUCE_AVG};

/* --- data --------------------------------------------------------------------------------------------------------- */

static const standin_call *call_of(const standin_meeting *m, int rank) {
    for (int i = 0; i < m->ncalls; i++)
        if (m->calls[i].rank == rank) return m->calls[i].call;
    standin_broken("rank %d is not there", rank);
}

/* The sum of all members' elements from `first` on, in blocks: each is complete before any of it is written. */
static void sum(const standin_team *t, const standin_meeting *m, size_t first, size_t count, void *out) {
    const standin_call *any = m->calls[0].call;
    size_t size = types[any->type].nbytes, each = REDUCE_BLOCK_NBYTES / size;
    const void *srcs[STANDIN_MOST_RANKS];
    reduce_block block;
    for (size_t at = 0; at < count; at += each) {
        size_t n = count - at < each ? count - at : each;
        for (int r = 0; r < t->nranks; r++) srcs[r] = (const char *)call_of(m, r)->src + (first + at) * size;
        reduce_sources(types[any->type].dtype, reductions[any->op], srcs, t->nranks, n, &block);
        memcpy((char *)out + at * size, block.bytes, n * size);
    }
}

static void *take(size_t nbytes) {
    void *bytes = malloc(nbytes + 1);
    if (!bytes) abort();
    return bytes;
}

/* Results may lie where sources do: all are made before any is written. */
static void move_sums(const standin_team *t, const standin_meeting *m) {
    const standin_call *any = m->calls[0].call;
    size_t size = types[any->type].nbytes, parts = any->kind == REDUCE_SCATTER ? (size_t)t->nranks : 1;
    char *made = take(any->count * parts * size);
    sum(t, m, 0, any->count * parts, made);
    for (int r = 0; r < t->nranks; r++) {
        const standin_call *c = call_of(m, r);
        size_t first = any->kind == REDUCE_SCATTER ? (size_t)r * any->count * size : 0;
        if (any->kind != REDUCE || r == any->root) memcpy(c->dst, made + first, any->count * size);
    }
    free(made);
}

static void move_broadcast(const standin_team *t, const standin_meeting *m) {
    const standin_call *root = call_of(m, m->calls[0].call->root);
    for (int r = 0; r < t->nranks; r++) memmove(call_of(m, r)->dst, root->src, root->nbytes);
}

static void move_gather(const standin_team *t, const standin_meeting *m) {
    size_t nbytes = m->calls[0].call->nbytes;
    char *made = take(nbytes * (size_t)t->nranks);
    for (int r = 0; r < t->nranks; r++) memcpy(made + (size_t)r * nbytes, call_of(m, r)->src, nbytes);
    for (int r = 0; r < t->nranks; r++) memcpy(call_of(m, r)->dst, made, nbytes * (size_t)t->nranks);
    free(made);
}

static void move_pair(const standin_meeting *m) {
    const standin_call *a = m->calls[0].call, *b = m->calls[1].call;
    memcpy(a->dst ? a->dst : b->dst, a->dst ? b->src : a->src, a->nbytes);
}

void standin_move(const standin_team *t, const standin_meeting *m) {
    switch (m->calls[0].call->kind) {
    case ALL_REDUCE:
    case REDUCE:
    case REDUCE_SCATTER: move_sums(t, m); return;
    case BROADCAST: move_broadcast(t, m); return;
    case ALL_GATHER: move_gather(t, m); return;
    case PAIR: move_pair(m); return;
    }
}

static const char *const names[] = {[ALL_REDUCE] = "ncclAllReduce",         [REDUCE] = "ncclReduce",
                                    [BROADCAST] = "ncclBroadcast",          [ALL_GATHER] = "ncclAllGather",
                                    [REDUCE_SCATTER] = "ncclReduceScatter", [PAIR] = "ncclSend or ncclRecv"};

const char *standin_op_name(standin_op op) {
    return names[op];
}

void standin_touch_call(const standin_item *item, const standin_team *t, int rank, const standin_call *c) {
    size_t all = (size_t)t->nranks * c->nbytes;
    bool is_root = c->root == rank, reads = c->src && (c->kind != BROADCAST || is_root),
         writes = c->dst && (c->kind != REDUCE || is_root);
    standin_lock();
    uint64_t user = t->members[rank]->has_ended ? 0 : t->members[rank]->bit; /* what has ended lets go of no more */
    if (c->src) standin_block_use(c->src, user);
    if (c->dst) standin_block_use(c->dst, user);
    standin_unlock();
    if (reads) standin_touch(item, c->src, c->kind == REDUCE_SCATTER ? all : c->nbytes, false);
    if (writes) standin_touch(item, c->dst, c->kind == ALL_GATHER ? all : c->nbytes, true);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

static standin_call call(standin_op kind, const void *src, void *dst, size_t count, ncclDataType_t type) {
    if (!types[type].nbytes) standin_broken("type %d", (int)type);
    return (standin_call){
        .kind = kind, .src = src, .dst = dst, .count = count, .nbytes = count * types[type].nbytes, .type = type};
}

/* --- with a configuration ----------------------------------------------------------------------------------------- */

bool standin_same_config(const standin_config *a, const standin_config *b) {
    return a->nbytes == b->nbytes && a->most_ctas == b->most_ctas && a->policy == b->policy &&
           !a->algorithms == !b->algorithms && (!a->algorithms || strcmp(a->algorithms, b->algorithms) == 0);
}

/* WEFT_STANDIN_CONFIGS=FILE: what collectives were given, a line each. */
static void write_config(const standin_call *c) {
    const char *path = getenv("WEFT_STANDIN_CONFIGS");
    FILE *f = path && *path ? fopen(path, "a") : NULL;
    if (!f) return;
    fprintf(f, "%s of op %d: %s, CTAs %d, policy %d\n", standin_op_name(c->kind), (int)c->config.tag - 1,
            c->config.algorithms ? c->config.algorithms : "any", c->config.most_ctas, c->config.policy);
    fclose(f);
}

/* As a device might ask for it wrongly. */
static standin_call bend(standin_call c) {
    if (standin_bends("collective.more")) c.count++;
    if (standin_bends("collective.aside") && c.dst) {
        c.dst = (char *)c.dst + 16;
        c.src = (const char *)c.src + 16;
    }
    return c;
}

/* Another thread of the device uses the communicator meanwhile. */
typedef struct other_call {
    ncclComm_t comm;
    cudaStream_t stream;
    standin_call call;
} other_call;

static void *call_beside(void *arg) {
    const other_call *o = arg;
    (void)standin_launch_call(o->comm, o->stream, o->call);
    return NULL;
}

static void launch_beside(ncclComm_t comm, cudaStream_t stream, standin_call c) {
    pthread_t thread;
    other_call other = {comm, stream, c};
    if (pthread_create(&thread, NULL, call_beside, &other)) abort();
    pthread_join(thread, NULL);
}

/* As a device might say wrongly how it runs. */
static const standin_config *bend_config(const standin_config *given, standin_config *out) {
    if (!given) return NULL;
    *out = *given;
    if (standin_bends("config.raw")) out->magic = 0;
    if (standin_bends("config.forces")) out->is_forced = 2;
    return out;
}

/* NCCL looks at what is there when it is called. */
static ncclResult_t launch(ncclComm_t comm, cudaStream_t stream, standin_call c, const standin_config *given) {
    standin_config bent;
    const standin_config *config = bend_config(given, &bent);
    if (config && (config->nbytes < 64 || config->magic != 0xcafebeef || config->extension || config->tag >> 63))
        standin_broken("a collective's config that was not initialised");
    if (config && (config->is_forced & ~1)) standin_broken("a collective's config that forces %d", config->is_forced);
    if (config && standin_fails("config")) return ncclInvalidArgument;
    if (config && !standin_loses("config")) {
        c.config = *config;
        write_config(&c);
    }
    ncclResult_t result = standin_launch_call(comm, stream, bend(c));
    if (standin_bends("collective.beside")) launch_beside(comm, stream, c);
    return result;
}

static standin_call with_root(standin_call c, int root) {
    c.root = root;
    return c;
}
static standin_call with_op(standin_call c, ncclRedOp_t op) {
    c.op = op;
    return c;
}

/* A call as it always was, and as it is from 2.31 on. `made`: what it asks for, of its parameters. */
#define COMMA ,
#define COLLECTIVE(name, made, parameters)                                                                             \
    SHOWN ncclResult_t nccl##name(parameters ncclComm_t comm, cudaStream_t stream) {                                   \
        return launch(comm, stream, made, NULL);                                                                       \
    }                                                                                                                  \
    SHOWN ncclResult_t nccl##name##Config(parameters ncclComm_t comm, cudaStream_t stream,                             \
                                          const standin_config *config);                                               \
    SHOWN ncclResult_t nccl##name##Config(parameters ncclComm_t comm, cudaStream_t stream,                             \
                                          const standin_config *config) {                                              \
        return launch(comm, stream, made, config);                                                                     \
    }
#define BUFFERS const void *src COMMA void *dst COMMA size_t count COMMA ncclDataType_t type COMMA
#define REDUCED BUFFERS ncclRedOp_t op COMMA
#define ROOTED int root COMMA

COLLECTIVE(AllReduce, with_op(call(ALL_REDUCE, src, dst, count, type), op), REDUCED)
COLLECTIVE(Reduce, with_root(with_op(call(REDUCE, src, dst, count, type), op), root), REDUCED ROOTED)
COLLECTIVE(Broadcast, with_root(call(BROADCAST, src, dst, count, type), root), BUFFERS ROOTED)
COLLECTIVE(AllGather, call(ALL_GATHER, src, dst, count, type), BUFFERS)
COLLECTIVE(ReduceScatter, with_op(call(REDUCE_SCATTER, src, dst, count, type), op), REDUCED)

SHOWN ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
    standin_call c = call(PAIR, src, NULL, count, type);
    c.is_pair = true;
    c.from = standin_comm_of(comm)->rank;
    c.to = peer;
    return standin_launch_call(comm, stream, c);
}

SHOWN ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                            cudaStream_t stream) {
    standin_call c = call(PAIR, NULL, dst, count, type);
    c.is_pair = true;
    c.from = peer;
    c.to = standin_comm_of(comm)->rank;
    return standin_launch_call(comm, stream, c);
}
