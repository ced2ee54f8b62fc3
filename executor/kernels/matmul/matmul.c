/* matmul.c: matmul_v2, its older and narrower kin (matmul, bmm, mul), and their gradients.
 *
 * Both operands become batches of matrices: a vector X is a row, a vector Y a column, and transposing a vector changes
 * nothing. Batch dimensions broadcast. Where Y is one matrix for all of X's, the whole batch is one product of tall
 * matrices. Gradients of broadcast operands are added up batch after batch, in order, by the product itself (beta 1).
 * Those of a batch are fused, pair by pair of matrices, with what follows (softmax_grad). */
#include "executor/kernels/matmul/gemm.h"
#include "executor/kernels/loops.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"

enum { X, Y, DOUT };
enum { DX, DY };
enum { OUT_SIDE = 2 }; /* as an operand of the loops over batches */

/* One operand as stored: rows x columns matrices, transposed when used. */
typedef struct operand {
    int64_t rows, columns;
    bool transposed;
    int64_t nbatch; /* matrices in the operand */
} operand;

typedef struct state {
    operand x, y;
    int64_t m, n, k;
    double alpha;             /* matmul: what the product is multiplied by */
    loops batch;              /* over Out's batch dims; operands: matrix index in X, in Y, in Out */
    size_t scratch_offset[3]; /* half types: X, Y, Out as fp32 in workspace */
} state;

static operand operand_of(const tensor *t, bool is_x, bool transposed) {
    operand o = {.transposed = transposed && t->ndim > 1, .nbatch = 1};
    o.rows = t->ndim > 1 ? t->dims[t->ndim - 2] : is_x ? 1 : t->dims[0];
    o.columns = t->ndim > 1 ? t->dims[t->ndim - 1] : is_x ? t->dims[0] : 1;
    for (int i = 0; i + 2 < t->ndim; i++) o.nbatch *= t->dims[i];
    return o;
}

/* A tensor's batch dims as a tensor of matrix indices. */
static tensor batch_of(const tensor *t) {
    tensor b = *t;
    b.ndim = t->ndim > 2 ? t->ndim - 2 : 0;
    return b;
}

/* Right-aligned broadcast of two batch shapes. False if they do not fit. */
static bool broadcast_batch(const tensor *x, const tensor *y, int *out_ndim, int64_t *out_dims) {
    int ndim = x->ndim > y->ndim ? x->ndim : y->ndim;
    for (int i = 0; i < ndim; i++) {
        int xi = i - (ndim - x->ndim), yi = i - (ndim - y->ndim);
        int64_t a = xi < 0 ? 1 : x->dims[xi], b = yi < 0 ? 1 : y->dims[yi];
        if (a != b && a != 1 && b != 1) return false;
        out_dims[i] = a == 1 ? b : a;
    }
    *out_ndim = ndim;
    return true;
}

/* How an op names its attrs, and what of its operands it sees. */
typedef struct dialect {
    const char *trans_x, *trans_y, *alpha; /* NULL: has none */
    const char *x_split, *y_split;         /* mul: dimensions before that many are rows, the others columns */
} dialect;

/* A tensor as a matrix: dimensions before `split` are rows. */
static tensor matrix_of(const tensor *t, int64_t split) {
    tensor m = *t;
    m.ndim = 2;
    m.dims[0] = m.dims[1] = 1;
    for (int i = 0; i < t->ndim; i++) m.dims[i < split ? 0 : 1] *= t->dims[i];
    return m;
}

static weft_status prepare_shapes(kernel_prepare *p, const dialect *d, state *s) {
    tensor x = *type_in(p, X), y = *type_in(p, Y);
    int ndim = 0;
    int64_t dims[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    if (x.ndim == 0 || y.ndim == 0) return kernel_unsupported(p, "expected at least one axis in X and in Y");
    if (d->x_split) x = matrix_of(&x, attr_int(p->op, d->x_split, 1));
    if (d->y_split) y = matrix_of(&y, attr_int(p->op, d->y_split, 1));
    s->x = operand_of(&x, true, d->trans_x && attr_bool(p->op, d->trans_x, false));
    s->y = operand_of(&y, false, d->trans_y && attr_bool(p->op, d->trans_y, false));
    s->alpha = d->alpha ? attr_float(p->op, d->alpha, 1) : 1;
    s->m = s->x.transposed ? s->x.columns : s->x.rows;
    s->k = s->x.transposed ? s->x.rows : s->x.columns;
    s->n = s->y.transposed ? s->y.rows : s->y.columns;
    int64_t y_inner = s->y.transposed ? s->y.columns : s->y.rows;
    if (y_inner != s->k)
        return kernel_unsupported(p, "expected inner extents to agree, found %lld and %lld", (long long)s->k,
                                  (long long)y_inner);
    tensor bx = batch_of(&x), by = batch_of(&y);
    if (!broadcast_batch(&bx, &by, &ndim, dims)) return kernel_unsupported(p, "expected batch axes that broadcast");
    if (!strides_broadcast(&bx, -1, ndim, dims, strides[0]) || !strides_broadcast(&by, -1, ndim, dims, strides[1]))
        return kernel_unsupported(p, "expected batch axes that broadcast");
    strides_dense(ndim, dims, strides[2]);
    loops_init(&s->batch, ndim, dims, 3, strides);
    return NULL;
}

/* X's matrices one below the other, where Y is a single one and X needs no transposition. */
static void merge_batch(state *s) {
    if (s->y.nbatch != 1 || s->x.nbatch != s->batch.numel || s->x.transposed) return;
    s->m *= s->batch.numel;
    s->x.rows = s->m;
    s->x.nbatch = 1;
    int64_t none[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}};
    loops_init(&s->batch, 0, NULL, 3, none);
}

