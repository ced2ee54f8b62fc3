/* aten_addmm.c: beta * self + alpha * (mat1 mat2). The product adds to self inside of the accumulator, as BLAS does;
 * half types are computed in fp32 and rounded once (half_adaptor.c), where a product and a sum would round twice. */
#include "executor/kernels/layout.h"

enum { IN_SELF, IN_MAT1, IN_MAT2, OUT = 0 };

typedef struct addmm_state {
    int64_t m, n, k;
    double beta, alpha;
    loops loops; /* over the output; operands: the output, self */
} addmm_state;

static weft_status prepare(kernel_prepare *p) {
    addmm_state *s = KERNEL_STATE(p, addmm_state);
    if (!s) return base_out_of_memory();
    const tensor *self = type_in(p, IN_SELF), *a = type_in(p, IN_MAT1), *b = type_in(p, IN_MAT2);
    const tensor *out = type_out(p, OUT);
    TRY(require_real(p, a, "mat1"));
    TRY(require_present(p, self, "self"));
    TRY(require_present(p, b, "mat2"));
    TRY(require_same_dtype(p, a, b, "mat2"));
    TRY(require_same_dtype(p, a, self, "self"));
    TRY(require_same_dtype(p, a, out, "out"));
    if (a->ndim != 2 || b->ndim != 2 || a->dims[1] != b->dims[0])
        return kernel_unsupported(p, "expected matrices whose product exists");
    *s = (addmm_state){.m = a->dims[0], .n = b->dims[1], .k = a->dims[1]};
    s->beta = attr_float(p->op, "beta", 1);
    s->alpha = attr_float(p->op, "alpha", 1);
    const int64_t dims[] = {s->m, s->n};
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_numel(p, out, s->m * s->n, "out"));
    if (self->ndim > 2 || !strides_broadcast(self, -1, 2, dims, strides[1]))
        return kernel_unsupported(p, "expected self that broadcasts to [%lld, %lld]", (long long)s->m, (long long)s->n);
    strides_dense(2, dims, strides[0]);
    loops_init(&s->loops, 2, dims, 2, strides);
    return NULL;
}

/* self is not read where beta is 0. */
static weft_status run(const kernel_call *c) {
    const addmm_state *s = c->state;
    const tensor *self = arg_in(c, IN_SELF), *a = arg_in(c, IN_MAT1), *b = arg_in(c, IN_MAT2);
    tensor *out = arg_out(c, OUT);
    if (!out->numel) return NULL;
    if (s->beta != 0) copy_loops(&s->loops, weft_dtype_nbytes(out->dtype), out->data, self->data);
    if (a->dtype == WEFT_FP64)
        gemm_f64(false, false, s->m, s->n, s->k, s->alpha, a->data, s->k, b->data, s->n, s->beta, out->data, s->n);
    else
        gemm_f32(c, false, false, s->m, s->n, s->k, (float)s->alpha, a->data, s->k, b->data, s->n, (float)s->beta,
                 out->data, s->n);
    return NULL;
}

const kernel kernel_aten_addmm = {prepare, run};

/* --- baddbmm: the same of each pair in two batches -----------------------------------------------------------------
 */

typedef struct baddbmm_state {
    addmm_state one;
    int64_t batch;
} baddbmm_state;

static weft_status prepare_batch(kernel_prepare *p) {
    baddbmm_state *s = KERNEL_STATE(p, baddbmm_state);
    if (!s) return base_out_of_memory();
    const tensor *self = type_in(p, IN_SELF), *a = type_in(p, IN_MAT1), *b = type_in(p, IN_MAT2);
    const tensor *out = type_out(p, OUT);
    TRY(require_real(p, a, "batch1"));
    TRY(require_present(p, self, "self"));
    TRY(require_present(p, b, "batch2"));
    TRY(require_same_dtype(p, a, b, "batch2"));
    TRY(require_same_dtype(p, a, self, "self"));
    TRY(require_same_dtype(p, a, out, "out"));
    if (a->ndim != 3 || b->ndim != 3 || a->dims[2] != b->dims[1] || a->dims[0] != b->dims[0])
        return kernel_unsupported(p, "expected batches of matrices whose products exist");
    s->one = (addmm_state){.m = a->dims[1], .n = b->dims[2], .k = a->dims[2]};
    s->one.beta = attr_float(p->op, "beta", 1);
    s->one.alpha = attr_float(p->op, "alpha", 1);
    s->batch = a->dims[0];
    const int64_t dims[] = {s->batch, s->one.m, s->one.n};
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_numel(p, out, s->batch * s->one.m * s->one.n, "out"));
    if (self->ndim > 3 || !strides_broadcast(self, -1, 3, dims, strides[1]))
        return kernel_unsupported(p, "expected self that broadcasts to the products");
    strides_dense(3, dims, strides[0]);
    loops_init(&s->one.loops, 3, dims, 2, strides);
    return NULL;
}

static weft_status run_batch(const kernel_call *c) {
    const baddbmm_state *s = c->state;
    const addmm_state *o = &s->one;
    const tensor *self = arg_in(c, IN_SELF), *a = arg_in(c, IN_MAT1), *b = arg_in(c, IN_MAT2);
    tensor *out = arg_out(c, OUT);
    if (!out->numel) return NULL;
    if (o->beta != 0) copy_loops(&o->loops, weft_dtype_nbytes(out->dtype), out->data, self->data);
    for (int64_t i = 0; i < s->batch; i++) {
        int64_t at_a = i * o->m * o->k, at_b = i * o->k * o->n, at = i * o->m * o->n;
        if (a->dtype == WEFT_FP64)
            gemm_f64(false, false, o->m, o->n, o->k, o->alpha, (const double *)a->data + at_a, o->k,
                     (const double *)b->data + at_b, o->n, o->beta, (double *)out->data + at, o->n);
        else
            gemm_f32(c, false, false, o->m, o->n, o->k, (float)o->alpha, (const float *)a->data + at_a, o->k,
                     (const float *)b->data + at_b, o->n, (float)o->beta, (float *)out->data + at, o->n);
    }
    return NULL;
}

const kernel kernel_aten_baddbmm = {prepare_batch, run_batch};
