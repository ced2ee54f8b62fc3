/* matmul.c: matmul_v2, matmul, bmm, mul and their gradients, as products of batches of matrices.
 *
 * Where Y is one matrix for all of X's, the whole batch is one product of tall matrices. Other batches must be equal on
 * both sides. With O = op(X) op(Y):
 *   dX = dO op(Y)', or its transpose op(Y) dO' where X is transposed;   dY = op(X)' dO, or dO' op(X) */
#include "executor/devices/cuda/matmul.h"

#include "executor/devices/cuda/attrs.h"
#include "executor/kernels/typed.h"

enum { X = MATMUL_X, Y = MATMUL_Y, DOUT = MATMUL_DOUT };

/* How an op names its attrs, and what of its operands it sees. */
typedef struct dialect {
    const char *trans_x, *trans_y, *alpha; /* NULL: has none */
    const char *x_split, *y_split;         /* mul: dimensions before that many are rows, the others columns */
} dialect;

static const dialect of_matmul_v2 = {.trans_x = "trans_x", .trans_y = "trans_y"},
                     of_matmul = {.trans_x = "transpose_X", .trans_y = "transpose_Y", .alpha = "alpha"},
                     of_bmm = {NULL}, of_mul = {.x_split = "x_num_col_dims", .y_split = "y_num_col_dims"};

typedef struct operands {
    blas_matrix x, y;
    int64_t m, n, k, nbatch;
    weft_dtype dtype;
    float alpha;
} operands;

static int64_t matrix_of(const tensor *t, int64_t split, bool transposed, blas_matrix *out) {
    int64_t nbatch = 1;
    *out = (blas_matrix){.address = t->data, .rows = 1, .columns = 1, .transposed = transposed};
    for (int i = 0; i < t->ndim; i++) {
        if (split >= 0)
            *(i < split ? &out->rows : &out->columns) *= t->dims[i];
        else if (i + 2 < t->ndim)
            nbatch *= t->dims[i];
    }
    if (split < 0) {
        out->rows = t->dims[t->ndim - 2];
        out->columns = t->dims[t->ndim - 1];
    }
    out->stride = out->rows * out->columns;
    return nbatch;
}

static bool same_batch(const tensor *x, const tensor *y) {
    if (x->ndim != y->ndim) return false;
    for (int i = 0; i + 2 < x->ndim; i++)
        if (x->dims[i] != y->dims[i]) return false;
    return true;
}

static weft_status read_operands(const kernel_prepare *p, const dialect *d, operands *o) {
    const tensor *x = type_in(p, X), *y = type_in(p, Y);
    for (uint32_t i = 0; i < p->in_first[p->schema->ninputs]; i++)
        if (p->in[i].dtype != WEFT_DTYPE_NONE && (p->in[i].dtype != x->dtype || p->in[i].height >= 0))
            return cuda_refuse("operands of two types, or rows (SelectedRows)");
    if (!d->x_split && (x->ndim < 2 || y->ndim < 2)) return cuda_refuse("a vector");
    bool tx = d->trans_x && attr_bool(p->op, d->trans_x, false), ty = d->trans_y && attr_bool(p->op, d->trans_y, false);
    o->nbatch = matrix_of(x, d->x_split ? attr_int(p->op, d->x_split, 1) : -1, tx, &o->x);
    int64_t nbatch_y = matrix_of(y, d->y_split ? attr_int(p->op, d->y_split, 1) : -1, ty, &o->y);
    bool is_one = nbatch_y == 1 && !tx && o->nbatch > 1;
    if (is_one) {
        o->x.rows *= o->nbatch;
        o->x.stride *= o->nbatch;
        o->nbatch = 1;
    } else if (!d->x_split && !(o->nbatch == 1 && nbatch_y == 1) && !same_batch(x, y)) {
        return cuda_refuse("batches that broadcast");
    }
    o->dtype = x->dtype;
    o->m = tx ? o->x.columns : o->x.rows;
    o->k = tx ? o->x.rows : o->x.columns;
    o->n = ty ? o->y.rows : o->y.columns;
    o->alpha = d->alpha ? (float)attr_float(p->op, d->alpha, 1) : 1;
    return o->m && o->n && o->k && o->nbatch ? NULL : cuda_refuse("no elements");
}

