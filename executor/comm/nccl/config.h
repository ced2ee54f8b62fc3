/* config.h: what an op of the plan says of how NCCL runs its collective. */
#ifndef EXECUTOR_COMM_NCCL_CONFIG_H
#define EXECUTOR_COMM_NCCL_CONFIG_H

#include "executor/devices/cuda/cuda.h"

/* ncclCollConfig_t as it is from NCCL 2.31 on; later members come behind it. */
typedef struct nccl_config {
    size_t nbytes;
    unsigned magic, version;
    void *extension;
    int least_ctas, most_ctas, nvls_ctas, cluster;
    const char *algorithms; /* names, apart by commas; NULL: NCCL chooses */
    int is_forced;          /* 0: NCCL chooses where it has none of them */
    int policy;
    uint64_t tag; /* for profilers: the number of the op, from 1 on */
} nccl_config;

/* By attrs of the op: nccl_algorithm, a string; nccl_ctas, the most that it takes; nccl_policy, 0 to 3. *out_config
 * NULL: it has none of them. */
WEFT_MUST_USE weft_status nccl_config_make(arena *a, const plan_instr *instr, const nccl_config **out_config);
/* A hash of what all members must say; NULL: 0. */
uint64_t nccl_config_word(const nccl_config *config);

#endif
