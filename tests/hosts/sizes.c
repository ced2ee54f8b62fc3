/* sizes.c: option structs begin with their size. A smaller one, of an older header, is taken and filled up with
 * defaults; a larger one, or one without a size, is refused. And the log has everything that the library says. */
#include "host.h"

#include "weft/equivalent.h"
#include "weft/feeds.h"
#include "weft/pass.h"
#include "weft/simulate.h"
#include "weft/trainer.h"
#include "weft/verify.h"

static const char text[] = "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [2], need_check_feed: true}\n"
                           "    y: {float32: [2]}\n  ops:\n  - {relu: {X: [x]}, out: {Out: [y]}}\n";

static char said[4096];

static void listen(void *user, weft_severity severity, const char *from, const char *line) {
    (void)user, (void)severity;
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s: %s\n", from, line);
}

static weft_status decline(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user, (void)program;
    weft_status status = weft_pass_did(pass, "looked at %d ops", 1);
    if (!status) status = weft_pass_left(pass, NULL, WEFT_REASON_LIMIT, "too small");
    return status ? status : weft_pass_refuse(pass, "no use");
}

/* Each function is called with a struct of the right size, of 8 bytes more, and of none. */
#define CHECK_SIZES(options, call)                                                                                     \
    do {                                                                                                               \
        size_t right = (options).struct_nbytes;                                                                        \
        CHECK(right == sizeof(options));                                                                               \
        (options).struct_nbytes = right + 8;                                                                           \
        REFUSES(WEFT_INVALID_ARGUMENT, "older than the host", call);                                                   \
        (options).struct_nbytes = 0;                                                                                   \
        REFUSES(WEFT_INVALID_ARGUMENT, "begins with its size", call);                                                  \
        (options).struct_nbytes = right;                                                                               \
    } while (0)

static void check_plans(weft_context *context, const weft_program *program) {
    weft_plan *plan = NULL, **plans;
    weft_executor *executor;
    weft_simulation *simulation;
    weft_feeds *feeds;
    size_t nplans;
    weft_plan_options how = {WEFT_PLAN_OPTIONS_INIT};
    CHECK_SIZES(how, weft_plan_create(program, &how, &plan));
    MUST(weft_plan_create(program, &how, &plan));
    const weft_plan *const one = plan;
    weft_executor_options run = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1};
    CHECK_SIZES(run, weft_executor_create(context, &one, 1, 1, &run, &executor));
    weft_simulation_options simulate = {WEFT_SIMULATION_OPTIONS_INIT, .trace_steps = 1};
    CHECK_SIZES(simulate, weft_simulation_create(context, &one, 1, 1, &simulate, &simulation));
    weft_plans_options all = {WEFT_PLANS_OPTIONS_INIT, .programs = &program, .nprograms = 1};
    CHECK_SIZES(all, weft_plans_create(context, &all, &plans, &nplans));
    weft_feeds_options fed = {WEFT_FEEDS_OPTIONS_INIT, .programs = &program, .nprograms = 1};
    CHECK_SIZES(fed, weft_feeds_create(context, &fed, &feeds));
    weft_plan_destroy(plan);
}

static void check_proofs(const weft_program *program) {
    weft_findings *findings;
    weft_plan_order *order;
    weft_equivalence *verdict;
    weft_verify_options judge = {WEFT_VERIFY_OPTIONS_INIT, .nranks = 1};
    CHECK_SIZES(judge, weft_verify(&program, 1, &judge, &findings));
    weft_order_options given = {WEFT_ORDER_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME};
    CHECK_SIZES(given, weft_plan_order_create(program, &given, &order));
    weft_equivalence_options equal = {WEFT_EQUIVALENCE_OPTIONS_INIT};
    CHECK_SIZES(equal, weft_equivalent(program, program, &equal, &verdict));
    CHECK_SIZES(equal, weft_equivalent_to_serial(program, &program, 1, &equal, &verdict));
}

static void check_trainer(weft_context *context, const weft_program *program) {
    weft_trainer *trainer;
    weft_plan_cache *cache;
    weft_tensors *feeds;
    weft_tensor *x, got;
    const int64_t dims[] = {2};
    MUST(weft_tensors_create(context, &feeds));
    MUST(weft_tensors_add(feeds, "x", WEFT_FP32, 1, dims, &x));
    ((float *)x->data)[0] = 3;
    const weft_tensors *const set = feeds;
    const char *const fetches[] = {"y"};
    weft_executor_options run = {WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 1};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT, .programs = &program, .nprograms = 1,  .feeds = &set,
                                    .fetches = fetches,        .nfetches = 1,        .executor = &run};
    CHECK_SIZES(options, weft_trainer_create(context, &options, &trainer));
    CHECK_SIZES(run, weft_trainer_create(context, &options, &trainer));
    weft_plan_cache_options kept = {WEFT_PLAN_CACHE_OPTIONS_INIT, .programs = &program, .nprograms = 1};
    CHECK_SIZES(kept, weft_plan_cache_create(context, &kept, &cache));
    /* A header that ended with nfetches: whatever lies behind is not looked at. */
    options.struct_nbytes = offsetof(weft_trainer_options, first_step);
    memset((char *)&options + options.struct_nbytes, 0xff, sizeof options - options.struct_nbytes);
    MUST(weft_trainer_create(context, &options, &trainer));
    MUST(weft_trainer_step(trainer, 0));
    MUST(weft_trainer_fetch(trainer, 0, 0, &got));
    CHECK(((const float *)got.data)[0] == 3 && weft_trainer_nsteps(trainer) == 1);
    weft_trainer_destroy(trainer);
    weft_tensors_destroy(feeds);
}

static void check_log(weft_context *context) {
    weft_program *program = NULL;
    CHECK(strstr(said, "decline: looked at 1 ops\n"));
    CHECK(strstr(said, "decline: left alone (limit): too small\n"));
    CHECK(strstr(said, "decline: refused: no use\n"));
    CHECK(strstr(said, "plans: made one"));
    static const char wrong[] = "weft: 1\nblocks:\n- idx: 0\n  nonsense: 1\n";
    REFUSES(WEFT_PARSE, "", weft_program_parse(context, WEFT_FORM_YAML, wrong, strlen(wrong), NULL, 0, "w", &program));
    CHECK(strstr(said, "w: 4:3: "));
}

int main(void) {
    static const weft_pass pass = {.name = "decline", .summary = "declines", .run = decline};
    weft_context *context = NULL;
    weft_program *program;
    weft_pass_list *list;
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_log = listen};
    CHECK_SIZES(options, weft_context_create(&options, &context));
    MUST(weft_context_create(&options, &context));
    MUST(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "host", &program));
    MUST(weft_pass_register(context, &pass));
    MUST(weft_pass_list_parse(context, "decline", 7, "host", &list));
    REFUSES(WEFT_REFUSED, "no use", weft_pass_list_run(list, program, NULL));
    check_plans(context, program);
    check_proofs(program);
    check_trainer(context, program);
    check_log(context);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    weft_context_destroy(context);
    return host_end("sizes");
}
