/* cuda_standin.h: the plugin for CUDA on stand-ins for its libraries, in this process. */
#ifndef TESTS_SUPPORT_CUDA_STANDIN_H
#define TESTS_SUPPORT_CUDA_STANDIN_H

#include "executor/device.h"

/* Opens them from the folder of the test's variant; before anything else asks for the device. NULL: the plugin is not
 * built here, and the test is skipped. */
const device_engine *cuda_standin_open(void);
/* The same for a process that opens them when it runs something: false: skipped. */
bool cuda_standin_prepare(void);
/* WEFT_TEST_GPU is set (tools/check_gpu.sh): the plugin opens what it finds, the libraries of CUDA and not those. Then
 * nothing can be made to fail, and what takes a GPU for each rank is left out. */
bool cuda_standin_is_left_out(void);
/* In what order streams run from now on; of a GPU: as it likes. */
void cuda_standin_seed(unsigned seed);

/* How often a kernel was launched, or captured, so far. */
int cuda_standin_launches(const char *which);

/* How much memory communicators have registered so far, as windows or for a member alone. */
int cuda_standin_registered(bool is_window);

/* A library of the stand-ins, once they are open; never closed. NULL: there is none. */
void *cuda_standin_library(const char *file);

/* What a process says that runs `work(arg)` and then ends with 0, and how it ends. */
int cuda_standin_listen(void (*work)(void *), void *arg, char *said, size_t nbytes);

#endif
