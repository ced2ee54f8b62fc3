/* library.h: NCCL, opened at run time. */
#ifndef EXECUTOR_COMM_NCCL_LIBRARY_H
#define EXECUTOR_COMM_NCCL_LIBRARY_H

#include <nccl.h>

#include "base/base.h"

struct nccl_config;

/* nccl.AllReduce is ncclAllReduce. Filled in by nccl_open; what is optional may be NULL. Its types stand here, since
 * the header that Weft is built with may be older than the library. */
typedef struct nccl_library {
#define CALL(name) __typeof__(&nccl##name) name;
#define OPTIONAL(name, type) __typeof__(type) name;
#include "executor/comm/nccl/nccl.def"
#undef OPTIONAL
#undef CALL
} nccl_library;
extern nccl_library nccl;

/* Opens NCCL, once a process. false: *out_why, which nobody frees, says why it cannot be used. */
bool nccl_open(const char **out_why);
/* Which version it is; else why it cannot be used. */
bool nccl_describe(char *out, size_t nbytes);

#endif
