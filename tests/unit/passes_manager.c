/* Pass lists, options, reports; passes of a host; what happens when one refuses or breaks the program. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "passes/pass_manager.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/table.h"

static weft_context *context;
static weft_program *program;
static int nfindings;

static void count_finding(void *user, const weft_diagnostic *d) {
    (void)user;
    nfindings += d->severity == WEFT_ERROR;
}

/* --- passes of a host --------------------------------------------------------------------------------------------- */

/* Counts ops, reports its options, leaves each op alone. */
static weft_status run_look(weft_pass_context *pass, weft_program *p, void *user) {
    *(int *)user += 1;
    const char *const *words = NULL;
    size_t nwords = weft_pass_option_strings(pass, "words", &words);
    TRY(weft_pass_did(pass, "n=%lld f=%g b=%d s=%s words=%zu:%s given=%d", (long long)weft_pass_option_int(pass, "n"),
                      weft_pass_option_float(pass, "f"), weft_pass_option_bool(pass, "b"),
                      weft_pass_option_string(pass, "s"), nwords, nwords ? words[0] : "",
                      weft_pass_option_given(pass, "n")));
    for (weft_op *op = weft_block_first_op(weft_program_block(p, 0)); op; op = weft_op_next(op)) {
        TRY(weft_pass_count_add(pass, "ops seen", 1));
        TRY(weft_pass_left(pass, op, WEFT_REASON_ROLE, "role is %d", weft_op_role(op)));
    }
    return weft_pass_left(pass, NULL, WEFT_REASON_LIMIT, "nothing in particular");
}

static weft_status run_refuse(weft_pass_context *pass, weft_program *p, void *user) {
    (void)p;
    (void)user;
    return weft_pass_refuse(pass, "expected %d ops", 7);
}

static weft_status run_break(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass;
    (void)user;
    weft_var *var = weft_block_var_at(weft_program_block(p, 0), 0);
    var->ndim = WEFT_MAX_RANK + 1;
    var_changed(var);
    return NULL;
}

static weft_status run_drop_last(weft_pass_context *pass, weft_program *p, void *user) {
    (void)pass;
    (void)user;
    weft_op_remove(weft_block_last_op(weft_program_block(p, 0)));
    return NULL;
}

static int nlooks;
static const weft_option look_options[] = {
    {"n", WEFT_OPTION_INT, "3", NULL, "a number"},
    {"f", WEFT_OPTION_FLOAT, "0.5", NULL, "a fraction"},
    {"b", WEFT_OPTION_BOOL, "true", NULL, "a switch"},
    {"s", WEFT_OPTION_STRING, "cap", "flush|cap", "a choice"},
    {"words", WEFT_OPTION_STRINGS, "[x, y]", NULL, "some words"},
};
static const weft_pass look = {"look", "looks", look_options, 5, run_look, &nlooks, NULL, false};
static const weft_pass refusing = {"refusing", "refuses", NULL, 0, run_refuse, NULL, NULL, false};
static const weft_pass breaking = {"breaking", "breaks", NULL, 0, run_break, NULL, NULL, false};
static const weft_pass dropping = {"dropping", "drops the last op", NULL, 0, run_drop_last, NULL, NULL, false};

/* --- set-up ------------------------------------------------------------------------------------------------------- */

/* x -> relu -> y -> relu -> z */
static void make_program(void) {
    static const int64_t dims[] = {2, 3};
    static const char *const names[] = {"x", "y", "z"};
    cr_assert_null(weft_program_create(context, &program));
    weft_block *block = weft_program_block(program, 0);
    weft_var *vars[3];
    for (int i = 0; i < 3; i++) cr_assert_null(weft_block_add_var(block, names[i], WEFT_FP32, 2, dims, &vars[i]));
    for (int i = 0; i < 2; i++) {
        weft_op *op = NULL;
        cr_assert_null(weft_op_create(program, "relu", &op));
        cr_assert_null(weft_op_add_input(op, "X", vars[i]));
        cr_assert_null(weft_op_add_output(op, "Out", vars[i + 1]));
        cr_assert_null(weft_op_set_attr_int(op, "op_role", i));
        weft_block_insert_before(block, NULL, op);
    }
}

