/* Edits keep the order of ops, their order numbers and the uses of vars: compared with a plain array of pointers. */
#include "base/context.h"
#include "program/ir.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

static weft_context *context;
static weft_program *program;

static void set_up(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(weft_program_create(context, &program));
}
static void tear_down(void) {
    weft_program_destroy(program);
    context_destroy(context);
}
TestSuite(program_edit, .init = set_up, .fini = tear_down);

static weft_op *new_op(weft_var *in, weft_var *out) {
    weft_op *op;
    cr_assert_null(weft_op_create(program, "relu", &op));
    cr_assert_null(weft_op_add_input(op, "X", in));
    cr_assert_null(weft_op_add_output(op, "Out", out));
    return op;
}

static weft_var *new_var(const char *n) {
    weft_var *v;
    cr_assert_null(weft_block_add_var(program->blocks[0], n, WEFT_FP32, 1, &(int64_t){4}, &v));
    return v;
}

/* --- against the model -------------------------------------------------------------------------------------------- */

enum { NVARS = 5, MODEL_CAPACITY = 4096 };
static weft_op *model[MODEL_CAPACITY];
static size_t model_count;

static void model_insert(size_t at, weft_op *op) {
    memmove(model + at + 1, model + at, (model_count++ - at) * sizeof *model);
    model[at] = op;
}
static weft_op *model_take(size_t at) {
    weft_op *op = model[at];
    memmove(model + at, model + at + 1, (--model_count - at) * sizeof *model);
    return op;
}

/* `u` is an argument of its op, not what was one before the slot grew. */
static bool is_argument(const use *u) {
    FOR_EACH_ARG(use_op(program, u), u->is_output, arg) {
        if (arg == u) return true;
    }
    return false;
}

/* The var's uses, which know each other from both sides. */
static size_t count_uses(const weft_var *v) {
    const use *before = NULL;
    size_t count = 0;
    FOR_EACH_USE(u, v) {
        cr_assert_eq(use_op(v->program, u)->block, program->blocks[0]);
        cr_assert_eq(use_var(program, u), v);
        cr_assert(is_argument(u));
        cr_assert_eq(use_at(program, u->prev), before);
        before = u;
        count++;
    }
    cr_assert_eq(use_at(program, v->last_use), before);
    return count;
}

/* Slots lie one behind another, inputs first, and an argument knows its side. */
static void check_slots(const weft_op *op) {
    uint32_t at = 0;
    for (int output = 0; output < 2; output++) {
        for (uint32_t i = 0; i < op_nslots(op, output); i++) {
            const slot *s = op_slot(op, output, i);
            cr_assert_eq(s->first, at);
            for (uint32_t k = 0; k < s->nargs; k++) cr_assert_eq(slot_args(op, s)[k].is_output, output);
            at += s->nargs;
        }
        cr_assert_eq(at, output ? op->slots->nargs : op->slots->ninput_args);
    }
}

static void check_against_model(weft_var **vars) {
    weft_block *b = program->blocks[0];
    cr_assert_eq(weft_block_nops(b), model_count);
    size_t i = 0, uses[NVARS] = {0};
    const weft_op *before = NULL;
    FOR_EACH_OP(op, b) {
        cr_assert_eq(op, model[i++]);
        cr_assert_eq(op->prev, before);
        cr_assert(!before || weft_op_is_before(before, op));
        before = op;
        check_slots(op);
        for (int v = 0; v < NVARS; v++) {
            FOR_EACH_ARG(op, false, u) uses[v] += use_var(op->program, u) == vars[v];
            FOR_EACH_ARG(op, true, u) uses[v] += use_var(op->program, u) == vars[v];
        }
    }
    cr_assert_eq(b->last, before);
    for (int v = 0; v < NVARS; v++) {
        cr_assert_eq(count_uses(vars[v]), uses[v]);
        cr_assert_eq(weft_var_nuses(vars[v]), uses[v]);
    }
}

