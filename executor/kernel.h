/* kernel.h: what a CPU kernel is.
 *
 * A kernel has two halves. `prepare` runs once when an executor is created: it reads attrs, checks what it can compute,
 * makes its state and says how much scratch it needs. `run` runs every step: it may not allocate, look anything up, or
 * read an attr. Each op type's kernel is one `const kernel kernel_<name>` named in executor/kernels/kernels.def;
 * families of kernels share a folder there. */
#ifndef EXECUTOR_KERNEL_H
#define EXECUTOR_KERNEL_H

#include "ops/ops.h"

/* A dense, row-major, contiguous tensor. */
typedef struct tensor {
    void *data;
    weft_dtype dtype;
    int32_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    int64_t numel;
    /* SELECTED_ROWS: `data` holds the values of nrows = dims[0] rows; rows[i] is the index of row i in a tensor of
     * `height` rows. Else NULL and -1. */
    int64_t *rows;
    int64_t height;
} tensor;

struct comm_ring; /* executor/comm/comm.h */

/* Of a kernel that works row by row, so that several may be fused: run tile by tile, while a tile's rows are in the
 * cache (executor/devices/cpu/group.c). An argument with as many elements as the largest output is split evenly, nrows
 * ways, in order; any other is read or written as the kernel likes. */
struct kernel_call;
typedef struct row_split {
    void (*rows)(const struct kernel_call *c, int64_t first, int64_t end); /* of nrows; NULL: it has none */
    int64_t nrows;                                                         /* 1: there is nothing to split */
    bool in_order; /* rows add up into an output: run them first to last, by one thread at a time */
    bool alone;    /* run does more than the rows do: it is not fused */
} row_split;

/* Of a kernel that communicates: what its run does, in parts, for devices whose streams carry collectives themselves
 * (comm_enqueue): work 0, request 0, work 1, request 1, ... and work `count`. */
struct comm_request;
typedef struct kernel_rounds {
    int count;
    /* What it asks of its ring: looks at types and addresses, at no bytes. What the request points to is the state's.
     */
    void (*ask)(const struct kernel_call *c, int round, struct comm_request *out);
    weft_status (*work)(const struct kernel_call *c, int round); /* NULL: there is none */
} kernel_rounds;

/* Arguments are flattened in schema slot order; in_first[s] .. in_first[s + 1] are those of input slot s. */
typedef struct kernel_call {
    const op_schema *schema;
    const tensor *in;
    tensor *out;
    const uint32_t *in_first, *out_first;
    void *state;            /* made by prepare */
    void *workspace;        /* the stream's scratch, 64-byte aligned, at least what prepare asked for */
    struct comm_ring *ring; /* collectives: the communicator of the op's ring, at this rank */
    int rank, nranks;
    uint64_t seed;          /* of the run */
    uint64_t op_seed;       /* distinct per op, equal on all ranks */
    const uint64_t *step;   /* the number of the step: 0, 1, ...; NULL: 0 */
    int nthreads;           /* intra-op threads this call may use */
    struct pool_slot *slot; /* where the stream asks for their help; NULL: there is none */
    row_split split;        /* as prepare set it */
} kernel_call;

typedef struct kernel_prepare {
    const weft_op *op; /* attrs; arguments by name */
    const op_schema *schema;
    const tensor *in; /* types and extents; data is NULL */
    const tensor *out;
    const uint32_t *in_first, *out_first;
    arena *arena;            /* for state; lives as long as the executor */
    void *state;             /* to be set by prepare */
    size_t workspace_nbytes; /* to be set by prepare; 0 by default */
    int rank, nranks;        /* of the whole run */
    int ring_nranks;         /* of the op's ring; 1 if it has none */
    int ring_index;          /* of this rank in it */
    int nthreads;            /* as kernel_call's: parts of a parallel_for at most */
    bool older; /* the program's version has the older definition of the op (ops/versions.def); set by kernel_bind */
    row_split split; /* may be set by prepare; the kernel's run is kernel_run_rows then, or does the same */
    const struct kernel *adapted; /* for adaptors: the kernel that they stand for */
    const kernel_rounds *rounds;  /* set by prepare where run asks something of the ring */
} kernel_prepare;

typedef weft_status (*kernel_run_fn)(const kernel_call *);

typedef struct kernel {
    weft_status (*prepare)(kernel_prepare *); /* NULL: nothing to prepare */
    kernel_run_fn run;
} kernel;

/* The kernel of a row of the op table; NULL: no kernel on this device. */
const kernel *kernel_find(const op_schema *schema);
/* That of a host's op; NULL: it has none. */
const kernel *kernel_of_host(const op_schema *schema);
bool kernel_is_there(int row); /* of ops.def; -1: none */
/* For executors: prepares a call of the kernel that kernel_find gives, and says which function runs it. Where the
 * kernel refuses fp16 or bf16 tensors, that is the kernel on fp32 copies, its outputs rounded once (half_adaptor.c);
 * where it refuses complex ones, it may be the kernel on their parts (complex_adaptor.c). */