static void setup(void) {
    nfindings = nlooks = 0;
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = count_finding};
    cr_assert_null(weft_context_create(&options, &context));
    cr_assert_null(weft_pass_register(context, &look));
    cr_assert_null(weft_pass_register(context, &refusing));
    cr_assert_null(weft_pass_register(context, &breaking));
    cr_assert_null(weft_pass_register(context, &dropping));
    make_program();
}

static void teardown(void) {
    weft_program_destroy(program);
    weft_context_destroy(context);
}
TestSuite(manager, .init = setup, .fini = teardown);

static weft_pass_list *parse(const char *yaml) {
    weft_pass_list *list = NULL;
    weft_status status = weft_pass_list_parse(context, yaml, strlen(yaml), "list.yaml", &list);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
    return list;
}

static char *print_report(const weft_report *report, bool verbose, char *out, size_t room) {
    char *bytes = NULL;
    size_t nbytes = 0;
    cr_assert_null(weft_report_print(report, verbose, &bytes, &nbytes));
    snprintf(out, room, "%s", bytes);
    weft_bytes_free(context, bytes, nbytes);
    return out;
}

static void assert_status(weft_status status, weft_code code, const char *place, const char *words) {
    cr_assert_eq(weft_status_code(status), code, "%s", weft_status_message(status));
    cr_assert_str_eq(weft_status_place(status), place);
    cr_assert_not_null(strstr(weft_status_message(status), words), "%s", weft_status_message(status));
    weft_status_free(status);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

Test(manager, the_table_holds_own_and_host_passes) {
    static const char *const own[] = {"data_parallel",      "spmd_choose",       "spmd_propagate",
                                      "spmd_partition",     "spmd_expand",       "prune_grad_scale",
                                      "shard_updates",      "dedup_collectives", "overlap_comm",
                                      "coalesce_grads",     "plan_buckets",      "hierarchical_all_reduce",
                                      "insert_dependencies"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        cr_assert_str_eq(weft_pass_at(context, i)->name, own[i]);
        cr_assert_neq(weft_pass_at(context, i)->summary[0], '\0');
    }
    cr_assert_not_null(weft_pass_find(context, "look"));
    cr_assert_null(weft_pass_find(context, "nothing"));
    cr_assert_null(weft_pass_at(context, weft_pass_count(context)));
}

Test(manager, passes_that_cannot_be_are_not_registered) {
    assert_status(weft_pass_register(context, &look), WEFT_INVALID_ARGUMENT, "look", "already");
    static const weft_option twice[] = {{"a", WEFT_OPTION_INT, "1", NULL, ""}, {"a", WEFT_OPTION_INT, "1", NULL, ""}};
    static const weft_option wrong[] = {{"a", WEFT_OPTION_INT, "many", NULL, ""}};
    weft_pass bad = {"bad", "", twice, 2, run_refuse, NULL, NULL, false};
    assert_status(weft_pass_register(context, &bad), WEFT_INVALID_ARGUMENT, "bad", "\"a\" is declared twice");
    bad.options = wrong;
    bad.noptions = 1;
    assert_status(weft_pass_register(context, &bad), WEFT_PARSE, "bad:1:1",
                  "bad.a: expected an integer, found \"many\"");
}

/* --- strict lists ------------------------------------------------------------------------------------------------- */

static const struct list_case {
    const char *yaml, *place, *words;
} errors_cases[] = {
    {"passes:\n  - lok\n", "list.yaml:2:5", "no pass \"lok\": did you mean \"look\"?"},
    {"passes:\n  - something_else\n", "list.yaml:2:5", "no pass \"something_else\""},
    {"passes:\n  - look: {m: 1}\n", "list.yaml:2:12", "no option \"m\": expected one of n, f, b, s, words"},
    {"passes:\n  - refusing: {m: 1}\n", "list.yaml:2:16", "pass refusing has no options"},
    {"passes:\n  - look: {n: 1, n: 2}\n", "list.yaml:2:18", "\"n\" is given twice"},
    {"passes:\n  - look: {n: 1.5}\n", "list.yaml:2:15", "look.n: expected an integer, found \"1.5\""},
    {"passes:\n  - look: {n: \"1\"}\n", "list.yaml:2:15", "look.n: expected an integer"},
    {"passes:\n  - look: {f: fast}\n", "list.yaml:2:15", "look.f: expected a number"},
    {"passes:\n  - look: {b: yes}\n", "list.yaml:2:15", "look.b: expected true or false, found \"yes\""},
    {"passes:\n  - look: {s: drop}\n", "list.yaml:2:15", "look.s: expected one of flush|cap, found \"drop\""},
    {"passes:\n  - look: {s: 5}\n", "list.yaml:2:15", "look.s: expected a string, found \"5\""},
    {"passes:\n  - look: {words: x}\n", "list.yaml:2:19", "look.words: expected a sequence of strings, found \"x\""},
    {"passes:\n  - look: {words: [x, 1]}\n", "list.yaml:2:23", "look.words: expected a sequence of strings"},
    {"passes:\n  - look: {n: [1]}\n", "list.yaml:2:15", "found a sequence"},
    {"passes:\n  - look: 5\n", "list.yaml:2:11", "look: expected a mapping of options"},
    {"passes:\n  - {look: {}, refusing: {}}\n", "list.yaml:2:5", "found a mapping of 2 keys"},
    {"passes:\n  - [look]\n", "list.yaml:2:5", "expected the name of a pass"},
    {"passes: look\n", "list.yaml:1:9", "passes: expected a sequence"},
    {"passes: []\nmore: 1\n", "list.yaml:2:1", "expected the key \"passes\", found \"more\""},
    {"pases:\n  - look\n", "list.yaml:1:1", "expected the key \"passes\", found \"pases\""},
    {"- look\n- look\n", "list.yaml:1:1", "expected a mapping with the key \"passes\""},
    {"look, lok", "list.yaml:1:7", "did you mean \"look\"?"},
    {"look: {m: 1}", "list.yaml:1:8", "no option \"m\""},
    {"look, refusing, look: {n: 1, b: maybe}", "list.yaml:1:33", "look.b"},
    {"look: {n: 1", "list.yaml:2:1", "expected YAML"},
};
TABLE_ROWS(manager, errors, errors_cases);

TABLE_TEST(size_t *row, manager, errors) {
    const struct list_case *c = &errors_cases[*row];
    weft_pass_list *list = NULL;
    assert_status(weft_pass_list_parse(context, c->yaml, strlen(c->yaml), "list.yaml", &list), WEFT_PARSE, c->place,
                  c->words);
    cr_assert_null(list);
    cr_assert_geq(nfindings, 1, "the sink hears of it too");
}

static const struct form_case {
    const char *yaml;
    size_t count;
} forms_cases[] = {
    {"passes: [look, {look: {n: 4}}]", 2},
    {"passes:\n  - look\n  - look: {n: 4}\n  - refusing\n", 3},
    {"# a comment\npasses:\n  - look:\n      n: 4\n", 1},
    {"{passes: [look]}", 1},
    {"passes : [look]", 1},
    {"look", 1},
    {"  look, refusing  \n", 2},
    {"look, look: {n: 4, words: [a, b]}, refusing", 3},
    {"look: {n: 4}", 1},
    {"look: {}", 1},
    {"passes: []", 0},
};
TABLE_ROWS(manager, forms, forms_cases);

TABLE_TEST(size_t *row, manager, forms) {
    const struct form_case *c = &forms_cases[*row];
    weft_pass_list *list = parse(c->yaml);
    cr_assert_eq(weft_pass_list_count(list), c->count, "%s", c->yaml);
    weft_pass_list_destroy(list);
}

static const struct preset_case {
    const char *path;
    size_t count;
} presets_cases[] = {{"configs/data_parallel.yaml", 5}, {"configs/data_parallel_optimization.yaml", 4}};
TABLE_ROWS(manager, presets, presets_cases);

/* Tests run in the root of the tree. */
TABLE_TEST(size_t *row, manager, presets) {
    const struct preset_case *c = &presets_cases[*row];
    char *bytes = NULL;
    size_t nbytes = 0;
    cr_assert_null(file_read(&context->allocator, c->path, 1 << 20, &bytes, &nbytes), "%s", c->path);
    weft_pass_list *list = NULL;
    weft_status status = weft_pass_list_parse(context, bytes, nbytes, c->path, &list);
    cr_assert_null(status, "%s: %s", weft_status_place(status), weft_status_message(status));
    cr_assert_eq(weft_pass_list_count(list), c->count);
    weft_pass_list_destroy(list);
    weft_bytes_free(context, bytes, nbytes);
}

/* --- options ------------------------------------------------------------------------------------------------------ */

static void assert_did(weft_pass_list *list, const char *first, const char *second) {
    weft_report *report = NULL;
    cr_assert_null(weft_pass_list_run(list, program, &report));
    char printed[4000];
    print_report(report, true, printed, sizeof printed);
    const char *at = strstr(printed, first);
    cr_assert_not_null(at, "%s is not in\n%s", first, printed);
    if (second) cr_assert_not_null(strstr(at + strlen(first), second), "%s is not in\n%s", second, printed);
    weft_report_destroy(report);
}

Test(manager, options_have_defaults) {
    weft_pass_list *list = parse("look");
    assert_did(list, "did: n=3 f=0.5 b=1 s=cap words=2:x given=0", NULL);
    weft_pass_list_destroy(list);
}

Test(manager, options_are_given_in_the_list) {
    weft_pass_list *list = parse("look: {n: 0x10, f: 2, b: false, s: flush, words: [only]}");
    assert_did(list, "did: n=16 f=2 b=0 s=flush words=1:only given=1", NULL);
    weft_pass_list_destroy(list);
}

Test(manager, set_overrides_every_occurrence) {
    weft_pass_list *list = parse("look: {n: 1}, look: {n: 2}");
    cr_assert_null(weft_pass_list_set(list, "look.n=9"));
    cr_assert_null(weft_pass_list_set(list, "look.words=[a, b, c]"));
    assert_did(list, "did: n=9 f=0.5 b=1 s=cap words=3:a given=1", "did: n=9");
    weft_pass_list_destroy(list);
}

static const struct set_case {
    const char *assignment;
    weft_code code;
    const char *place, *words;
} set_cases[] = {
    {"look", WEFT_INVALID_ARGUMENT, "look", "expected PASS.KEY=VALUE"},
    {"look.n", WEFT_INVALID_ARGUMENT, "look.n", "expected PASS.KEY=VALUE"},
    {"look=n.1", WEFT_INVALID_ARGUMENT, "look=n.1", "expected PASS.KEY=VALUE"},
    {".n=1", WEFT_INVALID_ARGUMENT, ".n=1", "expected PASS.KEY=VALUE"},
    {"breaking.n=1", WEFT_NOT_FOUND, "breaking.n=1", "the pass list does not hold \"breaking\""},
    {"nothing.n=1", WEFT_NOT_FOUND, "nothing.n=1", "there is no pass \"nothing\""},
    {"look.m=1", WEFT_PARSE, "look.m=1:1:6", "no option \"m\""},
    {"look.n=x", WEFT_PARSE, "look.n=x:1:8", "look.n: expected an integer"},
    {"look.n=", WEFT_PARSE, "look.n=:1:1", "look.n: expected an integer"},
    {"look.s=drop", WEFT_PARSE, "look.s=drop:1:8", "flush|cap"},
};
TABLE_ROWS(manager, set, set_cases);

TABLE_TEST(size_t *row, manager, set) {
    const struct set_case *c = &set_cases[*row];
    weft_pass_list *list = parse("look");
    assert_status(weft_pass_list_set(list, c->assignment), c->code, c->place, c->words);
    assert_did(list, "did: n=3", NULL);
    weft_pass_list_destroy(list);
}

/* --- runs and reports --------------------------------------------------------------------------------------------- */

Test(manager, the_report_tells_what_was_done_and_left) {
    weft_pass_list *list = parse("look, dropping");
    weft_report *report = NULL;
    cr_assert_null(weft_pass_list_run(list, program, &report));
    weft_pass_list_destroy(list);
    cr_assert_eq(weft_report_npasses(report), 2);
    cr_assert_str_eq(weft_report_pass_name(report, 1), "dropping");
    cr_assert_eq(weft_report_count(report, 0, "ops seen"), 2);
    cr_assert_eq(weft_report_count(report, 0, "nothing"), 0);
    cr_assert_eq(weft_report_nops_before(report, 1), 2);
    cr_assert_eq(weft_report_nops_after(report, 1), 1);
    cr_assert_eq(weft_report_nleft(report, 0), 3);
    const char *words = NULL;
    cr_assert_eq(weft_report_left(report, 0, 1, &words), WEFT_REASON_ROLE);
    cr_assert_str_eq(words, "relu #1: role is 1");
    cr_assert_eq(weft_report_left(report, 0, 2, &words), WEFT_REASON_LIMIT);
    cr_assert_str_eq(words, "nothing in particular");
    cr_assert_geq(weft_report_seconds(report, 0), 0.0);
    char printed[4000];
    print_report(report, false, printed, sizeof printed);
    cr_assert_not_null(strstr(printed, "ops 2 -> 1"), "%s", printed);
    cr_assert_not_null(strstr(printed, "    ops seen: 2\n"), "%s", printed);
    cr_assert_not_null(strstr(printed, "    left alone: 2 (role): relu #0: role is 0, ...\n"), "%s", printed);
    print_report(report, true, printed, sizeof printed);
    cr_assert_not_null(strstr(printed, "    left alone (role): relu #1: role is 1\n"), "%s", printed);
    weft_report_destroy(report);
}

Test(manager, a_refusal_stops_the_list_and_leaves_the_program) {
    weft_program *before = NULL;
    cr_assert_null(weft_program_clone(program, &before));
    weft_pass_list *list = parse("look, refusing, look");
    weft_report *report = NULL;
    assert_status(weft_pass_list_run(list, program, &report), WEFT_REFUSED, "refusing", "expected 7 ops");
    cr_assert_eq(nlooks, 1);
    cr_assert_eq(weft_report_npasses(report), 2);
    char printed[4000];
    cr_assert_not_null(strstr(print_report(report, false, printed, sizeof printed), "    failed: expected 7 ops\n"));
    cr_assert(weft_program_equal(before, program));
    assert_status(weft_pass_list_run(list, program, NULL), WEFT_REFUSED, "refusing", "expected 7 ops");
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(before);
}

Test(manager, a_pass_that_breaks_the_program_is_named) {
    weft_pass_list *list = parse("look, breaking, look");
    weft_status status = weft_pass_list_run(list, program, NULL);
    cr_assert_eq(weft_status_code(status), WEFT_INVALID_PROGRAM);
    cr_assert_not_null(strstr(weft_status_message(status), "after pass breaking: "), "%s", weft_status_message(status));
    weft_status_free(status);
    cr_assert_eq(nlooks, 1);
    cr_assert_geq(nfindings, 1);
    status = weft_pass_list_run(list, program, NULL);
    cr_assert_not_null(strstr(weft_status_message(status), "before pass look: "), "%s", weft_status_message(status));
    weft_status_free(status);
    cr_assert_eq(nlooks, 1, "no pass runs on a broken program");
    weft_pass_list_destroy(list);
}

Test(manager, every_failed_request_is_a_clean_status) {
    static const char yaml[] = "passes: [look: {n: 1, words: [a, b]}, look]";
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        failing_allocator state = {.fail_at = n};
        weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = failing_allocator_on(&state)};
        weft_context *failing = NULL;
        weft_pass_list *list = NULL;
        weft_status status = weft_context_create(&options, &failing);
        if (!status) status = weft_pass_register(failing, &look);
        if (!status) status = weft_pass_list_parse(failing, yaml, strlen(yaml), "t", &list);
        if (!status) status = weft_pass_list_set(list, "look.s=flush");
        weft_pass_list_destroy(list);
        weft_context_destroy(failing);
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK, "request %zu", n);
        cr_assert_eq(state.held, 0, "request %zu: %zu bytes are lost", n, state.held);
        cr_assert_not(state.wrong_size);
    }
}
