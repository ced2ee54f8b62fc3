/* processes.c: a run whose ranks are in several processes is the run of one process that has them all. Here processes
 * are threads with a world of their own each: the same bits, the same joined results, timelines and profiles, the same
 * words where it fails. A plain main. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "executor/comm/local.h"
#include "executor/executor.h"
#include "tests/support/plain.h"
#include "weft/program.h"
#include "weft/trainer.h"

enum { NRANKS = 4, NSTEPS = 5, MOST_WORDS = 1200 };

/* w is whole on every rank, v split over all, u over two of the mesh's axis; o is what only ranks with op `more` have.
 */
#define PROGRAM(more)                                                                                                  \
    "weft: 1\nrings: {0: [0, 1, 2, 3], 1: [1, 2]}\nmeshes:\n- {shape: [4], ids: [0, 1, 2, 3], dims: [dp]}\n"           \
    "- {shape: [2, 2], ids: [0, 1, 2, 3], dims: [a, b]}\n"                                                             \
    "blocks:\n- vars:\n    x: {float32: [-1, 6]}\n    w: {float32: [6, 6], persistable: true}\n"                       \
    "    v: {float32: [2, 3], persistable: true, dist: {mesh: 0, dims_mapping: [0, -1]}}\n"                            \
    "    u: {float32: [2, 3], persistable: true, dist: {mesh: 1, dims_mapping: [1, -1]}}\n"                            \
    "    o: {float32: [3], persistable: true}\n    y: {float32: [-1, 6]}\n    g: {float32: [6, 6]}\n"                  \
    "    m: {float32: [1, 1]}\n    k: {uint8: [-1, 6]}\n    r: {float32: [-1, 6]}\n  ops:\n"                           \
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [y]}}\n"                                                         \
    "  - {matmul_v2: {X: [x], \"Y\": [y]}, out: {Out: [g]}, attrs: {trans_x: true}}\n"                                 \
    "  - {c_allreduce_sum: {X: [g]}, out: {Out: [g]}, attrs: {ring_id: 0, use_calc_stream: true}}\n"                   \
    "  - {scale: {X: [g]}, out: {Out: [g]}, attrs: {scale: 0.015625}}\n"                                               \
    "  - {elementwise_sub: {X: [w], \"Y\": [g]}, out: {Out: [w]}}\n"                                                   \
    "  - {scale: {X: [v]}, out: {Out: [v]}, attrs: {scale: 2.0}}\n"                                                    \
    "  - {scale: {X: [u]}, out: {Out: [u]}, attrs: {scale: 0.5}}\n"                                                    \
    "  - {dropout: {X: [y]}, out: {Out: [r], Mask: [k]}, attrs: {dropout_prob: 0.5, is_test: false}}\n"                \
    "  - {reduce_mean: {X: [g]}, out: {Out: [m]}, attrs: {dim: [0, 1], keep_dim: true}}\n" more
#define SEND "  - {send_v2: {X: [m]}, attrs: {ring_id: 1, peer: 1, use_calc_stream: true}}\n"
#define RECV                                                                                                           \
    "  - {recv_v2: {}, out: {Out: [m]}, attrs: {ring_id: 1, peer: 0, dtype: 5, out_shape: !ints [1, 1], "              \
    "use_calc_stream: true}}\n"
#define OWN "  - {scale: {X: [o]}, out: {Out: [o]}, attrs: {scale: 3.0}}\n"
#define ODD "  - {c_allreduce_sum: {X: [m]}, out: {Out: [m]}, attrs: {ring_id: 0, use_calc_stream: true}}\n"

/* --- what a process has ------------------------------------------------------------------------------------------- */

typedef struct process {
    weft_context *context;
    weft_program *programs[NRANKS];
    weft_tensors *params, *feeds;
    weft_trainer *trainer;
    const char *const *sources;
    comm_host host;
    weft_executor_options options;
    weft_tensors *result, *state;
    char *trace, *page, *profile, *table; /* where options ask for them */
    size_t nbytes[4];
    bool stops;             /* behind the first step, though the others go on */
    char words[MOST_WORDS]; /* of the first failure */
    pthread_t thread;
} process;

static void put(weft_tensors *set, const char *n, int64_t rows, int64_t columns, int seed) {
    weft_tensor *t;
    must(weft_tensors_add(set, n, WEFT_FP32, columns ? 2 : 1, (const int64_t[]){rows, columns}, &t));
    for (size_t i = 0; i < t->nbytes / 4; i++)
        ((float *)t->data)[i] = (float)((int)(i * 29 + (size_t)seed) % 17 - 8) / 8;
}

static weft_status run(process *p) {
    static const char *const fetches[] = {"y", "m", "r"};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = (const weft_program *const *)p->programs,
                                    .nprograms = NRANKS,
                                    .params = p->params,
                                    .feeds = (const weft_tensors *const *)&p->feeds,
                                    .fetches = fetches,
                                    .nfetches = 3,
                                    .executor = &p->options};
    TRY(weft_trainer_create(p->context, &options, &p->trainer));
    for (size_t step = 0; step < NSTEPS; step++) {
        weft_scalar scalars[3 * NRANKS];
        TRY(weft_trainer_step(p->trainer, step));
        if (p->stops && step == 1) return NULL;
        TRY(weft_trainer_fetch_scalars(p->trainer, scalars));
    }
    TRY(weft_trainer_result(p->trainer, &p->result));
    TRY(weft_trainer_state(p->trainer, &p->state));
    const weft_executor *x = weft_trainer_executor(p->trainer);
    if (!p->options.trace) return NULL;
    TRY(weft_executor_trace_json(x, &p->trace, &p->nbytes[0]));
    TRY(weft_executor_trace_html(x, "run", &p->page, &p->nbytes[1]));
    TRY(weft_executor_profile(x, WEFT_PROFILE_CSV, 0, &p->profile, &p->nbytes[2]));
    return weft_executor_profile(x, WEFT_PROFILE_TEXT, 3, &p->table, &p->nbytes[3]);
}

static void *work(void *arg) {
    process *p = arg;
    must(weft_context_create(NULL, &p->context));
    for (int r = 0; r < NRANKS; r++)
        must(weft_program_parse(p->context, WEFT_FORM_YAML, p->sources[r], strlen(p->sources[r]), NULL, 0, "p.yaml",
                                &p->programs[r]));
    must(weft_tensors_create(p->context, &p->params));
    must(weft_tensors_create(p->context, &p->feeds));
    put(p->params, "w", 6, 6, 1);
    put(p->params, "v", 8, 3, 2);
    put(p->params, "u", 4, 3, 3);
    put(p->params, "o", 3, 0, 4);
    for (int step = 0; step < NSTEPS; step++) {
        char key[16];
        snprintf(key, sizeof key, "%d/x", step);
        put(p->feeds, key, step == 3 ? 8 : 24, 6, step); /* another shape: another executor */
    }
    weft_status status = run(p);
    snprintf(p->words, sizeof p->words, "%s", status ? weft_status_message(status) : "");
    weft_status_free(status);
    return NULL;
}

static void close_process(process *p) {
    char *documents[] = {p->trace, p->page, p->profile, p->table};
    for (int i = 0; i < 4; i++) weft_bytes_free(p->context, documents[i], p->nbytes[i]);
    weft_tensors_destroy(p->result);
    weft_tensors_destroy(p->state);
    weft_trainer_destroy(p->trainer);
    weft_tensors_destroy(p->params);
    weft_tensors_destroy(p->feeds);
    for (int r = 0; r < NRANKS; r++) weft_program_destroy(p->programs[r]);
    weft_context_destroy(p->context);
}

/* Processes of `each` ranks, the last `nabsent` of which never come; programs[r] is rank r's. */
static int start_some(process *p, int each, int nabsent, int stops, const char *const *sources,
                      const weft_executor_options *options, local_hub **out_hub) {
    const weft_allocator libc = base_libc_allocator();
    int n = NRANKS / each - nabsent;
    must(local_hub_create(&libc, NRANKS, out_hub));
    for (int i = 0; i < n; i++) {
        p[i] = (process){.sources = sources,
                         .stops = i == stops,
                         .host = local_hub_host(*out_hub, i * each, each),
                         .options = *options};
        p[i].options.host = &p[i].host;
        pthread_create(&p[i].thread, NULL, work, &p[i]);
    }
    for (int i = 0; i < n; i++) pthread_join(p[i].thread, NULL);
    return n;
}

static int start(process *p, int each, int nabsent, const char *const *sources, const weft_executor_options *options,
                 local_hub **out_hub) {
    return start_some(p, each, nabsent, -1, sources, options, out_hub);
}

static void stop(process *p, int n, local_hub *hub) {
    for (int i = 0; i < n; i++) close_process(&p[i]);
    local_hub_destroy(hub);
}

/* --- the same results --------------------------------------------------------------------------------------------- */

static const char *const pipeline[NRANKS] = {PROGRAM(""), PROGRAM(SEND), PROGRAM(RECV OWN), PROGRAM("")};
static const char *const equal[NRANKS] = {PROGRAM(OWN), PROGRAM(OWN), PROGRAM(OWN), PROGRAM(OWN)};

static void compare(const weft_tensors *a, const weft_tensors *b, const char *what) {
    check(a && b && weft_tensors_count(a) == weft_tensors_count(b), "%s: other values", what);
    for (size_t i = 0; a && b && i < weft_tensors_count(a); i++) {
        const weft_tensor *x = weft_tensors_at(a, i), *y = weft_tensors_find(b, x->name);
        check(y && x->nbytes == y->nbytes && memcmp(x->data, y->data, x->nbytes) == 0, "%s: \"%s\" differs", what,
              x->name);
    }
}

static void test_same_results(const char *const *sources, const char *what) {
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1, .seed = 7, .first_step_seconds = 60,
                                     .watchdog_seconds = 60};
    process whole = {.sources = sources, .options = options};
    work(&whole);
    check(!*whole.words, "%s, one process: %s", what, whole.words);
    const weft_tensor *v = whole.result ? weft_tensors_find(whole.result, "v") : NULL;
    check(v && v->dims[0] == 8, "%s: v is joined", what);
    for (int each = 1; each <= 2; each++) {
        process parts[NRANKS];
        local_hub *hub;
        int n = start(parts, each, 0, sources, &options, &hub);
        for (int i = 0; i < n; i++) {
            check(!*parts[i].words, "%s, process %d of %d: %s", what, i, n, parts[i].words);
            compare(whole.result, parts[i].result, what);
            compare(whole.state, parts[i].state, what);
        }
        stop(parts, n, hub);
    }
    close_process(&whole);
}

