/* launcher.h: what launchers of processes say in the environment. */
#ifndef EXECUTOR_LAUNCHER_H
#define EXECUTOR_LAUNCHER_H

#include <stdbool.h>

/* Whether one of MPI's kind has started this process as one of several. */
bool launcher_has_started(void);
/* Which of its host's processes this one is, from 0 on; -1: no launcher says so. */
int launcher_local_index(void);

#endif
