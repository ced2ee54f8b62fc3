/* weft/null_device.h: the null device of an executor: it executes nothing, and plays plans on virtual clocks.
 *
 * With weft_executor_options.device WEFT_DEVICE_NULL an executor allocates no tensors and starts no threads. It needs
 * no parameters and no feeds (weft_executor_set is refused, weft_executor_get gives no data), and a run is one step as
 * it would go if every instruction took what `rates` say of it. Conditions count as true. Step time, overlap and
 * timelines are those of weft/executor.h, in virtual time, which begins at 0 and goes on from step to step. The same
 * input gives the same output to the bit.
 *
 * A run in which ranks would wait for ever fails, and says who waits for whom. */
#ifndef WEFT_NULL_DEVICE_H
#define WEFT_NULL_DEVICE_H

#include "weft/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How long things take. 0 means the default, that of a nominal accelerator. */
typedef struct weft_rates {
    double flops;        /* a second, on one stream; default 1e14 */
    double bytes;        /* a second, read or written by one stream; default 2e12 */
    double op_seconds;   /* what an instruction takes beside that; default 2e-6 */
    double link_bytes;   /* a second, that a member of a ring sends to the next one; default 5e10 */
    double link_seconds; /* what each such message takes beside that; default 5e-6 */
} weft_rates;

/* A rank that dies just before op number `op_index` of block 0, in the first step. */
typedef struct weft_fault {
    int rank; /* -1: all */
    int64_t op_index;
} weft_fault;

typedef struct weft_null_options {
    weft_rates rates;
    const weft_fault *faults; /* borrowed, like delays */
    size_t nfaults;
} weft_null_options;

/* One side of a race. Names are borrowed from the plan. Seconds are those of the virtual clock. */
typedef struct weft_seen_access {
    const char *type; /* of the op */
    int64_t op_index;
    const char *stream, *value;
    bool is_write;
    double start_seconds, end_seconds;
} weft_seen_access;

/* Two accesses to the same bytes of one rank, one of them a write, of which the one that comes later in the program
 * began before the other one had ended. Rank and step are those that showed it first. */
typedef struct weft_seen_race {
    int rank;
    uint64_t step;
    size_t count;                   /* so often in all: by ranks that share the plan, and steps */
    weft_seen_access first, second; /* in program order */
} weft_seen_race;

/* Races that the steps so far have shown: for each access that came too early, the one that it most ran into. None on
 * another device. */
size_t weft_executor_nraces(const weft_executor *executor);
/* The race at `index` < weft_executor_nraces. */
void weft_executor_race_at(const weft_executor *executor, size_t index, weft_seen_race *out_race);

#ifdef __cplusplus
}
#endif
#endif
