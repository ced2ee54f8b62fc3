/* kernels.h: the kernels of executor/devices/cuda/kernels/, compiled for the host. */
#ifndef TESTS_STANDIN_KERNELS_H
#define TESTS_STANDIN_KERNELS_H

#include <stddef.h>

enum { STANDIN_THREADS = 256 }; /* of a block: what they are written for */

typedef struct standin_kernel {
    const char *name;
    void (*run)(const void *args); /* the whole grid */
    const size_t *nbytes;          /* of its arguments */
} standin_kernel;

extern const standin_kernel standin_kernels[]; /* ends with a row without a name */

/* Of a kernel that says how long it takes: nanoseconds; else -1. */
long long standin_kernel_ns(const standin_kernel *k, const void *args);

#endif
