/* costs.c: what instructions take by a model, a line each, beside what they were measured to take; then sums by where
 * the prices come from. */
#include "cli/costs.h"

#include <math.h>
#include <string.h>

#include "weft/costs.h"

enum { MOST_SOURCES = 24 };

/* Of prices from one source. */
typedef struct sums {
    const char *source;
    size_t count;
    double seconds, compared, measured, error; /* compared: seconds of those that were measured, too */
} sums;

bool costs_options_are_good(const cli_args *args) {
    static const char *const with[] = {"--cluster", "--times", "--ranks"};
    long long nranks;
    for (size_t i = 0; i < sizeof with / sizeof *with && !cli_given(args, "--costs"); i++)
        if (cli_given(args, with[i])) return cli_usage_error(args->command, "%s: expected --costs", with[i]), false;
    return cli_int(args, "--ranks", 1, 1 << 20, &nranks);
}

/* What the first output is called. */
static const char *writes(const weft_plan *plan, size_t i, char *out, size_t nbytes) {
    size_t nslots = weft_plan_instr_nslots(plan, i, true);
    for (size_t s = 0; s < nslots; s++) {
        size_t nargs;
        weft_plan_instr_slot(plan, i, true, s, &nargs);
        for (size_t k = 0; k < nargs; k++) {
            int64_t value = weft_plan_instr_arg(plan, i, true, s, k);
            weft_plan_value v;
            if (value < 0) continue;
            weft_plan_value_at(plan, (size_t)value, &v);
            snprintf(out, nbytes, "%s", v.name);
            return out;
        }
    }
    return "";
}

static void add(sums *all, size_t *n, const weft_cost *c) {
    size_t k = 0;
    while (k < *n && strcmp(all[k].source, c->source) != 0) k++;
    if (k == MOST_SOURCES) return;
    if (k == *n) all[(*n)++] = (sums){.source = c->source};
    all[k].count++;
    all[k].seconds += c->seconds;
    if (c->measured_seconds < 0) return;
    all[k].compared += c->seconds;
    all[k].measured += c->measured_seconds;
    all[k].error += fabs(c->seconds - c->measured_seconds);
}

static void print_instr(const weft_plan *plan, size_t i, const weft_cost *c) {
    weft_plan_instr instr = weft_plan_instr_at(plan, i);
    char op[100], name[200];
    snprintf(op, sizeof op, "%s #%zu", weft_op_type(instr.op), instr.op_index);
    printf("%-34s %-14s %10.3f %-16s", op, weft_plan_stream_name(plan, instr.stream), 1e6 * c->seconds, c->source);
    if (c->measured_seconds >= 0)
        printf(" %10.3f %+8.1f%%", 1e6 * c->measured_seconds,
               c->measured_seconds > 0 ? 100 * (c->seconds / c->measured_seconds - 1) : 0);
    else
        printf(" %10s %9s", "-", "-");
    printf("  %s\n", writes(plan, i, name, sizeof name));
}

static void print_sums(const sums *all, size_t n, const weft_profile *measured) {
    printf("\n%-16s %8s %12s %12s %10s\n", "from", "ops", "model ms", "measured ms", "error");
    for (size_t k = 0; k < n; k++) {
        printf("%-16s %8zu %12.6f", all[k].source, all[k].count, 1e3 * all[k].seconds);
        if (all[k].measured > 0)
            printf(" %12.6f %9.1f%%\n", 1e3 * all[k].measured, 100 * all[k].error / all[k].measured);
        else
            printf(" %12s %10s\n", "-", "-");
    }
    if (measured) printf("\nthe measured step took %.6f ms\n", 1e3 * weft_profile_step_seconds(measured));
}

static void print(const weft_plan *plan, const weft_costs *costs, const weft_profile *measured) {
    sums all[MOST_SOURCES];
    size_t n = 0;
    printf("%-34s %-14s %10s %-16s %10s %9s  %s\n", "op", "stream", "model us", "from", "measured", "error", "writes");
    for (size_t i = 0; i < weft_plan_ninstrs(plan); i++) {
        weft_cost c = weft_costs_at(costs, i);
        print_instr(plan, i, &c);
        add(all, &n, &c);
    }
    print_sums(all, n, measured);
}

weft_status costs_print(const cli_args *args, const weft_plan *plan) {
    weft_cluster cluster = {0};
    weft_profile *measured = NULL;
    weft_costs *costs = NULL;
    char room[4096];
    long long nranks = 0;
    const char *path = cli_value(args, "--cluster"), *times = cli_value(args, "--times");
    (void)cli_int(args, "--ranks", 1, 1 << 20, &nranks);
    weft_status status = NULL;
    if (path)
        status = weft_cluster_load(args->context, cli_find_config(path, "clusters/", room, sizeof room), &cluster);
    if (!status && times) status = weft_profile_load(args->context, times, &measured);
    if (!status) status = weft_costs_create(args->context, plan, &cluster, measured, (int)nranks, 0, &costs);
    if (!status) print(plan, costs, measured);
    weft_costs_destroy(costs);
    weft_profile_destroy(measured);
    return status;
}
