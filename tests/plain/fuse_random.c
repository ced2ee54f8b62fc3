/* fuse_random.c: random backward graphs through fuse_allreduce_buckets, schedule_comm_wait, insert_comm_wait and the
 * gradient passes, with random options, executed on two or three ranks before and after: everything that is fetched or
 * lives on is the same to the bit on every rank and proved to be. Each pending collective is waited for once and in
 * time, and no op races by the waits alone. A plain main, because ranks are threads.
 *
 *     fuse_random [FIRST_SEED [COUNT]]
 */
#include <stdlib.h>
#include <string.h>

#include "passes/pending.h"
#include "tests/support/plain.h"
#include "tests/support/random_graph.h"
#include "weft/equivalent.h"
#include "weft/executor.h"
#include "weft/pass.h"
#include "weft/plan.h"
#include "weft/verify.h"

enum { MOST_RANKS = 3 };

typedef struct rank_programs {
    weft_program *programs[MOST_RANKS]; /* by rank */
    weft_plan *plans[MOST_RANKS];
    weft_executor *executor;
    int nranks;
} rank_programs;

typedef struct random_case {
    weft_context *context;
    random_graph_options graph;
    int nsteps;
    char list[400];
    rank_programs before, after;
    int64_t nbuckets, nwaits;
    char why[400]; /* what is wrong; "" if nothing is */
} random_case;

WEFT_PRINTF(2, 3)
static void blame(random_case *c, const char *format, ...) {
    va_list args;
    if (*c->why) return;
    va_start(args, format);
    vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
}

/* False, and the case is to blame, if there is a status. */
static bool went_well(random_case *c, weft_status status, const char *what) {
    if (status) blame(c, "%s: %s", what, weft_status_message(status));
    weft_status_free(status);
    return !*c->why;
}

/* --- pass lists --------------------------------------------------------------------------------------------------- */

static int roll(random_case *c, uint64_t *counter, int n) {
    return (int)(random_number(~c->graph.seed, (*counter)++) % (unsigned)n);
}

static void add_words(random_case *c, const char *message) {
    size_t used = strlen(c->list);
    snprintf(c->list + used, sizeof c->list - used, "%s%s", used ? ", " : "", message);
}

static void add_pass(random_case *c, uint64_t *counter, char kind) {
    static const char *const modes[] = {"concat", "coalesced", "in_place"};
    static const char *const sizes[] = {"0.00005", "0.0001", "0.0003", "0.0006", "25"};
    char message[200];
    int mode = roll(c, counter, 3), size = roll(c, counter, 5), first = roll(c, counter, 5);
    const char *last = roll(c, counter, 2) ? "0" : sizes[roll(c, counter, 3)];
    const char *limit = roll(c, counter, 4) ? "flush" : "cap";
    switch (kind) {
    case 'f':
        snprintf(message, sizeof message,
                 "fuse_allreduce_buckets: {mode: %s, bucket_mb: %s, first_bucket_mb: %s, last_bucket_mb: %s, "
                 "limit: %s}",
                 modes[mode], sizes[size], sizes[first], last, limit);
        break;
    case 's':
        snprintf(message, sizeof message, "schedule_comm_wait: {max_memory_growth_mb: %s}", first ? sizes[size] : "0");
        break;
    case 'g':
        snprintf(message, sizeof message, "coalesce_grads: {bucket_mb: %s, limit: %s}", sizes[size], limit);
        break;
    case 'S': snprintf(message, sizeof message, "schedule_comm_wait"); break;
    case 'p': snprintf(message, sizeof message, "prune_grad_scale"); break;
    default: snprintf(message, sizeof message, "insert_comm_wait"); break;
    }
    add_words(c, message);
}

