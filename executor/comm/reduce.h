/* reduce.h: arithmetic of collectives: one block of one tensor, summed over the members of a ring. */
#ifndef EXECUTOR_COMM_REDUCE_H
#define EXECUTOR_COMM_REDUCE_H

#include "base/base.h"
#include "weft/types.h"

/* Members hand over tensors in blocks of this many bytes: two fit in an L1 cache beside the accumulator. */
enum { REDUCE_BLOCK_NBYTES = 8192 };

/* Room for the running values of one block: twice its bytes, because 16-bit floats are added up in 32 bits. */
typedef union reduce_block {
    _Alignas(64) unsigned char bytes[2 * REDUCE_BLOCK_NBYTES];
    float floats[2 * REDUCE_BLOCK_NBYTES / sizeof(float)];
    double doubles[2 * REDUCE_BLOCK_NBYTES / sizeof(double)];
    int64_t ints[2 * REDUCE_BLOCK_NBYTES / sizeof(int64_t)];
} reduce_block;

/* Whether elements of `dtype` can be reduced so. */
bool reduce_supports(weft_dtype dtype, weft_reduce reduce);

/* Whether running values take more bytes than elements: 16-bit floats, which are added up in 32 bits. */
bool reduce_widens(weft_dtype dtype);

/* block = reduce over i of srcs[i][0 .. count), from srcs[0] to srcs[nsrcs - 1] in that order, in the dtype of the
 * tensor. At most REDUCE_BLOCK_NBYTES of elements. Sources are read only. Where `dtype` is not widened nothing behind
 * the elements is written: the block may be the result's own place, if no source lies there. */
void reduce_sources(weft_dtype dtype, weft_reduce reduce, const void *const *srcs, int nsrcs, size_t count,
                    reduce_block *block);

const char *reduce_name(weft_reduce reduce); /* "sum", "max", ... */

#endif
