/* ops_cost.c: flops and bytes of ops, counted by hand. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ops/cost.h"
#include "tests/support/table.h"

enum { MOST = 6, MOST_SLOTS = 32 };

typedef struct arg {
    const char *slot_name;
    bool output;
    int32_t dtype, ndim;
    int64_t dims[4];
    int64_t height; /* 0: dense */
} arg;

typedef struct example {
    const char *type;
    arg args[MOST];
    const char *attr; /* one whole number, or true */
    int64_t value;
    double flops, bytes;
} example;

#define IN(s, n, ...)                                                                                                  \
    { .slot_name = s, .dtype = WEFT_FP32, .ndim = n, .dims = __VA_ARGS__ }
#define OUT(s, n, ...)                                                                                                 \
    { .slot_name = s, .output = true, .dtype = WEFT_FP32, .ndim = n, .dims = __VA_ARGS__ }
#define ROWS_IN(s, n, h, ...)                                                                                          \
    { .slot_name = s, .dtype = WEFT_FP32, .ndim = n, .height = h, .dims = __VA_ARGS__ }

static const example examples[] = {
    {"matmul_v2",
     {IN("X", 3, {2, 3, 4}), IN("Y", 2, {4, 5}), OUT("Out", 3, {2, 3, 5})},
     NULL,
     0,
     240,
     4 * (24 + 20 + 30)},
    {"matmul_v2",
     {IN("X", 2, {4, 3}), IN("Y", 2, {4, 5}), OUT("Out", 2, {3, 5})},
     "trans_x",
     1,
     120,
     4 * (12 + 20 + 15)},
    {"matmul_v2_grad",
     {IN("X", 2, {3, 4}), IN("Y", 2, {4, 5}), IN("Out@GRAD", 2, {3, 5}), OUT("X@GRAD", 2, {3, 4}),
      OUT("Y@GRAD", 2, {4, 5})},
     NULL,
     0,
     240,
     4 * (12 + 20 + 15 + 12 + 20)},
    {"aten_addmm",
     {IN("self", 1, {5}), IN("mat1", 2, {3, 4}), IN("mat2", 2, {4, 5}), OUT("out", 2, {3, 5})},
     NULL,
     0,
     15 * (2 * 4 + 2),
     4 * (5 + 12 + 20 + 15)},
    {"aten_slice", {IN("self", 2, {6, 4}), OUT("out", 2, {2, 4})}, "end", 2, 0, 4 * (8 + 8)},
    {"aten_copy_", {IN("self", 2, {3, 4}), IN("src", 1, {4}), OUT("self_out", 2, {3, 4})}, NULL, 0, 0, 4 * (4 + 12)},
    {"mul",
     {IN("X", 3, {2, 3, 4}), IN("Y", 2, {12, 5}), OUT("Out", 2, {2, 5})},
     "x_num_col_dims",
     1,
     240,
     4 * (24 + 60 + 10)},
    {"conv2d",
     {IN("Input", 4, {2, 3, 8, 8}), IN("Filter", 4, {4, 3, 5, 5}), OUT("Output", 4, {2, 4, 4, 4})},
     NULL,
     0,
     2 * 128 * 75,
     4 * (384 + 300 + 128)},
    {"relu", {IN("X", 2, {3, 4}), OUT("Out", 2, {3, 4})}, NULL, 0, 12, 96},
    {"elementwise_add", {IN("X", 2, {3, 4}), IN("Y", 1, {4}), OUT("Out", 2, {3, 4})}, NULL, 0, 12, 4 * 28},
    {"elementwise_add_grad",
     {IN("X", 2, {3, 4}), IN("Y", 1, {4}), IN("Out@GRAD", 2, {3, 4}), OUT("X@GRAD", 2, {3, 4}), OUT("Y@GRAD", 1, {4})},
     NULL,
     0,
     12,
     4 * (12 + 12 + 4)},
    {"transpose2", {IN("X", 2, {3, 4}), OUT("Out", 2, {4, 3}), OUT("XShape", 3, {0, 3, 4})}, NULL, 0, 0, 96},
    {"slice", {IN("Input", 2, {100, 4}), OUT("Out", 2, {3, 4})}, NULL, 0, 0, 96},
    {"lookup_table_v2",
     {IN("W", 2, {1000, 8}), {"Ids", false, WEFT_INT64, 1, {6}, 0}, OUT("Out", 2, {6, 8})},
     NULL,
     0,
     0,
     48 + 2 * 192},
    {"sgd",
     {IN("Param", 2, {1000, 8}), IN("LearningRate", 1, {1}), ROWS_IN("Grad", 2, 1000, {5, 8}),
      OUT("ParamOut", 2, {1000, 8})},
     NULL,
     0,
     80,
     160 * 3},
    {"sum", {IN("X", 1, {10}), IN("X", 1, {10}), IN("X", 1, {10}), OUT("Out", 1, {10})}, NULL, 0, 30, 160},
};

static void must(weft_status status) {
    cr_assert_null(status, "%s", weft_status_message(status));
}

static weft_op *make(weft_program *p, const example *e) {
    weft_op *op;
    must(weft_op_create(p, e->type, &op));
    if (e->attr && e->value == 1 && strncmp(e->attr, "trans", 5) == 0)
        must(weft_op_set_attr_bool(op, e->attr, true));
    else if (e->attr)
        must(weft_op_set_attr_int(op, e->attr, e->value));
    return op;
}

/* The types of one side's arguments, by schema slot. */
static void gather(const example *e, bool output, const slot_schema *slots, size_t nslots, shape *shapes,
                   uint32_t *first) {
    uint32_t n = 0;
    for (size_t s = 0; s < nslots; s++) {
        first[s] = n;
        for (size_t i = 0; i < MOST && e->args[i].slot_name; i++) {
            const arg *a = &e->args[i];
            if (a->output != output || strcmp(a->slot_name, slots[s].name) != 0) continue;
            shapes[n] = (shape){.dtype = a->dtype, .ndim = a->ndim, .height = a->height ? a->height : -1};
            memcpy(shapes[n++].dims, a->dims, sizeof a->dims);
        }
    }
    first[nslots] = n;
}

static op_cost cost_of(const example *e, weft_op *op) {
    shape in[MOST], out[MOST];
    uint32_t in_first[MOST_SLOTS], out_first[MOST_SLOTS];
    const op_schema *schema = op_schema_of(op);
    cr_assert(schema && schema->ninputs < MOST_SLOTS && schema->noutputs < MOST_SLOTS);
    gather(e, false, schema->inputs, schema->ninputs, in, in_first);
    gather(e, true, schema->outputs, schema->noutputs, out, out_first);
    return op_cost_of(&(op_cost_call){op, schema, in, out, in_first, out_first});
}

TABLE_ROWS(ops_cost, counted_by_hand, examples);

TABLE_TEST(size_t *index, ops_cost, counted_by_hand) {
    const example *e = &examples[*index];
    weft_context *ctx;
    weft_program *p;
    must(weft_context_create(NULL, &ctx));
    must(weft_program_create(ctx, &p));
    weft_op *op = make(p, e);
    op_cost cost = cost_of(e, op);
    cr_expect_eq(cost.flops, e->flops, "%s: %g flops, expected %g", e->type, cost.flops, e->flops);
    cr_expect_eq(cost.bytes, e->bytes, "%s: %g bytes, expected %g", e->type, cost.bytes, e->bytes);
    weft_program_destroy(p);
    weft_context_destroy(ctx);
}
