/* progress.c: step, loss, steps a second and the time that is left, at most ten times a second.
 *
 * Where results go to the same terminal, lines of both would overwrite one another: then none is shown. */
#include "cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) * 1e-9;
}

void progress_begin(progress *p, size_t first_step) {
    *p = (progress){.is_shown = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO), .first = first_step, .shown_seconds = -1};
    clock_gettime(CLOCK_MONOTONIC, &p->start);
}

/* "2 h 05 min", "3 min 20 s", "12 s" */
static void print_left(double seconds) {
    long whole = (long)ceil(seconds);
    if (whole >= 3600)
        fprintf(stderr, "  %ld h %02ld min left", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        fprintf(stderr, "  %ld min %02ld s left", whole / 60, whole % 60);
    else
        fprintf(stderr, "  %ld s left", whole);
}

void progress_step(progress *p, size_t step, size_t end, double loss) {
    bool is_last = step + 1 == end;
    if (!p->is_shown) return;
    double seconds = seconds_since(&p->start);
    if (!is_last && p->shown_seconds >= 0 && seconds - p->shown_seconds < 0.1) return;
    p->shown_seconds = seconds;
    double rate = (double)(step + 1 - p->first) / (seconds > 0 ? seconds : 1e-9);
    fprintf(stderr, "\r\033[Kstep %zu/%zu", step + 1, end);
    if (!isnan(loss)) fprintf(stderr, "  loss %.6g", loss);
    fprintf(stderr, "  %.3g steps/s", rate);
    print_left((double)(end - step - 1) / rate);
}

void progress_end(const progress *p) {
    if (p->is_shown && p->shown_seconds >= 0) fputs("\r\033[K", stderr);
}
