/* reduce.h: which elements of a reduced tensor belong to those of the whole. */
#ifndef EXECUTOR_KERNELS_REDUCE_REDUCE_H
#define EXECUTOR_KERNELS_REDUCE_REDUCE_H

#include "executor/kernels/loops.h"
#include "executor/kernels/typed.h"

/* prepare: loops over x's dims; operand 0 is x, operand 1 the result, stride 0 where it is reduced. Reduced are the
 * dimensions in `attr`, all of them if it is empty or reduce_all is set; NULL reduces everything. */
WEFT_MUST_USE weft_status reduce_loops(const kernel_prepare *p, const char *attr, const tensor *x, const tensor *result,
                                       loops *out);

/* prepare: loops over the dimensions of x that stay, and over those in the attr `dim` of ATen's reduces, all of them if
 * it is empty; operand 0 of both is x. */
WEFT_MUST_USE weft_status reduce_dims(const kernel_prepare *p, const tensor *x, loops *out_kept, loops *out_gone);

#endif
