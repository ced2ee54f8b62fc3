/* index_put.c: slices replaced, or added to, where index tensors say, and gradients.
 *
 * The indices are stretched to one shape; index k counts in dimension k of X. A value is stretched to that shape and
 * the rest of X's dimensions. One boolean tensor stands for the places where it holds. A gradient reaches the value
 * from all places, those too that another value took: Paddle, phi/kernels/cpu/index_put_grad_kernel.cc. */
#include "executor/kernels/layout.h"

enum { IN_X, IN_INDICES, IN_VALUE, IN_OUT_GRAD, OUT = 0, OUT_X_GRAD = 0, OUT_VALUE_GRAD };

typedef struct put_state {
    uint32_t nindices;
    int nplaces, nslice;             /* dimensions of the places and of a slice */
    int64_t dims[2 * WEFT_MAX_RANK]; /* of the places, then of a slice */
    int64_t index_stride[WEFT_MAX_RANK][WEFT_MAX_RANK], value_stride[2 * WEFT_MAX_RANK];
    int64_t extent[WEFT_MAX_RANK], stride[WEFT_MAX_RANK]; /* of X in the dimensions that are indexed */
    int64_t count, slice;                                 /* places; elements of a slice */
    bool adds, masks;
} put_state;

/* Strides with which `t`, aligned at the end, is stretched to `dims`. */
static bool stretch(const tensor *t, int ndim, const int64_t *dims, int64_t *out) {
    int64_t own[WEFT_MAX_RANK];
    if (t->ndim > ndim) return false;
    strides_dense(t->ndim, t->dims, own);
    for (int d = 0; d < ndim; d++) {
        int k = d - (ndim - t->ndim);
        out[d] = k < 0 || t->dims[k] == 1 ? 0 : own[k];
        if (k >= 0 && t->dims[k] != 1 && t->dims[k] != dims[d]) return false;
    }
    return true;
}

static weft_status shape_of_places(kernel_prepare *p, put_state *s, const tensor *indices) {
    for (uint32_t k = 0; k < s->nindices; k++) {
        if (indices[k].dtype != WEFT_INT32 && indices[k].dtype != WEFT_INT64)
            return kernel_unsupported(p, "indices: expected int32 or int64, or one of bool, found %s",
                                      dtype_text(indices[k].dtype));
        if (indices[k].ndim > s->nplaces) s->nplaces = indices[k].ndim;
    }
    for (int d = 0; d < s->nplaces; d++) s->dims[d] = 1;
    for (uint32_t k = 0; k < s->nindices; k++)
        for (int d = 0; d < indices[k].ndim; d++) {
            int64_t *to = &s->dims[s->nplaces - indices[k].ndim + d];
            if (*to == 1) *to = indices[k].dims[d];
        }
    for (uint32_t k = 0; k < s->nindices; k++)
        if (!stretch(&indices[k], s->nplaces, s->dims, s->index_stride[k]))
            return kernel_unsupported(p, "indices: expected shapes that stretch to one");
    s->count = 1;
    for (int d = 0; d < s->nplaces; d++) s->count *= s->dims[d];
    return NULL;
}

static weft_status prepare_common(kernel_prepare *p, const tensor *x, const tensor *value) {
    put_state *s = KERNEL_STATE(p, put_state);
    if (!s) return base_out_of_memory();
    const tensor *indices = &p->in[p->in_first[IN_INDICES]];
    s->nindices = p->in_first[IN_INDICES + 1] - p->in_first[IN_INDICES];
    s->adds = attr_bool(p->op, "accumulate", false);
    TRY(require_present(p, x, "x"));
    TRY(require_present(p, value, "value"));
    TRY(require_same_dtype(p, x, value, "value"));
    if (s->nindices == 0) return kernel_unsupported(p, "expected indices");
    s->masks = s->nindices == 1 && indices->dtype == WEFT_BOOL;
    int indexed = s->masks ? indices->ndim : (int)s->nindices;
    if (indexed > x->ndim || indexed < 1)
        return kernel_unsupported(p, "expected indices of 1 to %d dimensions, found %d", x->ndim, indexed);
    for (int d = 0; s->masks && d < indexed; d++)
        if (indices->dims[d] != x->dims[d]) return kernel_unsupported(p, "expected a mask of the extents of x");
    if (s->masks) {
        s->nplaces = 1;
        s->dims[0] = value->ndim == x->ndim - indexed + 1 ? value->dims[0] : 1;
        s->count = indices->numel;
    } else {
        TRY(shape_of_places(p, s, indices));
    }
    s->slice = 1;
    for (int d = indexed; d < x->ndim; d++) s->slice *= s->dims[s->nplaces + s->nslice++] = x->dims[d];
    int64_t strides[WEFT_MAX_RANK];
    strides_dense(x->ndim, x->dims, strides);
    memcpy(s->extent, x->dims, sizeof s->extent);
    memcpy(s->stride, strides, sizeof s->stride);
    return stretch(value, s->nplaces + s->nslice, s->dims, s->value_stride)
               ? NULL
               : kernel_unsupported(p, "expected a value that stretches to the places and slices");
}

