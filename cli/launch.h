/* launch.h: a run in several processes: started by us, or by a launcher that started us. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cli/cli.h"
#include "weft/processes.h"
#include "weft/program.h"

/* Rows of an option table. */
#define LAUNCH_OPTIONS                                                                                                 \
    {"--collectives", 0, "HOW",                                                                                        \
     "of ranks in several processes: ordered (default) adds up in the order of ranks, to the bits of thread ranks;\n"  \
     "                               library: MPI's own sums, which may be faster and are not reproducible"},          \
        {"--launch", 0, NULL,                                                                                          \
         "ranks are processes that mpirun starts; WEFT_LAUNCH=mpi in the environment says the same"},                  \
        {"--processes", 0, "P", "of --launch: how many; default: one a rank. WEFT_LAUNCH=mpi:T: T ranks each"},        \
        {"--hosts", 0, "A:N,B:M", "of --launch: hosts, and how many processes on each; default: this one"}, {          \
        "--launch-agent", 0, "CMD", "of --launch: what starts a program on another host, in place of ssh"              \
    }

/* Whether this process is to start the run's processes; false too where a launcher has started it. Process 0 of
 * torchrun's does so with mpirun, for all. Sets *out_nprocesses; -1: after a usage error. */
bool launch_wanted(const cli_args *args, int nranks, int *out_nprocesses);
/* Whether torchrun has started this process, and process 0 starts the run's: this one has nothing to do. */
bool launch_is_elsewhere(void);
/* The program that is given as "-": the launcher keeps it for the processes that it starts, and they take it. */
WEFT_MUST_USE weft_status launch_keep_stdin(const cli_args *args, weft_program *const *programs);
void launch_take_stdin(void);
/* Of the options of a command: those that processes which were started do not get. */
bool launch_is_own_option(const char *name);
/* Starts them with this command line and waits for their end: the worst exit status. */
int launch(const cli_args *args, int nprocesses);

#endif
