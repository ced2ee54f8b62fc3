/* plan.c: weft plan: what will happen when a program runs, in the plan's text form. */
#include <stdlib.h>
#include <string.h>

#include "cli/costs.h"
#include "cli/plan_chunks.h"
#include "cli/plan_json.h"
#include "cli/reading.h"
#include "weft/op_table.h"
#include "weft/plan_instr.h"
#include "weft/program.h"

static const cli_option options[] = {
    {"--output", 'o', "OUT", "where to write the plan; default: stdout"},
    {"--reading", 0, "R", READING_HELP},
    {"--late", 0, "OP", LATE_HELP},
    {"--batch", 0, "N", "of N rows of all ranks together, where feeds leave them open"},
    {"--shape", 0, "NAME=DIMS", "what a rank is fed as NAME, as x=8,128; may be repeated"},
    {"--summary", 0, NULL, "only counts and sizes"},
    {"--device", 0, "D", "only what would run on the host, with copies, if weft run had that --device"},
    {"--chunks", 0, NULL, "only the chunk plans that micro_pipeline_tp wrote, a step a line"},
    COSTS_OPTIONS,
    {"--dist", 0, "FILE", "the sidecar, if it is not where its name says"},
    {"--json", 0, NULL, "the plan with its counts and sizes as JSON (docs/json.md)"},
};

/* What buckets take, and what they add to what is live: parts that are not written yet. */
static void print_buckets(const weft_plan_summary *s) {
    char all[32], largest[32], ahead[32], written[32];
    printf("buckets       %zu of %s together, the largest %s\n", s->nbuckets,
           cli_bytes((double)s->bucket_nbytes, all, sizeof all),
           cli_bytes((double)s->largest_bucket_nbytes, largest, sizeof largest));
    printf("ahead         %s of buckets at most are live before they are written; %s are live at most without these\n",
           cli_bytes((double)s->ahead_nbytes, ahead, sizeof ahead),
           cli_bytes((double)s->written_nbytes, written, sizeof written));
}

static void print_summary(const weft_plan *plan) {
    weft_plan_summary s;
    char persistent[32], temporary[32], live[32];
    weft_plan_summarize(plan, &s);
    printf("instructions  %zu on %zu stream%s; %zu ops need none\n", s.ninstructions, s.nstreams,
           s.nstreams == 1 ? "" : "s", s.nremoved_ops);
    printf("collectives   %zu\n", s.ncollectives);
    printf("events        %zu\n", s.nevents);
    printf("memory        %s persistent, %s temporary\n",
           cli_bytes((double)s.persistent_nbytes, persistent, sizeof persistent),
           cli_bytes((double)s.temporary_nbytes, temporary, sizeof temporary));
    printf("live          %s at most at one instruction: the temporary space is %.3f of it\n",
           cli_bytes((double)s.live_nbytes, live, sizeof live),
           s.live_nbytes ? (double)s.temporary_nbytes / (double)s.live_nbytes : 1);
    if (s.nbuckets) print_buckets(&s);
}

static weft_status print_plan(const cli_args *args, const weft_plan *plan) {
    char *bytes;
    size_t nbytes;
    weft_status status = weft_plan_print(plan, &bytes, &nbytes);
    const char *path = cli_value(args, "--output");
    return status ? status : cli_write_taken(args, path ? path : "-", bytes, nbytes);
}

/* What the command line says of a plan to be made. */
typedef struct wanted {
    const weft_order_options *how;
    long long batch;
    weft_feed_type *shapes; /* of type NONE: the var's */
    size_t nshapes;
} wanted;

/* "NAME=8,128"; the name is cut off where it lies. */
static bool parse_shape(char *given, weft_feed_type *out) {
    char *equals = strrchr(given, '='), *at = equals ? equals + 1 : NULL;
    if (!at || equals == given) return false;
    *equals = '\0';
    *out = (weft_feed_type){.name = given};
    while (*at) {
        char *end;
        long long extent = strtoll(at, &end, 10);
        if (end == at || extent < 0 || (*end && *end != ',') || out->ndim == WEFT_MAX_RANK) return false;
        out->dims[out->ndim++] = extent;
        at = end + (*end == ',');
    }
    return true;
}

/* False after printing a usage error. */
static bool read_wanted(const cli_args *args, wanted *w) {
    w->shapes = calloc(args->ngiven + 1, sizeof *w->shapes);
    if (!w->shapes || !cli_int(args, "--batch", 1, 1LL << 40, &w->batch)) return false;
    for (size_t i = 0; i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--shape") != 0) continue;
        char *copy = strdup(args->values[i]);
        if (copy && parse_shape(copy, &w->shapes[w->nshapes++])) continue;
        cli_usage_error(args->command, "--shape: expected NAME=DIMS such as x=8,128, found \"%s\"", args->values[i]);
        if (copy && !w->shapes[w->nshapes - 1].name) free(copy);
        return false;
    }
    return true;
}

static void wanted_fini(wanted *w) {
    for (size_t i = 0; w->shapes && i < w->nshapes; i++) free((char *)(uintptr_t)w->shapes[i].name);
    free(w->shapes);
}

