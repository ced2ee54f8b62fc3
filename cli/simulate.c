/* simulate.c: weft simulate: plays a program's plans on virtual clocks, tells how long steps take, what races in them
 * and who waits for whom. */
#include "cli/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "cli/session.h"
#include "cli/summary.h"
#include "weft/feeds.h"
#include "weft/profile.h"
#include "weft/simulate.h"

const cli_option simulate_options[] = {SIMULATE_OPTIONS("")};
const size_t nsimulate_options = sizeof simulate_options / sizeof *simulate_options;

static const cli_option options[] = {
    {"--ranks", 0, "N", "number of ranks; default: the number of programs, or what one program's rings say"},
    SIMULATE_OPTIONS(""),
    {"--feed", 0, "F", "feeds, of which steps and shapes are taken: .npz as of weft run; {rank}: a file per rank"},
    {"--steps", 0, "S", "number of steps; default: those in the feed, else 1"},
    {"--first-step", 0, "K", "number of the first step; default 0"},
    {"--fetch", 0, "VAR,...", "vars to keep until the end of a step, may be repeated; default: the program's fetch ops"},
    {"--plans", 0, "N", "shapes of the feeds that are kept planned; default 8"},
    {"--reading", 0, "R", READING_HELP},
    {"--late", 0, "OP", LATE_HELP},
    {"--unsafe", 0, NULL, "play plans that may race, as they may under any --reading but by_bytes"},
    {"--delay", 0, "OP:MS[:RANK]", "start op number OP of block 0 so many ms late; may be repeated"},
    {"--buckets", 0, NULL,
     "compare: one reduce per gradient, buckets of 25 MB, planned ones; --trace draws all three on one clock"},
    {"--trace", 0, "F", "a timeline: F.json (Chrome trace) or F.html; may be repeated"},
    JSON_REPORT_OPTION("on stderr"),
};

/* Steps of one shape: its plans and their simulation. */
typedef struct entry {
    size_t number; /* of the shape */
    weft_plan **plans;
    size_t nplans;
    weft_simulation *simulation;
    size_t used; /* the step that needed it last */
} entry;

typedef struct run {
    cli_session session;
    weft_cluster cluster;
    weft_profile *profile; /* --times */
    weft_fault *faults;
    size_t nfaults;
    long long nflight; /* steps in flight together: a step is so many of the program's */
    size_t *nops;      /* by program: of block 0, in one of these; NULL: nflight is 1 */
    long long first_step, nsteps, capacity;
    weft_feeds *feeds;
    entry *entries; /* room for capacity */
    size_t nentries, nplanned;
    entry *at; /* of the last step */
    double *seconds;
    size_t nraces; /* printed */
} run;

/* --- the command line --------------------------------------------------------------------------------------------- */

/* "OP[:RANK]" */
static bool parse_fault(const char *given, weft_fault *out) {
    long long op;
    int rank = -1, end = 0;
    if (sscanf(given, "%lld%n", &op, &end) != 1 || op < 0) return false;
    if (given[end]) {
        given += end;
        if (sscanf(given, ":%d%n", &rank, &end) != 1 || rank < 0 || given[end]) return false;
    }
    *out = (weft_fault){rank, op};
    return true;
}

static bool read_faults(run *r, const cli_args *args) {
    r->faults = calloc(args->ngiven + 1, sizeof *r->faults);
    for (size_t i = 0; r->faults && i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--fault") != 0) continue;
        if (parse_fault(args->values[i], &r->faults[r->nfaults++])) continue;
        cli_usage_error(args->command, "--fault: expected OP or OP:RANK, found \"%s\"", args->values[i]);
        return false;
    }
    return r->faults != NULL;
}

static bool read_options(run *r, const cli_args *args) {
    r->nflight = 1;
    r->capacity = 8;
    if (cli_given(args, "--buckets") && !simulate_buckets_good(args)) return false;
    if (!trace_name_is_good(args) || !cli_session_init(&r->session, args) || !read_faults(r, args)) return false;
    if (!cli_int(args, "--steps-in-flight", 1, 64, &r->nflight) ||
        !cli_int(args, "--steps", 0, 1LL << 40, &r->nsteps) ||
        !cli_int(args, "--first-step", 0, 1LL << 40, &r->first_step) ||
        !cli_int(args, "--plans", 1, 1 << 20, &r->capacity))
        return false;
    if (r->nflight == 1 || r->session.reading.options.reading == WEFT_READING_BY_NAME) return true;
    cli_usage_error(args->command, "--steps-in-flight: expected --reading by_name: by others steps never overlap");
    return false;
}

