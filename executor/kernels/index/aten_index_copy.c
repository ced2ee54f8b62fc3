/* aten_index_copy.c: self with slices along a dimension replaced, by index: with those of source, or with a number
 * (torch: aten/src/ATen/native/cpu/IndexKernel.cpp). */
#include "executor/kernels/layout.h"

enum { IN_SELF, IN_INDEX, IN_SOURCE };

typedef struct copy_state {
    axis_split split;
    double value; /* where there is no source */
} copy_state;

static weft_status prepare_of(kernel_prepare *p, const tensor *source) {
    copy_state *s = KERNEL_STATE(p, copy_state);
    const tensor *x = type_in(p, IN_SELF), *index = type_in(p, IN_INDEX), *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "self"));
    TRY(require_present(p, index, "index"));
    TRY(require_present(p, out, "out"));
    TRY(require_integers(p, index, "index"));
    TRY(require_same_dtype(p, x, out, "out"));
    TRY(require_numel(p, out, x->numel, "out"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "dim", 0), &s->split));
    s->value = attr_float(p->op, "value", 0);
    if (source) {
        TRY(require_same_dtype(p, x, source, "source"));
        return require_numel(p, source, s->split.outer * index->numel * s->split.inner, "source");
    }
    return cast_exists(WEFT_FP64, out->dtype) ? NULL : kernel_unsupported(p, "no number of %s", dtype_text(out->dtype));
}

static weft_status prepare_fill(kernel_prepare *p) {
    return prepare_of(p, NULL);
}
static weft_status prepare_copy(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_SOURCE), "source"));
    return prepare_of(p, type_in(p, IN_SOURCE));
}

static weft_status put(const kernel_call *c, const tensor *source) {
    const copy_state *s = c->state;
    const tensor *x = arg_in(c, IN_SELF), *index = arg_in(c, IN_INDEX), *out = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t k = 0; k < index->numel; k++) {
        int64_t at = tensor_integer(index, k);
        if (at < 0) at += s->split.extent;
        if (at < 0 || at >= s->split.extent)
            return kernel_failed(c, "expected indices below %lld, found %lld", (long long)s->split.extent,
                                 (long long)tensor_integer(index, k));
        for (int64_t o = 0; o < s->split.outer; o++) {
            char *to = (char *)out->data + (size_t)((o * s->split.extent + at) * s->split.inner) * nbytes;
            const char *from = source ? source->data : NULL;
            if (from)
                memcpy(to, from + (size_t)((o * index->numel + k) * s->split.inner) * nbytes,
                       (size_t)s->split.inner * nbytes);
            else
                fill_elements(out->dtype, to, s->split.inner, s->value);
        }
    }
    return NULL;
}

static weft_status run_fill(const kernel_call *c) {
    return put(c, NULL);
}
static weft_status run_copy(const kernel_call *c) {
    return put(c, arg_in(c, IN_SOURCE));
}

const kernel kernel_aten_index_fill = {prepare_fill, run_fill};
const kernel kernel_aten_index_copy = {prepare_copy, run_copy};
