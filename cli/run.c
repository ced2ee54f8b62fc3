/* run.c: weft run: trains, prints what was fetched, saves what was asked for. */
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/run_parts.h"
#include "cli/simulate.h"
#include "cli/summary.h"
#include "weft/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TIMED_STEPS = 4096, TRACED_STEPS = 20, LINES_NBYTES = 1 << 16 };

/* Everything that a run owns. */
typedef struct session {
    const cli_args *args;
    cli_session in;
    weft_tensors *params;
    run_state state; /* where the run begins; at the end, where it ended */
    weft_trainer *trainer;
    double *seconds;   /* of the last steps: TIMED_STEPS of them, step s at s % TIMED_STEPS */
    size_t ndone;      /* steps */
    int64_t saved;     /* the state before this step is in --save; -1: none */
    bool is_stopped;   /* by a signal */
    long long ntraced; /* --trace-steps */
    replan replan;
    weft_program *replaced;      /* by one with other buckets */
    double watchdog, first_step; /* seconds; 0: the default */
    run_rings rings;
    weft_scalar *scalars; /* what was fetched, of all ranks */
    /* Where a launcher has started several processes: */
    weft_processes *processes;    /* NULL: this one has all ranks */
    const struct comm_host *host; /* which it has */
    bool speaks;                  /* for all */
    weft_collectives collectives;
    progress shown;
} session;

static void session_fini(session *s) {
    weft_trainer_destroy(s->trainer);
    weft_program_destroy(s->replaced);
    weft_tensors_destroy(s->params);
    run_state_fini(&s->state);
    cli_session_fini(&s->in);
    free(s->seconds);
    free(s->scalars);
}

static weft_status join_processes(session *s) {
    s->speaks = true;
    if (!weft_processes_launched() && s->collectives == WEFT_COLLECTIVES_LIBRARY)
        return weft_status_create(
            WEFT_INVALID_ARGUMENT, NULL,
            "--collectives library is MPI's: ranks are threads of one process; --launch starts several");
    if (!weft_processes_launched()) return NULL;
    weft_status status = weft_processes_join(s->args->context, &s->processes);
    if (status) return status;
    s->speaks = weft_processes_index(s->processes) == 0;
    weft_processes_ranks(s->processes, s->in.nranks, &s->in.first_rank, &s->in.nlocal);
    weft_processes_set_collectives(s->processes, s->collectives);
    if (s->speaks && s->collectives == WEFT_COLLECTIVES_LIBRARY)
        fprintf(stderr,
                "weft run: note: --collectives library: MPI adds up in an order of its own: results are not those of "
                "thread ranks to the bit, and may differ from run to run\n");
    return weft_processes_host(s->processes, s->in.nranks, &s->host);
}

/* Others may still write files; after a failure they may not come at all. */
static void leave_processes(weft_processes *processes, int result, bool has_failed) {
    fflush(stdout);
    weft_processes_leave(processes, result, has_failed ? 1 : 600);
}

/* Numbers of the command line, checked. */
typedef struct numbers {
    long long steps, first_step, threads, seed, plans, save_every, trace_steps, check_finite;
} numbers;