/* What was given by itself overrides the cluster's, links on all levels. */
static bool read_rates(weft_cluster *c, const cli_args *args) {
    double op_us = -1, link_us = -1, link_bytes = 0;
    if (!cli_double(args, "--rate-flops", &c->flops) || !cli_double(args, "--rate-bytes", &c->bytes) ||
        !cli_double(args, "--link-bytes", &link_bytes) || !cli_double(args, "--op-time", &op_us) ||
        !cli_double(args, "--link-latency", &link_us))
        return false;
    if (cli_given(args, "--op-time")) c->op_seconds = op_us * 1e-6;
    if (!c->nlinks) c->nlinks = 1;
    for (size_t i = 0; i < c->nlinks; i++) {
        if (cli_given(args, "--link-bytes")) c->links[i].bytes = link_bytes;
        if (cli_given(args, "--link-latency")) c->links[i].seconds = link_us * 1e-6;
    }
    return true;
}

/* --- making ------------------------------------------------------------------------------------------------------- */

/* Makes a step of each program as many of it as are in flight. */
static weft_status repeat_programs(run *r) {
    size_t nprograms = r->session.args->npositional;
    if (r->nflight < 2) return NULL;
    if (!(r->nops = calloc(nprograms, sizeof *r->nops))) return cli_no_memory();
    weft_status status = NULL;
    for (size_t i = 0; !status && i < nprograms; i++) {
        r->nops[i] = weft_block_nops(weft_program_block(r->session.programs[i], 0));
        status = weft_program_repeat(r->session.programs[i], (size_t)r->nflight);
    }
    return status;
}

static weft_status find_feeds(run *r) {
    const cli_session *s = &r->session;
    weft_feeds_options o = {WEFT_FEEDS_OPTIONS_INIT,
                            .programs = (const weft_program *const *)s->programs,
                            .nprograms = s->args->npositional,
                            .nranks = s->nranks,
                            .sets = (const weft_tensors *const *)s->feeds,
                            .per_rank = cli_session_feeds_per_rank(s),
                            .first_step = (size_t)r->first_step,
                            .nsteps = (size_t)r->nsteps};
    return weft_feeds_create(s->args->context, &o, &r->feeds);
}

static weft_status open_run(run *r) {
    cli_session *s = &r->session;
    weft_status status = cli_session_load_programs(s);
    if (!status) status = repeat_programs(r);
    if (!status) status = cli_session_make_orders(s);
    if (!status) status = cli_session_load_feeds(s);
    if (!status) status = find_feeds(r);
    if (status) return status;
    r->seconds = calloc(weft_feeds_nsteps(r->feeds) + 1, sizeof *r->seconds);
    r->entries = calloc((size_t)r->capacity, sizeof *r->entries);
    return r->seconds && r->entries ? NULL : cli_no_memory();
}

static void entry_fini(const run *r, entry *e) {
    weft_simulation_destroy(e->simulation);
    weft_plans_destroy(r->session.args->context, e->plans, e->nplans);
    *e = (entry){0};
}

static void close_run(run *r) {
    for (size_t i = 0; i < r->nentries; i++) entry_fini(r, &r->entries[i]);
    weft_feeds_destroy(r->feeds);
    weft_profile_destroy(r->profile);
    cli_session_fini(&r->session);
    free(r->entries);
    free(r->seconds);
    free(r->faults);
    free(r->nops);
}

static weft_status fill_entry(const run *r, size_t number, entry *e) {
    const cli_session *s = &r->session;
    bool traced = cli_given(s->args, "--trace");
    size_t nsteps = traced ? weft_feeds_nsteps(r->feeds) : 1;
    weft_plans_options how = {WEFT_PLANS_OPTIONS_INIT,
                              .programs = (const weft_program *const *)s->programs,
                              .nprograms = s->args->npositional,
                              .nranks = s->nranks,
                              .feeds = weft_feeds_types(r->feeds, number),
                              .nfeeds = (size_t)s->nranks,
                              .fetches = s->fetches,
                              .nfetches = s->nfetches,
                              .orders = (const weft_plan_order *const *)s->orders};
    weft_simulation_options o = {WEFT_SIMULATION_OPTIONS_INIT,
                                 .cluster = &r->cluster,
                                 .faults = r->faults,
                                 .nfaults = r->nfaults,
                                 .delays = s->delays,
                                 .ndelays = s->ndelays,
                                 .trace_steps = nsteps > INT32_MAX ? INT32_MAX : (int)nsteps,
                                 .unsafe = cli_given(s->args, "--unsafe")};
    e->number = number;
    weft_status status = weft_plans_create(s->args->context, &how, &e->plans, &e->nplans);
    return status ? status
                  : weft_simulation_create(s->args->context, (const weft_plan *const *)e->plans, e->nplans, s->nranks,
                                           &o, &e->simulation);
}

