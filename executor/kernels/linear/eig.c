/* eig.c: eigenvalues and vectors of square matrices of reals (eig, eigvals), by LAPACK, and the
 * gradient, in double.
 *
 * Vectors have length 1. With V the vectors by columns, w the values, Q = V^H dV and E[i][j] = conj(w[j] - w[i]):
 *
 *   dX = V^-H (diag(dw) + (Q - V^H V diag(re Q)) / E) V^H, of which a real matrix takes the real part
 *
 * (Boeddeker and others, "On the computation of complex-valued gradients with application to statistically optimum
 * beamforming", 2017). */
#include <complex.h>
#include <math.h>

#include "executor/kernels/layout.h"
#include "executor/kernels/linear/lapack.h"

typedef double complex number;

typedef struct eig_state {
    int64_t count; /* of the batch */
    int n;
} eig_state;

static weft_dtype complex_of(weft_dtype dtype) {
    return dtype == WEFT_FP64 ? WEFT_COMPLEX128 : WEFT_COMPLEX64;
}

static weft_status require_complex(const kernel_prepare *p, weft_dtype of, const tensor *t, int64_t numel,
                                   const char *what) {
    if (!t) return NULL;
    if (t->dtype != complex_of(of))
        return kernel_unsupported(p, "%s: expected %s, found %s", what, dtype_text(complex_of(of)),
                                  dtype_text(t->dtype));
    return require_numel(p, t, numel, what);
}

static weft_status prepare_square(kernel_prepare *p, const tensor *x, size_t numbers) {
#if !WEFT_HAVE_LAPACK
    return kernel_unsupported(p, "expected a build with LAPACK (liblapack-dev)");
#endif
    eig_state *s = KERNEL_STATE(p, eig_state);
    if (!s) return base_out_of_memory();
    if (x->ndim < 2 || x->dims[x->ndim - 1] != x->dims[x->ndim - 2] || x->dims[x->ndim - 1] > INT16_MAX)
        return kernel_unsupported(p, "expected square matrices of at most %d rows", INT16_MAX);
    s->n = (int)x->dims[x->ndim - 1];
    s->count = s->n ? x->numel / ((int64_t)s->n * s->n) : 0;
    size_t n = (size_t)s->n;
    p->workspace_nbytes = numbers * n * n * sizeof(number) + (32 * n + 32) * sizeof(number);
    return NULL;
}

static void set_number(tensor *t, int64_t i, number value) {
    if (t->dtype == WEFT_COMPLEX128)
        ((number *)t->data)[i] = value;
    else
        ((float complex *)t->data)[i] = (float complex)value;
}

/* --- eig, eigvals: in the precision of the matrix, on which their order depends ----------------------------------- */

/* Reals of one matrix, in X's type. Of a pair of values the vectors stand as real and imaginary part. */
typedef struct reals {
    bool is_single;
    void *a, *re, *im, *v, *work; /* a (lost) and v by columns */
} reals;

static double real_at(const reals *r, const void *of, int64_t i) {
    return r->is_single ? (double)((const float *)of)[i] : ((const double *)of)[i];
}

static int decompose(int n, bool vectors, const reals *r) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    int one = 1, room = 16 * n + 16, rows = vectors ? n : 1;
    const char *job = vectors ? "V" : "N";
    if (r->is_single)
        sgeev_("N", job, &n, r->a, &n, r->re, r->im, NULL, &one, r->v, &rows, r->work, &room, &info, 1, 1);
    else
        dgeev_("N", job, &n, r->a, &n, r->re, r->im, NULL, &one, r->v, &rows, r->work, &room, &info, 1, 1);
#else
    (void)n, (void)vectors, (void)r;
#endif
    return info;
}

static weft_status prepare_eig(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(require_real(p, x, "X"));
    TRY(prepare_square(p, x, 1));
    const eig_state *s = p->state;
    TRY(require_present(p, type_out(p, 0), "the eigenvalues"));
    TRY(require_complex(p, x->dtype, type_out(p, 0), s->count * s->n, "the eigenvalues"));
    if (p->schema->noutputs == 1) return NULL;
    TRY(require_present(p, type_out(p, 1), "Eigenvectors"));
    return require_complex(p, x->dtype, type_out(p, 1), x->numel, "Eigenvectors");
}

static void store_vectors(const reals *r, int64_t n, int64_t k, tensor *out) {
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) {
            double im = real_at(r, r->im, j), value = real_at(r, r->v, (j - (im < 0)) * n + i);
            if (im > 0) set_number(out, (k * n + i) * n + j, value + I * real_at(r, r->v, (j + 1) * n + i));
            if (im < 0) set_number(out, (k * n + i) * n + j, value - I * real_at(r, r->v, j * n + i));
            if (!(im > 0 || im < 0)) set_number(out, (k * n + i) * n + j, value);
        }
}

/* LAPACK may end the process where it finds NaN: it is not asked. */
static bool all_finite(const tensor *t, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++)
        if (!isfinite(tensor_real(t, i))) return false;
    return true;
}

