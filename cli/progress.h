/* progress.h: a line on the terminal while steps run. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

typedef struct progress {
    bool is_shown; /* stderr is a terminal, and results do not go to one */
    size_t first;  /* step */
    struct timespec start;
    double shown_seconds; /* when the line was written last, since the start */
} progress;

void progress_begin(progress *p, size_t first_step);
/* `step` of those before `end` is done; `loss` may be NAN. */
void progress_step(progress *p, size_t step, size_t end, double loss);
void progress_end(const progress *p); /* the line goes */

#endif