static weft_status prepare_product(kernel_prepare *p, const dialect *d) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, X), *y = type_in(p, Y);
    TRY(require_same_dtype(p, x, y, "Y"));
    if (!dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(x->dtype));
    TRY(prepare_shapes(p, d, s));
    if (dtype_is_half(x->dtype)) {
        int64_t out = s->batch.numel * s->m * s->n;
        s->scratch_offset[1] = (size_t)x->numel;
        s->scratch_offset[2] = (size_t)(x->numel + y->numel);
        p->workspace_nbytes = (size_t)(x->numel + y->numel + out) * sizeof(float);
    }
    merge_batch(s);
    return NULL;
}

/* A tensor's elements as fp32 or fp64: its own, or converted into workspace. */
static void *full_elements(const kernel_call *c, const tensor *t, size_t offset, bool load) {
    if (!dtype_is_half(t->dtype)) return t->data;
    float *scratch = (float *)c->workspace + offset;
    if (load) half_load(t->dtype, t->numel, t->data, 1, scratch);
    return scratch;
}

/* One matrix product, in fp64 or fp32: C[m, n] = op(A) op(B) + beta C with A, B stored with lda, ldb columns. */
typedef struct product {
    bool fp64, ta, tb;
    int64_t m, n, k, lda, ldb, ldc;
    double alpha, beta;
} product;

/* Matrices of one operand of a batch of products: that of item i is at loops operand `side`'s offset times `size`. */
typedef struct matrices {
    const void *base;
    int side;
    int64_t size;
} matrices;

typedef struct batch_job {
    product g;
    const loops *batch;
    matrices a, b, c;
} batch_job;

/* Operand k's matrix in item `item` of the batch. */
static int64_t matrix_index(const loops *l, int k, int64_t item) {
    int64_t index = 0;
    for (int i = l->naxes - 1; i >= 0; i--) {
        index += item % l->extent[i] * l->stride[k][i];
        item /= l->extent[i];
    }
    return index;
}

static const void *matrix_at(const batch_job *j, const matrices *m, int64_t item) {
    int64_t index = matrix_index(j->batch, m->side, item) * m->size;
    return (const char *)m->base + (size_t)index * (j->g.fp64 ? sizeof(double) : sizeof(float));
}

/* Item `item` of a batch; the next one follows. */
static void multiply(const kernel_call *call, const batch_job *j, int64_t item) {
    const product *p = &j->g;
    const void *a = matrix_at(j, &j->a, item), *b = matrix_at(j, &j->b, item);
    void *c = (void *)(uintptr_t)matrix_at(j, &j->c, item);
    if (p->fp64) {
        gemm_f64(p->ta, p->tb, p->m, p->n, p->k, p->alpha, a, p->lda, b, p->ldb, p->beta, c, p->ldc);
        return;
    }
    gemm g = {.m = p->m, .n = p->n, .k = p->k, .a = a, .lda = p->lda, .a_transposed = p->ta, .c = c, .ldc = p->ldc};
    g.b = b, g.ldb = p->ldb, g.b_transposed = p->tb;
    g.alpha = (float)p->alpha, g.beta = (float)p->beta;
    if (item + 1 < j->batch->numel) g.next_a = matrix_at(j, &j->a, item + 1), g.next_b = matrix_at(j, &j->b, item + 1);
    gemm_multiply(call, &g);
}

static void multiply_items(void *arg, int64_t first, int64_t end, int part) {
    (void)part;
    for (int64_t i = first; i < end; i++) multiply(NULL, arg, i);
}

