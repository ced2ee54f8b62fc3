/* view.h: where the elements of an output that is a view ("out&self" in ops.def) lie in its input.
 *
 * One rule an op type serves shape inference, the plan (which makes contiguous views out of nothing) and the kernel
 * that materialises the others. */
#ifndef OPS_VIEW_H
#define OPS_VIEW_H

#include "ops/ops.h"

/* The input is dense, row-major; offset and strides count its elements. Extents that are not known (-1) leave offsets
 * and strides that depend on them unknown (-1). */
typedef struct op_view {
    int32_t ndim;
    int64_t dims[WEFT_MAX_RANK], strides[WEFT_MAX_RANK];
    int64_t offset;
} op_view;

/* The view number `part` among those that `op` makes of an input of type x: split has several. Types that have no rule
 * of their own (detach, wait_tensor, ...) see all of x as it is. Attrs that contradict x are an error. */
WEFT_MUST_USE weft_status op_view_of(const weft_op *op, const shape *x, size_t part, op_view *out);
/* How many views `op` makes of an input of type x; -1: not known. */
int64_t op_view_count(const weft_op *op, const shape *x);
/* Whether the elements follow one another without gaps, in order: the view is a byte range of its input. False where
 * that is not known. */
bool op_view_is_contiguous(const op_view *v);

#endif
