/* training.h: data-parallel training in small, as a program, a plan and an executor, for tests of the executor. */
#ifndef TESTS_SUPPORT_TRAINING_H
#define TESTS_SUPPORT_TRAINING_H

#include "executor/executor.h"
#include "tests/support/must.h"

enum { NPARAMS = 6, NELEMENTS = 3000 };

/* A context that counts allocations. */
typedef struct counter {
    _Atomic long nallocations, nlive;
} counter;
weft_context *new_context(counter *c);

/* What differs between ranks in the tests of disagreement. */
typedef struct variation {
    int skipped_reduce; /* this one is left out; -1: none */
    int64_t last_count; /* elements of the last gradient; 0: NELEMENTS */
    int64_t ring_id;
    const char *stream;
} variation;
extern const variation plain;

/* Per parameter grad = x * w, summed over ranks on a stream of its own, then sgd. */
weft_program *training_program(weft_context *context, variation how);
/* What element i of x is on a rank, and of parameter k at the start. */
float x_of(int rank, int i);
float w_of(int k, int i);

/* A context, a program, a plan and an executor for all ranks. */
typedef struct fixture {
    counter count;
    weft_context *context;
    weft_program *program;
    weft_plan *plan;
    weft_executor *executor;
    int nranks;
} fixture;
void open_fixture(fixture *f, int nranks, const weft_executor_options *options);
/* Blocks that were not freed. */
long close_fixture(fixture *f);

#endif