/* The products of a batch run side by side. Where there are few or they add into each other, they run one after
 * another, each on all threads. */
static void multiply_batch(const kernel_call *call, batch_job *j) {
    const product *g = &j->g;
    if (g->beta == 0 && j->batch->numel >= call->nthreads) {
        parallel_for(call, j->batch->numel, grain_of_products(g->m * g->n * g->k), multiply_items, j);
        return;
    }
    for (int64_t i = 0; i < j->batch->numel; i++) multiply(call, j, i);
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X), *y = arg_in(c, Y), *out = arg_out(c, 0);
    const void *xs = full_elements(c, x, 0, true), *ys = full_elements(c, y, s->scratch_offset[1], true);
    void *outs = full_elements(c, out, s->scratch_offset[2], false);
    batch_job j = {.g = {.fp64 = x->dtype == WEFT_FP64,
                         .ta = s->x.transposed,
                         .tb = s->y.transposed,
                         .m = s->m,
                         .n = s->n,
                         .k = s->k,
                         .lda = s->x.columns,
                         .ldb = s->y.columns,
                         .ldc = s->n,
                         .alpha = s->alpha},
                   .batch = &s->batch,
                   .a = {xs, X, s->x.rows * s->x.columns},
                   .b = {ys, Y, s->y.rows * s->y.columns},
                   .c = {outs, OUT_SIDE, s->m * s->n}};
    multiply_batch(c, &j);
    if (dtype_is_half(out->dtype)) half_store(out->dtype, out->numel, outs, out->data);
    return NULL;
}

static const dialect matmul_v2 = {"trans_x", "trans_y", NULL, NULL, NULL};
static const dialect matmul = {"transpose_X", "transpose_Y", "alpha", NULL, NULL};
static const dialect bmm = {NULL, NULL, NULL, NULL, NULL};
static const dialect mul = {NULL, NULL, NULL, "x_num_col_dims", "y_num_col_dims"};

static weft_status prepare_matmul_v2(kernel_prepare *p) {
    return prepare_product(p, &matmul_v2);
}
static weft_status prepare_matmul(kernel_prepare *p) {
    return prepare_product(p, &matmul);
}
static weft_status prepare_bmm(kernel_prepare *p) {
    return prepare_product(p, &bmm);
}
static weft_status prepare_mul(kernel_prepare *p) {
    return prepare_product(p, &mul);
}

const kernel kernel_matmul_v2 = {prepare_matmul_v2, run};
const kernel kernel_matmul = {prepare_matmul, run};
const kernel kernel_bmm = {prepare_bmm, run};
const kernel kernel_mul = {prepare_mul, run};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

typedef struct gradient_state {
    state forward;
    size_t result_offset; /* half types: a gradient as fp32, after X, Y and Out@GRAD */
} gradient_state;

static void gradient_rows(const kernel_call *c, int64_t first, int64_t end);

/* Whether matrix i of the batch stands alone in X, Y and Out, so that all of them split evenly; and there are enough to
 * share out. */
static bool has_rows(const kernel_prepare *p, const state *s, weft_dtype dtype) {
    int64_t n = s->batch.numel;
    return n > 1 && n >= 2 * p->nthreads && s->x.nbatch == n && s->y.nbatch == n && !dtype_is_half(dtype);
}

static weft_status prepare_gradient(kernel_prepare *p, const dialect *d) {
    gradient_state *s = KERNEL_STATE(p, gradient_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, X), *y = type_in(p, Y), *dout = type_in(p, DOUT);
    TRY(require_same_dtype(p, x, y, "Y"));
    TRY(require_same_dtype(p, x, dout, "Out@GRAD"));
    if (!dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(x->dtype));
    state *f = &s->forward;
    TRY(prepare_shapes(p, d, f));
    if (dout->numel != f->batch.numel * f->m * f->n)
        return kernel_unsupported(p, "expected %lld elements in Out@GRAD, found %lld",
                                  (long long)(f->batch.numel * f->m * f->n), (long long)dout->numel);
    if (dtype_is_half(x->dtype)) {
        f->scratch_offset[1] = (size_t)x->numel;
        f->scratch_offset[2] = (size_t)(x->numel + y->numel);
        s->result_offset = f->scratch_offset[2] + (size_t)dout->numel;
        int64_t larger = x->numel > y->numel ? x->numel : y->numel;
        p->workspace_nbytes = (s->result_offset + (size_t)larger) * sizeof(float);
    }
    merge_batch(f);
    if (has_rows(p, f, x->dtype)) split_rows(p, gradient_rows, f->batch.numel);
    return NULL;
}

