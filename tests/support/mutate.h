/* mutate.h: one thing changed in a program: what a pass or a person might get wrong. */
#ifndef TESTS_SUPPORT_MUTATE_H
#define TESTS_SUPPORT_MUTATE_H

#include "program/ir.h"

typedef enum mutation {
    FACTOR_DROPPED,
    FACTOR_DOUBLED,
    SLICE_SHIFTED,
    MEMBER_MISSING,
    REDUCED_EARLY, /* before the last producer */
    REDUCE_DROPPED,
    REDUCED_TWICE,
    OTHER_REDUCTION,
    OTHER_DTYPE,
    OTHER_COUNT,
    OTHER_ROOT,
    OTHER_RING,
    RING_MEMBER_CHANGED,
    OP_DROPPED,
    OTHER_INPUT,
    REDUCES_EXCHANGED, /* two of one ring */
    VALUE_MUTATIONS,

    WAIT_DROPPED = VALUE_MUTATIONS,
    WAIT_MOVED_LATER,
    WAIT_MOVED_EARLIER,
    EVENT_DROPPED,
    EVENT_MOVED_LATER,
    EVENT_MOVED_EARLIER,
    DEPENDENCY_DELETED, /* a nop or depend */
    WAIT_TENSOR_DROPPED,
    STREAM_CHANGED,
    MUTATIONS
} mutation;

const char *mutation_name(mutation m);
/* Changes op `index` of block 0; false if there is nothing of the kind to change. `salt` chooses among several. */
bool mutate(weft_program *p, size_t index, mutation how, unsigned salt);

#endif