/* Where place `i` begins in X, and its value; *out_x is -1 where a mask says no. `taken` counts a mask's places. */
static weft_status place_at(const kernel_call *c, const put_state *s, int64_t i, int64_t *taken, int64_t *out_x,
                            int64_t *out_value) {
    const tensor *indices = &c->in[c->in_first[IN_INDICES]];
    int64_t rest = i, at[WEFT_MAX_RANK] = {0};
    *out_x = *out_value = 0;
    if (s->masks) {
        *out_x = ((const uint8_t *)indices->data)[i] ? i * s->slice : -1;
        if (*out_x < 0) return NULL;
        *out_value = *taken * s->value_stride[0];
        if (++*taken > s->dims[0] && s->dims[0] != 1)
            return kernel_failed(c, "value: expected a slice for each place of the mask, found %lld",
                                 (long long)s->dims[0]);
        return NULL;
    }
    for (int d = s->nplaces - 1; d >= 0; d--) {
        int64_t own = rest % s->dims[d];
        rest /= s->dims[d];
        *out_value += own * s->value_stride[d];
        for (uint32_t k = 0; k < s->nindices; k++) at[k] += own * s->index_stride[k][d];
    }
    for (uint32_t k = 0; k < s->nindices; k++) {
        int64_t number = tensor_integer(&indices[k], at[k]);
        if (number < 0) number += s->extent[k];
        if (number < 0 || number >= s->extent[k])
            return kernel_failed(c, "indices: expected numbers below %lld, found %lld", (long long)s->extent[k],
                                 (long long)tensor_integer(&indices[k], at[k]));
        *out_x += number * s->stride[k];
    }
    return NULL;
}

/* The value's element of element j of a slice. */
static int64_t value_at(const put_state *s, int64_t j) {
    int64_t at = 0;
    for (int d = s->nplaces + s->nslice - 1; d >= s->nplaces; d--) {
        at += j % s->dims[d] * s->value_stride[d];
        j /= s->dims[d];
    }
    return at;
}

#define DEFINE_PUT(dtype, suffix, type)                                                                                \
    static void put_##suffix(const put_state *s, void *x, int64_t at, const void *value, int64_t from) {               \
        type *to = (type *)x + at;                                                                                     \
        const type *v = (const type *)value + from;                                                                    \
        for (int64_t j = 0; j < s->slice; j++) to[j] = (type)(v[value_at(s, j)] + (s->adds ? to[j] : 0));              \
    }
REAL_TYPES(DEFINE_PUT)
WIDE_INT_TYPES(DEFINE_PUT)
#undef DEFINE_PUT

/* Added to a truth, either holds. */
static void put_bool(const put_state *s, void *x, int64_t at, const void *value, int64_t from) {
    uint8_t *to = (uint8_t *)x + at;
    const uint8_t *v = (const uint8_t *)value + from;
    for (int64_t j = 0; j < s->slice; j++) to[j] = v[value_at(s, j)] || (s->adds && to[j]);
}

typedef void (*put_fn)(const put_state *s, void *x, int64_t at, const void *value, int64_t from);

static put_fn put_of(weft_dtype dtype) {
    switch (dtype) {
    case WEFT_FP32: return put_fp32;
    case WEFT_FP64: return put_fp64;
    case WEFT_INT32: return put_int32;
    case WEFT_INT64: return put_int64;
    case WEFT_BOOL: return put_bool;
    default: return NULL;
    }
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT);
    TRY(prepare_common(p, x, type_in(p, IN_VALUE)));
    TRY(require_present(p, out, "out"));
    TRY(require_like(p, x, out, x->numel, "out"));
    return put_of(x->dtype) ? NULL : kernel_unsupported(p, "x: no kernel for %s", dtype_text(x->dtype));
}

static weft_status run(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *value = arg_in(c, IN_VALUE);
    tensor *out = arg_out(c, OUT);
    put_fn put = put_of(x->dtype);
    int64_t taken = 0, at, from;
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < s->count; i++) {
        TRY(place_at(c, s, i, &taken, &at, &from));
        if (at >= 0) put(s, out->data, at, value->data, from);
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *g = type_in(p, IN_OUT_GRAD);
    TRY(require_real(p, g, "out@GRAD"));
    TRY(prepare_common(p, g, type_in(p, IN_VALUE)));
    TRY(require_like(p, g, type_out(p, OUT_X_GRAD), g->numel, "x@GRAD"));
    return require_like(p, g, type_out(p, OUT_VALUE_GRAD), type_in(p, IN_VALUE)->numel, "value@GRAD");
}

static weft_status run_grad(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *g = arg_in(c, IN_OUT_GRAD);
    tensor *dx = arg_out(c, OUT_X_GRAD), *dv = arg_out(c, OUT_VALUE_GRAD);
    int64_t taken = 0, at, from;
    tensor_clear(dv);
    for (int64_t i = 0; dv && i < s->count; i++) {
        TRY(place_at(c, s, i, &taken, &at, &from));
        for (int64_t j = 0; at >= 0 && j < s->slice; j++) {
            int64_t to = from + value_at(s, j);
            tensor_set_real(dv, to, tensor_real(dv, to) + tensor_real(g, at + j));
        }
    }
    if (!dx) return NULL;
    copy_bytes(dx->data, g->data, tensor_nbytes(g));
    for (int64_t i = taken = 0; !s->adds && i < s->count; i++) {
        TRY(place_at(c, s, i, &taken, &at, &from));
        if (at >= 0 && s->slice)
            memset((char *)dx->data + (size_t)at * weft_dtype_nbytes(g->dtype), 0,
                   (size_t)s->slice * weft_dtype_nbytes(g->dtype));
    }
    return NULL;
}

const kernel kernel_index_put = {prepare, run};
const kernel kernel_index_put_grad = {prepare_grad, run_grad};
