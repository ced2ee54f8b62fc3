/* aten_border.c: borders of what lies within: mirrored without the edge (reflect), or the edge itself (replicate),
 * around the last dimensions; and their gradients, which add up what came from one element (torch:
 * aten/src/ATen/native/cpu/PaddingKernel.cpp). */
#include "executor/kernels/layout.h"

typedef struct border_state {
    int ndim;
    int64_t before[WEFT_MAX_RANK], inner[WEFT_MAX_RANK], outer[WEFT_MAX_RANK];
    bool reflects;
} border_state;

static weft_status prepare_of(kernel_prepare *p, const tensor *x, const tensor *padded, bool reflects) {
    border_state *s = KERNEL_STATE(p, border_state);
    size_t count;
    const int64_t *pad = attr_ints(p->op, "padding", &count);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "the inner tensor"));
    TRY(require_present(p, padded, "the padded tensor"));
    TRY(require_same_dtype(p, x, padded, "the padded tensor"));
    if (count % 2 || count > 2 * (size_t)x->ndim || padded->ndim != x->ndim)
        return kernel_unsupported(p, "padding: expected two numbers for each of the last dimensions");
    s->ndim = x->ndim;
    s->reflects = reflects;
    for (int d = 0; d < x->ndim; d++) {
        size_t at = 2 * (size_t)(x->ndim - 1 - d);
        int64_t before = at < count ? pad[at] : 0, after = at < count ? pad[at + 1] : 0, n = x->dims[d];
        if (padded->dims[d] != n + before + after) return kernel_unsupported(p, "expected the padded extents");
        if (reflects && (before >= n || after >= n) && (before > 0 || after > 0))
            return kernel_unsupported(p, "padding: expected less than the extent %lld", (long long)n);
        if (n < 1 && padded->dims[d] > 0) return kernel_unsupported(p, "expected an extent that is not 0");
        s->before[d] = before;
        s->inner[d] = n;
        s->outer[d] = padded->dims[d];
    }
    return NULL;
}

/* The element of the inner tensor that element `at` of the padded one is. */
static int64_t source_of(const border_state *s, int64_t at) {
    int64_t index[WEFT_MAX_RANK], source = 0;
    for (int d = s->ndim - 1; d >= 0; d--) {
        index[d] = at % s->outer[d];
        at /= s->outer[d];
    }
    for (int d = 0; d < s->ndim; d++) {
        int64_t i = index[d] - s->before[d], last = s->inner[d] - 1;
        if (i < 0) i = s->reflects ? -i : 0;
        if (i > last) i = s->reflects ? 2 * last - i : last;
        source = source * s->inner[d] + i;
    }
    return source;
}

static weft_status run_forward(const kernel_call *c) {
    tensor *out = arg_out(c, 0);
    for (int64_t i = 0; i < out->numel; i++) tensor_set_real(out, i, tensor_real(arg_in(c, 0), source_of(c->state, i)));
    return NULL;
}

static weft_status run_backward(const kernel_call *c) {
    const tensor *grad = arg_in(c, 0);
    tensor_clear(arg_out(c, 0));
    for (int64_t i = 0; i < grad->numel; i++)
        tensor_add_real(arg_out(c, 0), source_of(c->state, i), tensor_real(grad, i));
    return NULL;
}

#define DEFINE_BORDER(name, reflects)                                                                                  \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_of(p, type_in(p, 0), type_out(p, 0), reflects);                                                 \
    }                                                                                                                  \
    static weft_status prepare_##name##_backward(kernel_prepare *p) {                                                  \
        return prepare_of(p, type_out(p, 0), type_in(p, 0), reflects);                                                 \
    }                                                                                                                  \
    const kernel kernel_aten_##name = {prepare_##name, run_forward};                                                   \
    const kernel kernel_aten_##name##_backward = {prepare_##name##_backward, run_backward};
DEFINE_BORDER(reflection_pad, true)
DEFINE_BORDER(replication_pad, false)
