/* loops.h: nested loops over several tensors with strides, for broadcasting and reductions.
 *
 * Neighbouring axes that every operand crosses with one stride are merged. So the usual cases (equal shapes, a bias
 * row, a scalar) become one or two loops with a long inner run. A stride of 0 repeats an element (a broadcast input) or
 * adds into one (a reduced output). */
#ifndef EXECUTOR_KERNELS_LOOPS_H
#define EXECUTOR_KERNELS_LOOPS_H

#include "executor/kernel.h"

enum { LOOP_OPERANDS = 3 };

typedef struct loops {
    int naxes, noperands;
    int64_t extent[WEFT_MAX_RANK]; /* the last one is the inner run */
    int64_t stride[LOOP_OPERANDS][WEFT_MAX_RANK];
    int64_t numel;
} loops;

/* Loops over `dims`; strides[k] has ndim element strides of operand k. */
void loops_init(loops *l, int ndim, const int64_t *dims, int noperands, int64_t (*strides)[WEFT_MAX_RANK]);

/* Row-major element strides. */
void strides_dense(int ndim, const int64_t *dims, int64_t *out_strides);
/* Strides with which a tensor broadcasts into `dims`: its axes stand at `axis` and on (-1: at the end), trailing ones
 * that would not fit are dropped. False if an extent is neither 1 nor that of `dims`. */
bool strides_broadcast(const tensor *t, int axis, int ndim, const int64_t *dims, int64_t *out_strides);

/* for (walk w = walk_start(l); w.left; walk_next(l, &w)): one inner run after another; at[k] is operand k's offset. */
typedef struct walk {
    int64_t left;     /* runs still to do, this one included */
    int64_t position; /* elements before this run */
    int64_t at[LOOP_OPERANDS];
    int64_t index[WEFT_MAX_RANK];
} walk;

static inline int64_t loops_run(const loops *l) {
    return l->extent[l->naxes - 1];
}
static inline int64_t loops_stride(const loops *l, int k) {
    return l->stride[k][l->naxes - 1];
}
walk walk_start(const loops *l);
/* Offsets of all operands at inner run `run`: index `run` of the loops without the last axis. */
void loops_at(const loops *l, int64_t run, int64_t out_at[LOOP_OPERANDS]);
void walk_next(const loops *l, walk *w);

#endif
