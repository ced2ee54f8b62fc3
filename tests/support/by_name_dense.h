/* by_name_dense.h: what Paddle's executor derives, told as Paddle does: with a matrix of what happens before what, and
 * lists that are searched from end to end. It shares with proof/schedule/by_name*.c what tells kinds of ops apart, and
 * nothing of how edges and waits are found. O(n^2) bits. */
#ifndef TESTS_SUPPORT_BY_NAME_DENSE_H
#define TESTS_SUPPORT_BY_NAME_DENSE_H

#include "proof/schedule/schedule.h"

typedef struct dense_instr {
    const weft_op *op;
    uint32_t event, context;
    bool is_async;
} dense_instr;

typedef struct dense_list {
    uint32_t *items;
    size_t count, capacity;
} dense_list;

typedef struct dense_by_name {
    proof_schedule *s;
    arena *arena;
    dense_instr *instrs;
    size_t n, message_nbytes;
    dense_list *after, *before; /* by instruction */
    uint64_t *earlier;          /* n rows of bits: which instructions are launched before */
    dense_list *waits;          /* by event */
    uint32_t *visited, stamp;
} dense_by_name;

WEFT_MUST_USE weft_status dense_make(dense_by_name *z, proof_schedule *s, arena *a);

#endif