/* The entry of a shape: one that is kept, else a new one in place of that which was not needed for longest. */
static weft_status find_entry(run *r, size_t number, entry **out) {
    entry *oldest = r->entries;
    for (size_t i = 0; i < r->nentries; i++) {
        entry *e = &r->entries[i];
        if (e->number == number) return *out = e, NULL;
        if (e->used < oldest->used) oldest = e;
    }
    entry *e = r->nentries < (size_t)r->capacity ? &r->entries[r->nentries++] : oldest;
    entry_fini(r, e);
    r->nplanned++;
    *out = e;
    return fill_entry(r, number, e);
}

/* --- races -------------------------------------------------------------------------------------------------------- */

/* Which of the steps in flight an op is of, and its number there. */
static void print_access(const run *r, int rank, const weft_seen_access *a) {
    bool one_each = r->session.args->npositional > 1;
    long long nops = r->nops ? (long long)r->nops[one_each ? rank : 0] : 0, index = a->op_index;
    printf("%s #%lld", a->type, nops ? index % nops : index);
    if (nops) printf(" (step %lld of those in flight)", index / nops);
    printf(" on %s %s \"%s\" from %.6f to %.6f ms", a->stream, a->is_write ? "writes" : "reads", a->value,
           1e3 * a->start_seconds, 1e3 * a->end_seconds);
}

static void print_race(const run *r, const weft_seen_race *race) {
    printf("race: ");
    print_access(r, race->rank, &race->first);
    printf(", and after it in the program ");
    print_access(r, race->rank, &race->second);
    printf(" (rank %d", race->rank);
    if (race->count > 1) printf(" and %zu more", race->count - 1);
    printf(", step %llu)\n", (unsigned long long)race->step);
}

/* The races that a step was the first to show. */
static void print_races(run *r, size_t step) {
    for (size_t i = 0; i < weft_simulation_nraces(r->at->simulation); i++) {
        weft_seen_race race;
        weft_simulation_race_at(r->at->simulation, i, &race);
        if (race.step != step) continue;
        print_race(r, &race);
        r->nraces++;
    }
}

/* --- the summary -------------------------------------------------------------------------------------------------- */

/* Least and most over the ranks. */
typedef struct range {
    double least, most;
} range;

static void widen(range *r, double seconds, bool is_first) {
    if (is_first || seconds < r->least) r->least = seconds;
    if (is_first || seconds > r->most) r->most = seconds;
}

/* "1.234" or "1.234 to 2.345", in ms */
static const char *range_text(range r, char *out, size_t nbytes) {
    char most[40];
    snprintf(out, nbytes, "%.3f", 1e3 * r.least);
    snprintf(most, sizeof most, "%.3f", 1e3 * r.most);
    size_t n = strlen(out);
    if (strcmp(out, most) != 0) snprintf(out + n, nbytes - n, " to %s", most);
    return out;
}

/* Where the last step's time went, of all ranks in one line. */
static weft_status print_ranks(const weft_simulation *simulation, int nranks) {
    range compute = {0}, all = {0}, hidden = {0}, exposed = {0};
    char text[4][96];
    int worst = 0;
    for (int rank = 0; rank < nranks; rank++) {
        weft_rank_times t;
        weft_status status = weft_simulation_rank_times(simulation, rank, &t);
        if (status) return status;
        if (!rank || t.exposed_seconds > exposed.most) worst = rank;
        widen(&compute, t.compute_seconds, !rank);
        widen(&all, t.collective_seconds, !rank);
        widen(&hidden, t.collective_seconds - t.exposed_seconds, !rank);
        widen(&exposed, t.exposed_seconds, !rank);
    }
    fprintf(stderr,
            "summary: a rank: compute %s ms, collectives %s ms, of which %s hidden behind compute and %s exposed",
            range_text(compute, text[0], sizeof text[0]), range_text(all, text[1], sizeof text[1]),
            range_text(hidden, text[2], sizeof text[2]), range_text(exposed, text[3], sizeof text[3]));
    if (exposed.most > exposed.least) fprintf(stderr, " (most: rank %d)", worst);
    fputs("\n", stderr);
    return NULL;
}

/* Of every rank in the last step. */
static weft_status put_ranks(const weft_simulation *simulation, int nranks, json_t **into) {
    json_t *ranks = json_array();
    weft_status status = NULL;
    for (int rank = 0; !status && rank < nranks; rank++) {
        weft_rank_times t;
        if ((status = weft_simulation_rank_times(simulation, rank, &t))) break;
        cli_json_put(&ranks, NULL,
                     json_pack("{s:i, s:f, s:f, s:f}", "rank", rank, "compute_seconds", t.compute_seconds,
                               "collective_seconds", t.collective_seconds, "exposed_seconds", t.exposed_seconds));
    }
    cli_json_put(into, "rank_times", ranks);
    return status;
}

