/* Edits since a mark (weft/program.h): on recorded programs, whatever passes do, ops and vars that are not edited are
 * in their old order and what they were. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/ir.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/edits.h"
#include "weft/pass.h"

#define CHEAPER "prune_grad_scale, overlap_comm, coalesce_grads, insert_dependencies"
#define MOVING "fuse_allreduce_buckets, schedule_comm_wait"

typedef struct tally {
    size_t nprograms, nkept, nedited;
} tally;

/* Ops of `after` that are not edited are ops of `before`, in order: `was` are those of `after` before the passes. */
static void check_block(weft_block *before, weft_block *after, weft_op **was, uint32_t mark, const char *path,
                        tally *t) {
    weft_op *old = before->first;
    size_t at = 0, nwas = before->nops;
    FOR_EACH_OP(op, after) {
        if (weft_op_is_edited(op, mark)) {
            t->nedited++;
            continue;
        }
        for (; at < nwas && was[at] != op; at++) old = old->next;
        cr_assert_lt(at, nwas, "%s: %s is out of its order, or new", path, op->type->bytes);
        cr_assert(op_equal(old, op), "%s: op %zu (%s) was changed", path, at, op->type->bytes);
        t->nkept++;
    }
    for (size_t i = 0; i < after->nvars; i++) {
        const weft_var *var = block_var(after, i);
        if (weft_var_is_edited(var, mark)) continue;
        const name *old_name = interner_find(&before->program->names, var->name->bytes, var->name->nbytes);
        const weft_var *twin = old_name ? block_find(before, old_name) : NULL;
        cr_assert(twin, "%s: %s is new", path, var->name->bytes);
        cr_assert(var_equal(twin, var), "%s: %s was changed", path, var->name->bytes);
    }
}

static void check(weft_context *context, const char *path, const char *passes, tally *t) {
    weft_program *before, *after;
    weft_pass_list *list;
    uint32_t mark;
    if (weft_program_load(context, path, NULL, &before)) return;
    must(weft_program_load(context, path, NULL, &after));
    must(weft_program_mark(after, &mark));
    size_t nblocks = after->nblocks;
    weft_op ***was = calloc(nblocks, sizeof *was);
    for (size_t b = 0; b < nblocks; b++) {
        size_t n = 0;
        was[b] = calloc(after->blocks[b]->nops + 1, sizeof **was);
        FOR_EACH_OP(op, after->blocks[b]) was[b][n++] = op;
    }
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    weft_report *report = NULL;
    weft_status status = weft_pass_list_run(list, after, &report);
    t->nprograms += !status;
    for (size_t b = 0; b < nblocks; b++) {
        if (!status) check_block(before->blocks[b], after->blocks[b], was[b], mark, path, t);
        free(was[b]);
    }
    free(was);
    weft_status_free(status);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    weft_program_destroy(before);
    weft_program_destroy(after);
}

static tally check_all(const char *pattern, const char *passes) {
    char whole[600];
    glob_t found;
    weft_context *context;
    tally t = {0};
    must(weft_context_create(NULL, &context));
    snprintf(whole, sizeof whole, "%s/%s", fixture_root(), pattern);
    if (glob(whole, GLOB_BRACE, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) check(context, found.gl_pathv[i], passes, &t);
        globfree(&found);
    }
    weft_context_destroy(context);
    return t;
}

Test(passes_edits, rank_programs) {
    tally t = check_all("paddle{26,3}/*/rank0.pdmodel*", CHEAPER);
    cr_expect_gt(t.nprograms, 10);
    cr_expect_gt(t.nkept, t.nedited, "%zu ops kept, %zu edited", t.nkept, t.nedited);
    cr_expect_gt(t.nedited, t.nprograms);
}

Test(passes_edits, serial_programs) {
    tally t = check_all("paddle{26,3}/*/serial.pdmodel*", "data_parallel: {ranks: 2}, " CHEAPER);
    cr_expect_gt(t.nprograms, 10);
    cr_expect_gt(t.nkept, t.nedited, "%zu ops kept, %zu edited", t.nkept, t.nedited);
}

