/* simulate_buckets.c: weft simulate --buckets: a program whose gradients are reduced one by one, in buckets of 25 MB,
 * and in planned ones, on the same clock. The first bucket has 1 MB, as PyTorch's. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/json.h"
#include "cli/simulate.h"
#include "weft/pass.h"
#include "weft/simulate.h"

/* Pass lists that make it of a program, and of a graph whose collectives are asynchronous already; %s: the files of the
 * model. */
static const struct {
    const char *label, *of_program, *of_graph;
} ways[] = {
    {"one per gradient", "overlap_comm", ""},
    {"25 MB, first 1", "overlap_comm, coalesce_grads: {bucket_mb: 25, first_bucket_mb: 1}, insert_dependencies",
     "fuse_allreduce_buckets: {bucket_mb: 25, first_bucket_mb: 1}"},
    {"planned", "overlap_comm, coalesce_grads: {bucket_mb: auto%s}, insert_dependencies",
     "fuse_allreduce_buckets: {bucket_mb: auto%s}"},
};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct way {
    weft_program *program;
    weft_plan **plans;
    size_t nplans;
    weft_simulation *simulation;
    size_t ncollectives;
    double step_seconds;
    weft_rank_times times;
    int64_t bound_ns, bound_of_all_ns; /* in the order of the plan; in any; -1: nobody says */
} way;

bool simulate_buckets_good(const cli_args *args) {
    static const char *const others[] = {"--fault",  "--delay", "--steps-in-flight", "--reading",
                                         "--unsafe", "--late",  "--steps",           "--fetch"};
    if (args->npositional != 1)
        return cli_usage_error(args->command, "--buckets: expected one program for all ranks"), false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (cli_given(args, others[i]))
            return cli_usage_error(args->command, "--buckets: expected no %s", others[i]), false;
    return true;
}

static bool is_graph(const weft_program *p) {
    const weft_block *block = weft_program_block(p, 0);
    for (const weft_op *op = weft_block_first_op(block); op; op = weft_op_next(op))
        if (weft_op_attr_bool(op, "async_op", false)) return true;
    return false;
}

static weft_status rewrite(const cli_args *args, const char *list_text, const char *files, way *to) {
    char text[CLI_TEMPORARY_ROOM + 8192];
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    int n = snprintf(text, sizeof text, list_text, files);
    if (n == 0) return NULL;
    weft_status status = weft_pass_list_parse(args->context, text, (size_t)n, "--buckets", &list);
    if (!status) status = weft_pass_list_run(list, to->program, &report);
    for (size_t i = 0; !status && i < weft_report_npasses(report); i++) {
        int64_t bound = weft_report_count(report, i, "bound ns");
        if (bound > 0) to->bound_ns = bound, to->bound_of_all_ns = weft_report_count(report, i, "bound of all ns");
    }
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    return status;
}

static weft_status play(const cli_args *args, const bucket_comparison *c, way *to) {
    weft_plans_options how = {WEFT_PLANS_OPTIONS_INIT,
                              .programs = (const weft_program *const *)&to->program,
                              .nprograms = 1,
                              .nranks = c->nranks,
                              .feeds = weft_feeds_types(c->feeds, 0),
                              .nfeeds = (size_t)c->nranks};
    weft_simulation_options o = {WEFT_SIMULATION_OPTIONS_INIT, .cluster = c->cluster, .trace_steps = 1};
    weft_plan_summary summary;
    weft_status status = weft_plans_create(args->context, &how, &to->plans, &to->nplans);
    if (!status)
        status = weft_simulation_create(args->context, (const weft_plan *const *)to->plans, to->nplans, c->nranks, &o,
                                        &to->simulation);
    if (!status) status = weft_simulation_run(to->simulation);
    if (!status) status = weft_simulation_rank_times(to->simulation, 0, &to->times);
    if (status) return status;
    weft_plan_summarize(to->plans[0], &summary);
    to->ncollectives = summary.ncollectives;
    to->step_seconds = weft_simulation_step_seconds(to->simulation);
    return NULL;
}

