/* plugins.h: what is opened at run time. */
#ifndef EXECUTOR_PLUGINS_H
#define EXECUTOR_PLUGINS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is a plugin for MPI, and which MPI it is of; else why it cannot be used. */
bool plugin_mpi_describe(char *out, size_t nbytes);
/* The same of the plugin for CUDA: whether there is a device, and whether NCCL is there. */
bool plugin_cuda_describe(char *out, size_t nbytes);
bool plugin_nccl_describe(char *out, size_t nbytes);

#endif
