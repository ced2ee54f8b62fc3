/* collectives.def against ops.def, and what ops.h says of ops by it. */
#include <criterion/criterion.h>

#include "base/context.h"
#include "executor/kernels/collective/collective.h"
#include "ops/collectives.h"

static weft_context *context;
static weft_program *program;

static void setup(void) {
    cr_assert_null(context_create_bare(NULL, &context));
    cr_assert_null(ops_register(context));
    cr_assert_null(weft_program_create(context, &program));
}

static void teardown(void) {
    weft_program_destroy(program);
    context_destroy(context);
}

TestSuite(ops_collectives, .init = setup, .fini = teardown);

static weft_op *make_op(const char *type) {
    weft_op *op = NULL;
    cr_assert_null(weft_op_create(program, type, &op));
    return op;
}

static const slot_schema *find_slot(const slot_schema *slots, size_t count, const char *n) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(slots[i].name, n) == 0) return &slots[i];
    return NULL;
}

static bool has_attr(const op_schema *s, const char *n) {
    for (size_t i = 0; i < s->nattrs; i++)
        if (strcmp(s->attrs[i].name, n) == 0) return true;
    return false;
}

Test(ops_collectives, a_row_is_found_by_its_type) {
    size_t count;
    const collective_schema *rows = collectives_rows(&count);
    cr_assert_gt(count, 50);
    for (size_t i = 0; i < count; i++) {
        cr_expect_eq(collectives_find(context, rows[i].type), &rows[i], "%s", rows[i].type);
        cr_expect_eq(op_collective(make_op(rows[i].type)), &rows[i], "%s", rows[i].type);
        cr_expect_not_null(collective_kind_name(rows[i].kind));
    }
    cr_expect_null(collectives_find(context, "matmul_v2"));
    cr_expect_null(collectives_find(context, "no_such_op"));
    cr_expect_null(op_collective(make_op("matmul_v2")));
    cr_expect_null(op_collective(make_op("no_such_op")));
    cr_expect_null(ops_find(context, "send"), "only collectives.def has a row");
}

Test(ops_collectives, both_tables_say_which_ops_communicate) {
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        bool communicates = s->collective && collective_communicates(s->collective->kind);
        cr_expect_eq(communicates, (s->effects & OP_COLLECTIVE) != 0, "%s", s->type);
    }
}

Test(ops_collectives, slots_and_attrs_are_those_of_ops_def) {
    size_t count;
    const collective_schema *rows = collectives_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const collective_schema *c = &rows[i];
        const op_schema *s = ops_find(context, c->type);
        if (!s) continue;
        const char *const attrs[] = {c->reduce_attr, c->root_attr, c->ring_attr};
        for (size_t k = 0; k < sizeof attrs / sizeof *attrs; k++)
            if (attrs[k]) cr_expect(has_attr(s, attrs[k]), "%s has no attr %s", c->type, attrs[k]);
        const slot_schema *in = c->in ? find_slot(s->inputs, s->ninputs, c->in) : NULL;
        const slot_schema *out = c->out ? find_slot(s->outputs, s->noutputs, c->out) : NULL;
        cr_expect_eq(in == NULL, c->in == NULL, "%s has no input %s", c->type, c->in);
        cr_expect_eq(out == NULL, c->out == NULL, "%s has no output %s", c->type, c->out);
        bool lists = (in && in->arity == SLOT_LIST) || (out && out->arity == SLOT_LIST);
        cr_expect_eq(lists, collective_has_lists(c), "%s", c->type);
        cr_expect_eq(c->form == COLLECTIVE_SPLITS, has_attr(s, "in_splits") && has_attr(s, "out_splits"), "%s",
                     c->type);
        if (c->stream == COLLECTIVE_CALC_STREAM) cr_expect(has_attr(s, "use_calc_stream"), "%s", c->type);
        if (collective_communicates(c->kind))
            cr_expect_eq(c->stream == COLLECTIVE_ASYNC_OP, has_attr(s, "async_op"), "%s", c->type);
    }
}

/* Kernels read the kind from the row; a new kind needs its line in comm_kind_of. */
Test(ops_collectives, kernels_request_the_kind_of_the_row) {
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        if (!(s->effects & OP_COLLECTIVE) || s->collective->kind == COLLECTIVE_OTHER) continue;
        cr_expect_str_eq(comm_kind_name(comm_kind_of(make_op(s->type))), collective_kind_name(s->collective->kind),
                         "%s", s->type);
    }
}

