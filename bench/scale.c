/* scale.c: how load, the data-parallel pass list and save grow with the number of ops.
 *
 * usage: scale [--prove] [OPS ...]     default 1000 10000 100000. Each size is measured three times; the median counts.
 *        --prove: each pass is proved to keep what the program computes, and passes_seconds is with that
 *        scale --write OPS FILE     writes the serial program of that size, for others to be measured on
 * CSV on stdout: ops,load_seconds,passes_seconds,save_seconds */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/synthetic.h"
#include "weft/pass.h"

enum { repeats = 3 };

static const char pass_list[] = "passes: [data_parallel: {ranks: 8}, prune_grad_scale, overlap_comm, coalesce_grads, "
                                "insert_dependencies]";

typedef struct timing {
    double load, passes, save;
} timing;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status measure(weft_context *context, const char *bytes, size_t nbytes, weft_prove prove, timing *out) {
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    char *saved = NULL;
    size_t nsaved = 0;
    double start = now();
    weft_status status = weft_program_parse(context, WEFT_FORM_PDMODEL, bytes, nbytes, NULL, 0, "synthetic", &program);
    double loaded = now();
    if (!status) status = weft_pass_list_parse(context, pass_list, strlen(pass_list), "bench", &list);
    if (!status) weft_pass_list_set_prove(list, prove);
    if (!status) status = weft_pass_list_run(list, program, NULL);
    double passed = now();
    if (!status) status = weft_program_print(program, WEFT_FORM_PDMODEL, &saved, &nsaved);
    *out = (timing){loaded - start, passed - loaded, now() - passed};
    weft_bytes_free(context, saved, nsaved);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *values) {
    double sorted[repeats];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, repeats, sizeof *sorted, by_value);
    return sorted[repeats / 2];
}

static weft_status measure_size(weft_context *context, size_t nops, weft_prove prove) {
    weft_program *program = NULL;
    char *bytes = NULL;
    size_t nbytes = 0;
    double load[repeats], passes[repeats], save[repeats];
    weft_status status = synthetic_program(context, nops, 16, &program);
    if (!status) status = weft_program_print(program, WEFT_FORM_PDMODEL, &bytes, &nbytes);
    size_t actual = program ? weft_program_nops(program) : 0;
    weft_program_destroy(program);
    for (int i = 0; !status && i < repeats; i++) {
        timing t;
        status = measure(context, bytes, nbytes, prove, &t);
        load[i] = t.load, passes[i] = t.passes, save[i] = t.save;
    }
    if (!status) {
        printf("%zu,%.6f,%.6f,%.6f\n", actual, median(load), median(passes), median(save));
        fflush(stdout);
    }
    weft_bytes_free(context, bytes, nbytes);
    return status;
}

static weft_status write_program(weft_context *context, size_t nops, const char *path) {
    weft_program *program = NULL;
    weft_status status = synthetic_program(context, nops, 16, &program);
    if (!status) status = weft_program_save(program, path);
    weft_program_destroy(program);
    return status;
}

static weft_status measure_sizes(weft_context *context, int count, char **given, weft_prove prove) {
    static const size_t sizes[] = {1000, 10000, 100000};
    weft_status status = NULL;
    printf("ops,load_seconds,passes_seconds,save_seconds\n");
    for (int i = 0; !status && i < (count ? count : 3); i++)
        status = measure_size(context, count ? strtoul(given[i], NULL, 10) : sizes[i], prove);
    return status;
}

int main(int argc, char **argv) {
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    if (!status && argc == 4 && strcmp(argv[1], "--write") == 0)
        status = write_program(context, strtoul(argv[2], NULL, 10), argv[3]);
    else if (!status && argc > 1 && strcmp(argv[1], "--prove") == 0)
        status = measure_sizes(context, argc - 2, argv + 2, WEFT_PROVE_REQUIRE);
    else if (!status)
        status = measure_sizes(context, argc - 1, argv + 1, WEFT_PROVE_OFF);
    if (status) fprintf(stderr, "scale: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    return result;
}
