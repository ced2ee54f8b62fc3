/* library.h: libraries of the toolkit, opened at run time. */
#ifndef EXECUTOR_DEVICES_CUDA_LIBRARY_H
#define EXECUTOR_DEVICES_CUDA_LIBRARY_H

#include <cuda_runtime_api.h>

#include "base/base.h"

/* The CUDA runtime: cuda.Malloc is cudaMalloc. Filled in by cuda_probe. */
typedef struct cuda_runtime {
#define CALL(name) __typeof__(&cuda##name) name;
#include "executor/devices/cuda/runtime.def"
#undef CALL
} cuda_runtime;
extern cuda_runtime cuda;

/* Whether there is a device; else why not. */
bool cuda_probe(int *out_ndevices, char *why, size_t nbytes);
/* What a call returned. It is not left as the thread's last error, where others who check their launches would find it:
 * whoever trains by us may launch kernels in the same thread. */
cudaError_t cuda_result(cudaError_t result);
/* Makes it the GPU of the thread, whose status nobody hears: what is called next on another says so. */
void cuda_turn_to(int gpu);
/* Of an event: cudaErrorNotReady where it is not done. */
cudaError_t cuda_query(cudaEvent_t event);
/* A status for a result that is not 0. */
WEFT_MUST_USE weft_status cuda_check(cudaError_t result, const char *call);
#define CUDA_TRY(call, ...) TRY(cuda_check(cuda.call(__VA_ARGS__), "cuda" #call))

/* Opens the first of the libraries `names`, which ends with NULL: in the folder WEFT_CUDA_PATH where that is set, else
 * where the system looks, and in the toolkit's own folder. */
void *library_open(const char *const *names, char *why, size_t nbytes);
typedef void library_symbol_fn(void);
/* A function of it; NULL: it lacks it. */
library_symbol_fn *library_symbol(void *library, const char *function);

#endif
