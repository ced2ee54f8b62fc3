/* Kernels compiled for each instruction set that this machine has: the same results, up to rounding. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "executor/kernels/find.h"
#include "tests/support/kernel_run.h"

enum { ROWS = 6, WIDTH = 67, COUNT = ROWS * WIDTH }; /* whole vectors, and a rest */

/* Y of one op on X, by the kernel of one table. */
static void run_of(size_t table, kernel_test *t, const float *x, float *y) {
    const op_schema *schema = op_schema_of(t->op);
    const kernel *k = kernel_find_in(table, schema);
    arena a;
    arena_init(&a, &t->context->allocator);
    tensor in = {.data = (void *)(uintptr_t)x,
                 .dtype = WEFT_FP32,
                 .ndim = 2,
                 .dims = {ROWS, WIDTH},
                 .numel = COUNT,
                 .height = -1};
    tensor out = in;
    uint32_t in_first[8], out_first[8];
    for (int i = 0; i < 8; i++) in_first[i] = out_first[i] = i > 0;
    kernel_prepare p = {.schema = schema,
                        .op = t->op,
                        .in = &in,
                        .out = &out,
                        .in_first = in_first,
                        .out_first = out_first,
                        .arena = &a,
                        .nranks = 1,
                        .ring_nranks = 1,
                        .nthreads = 1};
    cr_assert_null(k->prepare(&p));
    out.data = y;
    char *workspace = malloc(p.workspace_nbytes + 1);
    kernel_call c = {.schema = schema,
                     .in = &in,
                     .out = &out,
                     .in_first = in_first,
                     .out_first = out_first,
                     .state = p.state,
                     .split = p.split,
                     .workspace = workspace,
                     .nranks = 1,
                     .nthreads = 1};
    cr_assert_null(k->run(&c));
    free(workspace);
    arena_fini(&a);
}

Test(kernels_tables, agree) {
    static const char *const ops[] = {"gelu", "softmax", "tanh", "exp", "layer_norm"};
    float x[COUNT], first[COUNT], y[COUNT];
    cr_assert_geq(kernel_tables(), 1);
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i * 7919 % 1001) / 100 - 5;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        kernel_test t;
        kernel_test_init(&t, ops[o]);
        run_of(0, &t, x, first);
        for (size_t table = 1; table < kernel_tables(); table++) {
            run_of(table, &t, x, y);
            for (int i = 0; i < COUNT; i++)
                cr_assert(fabsf(y[i] - first[i]) <= 2e-6f * (1 + fabsf(first[i])), "%s by %s: element %d is %a, not %a",
                          ops[o], kernel_table_name(table), i, (double)y[i], (double)first[i]);
        }
        kernel_test_fini(&t);
    }
}

/* Rows are computed alike whatever rows are computed with them. */
Test(kernels_tables, rows_do_not_depend_on_their_neighbours) {
    enum { N = 256 };
    float x[N], whole[N], parts[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i * 31 % 97) / 10 - 4;
    const char *const ops[] = {"gelu", "tanh", "scale"};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        kernel_test t;
        kernel_test_init(&t, ops[o]);
        arena a;
        arena_init(&a, &t.context->allocator);
        const op_schema *schema = op_schema_of(t.op);
        tensor in = {.data = x, .dtype = WEFT_FP32, .ndim = 1, .dims = {N}, .numel = N, .height = -1}, out = in;
        uint32_t first[8];
        for (int i = 0; i < 8; i++) first[i] = i > 0;
        kernel_prepare p = {.schema = schema,
                            .op = t.op,
                            .in = &in,
                            .out = &out,
                            .in_first = first,
                            .out_first = first,
                            .arena = &a,
                            .nranks = 1,
                            .ring_nranks = 1,
                            .nthreads = 1};
        kernel_run_fn run;
        cr_assert_null(kernel_bind(&p, &run));
        cr_assert_eq(p.split.nrows, N / 64);
        kernel_call c = {.schema = schema,
                         .in = &in,
                         .out = &out,
                         .in_first = first,
                         .out_first = first,
                         .state = p.state,
                         .split = p.split,
                         .nranks = 1,
                         .nthreads = 1};
        out.data = whole;
        cr_assert_null(run(&c));
        out.data = parts;
        c.split.rows(&c, 3, 4);
        c.split.rows(&c, 0, 1);
        c.split.rows(&c, 1, 3);
        cr_expect_arr_eq(whole, parts, sizeof whole, "%s", ops[o]);
        arena_fini(&a);
        kernel_test_fini(&t);
    }
}

enum { SOME = 11, WIDEST = 96 };
typedef struct rows_of {
    float x[SOME * WIDEST], dy[SOME * WIDEST], out[SOME * WIDEST], mean[SOME], variance[SOME];
} rows_of;

/* One op on `nrows` rows from row `first` on. */
static void run_rows(const char *op, rows_of *r, int first, int nrows, int width) {
    kernel_test t;
    int at = first * width;
    bool is_grad = strcmp(op, "layer_norm_grad") == 0, is_norm = strcmp(op, "layer_norm") == 0;
    const char *from = strcmp(op, "softmax_grad") == 0 ? "Out" : "X";
    kernel_test_init(&t, op);
    kernel_test_in(&t, from, WEFT_FP32, r->x + at, nrows, width, -1);
    if (strstr(op, "_grad"))
        kernel_test_in(&t, is_grad ? "Y@GRAD" : "Out@GRAD", WEFT_FP32, r->dy + at, nrows, width, -1);
    if (is_grad) kernel_test_in(&t, "Mean", WEFT_FP32, r->mean + first, nrows, -1, -1);
    if (is_grad) kernel_test_in(&t, "Variance", WEFT_FP32, r->variance + first, nrows, -1, -1);
    kernel_test_out(&t,
                    strstr(op, "_grad") ? "X@GRAD"
                    : is_norm           ? "Y"
                                        : "Out",
                    WEFT_FP32, r->out + at, nrows, width, -1);
    if (is_norm) kernel_test_out(&t, "Mean", WEFT_FP32, r->mean + first, nrows, -1, -1);
    if (is_norm) kernel_test_out(&t, "Variance", WEFT_FP32, r->variance + first, nrows, -1, -1);
    cr_assert_eq(kernel_test_code(&t), WEFT_OK, "%s", op);
    kernel_test_fini(&t);
}

Test(kernels_tables, rows_that_are_taken_side_by_side_are_what_they_are_alone) {
    static const char *const ops[] = {"softmax", "softmax_grad", "layer_norm", "layer_norm_grad"};
    static const int widths[] = {1, 10, 32, 67, 96};
    static rows_of together, apart;
    for (int i = 0; i < SOME * WIDEST; i++) {
        together.x[i] = (float)(i * 7919 % 1001) / 100 - 5;
        together.dy[i] = (float)(i * 31 % 97) / 10 - 4;
    }
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            memcpy(apart.x, together.x, sizeof apart.x);
            memcpy(apart.dy, together.dy, sizeof apart.dy);
            run_rows(ops[o], &together, 0, SOME, widths[w]);
            for (int row = 0; row < SOME; row++) run_rows(ops[o], &apart, row, 1, widths[w]);
            size_t nbytes = (size_t)(SOME * widths[w]) * sizeof(float);
            cr_expect_arr_eq(together.out, apart.out, nbytes, "%s, rows of %d", ops[o], widths[w]);
            cr_expect_arr_eq(together.mean, apart.mean, sizeof apart.mean, "%s, rows of %d", ops[o], widths[w]);
        }
}