static weft_status print_summary(const run *r) {
    const weft_simulation *simulation = r->at->simulation;
    const cli_args *args = r->session.args;
    size_t nsteps = weft_feeds_nsteps(r->feeds);
    int nranks = r->session.nranks;
    summary made = {.nranks = nranks,
                    .nsteps = nsteps,
                    .seconds = r->seconds,
                    .nseconds = nsteps,
                    .nplanned = r->nplanned,
                    .nkept = r->nentries,
                    .ngone = r->nplanned - r->nentries,
                    .plan = r->at->plans[0],
                    .has_overlap = cli_given(args, "--trace")};
    weft_simulation_hidden(simulation, &made.ncollectives, &made.nhidden);
    weft_simulation_overlap(simulation, &made.collective_seconds, &made.hidden_seconds);
    if (cli_given(args, "--json")) {
        json_t *root = summary_json(&made);
        cli_json_put(&root, "races", json_integer((json_int_t)r->nraces));
        weft_status status = put_ranks(simulation, nranks, &root);
        if (!status) return cli_json_print(args, root, stderr);
        json_decref(root);
        return status;
    }
    summary_print(&made);
    weft_status status = print_ranks(simulation, nranks);
    if (status) return status;
    fprintf(stderr, "summary: nothing was computed, times are those of a model; %zu race%s seen\n", r->nraces,
            r->nraces == 1 ? "" : "s");
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static weft_status play(run *r) {
    size_t first = (size_t)r->first_step, end = first + weft_feeds_nsteps(r->feeds);
    for (size_t step = first; step < end; step++) {
        weft_status status = find_entry(r, weft_feeds_shape_of(r->feeds, step), &r->at);
        if (status) return status;
        r->at->used = step + 1;
        weft_simulation_set_step(r->at->simulation, step);
        if ((status = weft_simulation_run(r->at->simulation))) return status;
        print_races(r, step);
        r->seconds[step - first] = weft_simulation_step_seconds(r->at->simulation);
    }
    return NULL;
}

static weft_status save_trace(const run *r, const char *path) {
    const cli_args *args = r->session.args;
    char *bytes;
    size_t nbytes;
    weft_status status = cli_ends_with(path, ".html")
                             ? weft_simulation_trace_html(r->at->simulation, args->positional[0], &bytes, &nbytes)
                             : weft_simulation_trace_json(r->at->simulation, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, path, bytes, nbytes);
}

static weft_status save_traces(const run *r) {
    const cli_args *args = r->session.args;
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--trace") == 0) status = save_trace(r, args->values[i]);
    return status;
}

static weft_status compare_buckets(const run *r) {
    bucket_comparison c = {r->session.programs[0], r->session.nranks, &r->cluster, r->feeds};
    return simulate_buckets(r->session.args, &c);
}

static int run_simulate(cli_args *args) {
    run r = {.nflight = 1};
    char room[4096];
    const char *cluster = cli_value(args, "--cluster");
    if (cluster) cluster = cli_find_config(cluster, "clusters/", room, sizeof room);
    bool good = read_options(&r, args);
    weft_status status = good && cluster ? weft_cluster_load(args->context, cluster, &r.cluster) : NULL;
    if (!status && good && cli_given(args, "--times"))
        status = weft_profile_load(args->context, cli_value(args, "--times"), &r.profile);
    r.cluster.profile = r.profile;
    if (!status && good) good = read_rates(&r.cluster, args);
    if (!status && !good) {
        close_run(&r);
        return EXIT_USAGE;
    }
    if (!status) status = open_run(&r);
    if (!status && cli_given(args, "--buckets")) {
        status = compare_buckets(&r);
        int result = status ? cli_fail(args, status) : EXIT_DONE;
        close_run(&r);
        return result;
    }
    if (!status) status = play(&r);
    bool has_played = r.at && r.at->simulation;
    if (status && has_played)
        weft_status_free(save_traces(&r)); /* of a step that fails, too: the first failure is told */
    if (!status) status = save_traces(&r);
    if (!status) status = print_summary(&r);
    int result = status ? cli_fail(args, status) : r.nraces ? EXIT_WORK_FAILED : EXIT_DONE;
    close_run(&r);
    return result;
}

const cli_command command_simulate = {
    .name = "simulate",
    .arguments = "PROGRAM... [--ranks N] [--cluster FILE.yaml] [--feed F] [--steps S] [--trace F]",
    .summary = "Plays a program's plans on virtual clocks: one program for all ranks, or one each.\n"
               "Nothing is computed, and no parameters are needed. Tells how long a step takes by a model, which ops "
               "race in it (exit status 1),\n"
               "and who waits for a rank that dies.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = -1,
    .example = "weft simulate dp.pdmodel --ranks 16 --cluster configs/clusters/h100_nodes.yaml --trace steps.html",
    .run = run_simulate,
};