/* Attrs that a collective of that kind needs, and that others may not name: a row that leaves one out is wrong. */
Test(ops_collectives, each_kind_has_what_it_needs) {
    size_t count;
    const collective_schema *rows = collectives_rows(&count);
    for (size_t i = 0; i < count; i++) {
        const collective_schema *c = &rows[i];
        collective_kind k = c->kind;
        bool reduces = k == COLLECTIVE_ALL_REDUCE || k == COLLECTIVE_REDUCE || k == COLLECTIVE_REDUCE_SCATTER;
        bool rooted = k == COLLECTIVE_REDUCE || k == COLLECTIVE_BROADCAST || k == COLLECTIVE_SCATTER ||
                      k == COLLECTIVE_SEND || k == COLLECTIVE_RECV;
        cr_expect_eq(reduces, c->reduce_attr || c->reduce != COLLECTIVE_NO_REDUCE, "%s", c->type);
        cr_expect_eq(rooted, c->root_attr != NULL, "%s", c->type);
        if (collective_communicates(k)) cr_expect_not_null(c->ring_attr, "%s", c->type);
    }
}

/* Paddle finds communication ops by "c_" in their types: the rows say so for all that are known. */
Test(ops_collectives, types_that_paddle_takes_for_communication_are_marked) {
    size_t count;
    const collective_schema *rows = collectives_rows(&count);
    static const char *const named[] = {"send", "recv", "send_v2", "recv_v2"};
    for (size_t i = 0; i < count; i++) {
        bool chained = strstr(rows[i].type, "c_") != NULL;
        for (size_t k = 0; k < sizeof named / sizeof *named; k++) chained |= strcmp(rows[i].type, named[k]) == 0;
        cr_expect_eq(chained, (rows[i].paddle & PADDLE_CHAINED) != 0, "%s", rows[i].type);
    }
    for (size_t i = 0; i < ops_count(context); i++) {
        const op_schema *s = ops_at(context, i);
        bool is_paddles = strncmp(s->type, "aten_", 5) != 0; /* aten_trunc_ */
        if (is_paddles && strstr(s->type, "c_")) cr_expect_not_null(s->collective, "%s", s->type);
    }
}

Test(ops_collectives, an_op_says_its_reduction_root_and_ring) {
    weft_op *op = make_op("reduce");
    cr_expect_eq(op_collective_reduce(op), WEFT_REDUCE_SUM);
    cr_assert_null(weft_op_set_attr_int(op, "reduce_type", WEFT_REDUCE_MAX));
    cr_assert_null(weft_op_set_attr_int(op, "root_id", 2));
    cr_assert_null(weft_op_set_attr_int(op, "ring_id", 3));
    cr_expect_eq(op_collective_reduce(op), WEFT_REDUCE_MAX);
    cr_expect_eq(op_collective_root(op), 2);
    cr_expect_eq(op_ring(op), 3);
    op = make_op("c_reduce_avg");
    cr_expect_eq(op_collective_reduce(op), WEFT_REDUCE_AVG);
    cr_expect_eq(op_collective_root(op), 0);
    op = make_op("send_v2");
    cr_assert_null(weft_op_set_attr_int(op, "peer", 1));
    cr_expect_eq(op_collective_root(op), 1);
    cr_expect_eq(op_collective_reduce(op), COLLECTIVE_NO_REDUCE);
    op = make_op("matmul_v2");
    cr_expect_eq(op_collective_root(op), -1);
    cr_expect_eq(op_collective_reduce(op), COLLECTIVE_NO_REDUCE);
    cr_expect_eq(op_collective_kind(op), COLLECTIVE_NONE);
}

Test(ops_collectives, an_unknown_op_with_a_ring_communicates) {
    weft_op *op = make_op("no_such_op");
    weft_var *v = NULL;
    cr_assert_null(weft_op_set_attr_int(op, "ring_id", 0));
    cr_expect_not(op_communicates(op), "it has no slots");
    cr_assert_null(weft_block_add_var(weft_program_block(program, 0), "v", WEFT_FP32, 0, NULL, &v));
    cr_assert_null(weft_op_add_input(op, "X", v));
    cr_expect(op_communicates(op));
    static const char *const silent[] = {"c_sync_calc_stream", "c_sync_comm_stream", "sync_comm_stream", "c_wait_comm",
                                         "c_wait_compute",     "c_identity",         "c_split",          "c_embedding"};
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        op = make_op(silent[i]);
        cr_assert_null(weft_op_set_attr_int(op, "ring_id", 0));
        cr_assert_null(weft_op_add_input(op, "X", v));
        cr_expect_not(op_communicates(op), "%s", silent[i]);
    }
}

Test(ops_collectives, only_single_tensors_are_all_reduced_in_place) {
    weft_reduce reduce = WEFT_REDUCE_ANY;
    cr_expect(op_is_all_reduce(make_op("c_allreduce_prod"), &reduce));
    cr_expect_eq(reduce, WEFT_REDUCE_PROD);
    cr_expect_not(op_is_all_reduce(make_op("all_reduce_coalesced"), NULL));
    cr_expect_not(op_is_all_reduce(make_op("c_reduce_sum"), NULL));
}
