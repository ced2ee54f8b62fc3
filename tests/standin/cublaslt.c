/* cublaslt.c: the part of cuBLASLt that weft_cuda.so uses: products of matrices by plain loops and fp32 sums, on
 * streams of the stand-in for the CUDA runtime. What it must find in its arguments it checks: sizes that fit, a batch,
 * an algorithm that it gave itself, a workspace. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "executor/devices/cuda/kernels/kernel.h"
#include "tests/standin/queue.h"

enum { ALGORITHM = 4711, WORKSPACE = 4096 };

typedef struct layout {
    uint64_t rows, columns;
    int64_t ld, stride;
    int32_t nbatch, type; /* element_type */
} layout;
_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "fits");

typedef struct desc {
    cublasOperation_t a, b;
    cublasLtEpilogue_t epilogue; /* 0: none */
    void *bias, *aux;
    int64_t aux_ld;
} desc;
_Static_assert(sizeof(desc) <= sizeof(cublasLtMatmulDescOpaque_t), "fits");

typedef struct product {
    layout a, b, d;
    desc desc;
    const char *from_a, *from_b;
    char *to;
    void *workspace;
    float alpha;
} product;

SHOWN cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    static int it;
    if (standin_fails("blas")) return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = (cublasLtHandle_t)(void *)&it;
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, size_t size, cublasComputeType_t compute,
                                                     cudaDataType_t scale) {
    if (standin_fails("blasdescriptor")) return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, size);
    memcpy(out, &(desc){.a = CUBLAS_OP_N, .b = CUBLAS_OP_N}, sizeof(desc));
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t attr,
                                                    const void *value, size_t nbytes) {
    desc d;
    if (standin_fails("blasattr")) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&d, of, sizeof d);
    const struct {
        cublasLtMatmulDescAttributes_t attr;
        void *at;
        size_t nbytes;
    } rows[] = {{CUBLASLT_MATMUL_DESC_TRANSA, &d.a, sizeof d.a},
                {CUBLASLT_MATMUL_DESC_TRANSB, &d.b, sizeof d.b},
                {CUBLASLT_MATMUL_DESC_EPILOGUE, &d.epilogue, sizeof d.epilogue},
                {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d.bias, sizeof d.bias},
                {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d.aux, sizeof d.aux},
                {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d.aux_ld, sizeof d.aux_ld}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].attr != attr) continue;
        if (nbytes != rows[i].nbytes) return CUBLAS_STATUS_INVALID_VALUE;
        memcpy(rows[i].at, value, nbytes);
        memcpy(of, &d, sizeof d);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

