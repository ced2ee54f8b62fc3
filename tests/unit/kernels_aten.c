/* ATen ops: types and kernels against what torch computed (kernels_aten_cases.inc); and the traps by hand: one rounding
 * an op, a quotient that is no product with a reciprocal, 1 / std where Paddle keeps a variance. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/kernels/typed.h"
#include "ops/view.h"
#include "tests/support/kernel_run.h"

typedef struct aten_case {
    const char *type, *inputs, *outputs, *attrs;
    double tolerance;
} aten_case;

static const aten_case cases[] = {
#include "tests/unit/kernels_aten_cases.inc"
};

enum { ARGS = 8, ELEMENTS = 32 };

typedef struct side {
    tensor tensors[ARGS];
    char slots[ARGS][32];
    double data[ARGS][ELEMENTS]; /* what tensors' data point to */
    double expected[ARGS][ELEMENTS];
    int count;
} side;

/* --- cases as text ------------------------------------------------------------------------------------------------ */

static weft_dtype dtype_of(char tag) {
    static const struct {
        char tag;
        weft_dtype dtype;
    } tags[] = {{'f', WEFT_FP32},  {'d', WEFT_FP64},  {'b', WEFT_BF16}, {'h', WEFT_FP16},
                {'l', WEFT_INT64}, {'i', WEFT_INT32}, {'o', WEFT_BOOL}};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (tags[i].tag == tag) return tags[i].dtype;
    cr_assert(false, "type '%c'", tag);
    return WEFT_DTYPE_NONE;
}

static void store(weft_dtype dtype, void *to, int64_t i, double value) {
    size_t nbytes = weft_dtype_nbytes(dtype);
    float single = (float)value; /* halves are given exactly */
    if (dtype_is_half(dtype))
        half_store(dtype, 1, &single, (char *)to + (size_t)i * nbytes);
    else
        fill_elements(dtype, (char *)to + (size_t)i * nbytes, 1, value);
}

static double load(const tensor *t, int64_t i) {
    tensor element = *t;
    element.data = (char *)t->data + (size_t)i * weft_dtype_nbytes(t->dtype);
    return tensor_scalar(&element);
}

/* "slot:f2,3=1 2 3 4 5 6; ..." */
static void parse_side(const char *s, bool output, side *out) {
    for (out->count = 0; *s; out->count++) {
        int k = out->count, nbytes;
        char tag;
        cr_assert_eq(sscanf(s, " %31[^:]:%c%n", out->slots[k], &tag, &nbytes), 2, "\"%s\"", s);
        tensor *t = &out->tensors[k];
        *t = (tensor){.data = out->data[k], .dtype = dtype_of(tag), .numel = 1, .height = -1};
        for (s += nbytes; *s != '='; s += *s == ',') {
            char *end;
            t->numel *= t->dims[t->ndim++] = strtoll(s, &end, 10);
            s = end;
        }
        cr_assert(t->numel <= ELEMENTS);
        s++;
        for (int64_t i = 0; i < t->numel; i++) {
            char *end;
            store(t->dtype, t->data, i, strtod(s, &end));
            out->expected[k][i] = load(t, i);
            if (output) store(t->dtype, t->data, i, 77);
            s = end;
        }
        while (*s == ' ' || *s == ';') s++;
    }
}

