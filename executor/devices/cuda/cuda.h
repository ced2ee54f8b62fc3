/* cuda.h: GPUs of NVIDIA as a device, and the form that a plan has on it. Part of the plugin weft_cuda.so.
 *
 * The idea: a thread of the host for each rank issues its instructions in the order of the plan, to a CUDA stream for
 * each stream of the plan. The plan's waits become events. What has a kernel here (launch.h) is launched; arguments of
 * what has none are copied to pinned memory. The CPU's kernel then runs as a function of the stream on the host, and
 * results are copied back. Collectives of engine nccl go to the streams. The host waits for nothing but the end of the
 * step, and guards. */
#ifndef EXECUTOR_DEVICES_CUDA_CUDA_H
#define EXECUTOR_DEVICES_CUDA_CUDA_H

#include <pthread.h>

#include "executor/devices/cuda/kernels/kernels.h"
#include "executor/devices/cuda/library.h"
#include "executor/devices/plugin.h"

extern const device_services *services;
extern const device_engine device_cuda;

typedef struct cuda_device {
    device head;
    int ngpus;                  /* that the ranks of this host take */
    int *gpus;                  /* by rank: which one it has */
    bool is_shared;             /* all ranks are on the first GPU, and engine loopback joins their streams */
    double rings_gb_per_second; /* of that engine; 0: as fast as it goes */
    pthread_mutex_t lock;       /* of what follows */
    cudaStream_t *copies;       /* by GPU: of what is copied between steps; NULL: nobody has used the GPU yet */
    bool is_for_nccl;           /* its memory is, where NCCL gives some; the blocks that it gave */
    struct nccl_block *nccl_blocks;
    cudaLibrary_t library;
    cudaKernel_t kernels[CUDA_KERNELS];
} cuda_device;

static inline int cuda_gpu_of(const cuda_device *d, int64_t rank) {
    return d->is_shared ? 0 : d->gpus[rank];
}
/* The ranks of a host take its GPUs in turn. Before any memory of the rank; runs of one device agree on it. */
static inline void cuda_take_gpu(cuda_device *d, int rank, int64_t turn) {
    int gpu = (int)(turn % d->ngpus);
    if (d->gpus[rank] != gpu) d->gpus[rank] = gpu;
}

/* Bytes of the device and where the stream's scratch has them. */
typedef struct cuda_move {
    unsigned char *back;
    size_t offset, nbytes;
} cuda_move;

/* One of the parts of a kernel that communicates. */
typedef struct cuda_round {
    struct cuda_command *command;
    int number;
} cuda_round;

typedef struct cuda_command {
    device_instr *of;
    struct cuda_lane *lane;
    size_t position, index;       /* on its stream, in the plan */
    const struct cuda_op *op;     /* NULL: the host's kernel runs */
    const struct half_view *half; /* what it sees of half types that it does not know; NULL: there are none */
    const char *range;            /* its name (ranges.h) */
    const char *why_host;         /* then; "" for collectives on streams */
    bool is_away;                 /* another launches for it */
    struct cuda_group *group;     /* what it launches for others, or */
    struct cuda_command *product; /* whose launch it is part of (epilogue.h) */
    kernel_call on_device;        /* arguments and workspace in the device's memory */
    device_call made;             /* the host's kernel, on the scratch */
    cuda_move *in, *out;
    size_t nin, nout;
    bool is_enqueued;                 /* a collective on the stream */
    const struct nccl_config *config; /* how NCCL is to run it; NULL: as it likes */
    device_memory workspace;
    cuda_round *rounds; /* one more than there are requests */
    const void *guards[2];
    cudaEvent_t ended;              /* where another stream waits for it */
    cudaEvent_t began_at, ended_at; /* with times; of runs that are timed */
    bool has_run;
    int64_t watch_ns;
} cuda_command;