/* Of these passes one moves the reduces of a bucket, the other what waits for them. */
Test(passes_edits, programs_whose_ops_move) {
    tally t = check_all("paddle{26,3}/*/rank0.pdmodel*", MOVING);
    cr_expect_gt(t.nprograms, 5);
    cr_expect_gt(t.nkept, t.nedited, "%zu ops kept, %zu edited", t.nkept, t.nedited);
}

static void expect_run(const weft_edits *edits, size_t index, int64_t source, size_t nops, bool is_edited) {
    int64_t at;
    size_t n;
    bool edited;
    weft_edits_run(edits, 0, index, &at, &n, &edited);
    cr_expect(at == source && n == nops && edited == is_edited, "run %zu: %lld, %zu ops, edited %d", index,
              (long long)at, n, edited);
}

/* A program of n ops that write x, and its edits. */
static void begin_edits(weft_context **context, weft_program **program, size_t n, weft_op **op, weft_edits **edits) {
    int64_t dims[] = {4};
    weft_var *x;
    must(weft_context_create(NULL, context));
    must(weft_program_create(*context, program));
    weft_block *block = weft_program_block(*program, 0);
    must(weft_block_add_var(block, "x", WEFT_FP32, 1, dims, &x));
    for (size_t i = 0; i < n; i++) {
        must(weft_op_create(*program, "scale", &op[i]));
        must(weft_op_add_input(op[i], "X", x));
        must(weft_op_add_output(op[i], "Out", x));
        must(weft_op_set_attr_float(op[i], "scale", 2.0));
        weft_block_insert_before(block, NULL, op[i]);
    }
    must(weft_edits_begin(*program, edits));
}

static void end_edits(weft_context *context, weft_program *program, weft_edits *edits) {
    weft_edits_destroy(edits);
    weft_program_destroy(program);
    weft_context_destroy(context);
}

/* The op that moved is edited, those that it passed are not; a move to where the op stands is none. */
Test(passes_edits, an_op_that_moved_is_edited_since_the_mark) {
    weft_context *context;
    weft_program *program;
    weft_op *op[5];
    weft_edits *edits;
    uint32_t mark, later;
    begin_edits(&context, &program, 5, op, &edits);
    must(weft_program_mark(program, &mark));
    weft_op_move_before(op[1], op[1]);
    weft_op_move_before(op[1], op[2]);
    weft_op_move_after(op[3], op[2]);
    for (size_t i = 0; i < 5; i++) cr_expect_not(weft_op_is_edited(op[i], mark), "op %zu did not move", i);
    weft_op_move_before(op[4], op[0]);
    weft_op_move_after(op[1], op[3]);
    for (size_t i = 0; i < 5; i++) cr_expect_eq(weft_op_is_edited(op[i], mark), i == 4 || i == 1, "op %zu", i);
    must(weft_program_mark(program, &later));
    for (size_t i = 0; i < 5; i++) cr_expect_not(weft_op_is_edited(op[i], later), "op %zu moved before this mark", i);
    end_edits(context, program, edits);
}

/* Streams and what was set to what it was are no edits; ops that moved, changed or are new are. */
Test(passes_edits, a_patch_has_what_a_pdmodel_holds) {
    weft_context *context;
    weft_program *program, *patch;
    weft_op *op[5];
    weft_edits *edits;
    weft_var *y;
    int64_t dims[] = {4};
    char *bytes;
    size_t nbytes;
    begin_edits(&context, &program, 5, op, &edits);
    must(weft_op_set_stream(op[0], "s"));
    must(weft_op_set_attr_float(op[1], "scale", 3.0));
    must(weft_op_set_attr_float(op[1], "scale", 2.0));
    must(weft_edits_find(edits));
    cr_expect_eq(weft_edits_nruns(edits, 0), 1);
    expect_run(edits, 0, 0, 5, false);
    weft_op_move_before(op[4], op[2]);
    must(weft_op_set_attr_float(op[3], "scale", 3.0));
    must(weft_block_add_var(weft_program_block(program, 0), "y", WEFT_FP32, 1, dims, &y));
    must(weft_edits_find(edits));
    cr_expect_eq(weft_edits_nruns(edits, 0), 4);
    expect_run(edits, 0, 0, 2, false);
    expect_run(edits, 1, 4, 1, true);
    expect_run(edits, 2, 2, 1, false);
    expect_run(edits, 3, 3, 1, true);
    expect_run(edits, 4, -1, 0, false);
    cr_expect_not(weft_edits_removes_vars(edits, 0));
    must(weft_edits_print(edits, &bytes, &nbytes));
    must(weft_program_parse(context, WEFT_FORM_PDMODEL, bytes, nbytes, NULL, 0, "patch", &patch));
    cr_expect_eq(weft_program_nops(patch), 2);
    cr_expect_eq(weft_block_nvars(weft_program_block(patch, 0)), 1);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(patch);
    end_edits(context, program, edits);
}

