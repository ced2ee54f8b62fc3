/* collective.c: ops that communicate on a ring, of both eras, over comm_run.
 *
 * A ring of one rank sends nothing: its collectives copy. Paddle 2.6's ops name the reduction in their type
 * (c_allreduce_sum), those of 3 in reduce_type. After a reduce to one rank the others' outputs hold nothing of meaning
 * in Paddle; here, as with its Gloo backend, the part of the sum that the member worked out for the ring, and zeros. */
#include "executor/kernels/collective/collective.h"

#include "ops/collectives.h"

typedef struct state {
    comm_kind kind;
    weft_reduce reduce;
    int root;
} state;

weft_status run_rounds(const kernel_call *c, const kernel_rounds *rounds) {
    for (int round = 0; round < rounds->count; round++) {
        comm_request r;
        if (rounds->work) TRY(rounds->work(c, round));
        rounds->ask(c, round, &r);
        TRY(comm_run(c->ring, &r));
    }
    return rounds->work ? rounds->work(c, rounds->count) : NULL;
}

weft_status require_ring_type(const kernel_prepare *p, const tensor *x) {
    if (x->height >= 0) return kernel_unsupported(p, "expected a dense tensor, found rows (SelectedRows)");
    if (dtype_is_float(x->dtype) || dtype_is_complex(x->dtype)) return NULL;
    switch ((int)x->dtype) {
    case WEFT_BOOL:
    case WEFT_INT8:
    case WEFT_UINT8:
    case WEFT_INT16:
    case WEFT_INT32:
    case WEFT_INT64: return NULL;
    default: return kernel_unsupported(p, "no collective of %s", dtype_text(x->dtype));
    }
}

comm_kind comm_kind_of(const weft_op *op) {
    static const comm_kind kinds[] = {[COLLECTIVE_ALL_REDUCE] = COMM_ALL_REDUCE,
                                      [COLLECTIVE_REDUCE] = COMM_REDUCE,
                                      [COLLECTIVE_BROADCAST] = COMM_BROADCAST,
                                      [COLLECTIVE_ALL_GATHER] = COMM_ALL_GATHER,
                                      [COLLECTIVE_REDUCE_SCATTER] = COMM_REDUCE_SCATTER,
                                      [COLLECTIVE_ALL_TO_ALL] = COMM_ALL_TO_ALL,
                                      [COLLECTIVE_SCATTER] = COMM_SCATTER,
                                      [COLLECTIVE_SEND] = COMM_SEND,
                                      [COLLECTIVE_RECV] = COMM_RECV,
                                      [COLLECTIVE_BARRIER] = COMM_BARRIER};
    return kinds[op_collective_kind(op)];
}

weft_status read_ring_attrs(const kernel_prepare *p, weft_reduce *out_reduce, int *out_root) {
    int reduce = op_collective_reduce(p->op);
    int64_t root = op_collective_root(p->op);
    if (reduce == COLLECTIVE_NO_REDUCE) reduce = WEFT_REDUCE_SUM;
    if (!p->schema->collective->root_attr) root = 0;
    if (reduce < WEFT_REDUCE_SUM || reduce > WEFT_REDUCE_ALL)
        return kernel_unsupported(p, "expected reduce_type in [0, 6], found %d", reduce);
    if (root < 0 || root >= p->ring_nranks)
        return kernel_unsupported(p, "expected a root in [0, %d), found %lld", p->ring_nranks, (long long)root);
    *out_reduce = (weft_reduce)reduce;
    *out_root = (int)root;
    return NULL;
}

static weft_status prepare_state(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    comm_kind kind = comm_kind_of(p->op);
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    TRY(require_ring_type(p, x));
    TRY(require_same_dtype(p, x, out, "output"));
    TRY(read_ring_attrs(p, &s->reduce, &s->root));
    int64_t expected = x->numel;
    if (kind == COMM_ALL_GATHER) expected *= p->ring_nranks;
    bool gets_part = kind == COMM_REDUCE_SCATTER || kind == COMM_SCATTER;
    if (gets_part) expected /= p->ring_nranks;
    bool parts = gets_part || kind == COMM_ALL_TO_ALL;
    if (out->numel != expected || (parts && x->numel % p->ring_nranks != 0))
        return kernel_unsupported(p, "expected %lld elements for a ring of %d ranks, found %lld", (long long)expected,
                                  p->ring_nranks, (long long)out->numel);
    s->kind = kind;
    return NULL;
}

/* Elements that a request counts (comm_kind): those of one rank's part. */
static int64_t count_of(comm_kind kind, const tensor *x, const tensor *out, int nranks) {
    switch (kind) {
    case COMM_SCATTER:
    case COMM_REDUCE_SCATTER: return out->numel;
    case COMM_ALL_TO_ALL: return x->numel / nranks;
    default: return x->numel;
    }
}

static comm_request request(const kernel_call *c, comm_kind kind, const tensor *x, const tensor *out) {
    return (comm_request){.kind = kind,
                          .dtype = x->dtype,
                          .count = count_of(kind, x, out, c->ring->nranks),
                          .src = x->data,
                          .dst = out->data,
                          .op = c->schema->type};
}

