/* chain.c: what the executor adds to an op: a step of a chain of scales of one element, which has next to nothing else.
 *
 * usage: chain [OPS [STEPS]]     default 2000 2000. CSV on stdout: ops,steps,min_ns_per_op,median_ns_per_op
 * The step of one op is taken off, so that starting and joining a step does not count as an op's. */
#include <stdio.h>
#include <stdlib.h>

#include "weft/executor.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* x = scale(...scale(x)). */
static weft_status chain_program(weft_context *context, long nops, weft_program **out_program) {
    const int64_t dims[] = {1};
    weft_program *p = NULL;
    weft_var *from = NULL, *to = NULL;
    weft_status status = weft_program_create(context, &p);
    weft_block *block = status ? NULL : weft_program_block(p, 0);
    if (!status) status = weft_block_add_var(block, "v0", WEFT_FP32, 1, dims, &from);
    for (long i = 1; !status && i <= nops; i++) {
        char n[32];
        weft_op *op;
        snprintf(n, sizeof n, "v%ld", i);
        status = weft_block_add_var(block, n, WEFT_FP32, 1, dims, &to);
        if (!status) status = weft_op_create(p, "scale", &op);
        if (!status) status = weft_op_add_input(op, "X", from);
        if (!status) status = weft_op_add_output(op, "Out", to);
        if (!status) status = weft_op_set_attr_float(op, "scale", 1.0F);
        if (!status) weft_block_insert_before(block, NULL, op);
        from = to;
    }
    if (status)
        weft_program_destroy(p);
    else
        *out_program = p;
    return status;
}

/* Seconds of each of `nsteps` steps, sorted. */
static weft_status measure(weft_context *context, long nops, long nsteps, double *seconds) {
    weft_program *program = NULL;
    weft_plan *plan = NULL;
    weft_executor *executor = NULL;
    weft_status status = chain_program(context, nops, &program);
    if (!status) status = weft_plan_create(program, NULL, &plan);
    const weft_plan *plans[] = {plan};
    if (!status) status = weft_executor_create(context, plans, 1, 1, NULL, &executor);
    for (long i = 0; !status && i < nsteps; i++) {
        status = weft_executor_run(executor);
        seconds[i] = weft_executor_step_seconds(executor);
    }
    qsort(seconds, (size_t)nsteps, sizeof *seconds, by_value);
    weft_executor_destroy(executor);
    weft_plan_destroy(plan);
    weft_program_destroy(program);
    return status;
}

int main(int argc, char **argv) {
    long nops = argc > 1 ? atol(argv[1]) : 2000, nsteps = argc > 2 ? atol(argv[2]) : 2000;
    if (nops < 2 || nsteps < 1) {
        fputs("usage: chain [OPS [STEPS]]\n", stderr);
        return 2;
    }
    weft_context *context = NULL;
    double *one = calloc((size_t)nsteps, sizeof *one), *all = calloc((size_t)nsteps, sizeof *all);
    weft_status status = weft_context_create(NULL, &context);
    if (!status && one && all) status = measure(context, 1, nsteps, one);
    if (!status && one && all) status = measure(context, nops, nsteps, all);
    if (!status && one && all) {
        double per_op = 1e9 / (double)(nops - 1);
        printf("ops,steps,min_ns_per_op,median_ns_per_op\n%ld,%ld,%.2f,%.2f\n", nops, nsteps,
               (all[0] - one[0]) * per_op, (all[nsteps / 2] - one[nsteps / 2]) * per_op);
    }
    if (status) fprintf(stderr, "chain: %s\n", weft_status_message(status));
    int result = status != NULL || !one || !all;
    weft_status_free(status);
    weft_context_destroy(context);
    free(one);
    free(all);
    return result;
}