static void set_attr(weft_op *op, const char *n, const char *value) {
    const op_schema *schema = op_schema_of(op);
    weft_attr *a;
    int64_t list[16];
    size_t count = 0;
    for (size_t i = 0; i < schema->nattrs; i++) {
        if (strcmp(schema->attrs[i].name, n) != 0) continue;
        switch ((int)schema->attrs[i].type) {
        case ATTR_FLOAT64:
            cr_assert_null(op_set_attr(op, n, &a));
            a->type = ATTR_FLOAT64;
            a->u.f = strtod(value, NULL);
            return;
        case ATTR_FLOAT: cr_assert_null(weft_op_set_attr_float(op, n, strtod(value, NULL))); return;
        case ATTR_BOOLEAN: cr_assert_null(weft_op_set_attr_bool(op, n, *value == '1')); return;
        case ATTR_STRING: cr_assert_null(weft_op_set_attr_string(op, n, value)); return;
        case ATTR_INTS:
        case ATTR_LONGS:
            while (*value) {
                char *end;
                list[count++] = strtoll(value, &end, 10);
                value = end + (*end == ',');
            }
            cr_assert_null(weft_op_set_attr_longs(op, n, count, list));
            return;
        default: cr_assert_null(weft_op_set_attr_int(op, n, strtoll(value, NULL, 10))); return;
        }
    }
    cr_assert(false, "%s has no attr %s", op->type->bytes, n);
}

static void set_attrs(weft_op *op, const char *s) {
    while (*s) {
        char attr[32], value[32] = "";
        int nbytes = 0, read = sscanf(s, " %31[^= ]=%31[^ ]%n", attr, value, &nbytes);
        cr_assert_geq(read, 1, "\"%s\"", s);
        set_attr(op, attr, value);
        s = strchr(s + 1, ' ') ? strchr(s + 1, ' ') : "";
    }
}

/* --- running them ------------------------------------------------------------------------------------------------- */

typedef struct fixture {
    weft_context *context;
    weft_program *program;
    weft_op *op;
    side in, out;
    arena arena;
} fixture;

static void add_vars(fixture *f, side *s, bool output) {
    for (int k = 0; k < s->count; k++) {
        char var_name[64];
        weft_var *v;
        const tensor *t = &s->tensors[k];
        snprintf(var_name, sizeof var_name, "%s.%s.%d", output ? "out" : "in", s->slots[k], k);
        cr_assert_null(weft_block_add_var(f->program->blocks[0], var_name, t->dtype, (size_t)t->ndim, t->dims, &v));
        cr_assert_null(output ? weft_op_add_output(f->op, s->slots[k], v) : weft_op_add_input(f->op, s->slots[k], v));
    }
}

static void set_up(fixture *f, weft_context *context, const aten_case *c) {
    f->context = context;
    cr_assert_null(weft_program_create(f->context, &f->program));
    cr_assert_null(weft_op_create(f->program, c->type, &f->op));
    cr_assert_not_null(op_schema_of(f->op), "%s", c->type);
    arena_init(&f->arena, &f->context->allocator);
    parse_side(c->inputs, false, &f->in);
    parse_side(c->outputs, true, &f->out);
    add_vars(f, &f->in, false);
    add_vars(f, &f->out, true);
    set_attrs(f->op, c->attrs);
    weft_block_insert_before(f->program->blocks[0], NULL, f->op);
}

static void tear_down(fixture *f) {
    arena_fini(&f->arena);
    weft_program_destroy(f->program);
}

/* Inference says what torch's outputs are, from the inputs alone. */
static void check_types(fixture *f, const aten_case *c) {
    shape_env env;
    cr_assert_null(shape_env_init(&env, f->program, &f->arena));
    weft_status status = shape_infer_op(&env, f->op, &f->arena);
    cr_assert_null(status, "%s %s", c->type, weft_status_message(status));
    for (int k = 0; k < f->out.count; k++) {
        int nth = 0;
        for (int before = 0; before < k; before++) nth += strcmp(f->out.slots[before], f->out.slots[k]) == 0;
        shape s = shape_env_get(&env, weft_op_output(f->op, f->out.slots[k], (size_t)nth));
        const tensor *t = &f->out.tensors[k];
        bool same = s.dtype == (int32_t)t->dtype && s.ndim == t->ndim;
        for (int d = 0; same && d < t->ndim; d++) same = s.dims[d] == t->dims[d];
        cr_expect(same, "%s(%s) %s: %s has another type", c->type, c->inputs, c->attrs, f->out.slots[k]);
    }
}