static weft_status make_trainer(session *s, const numbers *n) {
    const cli_args *args = s->args;
    const char *load = cli_value(args, "--load");
    weft_trainer_options o = {
        WEFT_TRAINER_OPTIONS_INIT,
        .programs = (const weft_program *const *)s->in.programs,
        .nprograms = args->npositional,
        .nranks = s->in.nranks,
        .startups = (const weft_program *const *)s->state.startups,
        .nstartups = s->state.nstartups,
        .state = (const weft_tensors *const *)s->state.tensors,
        .state_per_rank = s->replaced || (load && has_rank(load)),
        .state_place = load,
        .params = s->params,
        .params_place = cli_value(args, "--params"),
        .feeds = (const weft_tensors *const *)s->in.feeds,
        .feeds_per_rank = cli_session_feeds_per_rank(&s->in),
        .fetches = s->in.fetches,
        .nfetches = s->in.nfetches,
        .first_step = (size_t)s->state.step,
        .nsteps = (size_t)n->steps,
        .plan_capacity = (size_t)n->plans,
        .orders = (const weft_plan_order *const *)s->in.orders,
        .executor =
            &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT,
                                     .nthreads = (int)n->threads,
                                     .seed = (uint64_t)s->state.seed,
                                     .trace = cli_given(args, "--trace"),
                                     .trace_steps = (int)n->trace_steps,
                                     .profile = cli_given(args, "--profile") || (s->replan.nsteps && !s->replaced),
                                     .no_fuse = cli_given(args, "--no-fuse"),
                                     .check_finite_every = (uint64_t)n->check_finite,
                                     .device = cli_value(args, "--device"),
                                     .strict_device = cli_given(args, "--strict-device"),
                                     .no_graph = cli_given(args, "--no-graph"),
                                     .rings = s->rings.engine[0] ? s->rings.engine : NULL,
                                     .rings_gb_per_second = s->rings.gb_per_second,
                                     .unsafe = cli_given(args, "--unsafe"),
                                     .watchdog_seconds = s->watchdog,
                                     .first_step_seconds = s->first_step,
                                     .no_watchdog = cli_given(args, "--no-watchdog"),
                                     .host = s->host,
                                     .delays = s->in.delays,
                                     .ndelays = s->in.ndelays},
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

static weft_status check_replicas(cli_session *in) {
    const weft_program *const *programs = (const weft_program *const *)in->programs;
    weft_status drift = cli_session_load_all_programs(in);
    if (!drift) drift = weft_verify_replicas(programs, in->args->npositional, in->nranks);
    cli_session_drop_others(in);
    if (weft_status_code(drift) != WEFT_INVALID_PROGRAM) return drift;
    weft_status status = weft_status_create(WEFT_INVALID_PROGRAM, weft_status_place(drift),
                                            "%s; --unsafe runs it all the same", weft_status_message(drift));
    weft_status_free(drift);
    return status;
}

/* Of several processes one looks at the programs of all ranks: the launcher, so that it is said before any is started;
 * with another launcher the one that speaks. */
static weft_status check_programs(session *s) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < s->args->npositional; i++)
        if (s->in.programs[i]) status = weft_program_check_types(s->in.programs[i]);
    bool by_others = s->processes && (!s->speaks || weft_processes_watched(s->processes));
    return status || by_others || cli_given(s->args, "--unsafe") ? status : check_replicas(&s->in);
}

static weft_status open_session(session *s, const numbers *n) {
    const cli_args *args = s->args;
    const char *params = cli_value(args, "--params");
    weft_status status = cli_session_load_programs(&s->in);
    if (!status) status = check_programs(s);
    if (!status) status = cli_session_make_orders(&s->in);
    if (!status && params) status = cli_session_load_params(&s->in, params, &s->params);
    if (!status) status = run_state_load(&s->state, &s->in);
    if (cli_given(args, "--first-step")) s->state.step = n->first_step;
    if (cli_given(args, "--seed")) s->state.seed = n->seed;
    s->in.first_step = (size_t)s->state.step;
    s->in.nsteps = (size_t)n->steps;
    if (!status) status = cli_session_load_feeds(&s->in);
    if (!status) status = make_trainer(s, n);
    if (!status) close_sources(s);
    if (!status && !(s->seconds = calloc(TIMED_STEPS, sizeof *s->seconds))) status = cli_no_memory();
    return status;
}

/* Prints the step's CSV lines; *out_loss: the mean of the first fetch over the ranks that have it, NAN if none has. */
static weft_status print_fetches(const session *s, size_t step, double *out_loss) {
    const weft_trainer *trainer = s->trainer;
    double sum = 0;
    int count = 0, nranks = weft_trainer_nranks(trainer);
    weft_status status = weft_trainer_fetch_scalars(s->trainer, s->scalars);
    if (status) return status;
    for (size_t f = 0; f < weft_trainer_nfetches(trainer); f++)
        for (int rank = 0; rank < nranks; rank++) {
            const weft_scalar *v = &s->scalars[f * (size_t)nranks + (size_t)rank];
            if (!v->is_there) continue;
            if (s->speaks) printf("%zu,%d,%s,%.9g\n", step, rank, weft_trainer_fetch_name(trainer, f), v->value);
            if (f == 0) sum += v->value, count++;
        }
    *out_loss = count ? sum / count : NAN;
    return NULL;
}

/* Lines go out whole: before the buffer is full, and every second. */
static void flush_lines(size_t nlines, time_t *flushed) {
    static size_t nwaiting;
    struct timespec now;
    nwaiting += nlines;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (now.tv_sec == *flushed && nwaiting * 100 < LINES_NBYTES / 2) return;
    fflush(stdout);
    *flushed = now.tv_sec;
    nwaiting = 0;
}