/* A letter a pass. */
static void choose_list(random_case *c) {
    static const char *const waited[] = {"f", "f", "f", "fS", "Sf", "sfs", "SfS", "fs", "S", "pf", "fg", "gf", "pgfS"};
    static const char *const unwaited[] = {"i", "if", "ifS", "fi", "fiS", "iSf"};
    uint64_t counter = 0;
    const char *letters = c->graph.without_waits ? unwaited[roll(c, &counter, 6)] : waited[roll(c, &counter, 13)];
    c->list[0] = 0;
    for (const char *letter = letters; *letter; letter++) add_pass(c, &counter, *letter);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void make_programs(random_case *c) {
    int n = c->before.nranks = c->after.nranks = c->graph.nranks;
    c->before.programs[0] = random_graph(c->context, &c->graph, &c->nsteps);
    for (int r = 0; r < n; r++) {
        if (r) must(weft_program_clone(c->before.programs[0], &c->before.programs[r]));
        random_graph_set_rank(c->before.programs[r], n, r);
        must(weft_program_clone(c->before.programs[r], &c->after.programs[r]));
    }
    for (int r = 0; r < n && c->graph.without_waits; r++) FOR_EACH_OP(op, c->before.programs[r]->blocks[0])
    if (op_find_attr(op, "async_op")) must(weft_op_set_attr_bool(op, "async_op", false));
}

static void run_passes(random_case *c) {
    weft_pass_list *list;
    must(weft_pass_list_parse(c->context, c->list, strlen(c->list), "test", &list));
    for (int r = 0; r < c->after.nranks; r++) {
        weft_report *report = NULL;
        bool good = went_well(c, weft_pass_list_run(list, c->after.programs[r], &report), "passes");
        for (size_t i = 0; good && i < weft_report_npasses(report); i++) {
            c->nbuckets += weft_report_count(report, i, "buckets");
            c->nwaits += weft_report_count(report, i, "waits sunk") + weft_report_count(report, i, "waits inserted");
        }
        weft_report_destroy(report);
    }
    weft_pass_list_destroy(list);
}

static void check_pending(random_case *c, weft_program *p) {
    pending_check checked;
    size_t nproblems = 0;
    pending_check_init(&checked, c->context);
    if (went_well(c, check_pending_use(&checked, p, &nproblems), "pending collectives") && nproblems)
        blame(c, "%zu pending collectives are not waited for once and in time", nproblems);
    pending_check_fini(&checked);
}

/* The same by symbols too, without running them. */
static void check_proof(random_case *c) {
    weft_equivalence *verdict = NULL;
    if (!went_well(c, weft_equivalent(c->before.programs[0], c->after.programs[0], NULL, &verdict), "proof")) return;
    weft_grade grade = weft_equivalence_grade(verdict), of_first;
    const char *message;
    if (grade != WEFT_SAME_BITS)
        blame(c, "%s: %s", weft_grade_name(grade), weft_equivalence_finding(verdict, 0, &of_first, &message));
    weft_equivalence_destroy(verdict);
}

/* Nothing but the waits that the programs state orders streams. */
static void check_races(random_case *c, const rank_programs *of, const char *which) {
    weft_findings *found = NULL;
    weft_verify_options options = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = of->nranks};
    const weft_program *const *programs = (const weft_program *const *)of->programs;
    if (went_well(c, weft_verify(programs, (size_t)of->nranks, &options, &found), "verify") &&
        weft_findings_count(found))
        blame(c, "%s: %s", which, weft_finding_at(found, 0)->message);
    weft_findings_destroy(found);
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void set_input(weft_executor *x, const weft_plan_value *v, int rank) {
    double f64[32];
    float f32[32];
    uint16_t bf16[32];
    weft_tensor t = {.dtype = v->dtype, .ndim = v->ndim};
    size_t n = 1;
    for (size_t k = 0; k < v->ndim; k++) n *= (size_t)(t.dims[k] = v->dims[k]);
    for (size_t k = 0; k < n; k++) {
        uint64_t number = random_number(base_hash(v->name, strlen(v->name)) + (uint64_t)rank, k);
        uint32_t bits;
        f64[k] = f32[k] = (float)(number >> 40) / (1 << 22) - 2;
        memcpy(&bits, &f32[k], sizeof bits);
        bf16[k] = (uint16_t)(bits >> 16);
    }
    t.data = t.dtype == WEFT_FP64 ? (void *)f64 : t.dtype == WEFT_BF16 ? (void *)bf16 : f32;
    t.nbytes = n * weft_dtype_nbytes(t.dtype);
    must(weft_executor_set(x, rank, v->name, &t));
}

static bool execute(random_case *c, rank_programs *of, const char *which) {
    for (int r = 0; r < of->nranks; r++)
        if (!went_well(c, weft_plan_create(of->programs[r], NULL, &of->plans[r]), which)) return false;
    const weft_plan *const *plans = (const weft_plan *const *)of->plans;
    size_t nplans = (size_t)of->nranks;
    weft_status status = weft_executor_create(c->context, plans, nplans, of->nranks, NULL, &of->executor);
    if (!went_well(c, status, which)) return false;
    for (int r = 0; r < of->nranks; r++) {
        for (size_t i = 0; i < weft_plan_nvalues(of->plans[r]); i++) {
            weft_plan_value v;
            weft_plan_value_at(of->plans[r], i, &v);
            if (v.is_read_first && !weft_block_find_var(c->before.programs[0]->blocks[0], v.name))
                blame(c, "%s: \"%s\" is read before it is written", which, v.name);
            else if (v.is_feed || v.persistable)
                set_input(of->executor, &v, r);
        }
    }
    return !*c->why && went_well(c, weft_executor_run(of->executor), which);
}

static void compare(random_case *c) {
    for (int r = 0; r < c->before.nranks; r++) {
        for (size_t i = 0; i < weft_plan_nvalues(c->before.plans[r]); i++) {
            weft_plan_value v;
            weft_tensor s, t;
            weft_plan_value_at(c->before.plans[r], i, &v);
            if (!v.is_fetch && !v.persistable) continue;
            must(weft_executor_get(c->before.executor, r, v.name, &s));
            if (!went_well(c, weft_executor_get(c->after.executor, r, v.name, &t), "after")) return;
            if (!t.data || s.nbytes != t.nbytes || memcmp(s.data, t.data, s.nbytes) != 0)
                blame(c, "\"%s\" of rank %d differs", v.name, r);
        }
    }
}

/* --- cases -------------------------------------------------------------------------------------------------------- */

static void end(rank_programs *of) {
    weft_executor_destroy(of->executor);
    for (int r = 0; r < of->nranks; r++) {
        weft_plan_destroy(of->plans[r]);
        weft_program_destroy(of->programs[r]);
    }
}

/* Runs a case of at most so many steps. */
static void run_case(random_case *c, uint64_t seed, int max_steps) {
    *c = (random_case){.graph = {.seed = seed, .nranks = 2 + (seed % 4 == 3), .max_steps = max_steps}};
    c->graph.without_waits = seed % 5 == 4;
    must(weft_context_create(NULL, &c->context));
    make_programs(c);
    choose_list(c);
    check_races(c, &c->before, "unfused");
    run_passes(c);
    for (int r = 0; r < c->after.nranks && !*c->why; r++) check_pending(c, c->after.programs[r]);
    if (!*c->why) check_races(c, &c->after, "fused");
    if (!*c->why) check_proof(c);
    if (!*c->why && execute(c, &c->before, "unfused") && execute(c, &c->after, "fused")) compare(c);
    end(&c->before);
    end(&c->after);
    weft_context_destroy(c->context);
}

static void one_case(uint64_t seed, int64_t *nbuckets, int64_t *nwaits) {
    random_case c, smaller;
    run_case(&c, seed, 1000);
    *nbuckets += c.nbuckets;
    *nwaits += c.nwaits;
    for (int n = 0; *c.why && n < c.nsteps; n++) {
        run_case(&smaller, seed, n);
        if (*smaller.why) c = smaller;
    }
    check(!*c.why, "seed %llu, %d steps, %d ranks, \"%s\": %s", (unsigned long long)seed, c.nsteps, c.graph.nranks,
          c.list, c.why);
}

int main(int argc, char **argv) {
    bool is_long = getenv("WEFT_LONG_TESTS") != NULL;
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, count = is_long ? 5000 : 300;
    int64_t nbuckets = 0, nwaits = 0;
    if (getenv("WEFT_SANITIZED")) count /= 5;
    if (argc > 2) count = strtoull(argv[2], NULL, 10);
    for (uint64_t seed = first; seed < first + count; seed++) one_case(seed, &nbuckets, &nwaits);
    check(count < 20 || (nbuckets > (int64_t)count && nwaits > (int64_t)count),
          "only %lld buckets and %lld waits in %llu programs", (long long)nbuckets, (long long)nwaits,
          (unsigned long long)count);
    return report_checks();
}
