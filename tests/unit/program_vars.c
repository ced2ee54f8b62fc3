/* Finding vars through blocks, also through those that a hostile file ties into knots. */
#include "base/context.h"
#include "program/ir.h"

#include <criterion/criterion.h>
#include <stdio.h>

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
TestSuite(program_vars, .init = set_up, .fini = tear_down);

static weft_block *new_block(int32_t parent, int32_t forward) {
    weft_block *b;
    cr_assert_null(program_add_block(program, parent, &b));
    b->forward_block_idx = forward;
    b->has_forward_block_idx = forward >= 0;
    return b;
}

static weft_var *new_var(weft_block *b, const char *n) {
    weft_var *v;
    cr_assert_null(weft_block_add_var(b, n, WEFT_FP32, 0, NULL, &v));
    return v;
}

Test(program_vars, search_is_breadth_first_through_forward_block_and_parent) {
    weft_block *top = program->blocks[0], *parent = new_block(0, -1), *forward = new_block(0, -1);
    weft_block *b = new_block(1, 2);
    weft_var *in_top = new_var(top, "t"), *in_parent = new_var(parent, "v"), *in_forward = new_var(forward, "v");
    cr_assert_eq(weft_block_find_var(b, "v"), in_forward);
    cr_assert_eq(weft_block_find_var(b, "t"), in_top);
    weft_var *own = new_var(b, "v");
    cr_assert_eq(weft_block_find_var(b, "v"), own);
    cr_assert_eq(weft_block_find_var(parent, "v"), in_parent);
    cr_assert_null(weft_block_find_var(top, "v"));
    cr_assert_null(weft_block_find_var(b, "nobody"));
}

Test(program_vars, blocks_that_get_vars_in_turn_list_their_own_in_order) {
    enum { NBLOCKS = 3, NVARS = 60 };
    weft_block *blocks[NBLOCKS] = {program->blocks[0], new_block(0, -1), new_block(0, -1)};
    weft_var *made[NBLOCKS][NVARS];
    size_t count[NBLOCKS] = {0};
    for (int i = 0; i < NVARS; i++) {
        char n[16];
        size_t b = i % 7 < 4 ? 0 : i % 7 < 5 ? 1 : 2; /* runs of four, one and two */
        snprintf(n, sizeof n, "v%d", i);
        made[b][count[b]++] = new_var(blocks[b], n);
    }
    for (size_t b = 0; b < NBLOCKS; b++) {
        cr_expect_eq(weft_block_nvars(blocks[b]), count[b]);
        for (size_t i = 0; i < count[b]; i++) cr_expect_eq(weft_block_var_at(blocks[b], i), made[b][i]);
        cr_expect_null(weft_block_var_at(blocks[b], count[b]));
    }
}

/* The program as a file gives it back. */
static weft_program *read_again(void) {
    char *bytes;
    size_t nbytes;
    weft_program *again;
    cr_assert_null(weft_program_print(program, WEFT_FORM_PDMODEL, &bytes, &nbytes));
    cr_assert_null(weft_program_parse(context, WEFT_FORM_PDMODEL, bytes, nbytes, NULL, 0, "again", &again));
    weft_bytes_free(context, bytes, nbytes);
    return again;
}

static void add_op(weft_block *b, const char *in, const char *out) {
    weft_op *op;
    cr_assert_null(weft_op_create(program, "relu", &op));
    cr_assert_null(weft_op_add_input(op, "X", weft_block_find_var(b, in)));
    cr_assert_null(weft_op_add_output(op, "Out", weft_block_find_var(b, out)));
    weft_block_insert_before(b, NULL, op);
}

static void expect_listed(const weft_block *b, size_t count, const char *const *names) {
    cr_assert_eq(weft_block_nvars(b), count);
    for (size_t i = 0; i < count; i++) cr_expect_str_eq(weft_var_name(block_var(b, i)), names[i]);
}

Test(program_vars, a_file_of_one_block_has_its_vars_in_the_order_in_which_ops_name_them) {
    static const char *const listed[] = {"a", "b", "c", "d", "b"}, *const named[] = {"d", "b", "a", "c", "b"};
    weft_block *b = program->blocks[0];
    for (size_t i = 0; i < 4; i++) new_var(b, listed[i]);
    add_op(b, "d", "b");
    add_op(b, "b", "a");
    weft_var *twice;
    cr_assert_null(block_add_var(b, weft_block_find_var(b, "b")->name, &twice));
    weft_program *again = read_again();
    expect_listed(again->blocks[0], 5, listed);
    for (size_t i = 0; i < 5; i++) cr_expect_str_eq(program_var(again, i)->name->bytes, named[i]);
    cr_expect_eq(weft_block_find_var(again->blocks[0], "b"), program_var(again, 1));
    cr_expect_eq(program_var(again, 1)->nuses, 2);
    cr_expect_eq(program_var(again, 4)->nuses, 0);
    weft_program_destroy(again);
}

