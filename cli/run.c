/* run.c: weft run: trains, prints what was fetched, saves what was asked for. */
#include "cli/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_option options[] = {
    {"--ranks", 0, "N", "number of ranks, threads of this process; default: the number of programs"},
    {"--startup", 0, "F", "a program that initialises what no file gives; {rank}: one per rank"},
    {"--params", 0, "F", "parameters: .npz or .pdiparams; a rank's slice follows from its dist attrs"},
    {"--load", 0, "F", "go on from what --save wrote; {rank}: a file per rank"},
    {"--feed", 0, "F", "feeds: .npz with keys step/name, or name for every step; {rank}: a file per rank"},
    {"--steps", 0, "S", "number of steps; default: those in the feed, else 1"},
    {"--first-step", 0, "K", "number of the first step; default: where the run that --load reads ended, else 0"},
    {"--fetch", 0, "VAR,...", "vars to fetch; default: the program's fetch ops"},
    {"--save", 0, "F", "persistables, in .npz also fetches, after the last step; {rank}: a file per rank"},
    {"--plans", 0, "N", "shapes of the feeds that are kept planned; default 8"},
    {"--threads", 0, "T", "threads that one stream's kernels may use; default 1"},
    {"--no-fuse", 0, NULL,
     "run every op alone: none is fused with its neighbours by tiles of rows (slower, the same results)"},
    {"--reading", 0, "R", READING_HELP},
    {"--late", 0, "OP", LATE_HELP},
    {"--unsafe", 0, NULL, "run although ops may race, as they may under any --reading but by_bytes"},
    {"--delay", 0, "OP:MS[:RANK]", "start op number OP of block 0 so many ms late; may be repeated"},
    {"--device", 0, "D", "cpu (default); null: compute nothing, play the plan on virtual clocks"},
    {"--fault", 0, "OP[:RANK]", "null: a rank dies before op number OP of block 0; may be repeated"},
    {"--steps-in-flight", 0, "N",
     "null: N steps of the program one right after the other, as one; with --reading by_name"},
    {"--rate-flops", 0, "N", "null: flops a second; default 1e14"},
    {"--rate-bytes", 0, "N", "null: bytes a second, read or written; default 2e12"},
    {"--op-time", 0, "US", "null: microseconds that every op takes beside that; default 2"},
    {"--link-bytes", 0, "N", "null: bytes a second from one member of a ring to the next; default 5e10"},
    {"--link-latency", 0, "US", "null: microseconds that each of their messages takes beside that; default 5"},
    {"--watchdog", 0, "S[:F]",
     "end a run in which a collective takes S seconds, and 3 times what is usual; F in the first step; default 30:300"},
    {"--no-watchdog", 0, NULL, "let collectives wait without a limit"},
    {"--trace", 0, "F", "a timeline: F.json (Chrome trace) or F.html; may be repeated"},
    {"--profile", 0, "[=F]",
     "time per op type and op, against the machine's roofline, and memory; F.csv, F.json or text"},
    {"--seed", 0, "K", "seed of random ops; default: that of the run that --load reads, else 0"},
    {"--expect", 0, "F", "compare the first fetch, averaged over ranks, with `losses` in F.npz"},
    {"--tolerance", 0, "E", "largest relative difference for --expect; default 1e-4"},
};

/* Everything that a run owns. */
typedef struct session {
    const cli_args *args;
    int nranks;
    weft_program **programs;
    weft_tensors *params;
    run_state state; /* where the run begins; at the end, where it ended */
    weft_tensors **feeds;
    size_t nfeeds;
    char *fetch_list;
    const char **fetches;
    size_t nfetches;
    weft_trainer *trainer;
    double *seconds; /* per step */
    cli_reading reading;
    weft_plan_order **orders; /* by program; NULL: by_bytes */
    weft_delay *delays;
    size_t ndelays;
    double watchdog, first_step; /* seconds; 0: the default */
    null_run null_device;
} session;

