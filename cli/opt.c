/* opt.c: weft opt: program in, passes over it, program out. */
#include <stdlib.h>
#include <string.h>

#include "cli/json.h"
#include "cli/stats.h"
#include "weft/certificate.h"

static const cli_option options[] = {
    {"--output", 'o', "OUT",
     "where to write; form by extension (.pdmodel, .yaml, .fx.json, .gz); {rank} in it: a\n"
     "                               program for each rank; default: YAML on stdout"},
    {"--passes", 0, "LIST",
     "a pass list: a .yaml file (also by the name of one that comes with Weft), or\n"
     "                               'a, b: {key: value}'; none: convert only"},
    {"--set", 0, "PASS.KEY=VALUE", "override one option of a pass; may be repeated"},
    {"--dist", 0, "FILE", "the sidecar, if it is not where its name says"},
    {"--verbose", 'v', NULL, "list every candidate that a pass left alone"},
    {"--no-prove", 0, NULL, "do not compare the program after each pass with the one before it"},
    {"--certificate", 0, "FILE", "write what each pass claims, for weft verify --certificate"},
    {"--stats", 0, NULL, "collectives and bytes before and after, and the fingerprint of the buckets"},
    {"--strict", 0, NULL,
     "refuse to gather sharded values for an op that has no rule, and what is warned of\n"
     "                               while the program and its annotations are read"},
    {"--quiet", 'q', NULL, "no report"},
    JSON_REPORT_OPTION("on stdout where -o names a file, else on stderr"),
    {"--form", 0, "F", "of what goes to stdout: yaml (default) or fx"},
};

/* A file by its extension, else the list itself. */
static weft_status parse_list(const cli_args *args, const char *text, weft_pass_list **out) {
    if (!cli_ends_with(text, ".yaml") && !cli_ends_with(text, ".yml"))
        return weft_pass_list_parse(args->context, text, strlen(text), "--passes", out);
    char *bytes, room[4096];
    size_t nbytes;
    text = cli_find_config(text, "", room, sizeof room);
    weft_status status = cli_read(text, &bytes, &nbytes);
    if (status) return status;
    status = weft_pass_list_parse(args->context, bytes, nbytes, text, out);
    free(bytes);
    return status;
}

/* Passes of the list that could gather must not. */
static weft_status set_strict(weft_pass_list *list) {
    static const char *const settings[] = {"spmd_expand.strict=true", "spmd_partition.strict=true"};
    weft_status status[2];
    for (int i = 0; i < 2; i++) status[i] = weft_pass_list_set(list, settings[i]);
    bool any = !status[0] || !status[1];
    weft_status_free(any ? status[0] : status[1]);
    if (any) weft_status_free(status[1]);
    return any ? NULL : status[0];
}

/* Such as annotations of vars that the program does not have. */
static weft_status refuse_warnings(const cli_args *args) {
    size_t n = args->told->counts[WEFT_WARNING];
    if (!n || !cli_given(args, "--strict")) return NULL;
    return weft_status_create(WEFT_REFUSED, args->positional[0], "--strict refuses what %zu warning%s", n,
                              n == 1 ? " tells" : "s tell");
}

static weft_status make_list(const cli_args *args, weft_pass_list **out) {
    const char *text = cli_value(args, "--passes");
    weft_status status = parse_list(args, text ? text : "passes: []", out);
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--set") == 0) status = weft_pass_list_set(*out, args->values[i]);
    if (!status && cli_given(args, "--strict")) status = set_strict(*out);
    if (!status && cli_given(args, "--no-prove"))
        weft_pass_list_set_prove(*out, WEFT_PROVE_OFF);
    else if (!status && weft_pass_list_prove(*out) == WEFT_PROVE_UNSET)
        weft_pass_list_set_prove(*out, WEFT_PROVE_REQUIRE);
    return status;
}

/* Sums `what` over all passes. */
static long long total(const weft_report *report, const char *what) {
    long long sum = 0;
    for (size_t i = 0; i < weft_report_npasses(report); i++) sum += weft_report_count(report, i, what);
    return sum;
}

/* With a summary where all passes ran. */
static weft_status print_report(const cli_args *args, const weft_report *report, bool is_done) {
    char *text;
    size_t nbytes;
    weft_status status = weft_report_print(report, cli_given(args, "--verbose"), &text, &nbytes);
    if (status) return status;
    fwrite(text, 1, nbytes, stderr);
    weft_bytes_free(args->context, text, nbytes);
    size_t n = weft_report_npasses(report);
    long long nbuckets = total(report, "buckets");
    char size[32];
    if (n > 0 && is_done)
        fprintf(stderr,
                "summary: ops %zu -> %zu; %lld scale ops removed; %lld gradients in %lld bucket%s, %s; reduces of %lld "
                "gradients overlap with compute\n",
                weft_report_nops_before(report, 0), weft_report_nops_after(report, n - 1),
                total(report, "scales removed"), total(report, "gradients bucketed"), nbuckets,
                nbuckets == 1 ? "" : "s", cli_bytes((double)total(report, "bucket bytes"), size, sizeof size),
                total(report, "collectives moved"));
    return NULL;
}

static bool is_stdout(const char *path) {
    return !path || strcmp(path, "-") == 0;
}

/* Of all passes together. */
static json_t *sums_json(const weft_report *report) {
    size_t n = weft_report_npasses(report);
    json_t *sums = json_object();
    cli_json_put(&sums, "ops_before", json_integer(n ? (json_int_t)weft_report_nops_before(report, 0) : 0));
    cli_json_put(&sums, "ops_after", json_integer(n ? (json_int_t)weft_report_nops_after(report, n - 1) : 0));
    cli_json_put(&sums, "scales_removed", json_integer(total(report, "scales removed")));
    cli_json_put(&sums, "gradients_bucketed", json_integer(total(report, "gradients bucketed")));
    cli_json_put(&sums, "buckets", json_integer(total(report, "buckets")));
    cli_json_put(&sums, "bucket_nbytes", json_integer(total(report, "bucket bytes")));
    cli_json_put(&sums, "collectives_moved", json_integer(total(report, "collectives moved")));
    return sums;
}

