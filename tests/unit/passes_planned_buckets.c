/* passes_planned_buckets.c: coalesce_grads with bucket_mb: auto: what it predicts is what a simulation of its program
 * gives, to the nanosecond; no fixed size ends the step earlier; the program computes what it did. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/fixtures.h"
#include "tests/support/folder.h"
#include "tests/support/must.h"
#include "weft/pass.h"
#include "weft/simulate.h"

static weft_context *context;
static char cluster_path[FOLDER_PATH_ROOM];

static void set_up(void) {
    must(weft_context_create(NULL, &context));
    folder_begin();
    snprintf(cluster_path, sizeof cluster_path, "%s", in_folder("cluster.yaml"));
}
static void tear_down(void) {
    weft_context_destroy(context);
    folder_end();
}
TestSuite(passes_planned_buckets, .init = set_up, .fini = tear_down);

/* From links that hide all to links that hide nothing; two levels, of which rings of more than two ranks use both. */
static const char *const clusters[] = {
    "{flops_per_second: 1.0e+14, bytes_per_second: 2.0e+12, seconds_per_op: 2.0e-6, links: [{bytes_per_second: "
    "1.0e+11, "
    "seconds_per_message: 2.0e-7}]}",
    "{flops_per_second: 1.0e+12, bytes_per_second: 1.0e+11, seconds_per_op: 1.0e-6, links: [{bytes_per_second: 1.0e+9, "
    "seconds_per_message: 1.0e-6}]}",
    "{flops_per_second: 1.0e+11, bytes_per_second: 2.0e+10, seconds_per_op: 1.0e-7, links: [{bytes_per_second: 1.0e+8, "
    "seconds_per_message: 1.0e-5}]}",
    "{flops_per_second: 1.0e+13, bytes_per_second: 1.0e+12, seconds_per_op: 1.0e-6, links: [{ranks: 2, "
    "bytes_per_second: 3.0e+10, seconds_per_message: 1.0e-6}, {bytes_per_second: 7.0e+9, seconds_per_message: "
    "3.0e-6}]}",
    /* Measured collectives; NCCL's model. */
    "{flops_per_second: 1.0e+11, bytes_per_second: 2.0e+10, collectives: [{op: all_reduce, ranks: 2, bytes: [1024, "
    "65536, "
    "1048576, 16777216], seconds: [3.0e-6, 2.0e-5, 6.0e-4, 1.1e-2]}]}",
    "{machine: h100, flops_per_second: 1.0e+14, links: [{ranks: 2, bytes_per_second: 3.7e+11}, {bytes_per_second: "
    "5.0e+10}]}",
    /* Compute and collectives that slow one another down. */
    "{flops_per_second: 1.0e+11, bytes_per_second: 2.0e+10, compute_beside_collective: 1.3, collective_beside_compute: "
    "2.1, links: [{bytes_per_second: 1.0e+9, seconds_per_message: 1.0e-5}]}",
};
enum { NCLUSTERS = sizeof clusters / sizeof *clusters };

typedef struct played {
    int64_t step_ns, exposed_ns;
} played;

static void simulate(const weft_program *p, int nranks, played *out) {
    weft_cluster cluster;
    weft_plan *plan;
    weft_simulation *simulation;
    weft_rank_times times;
    must(weft_cluster_load(context, cluster_path, &cluster));
    must(weft_plan_create(p, NULL, &plan));
    weft_simulation_options options = {WEFT_SIMULATION_OPTIONS_INIT, .cluster = &cluster, .trace_steps = 1};
    must(weft_simulation_create(context, (const weft_plan *const *)&plan, 1, nranks, &options, &simulation));
    must(weft_simulation_run(simulation));
    must(weft_simulation_rank_times(simulation, 0, &times));
    out->step_ns = llround(1e9 * weft_simulation_step_seconds(simulation));
    out->exposed_ns = llround(1e9 * times.exposed_seconds);
    weft_simulation_destroy(simulation);
    weft_plan_destroy(plan);
}

/* Runs the list over a copy. */
static weft_program *pass(const weft_program *p, const char *list_text, weft_report **out_report) {
    weft_pass_list *list;
    weft_program *copy;
    must(weft_program_clone(p, &copy));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_REQUIRE);
    must(weft_pass_list_run(list, copy, out_report));
    weft_pass_list_destroy(list);
    return copy;
}