SHOWN cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, size_t size, cudaDataType type,
                                                       uint64_t rows, uint64_t columns, int64_t ld) {
    int32_t element = type == CUDA_R_16F ? ELEMENT_FP16 : type == CUDA_R_16BF ? ELEMENT_BF16 : ELEMENT_FP32;
    if (standin_fails("layout")) return CUBLAS_STATUS_INVALID_VALUE;
    if (type != CUDA_R_32F && element == ELEMENT_FP32) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (ld < (int64_t)rows || !rows || !columns) return CUBLAS_STATUS_INVALID_VALUE;
    memset(out, 0, size);
    memcpy(out, &(layout){rows, columns, ld, 0, 1, element}, sizeof(layout));
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t attr,
                                                      const void *value, size_t nbytes) {
    layout l;
    if (standin_fails("layoutattr")) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&l, of, sizeof l);
    int32_t count;
    if (attr == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && nbytes == sizeof count) {
        memcpy(&count, value, nbytes);
        l.nbatch = count;
    } else if (attr == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && nbytes == sizeof l.stride) {
        memcpy(&l.stride, value, nbytes);
    } else {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(of, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

/* What it was told that A, B and D are aligned to: unless it is told, the most. */
typedef struct alignments {
    uint32_t a, b, d;
} alignments;
_Static_assert(sizeof(alignments) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "fits");

SHOWN cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, size_t size) {
    if (standin_fails("preference")) return CUBLAS_STATUS_INVALID_VALUE;
    memset(out, 0, size);
    memcpy(out, &(alignments){256, 256, 256}, sizeof(alignments));
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                          cublasLtMatmulPreferenceAttributes_t attr, const void *value,
                                                          size_t nbytes) {
    uint32_t schemes;
    alignments all;
    if (standin_fails("preferenceattr")) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&all, of, sizeof all);
    uint32_t *alignment = attr == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES   ? &all.a
                          : attr == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES ? &all.b
                          : attr == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES ? &all.d
                                                                               : NULL;
    if (alignment && nbytes == sizeof *alignment) memcpy(alignment, value, nbytes);
    memcpy(of, &all, sizeof all);
    if (attr != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
    if (nbytes != sizeof schemes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&schemes, value, nbytes);
    if (standin_bends("preference.any")) schemes |= CUBLASLT_REDUCTION_SCHEME_INPLACE;
    if (schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) standin_broken("a product whose sum has no order");
    return CUBLAS_STATUS_SUCCESS;
}

/* Extents of a factor when it is used. */
static uint64_t used_rows(const layout *l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l->rows : l->columns;
}
static uint64_t used_columns(const layout *l, cublasOperation_t op) {
    return op == CUBLAS_OP_N ? l->columns : l->rows;
}

static bool fits(const product *p) {
    return used_rows(&p->a, p->desc.a) == p->d.rows && used_columns(&p->b, p->desc.b) == p->d.columns &&
           used_columns(&p->a, p->desc.a) == used_rows(&p->b, p->desc.b) && p->a.nbatch == p->d.nbatch &&
           p->b.nbatch == p->d.nbatch && p->a.type == p->d.type && p->b.type == p->d.type;
}

static product product_of(const void *of, const void *a, const void *b, const void *d) {
    product p = {.alpha = 1};
    memcpy(&p.desc, of, sizeof p.desc);
    memcpy(&p.a, a, sizeof p.a);
    memcpy(&p.b, b, sizeof p.b);
    memcpy(&p.d, d, sizeof p.d);
    return p;
}

/* --- epilogues ---------------------------------------------------------------------------------------------------- */

static size_t size_of(const layout *l) {
    return l->type == ELEMENT_FP32 ? 4 : 2;
}

/* Parts of an epilogue, whose numbers are sums of theirs. */
enum { RELU = 2, BIAS = 4, DRELU = 8, BGRAD = 16, GELU = 32, DGELU = 64, AUX = 128, BGRADA = 256, BGRADB = 512 };

static bool has(const product *p, int part) {
    return ((int)p->desc.epilogue & part) != 0;
}
static bool has_row(const product *p) {
    return has(p, BIAS | BGRAD | BGRADA | BGRADB);
}
static bool has_mask(const product *p) {
    return has(p, AUX) && has(p, RELU | DRELU);
}
static uint64_t row_length(const product *p) {
    return has(p, BGRADB) ? p->d.columns : p->d.rows;
}

/* The leading dimension of what is beside D: of bits or elements. */
static bool may_follow(const product *p) {
    static const cublasLtEpilogue_t all[] = {
        CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_BIAS,
        CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_AUX,
        CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
    bool is_known = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) is_known = is_known || all[i] == p->desc.epilogue;
    if (!is_known || (has_row(p) && !p->desc.bias)) return false;
    return !has(p, AUX) ||
           (p->desc.aux && p->desc.aux_ld >= (int64_t)p->d.rows && p->desc.aux_ld % (has_mask(p) ? 128 : 8) == 0);
}

/* GELU is the approximation by tanh, and so is its gradient. */
static float gelu_inner(float x) {
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}
static float gelu_slope(float x) {
    float t = gelu_inner(x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

static float apply_aux(const product *p, uint64_t i, uint64_t column, float x) {
    int64_t at = (int64_t)column * p->desc.aux_ld + (int64_t)i;
    unsigned char *bits = p->desc.aux, bit = (unsigned char)(1 << at % 8);
    if (has(p, DRELU)) return bits[at / 8] & bit ? x : 0;
    if (has(p, DGELU)) return x * gelu_slope(real_at(p->desc.aux, p->d.type, at));
    if (has(p, GELU) && has(p, AUX)) store_real(p->desc.aux, p->d.type, at, x);
    if (has_mask(p)) bits[at / 8] = (unsigned char)(x > 0 ? bits[at / 8] | bit : bits[at / 8] & ~bit);
    return x;
}

/* A column of D; `total` is the sum of all. */
static void finish(const product *p, uint64_t column, float *sums, float *total) {
    for (uint64_t i = 0; i < p->d.rows && p->desc.epilogue; i++) {
        if (has(p, BIAS)) sums[i] += real_at(p->desc.bias, p->d.type, (int64_t)i);
        sums[i] = apply_aux(p, i, column, sums[i]);
        if (has(p, RELU) && !(sums[i] > 0)) sums[i] = 0;
        if (has(p, GELU)) sums[i] *= 0.5f * (1 + gelu_inner(sums[i]));
        total[i] += sums[i];
    }
}

/* The sum of a factor over the products' inner extent. */
static void sum_factor(const product *p, const char *of, const layout *l, bool is_turned) {
    for (uint64_t i = 0; i < row_length(p); i++) {
        float sum = 0;
        for (uint64_t k = 0; k < (is_turned ? l->rows : l->columns); k++)
            sum += real_at(of, l->type, (int64_t)(is_turned ? i : k) * l->ld + (int64_t)(is_turned ? k : i));
        store_real(p->desc.bias, p->d.type, (int64_t)i, sum);
    }
}

static void touch_epilogue(const standin_item *item, const product *p) {
    size_t width = has_mask(p) ? (p->d.rows + 7) / 8 : p->d.rows * size_of(&p->d);
    if (has_row(p)) standin_touch(item, p->desc.bias, row_length(p) * size_of(&p->d), !has(p, BIAS));
    for (uint64_t j = 0; has(p, AUX) && j < p->d.columns; j++) {
        int64_t at = (int64_t)j * p->desc.aux_ld;
        standin_touch(item, (char *)p->desc.aux + (has_mask(p) ? at / 8 : at * (int64_t)size_of(&p->d)), width,
                      !has(p, DRELU | DGELU));
    }
}

SHOWN cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t of,
                                                    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                    cublasLtMatmulPreference_t preference, int most,
                                                    cublasLtMatmulHeuristicResult_t results[], int *n) {
    product p = product_of(of, a, b, d);
    alignments all;
    memcpy(&all, preference, sizeof all);
    (void)handle, (void)c, (void)most;
    if (!fits(&p)) return CUBLAS_STATUS_INVALID_VALUE;
    if (standin_fails("heuristic")) return CUBLAS_STATUS_INTERNAL_ERROR;
    if (p.desc.epilogue && (p.d.nbatch != 1 || !may_follow(&p))) return CUBLAS_STATUS_INVALID_VALUE;
    memset(&results[0], 0, sizeof results[0]);
    results[0].algo.data[0] = ALGORITHM;
    results[0].algo.data[1] = all.a;
    results[0].algo.data[2] = all.b;
    results[0].algo.data[3] = all.d;
    results[0].workspaceSize = WORKSPACE;
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void multiply(const product *p, const char *a, const char *b, char *d) {
    uint64_t depth = used_columns(&p->a, p->desc.a);
    int64_t a_row = p->desc.a == CUBLAS_OP_N ? 1 : p->a.ld, a_step = p->desc.a == CUBLAS_OP_N ? p->a.ld : 1;
    int64_t b_column = p->desc.b == CUBLAS_OP_N ? p->b.ld : 1, b_step = p->desc.b == CUBLAS_OP_N ? 1 : p->b.ld;
    float *sums = calloc(2 * p->d.rows, sizeof *sums), *total = sums + p->d.rows;
    for (uint64_t j = 0; j < p->d.columns; j++) {
        memset(sums, 0, p->d.rows * sizeof *sums);
        for (uint64_t k = 0; k < depth; k++) {
            float factor = p->alpha * real_at(b, p->b.type, (int64_t)j * b_column + (int64_t)k * b_step);
            int64_t from = (int64_t)k * a_step;
            if (p->a.type == ELEMENT_FP32)
                for (uint64_t i = 0; i < p->d.rows; i++)
                    sums[i] += factor * ((const float *)(const void *)a)[from + (int64_t)i * a_row];
            else
                for (uint64_t i = 0; i < p->d.rows; i++)
                    sums[i] += factor * real_at(a, p->a.type, from + (int64_t)i * a_row);
        }
        finish(p, j, sums, total);
        for (uint64_t i = 0; i < p->d.rows; i++) store_real(d, p->d.type, (int64_t)j * p->d.ld + (int64_t)i, sums[i]);
    }
    for (uint64_t i = 0; i < p->d.rows && has(p, BGRAD); i++) store_real(p->desc.bias, p->d.type, (int64_t)i, total[i]);
    if (has(p, BGRADA)) sum_factor(p, a, &p->a, p->desc.a != CUBLAS_OP_N);
    if (has(p, BGRADB)) sum_factor(p, b, &p->b, p->desc.b == CUBLAS_OP_N);
    free(sums);
}

static void touch(const standin_item *item, const layout *l, const char *first, int64_t batch, bool writes) {
    for (uint64_t j = 0; j < l->columns; j++)
        standin_touch(item, first + (batch * l->stride + (int64_t)j * l->ld) * (int64_t)size_of(l),
                      l->rows * size_of(l), writes);
}

/* A matrix of a batch. */
static int64_t matrix_at(const layout *l, int64_t batch) {
    return batch * l->stride * (int64_t)size_of(l);
}

static void run(standin_item *item) {
    const product *p = (const product *)(const void *)item->bytes;
    standin_touch(item, p->workspace, WORKSPACE, true);
    touch_epilogue(item, p);
    for (int64_t k = 0; k < p->d.nbatch; k++) {
        touch(item, &p->a, p->from_a, k, false);
        touch(item, &p->b, p->from_b, k, false);
        touch(item, &p->d, p->to, k, true);
    }
    memset(p->workspace, 0x5a, WORKSPACE); /* it is the product's to write */
    for (int64_t k = 0; k < p->d.nbatch; k++)
        multiply(p, p->from_a + matrix_at(&p->a, k), p->from_b + matrix_at(&p->b, k), p->to + matrix_at(&p->d, k));
}

/* By epilogue: products that were launched, or captured. */
static _Atomic int nproducts[2 * BGRADB];
SHOWN int standin_products(int epilogue);
SHOWN int standin_products(int epilogue) {
    return nproducts[epilogue];
}

static void check_alignment(const char *what, const void *address, uint64_t nbytes) {
    if (nbytes && (uintptr_t)address % nbytes)
        standin_broken("%s is not aligned to %d bytes, as it was said", what, (int)nbytes);
}

SHOWN cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void *alpha, const void *a,
                                    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                                    const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                                    void *workspace, size_t workspace_nbytes, cudaStream_t stream) {
    product p = product_of(of, a_layout, b_layout, d_layout);
    if (standin_fails("product")) return CUBLAS_STATUS_EXECUTION_FAILED;
    (void)handle, (void)c_layout;
    if (!fits(&p) || c != d || *(const float *)beta != 0) return CUBLAS_STATUS_INVALID_VALUE;
    standin_check_error("cublasLtMatmul");
    if (algorithm->data[0] != ALGORITHM || workspace_nbytes < WORKSPACE || !workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (standin_bends("product.aside")) a = (const char *)a + 4;
    if (standin_bends("product.workspace")) workspace = (char *)workspace + 64;
    check_alignment("a product's first factor", a, algorithm->data[1]);
    check_alignment("a product's second factor", b, algorithm->data[2]);
    check_alignment("a product", d, algorithm->data[3]);
    check_alignment("a product's workspace", workspace, 256);
    p.alpha = *(const float *)alpha;
    p.from_a = a;
    p.from_b = b;
    p.to = d;
    p.workspace = workspace;
    nproducts[p.desc.epilogue % (2 * BGRADB)]++;
    standin_item *item = standin_item_create("cublasLtMatmul", sizeof p);
    memcpy(item->bytes, &p, sizeof p);
    item->run = run;
    item->cost_ns = 4000 + (int64_t)(p.d.rows * p.d.columns) * p.d.nbatch;
    standin_push(stream, item);
    return CUBLAS_STATUS_SUCCESS;
}
