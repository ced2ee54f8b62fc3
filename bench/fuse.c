/* fuse.c: how the passes over traced backward graphs grow with the number of gradients.
 *
 * usage: fuse [GRADIENTS ...]     default 1000 10000 100000. Each size is measured three times; the least CPU time
 * counts. Per gradient an op of the chain, a division, an all_reduce, its wait and a copy into what the program keeps;
 * 256 KiB a gradient. bench/peers/fusion.py sets the numbers beside those of PyTorch's own passes.
 * CSV on stdout: gradients,pass,bucket_mb,collectives,cpu_seconds */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft/pass.h"

enum { repeats = 3, elements = 256 * 256 };

static const struct {
    const char *name, *list;
    double bucket_mb; /* 0: it has none */
} passes[] = {
    {"concat", "fuse_allreduce_buckets: {mode: concat, bucket_mb: 25}", 25},
    {"concat", "fuse_allreduce_buckets: {mode: concat, bucket_mb: 1}", 1},
    {"coalesced", "fuse_allreduce_buckets: {mode: coalesced, bucket_mb: 25}", 25},
    {"coalesced", "fuse_allreduce_buckets: {mode: coalesced, bucket_mb: 1}", 1},
    {"in_place", "fuse_allreduce_buckets: {mode: in_place, bucket_mb: 25}", 25},
    {"in_place", "fuse_allreduce_buckets: {mode: in_place, bucket_mb: 1}", 1},
    {"schedule_comm_wait", "schedule_comm_wait", 0},
    {"in_place, schedule_comm_wait", "fuse_allreduce_buckets: {mode: in_place, bucket_mb: 25}, schedule_comm_wait", 25},
};

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

static size_t count_reduces(const weft_program *p) {
    size_t count = 0;
    for (const weft_op *op = weft_block_first_op(weft_program_block(p, 0)); op; op = weft_op_next(op))
        count += strcmp(weft_op_type(op), "all_reduce") == 0 || strcmp(weft_op_type(op), "all_reduce_coalesced") == 0;
    return count;
}

static weft_status measure(weft_context *context, size_t count, const char *text, double *out, size_t *out_nreduces) {
    weft_program *p = NULL;
    weft_pass_list *list = NULL;
    weft_status status = make_program(context, count, &p);
    if (!status) status = weft_pass_list_parse(context, text, strlen(text), "bench", &list);
    double start = cpu_now();
    if (!status) status = weft_pass_list_run(list, p, NULL);
    *out = cpu_now() - start;
    if (!status) *out_nreduces = count_reduces(p);
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
    return status;
}

static weft_status measure_size(weft_context *context, size_t count) {
    weft_status status = NULL;
    for (size_t k = 0; !status && k < sizeof passes / sizeof *passes; k++) {
        double least = 1e9;
        size_t nreduces = 0;
        for (int i = 0; !status && i < repeats; i++) {
            double seconds;
            status = measure(context, count, passes[k].list, &seconds, &nreduces);
            if (seconds < least) least = seconds;
        }
        if (!status) printf("%zu,\"%s\",%g,%zu,%.6f\n", count, passes[k].name, passes[k].bucket_mb, nreduces, least);
        fflush(stdout);
    }
    return status;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000, 100000};
    weft_context *context;
    weft_status status = weft_context_create(NULL, &context);
    printf("gradients,pass,bucket_mb,collectives,cpu_seconds\n");
    for (int i = 0; !status && i < (argc > 1 ? argc - 1 : 3); i++)
        status = measure_size(context, argc > 1 ? strtoul(argv[i + 1], NULL, 10) : sizes[i]);
    if (status) fprintf(stderr, "fuse: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    return result;
}