static void ask(const kernel_call *c, int round, comm_request *out) {
    const state *s = c->state;
    (void)round;
    *out = request(c, s->kind, arg_in(c, 0), arg_out(c, 0));
    out->reduce = s->reduce;
    out->root = s->root;
}

static void ask_reduce(const kernel_call *c, int round, comm_request *out) {
    (void)round;
    *out = request(c, COMM_ALL_REDUCE, arg_in(c, 0), arg_out(c, 0));
    out->reduce = ((const state *)c->state)->reduce;
}

/* A reduce to one rank: the sum everywhere, of which a rank that is not the root keeps its own segment. */
static weft_status keep_segment(const kernel_call *c, int round) {
    const state *s = c->state;
    const tensor *out = arg_out(c, 0);
    if (!round || c->ring->index == s->root) return NULL;
    size_t size = weft_dtype_nbytes(out->dtype), total = tensor_nbytes(out);
    int64_t segment = (out->numel + c->ring->nranks - 1) / c->ring->nranks;
    size_t begin = (size_t)(segment * c->ring->index) * size, end = begin + (size_t)segment * size;
    begin = begin < total ? begin : total;
    end = end < total ? end : total;
    memset(out->data, 0, begin);
    memset((char *)out->data + end, 0, total - end);
    return NULL;
}

static const kernel_rounds one_request = {1, ask, NULL}, reduce_rounds = {1, ask_reduce, keep_segment};

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_state(p));
    p->rounds = &one_request; /* of one member too: an engine on a device's streams takes it as it comes */
    return NULL;
}

static weft_status prepare_reduce(kernel_prepare *p) {
    TRY(prepare_state(p));
    if (p->ring_nranks > 1) p->rounds = &reduce_rounds;
    return NULL;
}

static void copy_alone(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    copy_bytes(arg_out(c, 0)->data, x->data, tensor_nbytes(x));
}

static weft_status run(const kernel_call *c) {
    if (!is_alone(c)) return run_rounds(c, &one_request);
    copy_alone(c);
    return NULL;
}

static weft_status run_reduce(const kernel_call *c) {
    if (!is_alone(c)) return run_rounds(c, &reduce_rounds);
    copy_alone(c);
    return NULL;
}

/* Types whose parts lie one after another in one tensor. */
#define DEFINE_KERNEL(type, how) const kernel kernel_##type = {prepare##how, run##how};
DEFINE_KERNEL(c_allreduce_sum, )
DEFINE_KERNEL(c_allreduce_max, )
DEFINE_KERNEL(c_allreduce_min, )
DEFINE_KERNEL(c_allreduce_prod, )
DEFINE_KERNEL(c_allreduce_avg, )
DEFINE_KERNEL(mp_allreduce_sum, )
DEFINE_KERNEL(all_reduce, )
DEFINE_KERNEL(c_reduce_sum, _reduce)
DEFINE_KERNEL(c_reduce_max, _reduce)
DEFINE_KERNEL(c_reduce_min, _reduce)
DEFINE_KERNEL(c_reduce_prod, _reduce)
DEFINE_KERNEL(reduce, _reduce)
DEFINE_KERNEL(c_broadcast, )
DEFINE_KERNEL(broadcast, )
DEFINE_KERNEL(c_scatter, )
DEFINE_KERNEL(c_allgather, )
DEFINE_KERNEL(all_gather, )
DEFINE_KERNEL(c_reducescatter, )
DEFINE_KERNEL(reduce_scatter, )
DEFINE_KERNEL(alltoall, )
#undef DEFINE_KERNEL

/* --- a part of the elements of each rank ---------------------------------------------------------------------------
 */

typedef struct own_part {
    size_t offset, nbytes;
} own_part;

/* Out may be X, so what this rank gives is copied first. */
static weft_status take_part(const kernel_call *c, int round) {
    const own_part *s = c->state;
    if (!round) copy_bytes(c->workspace, (const char *)arg_in(c, 0)->data + s->offset, s->nbytes);
    return NULL;
}

static void ask_for_rest(const kernel_call *c, int round, comm_request *out) {
    (void)round;
    *out = request(c, COMM_ALL_GATHER, arg_in(c, 0), arg_out(c, 0));
    out->src = c->workspace;
    out->count /= c->ring->nranks;
}

static const kernel_rounds part_rounds = {1, ask_for_rest, take_part};

static weft_status prepare_own_part(kernel_prepare *p) {
    own_part *s = KERNEL_STATE(p, own_part);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    int64_t nranks = attr_int(p->op, "nranks", 1), rank = attr_int(p->op, "rank", 0);
    TRY(require_ring_type(p, x));
    TRY(require_same_dtype(p, x, out, "Out"));
    if (nranks != p->ring_nranks || rank != p->ring_index || x->numel % nranks || out->numel != x->numel)
        return kernel_unsupported(p, "expected part %d of %d of the elements, found part %lld of %lld of %lld",
                                  p->ring_index, p->ring_nranks, (long long)rank, (long long)nranks,
                                  (long long)x->numel);
    s->nbytes = tensor_nbytes(x) / (size_t)nranks;
    s->offset = (size_t)rank * s->nbytes;
    p->workspace_nbytes = s->nbytes;
    if (p->ring_nranks > 1) p->rounds = &part_rounds;
    return NULL;
}