static blas_matrix dense(const tensor *t, int64_t rows, int64_t columns, bool transposed) {
    return (blas_matrix){t->data, rows, columns, rows * columns, transposed};
}

static blas_matrix used(blas_matrix m, bool transposed) {
    m.transposed = transposed;
    return m;
}

/* --- products ----------------------------------------------------------------------------------------------------- */

static void need_workspace(kernel_prepare *p, const blas_product *product) {
    if (product->workspace_nbytes > p->workspace_nbytes) p->workspace_nbytes = product->workspace_nbytes;
}

static weft_status prepare_product(kernel_prepare *p, const dialect *d) {
    blas_product *s = KERNEL_STATE(p, blas_product);
    operands o;
    if (!s) return base_out_of_memory();
    TRY(read_operands(p, d, &o));
    blas_matrix out = dense(type_out(p, 0), o.m, o.n, false);
    TRY(blas_prepare(s, &o.x, &o.y, &out, o.dtype, o.nbatch, o.alpha));
    need_workspace(p, s);
    return NULL;
}

static weft_status launch_product(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return blas_launch(l, c->state, arg_in(c, X)->data, arg_in(c, Y)->data, arg_out(c, 0)->data);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_gradients(kernel_prepare *p, const dialect *d) {
    matmul_gradients *s = KERNEL_STATE(p, matmul_gradients);
    operands o;
    if (!s) return base_out_of_memory();
    TRY(read_operands(p, d, &o));
    bool tx = o.x.transposed, ty = o.y.transposed;
    blas_matrix dout = dense(type_in(p, DOUT), o.m, o.n, false), turned = used(dout, true);
    const tensor *dx = type_out(p, X), *dy = type_out(p, Y);
    blas_matrix x = used(o.x, !tx), same_x = o.x, y = used(o.y, !ty), same_y = o.y;
    if (dx) {
        blas_matrix to = dense(dx, o.x.rows, o.x.columns, false);
        s->of[X].first = tx ? Y : DOUT;
        s->of[X].second = tx ? DOUT : Y;
        TRY(blas_prepare(&s->of[X].product, tx ? &same_y : &dout, tx ? &turned : &y, &to, o.dtype, o.nbatch, o.alpha));
        need_workspace(p, &s->of[X].product);
    }
    if (dy) {
        blas_matrix to = dense(dy, o.y.rows, o.y.columns, false);
        s->of[Y].first = ty ? DOUT : X;
        s->of[Y].second = ty ? X : DOUT;
        TRY(blas_prepare(&s->of[Y].product, ty ? &turned : &x, ty ? &same_x : &dout, &to, o.dtype, o.nbatch, o.alpha));
        need_workspace(p, &s->of[Y].product);
    }
    return NULL;
}

static weft_status launch_gradients(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const matmul_gradients *s = c->state;
    for (int side = 0; side < 2; side++) {
        const matmul_gradient *g = &s->of[side];
        if (!arg_out(c, side)) continue;
        TRY(blas_launch(l, &g->product, arg_in(c, g->first)->data, arg_in(c, g->second)->data, arg_out(c, side)->data));
    }
    return NULL;
}

#define FAMILY(name)                                                                                                   \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_product(p, &of_##name);                                                                         \
    }                                                                                                                  \
    static weft_status prepare_##name##_grad(kernel_prepare *p) {                                                      \
        return prepare_gradients(p, &of_##name);                                                                       \
    }                                                                                                                  \
    const cuda_op cuda_##name = {.prepare = prepare_##name, .launch = launch_product, .product = CUDA_PRODUCT};        \
    const cuda_op cuda_##name##_grad = {                                                                               \
        .prepare = prepare_##name##_grad, .launch = launch_gradients, .product = CUDA_PRODUCT_GRADIENTS};
FAMILY(matmul_v2)
FAMILY(matmul)
FAMILY(bmm)
FAMILY(mul)
#undef FAMILY