static void session_fini(session *s) {
    weft_trainer_destroy(s->trainer);
    for (size_t i = 0; s->feeds && i < s->nfeeds; i++) weft_tensors_destroy(s->feeds[i]);
    free(s->feeds);
    weft_tensors_destroy(s->params);
    run_state_fini(&s->state);
    for (size_t i = 0; s->programs && i < s->args->npositional; i++) weft_program_destroy(s->programs[i]);
    free(s->programs);
    free(s->fetch_list);
    free(s->fetches);
    free(s->seconds);
    free(s->delays);
    for (size_t i = 0; s->orders && i < s->args->npositional; i++) weft_plan_order_destroy(s->orders[i]);
    free(s->orders);
    cli_reading_fini(&s->reading);
    null_run_fini(&s->null_device);
}

char *rank_path(const char *path, int rank) {
    static const char mark[] = "{rank}";
    size_t room = strlen(path) + 1, length = 0;
    for (const char *at = path; (at = strstr(at, mark)); at += sizeof mark - 1) room += 12;
    char *out = malloc(room);
    if (!out) return NULL;
    for (const char *at = path; *at;) {
        if (strncmp(at, mark, sizeof mark - 1) == 0) {
            length += (size_t)snprintf(out + length, room - length, "%d", rank);
            at += sizeof mark - 1;
        } else {
            out[length++] = *at++;
        }
    }
    out[length] = '\0';
    return out;
}

bool has_rank(const char *path) {
    return strstr(path, "{rank}") != NULL;
}

static weft_status load_programs(session *s) {
    const cli_args *args = s->args;
    s->programs = calloc(args->npositional, sizeof *s->programs);
    if (!s->programs) return cli_no_memory();
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->npositional; i++)
        status = weft_program_load(args->context, args->positional[i], NULL, &s->programs[i]);
    return status;
}

static weft_status make_orders(session *s) {
    if (s->reading.options.reading == WEFT_READING_BY_BYTES) return NULL;
    s->orders = calloc(s->args->npositional, sizeof *s->orders);
    if (!s->orders) return cli_no_memory();
    weft_status status = NULL;
    for (size_t i = 0; !status && i < s->args->npositional; i++)
        status = weft_plan_order_create(s->programs[i], &s->reading.options, &s->orders[i]);
    return status;
}

/* One set for the global batch, or one a rank. */
static weft_status load_feeds(session *s, const char *path) {
    size_t nfiles = has_rank(path) ? (size_t)s->nranks : 1;
    s->feeds = calloc(nfiles, sizeof *s->feeds);
    if (!s->feeds) return cli_no_memory();
    s->nfeeds = nfiles;
    weft_status status = NULL;
    for (size_t i = 0; !status && i < nfiles; i++) {
        char *file = rank_path(path, (int)i);
        if (!file) return cli_no_memory();
        size_t program = s->args->npositional > 1 && i < s->args->npositional ? i : 0;
        status = weft_tensors_load(s->args->context, file, s->programs[program], &s->feeds[i]);
        free(file);
    }
    return status;
}

/* "a,b" into names; the list is cut in place. */
static weft_status split_fetches(session *s, const char *list) {
    s->fetch_list = strdup(list);
    s->fetches = calloc(strlen(list) + 1, sizeof *s->fetches);
    if (!s->fetch_list || !s->fetches) return cli_no_memory();
    for (char *at = s->fetch_list; at;) {
        char *comma = strchr(at, ',');
        if (comma) *comma++ = '\0';
        if (*at) s->fetches[s->nfetches++] = at;
        at = comma;
    }
    return NULL;
}