static weft_status print_json(const cli_args *args, const weft_report *report, weft_status failure) {
    char *bytes;
    size_t nbytes;
    weft_status status = weft_report_json(report, &bytes, &nbytes);
    if (status) return status;
    json_t *root = json_object();
    cli_json_put(&root, "passes", cli_json_taken(args, bytes, nbytes));
    cli_json_put(&root, "summary", failure ? json_null() : sums_json(report));
    cli_json_put(&root, "error", failure ? cli_json_text(weft_status_message(failure)) : json_null());
    return cli_json_print(args, root, is_stdout(cli_value(args, "--output")) ? stderr : stdout);
}

static weft_status write_program(const cli_args *args, const weft_program *program, const char *path) {
    if (!is_stdout(path)) return weft_program_save(program, path);
    const char *form = cli_value(args, "--form");
    char *bytes;
    size_t nbytes;
    weft_status status =
        weft_program_print(program, form && strcmp(form, "fx") == 0 ? WEFT_FORM_FX : WEFT_FORM_YAML, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, "-", bytes, nbytes);
}

static weft_status write_certificate(const cli_args *args, const weft_report *report) {
    const char *path = cli_value(args, "--certificate");
    char *bytes;
    size_t nbytes;
    if (!path) return NULL;
    weft_status status = weft_report_certificate(report, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, path, bytes, nbytes);
}

/* The place of {rank} in the name of the output; NULL: one program is written. */
static const char *rank_place(const cli_args *args) {
    const char *path = cli_value(args, "--output");
    return path ? strstr(path, "{rank}") : NULL;
}

static weft_status write_ranks(const cli_args *args, const weft_rank_programs *programs) {
    const char *path = cli_value(args, "--output"), *place = rank_place(args);
    size_t room = strlen(path) + 24;
    char *own = malloc(room);
    weft_status status = own ? NULL : cli_no_memory();
    for (size_t i = 0; !status && i < weft_rank_programs_count(programs); i++) {
        snprintf(own, room, "%.*s%zu%s", (int)(place - path), path, i, place + strlen("{rank}"));
        status = weft_rank_programs_save(programs, i, own);
    }
    free(own);
    return status;
}

static bool options_are_good(const cli_args *args) {
    const char *form = cli_value(args, "--form"), *certificate = cli_value(args, "--certificate");
    if (certificate && strstr(certificate, "{rank}"))
        return cli_usage_error(args->command, "--certificate: one file is for all ranks, so {rank} has no meaning"),
               false;
    if (!form) return true;
    if (!is_stdout(cli_value(args, "--output")))
        return cli_usage_error(args->command, "--form: a file's form is that of its name"), false;
    if (strcmp(form, "yaml") == 0 || strcmp(form, "fx") == 0) return true;
    return cli_usage_error(args->command, "--form: expected yaml or fx, found \"%s\"", form), false;
}

/* The report as JSON or text; after a failure too. */
static weft_status tell(const cli_args *args, const weft_report *report, weft_status failure) {
    if (cli_given(args, "--json")) return print_json(args, report, failure);
    return cli_given(args, "--quiet") ? NULL : print_report(args, report, !failure);
}

static int run(cli_args *args) {
    if (!options_are_good(args)) return EXIT_USAGE;
    weft_program *program = NULL;
    weft_pass_list *list = NULL;
    weft_report *report = NULL;
    weft_rank_programs *ranks = NULL;
    comm_stats before = {.rows = NULL}, after = {.rows = NULL};
    weft_status status = make_list(args, &list);
    if (!status) weft_pass_list_set_certify(list, cli_given(args, "--certificate"));
    if (!status) status = weft_program_load(args->context, args->positional[0], cli_value(args, "--dist"), &program);
    if (!status) status = refuse_warnings(args);
    bool reports = cli_given(args, "--stats");
    if (!status && reports) status = comm_stats_take(program, &before);
    if (!status) {
        status = rank_place(args) ? weft_pass_list_run_ranks(list, program, &ranks, &report)
                                  : weft_pass_list_run(list, program, &report);
        if (report) {
            weft_status printing = tell(args, report, status);
            if (status)
                weft_status_free(printing);
            else
                status = printing;
        }
    }
    const weft_program *made = ranks ? weft_rank_programs_at(ranks, 0) : program;
    if (!status && reports) status = comm_stats_take(made, &after);
    if (!status && reports) comm_stats_print(stderr, &before, &after);
    if (!status) status = ranks ? write_ranks(args, ranks) : write_program(args, program, cli_value(args, "--output"));
    if (!status) status = write_certificate(args, report);
    comm_stats_fini(&before);
    comm_stats_fini(&after);
    weft_report_destroy(report);
    weft_rank_programs_destroy(ranks);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

const cli_command command_opt = {
    .name = "opt",
    .arguments = "IN [-o OUT] [--passes LIST] [--set PASS.KEY=VALUE] [--dist FILE] [--json[=F]]",
    .summary = "Runs passes over a program, reports what each did and left alone and why, and writes the result.\n"
               "IN is a .pdmodel, .yaml or .fx.json file (each also .gz), or - for YAML or such a graph on stdin.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = 1,
    .example = "weft opt serial.pdmodel --passes configs/data_parallel.yaml --set data_parallel.ranks=4 -o dp.pdmodel",
    .run = run,
};