/* --- one timeline, one profile ------------------------------------------------------------------------------------ */

static int count(const char *where, const char *part) {
    int n = 0;
    for (const char *at = where; at && (at = strstr(at, part)); at += strlen(part)) n++;
    return n;
}

/* Ranks leave a reduce of all after the last one has come to it: by one clock, whichever process they are in. */
static void check_trace(const process *p, const char *what) {
    json_t *trace = json_loadb(p->trace, p->nbytes[0], 0, NULL), *e;
    double came[NSTEPS] = {0};
    int nreduces = 0;
    size_t i;
    check(trace != NULL, "%s: no JSON", what);
    for (int pass = 0; pass < 2; pass++) json_array_foreach(json_object_get(trace, "traceEvents"), i, e) {
            const char *n = json_string_value(json_object_get(e, "name"));
            if (!n || strcmp(n, "c_allreduce_sum") != 0) continue;
            double start = json_number_value(json_object_get(e, "ts"));
            double end = start + json_number_value(json_object_get(e, "dur"));
            size_t step = (size_t)json_integer_value(json_object_get(json_object_get(e, "args"), "step"));
            check(start >= 0 && step < NSTEPS, "%s: a reduce at %g us of step %zu", what, start, step);
            if (step >= NSTEPS) continue;
            if (!pass && start > came[step]) came[step] = start;
            if (pass) check(end >= came[step], "%s: left at %g us, the last came at %g", what, end, came[step]);
            nreduces += pass;
        }
    check(nreduces == (NSTEPS - 1) * NRANKS, "%s: %d reduces in the 4 steps of the last shape", what, nreduces);
    json_decref(trace);
}