static void random_edit(weft_var **vars, unsigned *seed) {
    weft_block *b = program->blocks[0];
    weft_var *in = vars[rand_r(seed) % NVARS], *out = vars[rand_r(seed) % NVARS];
    size_t at = model_count ? (size_t)rand_r(seed) % model_count : 0, to;
    int kind = model_count ? rand_r(seed) % 11 : 0;
    static const char *const slots[] = {"A", "X", "Y"};
    const char *some_slot = slots[rand_r(seed) % 3];
    weft_op *op;
    switch (kind) {
    case 0:
    case 1:
        op = new_op(in, out);
        weft_block_insert_before(b, at < model_count ? model[at] : NULL, op);
        model_insert(at, op);
        break;
    case 2:
        op = new_op(in, out);
        weft_block_insert_after(b, model[at], op);
        model_insert(at + 1, op);
        break;
    case 3: /* NULL: the beginning */
        op = new_op(in, out);
        weft_block_insert_after(b, NULL, op);
        model_insert(0, op);
        break;
    case 4: weft_op_remove(model_take(at)); break;
    case 5:
    case 6:
        op = model_take(at);
        if (!model_count) {
            model_insert(0, op);
            break;
        }
        to = (size_t)rand_r(seed) % model_count;
        if (kind == 5)
            weft_op_move_before(op, model[to]);
        else
            weft_op_move_after(op, model[to]);
        model_insert(to + (kind == 6), op);
        break;
    case 7: cr_assert_null(weft_op_add_input(model[at], some_slot, in)); break;
    case 8: cr_assert_null(weft_op_add_output(model[at], some_slot, out)); break;
    case 9: /* the copy has the slots of the other until one of them changes */
        cr_assert_null(rand_r(seed) % 2 ? op_clone(model[at], &op) : op_like(model[at], in, &op));
        weft_block_insert_before(b, model[at], op);
        model_insert(at, op);
        break;
    default:
        weft_op_rename_input(model[at], weft_op_input(model[at], "X", 0), in);
        weft_op_rename_output(model[at], weft_op_output(model[at], "Out", 0), out);
    }
}

Test(program_edit, random_edits_agree_with_an_array) {
    weft_var *vars[NVARS];
    char n[2] = "a";
    for (int i = 0; i < NVARS; i++, n[0]++) vars[i] = new_var(n);
    unsigned seed = 20;
    for (int i = 0; i < 3000; i++) {
        random_edit(vars, &seed);
        if (i % 10 == 0 || i > 2990) check_against_model(vars);
    }
}

/* --- order numbers under pressure --------------------------------------------------------------------------------- */

