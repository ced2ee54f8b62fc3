/* transpose.c: dimensions in another order.
 *
 * Merged dimensions leave three cases: one run (nothing moves), an inner dimension that is contiguous on both sides
 * (runs are copied: the split of attention heads), and a true transposition: tiles of TILE x TILE elements, so that
 * both sides are read and written in whole cache lines. */
#include "executor/kernels/layout.h"

enum { IN_X = 0, GRAD_IN_OUT_GRAD = 1, OUT = 0 };
enum { TILE = 16 };

typedef struct transpose_state {
    loops outer;   /* all dimensions, or all but those of the tiles */
    size_t nbytes; /* of an element */
    bool tiled;
    int64_t nrows, ncolumns;        /* of the matrix written: rows dst_stride apart, columns contiguous */
    int64_t dst_stride, src_stride; /* src: rows contiguous, columns src_stride apart */
} transpose_state;

/* Takes the dimensions that are contiguous in dst (the last) and in src out of `outer`; false if there are no two. */
static bool take_tile(transpose_state *s) {
    loops *l = &s->outer;
    int last = l->naxes - 1, row = -1;
    for (int i = 0; i < last; i++)
        if (l->stride[1][i] == 1) row = i;
    if (row < 0 || l->stride[0][last] != 1) return false;
    s->ncolumns = l->extent[last];
    s->src_stride = l->stride[1][last];
    s->nrows = l->extent[row];
    s->dst_stride = l->stride[0][row];
    int64_t dims[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int n = 0;
    for (int i = 0; i < last; i++) {
        if (i == row) continue;
        dims[n] = l->extent[i];
        strides[0][n] = l->stride[0][i];
        strides[1][n] = l->stride[1][i];
        n++;
    }
    int64_t numel = l->numel;
    loops_init(l, n, dims, 2, strides);
    return numel > 0;
}

static weft_status prepare_permutation(kernel_prepare *p, const tensor *x, const tensor *y, bool inverse) {
    transpose_state *s = KERNEL_STATE(p, transpose_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "input"));
    TRY(require_numel(p, y, x->numel, "output"));
    TRY(require_same_dtype(p, x, y, "output"));
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, "axis", &naxes);
    if (naxes != (size_t)x->ndim)
        return kernel_unsupported(p, "expected %d entries in axis, found %zu", x->ndim, naxes);
    int64_t dims[WEFT_MAX_RANK], dense[WEFT_MAX_RANK], strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    bool seen[WEFT_MAX_RANK] = {false};
    strides_dense(x->ndim, x->dims, dense);
    for (int i = 0; i < x->ndim; i++) {
        int from = axis_of(x, axes[i]);
        if (from < 0 || seen[from]) return kernel_unsupported(p, "expected a permutation in axis, entry %d is not", i);
        seen[from] = true;
        int to = inverse ? from : i, of = inverse ? i : from;
        dims[to] = x->dims[of];
        strides[1][to] = dense[of];
    }
    strides_dense(x->ndim, dims, strides[0]);
    loops_init(&s->outer, x->ndim, dims, 2, strides);
    s->nbytes = weft_dtype_nbytes(x->dtype);
    s->tiled = loops_stride(&s->outer, 1) != 1 && take_tile(s);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_permutation(p, type_in(p, IN_X), type_out(p, OUT), false);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_permutation(p, type_in(p, GRAD_IN_OUT_GRAD), type_out(p, OUT), true);
}

#define DEFINE_MATRIX(type)                                                                                            \
    static void matrix_##type(const transpose_state *s, void *dst, const void *src) {                                  \
        type *d = dst;                                                                                                 \
        const type *x = src;                                                                                           \
        for (int64_t r = 0; r < s->nrows; r += TILE)                                                                   \
            for (int64_t k = 0; k < s->ncolumns; k += TILE) {                                                          \
                int64_t row_end = r + TILE < s->nrows ? r + TILE : s->nrows;                                           \
                int64_t column_end = k + TILE < s->ncolumns ? k + TILE : s->ncolumns;                                  \
                for (int64_t i = r; i < row_end; i++)                                                                  \
                    INDEPENDENT for (int64_t j = k; j < column_end; j++) d[i * s->dst_stride + j] =                    \
                        x[j * s->src_stride + i];                                                                      \
            }                                                                                                          \
    }
DEFINE_MATRIX(uint8_t)
DEFINE_MATRIX(uint16_t)
DEFINE_MATRIX(uint32_t)
DEFINE_MATRIX(uint64_t)
#undef DEFINE_MATRIX

static void matrix_bytes(const transpose_state *s, char *dst, const char *src) {
    int64_t n = (int64_t)s->nbytes;
    for (int64_t i = 0; i < s->nrows; i++)
        for (int64_t j = 0; j < s->ncolumns; j++)
            memcpy(dst + (i * s->dst_stride + j) * n, src + (j * s->src_stride + i) * n, s->nbytes);
}

static void transpose_tiled(const transpose_state *s, char *dst, const char *src) {
    int64_t nbytes = (int64_t)s->nbytes, n = loops_run(&s->outer);
    for (walk w = walk_start(&s->outer); w.left; walk_next(&s->outer, &w))
        for (int64_t i = 0; i < n; i++) {
            char *d = dst + (w.at[0] + i * loops_stride(&s->outer, 0)) * nbytes;
            const char *x = src + (w.at[1] + i * loops_stride(&s->outer, 1)) * nbytes;
            switch (nbytes) {
            case 1: matrix_uint8_t(s, d, x); break;
            case 2: matrix_uint16_t(s, d, x); break;
            case 4: matrix_uint32_t(s, d, x); break;
            case 8: matrix_uint64_t(s, d, x); break;
            default: matrix_bytes(s, d, x);
            }
        }
}

/* Indices [first, end) of the outermost axis, which is as good as any to share among threads. */
typedef struct transpose_job {
    const transpose_state *s;
    char *dst;
    const char *src;
} transpose_job;

static void transpose_part(void *arg, int64_t first, int64_t end, int part) {
    const transpose_job *job = arg;
    transpose_state s = *job->s;
    char *dst = job->dst + first * s.outer.stride[0][0] * (int64_t)s.nbytes;
    const char *src = job->src + first * s.outer.stride[1][0] * (int64_t)s.nbytes;
    s.outer.extent[0] = end - first;
    (void)part;
    if (s.tiled)
        transpose_tiled(&s, dst, src);
    else
        copy_loops(&s.outer, s.nbytes, dst, src);
}

static void transpose(const kernel_call *c, const tensor *x, const tensor *y) {
    const transpose_state *s = c->state;
    transpose_job job = {s, y->data, x->data};
    if (x->numel == 0) return;
    int64_t outer = s->outer.extent[0];
    parallel_for(c, outer, grain_of_bytes(2 * (int64_t)tensor_nbytes(x) / outer), transpose_part, &job);
}

static weft_status run(const kernel_call *c) {
    transpose(c, arg_in(c, IN_X), arg_out(c, OUT));
    return NULL;
}
static weft_status run_grad(const kernel_call *c) {
    transpose(c, arg_in(c, GRAD_IN_OUT_GRAD), arg_out(c, OUT));
    return NULL;
}

const kernel kernel_transpose2 = {prepare, run};
const kernel kernel_transpose2_grad = {prepare_grad, run_grad};
