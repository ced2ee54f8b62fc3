/* tril_triu.c: the lower or upper triangle of the last two dimensions: each row keeps a prefix or a suffix. */
#include "executor/kernels/layout.h"

enum { IN_X = 0, OUT = 0 };

typedef struct triangle_state {
    int64_t nrows, ncolumns, diagonal;
    bool lower;
} triangle_state;

static weft_status prepare(kernel_prepare *p) {
    triangle_state *s = KERNEL_STATE(p, triangle_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *y = type_out(p, OUT);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, y, x->numel, "Out"));
    TRY(require_same_dtype(p, x, y, "Out"));
    if (x->ndim < 2) return kernel_unsupported(p, "expected at least 2 dimensions, found %d", x->ndim);
    s->nrows = x->dims[x->ndim - 2];
    s->ncolumns = x->dims[x->ndim - 1];
    s->diagonal = attr_int(p->op, "diagonal", 0);
    s->lower = attr_bool(p->op, "lower", true);
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const triangle_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    if (x->numel == 0) return NULL;
    int64_t width = (int64_t)weft_dtype_nbytes(x->dtype), n = s->ncolumns, total = x->numel / n;
    const char *src = x->data;
    char *dst = arg_out(c, OUT)->data;
    for (int64_t r = 0; r < total; r++, src += n * width, dst += n * width) {
        /* Lower keeps columns up to the diagonal, upper those from it on. */
        int64_t edge = r % s->nrows + s->diagonal + (s->lower ? 1 : 0);
        edge = edge < 0 ? 0 : edge > n ? n : edge;
        int64_t first = s->lower ? 0 : edge, end = s->lower ? edge : n;
        memset(dst, 0, (size_t)(first * width));
        copy_bytes(dst + first * width, src + first * width, (size_t)((end - first) * width));
        memset(dst + end * width, 0, (size_t)((n - end) * width));
    }
    return NULL;
}

const kernel kernel_tril_triu = {prepare, run};
const kernel kernel_tril_triu_grad = {prepare, run};
