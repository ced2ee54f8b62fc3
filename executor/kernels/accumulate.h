/* accumulate.h: sums with double accumulators in a fixed order.
 *
 * Whatever the number of addends, an fp32 result is off by no more than its own rounding; and the order depends on
 * nothing but the shape, so that results repeat bit for bit. */
#ifndef EXECUTOR_KERNELS_ACCUMULATE_H
#define EXECUTOR_KERNELS_ACCUMULATE_H

#include "executor/kernels/loops.h"

/* Adds n elements of a float type to acc[0 .. n) where stride is 1, all to acc[0] where it is 0. */
void accumulate(weft_dtype dtype, int64_t n, const void *src, int64_t stride, double *acc);
/* acc[offsets of operand 1] += src[offsets of operand 0], over all of `l`. */
void accumulate_loops(const loops *l, weft_dtype dtype, const void *src, double *acc);
/* acc[i] += the sum of column i of `rows` rows, for i < n; rows are `row` elements apart and are taken in fours. fp32
 * and fp64 alone. */
void accumulate_columns(weft_dtype dtype, int64_t rows, int64_t row, int64_t n, const void *src, double *acc);
/* Sum of squares of n elements of a float type. */
double sum_of_squares(weft_dtype dtype, int64_t n, const void *src);
/* n elements of a float type as doubles, and back, each rounded once. */
void load_doubles(weft_dtype dtype, int64_t n, const void *src, double *dst);
void store_doubles(weft_dtype dtype, int64_t n, const double *src, void *dst);

#endif
