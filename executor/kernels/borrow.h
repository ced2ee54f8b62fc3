/* borrow.h: a kernel that is another op's, whose slots stand elsewhere. The other op's kernel reads the attrs that it
 * knows from the op that borrows it, so these have its names and meaning. */
#ifndef EXECUTOR_KERNELS_BORROW_H
#define EXECUTOR_KERNELS_BORROW_H

#include "executor/kernel.h"

enum { BORROW_SLOTS = 12 };

/* Slot k of the lender is slot in[k] of the borrower, or absent (-1). Slots are of one argument. */
typedef struct borrowed_slots {
    int nin, nout;
    signed char in[BORROW_SLOTS], out[BORROW_SLOTS];
} borrowed_slots;

typedef struct borrowed {
    const kernel *lender;
    const borrowed_slots *slots;
    void *state; /* the lender's */
    row_split split;
    const kernel_rounds *rounds; /* the lender's, if the borrower's are borrow_ask and borrow_work */
} borrowed;

/* prepare: prepares the lender's call; its scratch is p's then. */
WEFT_MUST_USE weft_status borrow_prepare(kernel_prepare *p, const kernel *lender, const borrowed_slots *slots,
                                         borrowed *out);
WEFT_MUST_USE weft_status borrow_run(const kernel_call *c, const borrowed *b);
/* A round of the lender; the call's state is a `borrowed`. */
void borrow_ask(const kernel_call *c, int round, struct comm_request *out);
weft_status borrow_work(const kernel_call *c, int round);

#endif