Test(program_vars, a_file_of_two_blocks_has_its_vars_in_file_order) {
    static const char *const listed[] = {"a", "b", "c"};
    weft_block *b = program->blocks[0];
    for (size_t i = 0; i < 3; i++) new_var(b, listed[i]);
    new_var(new_block(0, -1), "b");
    add_op(b, "c", "a");
    weft_program *again = read_again();
    expect_listed(again->blocks[0], 3, listed);
    for (size_t i = 0; i < 3; i++) cr_expect_eq(block_var(again->blocks[0], i), program_var(again, i));
    weft_program_destroy(again);
}

Test(program_vars, cycles_of_blocks_end) {
    weft_block *a = new_block(2, 1), *b = new_block(1, 2);
    weft_var *v = new_var(a, "v");
    cr_assert_eq(weft_block_find_var(b, "v"), v);
    new_var(program->blocks[0], "elsewhere");
    cr_assert_null(weft_block_find_var(b, "elsewhere"));
    a->parent_idx = 1 << 20; /* out of range */
    cr_assert_null(weft_block_find_var(b, "elsewhere"));
}

Test(program_vars, an_undeclared_name_has_one_placeholder) {
    const name *n;
    weft_var *first, *second;
    cr_assert_null(program_name(program, "@EMPTY@", 7, &n));
    cr_assert_null(block_resolve(program->blocks[0], n, &first));
    cr_assert_null(block_resolve(new_block(0, -1), n, &second));
    cr_assert_eq(first, second);
    cr_assert_null(first->block);
    cr_assert_eq(weft_block_nvars(program->blocks[0]), 0);
}

Test(program_vars, many_vars_are_found_and_names_are_unique) {
    char n[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(n, sizeof n, "var_%d", i);
        new_var(program->blocks[0], n);
    }
    for (int i = 0; i < 5000; i++) {
        snprintf(n, sizeof n, "var_%d", i);
        weft_var *v = weft_block_find_var(program->blocks[0], n);
        cr_assert(v && name_is(v->name, n) && program_var(program, v->id) == v);
    }
    weft_var *again;
    weft_status status = weft_block_add_var(program->blocks[0], "var_7", WEFT_FP32, 0, NULL, &again);
    cr_assert_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    const name *unique;
    cr_assert_null(program_unique_name(program, "var", &unique));
    cr_assert_str_eq(unique->bytes, "var");
    cr_assert_null(program_unique_name(program, "var_7", &unique));
    cr_assert_str_eq(unique->bytes, "var_7_1");
}

Test(program_vars, rings_are_sorted_and_replaced) {
    for (int64_t id = 20; id >= 0; id -= 2) cr_assert_null(weft_program_set_ring(program, id, 2, (int64_t[]){id, 99}));
    cr_assert_null(weft_program_set_ring(program, 12, 3, (int64_t[]){5, 6, 7}));
    cr_assert_eq(program->nrings, 11);
    size_t nranks;
    const int64_t *ranks;
    cr_assert(weft_program_ring(program, 12, &nranks, &ranks));
    cr_assert(nranks == 3 && ranks[2] == 7);
    cr_assert_not(weft_program_ring(program, 13, &nranks, &ranks));
    for (size_t i = 1; i < program->nrings; i++) cr_assert_lt(program->rings[i - 1].id, program->rings[i].id);
    weft_status status = weft_program_set_ring(program, 1, 0, NULL);
    cr_assert_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
}

Test(program_vars, equal_meshes_are_one) {
    mesh m = {.ndim = 1, .shape = (int64_t[]){2}, .ids = (int64_t[]){0, 1}, .names = (const char *[]){"dp"}};
    mesh unnamed = m, other = m;
    unnamed.names = NULL;
    other.ids = (int64_t[]){1, 0};
    const mesh *a, *b, *c, *d;
    cr_assert_null(program_add_mesh(program, &m, &a));
    cr_assert_null(program_add_mesh(program, &m, &b));
    cr_assert_null(program_add_mesh(program, &unnamed, &c));
    cr_assert_null(program_add_mesh(program, &other, &d));
    cr_assert_eq(a, b);
    cr_assert(a != c && a != d && c != d);
    cr_assert_eq(program->nmeshes, 3);
}