/* The patch for a host that takes long lists of arguments from the ops: it has all but these. */
Test(passes_edits, a_short_patch_lacks_long_slots_and_its_ops_are_asked_for_them) {
    weft_context *context;
    weft_program *program, *patch;
    weft_op *op[3];
    weft_edits *edits;
    char *bytes;
    const char *names[2] = {"left", "alone"};
    size_t nbytes;
    begin_edits(&context, &program, 3, op, &edits);
    must(weft_op_set_attr_float(op[1], "scale", 3.0));
    must(weft_edits_find(edits));
    cr_expect_null(weft_edits_long_op(edits, 0, 0, 0));
    cr_expect_eq(weft_edits_long_op(edits, 0, 1, 0), op[1]);
    cr_expect_null(weft_edits_long_op(edits, 0, 1, 1));
    cr_expect_null(weft_edits_long_op(edits, 0, 3, 0));
    cr_expect_null(weft_edits_long_op(edits, 1, 0, 0));
    weft_op_arg_names(op[1], false, 0, names);
    cr_expect_str_eq(names[0], weft_var_name(weft_op_arg(op[1], false, 0, 0)));
    cr_expect_str_eq(names[1], "alone", "the slot has one argument");
    weft_op_arg_names(op[1], true, 1, &names[1]);
    cr_expect_str_eq(names[1], "alone", "there is no such slot");
    must(weft_edits_print_short(edits, 0, &bytes, &nbytes));
    must(weft_program_parse(context, WEFT_FORM_PDMODEL, bytes, nbytes, NULL, 0, "patch", &patch));
    cr_assert_eq(weft_program_nops(patch), 1);
    const weft_op *made = weft_block_first_op(weft_program_block(patch, 0));
    cr_expect_eq(weft_op_nslots(made, false) + weft_op_nslots(made, true), 0);
    cr_expect_eq(weft_attr_float(weft_op_attr(made, "scale"), 0), 3.0);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(patch);
    end_edits(context, program, edits);
}

/* Sets the attr of a row to one of two values. */
typedef weft_status (*set_attr)(weft_op *op, bool second);
static weft_status set_int(weft_op *op, bool second) {
    return weft_op_set_attr_int(op, "a", second);
}
static weft_status set_float(weft_op *op, bool second) {
    return weft_op_set_attr_float(op, "a", second ? 0.5 : 0.25);
}
static weft_status set_bool(weft_op *op, bool second) {
    return weft_op_set_attr_bool(op, "a", second);
}
static weft_status set_string(weft_op *op, bool second) {
    return weft_op_set_attr_string(op, "a", second ? "a string of length" : "a string of lengtH");
}
static weft_status set_longs(weft_op *op, bool second) {
    return weft_op_set_attr_longs(op, "a", 3, (const int64_t[]){1, second, 3});
}
static weft_status set_strings(weft_op *op, bool second) {
    return weft_op_set_attr_strings(op, "a", 2, (const char *const[]){"same", second ? "x" : "y"});
}
static weft_status set_shorter(weft_op *op, bool second) {
    return weft_op_set_attr_longs(op, "a", second ? 0 : 1, (const int64_t[]){0});
}
static weft_status set_type(weft_op *op, bool second) {
    return second ? weft_op_set_attr_int(op, "a", 1) : weft_op_set_attr_bool(op, "a", true);
}