/* "OP:MS[:RANK]" */
static bool parse_delay(const char *given, weft_delay *out) {
    long long op;
    double ms;
    int rank = -1, end = 0;
    if (sscanf(given, "%lld:%lf%n", &op, &ms, &end) != 2 || op < 0 || !(ms >= 0 && ms < 1e9)) return false;
    if (given[end] && (sscanf(given + end, ":%d%n", &rank, &end) != 1 || rank < 0)) return false;
    *out = (weft_delay){rank, op, ms / 1e3};
    return true;
}

/* "S[:F]" into seconds, 0 where nothing is given; false after printing a usage error. */
static bool read_watchdog(const cli_args *args, double *out_least, double *out_first) {
    const char *given = cli_value(args, "--watchdog");
    int end = 0;
    *out_least = *out_first = 0;
    if (!given) return true;
    bool good = sscanf(given, "%lf%n", out_least, &end) == 1 && *out_least > 0;
    if (good && given[end]) {
        int from = end;
        good = sscanf(given + from, ":%lf%n", out_first, &end) == 1 && *out_first > 0 && !given[from + end];
    }
    if (!good) cli_usage_error(args->command, "--watchdog: expected seconds, S or S:F, found \"%s\"", given);
    return good;
}

/* False after printing a usage error. */
static bool read_delays(session *s) {
    const cli_args *args = s->args;
    s->delays = calloc(args->ngiven + 1, sizeof *s->delays);
    for (size_t i = 0; s->delays && i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--delay") != 0) continue;
        if (parse_delay(args->values[i], &s->delays[s->ndelays++])) continue;
        cli_usage_error(args->command, "--delay: expected OP:MS or OP:MS:RANK, found \"%s\"", args->values[i]);
        return false;
    }
    return s->delays != NULL;
}

/* Numbers of the command line, checked. */
typedef struct numbers {
    long long ranks, steps, first_step, threads, seed, plans;
} numbers;

static weft_status make_trainer(session *s, const numbers *n) {
    const cli_args *args = s->args;
    const char *load = cli_value(args, "--load");
    weft_trainer_options o = {
        .programs = (const weft_program *const *)s->programs,
        .nprograms = args->npositional,
        .nranks = s->nranks,
        .startups = (const weft_program *const *)s->state.startups,
        .nstartups = s->state.nstartups,
        .state = (const weft_tensors *const *)s->state.tensors,
        .state_per_rank = load && has_rank(load),
        .state_place = load,
        .params = s->params,
        .params_place = cli_value(args, "--params"),
        .feeds = (const weft_tensors *const *)s->feeds,
        .feeds_per_rank = s->feeds && has_rank(cli_value(args, "--feed")),
        .fetches = s->fetches,
        .nfetches = s->nfetches,
        .first_step = (size_t)s->state.step,
        .nsteps = (size_t)n->steps,
        .plan_capacity = (size_t)n->plans,
        .orders = (const weft_plan_order *const *)s->orders,
        .executor = {.device = s->null_device.is_given ? WEFT_DEVICE_NULL : WEFT_DEVICE_CPU,
                     .null_device = &s->null_device.options,
                     .nthreads = (int)n->threads,
                     .seed = (uint64_t)s->state.seed,
                     .trace = cli_given(args, "--trace"),
                     .profile = cli_given(args, "--profile"),
                     .no_fuse = cli_given(args, "--no-fuse"),
                     .unsafe = cli_given(args, "--unsafe"),
                     .watchdog_seconds = s->watchdog,
                     .first_step_seconds = s->first_step,
                     .no_watchdog = cli_given(args, "--no-watchdog"),
                     .delays = s->delays,
                     .ndelays = s->ndelays},
    };
    return weft_trainer_create(args->context, &o, &s->trainer);
}

/* What was given for before the first step has been taken over: it may be much memory. */
static void close_sources(session *s) {
    int64_t step = s->state.step, seed = s->state.seed;
    run_state_fini(&s->state);
    weft_tensors_destroy(s->params);
    s->params = NULL;
    s->state = (run_state){.step = step, .seed = seed};
}

