/* The structural verifier reports every problem, says where, and goes on. */
#include "base/context.h"
#include "program/ir.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { SAID_NBYTES = 4096 };
static char said[SAID_NBYTES];

static void listen(void *user, const weft_diagnostic *d) {
    (void)user;
    size_t n = strlen(said);
    const char *severity = d->severity == WEFT_WARNING ? "warning: " : "";
    snprintf(said + n, sizeof said - n, "%s: %s%s\n", d->place, severity, d->message);
}

static weft_context *context;
static weft_program *program;
static weft_op *op;
static weft_var *v;

/* One matmul with all that is needed, correct. */
static void set_up(void) {
    said[0] = 0;
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = listen};
    cr_assert_null(context_create_bare(&options, &context));
    cr_assert_null(weft_program_create(context, &program));
    weft_block *b = program->blocks[0], *sub;
    cr_assert_null(weft_block_add_var(b, "v", WEFT_FP32, 2, (int64_t[]){4, -1}, &v));
    cr_assert_null(program_add_block(program, 0, &sub));
    cr_assert_null(weft_op_create(program, "relu", &op));
    cr_assert_null(weft_op_add_input(op, "X", v));
    cr_assert_null(weft_op_add_output(op, "Out", v));
    cr_assert_null(weft_op_set_attr_int(op, "op_role", 0));
    weft_op *first;
    cr_assert_null(weft_op_create(program, "first", &first));
    weft_block_insert_before(b, NULL, first);
    weft_block_insert_before(b, NULL, op);
}
static void tear_down(void) {
    weft_program_destroy(program);
    context_destroy(context);
}
TestSuite(program_verify, .init = set_up, .fini = tear_down);

static const name *named(const char *s) {
    const name *n;
    cr_assert_null(program_name(program, s, strlen(s), &n));
    return n;
}

static weft_attr *attr(const char *n, attr_type type) {
    weft_attr *a;
    cr_assert_null(op_append_attr(op, named(n), &a));
    a->type = type;
    return a;
}

static placement place_on(int64_t axis0, int64_t axis1) {
    const mesh *m;
    cr_assert_null(
        program_add_mesh(program, &(mesh){.ndim = 1, .shape = (int64_t[]){2}, .ids = (int64_t[]){0, 1}}, &m));
    int64_t *mapping = ARENA_ARRAY(&program->arena, int64_t, 2);
    mapping[0] = axis0, mapping[1] = axis1;
    return (placement){.mesh = m, .ndim = 2, .dims_mapping = mapping};
}

static const placement *kept(placement where) {
    placement *copy;
    cr_assert_null(placement_clone(program, &where, &copy));
    return copy;
}

static void undeclared_input(void) {
    weft_var *nobody;
    cr_assert_null(block_resolve(program->blocks[0], named("nobody"), &nobody));
    cr_assert_null(weft_op_add_input(op, "Y", nobody));
}
static void empty_input(void) {
    weft_var *nobody;
    cr_assert_null(block_resolve(program->blocks[0], named("@EMPTY@"), &nobody));
    cr_assert_null(weft_op_add_input(op, "Y", nobody));
}
static void slot_twice(void) {
    uint32_t s;
    cr_assert_null(op_append_slot(op, false, named("X"), &s));
}
static void attr_twice(void) {
    attr("op_role", ATTR_INT)->u.i = 2;
}
static void attr_twice_alike(void) { /* as recorded programs have it */
    attr("op_role", ATTR_INT)->u.i = 0;
}
static void role_of_wrong_type(void) {
    attr_set_text(attr("op_role_var", ATTR_STRING), (text){"x", 1});
}
static void negative_ring(void) {
    attr("ring_id", ATTR_INT)->u.i = -1;
}
static void ring_of_wrong_type(void) {
    attr("ring_id", ATTR_FLOAT)->u.f = 1;
}
static void sub_block_out_of_range(void) {
    attr("sub_block", ATTR_BLOCK)->u.i = 2;
}
static void sub_block_is_own(void) {
    attr("sub_block", ATTR_BLOCK)->u.i = 0;
}
static void sub_block_is_right(void) {
    attr("sub_block", ATTR_BLOCK)->u.i = 1;
}
static void sub_blocks_out_of_range(void) {
    weft_attr *a = attr("blocks", ATTR_BLOCKS);
    static const int64_t blocks[] = {1, -1};
    a->count = 2;
    a->u.ints = blocks;
}
static void var_twice(void) {
    weft_var *again;
    cr_assert_null(block_add_var(program->blocks[0], v->name, &again));
}
static void huge_shape(void) {
    v->dims[0] = INT64_MAX, v->dims[1] = 3;
}
static void many_axes(void) {
    v->ndim = 10;
}
static void parent_cycle(void) {
    program->blocks[1]->parent_idx = 1;
}
static void parent_out_of_range(void) {
    program->blocks[1]->parent_idx = 9;
}
static void forward_out_of_range(void) {
    program->blocks[1]->forward_block_idx = 2;
}
static void wrong_index(void) {
    program->blocks[1]->idx = 5;
}
static void deep_nesting(void) {
    weft_block *b;
    for (int32_t i = 1; i < 70; i++) cr_assert_null(program_add_block(program, i, &b));
}
static void ring_with_repeats(void) {
    cr_assert_null(weft_program_set_ring(program, 4, 2, (int64_t[]){1, 1}));
}
static void ring_with_negative(void) {
    cr_assert_null(weft_program_set_ring(program, 4, 2, (int64_t[]){0, -1}));
}
static void ring_with_negative_id(void) {
    cr_assert_null(weft_program_set_ring(program, -4, 2, (int64_t[]){0, 1}));
}
static void mesh_with_repeats(void) {
    const mesh *m;
    cr_assert_null(
        program_add_mesh(program, &(mesh){.ndim = 1, .shape = (int64_t[]){2}, .ids = (int64_t[]){1, 1}}, &m));
}
static void var_placement_repeats_axis(void) {
    placement p = place_on(0, 0);
    cr_assert_null(placement_clone(program, &p, &v->dist));
}
static void var_placement_out_of_range(void) {
    placement p = place_on(-1, 1);
    cr_assert_null(placement_clone(program, &p, &v->dist));
}
static void var_placement_too_short(void) {
    placement p = place_on(0, -1);
    p.ndim = 1;
    cr_assert_null(placement_clone(program, &p, &v->dist));
}
static void var_placement_unknown(void) { /* as recorded programs have it: no entries at all */
    placement p = place_on(0, -1);
    p.ndim = 0;
    cr_assert_null(placement_clone(program, &p, &v->dist));
}
static void op_placement_wrong(void) {
    op_dist *own;
    op_dist_rest *d;
    cr_assert_null(op_dist_get(op, &own));
    cr_assert_null(op_dist_rest_get(program, own, &d));
    d->inputs = ARENA_ARRAY(&program->arena, op_placement, 2);
    d->inputs[0] = (op_placement){.var = v->name, .placement = kept(place_on(0, 0))};
    d->inputs[1] = (op_placement){.var = named("stale"), .placement = kept(place_on(0, -1))};
    d->ninputs = 2;
}