/* One stream of one rank. */
typedef struct cuda_lane {
    struct cuda_rank *rank;
    const stream_state *state;
    cudaStream_t stream;
    cuda_command *commands;
    size_t scratch_nbytes, host_nbytes, device_nbytes; /* of what follows; its workspaces */
    unsigned char *scratch, *host_workspace, *device_workspace;
    cudaEvent_t end, joined; /* joined: before stream 0 goes on alone (graph.h) */
    _Atomic size_t position;
} cuda_lane;

/* One rank, and the thread of the host that issues its instructions. */
typedef struct cuda_rank {
    struct cuda_run *run;
    const rank_state *state;
    cuda_lane *lanes;
    unsigned char *guard_bytes; /* pinned: 2 */
    cudaEvent_t guards_read;
    cudaEvent_t began_at;
    int64_t began_ns;
    struct cuda_segment *segments; /* NULL: the step is issued instruction by instruction */
    size_t nsegments;
    size_t segment_first;        /* of the one at hand: what comes before it is ordered by its begin */
    bool is_capturing, is_graph; /* the step at hand */
    size_t first_owner;          /* where the rank's instructions begin among those of all ranks (graph_check.c) */
    uint64_t nsteps;
    int64_t waited_ns; /* for the end of the last step */
    cudaEvent_t forked;
    bool draws;                          /* some kernel draws random numbers */
    unsigned long long *step, *own_step; /* pinned, and the device's: the number of the step */
    void *handle;                        /* of launch.h's cuda_op.open; NULL: no op needs one */
    void (*close_handle)(void *handle);
    pthread_t issuer;
    bool has_issuer;
} cuda_rank;

typedef struct cuda_run {
    device_run head;
    cuda_rank *ranks;
    int nranks;
    size_t nbytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t nsubmitted; /* steps */
    int nrunning;        /* ranks in the last one */
    bool stopping;
    struct cuda_joint *joint; /* joint.h: steps of all ranks are one graph; NULL: they are not */
    /* Then: a command waits, since that time, for what other ranks issue. */
    weft_status (*let_others)(const struct cuda_command *c, int64_t start_ns);
} cuda_run;

static inline cuda_run *cuda_run_of(device_run *head) {
    return (cuda_run *)(void *)head;
}
static inline cuda_device *cuda_device_of(device *d) {
    return (cuda_device *)(void *)d;
}
static inline bool cuda_is_aborted(const cuda_run *run) {
    return comm_world_aborted(run->head.executor->world);
}

/* memory.c. Makes a rank's GPU the thread's, and ready for kernels. */
WEFT_MUST_USE weft_status cuda_use(cuda_device *d, int rank);
WEFT_MUST_USE weft_status cuda_alloc(device *d, int rank, device_space space, size_t nbytes, device_memory *out);
void cuda_free(device *d, device_memory *m);
WEFT_MUST_USE weft_status cuda_copy_in(device *d, int rank, void *to, const void *from, size_t nbytes);
WEFT_MUST_USE weft_status cuda_copy_out(device *d, int rank, void *to, const void *from, size_t nbytes);

/* record.c */
WEFT_MUST_USE weft_status cuda_record(device_run *head, rank_state *rank);
void cuda_discard_rank(cuda_rank *r);

/* host.c: kernels that run on the host, as functions of the stream */
WEFT_MUST_USE weft_status cuda_host_record(arena *a, cuda_lane *l, cuda_command *c);
/* Once the lane's scratch is there. */
WEFT_MUST_USE weft_status cuda_host_aim(arena *a, const cuda_lane *l, cuda_command *c);
/* `round` NULL: all that the kernel does. */
WEFT_MUST_USE weft_status cuda_host_issue(cuda_command *c, const cuda_round *round);

/* step.c: the thread that issues a rank's steps */
void *cuda_issue_steps(void *rank);
/* issue.c. Instruction i of the plan. What goes wrong ends the run. */
void cuda_issue(cuda_rank *r, size_t i);
/* NULL: nothing is wrong. */
void cuda_fail(const cuda_rank *r, const plan_instr *instr, weft_status status);
/* In a loop that waits since then. The first part of a wait burns time, since steps may be short. */
void cuda_pause_since(int64_t start_ns);

#endif
