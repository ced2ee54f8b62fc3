/* all.cu: every kernel, as one image: nvcc takes long to start. */
#include "executor/devices/cuda/kernels/unary.cu"