static weft_status run_own_part(const kernel_call *c) {
    if (!is_alone(c)) return run_rounds(c, &part_rounds);
    copy_alone(c);
    return NULL;
}

const kernel kernel_partial_allgather = {prepare_own_part, run_own_part};

/* --- barrier ------------------------------------------------------------------------------------------------------ */

static void ask_barrier(const kernel_call *c, int round, comm_request *out) {
    (void)round;
    *out = (comm_request){.kind = COMM_BARRIER, .dtype = WEFT_INT32, .op = c->schema->type};
}

static weft_status pass_on(const kernel_call *c, int round) {
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    if (!round && x && out) copy_bytes(out->data, x->data, tensor_nbytes(x));
    return NULL;
}

static const kernel_rounds barrier_rounds = {1, ask_barrier, pass_on};

static weft_status prepare_barrier(kernel_prepare *p) {
    if (p->ring_nranks > 1) p->rounds = &barrier_rounds;
    return NULL;
}

static weft_status run_barrier(const kernel_call *c) {
    return is_alone(c) ? pass_on(c, 0) : run_rounds(c, &barrier_rounds);
}

const kernel kernel_barrier = {prepare_barrier, run_barrier};

/* --- the last dimension: c_concat, c_split ------------------------------------------------------------------------ */

typedef struct split_state {
    int nranks, rank;
    int64_t rows, part; /* every rank's part is [rows, part] */
} split_state;

static weft_status prepare_last_dim(kernel_prepare *p, const tensor *part, const tensor *whole, int nranks) {
    split_state *s = KERNEL_STATE(p, split_state);
    if (!s) return base_out_of_memory();
    TRY(require_ring_type(p, part));
    TRY(require_same_dtype(p, part, whole, "output"));
    if (part->ndim == 0 || nranks < 1 || whole->numel != part->numel * nranks)
        return kernel_unsupported(p, "expected %d parts of the last dimension, found %lld and %lld elements", nranks,
                                  (long long)part->numel, (long long)whole->numel);
    s->nranks = nranks;
    s->part = part->dims[part->ndim - 1];
    s->rows = s->part ? part->numel / s->part : 0;
    return NULL;
}

/* Gathers part after part, then puts each row's parts side by side. */
static void ask_parts(const kernel_call *c, int round, comm_request *out) {
    (void)round;
    *out = request(c, COMM_ALL_GATHER, arg_in(c, 0), arg_out(c, 0));
    out->dst = c->workspace;
}

static weft_status join_parts(const kernel_call *c, int round) {
    const split_state *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    size_t part = (size_t)s->part * weft_dtype_nbytes(x->dtype);
    for (int k = 0; round && k < s->nranks; k++)
        for (int64_t row = 0; row < s->rows; row++)
            memcpy((char *)out->data + ((size_t)row * (size_t)s->nranks + (size_t)k) * part,
                   (char *)c->workspace + ((size_t)k * (size_t)s->rows + (size_t)row) * part, part);
    return NULL;
}

static const kernel_rounds concat_rounds = {1, ask_parts, join_parts};

static weft_status prepare_concat(kernel_prepare *p) {
    TRY(prepare_last_dim(p, type_in(p, 0), type_out(p, 0), p->ring_nranks));
    p->workspace_nbytes = tensor_nbytes(type_out(p, 0));
    if (p->ring_nranks > 1) p->rounds = &concat_rounds;
    return NULL;
}

static weft_status run_concat(const kernel_call *c) {
    if (!is_alone(c)) return run_rounds(c, &concat_rounds);
    copy_alone(c);
    return NULL;
}

static weft_status prepare_split(kernel_prepare *p) {
    int64_t nranks = attr_int(p->op, "nranks", 1), rank = attr_int(p->op, "rank", 0);
    if (nranks < 1 || nranks > INT32_MAX || rank < 0 || rank >= nranks)
        return kernel_unsupported(p, "expected rank in [0, nranks), found %lld of %lld", (long long)rank,
                                  (long long)nranks);
    TRY(prepare_last_dim(p, type_out(p, 0), type_in(p, 0), (int)nranks));
    ((split_state *)p->state)->rank = (int)rank;
    return NULL;
}

static weft_status run_split(const kernel_call *c) {
    const split_state *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    size_t part = (size_t)s->part * weft_dtype_nbytes(x->dtype);
    for (int64_t row = 0; row < s->rows; row++)
        memcpy((char *)out->data + (size_t)row * part,
               (const char *)x->data + ((size_t)row * (size_t)s->nranks + (size_t)s->rank) * part, part);
    return NULL;
}

const kernel kernel_c_concat = {prepare_concat, run_concat};
const kernel kernel_c_split = {prepare_split, run_split};
