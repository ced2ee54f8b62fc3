/* plan.c: how planning grows with the number of ops, and how much larger than what is live the planned arena is.
 *
 * usage: plan [OPS | PROGRAM ...]     default 1000 10000 100000. A number stands for a synthetic training program of so
 *                                     many ops. The smallest of three times counts.
 * CSV on stdout: program,ops,plan_seconds,arena_bytes,live_bytes,ratio. The arena holds temporaries, with padding to 64
 * bytes; live is the largest sum of their bytes, without padding, at any op. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "bench/synthetic.h"
#include "weft/plan.h"

enum { repeats = 3 };

static double now(void) { /* of this thread: others may load the machine */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status measure(weft_context *context, const char *what) {
    char *end;
    unsigned long nops = strtoul(what, &end, 10);
    weft_program *program = NULL;
    weft_status status =
        *end ? weft_program_load(context, what, NULL, &program) : synthetic_program(context, nops, 16, &program);
    double best = 1e9;
    weft_plan_summary s = {0};
    for (int i = 0; !status && i < repeats; i++) {
        weft_plan *plan = NULL;
        double start = now(), seconds;
        status = weft_plan_create(program, NULL, &plan);
        seconds = now() - start;
        if (seconds < best) best = seconds;
        if (!status) weft_plan_summarize(plan, &s);
        weft_plan_destroy(plan);
    }
    if (!status) {
        double ratio = s.live_nbytes ? (double)s.temporary_nbytes / (double)s.live_nbytes : 1;
        printf("%s,%zu,%.6f,%lld,%lld,%.4f\n", what, weft_program_nops(program), best, (long long)s.temporary_nbytes,
               (long long)s.live_nbytes, ratio);
        fflush(stdout);
    }
    weft_program_destroy(program);
    return status;
}

int main(int argc, char **argv) {
    static const char *const sizes[] = {"1000", "10000", "100000"};
    weft_context *context = NULL;
    weft_status status = weft_context_create(NULL, &context);
    int failed = status != NULL;
    if (!failed) printf("program,ops,plan_seconds,arena_bytes,live_bytes,ratio\n");
    for (int i = 0; context && i < (argc > 1 ? argc - 1 : 3); i++) {
        const char *what = argc > 1 ? argv[i + 1] : sizes[i];
        if (!(status = measure(context, what))) continue;
        fprintf(stderr, "plan: %s: %s\n", what, weft_status_message(status));
        weft_status_free(status);
        status = NULL;
        failed = 1;
    }
    if (status) fprintf(stderr, "plan: %s\n", weft_status_message(status));
    weft_status_free(status);
    weft_context_destroy(context);
    return failed;
}
