/* epilogue.h: what cuBLASLt does along with a matrix product. Behind it that is a row that is added, relu or gelu, and
 * in the backward pass the gradients of these. Along with a gradient of weights it is that of the row: a sum over its
 * factor.
 *
 * The first of these instructions launches the product, and the others nothing. None of them waits for another stream,
 * so that all are ready when the first is. What lies between and has no other reader is never made. */
#ifndef EXECUTOR_DEVICES_CUDA_EPILOGUE_H
#define EXECUTOR_DEVICES_CUDA_EPILOGUE_H

#include "executor/devices/cuda/launch.h"

/* Once all instructions are recorded, before memory for workspaces is taken. */
WEFT_MUST_USE weft_status cuda_epilogues(cuda_rank *r);

#endif
