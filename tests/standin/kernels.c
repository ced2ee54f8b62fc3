#include "tests/standin/kernels.h"

#include "executor/devices/cuda/kernels/all.cu"

const standin_kernel standin_kernels[] = {
#define KERNEL(name) {#name, standin_##name, &standin_##name##_nbytes},
#include "executor/devices/cuda/kernels/kernels.def"
#undef KERNEL
    {NULL, NULL, NULL},
};

/* It is no kernel, and what it reads nobody watches. */
__attribute__((no_sanitize("thread"))) long long standin_kernel_ns(const standin_kernel *k, const void *args) {
    return k->run == standin_loop_delay ? ((const loop_delay_args *)args)->ns : -1;
}