static weft_status open_session(session *s, const numbers *n) {
    const cli_args *args = s->args;
    const char *params = cli_value(args, "--params"), *feed = cli_value(args, "--feed"),
               *fetch = cli_value(args, "--fetch");
    weft_status status = load_programs(s);
    if (!status) status = null_run_repeat(&s->null_device, s->programs, args->npositional);
    if (!status) status = make_orders(s);
    bool computes = !s->null_device.is_given; /* else only programs and the types of feeds are looked at */
    if (!status && computes && params) status = weft_tensors_load(args->context, params, s->programs[0], &s->params);
    if (!status && computes) status = run_state_load(&s->state, args, s->nranks, s->programs);
    if (cli_given(args, "--first-step")) s->state.step = n->first_step;
    if (cli_given(args, "--seed")) s->state.seed = n->seed;
    if (!status && feed) status = load_feeds(s, feed);
    if (!status && fetch) status = split_fetches(s, fetch);
    if (!status) status = make_trainer(s, n);
    if (!status) close_sources(s);
    if (!status && !(s->seconds = calloc(weft_trainer_nsteps(s->trainer) + 1, sizeof *s->seconds)))
        status = cli_no_memory();
    return status;
}

/* Prints the step's CSV lines; the mean of the first fetch over the ranks that have it, NAN if none has. */
static double print_fetches(const weft_trainer *trainer, size_t step) {
    double sum = 0;
    int count = 0;
    for (size_t f = 0; f < weft_trainer_nfetches(trainer); f++)
        for (int rank = 0; rank < weft_trainer_nranks(trainer); rank++) {
            double value;
            if (!weft_trainer_fetch_scalar(trainer, rank, f, &value)) continue;
            printf("%zu,%d,%s,%.9g\n", step, rank, weft_trainer_fetch_name(trainer, f), value);
            if (f == 0) sum += value, count++;
        }
    return count ? sum / count : NAN;
}

