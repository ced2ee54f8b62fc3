/* attention.c: scaled dot-product attention and its gradients, a head at a time (torch:
 * aten/src/ATen/native/cpu/FlashAttentionKernel.cpp; Dao et al., FlashAttention-2, for the gradients).
 *
 *   S = scale Q K^T + mask,   out = softmax(S) V,   logsumexp = log of the sum of exp(S) of each row
 *   P = exp(S - logsumexp),   dV = P^T dO,   dS = P (dO V^T - sum(dO out)),   dQ = scale dS K,   dK = scale dS^T Q
 *
 * A row that is masked altogether gives zeros. Several heads of the query may share one of key and value: the
 * gradients of these are sums over them, in order. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_QUERY, IN_KEY, IN_VALUE, IN_MASK, OUT = 0, OUT_LOGSUMEXP };
enum { GRAD_IN_GRAD, GRAD_IN_QUERY, GRAD_IN_KEY, GRAD_IN_VALUE, GRAD_IN_OUT, GRAD_IN_LOGSUMEXP, GRAD_IN_MASK };
enum { OUT_QUERY_GRAD, OUT_KEY_GRAD, OUT_VALUE_GRAD };

/* [batch, heads, rows, width] of the query, [batch, groups, keys, width] of key and value. */
typedef struct attention_state {
    int64_t batch, heads, groups, rows, keys, width, value_width;
    int64_t mask_stride[4]; /* of batch, head, row, key; 0 where the mask is broadcast */
    bool is_causal;
    double scale;
    size_t part_nbytes; /* of the workspace */
} attention_state;

static weft_status read_mask(const kernel_prepare *p, const tensor *mask, attention_state *s) {
    const int64_t dims[] = {s->batch, s->heads, s->rows, s->keys};
    if (!mask) return NULL;
    TRY(require_real(p, mask, "attn_mask"));
    if (mask->ndim > 4 || !strides_broadcast(mask, -1, 4, dims, s->mask_stride))
        return kernel_unsupported(p, "expected an attn_mask that broadcasts to [%lld, %lld, %lld, %lld]",
                                  (long long)s->batch, (long long)s->heads, (long long)s->rows, (long long)s->keys);
    return NULL;
}

static weft_status prepare_common(kernel_prepare *p, const tensor *q, const tensor *k, const tensor *v,
                                  const tensor *mask, int nblocks) {
    attention_state *s = KERNEL_STATE(p, attention_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, q, "query"));
    TRY(require_present(p, k, "key"));
    TRY(require_present(p, v, "value"));
    TRY(require_same_dtype(p, q, k, "key"));
    TRY(require_same_dtype(p, q, v, "value"));
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return kernel_unsupported(p, "expected query, key and value of 4 dimensions");
    *s = (attention_state){.batch = q->dims[0], .heads = q->dims[1], .groups = k->dims[1], .rows = q->dims[2]};
    s->keys = k->dims[2];
    s->width = q->dims[3];
    s->value_width = v->dims[3];
    if (k->dims[0] != s->batch || v->dims[0] != s->batch || v->dims[1] != s->groups || v->dims[2] != s->keys ||
        k->dims[3] != s->width || s->groups < 1 || s->heads % s->groups)
        return kernel_unsupported(p, "expected key and value of the query's batch, heads and width");
    TRY(read_mask(p, mask, s));
    s->is_causal = attr_bool(p->op, "is_causal", false);
    s->scale = attr_float(p->op, "scale", 0);
    if (s->scale == 0) s->scale = s->width ? 1 / sqrt((double)s->width) : 1;
    s->part_nbytes = ((size_t)nblocks * (size_t)(s->rows * s->keys) * weft_dtype_nbytes(q->dtype) + 63) / 64 * 64;
    p->workspace_nbytes = (size_t)p->nthreads * s->part_nbytes;
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *q = type_in(p, IN_QUERY), *out = type_out(p, OUT), *sums = type_out(p, OUT_LOGSUMEXP);
    TRY(prepare_common(p, q, type_in(p, IN_KEY), type_in(p, IN_VALUE), type_in(p, IN_MASK), 1));
    const attention_state *s = p->state;
    int64_t nrows = s->batch * s->heads * s->rows;
    TRY(require_present(p, out, "output"));
    TRY(require_like(p, q, out, nrows * s->value_width, "output"));
    if (type_in(p, IN_MASK)) TRY(require_same_dtype(p, q, type_in(p, IN_MASK), "attn_mask"));
    return require_like(p, q, sums, nrows, "logsumexp");
}

