/* spmd_rules_paddle.c: placements of single ops against those that Paddle 3.3.1's own rules gave for 692 of them, on a
 * mesh of 2 x 4 ranks. What Paddle resolved is legal here too, and to bring inputs there and outputs to where Paddle
 * leaves them sends no more. No row differs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "program/ir.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/small_program.h"
#include "tests/support/spmd_price.h"

enum { MOST_ARGS = 3 };

/* Which op a rule of Paddle's is of, and which attrs those of the rule are, by position. */
static const struct op_kind {
    const char *rule, *type, *in[MOST_ARGS], *out[MOST_ARGS], *attrs[MOST_ARGS + 2];
    int integer; /* the input that is of integers; -1: none */
} kinds[] = {
    {"matmul", "matmul_v2", {"X", "Y"}, {"Out"}, {"trans_x", "trans_y"}, -1},
    {"elementwise_add", "elementwise_add", {"X", "Y"}, {"Out"}, {NULL}, -1},
    {"relu", "relu", {"X"}, {"Out"}, {NULL}, -1},
    {"softmax", "softmax", {"X"}, {"Out"}, {"axis"}, -1},
    {"layer_norm", "layer_norm", {"X", "Scale", "Bias"}, {"Y", "Mean", "Variance"}, {"epsilon", "begin_norm_axis"}, -1},
    {"reduce_sum", "reduce_sum", {"X"}, {"Out"}, {"dim", "keep_dim"}, -1},
    {"transpose", "transpose2", {"X"}, {"Out"}, {"axis"}, -1},
    {"reshape", "reshape2", {"X"}, {"Out"}, {"shape"}, -1},
    {"embedding", "lookup_table_v2", {"Ids", "W"}, {"Out"}, {"padding_idx", "is_sparse"}, 0},
    {"cross_entropy_with_softmax",
     "softmax_with_cross_entropy",
     {"Logits", "Label"},
     {"Softmax", "Loss"},
     {"soft_label", "use_softmax", "numeric_stable_mode", "ignore_index", "axis"},
     1},
    {"split", "split", {"X"}, {"Out", "Out"}, {"sections", "axis"}, -1},
    {"flatten", "flatten_contiguous_range", {"X"}, {"Out"}, {"start_axis", "stop_axis"}, -1},
};
enum { NKINDS = sizeof kinds / sizeof *kinds };

typedef struct trial {
    const json_t *row;
    double ours, theirs;
    bool is_illegal; /* there is no way to run it so */
    bool same;       /* where inputs lie as Paddle brings them, outputs lie by our rule as by Paddle's */
} trial;

static weft_context *context;
static trial current;

/* --- a program of the op ------------------------------------------------------------------------------------------ */

static const struct op_kind *kind_of(const json_t *row) {
    for (size_t i = 0; i < NKINDS; i++)
        if (strcmp(kinds[i].rule, json_string_value(json_object_get(row, "op"))) == 0) return &kinds[i];
    cr_assert_fail("no op for the rule %s", json_string_value(json_object_get(row, "op")));
    return NULL;
}

static void set_attr(weft_op *op, const char *named, const json_t *value) {
    int64_t list[WEFT_MAX_RANK];
    size_t n = json_array_size(value);
    for (size_t i = 0; i < n; i++) list[i] = json_integer_value(json_array_get(value, i));
    if (json_is_array(value)) must(weft_op_set_attr_ints(op, named, n, list));
    if (json_is_integer(value)) must(weft_op_set_attr_int(op, named, json_integer_value(value)));
    if (json_is_real(value)) must(weft_op_set_attr_float(op, named, json_real_value(value)));
    if (json_is_boolean(value)) must(weft_op_set_attr_bool(op, named, json_is_true(value)));
}

static weft_var *add_var(weft_program *p, char letter, size_t i, const json_t *dims, size_t ndim, weft_dtype dtype) {
    char named[24];
    int64_t extents[WEFT_MAX_RANK];
    weft_var *var;
    for (size_t d = 0; d < ndim; d++) extents[d] = dims ? json_integer_value(json_array_get(dims, d)) : -1;
    snprintf(named, sizeof named, "%c%zu", letter, i);
    must(weft_block_add_var(p->blocks[0], named, dtype, ndim, extents, &var));
    return var;
}