static void show_progress(size_t step, size_t nsteps, double loss) {
    if (!isatty(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[Kstep %zu/%zu", step + 1, nsteps);
    if (!isnan(loss)) fprintf(stderr, "  loss %.6g", loss);
    if (step + 1 == nsteps) fputs("\r\033[K", stderr);
}

static weft_status train(session *s, expectation *expected) {
    size_t first = weft_trainer_first_step(s->trainer), end = first + weft_trainer_nsteps(s->trainer);
    if (weft_trainer_nfetches(s->trainer)) printf("step,rank,name,value\n");
    for (size_t step = first; step < end; step++) {
        weft_status status = weft_trainer_step(s->trainer, step);
        if (status) return status;
        null_run_print_races(&s->null_device, weft_trainer_executor(s->trainer), step);
        s->state.step = (int64_t)step + 1;
        s->seconds[step - first] = weft_executor_step_seconds(weft_trainer_executor(s->trainer));
        double loss = print_fetches(s->trainer, step);
        expectation_compare(expected, step, loss);
        show_progress(step, end, loss);
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_summary(const session *s) {
    const weft_executor *executor = weft_trainer_executor(s->trainer);
    size_t nsteps = weft_trainer_nsteps(s->trainer);
    qsort(s->seconds, nsteps, sizeof *s->seconds, by_value);
    fprintf(stderr, "summary: %zu step%s on %d rank%s, %.2f ms a step (median)\n", nsteps, nsteps == 1 ? "" : "s",
            s->nranks, s->nranks == 1 ? "" : "s", nsteps ? 1e3 * s->seconds[nsteps / 2] : 0);
    weft_plan_cache_stats cache;
    weft_plan_cache_get_stats(weft_trainer_plan_cache(s->trainer), &cache);
    if (cache.nmisses > 1)
        fprintf(stderr, "summary: feeds changed shape: planned %zu times, %zu plans kept, %zu gone\n", cache.nmisses,
                cache.nplans, cache.nevictions);
    print_memory(s->trainer);
    if (!cli_given(s->args, "--trace")) return;
    size_t ncollectives, nhidden;
    double total, hidden;
    weft_executor_hidden(executor, &ncollectives, &nhidden);
    weft_executor_overlap(executor, &total, &hidden);
    fprintf(
        stderr,
        "summary: gradient collectives, all ranks and steps: %zu, of which %zu hidden behind compute and %zu exposed; "
        "%.0f%% of their time hidden\n",
        ncollectives, nhidden, ncollectives - nhidden, total > 0 ? 100 * hidden / total : 0);
}

static int run(cli_args *args) {
    numbers n = {.ranks = (long long)args->npositional, .threads = 1};
    if (!cli_int(args, "--ranks", 1, 4096, &n.ranks) || !cli_int(args, "--steps", 0, 1LL << 40, &n.steps) ||
        !cli_int(args, "--first-step", 0, 1LL << 40, &n.first_step) ||
        !cli_int(args, "--threads", 1, 1024, &n.threads) || !cli_int(args, "--seed", 0, (1ULL << 63) - 1, &n.seed) ||
        !cli_int(args, "--plans", 1, 1 << 20, &n.plans))
        return EXIT_USAGE;
    if (args->npositional > 1 && (long long)args->npositional != n.ranks)
        return cli_usage_error(args->command, "%zu programs for %lld ranks: expected one program, or one each",
                               args->npositional, n.ranks);
    expectation expected = {.tolerance = 1e-4};
    if (!cli_double(args, "--tolerance", &expected.tolerance)) return EXIT_USAGE;
    session s = {.args = args, .nranks = (int)n.ranks};
    if (!cli_reading_init(&s.reading, args) || !read_delays(&s) || !read_watchdog(args, &s.watchdog, &s.first_step) ||
        !null_run_init(&s.null_device, args)) {
        session_fini(&s);
        return EXIT_USAGE;
    }
    if (s.null_device.nsteps > 1 && s.reading.options.reading != WEFT_READING_BY_NAME) {
        session_fini(&s);
        return cli_usage_error(args->command,
                               "--steps-in-flight: expected --reading by_name: by others steps never overlap");
    }
    weft_status status = expectation_init(&expected, args);
    if (!status) status = open_session(&s, &n);
    if (!status) status = train(&s, &expected);
    if (!status) status = save_results(args, s.trainer, &s.state, s.programs);
    bool shows_failures = s.null_device.is_given && s.trainer;
    if (status && shows_failures) weft_status_free(save_traces(args, s.trainer)); /* the first failure is reported */
    if (!status) status = save_traces(args, s.trainer);
    if (!status) print_summary(&s);
    if (!status) status = save_profiles(args, s.trainer);
    if (!status && s.null_device.is_given) status = null_run_report(&s.null_device, s.trainer);
    int result = EXIT_DONE;
    if (status)
        result = cli_fail(args, status);
    else if (!expectation_held(&expected) || s.null_device.nraces)
        result = EXIT_WORK_FAILED;
    session_fini(&s);
    expectation_fini(&expected);
    return result;
}

const cli_command command_run = {
    .name = "run",
    .arguments =
        "PROGRAM... [--ranks N] [--startup F] [--params F] [--load F] [--feed F] [--steps S] [--fetch VAR,...] "
        "[--save F]",
    .summary =
        "Trains a program on ranks that are threads of this process: one program for all ranks, or one each.\n"
        "Prints step,rank,name,value for every fetched var of one element.\n"
        "--device null computes nothing: it tells how long a step takes by a model, which ops race in it, and who\n"
        "waits for a rank that dies.",
    .options = options,
    .noptions = sizeof options / sizeof *options,
    .min_positional = 1,
    .max_positional = -1,
    .example = "weft run dp.pdmodel --ranks 4 --params params.npz --feed feeds.npz --fetch mean_0.tmp_0",
    .run = run,
};
