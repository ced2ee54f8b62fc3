/* blas.c: cuBLASLt takes matrices by columns: a row major matrix is its transpose there, so C' = B' A' is asked for.
 *
 * Algorithms may split the inner extent only where parts are added up in a fixed order: not in place. */
#include "executor/devices/cuda/blas.h"

#include <pthread.h>
#include <stdio.h>

#include "executor/devices/cuda/attrs.h"

enum { MOST_GPUS = 64, WORKSPACE_NBYTES = 32 << 20 };

typedef struct blas_library {
#define CALL(name) __typeof__(&cublasLt##name) name;
#include "executor/devices/cuda/blas.def"
#undef CALL
} blas_library;

static blas_library blas;
static char why_not[700];
static bool is_open;
static cublasLtHandle_t handles[MOST_GPUS]; /* until the process ends */
static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void open_library(void) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    void *library = library_open(names, why_not, sizeof why_not);
    if (!library) return;
    is_open = true;
#define CALL(name)                                                                                                     \
    blas.name = (__typeof__(&cublasLt##name))library_symbol(library, "cublasLt" #name);                                \
    if (!blas.name && is_open) {                                                                                       \
        is_open = false;                                                                                               \
        snprintf(why_not, sizeof why_not, "cuBLASLt is too old: it lacks cublasLt%s", #name);                          \
    }
#include "executor/devices/cuda/blas.def"
#undef CALL
}

static weft_status check(cublasStatus_t status, const char *call) {
    if (status == CUBLAS_STATUS_SUCCESS) return NULL;
    return weft_status_create(status == CUBLAS_STATUS_NOT_SUPPORTED ? WEFT_UNSUPPORTED : WEFT_RUNTIME, NULL,
                              "%s: cuBLAS status %d", call, (int)status);
}
#define BLAS_TRY(call, ...) TRY(check(blas.call(__VA_ARGS__), "cublasLt" #call))

/* That of the GPU that is current. */
static weft_status find_handle(cublasLtHandle_t *out) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int gpu = 0;
    pthread_once(&once, open_library);
    if (!is_open) return cuda_refuse("%.190s", why_not);
    CUDA_TRY(GetDevice, &gpu);
    if (gpu >= MOST_GPUS) return cuda_refuse("GPU %d", gpu);
    pthread_mutex_lock(&handles_lock);
    weft_status status = handles[gpu] ? NULL : check(blas.Create(&handles[gpu]), "cublasLtCreate");
    *out = handles[gpu];
    pthread_mutex_unlock(&handles_lock);
    return status;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static bool type_of(weft_dtype dtype, cudaDataType *out) {
    switch ((int)dtype) {
    case WEFT_FP32: *out = CUDA_R_32F; return true;
    case WEFT_FP16: *out = CUDA_R_16F; return true;
    case WEFT_BF16: *out = CUDA_R_16BF; return true;
    default: return false;
    }
}

static weft_status describe(cublasLtMatrixLayoutOpaque_t *layout, const blas_matrix *m, cudaDataType type,
                            int64_t nbatch) {
    int32_t count = (int32_t)nbatch;
    BLAS_TRY(MatrixLayoutInit_internal, layout, sizeof *layout, type, (uint64_t)m->columns, (uint64_t)m->rows,
             m->columns);
    BLAS_TRY(MatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    BLAS_TRY(MatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->stride,
             sizeof m->stride);
    return NULL;
}

/* What all matrices of an operand are aligned to, as far as that goes of copies in a workspace (half.h), which have no
 * address yet. */
static uint32_t alignment_of(const blas_matrix *m, size_t nbytes, int64_t nbatch) {
    uint64_t stride = nbatch > 1 ? (uint64_t)m->stride * nbytes : 0;
    uint64_t bits = (uint64_t)(uintptr_t)m->address | stride | 64;
    return (uint32_t)(bits & (~bits + 1));
}

static weft_status choose(cublasLtHandle_t handle, blas_product *p) {
    cublasLtMatmulPreferenceOpaque_t preference;
    cublasLtMatmulHeuristicResult_t result;
    uint64_t most = WORKSPACE_NBYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
    uint32_t of_a = p->alignment[0], of_b = p->alignment[1], of_c = p->alignment[2];
    const struct {
        cublasLtMatmulPreferenceAttributes_t attr;
        const void *value;
        size_t nbytes;
    } rows[] = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most},
                {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &of_a, sizeof of_a},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &of_b, sizeof of_b},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &of_c, sizeof of_c},
                {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &of_c, sizeof of_c}};
    int n = 0;
    BLAS_TRY(MatmulPreferenceInit_internal, &preference, sizeof preference);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        BLAS_TRY(MatmulPreferenceSetAttribute, &preference, rows[i].attr, rows[i].value, rows[i].nbytes);
    BLAS_TRY(MatmulAlgoGetHeuristic, handle, &p->desc, &p->a, &p->b, &p->c, &p->c, &preference, 1, &result, &n);
    if (!n || result.state != CUBLAS_STATUS_SUCCESS) return cuda_refuse("no algorithm of cuBLASLt");
    p->algorithm = result.algo;
    p->workspace_nbytes = result.workspaceSize;
    return NULL;
}

