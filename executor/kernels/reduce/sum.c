/* sum.c: the sum of a list of tensors, dense or by rows.
 *
 * Arguments are added in their order. Rows alone: their values one after another, with their row indices, as in Paddle
 * (equal indices stay apart). Rows among dense arguments are added into the dense result. */
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"

static bool is_rows(const tensor *t) {
    return t->height >= 0;
}

/* --- adding n elements -------------------------------------------------------------------------------------------- */

#define DEFINE_ADD(dtype, suffix, type)                                                                                \
    static void add_##suffix(int64_t n, const type *a, const type *b, type *out) {                                     \
        INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = a[i] + b[i];                                              \
    }
REAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD
#define DEFINE_ADD(dtype, suffix, type)                                                                                \
    static void add_##suffix(int64_t n, const type *a, const type *b, type *out) {                                     \
        INDEPENDENT for (int64_t i = 0; i < n; i++) out[i] = (type)((uint64_t)a[i] + (uint64_t)b[i]);                  \
    }
WIDE_INT_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

/* out = a + b for types that need no rounding in between. */
static void add_elements(weft_dtype dtype, int64_t n, const void *a, const void *b, void *out) {
    switch ((int)dtype) {
#define CASE(dt, suffix, type)                                                                                         \
    case dt: add_##suffix(n, a, b, out); break;
        REAL_TYPES(CASE)
        WIDE_INT_TYPES(CASE)
#undef CASE
    default: { /* half types: one row of another tensor */
        float x[BLOCK], y[BLOCK];
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t part = block_size(n - i);
            half_load(dtype, part, (const uint16_t *)a + i, 1, x);
            half_load(dtype, part, (const uint16_t *)b + i, 1, y);
            add_fp32(part, x, y, x);
            half_store(dtype, part, x, (uint16_t *)out + i);
        }
    }
    }
}

/* --- dense -------------------------------------------------------------------------------------------------------- */

/* One block of all arguments, in order. Every argument's block is read before the result's is written, because the
 * result may be any of them. */
static void sum_block(const kernel_call *c, const tensor *out, int64_t at, int64_t n) {
    _Alignas(64) char total[BLOCK * sizeof(double)]; /* large enough for any type */
    float values[BLOCK];
    size_t size = weft_dtype_nbytes(out->dtype), offset = (size_t)at * size;
    bool half = dtype_is_half(out->dtype), first = true;
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        const tensor *x = &c->in[k];
        if (is_rows(x)) continue;
        const void *from = (const char *)x->data + offset;
        if (half) half_load(out->dtype, n, from, 1, first ? (float *)(void *)total : values);
        if (first && !half) memcpy(total, from, (size_t)n * size);
        if (!first) add_elements(half ? WEFT_FP32 : out->dtype, n, total, half ? values : from, total);
        first = false;
    }
    if (first) memset(total, 0, sizeof total);
    if (half) {
        half_store(out->dtype, n, (const float *)(const void *)total, (char *)out->data + offset);
    } else {
        memcpy((char *)out->data + offset, total, (size_t)n * size);
    }
}

/* Elements [at, at + n) of a sum without rows. */
static void sum_elements(const kernel_call *c, const tensor *out, int64_t at, int64_t n) {
    size_t offset = (size_t)at * weft_dtype_nbytes(out->dtype);
    if (c->in_first[1] == 2 && !is_rows(&c->in[0]) && !is_rows(&c->in[1])) {
        add_elements(out->dtype, n, (const char *)c->in[0].data + offset, (const char *)c->in[1].data + offset,
                     (char *)out->data + offset);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) sum_block(c, out, at + i, block_size(n - i));
}

static void dense_rows(const kernel_call *c, int64_t first, int64_t end) {
    const tensor *out = arg_out(c, 0);
    element_range e = elements_of(c, out->numel, first, end);
    sum_elements(c, out, e.at, e.n);
}

static void add_rows(const tensor *x, const tensor *out) {
    int64_t width = x->dims[0] ? x->numel / x->dims[0] : 0;
    size_t row = (size_t)width * weft_dtype_nbytes(x->dtype);
    for (int64_t i = 0; i < x->dims[0]; i++) {
        char *to = (char *)out->data + (size_t)x->rows[i] * row;
        add_elements(x->dtype, width, to, (const char *)x->data + (size_t)i * row, to);
    }
}

static weft_status check_rows(const kernel_call *c, const tensor *x, const tensor *out) {
    int64_t width = x->dims[0] ? x->numel / x->dims[0] : 0;
    for (int64_t i = 0; i < x->dims[0]; i++)
        if (x->rows[i] < 0 || (x->rows[i] + 1) * width > out->numel)
            return kernel_failed(c, "expected row indices inside of the tensor, found %lld", (long long)x->rows[i]);
    return NULL;
}

static weft_status run_dense(const kernel_call *c, const tensor *out) {
    if (c->split.rows) return kernel_run_rows(c);
    sum_elements(c, out, 0, out->numel);
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        if (!is_rows(&c->in[k])) continue;
        TRY(check_rows(c, &c->in[k], out));
        add_rows(&c->in[k], out);
    }
    return NULL;
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

static weft_status run_rows(const kernel_call *c, const tensor *out) {
    int64_t row = 0;
    char *to = out->data;
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        const tensor *x = &c->in[k];
        copy_bytes(to, x->data, tensor_nbytes(x));
        copy_bytes(out->rows + row, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
        to += tensor_nbytes(x);
        row += x->dims[0];
    }
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    return is_rows(out) ? run_rows(c, out) : run_dense(c, out);
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

static weft_status prepare(kernel_prepare *p) {
    const tensor *out = type_out(p, 0);
    size_t n = p->in_first[1];
    if (n == 0) return kernel_unsupported(p, "expected an argument to sum, found none");
    int64_t rows = 0;
    bool dense = !is_rows(out);
    for (size_t i = 0; i < n; i++) {
        const tensor *x = &p->in[i];
        TRY(require_same_dtype(p, out, x, "argument"));
        if (is_rows(out) && !is_rows(x)) return kernel_unsupported(p, "expected rows alone, found a dense argument");
        if (!is_rows(out) && !is_rows(x) && x->numel != out->numel)
            return kernel_unsupported(p, "expected arguments of %lld elements, found %lld", (long long)out->numel,
                                      (long long)x->numel);
        rows += is_rows(x) ? x->dims[0] : 0;
        dense &= !is_rows(x);
    }
    if (is_rows(out) && rows != out->dims[0])
        return kernel_unsupported(p, "expected %lld rows, found %lld", (long long)out->dims[0], (long long)rows);
    if (dense) split_elements(p, dense_rows, out->numel);
    switch ((int)out->dtype) {
    case WEFT_FP32:
    case WEFT_FP64:
    case WEFT_FP16:
    case WEFT_BF16:
    case WEFT_INT32:
    case WEFT_INT64: return NULL;
    default: return kernel_unsupported(p, "no sum of %s", dtype_text(out->dtype));
    }
}

const kernel kernel_sum = {prepare, run};