/* The arguments in the order of the op's slots. */
static void flatten(const side *s, const slot_schema *slots, size_t nslots, tensor *tensors, uint32_t *first) {
    uint32_t n = 0;
    for (size_t i = 0; i < nslots; i++) {
        first[i] = n;
        for (int k = 0; k < s->count; k++)
            if (strcmp(s->slots[k], slots[i].name) == 0) tensors[n++] = s->tensors[k];
    }
    first[nslots] = n;
    cr_assert_eq((int)n, s->count, "a slot that the op does not have");
}

static void check_output(const aten_case *c, const tensor *t, const double *expected, int k) {
    double largest = 0;
    for (int64_t i = 0; i < t->numel; i++)
        if (isfinite(expected[i])) largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < t->numel; i++) {
        double got = load(t, i), want = expected[i];
        bool near = isnan(want) ? isnan(got) : got == want || fabs(got - want) <= c->tolerance * largest;
        cr_expect(near, "%s(%s) %s: output %d, element %d: expected %.9g, found %.9g", c->type, c->inputs, c->attrs, k,
                  (int)i, want, got);
    }
}

static void check_values(fixture *f, const aten_case *c) {
    const op_schema *schema = op_schema_of(f->op);
    tensor in[ARGS], out[ARGS];
    uint32_t in_first[16], out_first[16];
    flatten(&f->in, schema->inputs, schema->ninputs, in, in_first);
    flatten(&f->out, schema->outputs, schema->noutputs, out, out_first);
    weft_status status = kernel_run_op(f->op, in, in_first, out, out_first, 1, &f->arena);
    cr_assert_null(status, "%s(%s): %s", c->type, c->inputs, weft_status_message(status));
    for (int k = 0; k < f->out.count; k++) check_output(c, &f->out.tensors[k], f->out.expected[k], k);
}

Test(kernels_aten, torch_computes_the_same) {
    weft_context *context;
    cr_assert_null(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f;
        set_up(&f, context, &cases[i]);
        check_types(&f, &cases[i]);
        check_values(&f, &cases[i]);
        tear_down(&f);
    }
    weft_context_destroy(context);
}

/* --- by hand ------------------------------------------------------------------------------------------------------ */

static void set_number(weft_op *op, const char *n, double value) {
    weft_attr *a;
    cr_assert_null(op_set_attr(op, n, &a));
    a->type = ATTR_FLOAT64;
    a->u.f = value;
}