/* Of the pass that plans. */
static int64_t count_of(const weft_report *report, const char *what) {
    for (size_t i = 0; i < weft_report_npasses(report); i++) {
        const char *name = weft_report_pass_name(report, i);
        if (strcmp(name, "coalesce_grads") == 0 || strcmp(name, "fuse_allreduce_buckets") == 0)
            return weft_report_count(report, i, what);
    }
    return -1;
}

static int64_t step_of_list(const weft_program *p, int nranks, const char *list) {
    weft_report *report;
    played got;
    weft_program *made = pass(p, list, &report);
    simulate(made, nranks, &got);
    weft_report_destroy(report);
    weft_program_destroy(made);
    return got.step_ns;
}

static int64_t step_of_size(const weft_program *p, int nranks, const char *mb) {
    char list[200];
    snprintf(list, sizeof list, "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: %s}", mb);
    return step_of_list(p, nranks, list);
}

static void check_program(const char *name, const weft_program *p, int nranks, const char *first_passes) {
    static const char *const sizes[] = {"0", "0.001", "0.01", "1", "5", "25", "50", "100"};
    char list[FOLDER_PATH_ROOM + 200];
    weft_report *report;
    played got;
    snprintf(list, sizeof list,
             "%soverlap_comm, coalesce_grads: {bucket_mb: auto, cluster: \"%s\"}, insert_dependencies", first_passes,
             cluster_path);
    weft_program *made = pass(p, list, &report);
    simulate(made, nranks, &got);
    int64_t step = count_of(report, "predicted step ns"), bound = count_of(report, "bound ns");
    int64_t bound_of_all = count_of(report, "bound of all ns");
    cr_expect_eq(got.step_ns, step, "%s: a step takes %lld ns, predicted were %lld", name, (long long)got.step_ns,
                 (long long)step);
    cr_expect_eq(got.exposed_ns, count_of(report, "predicted exposed ns"), "%s: %lld ns exposed, predicted were %lld",
                 name, (long long)got.exposed_ns, (long long)count_of(report, "predicted exposed ns"));
    cr_expect_gt(step, 0);
    cr_expect_leq(bound, step, "%s", name);
    cr_expect_leq(bound_of_all, bound, "%s", name);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && *first_passes; i++) {
        int64_t fixed = step_of_size(p, nranks, sizes[i]);
        cr_expect_leq(bound, fixed, "%s: with %s MB a step takes %lld ns", name, sizes[i], (long long)fixed);
        cr_expect_leq(bound_of_all, fixed, "%s: with %s MB a step takes %lld ns", name, sizes[i], (long long)fixed);
        if (step > bound) continue;
        cr_expect_leq(step, fixed, "%s: with %s MB a step takes %lld ns", name, sizes[i], (long long)fixed);
    }
    weft_report_destroy(report);
    weft_program_destroy(made);
}

static void write_cluster(size_t cluster) {
    FILE *f = fopen(cluster_path, "w");
    cr_assert(f);
    fputs(clusters[cluster], f);
    fclose(f);
}

static void check_under(size_t cluster) {
    static const struct {
        const char *file;
        int nranks;
    } programs[] = {
        {"paddle26/mlp_sgd_dp2/rank0.pdmodel", 2},
        {"paddle26/mlp_adam_dp2_amp/rank0.pdmodel", 2},
        {"paddle26/mlp_adam_dp2_lossscale/rank0.pdmodel", 2},
        {"paddle26/mlp_dp2_gradmerge/rank0.pdmodel", 2},
        {"paddle26/twoloss_dp2/rank0.pdmodel", 2},
        {"paddle26/resnet18_momentum_dp2/rank0.pdmodel", 2},
        {"paddle26/lenet_momentum_dp2/rank0.pdmodel", 2},
        {"paddle26/bert_tiny_adamw_dp4/rank0.pdmodel", 4},
        {"paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel", 2},
    };
    write_cluster(cluster);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char path[1024];
        weft_program *p;
        if (!fixture_path(path, sizeof path, programs[i].file)) continue;
        must(weft_program_load(context, path, NULL, &p));
        check_program(programs[i].file, p, programs[i].nranks, "prune_grad_scale, ");
        check_program(programs[i].file, p, programs[i].nranks, ""); /* scales stay behind the reduces */
        weft_program_destroy(p);
    }
}

