/* spmd.c: how long spmd_propagate and spmd_partition take on a mesh of 8 x 8 x 16 ranks.
 *
 * usage: spmd [OPS ...]     default 1000 10000 100000. Each size is measured three times; the median counts.
 * The programs are those of synthetic.h over sequences, as Megatron has them: the batch is sharded over dp, sequences
 * over sp, weights over mp, by columns and by rows in turn. Then the same behind a lookup in a table whose rows are
 * sharded over mp, plus a row for each place of a sequence: attrs of these ops say where a rank stands along sp and mp.
 * CSV on stdout: ops,made,propagate_seconds,partition_seconds,cpu_seconds,all_ranks_seconds,programs,behind_seconds,
 * behind_programs. "made" counts the ops of a rank's program. The processor's seconds are those of both passes and of
 * what the pass list does besides. "programs" is how often they ran for all ranks. "behind": the same with the passes
 * of configs/spmd.yaml behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/synthetic.h"
#include "weft/pass.h"
#include "weft/placement.h"

enum { repeats = 3, dp = 8, sp = 8, mp = 16, nranks = dp * sp * mp, batch = 64, length = 512, width = 1024 };

static const char pass_list[] = "prove: off\npasses: [spmd_propagate, spmd_partition]";
static const char behind_list[] =
    "prove: off\npasses: [spmd_propagate, spmd_partition, prune_grad_scale, overlap_comm, "
    "coalesce_grads, insert_dependencies]";

static double now(clockid_t of) {
    struct timespec t;
    clock_gettime(of, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static weft_status place(weft_program *program, const weft_mesh *mesh, const char *name, size_t ndim,
                         const int64_t *mapping) {
    weft_var *var = weft_block_find_var(weft_program_block(program, 0), name);
    return weft_var_set_placement(var, &(weft_placement){.mesh = *mesh, .ndim = ndim, .dims_mapping = mapping});
}

/* Puts an op in front of all. */
static weft_status put_first(weft_program *program, const char *type, const char *const slots[2], weft_var *a,
                             weft_var *b, weft_var *made) {
    weft_block *block = weft_program_block(program, 0);
    weft_op *op = NULL;
    weft_status status = weft_op_create(program, type, &op);
    if (!status) status = weft_op_add_input(op, slots[0], a);
    if (!status) status = weft_op_add_input(op, slots[1], b);
    if (!status) status = weft_op_add_output(op, "Out", made);
    if (!status) weft_block_insert_before(block, weft_block_first_op(block), op);
    return status;
}

/* x_0 is what a table has for ids, and a row for each place of the sequence besides. */
static weft_status look_up(weft_program *program, const weft_mesh *mesh) {
    static const int64_t table_dims[] = {32768, width}, place_dims[] = {length, width}, id_dims[] = {batch, length};
    static const int64_t found_dims[] = {batch, length, width}, by_rows[] = {2, -1}, whole[] = {-1, -1},
                         by_ids[] = {0, 1};
    weft_block *block = weft_program_block(program, 0);
    weft_var *table = NULL, *places = NULL, *ids = NULL, *found = NULL, *x = weft_block_find_var(block, "x_0");
    weft_status status = weft_block_add_var(block, "table", WEFT_FP32, 2, table_dims, &table);
    if (!status) status = weft_block_add_var(block, "places", WEFT_FP32, 2, place_dims, &places);
    if (!status) status = weft_block_add_var(block, "ids", WEFT_INT64, 2, id_dims, &ids);
    if (!status) status = weft_block_add_var(block, "found", WEFT_FP32, 3, found_dims, &found);
    if (status) return status;
    weft_var_set_persistable(table, true, true);
    weft_var_set_persistable(places, true, true);
    status = put_first(program, "elementwise_add", (const char *const[]){"X", "Y"}, found, places, x);
    if (!status) status = put_first(program, "lookup_table_v2", (const char *const[]){"W", "Ids"}, table, ids, found);
    if (!status) status = place(program, mesh, "table", 2, by_rows);
    if (!status) status = place(program, mesh, "places", 2, whole);
    return status ? status : place(program, mesh, "ids", 2, by_ids);
}