/* Fed values are of the type that the program declares. */
static void take_types(const weft_program *program, const wanted *w) {
    for (size_t i = 0; i < w->nshapes; i++) {
        const weft_var *v = weft_block_find_var(weft_program_block(program, 0), w->shapes[i].name);
        if (v) w->shapes[i].dtype = weft_var_dtype(v);
    }
}

/* Instructions that the device leaves to the host, and how many there are. */
static weft_status print_hosted(const cli_args *args, const weft_plan *plan, const char *device) {
    size_t nhosted = 0, n = weft_plan_ninstrs(plan);
    for (size_t i = 0; i < n; i++) {
        weft_plan_instr instr = weft_plan_instr_at(plan, i);
        const char *why, *type = weft_op_type(instr.op);
        weft_status status = weft_op_host_reason(args->context, device, type, &why);
        if (status) return status;
        if (why) printf("%s #%zu: %s\n", type, instr.op_index, why);
        nhosted += why != NULL;
    }
    printf("%zu of %zu instructions would run on the host\n", nhosted, n);
    return NULL;
}

/* Makes a plan of a program, which it destroys. */
static weft_status plan_program(weft_program *program, const wanted *w, weft_plan **out) {
    weft_plan_order *order = NULL;
    weft_status status = weft_plan_order_create(program, w->how, &order);
    weft_plan_options o = {WEFT_PLAN_OPTIONS_INIT, .order = order, .batch = w->batch, .feeds = w->shapes,
                           .nfeeds = w->nshapes};
    take_types(program, w);
    if (!status) status = weft_plan_create(program, &o, out);
    weft_plan_order_destroy(order);
    weft_program_destroy(program);
    return status;
}

static weft_status parse_program(const cli_args *args, const char *bytes, size_t nbytes, weft_program **out) {
    const char *dist = cli_value(args, "--dist");
    char *sidecar = NULL;
    size_t sidecar_nbytes = 0;
    weft_status status = dist ? cli_read(dist, &sidecar, &sidecar_nbytes) : NULL;
    if (!status)
        status =
            weft_program_parse(args->context, WEFT_FORM_TEXT, bytes, nbytes, sidecar, sidecar_nbytes, "stdin", out);
    free(sidecar);
    return status;
}

/* A text of any form: a plan that was printed earlier, or a program. */
static weft_status read_text(const cli_args *args, const char *path, const wanted *w, weft_plan **out) {
    static const char mark[] = "weft_plan:";
    char *bytes;
    size_t nbytes;
    weft_program *program = NULL;
    weft_status status = cli_read(path, &bytes, &nbytes);
    if (status) return status;
    if (strcmp(path, "-") != 0 || strncmp(bytes, mark, sizeof mark - 1) == 0)
        status = weft_plan_parse(args->context, bytes, nbytes, path, out);
    else
        status = parse_program(args, bytes, nbytes, &program);
    free(bytes);
    return program ? plan_program(program, w, out) : status;
}

static weft_status get_plan(const cli_args *args, const char *path, const wanted *w, weft_plan **out) {
    weft_program *program;
    if (strcmp(path, "-") == 0 || cli_ends_with(path, ".plan")) return read_text(args, path, w, out);
    weft_status status = weft_program_load(args->context, path, cli_value(args, "--dist"), &program);
    return status ? status : plan_program(program, w, out);
}

static int run(cli_args *args) {
    weft_plan *plan = NULL;
    cli_reading reading;
    wanted w = {.how = &reading.options};
    bool is_usable = cli_reading_init(&reading, args) && read_wanted(args, &w) && costs_options_are_good(args);
    bool chunks = is_usable && cli_given(args, "--chunks");
    weft_status status = chunks ? plan_chunks(args, args->positional[0]) : NULL;
    if (is_usable && !chunks) status = get_plan(args, args->positional[0], &w, &plan);
    cli_reading_fini(&reading);
    wanted_fini(&w);
    if (!is_usable) return EXIT_USAGE;
    if (chunks || status)
        ; /* all is said */
    else if (cli_given(args, "--device"))
        status = print_hosted(args, plan, cli_value(args, "--device"));
    else if (cli_given(args, "--costs"))
        status = costs_print(args, plan);
    else if (cli_given(args, "--json"))
        status = plan_json(args, plan);
    else if (cli_given(args, "--summary"))
        print_summary(plan);
    else
        status = print_plan(args, plan);
    weft_plan_destroy(plan);
    return status ? cli_fail(args, status) : EXIT_DONE;
}

const cli_command command_plan = {
    .name = "plan",
    .arguments = "PROGRAM|PLAN.plan [-o OUT] [--batch N] [--shape NAME=DIMS]... [--summary | --json | --costs | --chunks | --device D] "
                 "[--reading R [--late OP]]",
    .summary = "Plans a program: memory, instructions per stream, events; prints the plan or its summary.\n"
               "A file NAME.plan is a plan printed earlier: it is read back. - is a program or a plan on stdin.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = 1,
    .example = "weft plan dp.pdmodel --summary",
    .run = run,
};