/* 1 + 0.75 * 2^-8 is 1 in bf16, and 1 + 2^-9 is 1 again; all of it, 1 + 1.25 * 2^-8, is nearer to 1 + 2^-7. */
Test(kernels_aten, addmm_rounds_once) {
    kernel_test t;
    uint16_t self = f32_to_bf16(0x1p-9f), out = 0;
    uint16_t row[] = {f32_to_bf16(1), f32_to_bf16(0x1p-8f)}, column[] = {f32_to_bf16(1), f32_to_bf16(0.75f)};
    kernel_test_init(&t, "aten_addmm");
    kernel_test_in(&t, "self", WEFT_BF16, &self, 1, -1, -1);
    kernel_test_in(&t, "mat1", WEFT_BF16, row, 1, 2, -1);
    kernel_test_in(&t, "mat2", WEFT_BF16, column, 2, 1, -1);
    kernel_test_out(&t, "out", WEFT_BF16, &out, 1, 1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(bf16_to_f32(out), 1 + 0x1p-7f, "%a", (double)bf16_to_f32(out));
    kernel_test_fini(&t);
}

Test(kernels_aten, a_quotient_is_no_product_with_the_reciprocal) {
    enum { N = 1000 };
    static float x[N], out[N];
    kernel_test t;
    int differ = 0;
    for (int i = 0; i < N; i++) x[i] = (float)i;
    kernel_test_init(&t, "aten_div_scalar");
    set_number(t.op, "other", 3);
    kernel_test_in(&t, "self", WEFT_FP32, x, N, -1, -1);
    kernel_test_out(&t, "out", WEFT_FP32, out, N, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    for (int i = 0; i < N; i++) {
        cr_expect_eq(out[i], x[i] / 3.0f, "%d", i);
        differ += out[i] != x[i] * (1.0f / 3.0f);
    }
    cr_expect_gt(differ, 0);
    kernel_test_fini(&t);
}

/* Of [0, 2] the mean is 1, the variance 1; with eps 3 what is kept is 1 / sqrt(4). Its gradient takes that. */
Test(kernels_aten, layer_norm_keeps_one_over_std) {
    kernel_test t;
    const int64_t width = 2;
    float x[] = {0, 2}, y[2], mean, rstd, dy[] = {1, 0}, dx[2];
    kernel_test_init(&t, "aten_native_layer_norm");
    cr_assert_null(weft_op_set_attr_longs(t.op, "normalized_shape", 1, &width));
    set_number(t.op, "eps", 3);
    kernel_test_in(&t, "input", WEFT_FP32, x, 1, 2, -1);
    kernel_test_out(&t, "out", WEFT_FP32, y, 1, 2, -1);
    kernel_test_out(&t, "mean", WEFT_FP32, &mean, 1, 1, -1);
    kernel_test_out(&t, "rstd", WEFT_FP32, &rstd, 1, 1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect(mean == 1 && rstd == 0.5f && y[0] == -0.5f && y[1] == 0.5f, "%g %g", (double)mean, (double)rstd);
    kernel_test_fini(&t);

    kernel_test_init(&t, "aten_native_layer_norm_backward");
    cr_assert_null(weft_op_set_attr_longs(t.op, "normalized_shape", 1, &width));
    kernel_test_in(&t, "input", WEFT_FP32, x, 1, 2, -1);
    kernel_test_in(&t, "mean", WEFT_FP32, &mean, 1, 1, -1);
    kernel_test_in(&t, "rstd", WEFT_FP32, &rstd, 1, 1, -1);
    kernel_test_in(&t, "grad_out", WEFT_FP32, dy, 1, 2, -1);
    kernel_test_out(&t, "grad_input", WEFT_FP32, dx, 1, 2, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    /* rstd * (dy - mean(dy) - h * mean(dy * h)), h = [-0.5, 0.5]: 0.5 * (1 - 0.5 - 0.125) and 0.5 * (-0.5 + 0.125) */
    cr_expect(dx[0] == 0.1875f && dx[1] == -0.1875f, "%g %g", (double)dx[0], (double)dx[1]);
    kernel_test_fini(&t);
}

/* What a number would have rounded to on the way: fp32 cannot hold 0.1, nor 2^24 + 1. */
Test(kernels_aten, numbers_stay_python_s) {
    kernel_test t;
    double x = 1, sum = 0;
    int64_t n = 0, m = 0;
    kernel_test_init(&t, "aten_add_scalar");
    set_number(t.op, "other", 0.1);
    kernel_test_in(&t, "self", WEFT_FP64, &x, -1, -1, -1);
    kernel_test_out(&t, "out", WEFT_FP64, &sum, -1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(sum, 1 + 0.1);
    kernel_test_fini(&t);
    kernel_test_init(&t, "aten_add_scalar");
    set_number(t.op, "other", 16777217);
    kernel_test_in(&t, "self", WEFT_INT64, &n, -1, -1, -1);
    kernel_test_out(&t, "out", WEFT_INT64, &m, -1, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK);
    cr_expect_eq(m, 16777217);
    kernel_test_fini(&t);
}

Test(kernels_aten, an_index_beyond_the_table_is_refused) {
    static const int64_t wrong[] = {3, -1};
    for (int k = 0; k < 2; k++) {
        kernel_test t;
        float grad[] = {1, 2}, out[6];
        kernel_test_init(&t, "aten_embedding_dense_backward");
        cr_assert_null(weft_op_set_attr_int(t.op, "num_weights", 3));
        cr_assert_null(weft_op_set_attr_int(t.op, "padding_idx", 0));
        kernel_test_in(&t, "grad_output", WEFT_FP32, grad, 1, 2, -1);
        kernel_test_in(&t, "indices", WEFT_INT64, &wrong[k], 1, -1, -1);
        kernel_test_out(&t, "grad_weight", WEFT_FP32, out, 3, 2, -1);
        cr_expect_neq(kernel_test_code(&t), WEFT_OK, "%d", (int)wrong[k]);
        kernel_test_fini(&t);
    }
}

Test(kernels_aten, types_that_no_loop_fits_are_refused) {
    kernel_test t;
    float x[] = {1, 2}, y[] = {3, 4}, out[2];
    kernel_test_init(&t, "aten_where"); /* a condition of floats */
    kernel_test_in(&t, "condition", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "self", WEFT_FP32, x, 2, -1, -1);
    kernel_test_in(&t, "other", WEFT_FP32, y, 2, -1, -1);
    kernel_test_out(&t, "out", WEFT_FP32, out, 2, -1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED);
    kernel_test_fini(&t);
    kernel_test_init(&t, "aten_bitwise_not");
    kernel_test_in(&t, "self", WEFT_FP32, x, 2, -1, -1);
    kernel_test_out(&t, "out", WEFT_FP32, out, 2, -1, -1);
    cr_expect_eq(kernel_test_code(&t), WEFT_UNSUPPORTED);
    kernel_test_fini(&t);
}

/* --- views -------------------------------------------------------------------------------------------------------- */

/* Byte ranges need no instruction: which views are ranges of [2, 3, 4], and where they begin. */
Test(kernels_aten, contiguous_views_are_ranges) {
    static const struct {
        const char *type, *attrs;
        size_t part;
        int64_t offset;
        bool is_range;
    } rows[] = {
        {"aten_view", "size=4,6", 0, 0, true},
        {"aten_select", "dim=0 index=1", 0, 12, true},
        {"aten_select", "dim=1 index=2", 0, 8, false},
        {"aten_slice", "dim=0 start=1", 0, 12, true},
        {"aten_slice", "dim=1 start=1", 0, 4, false},
        {"aten_slice", "dim=0 step=2", 0, 0, true}, /* one index is left */
        {"aten_split", "dim=0 split_size=1", 1, 12, true},
        {"aten_split", "dim=2 split_size=1,3", 1, 1, false},
        {"aten_permute", "dims=0,1,2", 0, 0, true},
        {"aten_transpose", "dim0=1 dim1=2", 0, 0, false},
        {"aten_expand", "size=1,2,3,4", 0, 0, true},
        {"aten_expand", "size=5,2,3,4", 0, 0, false},
        {"assign", "", 0, 0, true}, /* types without a rule see all of it */
    };
    const shape x = {.dtype = WEFT_FP32, .ndim = 3, .dims = {2, 3, 4}, .height = -1};
    weft_context *context;
    weft_program *program;
    cr_assert_null(weft_context_create(NULL, &context));
    cr_assert_null(weft_program_create(context, &program));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_op *op;
        op_view v;
        cr_assert_null(weft_op_create(program, rows[i].type, &op));
        set_attrs(op, rows[i].attrs);
        cr_assert_null(op_view_of(op, &x, rows[i].part, &v));
        cr_expect_eq(v.offset, rows[i].offset, "%s %s", rows[i].type, rows[i].attrs);
        cr_expect_eq(op_view_is_contiguous(&v), rows[i].is_range, "%s %s", rows[i].type, rows[i].attrs);
    }
    weft_program_destroy(program);
    weft_context_destroy(context);
}