Test(passes_planned_buckets, what_is_predicted_is_simulated_0) {
    check_under(0);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_1) {
    check_under(1);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_2) {
    check_under(2);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_3) {
    check_under(3);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_of_measured_collectives) {
    check_under(4);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_by_the_model_of_nccl) {
    check_under(5);
}
Test(passes_planned_buckets, what_is_predicted_is_simulated_with_contention) {
    check_under(6);
}

/* --- graphs of PyTorch -------------------------------------------------------------------------------------------- */

/* In the graph of a plain training step nothing needs a sum early, so no size ends the step before the planned buckets.
 * Where an update stands in the middle of the backward pass fixed sizes may move it, and planned ones do not. */
static void check_graph(const char *file, int nranks, const char *mode, bool is_plain) {
    static const char *const sizes[] = {"0", "0.004", "0.016", "1", "25"};
    char path[1024], list[FOLDER_PATH_ROOM + 200], what[1100];
    weft_program *p;
    weft_report *report;
    played got;
    if (!fixture_path(path, sizeof path, file)) return;
    snprintf(what, sizeof what, "%s, %s", file, mode);
    must(weft_program_load(context, path, NULL, &p));
    snprintf(list, sizeof list, "fuse_allreduce_buckets: {mode: %s, bucket_mb: auto, cluster: \"%s\"}", mode,
             cluster_path);
    weft_program *made = pass(p, list, &report);
    simulate(made, nranks, &got);
    int64_t step = count_of(report, "predicted step ns"), bound = count_of(report, "bound ns");
    cr_expect_eq(got.step_ns, step, "%s: a step takes %lld ns, predicted were %lld", what, (long long)got.step_ns,
                 (long long)step);
    cr_expect_eq(got.exposed_ns, count_of(report, "predicted exposed ns"), "%s: %lld ns exposed, predicted were %lld",
                 what, (long long)got.exposed_ns, (long long)count_of(report, "predicted exposed ns"));
    cr_expect_leq(bound, step, "%s", what);
    for (size_t i = 0; is_plain && strcmp(mode, "coalesced") == 0 && i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(list, sizeof list, "fuse_allreduce_buckets: {mode: %s, bucket_mb: %s, first_bucket_mb: %s}", mode,
                 sizes[i], sizes[i]);
        int64_t fixed = step_of_list(p, nranks, list);
        cr_expect_leq(step, fixed, "%s: with %s MB a step takes %lld ns", what, sizes[i], (long long)fixed);
    }
    weft_report_destroy(report);
    weft_program_destroy(made);
    weft_program_destroy(p);
}

Test(passes_planned_buckets, what_is_predicted_of_graphs) {
    static const struct {
        const char *file;
        int nranks;
        bool is_plain;
    } graphs[] = {{"torch/ddp/mlp6.w2/before.fx.json", 2, true},
                  {"torch/ddp/mlp6.w4/before.fx.json", 4, true},
                  {"torch/ddp/gpt.w2/before.fx.json", 2, true},
                  {"torch/ddp/mixed.w2/before.fx.json", 2, true},
                  {"torch/ddp/mlp6.w2.accum_inline/before.fx.json", 2, false},
                  {"torch/ddp/neg.avg_op/before.fx.json", 2, true},
                  {"torch/ddp/neg.multi_user_wait/before.fx.json", 2, false}};
    static const char *const modes[] = {"in_place", "coalesced", "concat"};
    static const size_t of[] = {1, 2, 6}; /* links that hide little, and contention */
    for (size_t c = 0; c < sizeof of / sizeof *of; c++) {
        write_cluster(of[c]);
        for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
            for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
                check_graph(graphs[i].file, graphs[i].nranks, modes[m], graphs[i].is_plain && of[c] != 6);
    }
}

/* --- order -------------------------------------------------------------------------------------------------------- */

/* Gradients of `nbytes` / 4 elements, made one after another; what needs them begins with the last one, and goes on for
 * long before the first one is needed. */
