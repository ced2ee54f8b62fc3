/* volume.h: windows over up to three spatial dimensions. */
#ifndef EXECUTOR_KERNELS_VOLUME_VOLUME_H
#define EXECUTOR_KERNELS_VOLUME_VOLUME_H

#include "executor/kernels/layout.h"

enum { AXES = 3 };

/* Element (n, c, z, y, x) is at n * image + c * channel + z * axis[0] + y * axis[1] + x * axis[2]. With fewer than
 * three spatial dimensions the first ones have extent 1. */
typedef struct volume {
    int64_t count, channels, extent[AXES];
    int64_t image, channel, axis[AXES], positions;
} volume;

typedef struct windows {
    volume in, out; /* what windows lie in; a place for each window */
    int64_t size[AXES], stride[AXES], before[AXES], dilation[AXES];
    int64_t taps;
} windows;

/* prepare: reads the layout of a tensor; channels come last, or behind the batch; what data_format says of that. */
WEFT_MUST_USE weft_status volume_layout(const kernel_prepare *p, const tensor *t, bool channels_last, volume *out);
WEFT_MUST_USE weft_status volume_prepare(const kernel_prepare *p, const tensor *t, volume *out);
/* prepare: strides, paddings, padding_algorithm and dilations; in, out and size are set. */
WEFT_MUST_USE weft_status windows_prepare(const kernel_prepare *p, windows *w);

#endif