static weft_status try_all(const cli_args *args, const bucket_comparison *c, const char *cluster, way *all) {
    char files[CLI_TEMPORARY_ROOM + 4096];
    bool graph = is_graph(c->program);
    const char *times = cli_value(args, "--times");
    snprintf(files, sizeof files, ", cluster: \"%s\"%s%s%s", cluster, times ? ", times: \"" : "", times ? times : "",
             times ? "\"" : "");
    weft_status status = NULL;
    for (size_t i = 0; !status && i < WAYS; i++) {
        all[i].bound_ns = -1;
        status = weft_program_clone(c->program, &all[i].program);
        if (!status) status = rewrite(args, graph ? ways[i].of_graph : ways[i].of_program, files, &all[i]);
        if (!status) status = play(args, c, &all[i]);
    }
    return status;
}

static weft_status print(const cli_args *args, const way *all) {
    json_t *root = json_array();
    bool as_json = cli_given(args, "--json");
    if (!as_json) printf("buckets            collectives     step ms   exposed ms\n");
    for (size_t i = 0; i < WAYS; i++) {
        const way *w = &all[i];
        if (!as_json)
            printf("%-16s %13zu  %10.6f   %10.6f\n", ways[i].label, w->ncollectives, 1e3 * w->step_seconds,
                   1e3 * w->times.exposed_seconds);
        cli_json_put(&root, NULL,
                     json_pack("{s:s, s:I, s:f, s:f}", "buckets", ways[i].label, "collectives",
                               (json_int_t)w->ncollectives, "step_seconds", w->step_seconds, "exposed_seconds",
                               w->times.exposed_seconds));
    }
    if (as_json) return cli_json_print(args, root, stderr);
    json_decref(root);
    if (all[WAYS - 1].bound_ns >= 0)
        printf("no buckets in this order end a step before %.6f ms\nno buckets in any order end one before "
               "%.6f ms\n",
               1e-6 * (double)all[WAYS - 1].bound_ns, 1e-6 * (double)all[WAYS - 1].bound_of_all_ns);
    return NULL;
}

static weft_status save(const cli_args *args, const way *all) {
    const weft_simulation *simulations[WAYS];
    const char *labels[WAYS];
    weft_status status = NULL;
    for (size_t i = 0; i < WAYS; i++) {
        simulations[i] = all[i].simulation;
        labels[i] = ways[i].label;
    }
    for (size_t i = 0; !status && i < args->ngiven; i++) {
        char *bytes;
        size_t nbytes;
        if (strcmp(args->names[i], "--trace") != 0) continue;
        weft_trace_form form = cli_ends_with(args->values[i], ".html") ? WEFT_TRACE_HTML : WEFT_TRACE_JSON;
        status = weft_simulation_trace_beside(simulations, labels, WAYS, form, args->positional[0], &bytes, &nbytes);
        if (!status) status = cli_write_taken(args, args->values[i], bytes, nbytes);
    }
    return status;
}

weft_status simulate_buckets(const cli_args *args, const bucket_comparison *c) {
    char cluster[CLI_TEMPORARY_ROOM] = "", *bytes;
    size_t nbytes;
    way all[WAYS] = {{0}};
    weft_status status = weft_cluster_print(args->context, c->cluster, &bytes, &nbytes);
    if (status) return status;
    status = cli_put_temporary(bytes, nbytes, cluster);
    weft_bytes_free(args->context, bytes, nbytes);
    if (!status) status = try_all(args, c, cluster, all);
    if (!status) status = print(args, all);
    if (!status) status = save(args, all);
    for (size_t i = 0; i < WAYS; i++) {
        weft_simulation_destroy(all[i].simulation);
        weft_plans_destroy(args->context, all[i].plans, all[i].nplans);
        weft_program_destroy(all[i].program);
    }
    if (*cluster) unlink(cluster);
    return status;
}