static weft_status run_step(session *s, expectation *expected, size_t step, size_t end) {
    weft_status status = weft_trainer_step(s->trainer, step);
    if (status) return status;
    s->state.step = (int64_t)step + 1;
    s->seconds[s->ndone++ % TIMED_STEPS] = weft_executor_step_seconds(weft_trainer_executor(s->trainer));
    double loss;
    status = print_fetches(s, step, &loss);
    if (status || !s->speaks) return status;
    expectation_compare(expected, step, loss);
    progress_step(&s->shown, step, end, loss);
    return NULL;
}

static weft_status save(session *s, bool is_last) {
    if (!cli_given(s->args, "--save")) return NULL;
    weft_status status = save_results(s->args, s->trainer, &s->state, s->in.programs, s->speaks, is_last);
    if (!status) s->saved = s->state.step;
    return status;
}

/* A disk that is full now need not be full at the end: the run goes on. */
static weft_status save_meanwhile(session *s, long long every, size_t end) {
    if (!every || s->state.step % every || (size_t)s->state.step == end) return NULL;
    weft_status status = save(s, false);
    if (weft_status_code(status) != WEFT_IO) return status;
    fprintf(stderr, "weft run: warning: step %lld is not saved: %s\n", (long long)s->state.step - 1,
            weft_status_message(status));
    weft_status_free(status);
    return NULL;
}

/* What the CSV has no line for, and how to get it all the same. After the first step: then each fetch has its value. */
static void note_unprinted(const session *s) {
    const weft_trainer *trainer = s->trainer;
    bool is_saved = cli_given(s->args, "--save");
    size_t nfetches = weft_trainer_nfetches(trainer);
    int nranks = weft_trainer_nranks(trainer);
    if (!nfetches)
        fprintf(stderr,
                "weft run: note: nothing is fetched: the program has no fetch op; --fetch VAR,... names vars\n");
    for (size_t f = 0; f < nfetches; f++) {
        bool is_printed = false;
        for (int rank = 0; rank < nranks; rank++) is_printed |= s->scalars[f * (size_t)nranks + (size_t)rank].is_there;
        if (is_printed) continue;
        fprintf(stderr, "weft run: note: fetch \"%s\" is not one number: stdout has no line for it; %s\n",
                weft_trainer_fetch_name(trainer, f), is_saved ? "--save keeps it" : "--save F.npz would keep it");
    }
}

/* What every rank that is here has now is where it goes on. */
static weft_status keep_state(session *s) {
    size_t nranks = (size_t)s->in.nranks;
    weft_status status = NULL;
    if (!(s->state.tensors = calloc(nranks, sizeof *s->state.tensors))) return cli_no_memory();
    s->state.ntensors = nranks;
    for (size_t r = 0; !status && r < nranks; r++)
        if (cli_session_has_rank(&s->in, r)) status = weft_trainer_rank_state(s->trainer, (int)r, &s->state.tensors[r]);
    return status;
}

/* The rest of the run, by a program with other buckets. */
static weft_status go_on_replanned(session *s, const numbers *n, size_t end) {
    replanned made;
    weft_plan_summary now;
    numbers rest = *n;
    weft_status status = replan_program(&s->in, &s->replan, s->trainer, s->host, &made);
    if (!status) status = keep_state(s);
    if (status) return status;
    weft_trainer_destroy(s->trainer);
    s->trainer = NULL;
    s->replaced = s->in.programs[0];
    s->in.programs[0] = made.program;
    rest.steps = (long long)end - s->state.step;
    status = make_trainer(s, &rest);
    if (status) return status;
    close_sources(s);
    if (!s->speaks) return NULL;
    weft_plan_summarize(weft_trainer_plan(s->trainer, s->in.first_rank), &now);
    fprintf(
        stderr,
        "weft run: replanned behind step %lld: %zu collectives, now %zu; a step took %.3f ms, predicted are %.3f, no "
        "buckets end one before %.3f; proved: same bits\n",
        (long long)s->state.step - 1, made.ncollectives, now.ncollectives, 1e3 * made.measured_seconds,
        1e3 * made.predicted_seconds, 1e3 * made.bound_seconds);
    return NULL;
}

