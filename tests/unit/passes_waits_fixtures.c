/* The two wait passes on recorded graphs: insert_comm_wait gives what was worked out by hand (expected.fx.json), and
 * schedule_comm_wait is right where the original was seen to be wrong. A case that is not there is skipped. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/pass.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(passes_waits_fixtures, .init = set_up, .fini = tear_down);

static weft_program *load(const char *folder, const char *file) {
    char relative[256], path[512];
    weft_program *p = NULL;
    snprintf(relative, sizeof relative, "torch/%s/%s.fx.json", folder, file);
    if (!fixture_path(path, sizeof path, relative)) return NULL;
    must(weft_program_load(context, path, NULL, &p));
    return p;
}

static void run(weft_program *p, const char *list_text) {
    weft_pass_list *list = NULL;
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    weft_pass_list_destroy(list);
}

/* Types and arguments in order; a var is the number of its first mention. */
static void print_structure(const weft_program *p, buffer *out) {
    uint32_t *numbers = calloc(p->nall_vars + 1, sizeof *numbers), next = 0;
    buffer_init(out, &context->allocator);
    FOR_EACH_OP(op, p->blocks[0]) {
        buffer_format(out, "%s", op->type->bytes);
        for (int output = 0; output < 2; output++) {
            FOR_EACH_ARG(op, output, u) {
                if (!numbers[u->var_id]) numbers[u->var_id] = ++next;
                buffer_format(out, " %u", numbers[u->var_id]);
            }
        }
        buffer_text(out, "\n");
    }
    buffer_append(out, "", 1);
    free(numbers);
}

Test(passes_waits_fixtures, inserted_waits_are_those_worked_out_by_hand) {
    static const char *const cases[] = {"all_gather_into_tensor",
                                        "all_reduce",
                                        "all_reduce_coalesced",
                                        "all_to_all_single",
                                        "both_pending",
                                        "broadcast",
                                        "collective_of_collective_and_use",
                                        "consecutive",
                                        "late_and_two_consumers",
                                        "no_consumer",
                                        "overlap",
                                        "reduce_scatter_tensor",
                                        "two_args_one_pending",
                                        "unused"};
    size_t nfound = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char folder[128];
        snprintf(folder, sizeof folder, "commtensor_functional/%s.w2", cases[i]);
        weft_program *before = load(folder, "before"), *expected = load(folder, "expected");
        if (before && expected) {
            buffer got, wanted;
            run(before, "insert_comm_wait");
            print_structure(before, &got);
            print_structure(expected, &wanted);
            cr_assert_str_eq(got.bytes, wanted.bytes, "%s", cases[i]);
            buffer_fini(&got);
            buffer_fini(&wanted);
            nfound++;
        }
        weft_program_destroy(before);
        weft_program_destroy(expected);
    }
    if (!nfound) cr_skip_test("no recorded graphs");
}

/* What ops give, in order. */
static void print_names(const weft_program *p, buffer *out) {
    buffer_init(out, &context->allocator);
    FOR_EACH_OP(op, p->blocks[0]) {
        const weft_var *first = op_out(op);
        if (first) buffer_format(out, "%s%s", out->nbytes ? " " : "", first->name->bytes);
    }
    buffer_append(out, "", 1);
}

/* Graphs on which the original fails, or ends the overlap too early. */
static const struct {
    const char *graph, *wanted;
} defects[] = {
    {"wait_without_user",
     "div all_reduce div_1 all_reduce_1 div_2 all_reduce_2 wait_tensor wait_tensor_1 wait_tensor_2"},
    {"collective_without_user", "div all_reduce div_1 all_reduce_1 div_2 all_reduce_2 wait_tensor wait_tensor_1"},
    {"single_coalesced", "all_reduce_coalesced.0 getitem mul mul_1 wait_tensor add"},
    {"two_coalesced", "all_reduce_coalesced.0 getitem getitem_1 mul relu wait_tensor_1 add wait_tensor add_1"},
    {"view_user", "div all_reduce mul relu wait_tensor view mul_1"},
    {"user_scan_stops", "div all_reduce wait_tensor mul reshape_0 mul_1 add"},
    {"early_copy", "div all_reduce exp div_1 all_reduce_1 mul wait_tensor copy_ wait_tensor_1 copy__1"},
    {"copy_then_read", "div all_reduce exp wait_tensor copy_ sum_1 add div_1 all_reduce_1 mul wait_tensor_1 copy__1"},
};

Test(passes_waits_fixtures, waits_sink_where_the_original_fails) {
    size_t nfound = 0;
    for (size_t i = 0; i < sizeof defects / sizeof *defects; i++) {
        char file[128];
        buffer got;
        snprintf(file, sizeof file, "%s.before", defects[i].graph);
        weft_program *p = load("ddp/bugs", file);
        if (!p) continue;
        run(p, "schedule_comm_wait");
        print_names(p, &got);
        cr_assert_str_eq(got.bytes, defects[i].wanted, "%s", defects[i].graph);
        buffer_fini(&got);
        weft_program_destroy(p);
        nfound++;
    }
    if (!nfound) cr_skip_test("no recorded graphs");
}

/* A copy_ into each gradient right after its reduce: all collectives are launched before the first wait. */
Test(passes_waits_fixtures, inline_accumulation_overlaps) {
    weft_program *p = load("ddp/mlp6.w2.accum_inline", "before");
    if (!p) cr_skip_test("no recorded graphs");
    run(p, "schedule_comm_wait");
    size_t nwaits = 0, nlaunches = 0;
    FOR_EACH_OP(op, p->blocks[0]) {
        nwaits += op_is(op, "wait_tensor");
        if (!op_is(op, "all_reduce")) continue;
        nlaunches++;
        cr_assert_eq(nwaits, 0, "all_reduce %zu comes after a wait", nlaunches);
    }
    cr_assert_eq(nlaunches, 12);
    cr_assert_eq(nwaits, 12);
    weft_program_destroy(p);
}