Test(program_verify, each_problem_is_reported_where_it_is) {
    static const struct {
        void (*spoil)(void);
        const char *message[3]; /* all of them are said; none: the program is fine */
    } cases[] = {
        {undeclared_input, {"block 0, relu #1", "\"nobody\" of slot \"Y\" is not declared"}},
        {empty_input, {NULL}},
        {slot_twice, {"relu #1", "input slot \"X\" is there twice"}},
        {attr_twice, {"relu #1", "attribute \"op_role\" is there twice, with two values"}},
        {attr_twice_alike, {NULL}},
        {role_of_wrong_type, {"relu #1", "\"op_role_var\": expected type STRINGS"}},
        {negative_ring, {"relu #1", "\"ring_id\" is negative"}},
        {ring_of_wrong_type, {"relu #1", "\"ring_id\": expected an integer"}},
        {sub_block_out_of_range, {"relu #1", "names block 2 of 2"}},
        {sub_block_is_own, {"relu #1", "names block 0, which contains this op"}},
        {sub_block_is_right, {NULL}},
        {sub_blocks_out_of_range, {"relu #1", "\"blocks\" names block -1"}},
        {var_twice, {"block 0", "variable \"v\" is declared twice"}},
        {huge_shape, {"more elements than can be addressed"}},
        {many_axes, {"has 10 axes, at most 9"}},
        {parent_cycle, {"block 1", "parents form a cycle"}},
        {parent_out_of_range, {"block 1", "expected a parent block below 2, found 9"}},
        {forward_out_of_range, {"block 1", "expected a forward block below 2, found 2"}},
        {wrong_index, {"expected index 1, found 5"}},
        {deep_nesting, {"nest deeper than 64"}},
        {ring_with_repeats, {"ring 4"}},
        {ring_with_negative, {"ring 4"}},
        {ring_with_negative_id, {"ring -4: its id is negative"}},
        {mesh_with_repeats, {"mesh 0"}},
        {var_placement_repeats_axis, {"placement of \"v\""}},
        {var_placement_out_of_range, {"placement of \"v\""}},
        {var_placement_too_short, {"placement of \"v\""}},
        {var_placement_unknown, {NULL}},
        {op_placement_wrong, {NULL, "warning: ", "placement of \"v\""}}, /* stale in recorded programs: no error */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i) {
            tear_down();
            set_up();
        }
        cases[i].spoil();
        weft_status status = weft_program_verify(program);
        weft_code expected = cases[i].message[0] ? WEFT_INVALID_PROGRAM : WEFT_OK;
        cr_expect_eq(weft_status_code(status), expected, "case %zu: %s", i, said);
        for (int w = 0; w < 3; w++)
            cr_expect(!cases[i].message[w] || strstr(said, cases[i].message[w]), "case %zu: expected \"%s\" in:\n%s", i,
                      cases[i].message[w], said);
        weft_status_free(status);
    }
}

Test(program_verify, problems_are_counted) {
    undeclared_input();
    attr_twice();
    huge_shape();
    weft_status status = weft_program_verify(program);
    cr_assert_str_eq(weft_status_message(status), "3 problems in the program's structure, the first: block 0: variable \"v\" has more "
                     "elements than can be addressed");
    weft_status_free(status);
}

/* Of a host's own vars; between passes it is an unknown extent, as Paddle may write it. */
Test(program_verify, an_extent_below_minus_one_is_refused) {
    v->dims[0] = -4;
    weft_status status = weft_program_verify(program);
    cr_assert(status);
    cr_assert(strstr(weft_status_message(status), "the first: block 0: variable \"v\": expected extents of -1 or more, "
                                                  "found -4 on axis 0"),
              "%s", weft_status_message(status));
    weft_status_free(status);
    cr_assert_null(program_verify_changed(program, true));
}

Test(program_verify, an_unknown_element_type_is_refused) {
    v->dtype = 77;
    weft_status status = weft_program_verify(program);
    cr_assert(status);
    cr_assert(strstr(weft_status_message(status), "expected an element type, found number 77"), "%s",
              weft_status_message(status));
    weft_status_free(status);
}
