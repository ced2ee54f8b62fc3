/* micro.c: how long micro_pipeline_tp takes on programs of many pairs.
 *
 * usage: micro [PAIRS ...]     default 1000 10000. Each is measured three times; the least counts.
 * Layers of a gather with its product and a product with its scatter, as tensor parallelism makes them. CSV on stdout:
 * pairs,form,ranks,ops,made,seconds: ops before and in rank 0's program after, seconds of the processor for the pass
 * list over one rank's program (the pass and the checks behind it, no proof). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/pass.h"
#include "weft/program.h"

enum { repeats = 3, rows = 64, hidden = 32 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void write_vars(FILE *to, size_t nlayers, int nranks) {
    fprintf(to, "    y0: {float32: [%d, %d]}\n", rows, hidden);
    for (size_t i = 0; i < nlayers; i++) {
        fprintf(to, "    g%zu: {float32: [%d, %d]}\n    h%zu: {float32: [%d, %d]}\n", i, rows * nranks, hidden, i,
                rows * nranks, hidden);
        fprintf(to, "    a%zu: {float32: [%d, %d]}\n    p%zu: {float32: [%d, %d]}\n", i, rows * nranks, hidden, i,
                rows * nranks, hidden);
        fprintf(to, "    u%zu: {float32: [%d, %d], persistable: true}\n", i, hidden, hidden);
        fprintf(to, "    w%zu: {float32: [%d, %d], persistable: true}\n", i, hidden, hidden);
        fprintf(to, "    y%zu: {float32: [%d, %d]}\n", i + 1, rows, hidden);
    }
}

static void write_ops(FILE *to, size_t nlayers) {
    for (size_t i = 0; i < nlayers; i++) {
        fprintf(to, "  - {c_allgather: {X: [y%zu]}, out: {Out: [g%zu]}, attrs: {ring_id: 0, use_calc_stream: true}}\n",
                i, i);
        fprintf(to, "  - {matmul_v2: {X: [g%zu], \"Y\": [u%zu]}, out: {Out: [h%zu]}, attrs: {}}\n", i, i, i);
        fprintf(to, "  - {relu: {X: [h%zu]}, out: {Out: [a%zu]}, attrs: {}}\n", i, i);
        fprintf(to, "  - {matmul_v2: {X: [a%zu], \"Y\": [w%zu]}, out: {Out: [p%zu]}, attrs: {}}\n", i, i, i);
        fprintf(to,
                "  - {c_reducescatter: {X: [p%zu]}, out: {Out: [y%zu]}, attrs: {ring_id: 0, use_calc_stream: true}}\n",
                i, i + 1);
    }
}

static weft_status make_program(weft_context *context, size_t npairs, int nranks, weft_program **out) {
    char *bytes = NULL;
    size_t nbytes = 0;
    FILE *to = open_memstream(&bytes, &nbytes);
    if (!to) return weft_status_create(WEFT_OUT_OF_MEMORY, "bench", "no memory");
    fprintf(to, "weft: 1\nrings:\n  0: [");
    for (int i = 0; i < nranks; i++) fprintf(to, "%s%d", i ? ", " : "", i);
    fprintf(to, "]\nblocks:\n- idx: 0\n  vars:\n");
    write_vars(to, npairs / 2, nranks);
    fprintf(to, "  ops:\n");
    write_ops(to, npairs / 2);
    fclose(to);
    weft_status status = weft_program_parse(context, WEFT_FORM_YAML, bytes, nbytes, NULL, 0, "bench", out);
    free(bytes);
    return status;
}

/* --- measuring ---------------------------------------------------------------------------------------------------- */

static weft_status run_once(const weft_pass_list *list, const weft_program *before, double *least, size_t *made) {
    weft_program *program = NULL;
    weft_report *report = NULL;
    weft_status status = weft_program_clone(before, &program);
    double start = now();
    if (!status) status = weft_pass_list_run_rank(list, program, 0, &report);
    double seconds = now() - start;
    if (*least == 0 || seconds < *least) *least = seconds;
    *made = weft_program_nops(program);
    weft_report_destroy(report);
    weft_program_destroy(program);
    return status;
}

static weft_status measure(weft_context *context, size_t npairs, const char *form, int nranks) {
    char text[128];
    weft_pass_list *list = NULL;
    weft_program *before = NULL;
    double least = 0;
    size_t made = 0;
    snprintf(text, sizeof text, "prove: off\npasses:\n  - micro_pipeline_tp: {guard: off, form: %s}\n", form);
    weft_status status = weft_pass_list_parse(context, text, strlen(text), "bench", &list);
    if (!status) status = make_program(context, npairs, nranks, &before);
    for (int i = 0; i < repeats && !status; i++) status = run_once(list, before, &least, &made);
    if (!status) printf("%zu,%s,%d,%zu,%zu,%.6f\n", npairs, form, nranks, weft_program_nops(before), made, least);
    fflush(stdout);
    weft_program_destroy(before);
    weft_pass_list_destroy(list);
    return status;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000};
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    printf("pairs,form,ranks,ops,made,seconds\n");
    for (int i = 0; !status && i < (argc > 1 ? argc - 1 : 2); i++) {
        size_t npairs = argc > 1 ? strtoul(argv[i + 1], NULL, 10) : sizes[i];
        status = measure(context, npairs, "fused", 8);
        if (!status) status = measure(context, npairs, "chunks", 2);
        if (!status) status = measure(context, npairs, "chunks", 8);
    }
    if (status) fprintf(stderr, "micro: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    return result;
}
