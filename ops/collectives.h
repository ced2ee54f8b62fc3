/* collectives.h: what an op does on a ring: the rows of collectives.def, the one place that knows it.
 *
 * op_collective gives an op's row in O(1), cached with its row of ops.def. NULL: the op is no collective, or one of a
 * type that nobody knows. A row of kind COLLECTIVE_NONE says only what Paddle's executor thinks of the type. */
#ifndef OPS_COLLECTIVES_H
#define OPS_COLLECTIVES_H

#include "ops/ops.h"

typedef enum collective_kind {
    COLLECTIVE_NONE,
    /* These communicate. */
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_REDUCE,         /* to the root */
    COLLECTIVE_BROADCAST,      /* from the root */
    COLLECTIVE_ALL_GATHER,     /* every rank's tensor, on every rank */
    COLLECTIVE_REDUCE_SCATTER, /* a part of the result to each rank */
    COLLECTIVE_ALL_TO_ALL,     /* part j of rank i becomes part i of rank j */
    COLLECTIVE_SCATTER,        /* a part of the root's tensor to each rank */
    COLLECTIVE_SEND,
    COLLECTIVE_RECV,
    COLLECTIVE_BARRIER,
    COLLECTIVE_OTHER, /* in a way of its own */
    /* These do not. */
    COLLECTIVE_SPLIT,        /* keeps the rank's part of what all have */
    COLLECTIVE_IDENTITY,     /* the same value; its gradient is summed over the ring */
    COLLECTIVE_WAIT_COMPUTE, /* the ring's stream waits for the compute stream */
    COLLECTIVE_WAIT_COMM,    /* the compute stream waits for the ring's */
    COLLECTIVE_WAIT_TENSOR,  /* its stream waits for the asynchronous collective that makes its input */
    COLLECTIVE_SYNC_COMPUTE, /* the host waits for the compute stream */
    COLLECTIVE_SYNC_COMM     /* the host waits for the ring's stream */
} collective_kind;

/* How the parts of what is moved lie, where a kind has parts. */
typedef enum collective_form {
    COLLECTIVE_WHOLE,    /* one tensor, its parts along dimension 0, of equal extents */
    COLLECTIVE_LAST_DIM, /* one tensor, its parts along the last dimension */
    COLLECTIVE_SPLITS,   /* as WHOLE; where attrs in_splits and out_splits are given, they say the parts' extents */
    COLLECTIVE_LIST,     /* an argument for each part */
    COLLECTIVE_EACH,     /* several tensors at once, each as WHOLE */
    COLLECTIVE_COUNTS,   /* parts as the elements of input tensors say */
    COLLECTIVE_ROWS,     /* of each member its rows, of any number; all add to sums that are of one dimension */
    COLLECTIVE_PART      /* one part of a tensor: number `id` (or `rank`) of `num` (or `nranks`) */
} collective_form;

typedef enum collective_stream {
    COLLECTIVE_IN_ORDER,   /* it runs on the compute stream */
    COLLECTIVE_ASYNC_OP,   /* attr async_op: it only begins, on its ring's stream (op_is_async) */
    COLLECTIVE_CALC_STREAM /* it runs on its ring's stream unless attr use_calc_stream is true */
} collective_stream;

/* What is peculiar to a type in Paddle's executor. */
enum {
    PADDLE_NONE = 0,
    PADDLE_CHAINED = 1 << 0,    /* launched in the order of communication ops, even without a ring_id */
    PADDLE_CONTEXT = 1 << 1,    /* communicates on its stream's communicator, whatever its ring */
    PADDLE_RING_STREAM = 1 << 2 /* runs on its ring's stream unless attr use_calc_stream is true */
};

enum { COLLECTIVE_NO_REDUCE = -1 };

typedef struct collective_schema {
    const char *type;
    collective_kind kind;
    collective_form form;
    collective_stream stream;
    int reduce;              /* a weft_reduce; COLLECTIVE_NO_REDUCE: none, or reduce_attr says it */
    const char *reduce_attr; /* NULL: none */
    const char *root_attr;   /* of send and recv: of the other member; NULL: none */
    const char *ring_attr;   /* NULL: none */
    const char *in, *out;    /* slots of what is moved; NULL: none */
    uint32_t paddle;
} collective_schema;

/* Whether it moves several arguments. */
static inline bool collective_has_lists(const collective_schema *c) {
    return c->form == COLLECTIVE_LIST || c->form == COLLECTIVE_EACH;
}

const collective_schema *op_collective(const weft_op *op);
/* The row of a type; NULL: it has none. */
const collective_schema *collectives_find(weft_context *context, const char *type);
/* All rows, in collectives.def order. */
const collective_schema *collectives_rows(size_t *out_count);

/* "all_reduce", "send", ... */
const char *collective_kind_name(collective_kind kind);
/* Whether ops of the kind send or receive. */
static inline bool collective_communicates(collective_kind kind) {
    return kind >= COLLECTIVE_ALL_REDUCE && kind <= COLLECTIVE_OTHER;
}
static inline bool collective_is_wait(collective_kind kind) {
    return kind >= COLLECTIVE_WAIT_COMPUTE && kind <= COLLECTIVE_WAIT_TENSOR;
}

/* COLLECTIVE_NONE also for a type that is not in the table. */
static inline collective_kind op_collective_kind(const weft_op *op) {
    const collective_schema *c = op_collective(op);
    return c ? c->kind : COLLECTIVE_NONE;
}
/* Whether it is a collective of that kind, over one tensor or over lists. */
static inline bool op_is_collective(const weft_op *op, collective_kind kind) {
    const collective_schema *c = op_collective(op);
    return c && c->kind == kind;
}
/* What the op reduces with, a weft_reduce (of programs that are not verified, any number of the attr);
 * COLLECTIVE_NO_REDUCE: it does not. */
int op_collective_reduce(const weft_op *op);
/* Extents of the parts that an op of form SPLITS gives, or gets; NULL and 0: equal parts. */
const int64_t *op_collective_splits(const weft_op *op, bool gets, size_t *out_count);
/* Index in the ring of the root, or of the other member of a send or recv; -1: it has none. */
int64_t op_collective_root(const weft_op *op);

#endif
