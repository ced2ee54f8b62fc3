/* interp3d.h: volumes resized, for ops that resize images too. */
#ifndef EXECUTOR_KERNELS_VOLUME_INTERP3D_H
#define EXECUTOR_KERNELS_VOLUME_INTERP3D_H

#include "executor/kernel.h"

extern const kernel kernel_interp3d, kernel_interp3d_grad;

#endif
