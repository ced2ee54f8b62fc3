/* elementwise_grad.c: gradients of two-operand kernels.
 *
 * d X is a function of x, y and d Out, element by element, summed over the axes along which X was broadcast. Blocks of
 * the operands are brought to contiguous fp32 (fp64 for fp64), and the function is applied. The block is stored, or
 * added to double accumulators in workspace. Where max and min tie, both sides take half; in programs of Paddle 2 Y
 * takes all. */
#include <math.h>

#include "executor/kernels/accumulate.h"
#include "executor/kernels/elementwise/elementwise.h"
#include "executor/kernels/rows.h"

enum { X, Y, PLAIN_DOUT, DIV_OUT = 2, DIV_DOUT };
enum { DX, DY };

/* n elements of d X (or d Y). A NULL function: d Out itself. */
typedef void (*grad_fn)(int64_t n, const void *x, const void *y, const void *dout, void *d);

#define DEFINE_GRAD(fn, type, expression)                                                                              \
    static void fn(int64_t n, const void *xv, const void *yv, const void *gv, void *dv) {                              \
        const type *restrict x = xv, *restrict y = yv, *restrict g = gv;                                               \
        type *restrict d = dv;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            type a = x[i], b = y[i];                                                                                   \
            (void)a, (void)b;                                                                                          \
            d[i] = (type)(expression);                                                                                 \
        }                                                                                                              \
    }

static inline float half_at_tie(bool wins, bool ties) {
    return wins ? 1.0f : ties ? 0.5f : 0.0f;
}

/* R(name, d X for fp32, d Y for fp32, d X for fp64, d Y for fp64) */
#define GRADIENTS(R)                                                                                                   \
    R(mul, g[i] * b, g[i] * a, g[i] * b, g[i] * a)                                                                     \
    R(div, g[i] / b, -g[i] * (a / b) / b, g[i] / b, -g[i] * (a / b) / b)                                               \
    R(pow, g[i] * b * powf(a, b - 1), g[i] * logf(a) * powf(a, b), g[i] * b * pow(a, b - 1), g[i] * log(a) * pow(a, b))
#define TIED_GRADIENTS(R)                                                                                              \
    R(max, g[i] * half_at_tie(a > b, a == b), g[i] * half_at_tie(b > a, a == b),                                       \
      g[i] * (double)half_at_tie(a > b, a == b), g[i] * (double)half_at_tie(b > a, a == b))                            \
    R(min, g[i] * half_at_tie(a < b, a == b), g[i] * half_at_tie(b < a, a == b),                                       \
      g[i] * (double)half_at_tie(a < b, a == b), g[i] * (double)half_at_tie(b < a, a == b))
/* In programs of Paddle 2 (ops/versions.def). */
#define OLDER_GRADIENTS(R)                                                                                             \
    R(max_older, g[i] * (a > b), g[i] * (a <= b), g[i] * (a > b), g[i] * (a <= b))                                     \
    R(min_older, g[i] * (a < b), g[i] * (a >= b), g[i] * (a < b), g[i] * (a >= b))

