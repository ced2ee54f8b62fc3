/* profile.h: where a step's time went, op by op, against what this machine could do at best. Shared by profile*.c and
 * the device, which measures the roofline; weft/executor.h is what users see. */
#ifndef EXECUTOR_PROFILE_H
#define EXECUTOR_PROFILE_H

#include "executor/executor.h"

/* What `nthreads` threads of this machine reach in loops that do nothing else. */
typedef struct roofline {
    int nthreads;
    double flops; /* fp32 fused multiply-adds a second, times 2 */
    /* Bytes a second, read and written, of arrays that have so many bytes together: half of level 2, four times level
     * 2, and more. All threads together. */
    size_t nbytes[3];
    double bandwidth[3];
} roofline;

/* Seconds that so much work takes at least: of arithmetic, or of moving bytes, whichever is longer. Bytes move as fast
 * as those of the largest arrays that are no larger. */
double roofline_floor(const roofline *c, double flops, double nbytes);

/* What an executor keeps with options.profile. The first of several steps warms up and is not counted. */
struct executor_profile {
    roofline roofline; /* measured for the first report */
    int64_t steps_ns;
    int64_t nsteps;
    int64_t samples[PROFILE_SAMPLES]; /* the last steps */
};
typedef struct executor_profile executor_profile;

/* --- the report: computed once, printed in several forms ---------------------------------------------------------- */

/* One instruction, or all of a type, or (instr NULL) a stream's time waiting for others; of the mean step of one rank.
 */
typedef struct profile_row {
    const char *type;
    const plan_instr *instr; /* rows of single instructions */
    const char *stream, *output;
    double calls; /* a step */
    double seconds, share, flops, nbytes;
    double median_seconds; /* of an instruction's last turns, the mean over ranks */
    double roofline;       /* the floor of the work in proportion to the time; 0 where nothing is counted */
    int64_t live_nbytes;
} profile_row;

/* Ranks that run equal plans. */
typedef struct profile_group {
    const weft_plan *plan; /* NULL: the first of these ranks is in another process, which prints the group */
    int first_rank, nranks;
    profile_row *ops, *types; /* in plan order; the most expensive first */
    size_t nops, ntypes;
    /* What a step takes besides its collectives, the median of the last steps. A collective lasts from the last rank's
     * start to the last rank's end. Negative: some collective does not run once in each step. */
    double rest_seconds;
    const plan_instr *peak; /* the first instruction at which most temporaries are live */
} profile_group;

typedef struct profile_report {
    int nranks;
    executor_profile profile;                 /* of rank 0's process */
    double step_seconds, median_step_seconds; /* the mean; the median of the last steps */
    profile_group *groups;                    /* of all processes, by their first ranks */
    size_t ngroups;
} profile_report;

/* By all processes. Everything lies in `scratch`. */
WEFT_MUST_USE weft_status profile_compute(const weft_executor *x, arena *scratch, profile_report *out_report);

/* What a step's collectives take, of ranks that all run one plan: the median of the last steps. By all processes. */
WEFT_MUST_USE weft_status profile_collective_seconds(const weft_executor *x, arena *scratch, double *out_seconds);

/* A form: a head, groups, a tail. Processes print their groups; the first one's head is taken. */
typedef struct profile_printer {
    void (*head)(const profile_report *r, buffer *out);
    void (*group)(const profile_report *r, const profile_group *g, size_t most_ops, buffer *out);
    const char *tail;
} profile_printer;
extern const profile_printer profile_text, profile_csv, profile_json; /* profile_text.c, profile_data.c */

#endif
