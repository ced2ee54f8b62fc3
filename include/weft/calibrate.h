/* weft/calibrate.h: measures this machine as a cluster for models of time (weft/cluster.h). */
#ifndef WEFT_CALIBRATE_H
#define WEFT_CALIBRATE_H

#include "weft/cluster.h"
#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_calibrate_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_CALIBRATE_OPTIONS_INIT */
    int nranks;           /* 1 or more: threads of this process, but for `host` */
    /* Of one rank. Its matrix products and convolutions are measured, where their shapes are known, and the larger
     * sides of its collectives belong to the sizes. NULL: products of 64, 128 and 256 rows and columns. */
    const weft_program *program;
    size_t most_nbytes; /* of a collective; 0: 16 MiB */
    int nsteps;         /* of which each number is the median; 0: 15 */
    int nthreads;       /* intra-op threads a stream may use; 0: 1 */
    /* Of weft_processes_host: ranks are those of several processes, each of which calls weft_calibrate at the same
     * time, with equal options; all get the same cluster. NULL: this one has all of them. Borrowed. */
    const struct comm_host *host;
} weft_calibrate_options;
#define WEFT_CALIBRATE_OPTIONS_INIT .struct_nbytes = sizeof(weft_calibrate_options)

/* Runs small programs on the ranks: what one rank computes and moves a second while all do, what an op takes beside
 * that; all-reduce, all-gather, reduce-scatter and broadcast over sizes from 1 KiB on; how much slower compute and a
 * collective are beside one another. Each number is the median over steps and ranks. Takes seconds, in which nothing
 * else should run. */
WEFT_MUST_USE weft_status weft_calibrate(weft_context *context, const weft_calibrate_options *options,
                                         weft_cluster *out_cluster);

#ifdef __cplusplus
}
#endif
#endif