static weft_program *program_of(const json_t *row) {
    static const int64_t extents[] = {2, 4}, ids[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const struct op_kind *kind = kind_of(row);
    const json_t *shapes = json_object_get(row, "shapes"), *attrs = json_object_get(row, "attrs"),
                 *out = json_array_get(json_object_get(row, "out"), 1);
    const mesh *made;
    weft_program *p;
    weft_op *op;
    must(weft_program_create(context, &p));
    must(program_add_mesh(p, &(mesh){.ndim = 2, .shape = extents, .ids = ids}, &made));
    must(weft_op_create(p, kind->type, &op));
    for (size_t i = 0; i < json_array_size(shapes); i++) {
        const json_t *dims = json_array_get(shapes, i);
        weft_dtype dtype = (int)i == kind->integer ? WEFT_INT64 : WEFT_FP32;
        must(weft_op_add_input(op, kind->in[i], add_var(p, 't', i, dims, json_array_size(dims), dtype)));
    }
    for (size_t o = 0; o < MOST_ARGS && kind->out[o]; o++) {
        const json_t *said = json_object_get(json_array_get(out, o), "shard");
        must(weft_op_add_output(op, kind->out[o], add_var(p, 'y', o, NULL, json_array_size(said), WEFT_FP32)));
    }
    for (size_t i = 0; i < json_array_size(attrs); i++) set_attr(op, kind->attrs[i], json_array_get(attrs, i));
    weft_block_insert_before(p->blocks[0], NULL, op);
    return p;
}

/* --- placements --------------------------------------------------------------------------------------------------- */

static axes_placed mapped(const json_t *dims_mapping) {
    axes_placed p = {.naxes = {0}};
    for (size_t d = 0; d < json_array_size(dims_mapping); d++) {
        int axis = (int)json_integer_value(json_array_get(dims_mapping, d));
        if (axis >= 0) placed_shard(&p, (int)d, axis);
    }
    return p;
}

static axes_placed placed_by_paddle(const json_t *said) {
    axes_placed p = {.naxes = {0}};
    const json_t *dims = json_object_get(said, "shard"), *partial = json_object_get(said, "partial");
    for (size_t d = 0; d < json_array_size(dims); d++)
        for (size_t i = 0; i < json_array_size(json_array_get(dims, d)); i++)
            placed_shard(&p, (int)d, (int)json_integer_value(json_array_get(json_array_get(dims, d), i)));
    for (size_t i = 0; i < json_array_size(partial); i++)
        p.partial[json_integer_value(json_array_get(partial, i))] = 1 + WEFT_REDUCE_SUM;
    return p;
}

static spmd_var *var_of(const spmd_plan *plan, char letter, size_t i) {
    char named[24];
    snprintf(named, sizeof named, "%c%zu", letter, i);
    return spmd_var_of(plan, weft_block_find_var(plan->block, named));
}

/* NULL: Paddle's has other dimensions (means of norms, over all rows or over each of their dimensions). */
static spmd_var *output_of(const spmd_plan *plan, size_t o, const json_t *said) {
    spmd_var *v = var_of(plan, 'y', o);
    return v && v->whole.ndim == (int32_t)json_array_size(json_object_get(said, "shard")) ? v : NULL;
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

/* Paddle's kernel of sharded classes reduces in the middle, as ours does. */
static double sent_inside(const spmd_plan *plan, const axes_placed *in, const axes_placed *out) {
    const spmd_op *op = &plan->ops[0];
    return op->kind->form == FORM_CLASSES && in[0].naxes[op->in[0]->whole.ndim - 1]
               ? spmd_form_sent(plan, op, in, out) / 4
               : 0;
}

static weft_status weigh_theirs(spmd_plan *plan, trial *t) {
    const json_t *both = json_object_get(t->row, "out"), *in = json_array_get(both, 0), *out = json_array_get(both, 1);
    axes_placed placed[MOST_ARGS], made[MOST_ARGS], ours[MOST_ARGS];
    spmd_path path;
    for (size_t i = 0; i < json_array_size(in); i++) {
        const spmd_var *v = var_of(plan, 't', i);
        axes_placed from = mapped(json_array_get(json_object_get(t->row, "inp"), i));
        axes_placed to = placed_by_paddle(json_array_get(in, i));
        for (size_t k = 0; k < plan->ops[0].kind->rule.nin; k++)
            if (plan->ops[0].in[k] == v) placed[k] = to;
        cr_assert(spmd_find_path(&plan->mesh, &v->whole, &from, &to, &path));
        t->theirs += path.sent / (double)weft_dtype_nbytes((weft_dtype)v->whole.dtype);
    }
    for (size_t o = 0; o < json_array_size(out); o++) made[o] = placed_by_paddle(json_array_get(out, o));
    t->theirs += sent_inside(plan, placed, made);
    t->same = !axes_follow(&plan->ops[0].kind->rule, &plan->mesh.axes, placed, ours);
    for (size_t o = 0; o < json_array_size(out) && t->same; o++) {
        const spmd_var *v = output_of(plan, o, json_array_get(out, o));
        if (v) t->same = placed_same(&ours[o], &made[o], v->whole.ndim, plan->mesh.axes.naxes);
    }
    return NULL;
}

static weft_status weigh_ours(spmd_plan *plan, trial *t) {
    const json_t *in = json_object_get(t->row, "inp"), *out = json_array_get(json_object_get(t->row, "out"), 1);
    char named[24];
    spmd_price price;
    for (size_t i = 0; i < json_array_size(in); i++) {
        axes_placed placed = mapped(json_array_get(in, i));
        snprintf(named, sizeof named, "t%zu", i);
        spmd_price_want(plan, named, &placed, true);
    }
    for (size_t o = 0; o < json_array_size(out); o++) {
        axes_placed placed = placed_by_paddle(json_array_get(out, o));
        const spmd_var *v = output_of(plan, o, json_array_get(out, o));
        if (v) spmd_price_want(plan, v->var->name->bytes, &placed, false);
    }
    TRY(spmd_price_program(plan, &price));
    t->is_illegal = price.is_illegal;
    for (size_t o = 0; o < json_array_size(out) && !t->is_illegal; o++) {
        axes_placed placed = placed_by_paddle(json_array_get(out, o));
        const spmd_var *v = output_of(plan, o, json_array_get(out, o));
        t->is_illegal = v && !spmd_price_settle(plan, &price, v->var->name->bytes, &placed);
    }
    t->ours = price.sent;
    return NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    trial *t = user;
    spmd_plan plan = {.pass = pass, .program = program, .scratch = pass_scratch(pass), .rank = 0};
    weft_status status = spmd_read(&plan);
    if (!status && !json_object_get(t->row, "err")) status = weigh_theirs(&plan, t);
    if (!status) status = weigh_ours(&plan, t);
    spmd_plan_fini(&plan);
    return status;
}

static const weft_pass probe = {.name = "probe", .summary = "prices a row", .run = run, .user = &current};

static json_t *read_rows(void) {
    char path[600], *bytes = malloc(4 << 20);
    json_t *rows = NULL;
    FILE *f = bytes && fixture_path(path, sizeof path, "spmd/paddle_spmd_3.3.1.json") ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(bytes, 1, 4 << 20, f) : 0;
    if (f) fclose(f);
    must(weft_context_create(NULL, &context));
    if (n) must(json_read(context, bytes, n, path, &rows));
    free(bytes);
    return rows;
}

Test(spmd_rules_paddle, no_more_than_paddle) {
    json_t *rows = read_rows();
    weft_pass_list *list = NULL;
    size_t same = 0, other = 0, refused = 0;
    if (!rows) cr_skip_test("no recorded rules");
    must(weft_pass_register(context, &probe));
    must(weft_pass_list_parse(context, "probe", strlen("probe"), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        weft_program *program = program_of(row);
        bool said = !json_object_get(row, "err");
        current = (trial){.row = row};
        must(weft_pass_list_run(list, program, NULL));
        weft_program_destroy(program);
        cr_expect(!current.is_illegal, "row %zu, %s", i, json_string_value(json_object_get(row, "op")));
        bool dear = said && current.ours > current.theirs + 1e-6;
        *(!said ? &refused : current.same ? &same : &other) += 1;
        cr_expect(!dear, "row %zu, %s: %g elements, Paddle %g", i, json_string_value(json_object_get(row, "op")),
                  current.ours, current.theirs);
    }
    cr_expect_eq(refused, 80);
    cr_expect_eq(other, 0);
    cr_expect_eq(same, 612);
    weft_pass_list_destroy(list);
    json_decref(rows);
    weft_context_destroy(context);
}