#define DEFINE_GRADIENTS(name, dx32, dy32, dx64, dy64)                                                                 \
    DEFINE_GRAD(name##_dx_fp32, float, dx32)                                                                           \
    DEFINE_GRAD(name##_dy_fp32, float, dy32)                                                                           \
    DEFINE_GRAD(name##_dx_fp64, double, dx64)                                                                          \
    DEFINE_GRAD(name##_dy_fp64, double, dy64)
GRADIENTS(DEFINE_GRADIENTS)
TIED_GRADIENTS(DEFINE_GRADIENTS)
OLDER_GRADIENTS(DEFINE_GRADIENTS)
#undef DEFINE_GRADIENTS

static void negate_fp32(int64_t n, const void *x, const void *y, const void *gv, void *dv) {
    const float *g = gv;
    float *d = dv;
    (void)x, (void)y;
    INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = -g[i];
}
static void negate_fp64(int64_t n, const void *x, const void *y, const void *gv, void *dv) {
    const double *g = gv;
    double *d = dv;
    (void)x, (void)y;
    INDEPENDENT for (int64_t i = 0; i < n; i++) d[i] = -g[i];
}

/* One gradient: which function, and how x, y and the result lie in d Out. */
typedef struct side {
    bool wanted, is_sum; /* is_sum: the operand was broadcast */
    grad_fn fn;
    loops loops; /* over d Out; operands x, y, result */
} side;

typedef struct state {
    side sides[2];
    int dout; /* slot */
    bool needs_operands;
} state;

typedef struct gradients {
    grad_fn fp32[2], fp64[2];
    bool needs_operands;
    int dout;
} gradients;

/* Axes over which the gradient runs: those of Out@GRAD. One element stays one element, however many axes of extent 1
 * the operands write it with. */
static int result_axes(const tensor *dout, const tensor *x, const tensor *y, int64_t *dims) {
    int ndim = dout->ndim;
    memcpy(dims, dout->dims, sizeof dout->dims);
    for (; dout->numel == 1 && (ndim < x->ndim || ndim < y->ndim); ndim++) dims[ndim] = 1;
    return ndim;
}

/* n elements at `at`, `stride` apart, contiguous and as REAL: in place where they already are. */
static const void *block_of(const tensor *t, int64_t at, int64_t stride, int64_t n, void *scratch) {
    const char *from = (const char *)t->data + (size_t)at * weft_dtype_nbytes(t->dtype);
    if (dtype_is_half(t->dtype)) {
        half_load(t->dtype, n, from, stride, scratch);
        return scratch;
    }
    if (stride) return from;
    fill_elements(t->dtype, scratch, n, tensor_scalar(&(tensor){.data = (void *)(uintptr_t)from, .dtype = t->dtype}));
    return scratch;
}

/* Applies a side's function to n elements and stores them, or adds them to `acc`. */
static void grad_block(const side *s, const tensor *x, const tensor *y, const tensor *dout, const tensor *d,
                       const walk *w, int64_t i, int64_t n, bool needs_operands, double *acc) {
    _Alignas(64) char scratch[4][BLOCK * sizeof(double)];
    int64_t xs = loops_stride(&s->loops, 0), ys = loops_stride(&s->loops, 1), ds = loops_stride(&s->loops, 2);
    weft_dtype real = d->dtype == WEFT_FP64 ? WEFT_FP64 : WEFT_FP32;
    const void *a = NULL, *b = NULL, *g = block_of(dout, w->position + i, 1, n, scratch[2]);
    if (needs_operands) {
        a = block_of(x, w->at[0] + i * xs, xs, n, scratch[0]);
        b = block_of(y, w->at[1] + i * ys, ys, n, scratch[1]);
    }
    void *result = scratch[3];
    char *to = (char *)d->data + (size_t)(w->at[2] + i * ds) * weft_dtype_nbytes(d->dtype);
    if (!acc && real == d->dtype) result = to;
    if (s->fn) {
        s->fn(n, a, b, g, result);
        g = result;
    }
    if (acc) {
        accumulate(real, n, g, ds, acc + w->at[2] + i * ds);
    } else if (real != d->dtype) {
        half_store(d->dtype, n, g, to);
    } else {
        copy_bytes(to, g, (size_t)n * weft_dtype_nbytes(real));
    }
}

/* The loops of a side as d Out -> result, for summing without a function. */
static loops sum_loops(const loops *l) {
    loops sum = *l;
    int64_t stride = 1;
    for (int i = l->naxes - 1; i >= 0; i--) {
        sum.stride[0][i] = stride;
        sum.stride[1][i] = l->stride[2][i];
        stride *= l->extent[i];
    }
    sum.noperands = 2;
    return sum;
}

static void run_side(const kernel_call *c, const state *s, int k) {
    const side *of = &s->sides[k];
    const tensor *x = arg_in(c, X), *y = arg_in(c, Y), *dout = arg_in(c, s->dout), *d = arg_out(c, k);
    double *acc = of->is_sum ? c->workspace : NULL;
    if (acc) memset(acc, 0, (size_t)d->numel * sizeof *acc);
    if (!of->fn && !acc) {
        copy_bytes(d->data, dout->data, tensor_nbytes(d));
        return;
    }
    if (!of->fn) {
        loops sum = sum_loops(&of->loops);
        accumulate_loops(&sum, dout->dtype, dout->data, acc);
    } else {
        int64_t n = loops_run(&of->loops);
        for (walk w = walk_start(&of->loops); w.left; walk_next(&of->loops, &w))
            for (int64_t i = 0; i < n; i += BLOCK)
                grad_block(of, x, y, dout, d, &w, i, block_size(n - i), s->needs_operands, acc);
    }
    if (acc) store_doubles(d->dtype, d->numel, acc, d->data);
}

/* --- row by row --------------------------------------------------------------------------------------------------- */

enum { ROWS_A_STEP = 4 }; /* what accumulate_columns adds up at a time */

/* Whether a side is the gradient of a bias row: d Out summed over its rows. */
static bool is_column_sum(const side *s) {
    const loops *l = &s->loops;
    return s->is_sum && !s->fn && l->naxes == 2 && l->stride[2][0] == 0 && l->stride[2][1] == 1;
}
/* Whether it is a function of elements in the same place. */
static bool is_plain(const side *s) {
    return !s->is_sum && (!s->fn || s->loops.naxes == 1);
}

/* Elements [at, at + n) of a plain side. */
static void plain_elements(const kernel_call *c, const side *of, int k, int64_t at, int64_t n) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X), *y = arg_in(c, Y), *dout = arg_in(c, s->dout), *d = arg_out(c, k);
    size_t size = weft_dtype_nbytes(d->dtype), offset = (size_t)at * size;
    if (!of->fn) {
        copy_bytes((char *)d->data + offset, (const char *)dout->data + offset, (size_t)n * size);
        return;
    }
    walk w = {.position = 0};
    for (int64_t i = 0; i < n; i += BLOCK)
        grad_block(of, x, y, dout, d, &w, at + i, block_size(n - i), s->needs_operands, NULL);
}

static void rows(const kernel_call *c, int64_t first, int64_t end) {
    const state *s = c->state;
    const tensor *dout = arg_in(c, s->dout);
    size_t size = weft_dtype_nbytes(dout->dtype);
    element_range e = elements_of(c, dout->numel, first, end);
    for (int k = DY; k >= DX; k--) {
        const side *of = &s->sides[k];
        if (!of->wanted) continue;
        if (!of->is_sum) {
            plain_elements(c, of, k, e.at, e.n);
            continue;
        }
        int64_t width = loops_run(&of->loops);
        if (first == 0) memset(c->workspace, 0, (size_t)width * sizeof(double));
        accumulate_columns(dout->dtype, e.n / width, width, width, (const char *)dout->data + (size_t)e.at * size,
                           c->workspace);
        if (end == c->split.nrows) store_doubles(dout->dtype, width, c->workspace, arg_out(c, k)->data);
    }
}

static void split(kernel_prepare *p, const state *s, const tensor *dout) {
    int nsums = 0, sum = 0;
    for (int k = 0; k < 2; k++) {
        const side *of = &s->sides[k];
        if (!of->wanted || is_plain(of)) continue;
        if (!is_column_sum(of) || dtype_is_half(dout->dtype)) return;
        sum = k;
        nsums++;
    }
    if (dout->numel == 0 || nsums > 1) return;
    split_elements(p, rows, dout->numel);
    if (!nsums) return;
    int64_t nrows = s->sides[sum].loops.extent[0];
    p->split.nrows = nrows % ROWS_A_STEP == 0 ? nrows / ROWS_A_STEP : 1;
    p->split.in_order = true;
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

enum { COLUMNS_A_PART = 64 };

typedef struct column_job {
    const kernel_call *c;
    int side;
} column_job;

/* Columns of a bias row's gradient, COLUMNS_A_PART an item. */
static void sum_part(void *arg, int64_t first, int64_t end, int part) {
    const column_job *job = arg;
    const state *s = job->c->state;
    const side *of = &s->sides[job->side];
    const tensor *dout = arg_in(job->c, s->dout), *d = arg_out(job->c, job->side);
    size_t size = weft_dtype_nbytes(dout->dtype);
    int64_t width = loops_run(&of->loops), at = first * COLUMNS_A_PART;
    int64_t n = (end * COLUMNS_A_PART < width ? end * COLUMNS_A_PART : width) - at;
    double *acc = (double *)job->c->workspace + at;
    (void)part;
    memset(acc, 0, (size_t)n * sizeof *acc);
    accumulate_columns(dout->dtype, of->loops.extent[0], width, n, (const char *)dout->data + (size_t)at * size, acc);
    store_doubles(d->dtype, n, acc, (char *)d->data + (size_t)at * size);
}

static void plain_part(void *arg, int64_t first, int64_t end, int part) {
    const column_job *job = arg;
    const state *s = job->c->state;
    int64_t numel = arg_in(job->c, s->dout)->numel, at = first * ROW_ELEMENTS;
    int64_t to = end * ROW_ELEMENTS < numel ? end * ROW_ELEMENTS : numel;
    (void)part;
    plain_elements(job->c, &s->sides[job->side], job->side, at, to - at);
}

static void run_split(const kernel_call *c) {
    const state *s = c->state;
    const tensor *dout = arg_in(c, s->dout);
    for (int k = DY; k >= DX; k--) {
        const side *of = &s->sides[k];
        column_job job = {c, k};
        if (!of->wanted) continue;
        if (of->is_sum) {
            int64_t row_nbytes = of->loops.extent[0] * COLUMNS_A_PART * 4;
            parallel_for(c, (loops_run(&of->loops) + COLUMNS_A_PART - 1) / COLUMNS_A_PART, grain_of_bytes(row_nbytes),
                         sum_part, &job);
        } else {
            parallel_for(c, (dout->numel + ROW_ELEMENTS - 1) / ROW_ELEMENTS, grain_of_bytes(ROW_ELEMENTS * 8),
                         plain_part, &job);
        }
    }
}

/* --- kernels ------------------------------------------------------------------------------------------------------ */

static weft_status prepare(kernel_prepare *p, const gradients *g) {
    const tensor *x = type_in(p, X), *y = type_in(p, Y), *dout = type_in(p, g->dout);
    int64_t operand[2][WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK], dims[WEFT_MAX_RANK];
    int ndim = result_axes(dout, x, y, dims);
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    if (!dtype_is_float(dout->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(dout->dtype));
    TRY(require_same_dtype(p, dout, x, "X"));
    TRY(require_same_dtype(p, dout, y, "Y"));
    TRY(broadcast_strides(p, (int)attr_int(p->op, "axis", -1), x, y, ndim, dims, operand));
    s->dout = g->dout;
    s->needs_operands = g->needs_operands;
    for (int k = 0; k < 2; k++) {
        const tensor *d = type_out(p, k), *of = k == X ? x : y;
        side *side_of = &s->sides[k];
        if (!d) continue;
        side_of->wanted = true;
        side_of->fn = dout->dtype == WEFT_FP64 ? g->fp64[k] : g->fp32[k];
        memcpy(strides[0], operand[0], sizeof operand[0]);
        memcpy(strides[1], operand[1], sizeof operand[1]);
        memcpy(strides[2], operand[k], sizeof operand[k]);
        loops_init(&side_of->loops, ndim, dims, 3, strides);
        side_of->is_sum = of->numel != dout->numel;
        size_t scratch = side_of->is_sum ? (size_t)of->numel * sizeof(double) : 0;
        if (scratch > p->workspace_nbytes) p->workspace_nbytes = scratch;
    }
    split(p, s, dout);
    return NULL;
}

/* d Y first: d X may take the memory of d Out. */
static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    if (c->split.rows && c->nthreads > 1) {
        run_split(c);
    } else if (c->split.rows) {
        rows(c, 0, c->split.nrows);
    } else {
        for (int k = DY; k >= DX; k--)
            if (s->sides[k].wanted) run_side(c, s, k);
    }
    return NULL;
}

static weft_status prepare_add(kernel_prepare *p) {
    static const gradients g = {.dout = PLAIN_DOUT};
    return prepare(p, &g);
}
static weft_status prepare_sub(kernel_prepare *p) {
    static const gradients g = {.fp32 = {NULL, negate_fp32}, .fp64 = {NULL, negate_fp64}, .dout = PLAIN_DOUT};
    return prepare(p, &g);
}
const kernel kernel_elementwise_add_grad = {prepare_add, run};
const kernel kernel_elementwise_sub_grad = {prepare_sub, run};

#define DEFINE_KERNEL(name, dx32, dy32, dx64, dy64)                                                                    \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        gradients g = {{name##_dx_fp32, name##_dy_fp32},                                                               \
                       {name##_dx_fp64, name##_dy_fp64},                                                               \
                       true,                                                                                           \
                       p->schema->ninputs == 4 ? DIV_DOUT : PLAIN_DOUT};                                               \
        return prepare(p, &g);                                                                                         \
    }                                                                                                                  \
    const kernel kernel_elementwise_##name##_grad = {prepare_##name, run};
GRADIENTS(DEFINE_KERNEL)
#undef DEFINE_KERNEL

#define DEFINE_TIED_KERNEL(name, dx32, dy32, dx64, dy64)                                                               \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        static const gradients g = {                                                                                   \
            {name##_dx_fp32, name##_dy_fp32}, {name##_dx_fp64, name##_dy_fp64}, true, PLAIN_DOUT};                     \
        static const gradients older = {{name##_older_dx_fp32, name##_older_dy_fp32},                                  \
                                        {name##_older_dx_fp64, name##_older_dy_fp64},                                  \
                                        true,                                                                          \
                                        PLAIN_DOUT};                                                                   \
        return prepare(p, p->older ? &older : &g);                                                                     \
    }                                                                                                                  \
    const kernel kernel_elementwise_##name##_grad = {prepare_##name, run};
TIED_GRADIENTS(DEFINE_TIED_KERNEL)
#undef DEFINE_TIED_KERNEL
