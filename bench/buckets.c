/* buckets.c: the best buckets of gradients that are given by when they are ready and how large they are, and how long
 * finding them takes. bench/peers/buckets.py sets them beside PyTorch's.
 *
 * usage: buckets <PROBLEM        a line "ALPHA BYTES_PER_SECOND COMPUTE_SECONDS", then for each gradient, in order of
 *                                readiness, "READY_SECONDS BYTES"; a collective takes ALPHA and its bytes over the rate
 *        buckets GRADIENTS ...   drawn gradients: how time grows with their number
 * CSV on stdout: gradients,step_ns,bound_ns,buckets,milliseconds,sizes (gradients in each bucket, apart by ';'). The
 * least time of five counts. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/context.h"
#include "passes/bucket_plan.h"

enum { REPEATS = 5, MOST = 1000000 };

typedef struct given {
    bucket_item *items;
    size_t count;
    plan_curve curve;
    double compute_seconds;
} given;

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void set_link(given *g, double alpha, double bytes) {
    g->curve = (plan_curve){
        .times = 1, .parts = 1, .op_seconds = 0, .links = {{.seconds = alpha, .bytes = bytes}}, .nlinks = 1};
}

static void add(given *g, double ready, size_t nbytes) {
    g->items[g->count] = (bucket_item){.ready_ns = plan_ns(ready),
                                       .alone_ns = plan_curve_ns(&g->curve, (double)nbytes),
                                       .nbytes = nbytes,
                                       .padded = nbytes,
                                       .position = (uint32_t)g->count,
                                       .deadline = UINT32_MAX};
    g->count++;
}

static int solve(const given *g, bool with_sizes) {
    weft_context *context;
    arena scratch;
    bucket_answer answer = {0};
    bucket_kind kind = {&g->curve, 1, 1, 0};
    bucket_problem problem = {g->items, g->count, &kind, 1, plan_ns(g->compute_seconds), 0, NULL};
    double best = 1e30;
    weft_status status = weft_context_create(NULL, &context);
    for (int r = 0; r < REPEATS && !status; r++) {
        if (r) arena_fini(&scratch);
        arena_init(&scratch, &context->allocator);
        double start = now_seconds();
        status = bucket_plan_solve(&problem, &scratch, &answer);
        if (now_seconds() - start < best) best = now_seconds() - start;
    }
    if (status) {
        fprintf(stderr, "buckets: %s\n", weft_status_message(status));
        weft_status_free(status);
        return 1;
    }
    printf("%zu,%lld,%lld,%zu,%.3f,", g->count, (long long)answer.step_ns, (long long)answer.bound_ns, answer.nbuckets,
           1e3 * best);
    size_t size = 0;
    for (size_t i = 0; i < g->count && with_sizes; i++, size++) {
        if (i && answer.begins[i]) printf("%zu;", size), size = 0;
    }
    printf(with_sizes ? "%zu\n" : "\n", size);
    arena_fini(&scratch);
    weft_context_destroy(context);
    return 0;
}

static int read_problem(given *g) {
    double alpha, bytes, ready;
    size_t nbytes;
    if (scanf("%lf %lf %lf", &alpha, &bytes, &g->compute_seconds) != 3 || !(alpha >= 0) || !(bytes > 0)) {
        fprintf(stderr, "buckets: expected ALPHA BYTES_PER_SECOND COMPUTE_SECONDS\n");
        return 2;
    }
    set_link(g, alpha, bytes);
    while (g->count < MOST && scanf("%lf %zu", &ready, &nbytes) == 2) add(g, ready, nbytes);
    return solve(g, true);
}

/* Gradients of 1 KiB to 16 MiB, 20 us of compute each. */
static int draw_problem(given *g, size_t count) {
    unsigned long long state = 1;
    g->count = 0;
    set_link(g, 60e-6, 40e9);
    for (size_t i = 0; i < count && i < MOST; i++) {
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        add(g, 20e-6 * (double)(i + 1), 1024u << (state >> 40) % 15);
    }
    g->compute_seconds = 20e-6 * (double)count;
    return solve(g, false);
}

int main(int argc, char **argv) {
    given g = {.items = calloc(MOST, sizeof(bucket_item))};
    if (!g.items) return 1;
    printf("gradients,step_ns,bound_ns,buckets,milliseconds,sizes\n");
    int result = argc < 2 ? read_problem(&g) : 0;
    for (int i = 1; i < argc && !result; i++) result = draw_problem(&g, strtoul(argv[i], NULL, 10));
    free(g.items);
    return result;
}