/* The lines of the CSV without what is measured: the first 8 fields. */
static void what_ran(const char *csv, char *out, size_t nbytes) {
    size_t n = 0;
    for (int field = 0; *csv && n + 1 < nbytes; csv++) {
        if (*csv == '\n') field = 0;
        field += *csv == ',';
        if (field < 8) out[n++] = *csv;
    }
    out[n] = '\0';
}

static void check_documents(const process *whole, const process *p, const char *what) {
    char expected[20000], found[20000];
    check_trace(p, what);
    check(count(p->trace, "\"ph\":\"X\"") == count(whole->trace, "\"ph\":\"X\""), "%s: %d events, %d in one process",
          what, count(p->trace, "\"ph\":\"X\""), count(whole->trace, "\"ph\":\"X\""));
    check(count(p->trace, "\"process_name\"") == NRANKS, "%s: ranks of the timeline", what);
    check(count(p->page, "\n{\"rank\":") == count(whole->page, "\n{\"rank\":"), "%s: lanes of the page", what);
    check(count(p->page, "const trace = {\"ranks\":4,") == 1, "%s: ranks of the page", what);
    what_ran(whole->profile, expected, sizeof expected);
    what_ran(p->profile, found, sizeof found);
    check(strcmp(expected, found) == 0, "%s: the profile has\n%s\nnot\n%s", what, found, expected);
    check(strstr(p->table, "4 ranks") && count(p->table, "memory: ") == count(whole->table, "memory: "), "%s: %s", what,
          p->table);
}