static weft_program *backward(unsigned count, unsigned nelements) {
    static char text[8000];
    weft_program *p;
    FILE *f = fmemopen(text, sizeof text, "w");
    fputs("weft: 1\nrings: {0: [0, 1]}\nblocks:\n- vars:\n", f);
    for (unsigned i = 0; i < count; i++)
        fprintf(f,
                "    x%u: {float32: [%u], persistable: true}\n    g%u: {float32: [%u]}\n"
                "    o%u: {float32: [%u], persistable: true}\n",
                i, nelements, i, nelements, i, nelements);
    fputs("  ops:\n", f);
    for (unsigned i = 0; i < count; i++)
        fprintf(f,
                "  - {scale: {X: [x%u]}, out: {Out: [g%u]}, attrs: {scale: 2.0, op_role: 1}}\n"
                "  - {c_allreduce_sum: {X: [g%u]}, out: {Out: [g%u]}, attrs: {op_namescope: "
                "/auto_parallel/data_parallel, op_role: 1, ring_id: 0, use_calc_stream: true}}\n",
                i, i, i, i);
    for (unsigned i = count; i-- > 0;)
        for (int k = 0; k < 8; k++)
            fprintf(f, "  - {scale: {X: [%c%u]}, out: {Out: [o%u]}, attrs: {scale: 0.5, op_role: 2}}\n", k ? 'o' : 'g',
                    i, i);
    fclose(f);
    must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "backward", &p));
    return p;
}

static size_t place_of(const char *text, const char *what) {
    const char *at = strstr(text, what);
    cr_assert_not_null(at, "%s is not in %s", what, text);
    return (size_t)(at - text);
}

/* The link is behind when the last gradient is made: it goes first, and the step ends before that of any sizes. */
Test(passes_planned_buckets, what_the_step_needs_first_goes_first) {
    char list[FOLDER_PATH_ROOM + 200], *text;
    size_t nbytes;
    weft_report *report;
    weft_program *p = backward(6, 100000);
    write_cluster(1);
    check_program("backward", p, 2, "prune_grad_scale, ");
    snprintf(list, sizeof list, "overlap_comm, coalesce_grads: {bucket_mb: auto, most_mb: 0.5, cluster: \"%s\"}",
             cluster_path);
    weft_program *made = pass(p, list, &report);
    must(weft_program_print(made, WEFT_FORM_YAML, &text, &nbytes));
    cr_expect_lt(place_of(text, "c_allreduce_sum: {X: [g5]}"), place_of(text, "c_allreduce_sum: {X: [g1]}"));
    cr_expect_lt(count_of(report, "predicted step ns"), step_of_size(p, 2, "0"));
    weft_bytes_free(context, text, nbytes);
    weft_report_destroy(report);
    weft_program_destroy(made);
    weft_program_destroy(p);
}

/* --- random programs ---------------------------------------------------------------------------------------------- */

static uint64_t state;

static unsigned draw(unsigned below) {
    return draw_below(&state, below);
}

enum { MOST_GRADIENTS = 12 };

/* Gradients of one or two types are made and reduced, asynchronously on that many rings (0: by ops of Paddle's on one);
 * what needs them comes at the end in any order, some of it (early)
 * between. */
static void print_program(char *to, size_t nbytes, unsigned ntypes, unsigned nrings, bool early) {
    static const char *const types[] = {"float32", "float64"};
    FILE *f = fmemopen(to, nbytes, "w");
    unsigned count = 1 + draw(MOST_GRADIENTS), order[MOST_GRADIENTS];
    fputs("weft: 1\nrings: {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}\nblocks:\n- vars:\n", f);
    for (unsigned i = 0; i < count; i++) {
        unsigned n = 1 + draw(3) * draw(40000);
        const char *type = types[draw(ntypes)];
        fprintf(f, "    x%u: {%s: [%u], persistable: true}\n    g%u: {%s: [%u]}\n", i, type, n, i, type, n);
        fprintf(f, "    o%u: {%s: [%u], persistable: true}\n", i, type, n);
        unsigned at = draw(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    fputs("  ops:\n", f);
    bool done[MOST_GRADIENTS] = {false};
    for (unsigned i = 0; i < count; i++) {
        fprintf(f, "  - {scale: {X: [x%u]}, out: {Out: [g%u]}, attrs: {scale: 2.0, op_role: 1}}\n", i, i);
        if (nrings)
            fprintf(f, "  - {all_reduce: {x: [g%u]}, out: {out: [g%u]}, attrs: {ring_id: %u, async_op: true}}\n", i, i,
                    draw(nrings));
        else
            fprintf(f,
                    "  - {c_allreduce_sum: {X: [g%u]}, out: {Out: [g%u]}, attrs: {op_namescope: "
                    "/auto_parallel/data_parallel, op_role: 1, ring_id: 0, use_calc_stream: true}}\n",
                    i, i);
        unsigned which = draw(i + 1);
        if (!early || draw(3) || done[which]) continue;
        fprintf(f, "  - {scale: {X: [g%u]}, out: {Out: [o%u]}, attrs: {scale: 0.5, op_role: 2}}\n", which, which);
        done[which] = true;
    }
    for (unsigned i = 0; i < count; i++)
        if (!done[order[i]])
            fprintf(f, "  - {scale: {X: [g%u]}, out: {Out: [o%u]}, attrs: {scale: 0.5, op_role: 2}}\n", order[i],
                    order[i]);
    fclose(f);
}

static void check_random(unsigned ntypes, bool early, unsigned count) {
    static char text[20000];
    for (unsigned seed = 0; seed < count; seed++) {
        char what[100];
        weft_program *p;
        state = seed;
        write_cluster(seed % NCLUSTERS);
        print_program(text, sizeof text, ntypes, 0, early);
        snprintf(what, sizeof what, "%u types, early %d, seed %u", ntypes, early, seed);
        must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, what, &p));
        check_program(what, p, 4, seed % 2 ? "prune_grad_scale, " : "");
        weft_program_destroy(p);
    }
}

