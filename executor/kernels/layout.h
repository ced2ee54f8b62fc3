/* layout.h: kernels that work along an axis or move boxes of elements, and what their prepare functions check. */
#ifndef EXECUTOR_KERNELS_LAYOUT_H
#define EXECUTOR_KERNELS_LAYOUT_H

#include "executor/kernels/loops.h"
#include "executor/kernels/typed.h"

/* A tensor around one axis: [outer, extent, inner]; a scalar is [1, 1, 1]. */
typedef struct axis_split {
    int64_t outer, extent, inner;
} axis_split;

/* An axis counted from the end where it is negative; -1 if the tensor does not have it. A scalar has axis 0. */
int axis_of(const tensor *t, int64_t axis);
axis_split axis_split_at(const tensor *t, int axis);
/* prepare: splits at an attr's value, refusing an axis that the tensor does not have. */
WEFT_MUST_USE weft_status axis_split_prepare(const kernel_prepare *p, const tensor *t, int64_t axis, axis_split *out);

/* prepare: refuses a missing argument, and element types that the kernel has no loop for. */
WEFT_MUST_USE weft_status require_real(const kernel_prepare *p, const tensor *t, const char *what);
WEFT_MUST_USE weft_status require_integers(const kernel_prepare *p, const tensor *t, const char *what);
WEFT_MUST_USE weft_status require_fp32(const kernel_prepare *p, const tensor *t, const char *what);
WEFT_MUST_USE weft_status require_present(const kernel_prepare *p, const tensor *t, const char *what);
WEFT_MUST_USE weft_status require_numel(const kernel_prepare *p, const tensor *t, int64_t numel, const char *what);

/* prepare: an optional argument, which has `numel` elements of x's type. */
WEFT_MUST_USE weft_status require_like(const kernel_prepare *p, const tensor *x, const tensor *t, int64_t numel,
                                       const char *what);
/* run: the elements of an optional argument. */
static inline void *data_or_null(const tensor *t) {
    return t ? t->data : NULL;
}

/* Copies elements of `nbytes` bytes, offsets of operand 0 of `l` from those of operand 1. */
void copy_loops(const loops *l, size_t nbytes, void *dst, const void *src);

#endif