static void test_documents(const char *const *sources, int ngroups, const char *what) {
    weft_executor_options options = {
        WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1, .seed = 7,      .first_step_seconds = 60,
        .watchdog_seconds = 60,     .trace = true, .profile = true};
    process whole = {.sources = sources, .options = options};
    work(&whole);
    check(!*whole.words, "%s, one process: %s", what, whole.words);
    check_documents(&whole, &whole, what);
    check(count(whole.table, "memory: ") == ngroups, "%s: %s", what, whole.table);
    for (int each = 1; each <= 2; each++) {
        process parts[NRANKS];
        local_hub *hub;
        int n = start(parts, each, 0, sources, &options, &hub);
        for (int i = 0; i < n; i++) {
            check(!*parts[i].words, "%s, process %d of %d: %s", what, i, n, parts[i].words);
            if (!*parts[i].words) check_documents(&whole, &parts[i], what);
            check(parts[i].nbytes[0] == parts[0].nbytes[0] && strcmp(parts[i].trace, parts[0].trace) == 0 &&
                      strcmp(parts[i].page, parts[0].page) == 0 && strcmp(parts[i].table, parts[0].table) == 0,
                  "%s: processes have other documents", what);
        }
        stop(parts, n, hub);
    }
    close_process(&whole);
}

/* --- clocks that are apart ---------------------------------------------------------------------------------------- */

static int64_t shifted(void *ahead_ns) {
    return wait_clock_ns() + *(const int64_t *)ahead_ns;
}

