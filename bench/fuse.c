/* fuse.c: how fuse_allreduce_buckets grows with the number of gradients, in each of its modes.
 *
 * usage: fuse [GRADIENTS ...]     default 1000 10000 100000. Each size is measured three times; the least CPU time
 * counts. A traced backward graph: per gradient an op of the chain, a division, an all_reduce, its wait and a copy into
 * what the program keeps; 1 KiB a gradient, buckets of 1 MiB. CSV on stdout: gradients,mode,buckets,pass_seconds */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/pass.h"

enum { repeats = 3, elements = 256 };

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status add_var(weft_block *b, const char *stem, size_t i, weft_var **out) {
    char n[48];
    int64_t dims[] = {elements};
    snprintf(n, sizeof n, "%s_%zu", stem, i);
    return weft_block_add_var(b, n, WEFT_FP32, 1, dims, out);
}

static weft_status add_op(weft_program *p, const char *type, const char *in, weft_var *x, const char *out, weft_var *y,
                          weft_op **made) {
    weft_op *op = NULL;
    weft_status status = weft_op_create(p, type, &op);
    if (!status) status = weft_op_add_input(op, in, x);
    if (!status) status = weft_op_add_output(op, out, y);
    if (!status) weft_block_insert_before(weft_program_block(p, 0), NULL, op);
    *made = op;
    return status;
}

static weft_status add_gradient(weft_program *p, size_t i, weft_var **chain) {
    weft_block *b = weft_program_block(p, 0);
    weft_var *next = NULL, *mean = NULL, *reduced = NULL, *done = NULL, *kept = NULL;
    weft_op *op = NULL;
    weft_status status = add_var(b, "a", i, &next);
    if (!status) status = add_var(b, "div", i, &mean);
    if (!status) status = add_var(b, "all_reduce", i, &reduced);
    if (!status) status = add_var(b, "wait_tensor", i, &done);
    if (!status) status = add_var(b, "grad", i, &kept);
    if (!status) weft_var_set_persistable(kept, true, false);
    if (!status) status = add_op(p, "relu", "X", *chain, "Out", next, &op);
    if (!status) status = add_op(p, "aten_div_scalar", "self", next, "out", mean, &op);
    if (!status) status = weft_op_set_attr_float(op, "other", 2.0);
    if (!status) status = add_op(p, "all_reduce", "x", mean, "out", reduced, &op);
    if (!status) status = weft_op_set_attr_bool(op, "async_op", true);
    if (!status) status = add_op(p, "wait_tensor", "X", reduced, "Out", done, &op);
    if (!status) status = add_op(p, "aten_copy_", "src", done, "self_out", kept, &op);
    if (!status) status = weft_op_add_input(op, "self", kept);
    *chain = next;
    return status;
}

static weft_status make_program(weft_context *context, size_t count, weft_program **out) {
    weft_program *p = NULL;
    weft_var *chain = NULL;
    weft_status status = weft_program_create(context, &p);
    if (!status) status = add_var(weft_program_block(p, 0), "x", 0, &chain);
    for (size_t i = 0; !status && i < count; i++) status = add_gradient(p, i, &chain);
    if (status) weft_program_destroy(p);
    *out = status ? NULL : p;
    return status;
}

static weft_status measure(weft_context *context, size_t count, const char *mode, double *out, long long *nbuckets) {
    char text[128];
    weft_program *p = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    weft_status status = make_program(context, count, &p);
    snprintf(text, sizeof text, "fuse_allreduce_buckets: {mode: %s, bucket_mb: 1}", mode);
    if (!status) status = weft_pass_list_parse(context, text, strlen(text), "bench", &list);
    double start = cpu_now();
    if (!status) status = weft_pass_list_run(list, p, &report);
    *out = cpu_now() - start;
    if (report) *nbuckets = weft_report_count(report, 0, "buckets");
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
    return status;
}

static weft_status measure_size(weft_context *context, size_t count) {
    static const char *const modes[] = {"concat", "coalesced", "in_place"};
    weft_status status = NULL;
    for (size_t m = 0; !status && m < sizeof modes / sizeof *modes; m++) {
        double least = 1e9;
        long long nbuckets = 0;
        for (int i = 0; !status && i < repeats; i++) {
            double seconds;
            status = measure(context, count, modes[m], &seconds, &nbuckets);
            if (seconds < least) least = seconds;
        }
        if (!status) printf("%zu,%s,%lld,%.6f\n", count, modes[m], nbuckets, least);
        fflush(stdout);
    }
    return status;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000, 100000};
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    printf("gradients,mode,buckets,pass_seconds\n");
    for (int i = 0; !status && i < (argc > 1 ? argc - 1 : 3); i++)
        status = measure_size(context, argc > 1 ? strtoul(argv[i + 1], NULL, 10) : sizes[i]);
    if (status) fprintf(stderr, "fuse: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    return result;
}