static void check_order(size_t count) {
    size_t found = 0;
    FOR_EACH_OP(op, program->blocks[0]) {
        found++;
        cr_assert(!op->prev || op->prev->order < op->order);
    }
    cr_assert_eq(found, count);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef enum { BEFORE_ONE_PLACE, AFTER_THE_LAST_INSERTED, AT_THE_BEGINNING, AT_THE_END, PATTERN_COUNT } pattern;

Test(program_edit, a_hundred_thousand_inserts_at_one_place_are_fast, .timeout = 60) {
    enum { COUNT = 100000 };
    weft_var *v = new_var("v");
    weft_block *b = program->blocks[0];
    double start = seconds_now();
    for (int p = 0; p < PATTERN_COUNT; p++) {
        while (b->first) weft_op_remove(b->first);
        weft_op *first = new_op(v, v), *second = new_op(v, v), *cursor = first;
        weft_block_insert_before(b, NULL, first);
        weft_block_insert_before(b, NULL, second);
        for (int i = 0; i < COUNT; i++) {
            weft_op *op = new_op(v, v);
            if (p == BEFORE_ONE_PLACE)
                weft_block_insert_before(b, second, op);
            else if (p == AFTER_THE_LAST_INSERTED)
                weft_block_insert_after(b, cursor, op);
            else if (p == AT_THE_BEGINNING)
                weft_block_insert_after(b, NULL, op);
            else
                weft_block_insert_before(b, NULL, op);
            cursor = op;
        }
        check_order(COUNT + 2);
        cr_assert_eq(v->nuses, 2 * (COUNT + 2));
    }
    cr_expect_lt(seconds_now() - start, 8.0, "quadratic insertion would take minutes");
}

/* --- uses of ops that are not in a block -------------------------------------------------------------------------- */

Test(program_edit, an_op_that_is_not_inserted_has_no_uses) {
    weft_var *a = new_var("a"), *c = new_var("c");
    weft_op *op = new_op(a, c);
    cr_assert_eq(a->nuses, 0);
    weft_block_insert_before(program->blocks[0], NULL, op);
    cr_assert_eq(a->nuses, 1);
    cr_assert_null(weft_op_add_input(op, "Y", a));
    cr_assert_eq(a->nuses, 2);
    weft_op_remove(op);
    cr_assert_eq(a->nuses + c->nuses, 0);
    cr_assert_null(weft_op_block(op));
}

Test(program_edit, slots_and_attrs_take_their_sorted_place) {
    weft_var *a = new_var("a");
    weft_op *op;
    cr_assert_null(weft_op_create(program, "sum", &op));
    cr_assert_null(weft_op_add_input(op, "Y", a));
    cr_assert_null(weft_op_add_input(op, "B", a));
    cr_assert_null(weft_op_add_input(op, "X", NULL));
    cr_assert_null(weft_op_set_attr_int(op, "ring_id", 3));
    cr_assert_null(weft_op_set_attr_bool(op, "a", true));
    cr_assert_null(weft_op_set_attr_float(op, "c", 0.1));
    const char *slots[] = {"B", "X", "Y"}, *attrs[] = {"a", "c", "ring_id"};
    for (int i = 0; i < 3; i++) {
        cr_assert_str_eq(op_slot(op, false, (size_t)i)->name->bytes, slots[i]);
        cr_assert_str_eq(op->attrs[i].name->bytes, attrs[i]);
    }
    cr_assert_eq(weft_op_ninputs(op, "X"), 0);
    cr_assert_float_eq(weft_op_attr_float(op, "c", 0), (double)0.1f, 0.0);
    cr_assert_null(op_remove_attr(op, "c"));
    cr_assert_null(op_find_attr(op, "c"));
    cr_assert_null(op_remove_attr(op, "c"));
    cr_assert_eq(op->nattrs, 2);
    weft_status status = weft_op_set_attr_int(op, "big", INT64_MAX);
    cr_assert_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
}

Test(program_edit, ops_that_share_attrs_change_them_alone) {
    weft_op *a, *b;
    cr_assert_null(weft_op_create(program, "scale", &a));
    cr_assert_null(weft_op_set_attr_float(a, "scale", 2.0));
    cr_assert_null(weft_op_set_attr_int(a, "op_role", 1));
    cr_assert_null(weft_op_create(program, "scale", &b));
    op_share_attrs(b, a);
    cr_expect(op_shares_attrs(a) && op_shares_attrs(b) && a->attrs == b->attrs);
    cr_assert_null(weft_op_set_attr_float(b, "scale", 3.0));
    cr_expect_float_eq(weft_op_attr_float(a, "scale", 0), 2.0, 0);
    cr_expect_float_eq(weft_op_attr_float(b, "scale", 0), 3.0, 0);
    cr_assert_null(op_remove_attr(a, "op_role"));
    cr_expect_eq(weft_op_attr_int(b, "op_role", 7), 1);
    cr_expect_eq(weft_op_attr_int(a, "op_role", 7), 7);
    cr_assert_null(weft_op_set_attr_bool(a, "added", true));
    cr_expect_null(op_find_attr(b, "added"));
}
