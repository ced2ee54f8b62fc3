/* epilogue.h: what follows a matrix product and may be done by it: a row that is added, and relu behind it.
 *
 * The last of these instructions launches the product, into its own result; what lies between has no other reader, and
 * is never made. */
#ifndef EXECUTOR_DEVICES_CUDA_EPILOGUE_H
#define EXECUTOR_DEVICES_CUDA_EPILOGUE_H

#include "executor/devices/cuda/launch.h"

/* Once all instructions are recorded, before memory for workspaces is taken. */
WEFT_MUST_USE weft_status cuda_epilogues(cuda_rank *r);

#endif