Test(passes_planned_buckets, what_is_predicted_of_random_programs) {
    unsigned count = getenv("WEFT_LONG_TESTS") ? 1000 : 60;
    check_random(1, false, count);
    check_random(2, false, count);
}

/* A ring is a stream: each is planned by itself, and the step is what all make of it. */
Test(passes_planned_buckets, what_is_predicted_of_several_rings) {
    static const char *const modes[] = {"in_place", "coalesced", "concat"};
    static char text[20000];
    unsigned count = getenv("WEFT_LONG_TESTS") ? 1000 : 60;
    for (unsigned seed = 0; seed < count; seed++) {
        char list[FOLDER_PATH_ROOM + 200];
        weft_program *p;
        weft_report *report;
        played got;
        state = seed;
        write_cluster(seed % NCLUSTERS);
        print_program(text, sizeof text, 1 + seed % 2, 2, seed % 3 == 0);
        must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "rings", &p));
        snprintf(list, sizeof list, "fuse_allreduce_buckets: {mode: %s, bucket_mb: auto, cluster: \"%s\"}",
                 modes[seed % 3], cluster_path);
        weft_program *made = pass(p, list, &report);
        simulate(made, 4, &got);
        cr_expect_eq(got.step_ns, count_of(report, "predicted step ns"), "seed %u: a step takes %lld ns", seed,
                     (long long)got.step_ns);
        cr_expect_eq(got.exposed_ns, count_of(report, "predicted exposed ns"), "seed %u: %lld ns exposed", seed,
                     (long long)got.exposed_ns);
        cr_expect_leq(count_of(report, "bound ns"), got.step_ns, "seed %u", seed);
        weft_report_destroy(report);
        weft_program_destroy(made);
        weft_program_destroy(p);
    }
}

