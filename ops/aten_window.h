/* aten_window.h: windows of ATen's poolings over the last one to three dimensions, for inference and kernels. */
#ifndef OPS_ATEN_WINDOW_H
#define OPS_ATEN_WINDOW_H

#include "ops/ops.h"

enum { POOL_AXES = 3 };

/* Along one dimension; of an adaptive pooling only extent and count hold. */
typedef struct pool_axis {
    int64_t extent, count; /* elements, windows; -1: not known */
    int64_t size, stride, before, dilation;
} pool_axis;

typedef struct pool_windows {
    int naxes;
    pool_axis axis[POOL_AXES]; /* the last naxes hold; those before are of extent 1 */
} pool_windows;

/* The windows that attrs kernel_size, stride, padding, dilation and ceil_mode of `op` make over x (output_size of an
 * adaptive pooling). Returns what is wrong with them, or NULL. */
const char *op_pool_windows(const weft_op *op, const shape *x, pool_windows *out);

#endif