static weft_status train(session *s, const numbers *n, expectation *expected) {
    size_t first = weft_trainer_first_step(s->trainer), end = first + weft_trainer_nsteps(s->trainer);
    size_t nscalars = weft_trainer_nfetches(s->trainer) * (size_t)weft_trainer_nranks(s->trainer);
    time_t flushed = 0;
    s->scalars = calloc(nscalars + 1, sizeof *s->scalars);
    if (!s->scalars) return cli_no_memory();
    setvbuf(stdout, NULL, _IOFBF, LINES_NBYTES);
    if (nscalars && s->speaks) printf("step,rank,name,value\n");
    fflush(stdout);
    progress_begin(&s->shown, first);
    for (size_t step = first; step < end && !s->is_stopped; step++) {
        weft_status status = run_step(s, expected, step, end);
        if (nscalars) flush_lines(nscalars, &flushed);
        if (!status && step == first && s->speaks) note_unprinted(s);
        if (!status) status = save_meanwhile(s, n->save_every, end);
        if (!status) status = weft_trainer_stops(s->trainer, stop_asked(), &s->is_stopped);
        if (!status && (long long)s->ndone == s->replan.nsteps && step + 1 < end && !s->is_stopped)
            status = go_on_replanned(s, n, end);
        if (status) return status;
    }
    s->is_stopped = s->is_stopped && (size_t)s->state.step < end;
    return NULL;
}

static summary make_summary(const session *s) {
    const weft_executor *executor = weft_trainer_executor(s->trainer);
    weft_plan_cache_stats cache;
    size_t nlast = (size_t)s->ntraced;
    weft_plan_cache_get_stats(weft_trainer_plan_cache(s->trainer), &cache);
    summary made = {.nranks = s->in.nranks,
                    .nsteps = s->ndone,
                    .seconds = s->seconds,
                    .nseconds = s->ndone < TIMED_STEPS ? s->ndone : TIMED_STEPS,
                    .nplanned = cache.nmisses,
                    .nkept = cache.nplans,
                    .ngone = cache.nevictions,
                    .plan = weft_trainer_plan(s->trainer, 0),
                    .has_overlap = cli_given(s->args, "--trace"),
                    .nlast = nlast && nlast < s->ndone ? nlast : 0};
    weft_executor_hidden(executor, &made.ncollectives, &made.nhidden);
    weft_executor_overlap(executor, &made.collective_seconds, &made.hidden_seconds);
    return made;
}

static weft_status print_summary(const session *s) {
    summary made = make_summary(s);
    if (!cli_given(s->args, "--json")) {
        summary_print(&made);
        return NULL;
    }
    json_t *root = summary_json(&made);
    cli_json_put(&root, "collectives", json_string(s->collectives == WEFT_COLLECTIVES_LIBRARY ? "library" : "ordered"));
    cli_json_put(&root, "next_step", json_integer(s->state.step));
    cli_json_put(&root, "stopped_by", s->is_stopped ? json_string(stop_name()) : json_null());
    return cli_json_print(s->args, root, stderr);
}

