/* all.cu: every kernel, as one image: nvcc takes long to start. */
#include "executor/devices/cuda/kernels/batch.cu"
#include "executor/devices/cuda/kernels/optimizer.cu"
#include "executor/devices/cuda/kernels/pool.cu"
#include "executor/devices/cuda/kernels/rows.cu"
#include "executor/devices/cuda/kernels/simple.cu"
#include "executor/devices/cuda/kernels/strided.cu"
#include "executor/devices/cuda/kernels/table.cu"
#include "executor/devices/cuda/kernels/unary.cu"