weft_status blas_prepare(blas_product *p, const blas_matrix *a, const blas_matrix *b, const blas_matrix *c,
                         weft_dtype dtype, int64_t nbatch, float alpha) {
    cublasLtHandle_t handle;
    cudaDataType type;
    cublasOperation_t of_a = b->transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      of_b = a->transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (nbatch > INT32_MAX) return cuda_refuse("a batch of %lld", (long long)nbatch);
    if (!type_of(dtype, &type)) return cuda_refuse("%s", weft_dtype_name(dtype));
    TRY(find_handle(&handle));
    BLAS_TRY(MatmulDescInit_internal, &p->desc, sizeof p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof of_a);
    BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &of_b, sizeof of_b);
    TRY(describe(&p->a, b, type, nbatch));
    TRY(describe(&p->b, a, type, nbatch));
    TRY(describe(&p->c, c, type, nbatch));
    p->alpha = alpha;
    p->nbatch = nbatch;
    p->rows = c->rows;
    p->columns = c->columns;
    p->alignment[0] = alignment_of(b, weft_dtype_nbytes(dtype), nbatch);
    p->alignment[1] = alignment_of(a, weft_dtype_nbytes(dtype), nbatch);
    p->alignment[2] = alignment_of(c, weft_dtype_nbytes(dtype), nbatch);
    return choose(handle, p);
}

/* Its rows are as long as whole groups of 128 bits. */
static int64_t mask_bits(int64_t columns) {
    return (columns + 127) / 128 * 128;
}

size_t blas_mask_nbytes(int64_t rows, int64_t columns) {
    return (size_t)(mask_bits(columns) / 8 * rows);
}

static weft_status set_epilogue(blas_product *p, const blas_epilogue *e) {
    int64_t stride = e->is_mask ? mask_bits(p->columns) : p->columns;
    BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &e->kind, sizeof e->kind);
    if (e->row) BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &e->row, sizeof e->row);
    if (!e->aux) return NULL;
    if (!e->is_mask && stride % 8) return cuda_refuse("rows that are no groups of 8");
    BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &e->aux, sizeof e->aux);
    BLAS_TRY(MatmulDescSetAttribute, &p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &stride, sizeof stride);
    return NULL;
}

/* A row of C is a column there, and so is a bias. Whatever the library says against it, the product does without. */
weft_status blas_follow(blas_product *p, const blas_epilogue *e) {
    cublasLtHandle_t handle;
    blas_product with = *p;
    TRY(find_handle(&handle));
    weft_status status = set_epilogue(&with, e);
    if (!status) status = choose(handle, &with);
    if (status) {
        weft_status_free(status);
        return cuda_refuse("an epilogue that cuBLASLt has not");
    }
    *p = with;
    return NULL;
}

weft_status blas_launch(const cuda_launch *l, const blas_product *p, const void *a, const void *b, void *c) {
    static const float zero = 0;
    blas_product q = *p; /* descriptions are not const there */
    cublasLtHandle_t handle;
    TRY(find_handle(&handle));
    BLAS_TRY(Matmul, handle, &q.desc, &q.alpha, b, &q.a, a, &q.b, &zero, c, &q.c, c, &q.c, &q.algorithm,
             l->call->workspace, q.workspace_nbytes, l->stream);
    return NULL;
}
