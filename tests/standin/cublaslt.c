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
    const void *bias;
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
    *handle = (cublasLtHandle_t)(void *)&it;
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t out, size_t size, cublasComputeType_t compute,
                                                     cudaDataType_t scale) {
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, size);
    memcpy(out, &(desc){.a = CUBLAS_OP_N, .b = CUBLAS_OP_N}, sizeof(desc));
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t attr,
                                                    const void *value, size_t nbytes) {
    desc d;
    memcpy(&d, of, sizeof d);
    size_t wanted = attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof d.bias : sizeof d.a;
    if (nbytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
    if (attr == CUBLASLT_MATMUL_DESC_EPILOGUE)
        memcpy(&d.epilogue, value, nbytes);
    else if (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER)
        memcpy(&d.bias, value, nbytes);
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSA)
        memcpy(&d.a, value, nbytes);
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSB)
        memcpy(&d.b, value, nbytes);
    else
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(of, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t out, size_t size, cudaDataType type,
                                                       uint64_t rows, uint64_t columns, int64_t ld) {
    int32_t element = type == CUDA_R_16F ? ELEMENT_FP16 : type == CUDA_R_16BF ? ELEMENT_BF16 : ELEMENT_FP32;
    if (type != CUDA_R_32F && element == ELEMENT_FP32) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (ld < (int64_t)rows || !rows || !columns) return CUBLAS_STATUS_INVALID_VALUE;
    memset(out, 0, size);
    memcpy(out, &(layout){rows, columns, ld, 0, 1, element}, sizeof(layout));
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t attr,
                                                      const void *value, size_t nbytes) {
    layout l;
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

SHOWN cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t out, size_t size) {
    memset(out, 0, size);
    return CUBLAS_STATUS_SUCCESS;
}

SHOWN cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t of,
                                                          cublasLtMatmulPreferenceAttributes_t attr, const void *value,
                                                          size_t nbytes) {
    uint32_t schemes;
    (void)of;
    if (attr != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
    if (nbytes != sizeof schemes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&schemes, value, nbytes);
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

SHOWN cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t of,
                                                    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                    cublasLtMatmulPreference_t preference, int most,
                                                    cublasLtMatmulHeuristicResult_t results[], int *n) {
    product p = product_of(of, a, b, d);
    (void)handle, (void)c, (void)preference, (void)most;
    if (!fits(&p)) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.desc.epilogue && (!p.desc.bias || p.d.nbatch != 1)) return CUBLAS_STATUS_INVALID_VALUE;
    memset(&results[0], 0, sizeof results[0]);
    results[0].algo.data[0] = ALGORITHM;
    results[0].workspaceSize = WORKSPACE;
    *n = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static size_t size_of(const layout *l) {
    return l->type == ELEMENT_FP32 ? 4 : 2;
}

/* A column of D. */
static void finish(const product *p, float *sums) {
    if (!p->desc.epilogue) return;
    for (uint64_t i = 0; i < p->d.rows; i++) {
        sums[i] += real_at(p->desc.bias, p->d.type, (int64_t)i);
        if (p->desc.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS && !(sums[i] > 0)) sums[i] = 0;
    }
}

static void multiply(const product *p, const char *a, const char *b, char *d) {
    uint64_t depth = used_columns(&p->a, p->desc.a);
    int64_t a_row = p->desc.a == CUBLAS_OP_N ? 1 : p->a.ld, a_step = p->desc.a == CUBLAS_OP_N ? p->a.ld : 1;
    int64_t b_column = p->desc.b == CUBLAS_OP_N ? p->b.ld : 1, b_step = p->desc.b == CUBLAS_OP_N ? 1 : p->b.ld;
    float *sums = calloc(p->d.rows, sizeof *sums);
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
        finish(p, sums);
        for (uint64_t i = 0; i < p->d.rows; i++) store_real(d, p->d.type, (int64_t)j * p->d.ld + (int64_t)i, sums[i]);
    }
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
    if (p->desc.epilogue) standin_touch(item, p->desc.bias, p->d.rows * size_of(&p->d), false);
    for (int64_t k = 0; k < p->d.nbatch; k++) {
        touch(item, &p->a, p->from_a, k, false);
        touch(item, &p->b, p->from_b, k, false);
        touch(item, &p->d, p->to, k, true);
    }
    memset(p->workspace, 0x5a, WORKSPACE); /* it is the product's to write */
    for (int64_t k = 0; k < p->d.nbatch; k++)
        multiply(p, p->from_a + matrix_at(&p->a, k), p->from_b + matrix_at(&p->b, k), p->to + matrix_at(&p->d, k));
}

SHOWN cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t of, const void *alpha, const void *a,
                                    cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                                    const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                                    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                                    void *workspace, size_t workspace_nbytes, cudaStream_t stream) {
    product p = product_of(of, a_layout, b_layout, d_layout);
    (void)handle, (void)c_layout;
    if (!fits(&p) || c != d || *(const float *)beta != 0) return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm->data[0] != ALGORITHM || workspace_nbytes < WORKSPACE || !workspace)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.alpha = *(const float *)alpha;
    p.from_a = a;
    p.from_b = b;
    p.to = d;
    p.workspace = workspace;
    standin_item *item = standin_item_create("cublasLtMatmul", sizeof p);
    memcpy(item->bytes, &p, sizeof p);
    item->run = run;
    item->cost_ns = 4000 + (int64_t)(p.d.rows * p.d.columns) * p.d.nbatch;
    standin_push(stream, item);
    return CUBLAS_STATUS_SUCCESS;
}
