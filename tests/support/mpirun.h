/* mpirun.h: a test starts itself in several processes. */
#ifndef TESTS_SUPPORT_MPIRUN_H
#define TESTS_SUPPORT_MPIRUN_H

#include <stdbool.h>

/* Whether there is a plugin for MPI beside the test's variant, and an mpirun. */
bool mpirun_exists(void);

/* This program with `arguments` in `nprocs` processes; shows what they print but for their lines "N passed, M failed",
 * which it adds up. The exit status of mpirun. */
int mpirun_self(int nprocs, const char *arguments, _Atomic int *passed, _Atomic int *failed);

#endif
