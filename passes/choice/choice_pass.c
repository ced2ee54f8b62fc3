/* choice_pass.c: spmd_choose: the cheapest placements of all vars on a mesh, under a limit of memory. It writes them as
 * annotations: spmd_expand makes the programs of ranks of them. */
#include "passes/choice/choice.h"

static const weft_option options[] = {
    {"mesh", WEFT_OPTION_STRING, "", NULL,
     "the ranks along each axis: \"4\", \"2x4\", \"dp=2, mp=4\"; not for a program that has a mesh"},
    {"memory_mb", WEFT_OPTION_FLOAT, "0", NULL,
     "what a rank may hold, in MiB: state, values, and what is made of them; 0: any amount"},
    {"cluster", WEFT_OPTION_STRING, "", NULL, "a cluster file: what ops and collectives take; none: the defaults"},
    {"classes", WEFT_OPTION_INT, "200", NULL,
     "in a program of more ops, so many at most are told apart: layers that are equal lie equally"},
    {"columns", WEFT_OPTION_INT, "20000", NULL,
     "an integer program of more is solved for one mesh axis at a time, given the others, until nothing is better"},
    {"seconds", WEFT_OPTION_FLOAT, "60", NULL,
     "how long is searched for the best; then the best that was found counts"},
    {"solver", WEFT_OPTION_STRING, "libCbcSolver.so.3", NULL, "the library of CBC, opened when it is needed"},
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

static weft_status read_mesh(spmd_plan *plan, mesh *room) {
    const char *words = weft_pass_option_string(plan->pass, "mesh");
    if (plan->program->nmeshes && *words)
        return weft_pass_refuse(plan->pass, "the program has a mesh: leave the option mesh out");
    if (plan->program->nmeshes) return NULL;
    if (!*words)
        return weft_pass_refuse(
            plan->pass, "no mesh: expected the option mesh, as in mesh: \"dp=2, mp=4\", or a program that has one");
    TRY(choice_read_mesh(plan->pass, words, plan->scratch, room));
    plan->given_mesh = room;
    return NULL;
}

static weft_status read_limits(choice *c, size_t *out_classes) {
    weft_pass_context *pass = c->plan->pass;
    double mebibytes = weft_pass_option_float(pass, "memory_mb"), seconds = weft_pass_option_float(pass, "seconds");
    int64_t classes = weft_pass_option_int(pass, "classes"), columns = weft_pass_option_int(pass, "columns");
    if (!(mebibytes >= 0) || mebibytes > 1e9)
        return weft_pass_refuse(pass, "memory_mb: expected 0 to 1e9, found %g", mebibytes);
    if (!(seconds > 0) || seconds > 1e6)
        return weft_pass_refuse(pass, "seconds: expected more than 0 and at most 1e6, found %g", seconds);
    if (classes < 1) return weft_pass_refuse(pass, "classes: expected 1 or more, found %lld", (long long)classes);
    if (columns < 0) return weft_pass_refuse(pass, "columns: expected 0 or more, found %lld", (long long)columns);
    c->most_columns = (size_t)columns;
    c->limit = (int64_t)(mebibytes * (1 << 20));
    c->seconds_limit = seconds;
    *out_classes = (size_t)classes;
    return NULL;
}

static weft_status open_solver(weft_pass_context *pass) {
    const char *library = weft_pass_option_string(pass, "solver"), *why;
    if (cbc_open(library, &why)) return NULL;
    return weft_pass_refuse(pass, "it needs CBC, which could not be opened: %s (Debian has it in coinor-libcbc3)", why);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

/* All vars lie as was chosen: nothing is left to be found out. */
static void take_homes(choice *c, const choice_taken *taken) {
    for (size_t i = 0; i < c->plan->nvars; i++) {
        spmd_var *v = &c->plan->vars[i];
        if (c->var_class[i] == CHOICE_NONE) continue;
        v->want = c->vars[c->var_class[i]].homes[taken->home[c->var_class[i]]];
        v->is_fixed = true;
    }
}

static weft_status choose(choice *c) {
    spmd_plan *plan = c->plan;
    choice_result result;
    size_t classes = 1;
    TRY(read_limits(c, &classes));
    TRY(open_solver(plan->pass));
    TRY(spmd_prices_init(&c->prices, plan->pass->context, &plan->mesh, c->memory,
                         weft_pass_option_string(plan->pass, "cluster")));
    TRY(choice_find_classes(c, classes));
    TRY(choice_find_flow(c));
    TRY(choice_solve_by_axis(c, false, &result));
    if (result.state == IP_NONE) return choice_refuse_limit(c);
    if (result.state == IP_STOPPED)
        return weft_pass_refuse(plan->pass, "nothing was found in %g s: let `seconds` be more, or `classes` fewer",
                                c->seconds_limit);
    TRY(choice_report(c, &result));
    take_homes(c, &result.taken);
    TRY(spmd_decide(plan));
    TRY(weft_pass_count_add(plan->pass, "bytes that spmd_expand sends", (int64_t)plan->sent));
    TRY(choice_write_reasons(c, &result.taken));
    return spmd_write_wanted(plan);
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    spmd_plan plan = {.pass = pass, .program = program, .scratch = pass_scratch(pass), .rank = -1};
    choice c = {.plan = &plan, .memory = plan.scratch, .ip.memory = plan.scratch};
    mesh given;
    if (program->fx_json)
        return weft_pass_refuse(pass, "placements of a traced graph's inputs are given (placements_in), not chosen");
    TRY(read_mesh(&plan, &given));
    weft_status status = spmd_read(&plan);
    if (!status) status = choose(&c);
    spmd_plan_fini(&plan);
    return status;
}

const weft_pass pass_spmd_choose = {.options = options, .noptions = sizeof options / sizeof *options, .run = run};