WEFT_MUST_USE weft_status kernel_bind(kernel_prepare *p, kernel_run_fn *out_run);

/* Runs all rows of a call that has them, on as many threads as it may use. */
WEFT_MUST_USE weft_status kernel_run_rows(const kernel_call *c);

/* For kernels. First argument of a slot, NULL if there is none or an empty one (@EMPTY@: no element type). */
static inline const tensor *arg_in(const kernel_call *c, int s) {
    const tensor *t = &c->in[c->in_first[s]];
    return c->in_first[s] < c->in_first[s + 1] && t->dtype != WEFT_DTYPE_NONE ? t : NULL;
}
static inline tensor *arg_out(const kernel_call *c, int s) {
    tensor *t = &c->out[c->out_first[s]];
    return c->out_first[s] < c->out_first[s + 1] && t->dtype != WEFT_DTYPE_NONE ? t : NULL;
}
static inline const tensor *type_in(const kernel_prepare *p, int s) {
    const tensor *t = &p->in[p->in_first[s]];
    return p->in_first[s] < p->in_first[s + 1] && t->dtype != WEFT_DTYPE_NONE ? t : NULL;
}
static inline const tensor *type_out(const kernel_prepare *p, int s) {
    const tensor *t = &p->out[p->out_first[s]];
    return p->out_first[s] < p->out_first[s + 1] && t->dtype != WEFT_DTYPE_NONE ? t : NULL;
}
/* A prepare function's refusal: "op #n: expected ..., found ...". */
WEFT_MUST_USE weft_status kernel_unsupported(const kernel_prepare *p, const char *format, ...) WEFT_PRINTF(2, 3);
/* A run function's failure, worded with the op; the executor adds rank and ring. */
WEFT_MUST_USE weft_status kernel_failed(const kernel_call *c, const char *format, ...) WEFT_PRINTF(2, 3);

/* State of one struct type, zeroed. */
#define KERNEL_STATE(p, type) ((type *)((p)->state = ARENA_NEW((p)->arena, type)))

/* --- intra-op threads (executor/devices/cpu/pool.c)
 * --------------------------------------------------------------------------- */

/* Items [first, end) of a job; parts of one job are numbered from 0. */
typedef void (*parallel_part)(void *arg, int64_t first, int64_t end, int part);

/* Runs `run` over items 0 .. count in contiguous parts of at least `grain` items, on as many threads as the call may
 * use, and returns when all are done. What an item computes may not depend on the part that it falls into, so that
 * results do not depend on the number of threads. Parts may not call parallel_for, allocate, or fail (note it in arg).
 * Scratch that a part needs: workspace of p->nthreads times its size, taken by part number. */
void parallel_for(const kernel_call *c, int64_t count, int64_t grain, parallel_part run, void *arg);
/* How many parts that makes: 1 .. c->nthreads. */
int parallel_parts(const kernel_call *c, int64_t count, int64_t grain);
/* The grain of items that each read or write so many bytes, and of items that each take so many multiplications. */
static inline int64_t parallel_grain(int64_t cost, int64_t enough) {
    return cost >= enough ? 1 : (enough + cost - 1) / (cost > 0 ? cost : 1);
}
static inline int64_t grain_of_bytes(int64_t item_nbytes) {
    return parallel_grain(item_nbytes, 64 * 1024);
}
static inline int64_t grain_of_products(int64_t item_products) {
    return parallel_grain(item_products, 256 * 1024);
}

/* --- shared maths ------------------------------------------------------------------------------------------------- */

/* C = alpha op(A) op(B) + beta C, row major; op transposes where ta/tb. m x n result, inner extent k. On the threads of
 * `call` (NULL: one); bits do not depend on how many these are. */
void gemm_f32(const kernel_call *call, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
              int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);
void gemm_f64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
              const double *b, int64_t ldb, double beta, double *c, int64_t ldc);
/* Which library gemm_f32 uses, for `weft info`. */
const char *gemm_library(void);

/* Counter-based random bits (Philox4x32-10): the same (seed, op, step, index) always gives the same four words. */
void philox(uint64_t seed, uint64_t op_seed, uint64_t step, uint64_t index, uint32_t out[4]);

/* bf16 and fp16, rounding to nearest even. */
static inline float bf16_to_f32(uint16_t h) {
    uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}
uint16_t f32_to_bf16(float f);
float fp16_to_f32(uint16_t h);
uint16_t f32_to_fp16(float f);

#endif
