/* attrs.h: what launchers look at while they prepare. The CPU's kernel has prepared before, so that attrs and shapes
 * are good. */
#ifndef EXECUTOR_DEVICES_CUDA_ATTRS_H
#define EXECUTOR_DEVICES_CUDA_ATTRS_H

#include "executor/devices/cuda/kernels/args.h"
#include "executor/kernel.h"

/* False: kernels for GPUs know no such elements. */
bool element_type_of(weft_dtype dtype, element_type *out);
/* Refuses anything but dense fp32 arguments; integers are the launcher's to look at. */
WEFT_MUST_USE weft_status cuda_require_fp32(const kernel_prepare *p);
/* Takes fp16 and bf16 too, if no argument is of another real type. `out_type` is an element_type, ELEMENT_FP32 if none
 * is. */
WEFT_MUST_USE weft_status cuda_require_real(const kernel_prepare *p, int *out_type);
/* Slots of `in` and `out`, a bit each, have elements of that type; all others are fp32. */
WEFT_MUST_USE weft_status cuda_require_own_real(const kernel_prepare *p, unsigned in, unsigned out, int *out_type);
/* The element_type of a dense tensor of reals; ELEMENT_FP32 if there is none. */
WEFT_MUST_USE weft_status cuda_take_real(const tensor *t, int *out_type);
/* The host computes it, because of so much. */
WEFT_MUST_USE weft_status cuda_refuse(const char *format, ...) WEFT_PRINTF(1, 2);

#endif
