/* proof_mutation.c: a prover that never rejected anything proves nothing, and one that rejects what is right is of no
 * use. Recorded programs after whole pass lists, with one thing changed, thousands of them: whether a change does harm
 * is found without the prover's means, by a closure over all pairs of launches and by runs in exact arithmetic. None
 * may do harm and be accepted. And the programs themselves, after every subset of the passes, are accepted.
 *
 *     proof_mutation [FOLDER PASSES MUTANTS_OF_A_CLASS]    prints class, mutants, caught, not proved, harmless, missed,
 * confirmed
 *
 * Not proved: refused, though its two steps compute the same. A plain main, because ranks are threads. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/mutants.h"
#include "tests/support/plain.h"
#include "weft/verify.h"

#define DATA_PARALLEL "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: 0.01}, insert_dependencies"
#define FUSION(mode) "fuse_allreduce_buckets: {mode: " mode ", bucket_mb: 0.02}, schedule_comm_wait"

#define OWNERS "parameters with owners"

typedef struct subject {
    const char *folder, *passes;
    bool is_long; /* in the long checks only */
} subject;

static const subject subjects[] = {
    {"paddle26/mlp_sgd_dp2", DATA_PARALLEL, false},
    {"paddle26/mlp_dp2_sharding", DATA_PARALLEL, false},
    {"paddle26/mlp_dp2_gradmerge", DATA_PARALLEL, false},
    {"paddle26/mlp_adam_dp2_lossscale", DATA_PARALLEL, false},
    {OWNERS, "overlap_comm", false},
    {"torch/ddp/mlp6.w2", FUSION("in_place"), false},
    {"torch/ddp/neg.avg_op", FUSION("coalesced"), false},
    {"paddle26/mlp_sgd_dp2", "overlap_comm", true},
    {"paddle26/mlp_dp2_sp2_tworings", DATA_PARALLEL, true},
    {"paddle26/twoloss_dp2", DATA_PARALLEL, true},
    {"paddle26/mlp_adam_dp2_amp", DATA_PARALLEL, true},
    {"paddle26/mlp_adam_dp2_amp_bf16", DATA_PARALLEL, true},
    {"paddle26/mlp_dp2_recompute", DATA_PARALLEL, true},
    {"paddle26/lenet_momentum_dp2", DATA_PARALLEL, true},
    {"paddle26/gpt_tiny_adamw_dp2", DATA_PARALLEL, true},
    {"paddle26/gpt_tiny_dp2_mp2", DATA_PARALLEL, true},
    {"paddle26/bert_tiny_adamw_dp4", DATA_PARALLEL, true},
    {"paddle3/mlp_sgd_dp2", DATA_PARALLEL, true},
    {"paddle3/mlp_adam_dp2_amp", DATA_PARALLEL, true},
    {"paddle3/gpt_tiny_adamw_dp2", DATA_PARALLEL, true},
    {"torch/ddp/mlp6.w2", FUSION("concat"), true},
    {"torch/ddp/mlp6.w2", FUSION("coalesced"), true},
    {"torch/ddp/mlp6.w4", FUSION("in_place"), true},
    {"torch/ddp/mixed.w2", FUSION("concat"), true},
    {"torch/ddp/unused.w2", FUSION("in_place"), true},
    {"torch/ddp/gpt.w2", FUSION("concat"), true},
    {"torch/ddp/gpt_tied.w2", FUSION("in_place"), true},
    {"torch/ddp/mlp6.w2.accum", FUSION("concat"), true},
};

/* --- the suite ---------------------------------------------------------------------------------------------------- */

static void complain(const char *message) {
    check(false, "%s", message);
}

static bool add_mutants(weft_context *context, const subject *of, mutant_table *t) {
    exact_world w, raw;
    exact_result before, after;
    char message[320];
    if (strcmp(of->folder, OWNERS) == 0)
        world_make_owners(&w, context);
    else
        world_load(&w, context, of->folder);
    if (!w.nranks) return false;
    world_make_exact(&w);
    world_clone(&w, &raw);
    world_pass(&w, of->passes);
    world_run(&raw, NULL, &before);
    world_run(&w, NULL, &after);
    check(result_equal(&before, &after, message, sizeof message), "%s: the passes change results: %s", of->folder,
          message);
    result_free(&before);
    result_free(&after);
    world_free(&raw);
    mutate_schedules(t, &w, of->folder);
    mutate_plans(t, &w, of->folder);
    mutate_values(t, &w, of->folder);
    world_free(&w);
    return true;
}

