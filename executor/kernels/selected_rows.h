/* selected_rows.h: tensors that are kept as some rows of a larger one (SELECTED_ROWS). */
#ifndef EXECUTOR_KERNELS_SELECTED_ROWS_H
#define EXECUTOR_KERNELS_SELECTED_ROWS_H

#include "executor/kernels/layout.h"

/* Adds up rows of one index, in the order in which they stand: the result's rows are in rising order. How many these
 * are depends on the indices, and the result has room for as many rows as `x`: the rest are rows of zeros under the
 * last index, which add nothing. `out` may not be `x`. fp32 and fp64. */
void selected_rows_merge(const tensor *x, tensor *out, void *workspace);
size_t selected_rows_merge_nbytes(const tensor *x);
/* The result has the rows of `x`, where both have rows. */
void selected_rows_keep(const tensor *x, const tensor *out);

#endif
