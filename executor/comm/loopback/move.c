/* move.c: what a member does of a collective.
 *
 * The idea is that of ../local_move.c: of what is reduced each member has a share of the elements. It reads that from
 * all members in the order of the ring, and writes it to all. What is only moved a member fetches for itself. */
#include "executor/comm/loopback/engine.h"

/* --- what members have -------------------------------------------------------------------------------------------- */

static const comm_request *asked(const loop_ring *r, int index) {
    return &r->members[index].request;
}

static size_t source_nbytes(const loop_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return (size_t)comm_source_count(q, k) * weft_dtype_nbytes(q->dtype);
}

static size_t part_nbytes(const loop_ring *r) {
    return (size_t)asked(r, 0)->count * weft_dtype_nbytes(asked(r, 0)->dtype);
}

/* Part k of what a member gives, and of what it gets. */
static const char *source(const loop_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return q->srcs ? q->srcs[k] : (const char *)q->src + (size_t)k * part_nbytes(r);
}
static char *result(const loop_ring *r, int index, int64_t k) {
    const comm_request *q = asked(r, index);
    return q->dsts ? q->dsts[k] : (char *)q->dst + (size_t)k * part_nbytes(r);
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

/* How elements of a type are reduced: a complex number is two real ones. */
static const struct {
    cuda_kernel_id kernel;
    int nreals;
} types[] = {[WEFT_BOOL] = {CUDA_KERNEL_loop_bool, 1},     [WEFT_INT16] = {CUDA_KERNEL_loop_i16, 1},
             [WEFT_INT32] = {CUDA_KERNEL_loop_i32, 1},     [WEFT_INT64] = {CUDA_KERNEL_loop_i64, 1},
             [WEFT_FP16] = {CUDA_KERNEL_loop_f16, 1},      [WEFT_FP32] = {CUDA_KERNEL_loop_f32, 1},
             [WEFT_FP64] = {CUDA_KERNEL_loop_f64, 1},      [WEFT_SIZE_T] = {CUDA_KERNEL_loop_u64, 1},
             [WEFT_UINT8] = {CUDA_KERNEL_loop_u8, 1},      [WEFT_INT8] = {CUDA_KERNEL_loop_i8, 1},
             [WEFT_BF16] = {CUDA_KERNEL_loop_bf16, 1},     [WEFT_COMPLEX64] = {CUDA_KERNEL_loop_f32, 2},
             [WEFT_COMPLEX128] = {CUDA_KERNEL_loop_f64, 2}};

static int op_of(const comm_request *q) {
    static const int ops[] = {
        [WEFT_REDUCE_SUM] = LOOP_SUM,   [WEFT_REDUCE_MAX] = LOOP_MAX, [WEFT_REDUCE_MIN] = LOOP_MIN,
        [WEFT_REDUCE_PROD] = LOOP_PROD, [WEFT_REDUCE_AVG] = LOOP_SUM, [WEFT_REDUCE_ANY] = LOOP_MAX,
        [WEFT_REDUCE_ALL] = LOOP_MIN};
    int op = ops[q->reduce];
    if (q->dtype != WEFT_BOOL) return op;
    return op == LOOP_SUM ? LOOP_MAX : op == LOOP_PROD ? LOOP_MIN : op; /* truth: "or" and "and" */
}

/* Elements [first, end) of part k, from element `at` of it on, of all members; to where the caller has said. */
static weft_status reduce_part(const loop_ring *r, int self, int64_t k, int64_t at, int64_t first, int64_t end,
                               loop_args *args) {
    const comm_request *q = asked(r, 0);
    int nreals = types[q->dtype].nreals;
    cuda_launch launch = {.device = r->device, .stream = r->members[self].stream};
    args->first = first * nreals;
    args->nitems = (end - first) * nreals;
    args->nsrcs = r->nranks;
    args->op = op_of(q);
    args->averages = q->reduce == WEFT_REDUCE_AVG;
    for (int i = 0; i < r->nranks; i++) args->srcs[i] = source(r, i, k) + (size_t)at * weft_dtype_nbytes(q->dtype);
    return cuda_start_items(&launch, types[q->dtype].kernel, args->nitems, args);
}

/* --- what is reduced ---------------------------------------------------------------------------------------------- */

/* In blocks, so that two members never write to one word of memory, and few to one sector. */
static int64_t share_first(const loop_ring *r, int index, int64_t count) {
    enum { BLOCK = 64 };
    int64_t nblocks = (count + BLOCK - 1) / BLOCK;
    int64_t first = (nblocks / r->nranks * index + nblocks % r->nranks * index / r->nranks) * BLOCK;
    return first < count ? first : count;
}

static weft_status all_reduce(const loop_ring *r, int self) {
    int64_t nparts = asked(r, 0)->nparts ? asked(r, 0)->nparts : 1;
    for (int64_t k = 0; k < nparts; k++) {
        int64_t count = comm_source_count(asked(r, 0), k);
        loop_args args = {.ndsts = r->nranks};
        for (int i = 0; i < r->nranks; i++) args.dsts[i] = result(r, i, k);
        TRY(reduce_part(r, self, k, 0, share_first(r, self, count), share_first(r, self + 1, count), &args));
    }
    return NULL;
}

static weft_status reduce(const loop_ring *r, int self) {
    int64_t count = asked(r, 0)->count;
    loop_args args = {.ndsts = 1, .dsts = {result(r, asked(r, 0)->root, 0)}};
    return reduce_part(r, self, 0, 0, share_first(r, self, count), share_first(r, self + 1, count), &args);
}

/* Some member's result begins where its parts do, which others still read: members have shares of all results then. */
static bool is_in_place(const loop_ring *r) {
    for (int i = 0; i < r->nranks; i++) {
        const comm_request *q = asked(r, i);
        if (q->src && q->src == q->dst && q->count > 0) return true;
    }
    return false;
}

static weft_status reduce_scatter_in_place(const loop_ring *r, int self) {
    int64_t count = asked(r, 0)->count;
    loop_args args = {.part = count * types[asked(r, 0)->dtype].nreals, .ndsts = r->nranks};
    for (int i = 0; i < r->nranks; i++) args.dsts[i] = asked(r, i)->dst;
    return reduce_part(r, self, 0, 0, share_first(r, self, count), share_first(r, self + 1, count), &args);
}

/* Part k of several tensors is what each has for a member; else each has a part for each member. */
static weft_status reduce_scatter(const loop_ring *r, int self) {
    const comm_request *q = asked(r, self);
    if (is_in_place(r)) return reduce_scatter_in_place(r, self);
    for (int64_t k = 0; k < (q->nparts ? q->nparts : 1); k++) {
        int64_t part = q->nparts ? k : self, count = comm_source_count(q, part);
        loop_args args = {.ndsts = 1, .dsts = {q->nparts ? q->dsts[k] : q->dst}};
        TRY(reduce_part(r, self, part, q->nparts ? self * count : 0, 0, count, &args));
    }
    return NULL;
}

/* --- what is moved ------------------------------------------------------------------------------------------------ */

weft_status loop_copy(void *to, const void *from, size_t nbytes, cudaStream_t stream) {
    if (to != from && nbytes) CUDA_TRY(MemcpyAsync, to, from, nbytes, cudaMemcpyDeviceToDevice, stream);
    return NULL;
}

static weft_status copy(const loop_ring *r, int self, void *to, const void *from, size_t nbytes) {
    return loop_copy(to, from, nbytes, r->members[self].stream);
}

/* Shares of what goes to where it comes from. */
static weft_status move_in_place(const loop_ring *r, int self, int kind) {
    size_t part = part_nbytes(r), size = part % sizeof(unsigned) ? 1 : sizeof(unsigned);
    int64_t n, first;
    loop_move_args args = {.nmembers = r->nranks, .kind = kind, .root = asked(r, 0)->root};
    for (int i = 0; i < r->nranks; i++) {
        args.srcs[i] = asked(r, i)->src;
        args.dsts[i] = asked(r, i)->dst;
        if (((uintptr_t)args.srcs[i] | (uintptr_t)args.dsts[i]) % sizeof(unsigned)) size = 1;
    }
    n = (int64_t)(part / size);
    first = share_first(r, self, n);
    args.part = n;
    args.first = first;
    args.nitems = share_first(r, self + 1, n) - first;
    cuda_launch launch = {.device = r->device, .stream = r->members[self].stream};
    return cuda_start_items(&launch, size == 1 ? CUDA_KERNEL_loop_bytes : CUDA_KERNEL_loop_words, args.nitems, &args);
}

static weft_status broadcast(const loop_ring *r, int self) {
    return copy(r, self, result(r, self, 0), source(r, asked(r, 0)->root, 0), part_nbytes(r));
}

static weft_status all_gather(const loop_ring *r, int self) {
    const comm_request *q = asked(r, self);
    if (is_in_place(r)) return move_in_place(r, self, LOOP_GATHER);
    for (int64_t k = 0; k < (q->nparts ? q->nparts : 1); k++) {
        size_t part = source_nbytes(r, self, k);
        for (int i = 0; i < r->nranks; i++)
            TRY(copy(r, self, q->nparts ? (char *)q->dsts[k] + (size_t)i * part : result(r, self, i), source(r, i, k),
                     q->nparts ? part : part_nbytes(r)));
    }
    return NULL;
}

static weft_status all_to_all(const loop_ring *r, int self) {
    if (is_in_place(r)) return move_in_place(r, self, LOOP_EXCHANGE);
    for (int i = 0; i < r->nranks; i++)
        TRY(copy(r, self, result(r, self, i), source(r, i, self), source_nbytes(r, i, self)));
    return NULL;
}

static weft_status scatter(const loop_ring *r, int self) {
    const comm_request *root = asked(r, asked(r, 0)->root);
    if (root->src && root->src == root->dst) return move_in_place(r, self, LOOP_SCATTER);
    return copy(r, self, result(r, self, 0), source(r, asked(r, 0)->root, self), part_nbytes(r));
}

/* --- a share ------------------------------------------------------------------------------------------------------ */

/* What each member sends in a ring: of all others' parts that pass by, and of what is reduced there and back. */
static double sent_nbytes(const loop_ring *r, int self) {
    const comm_request *q = asked(r, self);
    double others = r->nranks - 1, part = (double)part_nbytes(r), nbytes = 0;
    switch (q->kind) {
    case COMM_ALL_REDUCE: return 2 * others / r->nranks * part;
    case COMM_REDUCE:
    case COMM_BROADCAST: return part;
    case COMM_SCATTER: return others * part;
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
        for (int i = 0; !q->nparts && q->src_counts && i < r->nranks; i++)
            if (i != self) nbytes += (double)source_nbytes(r, self, i);
        return nbytes > 0 ? nbytes : others * part;
    case COMM_ALL_TO_ALL:
        for (int i = 0; i < r->nranks; i++)
            if (i != self) nbytes += (double)source_nbytes(r, self, i);
        return nbytes;
    default: return 0;
    }
}

weft_status loop_delay(const loop_ring *r, double nbytes, cudaStream_t stream) {
    cuda_launch launch = {.device = r->device, .stream = stream};
    if (!(r->device->rings_gb_per_second > 0) || nbytes <= 0) return NULL;
    loop_delay_args args = {.nitems = 1, .ns = (cuda_index)(nbytes / r->device->rings_gb_per_second)};
    return cuda_start_items(&launch, CUDA_KERNEL_loop_delay, 1, &args);
}

static weft_status (*const moves[COMM_KINDS])(const loop_ring *r, int self) = {
    [COMM_ALL_REDUCE] = all_reduce, [COMM_REDUCE] = reduce,         [COMM_BROADCAST] = broadcast,
    [COMM_ALL_GATHER] = all_gather, [COMM_ALL_TO_ALL] = all_to_all, [COMM_REDUCE_SCATTER] = reduce_scatter,
    [COMM_SCATTER] = scatter};

weft_status loop_move(const loop_ring *r, int self) {
    const comm_request *q = asked(r, self);
    if (!moves[q->kind]) return NULL; /* a barrier */
    TRY(moves[q->kind](r, self));
    return loop_delay(r, sent_nbytes(r, self), r->members[self].stream);
}