/* d X is d Out op(Y)^T, or its transpose op(Y) d Out^T where X is stored transposed. */
static product product_dx(const state *s) {
    product g = {.m = s->x.rows, .n = s->x.columns, .ldc = s->x.columns};
    if (!s->x.transposed) {
        g.k = s->n, g.lda = s->n, g.ldb = s->y.columns, g.tb = !s->y.transposed;
    } else {
        g.k = s->n, g.lda = s->y.columns, g.ldb = s->n, g.ta = s->y.transposed, g.tb = true;
    }
    return g;
}

/* d Y is op(X)^T d Out, or its transpose d Out^T op(X) where Y is stored transposed. */
static product product_dy(const state *s) {
    product g = {.m = s->y.rows, .n = s->y.columns, .ldc = s->y.columns};
    if (!s->y.transposed) {
        g.k = s->m, g.lda = s->x.columns, g.ldb = s->n, g.ta = !s->x.transposed;
    } else {
        g.k = s->m, g.lda = s->n, g.ldb = s->x.columns, g.ta = true, g.tb = s->x.transposed;
    }
    return g;
}

/* The products that give the gradient of operand `side`; they add into `result` where the operand is broadcast. */
static batch_job gradient_job(const kernel_call *c, int side, const void *other, const void *douts, void *result) {
    const state *s = &((const gradient_state *)c->state)->forward;
    const operand *self = side == DX ? &s->x : &s->y, *second = side == DX ? &s->y : &s->x;
    product g = side == DX ? product_dx(s) : product_dy(s);
    /* Whether d Out is the first factor. */
    bool dout_first = side == DX ? !s->x.transposed : s->y.transposed;
    g.fp64 = arg_out(c, side)->dtype == WEFT_FP64;
    g.alpha = s->alpha;
    g.beta = self->nbatch != s->batch.numel ? 1 : 0;
    matrices dout = {douts, OUT_SIDE, s->m * s->n}, another = {other, 1 - side, second->rows * second->columns};
    return (batch_job){.g = g,
                       .batch = &s->batch,
                       .a = dout_first ? dout : another,
                       .b = dout_first ? another : dout,
                       .c = {result, side, self->rows * self->columns}};
}

/* The gradient of operand `side` over all batches, zeroed first where it is broadcast. */
static void run_side(const kernel_call *c, const gradient_state *gs, int side, const void *other, const void *douts) {
    const tensor *d = arg_out(c, side);
    void *result = full_elements(c, d, gs->result_offset, false);
    batch_job j = gradient_job(c, side, other, douts, result);
    if (j.g.beta != 0 || j.g.k == 0) memset(result, 0, (size_t)d->numel * (j.g.fp64 ? sizeof(double) : sizeof(float)));
    multiply_batch(c, &j);
    if (dtype_is_half(d->dtype)) half_store(d->dtype, d->numel, result, d->data);
}

static weft_status run_grad(const kernel_call *c) {
    const gradient_state *s = c->state;
    const size_t *offset = s->forward.scratch_offset;
    const void *xs = full_elements(c, arg_in(c, X), offset[0], true);
    const void *ys = full_elements(c, arg_in(c, Y), offset[1], true);
    const void *douts = full_elements(c, arg_in(c, DOUT), offset[2], true);
    if (arg_out(c, DX)) run_side(c, s, DX, ys, douts);
    if (arg_out(c, DY)) run_side(c, s, DY, xs, douts);
    return NULL;
}

/* Matrices [first, end) of both gradients. */
static void gradient_rows(const kernel_call *c, int64_t first, int64_t end) {
    for (int side = DX; side <= DY; side++) {
        if (!arg_out(c, side)) continue;
        batch_job j = gradient_job(c, side, arg_in(c, 1 - side)->data, arg_in(c, DOUT)->data, arg_out(c, side)->data);
        multiply_items(&j, first, end, 0);
    }
}

static weft_status prepare_matmul_v2_grad(kernel_prepare *p) {
    return prepare_gradient(p, &matmul_v2);
}
static weft_status prepare_matmul_grad(kernel_prepare *p) {
    return prepare_gradient(p, &matmul);
}
static weft_status prepare_bmm_grad(kernel_prepare *p) {
    return prepare_gradient(p, &bmm);
}
static weft_status prepare_mul_grad(kernel_prepare *p) {
    return prepare_gradient(p, &mul);
}

const kernel kernel_matmul_v2_grad = {prepare_matmul_v2_grad, run_grad};
const kernel kernel_matmul_grad = {prepare_matmul_grad, run_grad};
const kernel kernel_bmm_grad = {prepare_bmm_grad, run_grad};
const kernel kernel_mul_grad = {prepare_mul_grad, run_grad};