static void print_row(const char *class, const mutant_count *c) {
    char confirmed[80] = "";
    if (c->ntried || c->nkept) snprintf(confirmed, sizeof confirmed, "%zu of %zu", c->nconfirmed, c->ntried);
    size_t n = strlen(confirmed);
    if (c->nkept) snprintf(confirmed + n, sizeof confirmed - n, ", %zu kept in order", c->nkept);
    printf("%-24s %8zu %8zu %10zu %9zu %7zu  %s\n", class, c->nmutants, c->ncaught, c->nnot_proved, c->nharmless,
           c->nmissed, confirmed);
}

static void print_table(const mutant_table *t) {
    static const char *const of_plans[] = {"plan: wait dropped", "plan: wait lowered", "plan: wait moved",
                                           "plan: memory overlapped"};
    mutant_count sum = {0};
    printf("%-24s %8s %8s %10s %9s %7s  %s\n", "class", "mutants", "caught", "not proved", "harmless", "missed",
           "confirmed by a run");
    for (int i = 0; i < MUTANT_CLASSES; i++) {
        const mutant_count *c = &t->of[i];
        if (c->nmutants) print_row(i < MUTATIONS ? mutation_name((mutation)i) : of_plans[i - MUTATIONS], c);
        sum.nmutants += c->nmutants;
        sum.ncaught += c->ncaught;
        sum.nnot_proved += c->nnot_proved;
        sum.nharmless += c->nharmless;
        sum.nmissed += c->nmissed;
        sum.nconfirmed += c->nconfirmed;
        sum.ntried += c->ntried;
        sum.nkept += c->nkept;
        check(!c->nmissed, "class %d: %zu missed", i, c->nmissed);
    }
    print_row("all", &sum);
    check(4 * sum.nconfirmed >= 3 * sum.ntried, "only %zu of %zu races show in a run", sum.nconfirmed, sum.ntried);
}

/* --- what is right ------------------------------------------------------------------------------------------------ */

static void accept_programs(weft_context *context, bool is_long) {
    accepted a = {.complain = complain};
    static const char *const some[] = {"paddle26/mlp_sgd_dp2", "paddle26/mlp_dp2_gradmerge", "torch/ddp/mlp6.w2"};
    static const char *const all[] = {"paddle26", "paddle3", "torch/ddp"};
    for (size_t i = 0; i < 3; i++) {
        if (is_long)
            accept_all(&a, context, all[i]);
        else
            accept_folder(&a, context, some[i]);
    }
    printf("%zu right programs and %zu more plans of them: %zu refused; %zu programs are wrong as recorded\n",
           a.nprograms, a.nplans, a.nrefused, a.nwrong);
    check(!a.nrefused && a.nwrong <= 3, "%zu are refused, %zu are wrong as recorded", a.nrefused, a.nwrong);
}

int main(int argc, char **argv) {
    bool is_long = getenv("WEFT_LONG_TESTS") != NULL, is_slow = getenv("WEFT_SANITIZED") != NULL;
    weft_context *context;
    mutant_table t = {.complain = complain, .per_class = is_long ? 12 : is_slow ? 1 : 4, .nconfirm = is_long ? 40 : 2};
#ifdef __SANITIZE_THREAD__
    t.nconfirm = 0; /* these runs race, and it would say so */
#endif
    size_t nsubjects = 0;
    must(weft_context_create(NULL, &context));
    if (argc == 4) {
        t.per_class = strtoul(argv[3], NULL, 10);
        nsubjects += add_mutants(context, &(subject){argv[1], argv[2], false}, &t);
    } else {
        for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
            if (is_long || !subjects[i].is_long) nsubjects += add_mutants(context, &subjects[i], &t);
        accept_programs(context, is_long);
    }
    print_table(&t);
    check(nsubjects > 0, "no fixtures");
    weft_context_destroy(context);
    return report_checks();
}