static weft_status annotate(weft_program *program, bool looks_up) {
    static const int64_t shape[] = {dp, sp, mp}, input[] = {0, 1, -1}, weights[2][2] = {{-1, 2}, {2, -1}};
    static const char *const names[] = {"dp", "sp", "mp"};
    static int64_t ids[nranks];
    for (int i = 0; i < nranks; i++) ids[i] = i;
    const weft_mesh mesh = {3, shape, ids, names};
    weft_status status = looks_up ? look_up(program, &mesh) : place(program, &mesh, "x_0", 3, input);
    char name[32] = "w_0";
    for (int i = 0; !status && weft_block_find_var(weft_program_block(program, 0), name); i++) {
        status = place(program, &mesh, name, 2, weights[i % 2]);
        snprintf(name, sizeof name, "w_%d", i + 1);
    }
    return status;
}

typedef struct timing {
    double propagate, partition, cpu, all, behind;
    size_t made, programs, behind_programs;
} timing;

static weft_status measure_one(const weft_pass_list *list, const weft_program *serial, timing *out) {
    weft_program *program = NULL;
    weft_report *report = NULL;
    weft_status status = weft_program_clone(serial, &program);
    double start = now(CLOCK_PROCESS_CPUTIME_ID);
    if (!status) status = weft_pass_list_run_rank(list, program, 0, &report);
    out->cpu = now(CLOCK_PROCESS_CPUTIME_ID) - start;
    if (!status) {
        out->made = weft_program_nops(program);
        out->propagate = weft_report_seconds(report, 0);
        out->partition = weft_report_seconds(report, 1);
    }
    weft_report_destroy(report);
    weft_program_destroy(program);
    return status;
}

static weft_status measure_all(const weft_pass_list *list, const weft_program *serial, double *out_seconds,
                               size_t *out_programs) {
    weft_rank_programs *made = NULL;
    double start = now(CLOCK_MONOTONIC);
    weft_status status = weft_pass_list_run_ranks(list, serial, &made, NULL);
    *out_seconds = now(CLOCK_MONOTONIC) - start;
    if (!status) *out_programs = weft_rank_programs_made(made);
    weft_rank_programs_destroy(made);
    return status;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double a, double b, double c) {
    double sorted[repeats] = {a, b, c};
    qsort(sorted, repeats, sizeof *sorted, by_value);
    return sorted[repeats / 2];
}

static weft_status measure_size(weft_context *context, const weft_pass_list *list, const weft_pass_list *behind,
                                size_t nops, bool looks_up) {
    weft_program *program = NULL;
    timing t[repeats];
    weft_status status = synthetic_sequences(context, nops, length, width, &program);
    if (!status) status = annotate(program, looks_up);
    for (int i = 0; !status && i < repeats; i++) {
        status = measure_one(list, program, &t[i]);
        if (!status) status = measure_all(list, program, &t[i].all, &t[i].programs);
        if (!status) status = measure_all(behind, program, &t[i].behind, &t[i].behind_programs);
    }
#define MEDIAN(of) median(t[0].of, t[1].of, t[2].of)
    if (!status)
        printf("%zu,%zu,%.6f,%.6f,%.6f,%.6f,%zu,%.6f,%zu\n", weft_program_nops(program), t[0].made, MEDIAN(propagate),
               MEDIAN(partition), MEDIAN(cpu), MEDIAN(all), t[0].programs, MEDIAN(behind), t[0].behind_programs);
    fflush(stdout);
    weft_program_destroy(program);
    return status;
}

int main(int argc, char **argv) {
    static const size_t sizes[] = {1000, 10000, 100000};
    weft_context *context;
    weft_pass_list *list = NULL, *behind = NULL;
    weft_status status = weft_context_create(NULL, &context);
    if (!status) status = weft_pass_list_parse(context, pass_list, strlen(pass_list), "bench", &list);
    if (!status) status = weft_pass_list_parse(context, behind_list, strlen(behind_list), "bench", &behind);
    printf("ops,made,propagate_seconds,partition_seconds,cpu_seconds,all_ranks_seconds,programs,"
           "behind_seconds,behind_programs\n");
    int n = argc > 1 ? argc - 1 : 3;
    for (int i = 0; !status && i < 2 * n; i++)
        status =
            measure_size(context, list, behind, argc > 1 ? strtoul(argv[i % n + 1], NULL, 10) : sizes[i % n], i >= n);
    if (status) fprintf(stderr, "spmd: %s: %s\n", weft_status_place(status), weft_status_message(status));
    int result = status != NULL;
    weft_status_free(status);
    weft_pass_list_destroy(behind);
    weft_pass_list_destroy(list);
    return result;
}