/* How far a run came that a signal or a failure ended, and what there is to go on from. */
static void print_end(const session *s) {
    char when[48] = "in the first step", *path = NULL;
    const char *given = cli_value(s->args, "--save");
    if (s->ndone) snprintf(when, sizeof when, "behind step %lld", (long long)s->state.step - 1);
    if (s->saved >= 0 && given) path = path_with(given, "{step}", (long long)s->saved);
    bool is_stopped = s->is_stopped || stop_asked();
    fprintf(stderr, "weft run: %s%s %s", is_stopped ? "stopped by " : "ended", is_stopped ? stop_name() : "", when);
    if (path) fprintf(stderr, "; %s has the state behind step %lld", path, (long long)s->saved - 1);
    fputc('\n', stderr);
    free(path);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static weft_status report(session *s) {
    weft_status status = save(s, true);
    if (!status) status = save_traces(s->args, s->trainer, s->speaks);
    if (!status && s->speaks) status = print_summary(s);
    return status ? status : save_profiles(s->args, s->trainer, s->speaks);
}

/* What several processes would say alike one of them says. */
static int fail(const session *s, weft_status status) {
    char text[2000], speaker[32] = "";
    if (!s->processes) return cli_fail(s->args, status);
    snprintf(text, sizeof text, "%s: %s", weft_status_place(status), weft_status_message(status));
    if (!weft_processes_tells_first(s->processes, text)) {
        weft_status_free(status);
        return EXIT_WORK_FAILED;
    }
    if (!s->speaks) snprintf(speaker, sizeof speaker, "[process %d] ", weft_processes_index(s->processes));
    return cli_fail_as(s->args, speaker, status);
}

/* --resume is --load. */
static bool join_names(cli_args *args) {
    bool loads = cli_given(args, "--load");
    for (size_t i = 0; i < args->ngiven; i++) {
        if (strcmp(args->names[i], "--resume") != 0) continue;
        if (loads) return cli_usage_error(args->command, "--resume is --load: expected one of them"), false;
        args->names[i] = "--load";
    }
    return true;
}

/* What is done counts, whatever became of the rest. */
static int end_run(const session *s, const expectation *expected, weft_status status) {
    bool is_partial = s->is_stopped || (status && (stop_asked() || s->saved >= 0));
    int result = status ? fail(s, status) : EXIT_DONE;
    fflush(stdout);
    if (is_partial && s->speaks) print_end(s);
    if (stop_asked() && is_partial) return 128 + stop_asked();
    if (!status && !s->is_stopped && !expectation_held(expected)) result = EXIT_WORK_FAILED;
    return result;
}

int run_command(cli_args *args) {
    numbers n = {.threads = 1, .trace_steps = TRACED_STEPS};
    expectation expected = {.tolerance = 1e-4};
    session s = {.args = args, .saved = -1};
    bool simulates;
    if (launch_is_elsewhere()) return EXIT_DONE;
    if (!run_read_device(args, &simulates) || !join_names(args)) return EXIT_USAGE;
    if (simulates) {
        fprintf(stderr, "weft run: note: --device null is weft simulate now\n");
        return command_simulate.run(args);
    }
    if (!cli_int(args, "--steps", 0, 1LL << 40, &n.steps) ||
        !cli_int(args, "--first-step", 0, 1LL << 40, &n.first_step) ||
        !cli_int(args, "--threads", 1, 1024, &n.threads) || !cli_int(args, "--seed", 0, (1ULL << 63) - 1, &n.seed) ||
        !cli_int(args, "--plans", 1, 1 << 20, &n.plans) ||
        !cli_int(args, "--save-every", 1, 1LL << 40, &n.save_every) ||
        !cli_int(args, "--trace-steps", 0, INT32_MAX, &n.trace_steps) ||
        !run_read_check_finite(args, &n.check_finite) || !cli_double(args, "--tolerance", &expected.tolerance) ||
        !output_names_are_good(args))
        return EXIT_USAGE;
    int nprocesses = 0;
    if (weft_processes_launched()) {
        stop_watch(true, false); /* what the launcher hands on may come before all are there */
        launch_take_stdin();
    }
    bool is_usable = cli_session_init(&s.in, args) && run_read_watchdog(args, &s.watchdog, &s.first_step) &&
                     run_read_rings(args, &s.rings) && replan_read(args, &s.replan) &&
                     run_read_collectives(args, &s.collectives);
    /* Which ranks are here is known when the others are; with several programs so is how many there are. */
    bool waits = weft_processes_launched() && args->npositional > 1;
    weft_status status = is_usable && !waits ? cli_session_load_programs(&s.in) : NULL;
    bool launches = !status && is_usable && launch_wanted(args, s.in.nranks, &nprocesses);
    if (launches) status = check_programs(&s);
    if (launches && !status) status = launch_keep_stdin(args, s.in.programs);
    if (status) {
        session_fini(&s);
        return cli_fail(args, status);
    }
    if (!is_usable || launches || nprocesses < 0) {
        session_fini(&s);
        return launches ? launch(args, nprocesses) : EXIT_USAGE;
    }
    s.ntraced = n.trace_steps;
    status = join_processes(&s);
    if (!status && s.speaks) status = check_outputs(args, s.in.nranks);
    if (!status && s.speaks) status = expectation_init(&expected, args);
    if (!status) status = open_session(&s, &n);
    if (!status) stop_watch(s.processes, s.speaks);
    if (!status) status = train(&s, &n, &expected);
    progress_end(&s.shown);
    if (!status) status = report(&s);
    bool has_failed = status;
    int result = end_run(&s, &expected, status);
    weft_processes *processes = s.processes;
    session_fini(&s);
    expectation_fini(&expected);
    leave_processes(processes, result, has_failed);
    return result;
}