/* Results that are needed early delay what comes after: still predicted, but there may be something better. */
Test(passes_planned_buckets, what_is_predicted_of_early_updates) {
    check_random(2, true, getenv("WEFT_LONG_TESTS") ? 1000 : 60);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* A forward pass leaves a tensor for each gradient, which is made of it and reduced: as much is freed as is made, so
 * that buckets, which have room for later gradients, need more. */
static void print_two_passes(char *to, size_t nbytes) {
    FILE *f = fmemopen(to, nbytes, "w");
    unsigned count = 2 + draw(MOST_GRADIENTS - 1);
    fputs("weft: 1\nrings: {0: [0, 1, 2, 3]}\nblocks:\n- vars:\n", f);
    for (unsigned i = 0; i < count; i++) {
        unsigned n = 64 * (1 + draw(300));
        fprintf(f, "    x%u: {float32: [%u], persistable: true}\n    t%u: {float32: [%u]}\n", i, n, i, n);
        fprintf(f, "    g%u: {float32: [%u]}\n    o%u: {float32: [%u], persistable: true}\n", i, n, i, n);
    }
    fputs("  ops:\n", f);
    for (unsigned i = 0; i < count; i++)
        fprintf(f, "  - {tanh: {X: [x%u]}, out: {Out: [t%u]}, attrs: {op_role: 0}}\n", i, i);
    for (unsigned i = count; i-- > 0;) {
        fprintf(f, "  - {elementwise_mul: {X: [t%u], \"Y\": [x%u]}, out: {Out: [g%u]}, attrs: {op_role: 1}}\n", i, i,
                i);
        fprintf(f,
                "  - {c_allreduce_sum: {X: [g%u]}, out: {Out: [g%u]}, attrs: {op_namescope: "
                "/auto_parallel/data_parallel, op_role: 1, ring_id: 0, use_calc_stream: true}}\n",
                i, i);
    }
    for (unsigned i = 0; i < count; i++)
        fprintf(f, "  - {scale: {X: [g%u]}, out: {Out: [o%u]}, attrs: {scale: 0.5, op_role: 2}}\n", i, i);
    fclose(f);
}

/* Plans the buckets with at most `nbytes` live; false: even one by one there are more. */
static bool plan_within(const weft_program *p, double nbytes, int64_t *out_step, int64_t *out_live, int64_t *out_made) {
    char text[FOLDER_PATH_ROOM + 200];
    weft_pass_list *list;
    weft_program *copy;
    weft_report *report = NULL;
    snprintf(text, sizeof text, "overlap_comm, coalesce_grads: {bucket_mb: auto, most_live_mb: %.9f, cluster: \"%s\"}",
             nbytes / 1048576, cluster_path);
    must(weft_program_clone(p, &copy));
    must(weft_pass_list_parse(context, text, strlen(text), "list", &list));
    weft_status status = weft_pass_list_run(list, copy, &report);
    bool fits = !status;
    if (status)
        cr_expect(strstr(weft_status_message(status), "are live at once with a reduce for each gradient"), "%s",
                  weft_status_message(status));
    if (fits) {
        weft_plan *plan;
        weft_plan_summary summary;
        *out_step = count_of(report, "predicted step ns");
        *out_live = count_of(report, "predicted live bytes");
        must(weft_plan_create(copy, NULL, &plan));
        weft_plan_summarize(plan, &summary);
        *out_made = (int64_t)summary.live_nbytes;
        weft_plan_destroy(plan);
    }
    weft_status_free(status);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(copy);
    return fits;
}

/* Returns how many limits made the step longer. */
static unsigned check_memory(const char *what, const weft_program *p) {
    int64_t free_step, free_live, made;
    unsigned nlonger = 0;
    cr_assert(plan_within(p, 1e12, &free_step, &free_live, &made));
    cr_expect_leq(made, free_live, "%s: %lld bytes are live, predicted are %lld", what, (long long)made,
                  (long long)free_live);
    for (int percent = 99; percent > 40; percent -= 7) {
        int64_t step, live;
        double most = ceil(0.01 * percent * (double)free_live);
        if (!plan_within(p, most, &step, &live, &made)) break;
        cr_expect_leq(live, (int64_t)most + 1, "%s: %lld bytes of %g", what, (long long)live, most);
        cr_expect_leq(made, live, "%s: %lld bytes are live, predicted are %lld", what, (long long)made,
                      (long long)live);
        cr_expect_geq(step, free_step, "%s", what);
        nlonger += step > free_step;
    }
    return nlonger;
}

Test(passes_planned_buckets, memory_is_kept_within_its_limit) {
    static char text[20000];
    unsigned nlonger = 0;
    for (unsigned seed = 0; seed < (getenv("WEFT_LONG_TESTS") ? 400u : 30u); seed++) {
        char what[100];
        weft_program *p;
        state = seed;
        write_cluster(seed % (NCLUSTERS - 1)); /* all but contention, where longer steps are not known to be best */
        if (seed % 2)
            print_two_passes(text, sizeof text);
        else
            print_program(text, sizeof text, 1 + seed / 2 % 2, 0, seed % 3 == 0);
        snprintf(what, sizeof what, "seed %u", seed);
        must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, what, &p));
        nlonger += check_memory(what, p);
        weft_program_destroy(p);
    }
    cr_expect_gt(nlonger, 0, "no limit had a price");
    char path[1024];
    weft_program *p;
    if (!fixture_path(path, sizeof path, "paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel")) return;
    write_cluster(2);
    must(weft_program_load(context, path, NULL, &p));
    (void)check_memory("gpt_tiny", p);
    weft_program_destroy(p);
}