static weft_status run_eig(const kernel_call *c) {
    const eig_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *vectors = c->schema->noutputs > 1 ? arg_out(c, 1) : NULL;
    int64_t n = s->n, size = n * n;
    double *room = c->workspace;
    reals r = {x->dtype == WEFT_FP32, room, room + 2 * size, room + 2 * size + n, room + size, room + 2 * size + 2 * n};
    tensor a = {.data = r.a, .dtype = x->dtype};
    for (int64_t k = 0; k < s->count; k++) {
        for (int64_t i = 0; i < size; i++) /* eigvals takes the transpose, as Paddle does: its values are the same */
            tensor_set_real(&a, vectors ? i % n * n + i / n : i, tensor_real(x, k * size + i));
        if (!all_finite(x, k * size, size)) {
            for (int64_t i = 0; i < n; i++) set_number(arg_out(c, 0), k * n + i, NAN);
            for (int64_t i = 0; vectors && i < size; i++) set_number(vectors, k * size + i, NAN);
            continue;
        }
        if (decompose(s->n, vectors != NULL, &r))
            return kernel_failed(c, "LAPACK found no eigenvalues of matrix %lld of the batch", (long long)k);
        for (int64_t i = 0; i < n; i++)
            set_number(arg_out(c, 0), k * n + i, real_at(&r, r.re, i) + I * real_at(&r, r.im, i));
        if (vectors) store_vectors(&r, n, k, vectors);
    }
    return NULL;
}

const kernel kernel_eig = {prepare_eig, run_eig};

/* --- eig_grad ----------------------------------------------------------------------------------------------------- */

enum { GRAD_VALUES, GRAD_VECTORS, GRAD_VALUES_DOWN, GRAD_VECTORS_DOWN };

static weft_status prepare_eig_grad(kernel_prepare *p) {
    const tensor *v = type_in(p, GRAD_VECTORS), *dx = type_out(p, 0);
    TRY(require_present(p, v, "Eigenvectors"));
    TRY(require_present(p, dx, "X@GRAD"));
    TRY(require_real(p, dx, "X@GRAD"));
    TRY(require_present(p, type_in(p, GRAD_VALUES), "Eigenvalues"));
    TRY(prepare_square(p, v, 4));
    const eig_state *s = p->state;
    for (int i = GRAD_VALUES; i <= GRAD_VECTORS_DOWN; i++)
        TRY(require_complex(p, dx->dtype, type_in(p, i),
                            i == GRAD_VECTORS || i == GRAD_VECTORS_DOWN ? v->numel : s->count * s->n,
                            p->schema->inputs[i].name));
    return require_numel(p, dx, v->numel, "X@GRAD");
}

/* out = op(a) b, by rows; ah: the conjugate transpose of a. */
static void multiply(int64_t n, bool ah, const number *a, const number *b, number *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            number sum = 0;
            for (int64_t q = 0; q < n; q++) sum += (ah ? conj(a[q * n + i]) : a[i * n + q]) * b[q * n + j];
            out[i * n + j] = sum;
        }
}

/* b becomes a^-1 b, both by columns; a is lost. */
static int divide(int n, number *a, int *pivots, number *b) {
    int info = 1;
#if WEFT_HAVE_LAPACK
    zgesv_(&n, &n, a, &n, pivots, b, &n, &info);
#else
    (void)n, (void)a, (void)pivots, (void)b;
#endif
    return info;
}

/* In `inner`: diag(dw) + (Q - V^H V diag(re Q)) / E. */
static void inner_slopes(const kernel_call *c, int64_t k, const number *v, number *g, number *inner) {
    const tensor *w = arg_in(c, GRAD_VALUES), *dw = arg_in(c, GRAD_VALUES_DOWN), *dv = arg_in(c, GRAD_VECTORS_DOWN);
    int64_t n = ((const eig_state *)c->state)->n;
    for (int64_t i = 0; i < n * n; i++) inner[i] = dv ? tensor_complex(dv, k * n * n + i) : 0;
    multiply(n, true, v, inner, g);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            number gram = 0, apart = tensor_complex(w, k * n + j) - tensor_complex(w, k * n + i);
            for (int64_t q = 0; dv && q < n; q++) gram += conj(v[q * n + i]) * v[q * n + j];
            if (i == j)
                inner[i * n + j] = dw ? tensor_complex(dw, k * n + i) : 0;
            else
                inner[i * n + j] = dv ? (g[i * n + j] - gram * creal(g[j * n + j])) / conj(apart) : 0;
        }
}

static weft_status run_eig_grad(const kernel_call *c) {
    const eig_state *s = c->state;
    int64_t n = s->n, size = n * n;
    number *v = c->workspace, *g = v + size, *inner = g + size, *left = inner + size;
    int *pivots = (int *)(void *)(left + size);
    for (int64_t k = 0; k < s->count; k++) {
        for (int64_t i = 0; i < size; i++) v[i] = tensor_complex(arg_in(c, GRAD_VECTORS), k * size + i);
        inner_slopes(c, k, v, g, inner);
        /* inner V^H, by columns in g; V^H by columns is the conjugate of v by rows */
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                number sum = 0;
                for (int64_t q = 0; q < n; q++) sum += inner[i * n + q] * conj(v[j * n + q]);
                g[j * n + i] = sum;
            }
        for (int64_t i = 0; i < size; i++) left[i] = conj(v[i]);
        if (divide(s->n, left, pivots, g)) return kernel_failed(c, "Eigenvectors: a matrix of them is singular");
        for (int64_t i = 0; i < size; i++) tensor_set_real(arg_out(c, 0), k * size + i, creal(g[i % n * n + i / n]));
    }
    return NULL;
}

const kernel kernel_eig_grad = {prepare_eig_grad, run_eig_grad};
