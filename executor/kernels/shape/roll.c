/* roll.c: elements shifted around along dimensions, or along the flattened tensor where no dimension is named. Each row
 * is copied in the two pieces that its shift cuts it into; the gradient shifts back. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_SHIFTS, IN_OUT_GRAD, OUT = 0 };

typedef struct roll_state {
    int from; /* the input slot that is rolled */
    int sign;
    int ndim;
    int64_t dims[WEFT_MAX_RANK];
    int naxes;
    int axes[WEFT_MAX_RANK];
    int64_t shifts[WEFT_MAX_RANK];
} roll_state;

static weft_status prepare_roll(kernel_prepare *p, int from, int sign) {
    roll_state *s = KERNEL_STATE(p, roll_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, from), *y = type_out(p, OUT);
    size_t naxes, nshifts;
    const int64_t *axes = attr_ints(p->op, "axis", &naxes), *shifts = attr_ints(p->op, "shifts", &nshifts);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, y, x->numel, "Out"));
    TRY(require_same_dtype(p, x, y, "Out"));
    s->from = from;
    s->sign = sign;
    s->ndim = naxes ? x->ndim : 1;
    memcpy(s->dims, x->dims, sizeof s->dims);
    if (naxes == 0) s->dims[0] = x->numel;
    s->naxes = naxes ? (int)naxes : 1;
    if (naxes > WEFT_MAX_RANK || (!type_in(p, IN_SHIFTS) && nshifts != (size_t)s->naxes))
        return kernel_unsupported(p, "expected a shift for each of %d axes, found %zu", s->naxes, nshifts);
    for (int k = 0; k < s->naxes; k++) {
        s->axes[k] = naxes ? axis_of(x, axes[k]) : 0;
        s->shifts[k] = (size_t)k < nshifts ? shifts[k] : 0;
        if (s->axes[k] < 0 || s->ndim == 0)
            return kernel_unsupported(p, "expected axes of %d dimensions, found %lld", x->ndim, (long long)axes[k]);
    }
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_roll(p, IN_X, 1);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_roll(p, IN_OUT_GRAD, -1);
}

/* How far each dimension is shifted, in [0, extent). */
static weft_status settle_shifts(const kernel_call *c, const roll_state *s, int64_t *by) {
    const tensor *t = arg_in(c, IN_SHIFTS);
    if (t && t->numel != s->naxes)
        return kernel_failed(c, "expected %d shifts, found %lld", s->naxes, (long long)t->numel);
    memset(by, 0, WEFT_MAX_RANK * sizeof *by);
    for (int k = 0; k < s->naxes; k++) {
        int d = s->axes[k];
        int64_t shift = s->sign * ((t ? host_integer(c, t, k) : s->shifts[k]) % s->dims[d]);
        by[d] = ((by[d] + shift) % s->dims[d] + s->dims[d]) % s->dims[d];
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const roll_state *s = c->state;
    const tensor *x = arg_in(c, s->from);
    int64_t by[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0}, stride[WEFT_MAX_RANK];
    if (x->numel == 0) return NULL;
    TRY(settle_shifts(c, s, by));
    strides_dense(s->ndim, s->dims, stride);
    int last = s->ndim - 1;
    size_t nbytes = weft_dtype_nbytes(x->dtype), row = (size_t)s->dims[last] * nbytes, cut = (size_t)by[last] * nbytes;
    const char *src = x->data;
    for (int i = 0; i >= 0; src += row) {
        int64_t at = 0;
        for (int d = 0; d < last; d++) at += (index[d] + by[d]) % s->dims[d] * stride[d];
        char *dst = (char *)arg_out(c, OUT)->data + (size_t)at * nbytes;
        memcpy(dst + cut, src, row - cut);
        memcpy(dst, src + row - cut, cut);
        for (i = last - 1; i >= 0 && ++index[i] == s->dims[i]; i--) index[i] = 0;
    }
    return NULL;
}

const kernel kernel_roll = {prepare, run};
const kernel kernel_roll_grad = {prepare_grad, run};
