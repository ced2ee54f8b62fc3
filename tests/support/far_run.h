/* far_run.h: the form that a plan has on the far device, shared by far_record.c, which makes it, and far_device.c, which
 * launches it. */
#ifndef TESTS_SUPPORT_FAR_RUN_H
#define TESTS_SUPPORT_FAR_RUN_H

#include <pthread.h>

#include "executor/devices/call.h"
#include "tests/support/far_device.h"
#include "tests/support/far_memory.h"
#include "tests/support/far_stream.h"

/* Bytes of the device and where the stream's scratch has them. */
typedef struct far_move {
    unsigned char *back;
    size_t offset, nbytes;
} far_move;

/* One of the parts of a kernel that communicates. */
typedef struct far_round {
    struct far_command *command;
    int number;
} far_round;

typedef struct far_command {
    device_instr *of;
    struct far_lane *lane;
    size_t position;
    device_call made;               /* on the scratch */
    const unsigned char *guards[2]; /* in the second mapping; NULL: none */
    far_move *in, *out;
    size_t nin, nout;
    /* Of a collective that goes on the stream: */
    bool is_enqueued;
    kernel_call on_device; /* arguments and workspace in the device's memory: what the ring is asked of */
    device_memory workspace;
    far_round *rounds; /* one more than there are requests */
    bool has_begun;
    int64_t watch_ns;
} far_command;

/* One stream of one rank. */
typedef struct far_lane {
    struct far_run *run;
    const stream_state *state;
    struct far_lane *of_rank;
    far_stream *stream;
    far_command *commands;
    size_t scratch_nbytes, workspace_nbytes;
    unsigned char *scratch, *workspace;
    size_t nset; /* events set in this step, under the run's lock */
    _Atomic size_t position;
    trace_event *events;
} far_lane;

/* One rank, and the thread of the host that launches its instructions. */
typedef struct far_rank {
    struct far_run *run;
    const rank_state *state;
    far_lane *lanes;
    pthread_t launcher;
    bool has_launcher;
} far_rank;

typedef struct far_run {
    device_run head;
    far_rank *ranks;
    int nranks;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t nsubmitted; /* steps */
    int nrunning;        /* streams in the last one */
    bool stopping;
} far_run;

static inline far_run *far_run_of(device_run *head) {
    return (far_run *)(void *)head;
}

WEFT_MUST_USE weft_status far_record(device_run *head, rank_state *rank);

#endif