static weft_status prepare_backward(kernel_prepare *p) {
    const tensor *q = type_in(p, GRAD_IN_QUERY), *k = type_in(p, GRAD_IN_KEY), *v = type_in(p, GRAD_IN_VALUE);
    const tensor *mask = type_in(p, GRAD_IN_MASK);
    TRY(prepare_common(p, q, k, v, mask, 2));
    const attention_state *s = p->state;
    int64_t nrows = s->batch * s->heads * s->rows;
    TRY(require_like(p, q, type_in(p, GRAD_IN_GRAD), nrows * s->value_width, "grad_out"));
    TRY(require_like(p, q, type_in(p, GRAD_IN_OUT), nrows * s->value_width, "out"));
    TRY(require_like(p, q, type_in(p, GRAD_IN_LOGSUMEXP), nrows, "logsumexp"));
    if (mask) TRY(require_same_dtype(p, q, mask, "attn_mask"));
    for (int o = OUT_QUERY_GRAD; o <= OUT_VALUE_GRAD; o++) TRY(require_present(p, type_out(p, o), "a gradient"));
    TRY(require_like(p, q, type_out(p, OUT_QUERY_GRAD), q->numel, "grad_query"));
    TRY(require_like(p, q, type_out(p, OUT_KEY_GRAD), k->numel, "grad_key"));
    return require_like(p, q, type_out(p, OUT_VALUE_GRAD), v->numel, "grad_value");
}

/* How many keys row `row` sees. */
static int64_t seen(const attention_state *s, int64_t row) {
    return s->is_causal && row + 1 < s->keys ? row + 1 : s->keys;
}

static void multiply_fp32(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const float *a, int64_t lda,
                          const float *b, int64_t ldb, bool add, float *c) {
    gemm_f32(NULL, ta, tb, m, n, k, (float)alpha, a, lda, b, ldb, add ? 1 : 0, c, n);
}
static void multiply_fp64(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                          const double *b, int64_t ldb, bool add, double *c) {
    gemm_f64(ta, tb, m, n, k, alpha, a, lda, b, ldb, add ? 1 : 0, c, n);
}

static void *data_of(const tensor *t) {
    return t ? t->data : NULL;
}

#define TEMPLATE "executor/kernels/attention/attention_real.h"
#include "executor/kernels/each_real.h"

static int64_t grain_of(const attention_state *s, int64_t heads) {
    return grain_of_products(heads * s->rows * s->keys * (s->width + s->value_width));
}

static weft_status run(const kernel_call *c) {
    const attention_state *s = c->state;
    bool twice = arg_in(c, IN_QUERY)->dtype == WEFT_FP64;
    parallel_for(c, s->batch * s->heads, grain_of(s, 1), twice ? forward_fp64 : forward_fp32, (void *)(uintptr_t)c);
    return NULL;
}

static weft_status run_backward(const kernel_call *c) {
    const attention_state *s = c->state;
    bool twice = arg_in(c, GRAD_IN_QUERY)->dtype == WEFT_FP64;
    parallel_for(c, s->batch * s->groups, grain_of(s, 2 * s->heads / s->groups), twice ? backward_fp64 : backward_fp32,
                 (void *)(uintptr_t)c);
    return NULL;
}

const kernel kernel_aten_attention = {prepare, run};
const kernel kernel_aten_attention_backward = {prepare_backward, run_backward};
