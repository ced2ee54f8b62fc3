/* info.c: weft info: what this build can do, or what is in a program. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "weft/info.h"
#include "weft/program.h"

static int print_build(void) {
    printf("%s\n", weft_version());
    for (size_t i = 0; i < weft_feature_count(); i++) {
        weft_feature f = weft_feature_at(i);
        printf("%-8s %-3s  %s\n", f.name, f.found ? "yes" : "no", f.detail);
    }
    return EXIT_DONE;
}

typedef struct type_count {
    const char *type;
    size_t count;
} type_count;

static int by_count(const void *a, const void *b) {
    const type_count *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->type, y->type);
}

static int by_type(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Counts of equal strings, most frequent first, in place of the sorted array. */
static void print_types(const char **types, size_t n) {
    type_count *counts = calloc(n ? n : 1, sizeof *counts);
    size_t ncounts = 0;
    if (!counts) return;
    qsort(types, n, sizeof *types, by_type);
    for (size_t i = 0; i < n; i++) {
        if (ncounts == 0 || strcmp(counts[ncounts - 1].type, types[i]) != 0) counts[ncounts++].type = types[i];
        counts[ncounts - 1].count++;
    }
    qsort(counts, ncounts, sizeof *counts, by_count);
    for (size_t i = 0; i < ncounts; i++) printf("  %6zu  %s\n", counts[i].count, counts[i].type);
    free(counts);
}

typedef struct tally {
    size_t forward, backward, optimize, other, collectives;
} tally;

static void count_op(tally *t, const weft_op *op) {
    int role = weft_op_role(op);
    if (role & WEFT_ROLE_OPTIMIZE)
        t->optimize++;
    else if (role & WEFT_ROLE_BACKWARD)
        t->backward++;
    else if (role == WEFT_ROLE_FORWARD || role == WEFT_ROLE_LOSS)
        t->forward++;
    else
        t->other++;
    if (weft_op_attr_int(op, "ring_id", -1) >= 0) t->collectives++;
}

static void count_vars(const weft_program *program, size_t *out_vars, size_t *out_persistable, double *out_nbytes) {
    for (size_t b = 0; b < weft_program_nblocks(program); b++) {
        const weft_block *block = weft_program_block(program, b);
        for (size_t i = 0; i < weft_block_nvars(block); i++) {
            const weft_var *v = weft_block_var_at(block, i);
            ++*out_vars;
            if (!weft_var_persistable(v)) continue;
            ++*out_persistable;
            double numel = 1;
            for (size_t d = 0; d < weft_var_ndim(v); d++) numel *= (double)weft_var_dims(v)[d];
            if (weft_var_kind_of(v) == WEFT_DENSE_TENSOR)
                *out_nbytes += numel * (double)weft_dtype_nbytes(weft_var_dtype(v));
        }
    }
}

static int print_program(const weft_program *program) {
    size_t nops = weft_program_nops(program), n = 0, nvars = 0, npersistable = 0;
    const char **types = calloc(nops ? nops : 1, sizeof *types);
    if (!types) return fprintf(stderr, "weft info: out of memory\n"), EXIT_WORK_FAILED;
    tally t = {0};
    double nbytes = 0;
    for (size_t b = 0; b < weft_program_nblocks(program); b++)
        for (const weft_op *op = weft_block_first_op(weft_program_block(program, b)); op; op = weft_op_next(op)) {
            types[n++] = weft_op_type(op);
            count_op(&t, op);
        }
    count_vars(program, &nvars, &npersistable, &nbytes);
    char size[32];
    printf("blocks       %zu\n", weft_program_nblocks(program));
    printf("ops          %zu (forward %zu, backward %zu, optimize %zu, other %zu)\n", nops, t.forward, t.backward,
           t.optimize, t.other);
    printf("collectives  %zu\n", t.collectives);
    printf("vars         %zu, %zu persistable, %s\n", nvars, npersistable, cli_bytes(nbytes, size, sizeof size));
    if (weft_program_rank(program) >= 0) printf("rank         %lld\n", (long long)weft_program_rank(program));
    printf("op types\n");
    print_types(types, n);
    free(types);
    return EXIT_DONE;
}

static int run(cli_args *args) {
    if (args->npositional == 0) return print_build();
    weft_program *program;
    weft_status status = weft_program_load(args->context, args->positional[0], NULL, &program);
    if (status) return cli_fail(args, status);
    int result = print_program(program);
    weft_program_destroy(program);
    return result;
}

const cli_command command_info = {
    .name = "info",
    .arguments = "[PROGRAM]",
    .summary = "Says what this build can do, or what is in a program.",
    .max_positional = 1,
    .example = "weft info serial.pdmodel",
    .run = run,
};