/* Whatever the type of an attr: another value is an edit, the first one again is none. */
Test(passes_edits, values_of_attrs_are_compared) {
    static const set_attr rows[] = {set_int,   set_float,   set_bool,    set_string,
                                    set_longs, set_strings, set_shorter, set_type};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_context *context;
        weft_program *program;
        weft_op *op[2];
        weft_edits *edits;
        begin_edits(&context, &program, 2, op, &edits);
        weft_edits_destroy(edits);
        must(rows[i](op[1], false));
        must(weft_edits_begin(program, &edits));
        must(rows[i](op[1], true));
        must(weft_edits_find(edits));
        expect_run(edits, 1, 1, 1, true);
        must(rows[i](op[1], false));
        must(weft_edits_find(edits));
        cr_expect_eq(weft_edits_nruns(edits, 0), 1, "row %zu: set to what it was", i);
        end_edits(context, program, edits);
    }
}

/* Arguments: another var, another slot, one more; and what a var is. */
Test(passes_edits, arguments_and_vars_are_compared) {
    weft_context *context;
    weft_program *program, *patch;
    weft_op *op[4];
    weft_edits *edits;
    weft_var *y;
    int64_t dims[] = {4}, others[] = {5};
    char *bytes;
    size_t nbytes;
    begin_edits(&context, &program, 4, op, &edits);
    weft_edits_destroy(edits);
    weft_block *block = weft_program_block(program, 0);
    weft_var *x = weft_block_find_var(block, "x");
    must(weft_block_add_var(block, "y", WEFT_FP32, 1, dims, &y));
    must(weft_edits_begin(program, &edits));
    weft_op_rename_input(op[0], x, y);
    must(weft_op_add_input(op[2], "X", y));
    must(weft_op_add_input(op[3], "Y", x));
    int64_t *was = y->dims;
    y->dims = others;
    var_changed(y);
    must(weft_edits_find(edits));
    expect_run(edits, 0, 0, 1, true);
    expect_run(edits, 1, 1, 1, false);
    expect_run(edits, 2, 2, 1, true);
    expect_run(edits, 3, 3, 1, true);
    must(weft_edits_print(edits, &bytes, &nbytes));
    must(weft_program_parse(context, WEFT_FORM_PDMODEL, bytes, nbytes, NULL, 0, "patch", &patch));
    cr_expect_eq(weft_block_nvars(weft_program_block(patch, 0)), 1);
    weft_bytes_free(context, bytes, nbytes);
    weft_program_destroy(patch);
    weft_op_rename_input(op[0], y, x);
    y->dims = was;
    var_changed(y);
    must(weft_edits_find(edits));
    expect_run(edits, 0, 0, 2, false);
    end_edits(context, program, edits);
}

Test(passes_edits, what_went_is_found) {
    weft_context *context;
    weft_program *program;
    weft_op *op[3];
    weft_edits *edits;
    char *bytes;
    size_t nbytes;
    begin_edits(&context, &program, 3, op, &edits);
    weft_status status = weft_edits_print(edits, &bytes, &nbytes);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    weft_var *x = weft_block_find_var(weft_program_block(program, 0), "x");
    weft_op_remove(op[1]);
    must(weft_edits_find(edits));
    cr_expect_eq(weft_edits_nruns(edits, 0), 2);
    expect_run(edits, 1, 2, 1, false);
    weft_op_remove(op[0]);
    weft_op_remove(op[2]);
    must(weft_var_remove(x));
    must(weft_edits_find(edits));
    cr_expect_eq(weft_edits_nruns(edits, 0), 0);
    cr_expect(weft_edits_removes_vars(edits, 0));
    end_edits(context, program, edits);
}

Test(passes_edits, a_mark_is_not_given_of_a_broken_program) {
    weft_context *context;
    weft_program *program;
    weft_op *op;
    uint32_t mark = 7;
    must(weft_context_create(NULL, &context));
    must(weft_program_create(context, &program));
    must(weft_op_create(program, "relu", &op));
    weft_block_insert_after(weft_program_block(program, 0), NULL, op);
    must(weft_op_set_attr_int(op, "op_callstack", 3));
    weft_status status = weft_program_mark(program, &mark);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_PROGRAM);
    cr_expect_eq(mark, 7);
    weft_status_free(status);
    weft_program_destroy(program);
    weft_context_destroy(context);
}
