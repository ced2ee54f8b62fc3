/* run_parts.h: what the files of `weft run` share. */
#ifndef CLI_RUN_PARTS_H
#define CLI_RUN_PARTS_H

#include "cli/session.h"
#include "weft/processes.h"
#include "weft/trainer.h"

/* Recorded losses to compare with (--expect). */
typedef struct expectation {
    weft_tensors *file;
    const weft_tensor *losses; /* NULL: nothing to compare with */
    double tolerance, worst;
} expectation;

WEFT_MUST_USE weft_status expectation_init(expectation *e, const cli_args *args);
void expectation_fini(expectation *e);
/* Prints a step's loss (the mean over ranks) beside the recorded one. */
void expectation_compare(expectation *e, size_t step, double loss);
/* Whether every loss was within the tolerance; says so. */
bool expectation_held(const expectation *e);

/* Where a run begins: --startup and --load. Later: where it ended. */
typedef struct run_state {
    weft_program **startups;
    size_t nstartups;
    weft_tensors **tensors; /* what --load read: one set, or one a rank */
    size_t ntensors;
    int64_t step, seed; /* of the next step; of random ops */
} run_state;

/* Reads --startup and --load, and from the latter the step and the seed, if it has them. */
WEFT_MUST_USE weft_status run_state_load(run_state *s, cli_session *in);
void run_state_fini(run_state *s);
/* Puts the step and the seed into what will be saved. */
WEFT_MUST_USE weft_status run_state_mark(const run_state *s, weft_tensors *set);

/* --- run.c -------------------------------------------------------------------------------------------------------- */

int run_command(cli_args *args);

/* --- run_options.c: false after printing a usage error ------------------------------------------------------------ */

/* "S[:F]" into seconds, 0 where nothing is given. */
bool run_read_watchdog(const cli_args *args, double *out_least, double *out_first);
/* "ENGINE[:GB]"; empty and 0 where nothing is given. */
typedef struct run_rings {
    char engine[20];
    double gb_per_second;
} run_rings;
bool run_read_rings(const cli_args *args, run_rings *out);
/* Alone it is of every step. */
bool run_read_check_finite(const cli_args *args, long long *out);
/* --collectives. */
bool run_read_collectives(const cli_args *args, weft_collectives *out);
/* --device, and options that make no sense on it. */
bool run_read_device(const cli_args *args, bool *out_simulates);

/* --- run_outputs.c ------------------------------------------------------------------------------------------------ */

/* False after printing a usage error: a name that says no form, an option that needs another. */
bool output_names_are_good(const cli_args *args);
/* Whether all files can be written. */
WEFT_MUST_USE weft_status check_outputs(const cli_args *args, int nranks);

/* --- run_stop.c --------------------------------------------------------------------------------------------------- */

/* A handler for a signal; SIGHUP stays ignored where whoever started us had it so, as nohup does. */
void stop_catch(int number, void (*handler)(int));
/* From now on SIGINT, SIGTERM and SIGHUP ask for the end of the run; the second one ends it at once. */
void stop_watch(bool is_launched, bool speaks);
int stop_asked(void); /* the first one's number; 0: none */
const char *stop_name(void);
void stop_hold(bool writes); /* a file is being written: the second one waits for its end */

/* --- run_save.c --------------------------------------------------------------------------------------------------- */

/* Writes --save, with the state that the run is in: this process's ranks, and if it speaks for all, what is of all
 * ranks. And every --trace. Every process takes part in each. */
WEFT_MUST_USE weft_status save_results(const cli_args *args, const weft_trainer *trainer, const run_state *end,
                                       weft_program *const *programs, bool speaks, bool is_last);
WEFT_MUST_USE weft_status save_traces(const cli_args *args, const weft_trainer *trainer, bool writes);

/* --- run_replan.c ------------------------------------------------------------------------------------------------- */

typedef struct replan {
    long long nsteps;    /* that are measured; 0: it is not asked for */
    const char *cluster; /* a file; NULL: the machine is calibrated */
} replan;

/* A program with other buckets, and what was measured and is predicted of a step. */
typedef struct replanned {
    weft_program *program; /* the caller's */
    size_t ncollectives;   /* before */
    double measured_seconds, predicted_seconds, bound_seconds;
} replanned;

bool replan_read(const cli_args *args, replan *out); /* false after printing a usage error */
/* Of a run that is profiled, whose program stays as it is. Where ranks are in several processes `host` has them, and
 * every process calls this. */
WEFT_MUST_USE weft_status replan_program(const cli_session *in, const replan *how, const weft_trainer *trainer,
                                         const struct comm_host *host, replanned *out);

/* run_profile.c: every --profile. */
WEFT_MUST_USE weft_status save_profiles(const cli_args *args, const weft_trainer *trainer, bool writes);

#endif