typedef struct visitor {
    comm_world *world;
    int64_t ahead_ns;
    clock_reading reading;
    pthread_t thread;
} visitor;

static void *compare_clocks(void *arg) {
    visitor *v = arg;
    must(clocks_compare(v->world, 20, shifted, &v->ahead_ns, &v->reading));
    return NULL;
}

static void test_clocks(void) {
    static const int64_t ahead_ns[NRANKS] = {5000000, -3600000000000, 0, 86400000000000};
    const weft_allocator libc = base_libc_allocator();
    visitor v[NRANKS];
    local_hub *hub;
    must(local_hub_create(&libc, NRANKS, &hub));
    for (int r = 0; r < NRANKS; r++) {
        comm_host host = local_hub_host(hub, r, 1);
        v[r] = (visitor){.ahead_ns = ahead_ns[r]};
        must(comm_world_create(&libc, &host, &v[r].world));
    }
    for (int r = 0; r < NRANKS; r++) pthread_create(&v[r].thread, NULL, compare_clocks, &v[r]);
    for (int r = 0; r < NRANKS; r++) pthread_join(v[r].thread, NULL);
    for (int r = 0; r < NRANKS; r++) {
        int64_t off = v[r].reading.ahead_ns - (ahead_ns[r] - ahead_ns[0]), within = v[r].reading.error_ns;
        check(off <= within && off >= -within && within < 1000000000, "rank %d: off by %lld ns, said to be within %lld",
              r, (long long)off, (long long)within);
        comm_world_destroy(v[r].world);
    }
    local_hub_destroy(hub);
    timeline_clock c = {{1000, 3000}, {100, 300}};
    check(timeline_common_ns(&c, 1000) == 900 && timeline_common_ns(&c, 2000) == 1800 &&
              timeline_common_ns(&c, 3000) == 2700,
          "a clock that gains");
}

/* --- the same failures -------------------------------------------------------------------------------------------- */

static void expect(process *p, int n, const char *what, const char *expected) {
    for (int i = 0; i < n; i++)
        check(strstr(p[i].words, expected) != NULL, "%s, process %d: expected \"%s\", found \"%s\"", what, i, expected,
              p[i].words);
}

static void test_failures(void) {
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .first_step_seconds = 60, .watchdog_seconds = 60};
    process parts[NRANKS];
    local_hub *hub;
    const char *odd[NRANKS] = {equal[0], equal[1], equal[2], PROGRAM(ODD)};
    int n = start(parts, 2, 0, odd, &options, &hub);
    expect(parts, n, "one more",
           "ring 0: ranks disagree on collective 1: rank 0 runs none, rank 3 runs c_allreduce_sum");
    stop(parts, n, hub);

    options.first_step_seconds = options.watchdog_seconds = 0.3;
    n = start(parts, 2, 1, equal, &options, &hub);
    expect(parts, n, "absent", "rank 0 waited 0.3 s before the first step for rank 2, 3");
    stop(parts, n, hub);

    options.first_step_seconds = 60;
    n = start_some(parts, 2, 0, 1, equal, &options, &hub);
    expect(parts, 1, "stopped between steps", "s for the values of a step for rank 2, 3");
    stop(parts, n, hub);

    options.first_step_seconds = 0.3;
    /* Rank 3 is late: both processes name it, whichever noticed. */
    weft_delay late = {.rank = 3, .op_index = 1, .seconds = 30};
    options.delays = &late;
    options.ndelays = 1;
    n = start(parts, 2, 0, equal, &options, &hub);
    expect(parts, n, "late", " for rank 3 (at matmul_v2 #1)");
    stop(parts, n, hub);
}

int main(void) {
    test_same_results(equal, "equal programs");
    test_same_results(pipeline, "two of four send and receive");
    test_documents(equal, 1, "documents of equal programs");
    test_documents(pipeline, 3, "documents of a pipeline");
    test_clocks();
    test_failures();
    return report_checks();
}
