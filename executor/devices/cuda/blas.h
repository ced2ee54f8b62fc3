/* blas.h: matrix products by cuBLASLt, which is opened when the first of them is prepared. */
#ifndef EXECUTOR_DEVICES_CUDA_BLAS_H
#define EXECUTOR_DEVICES_CUDA_BLAS_H

#include <cublasLt.h>

#include "executor/devices/cuda/launch.h"

/* An operand as stored: row major matrices, `stride` elements apart. */
typedef struct blas_matrix {
    const void *address; /* for its alignment alone */
    int64_t rows, columns, stride;
    bool transposed; /* when used */
} blas_matrix;

/* C = alpha op(A) op(B), row major, `nbatch` times, of fp32, or of fp16 or bf16 and added up in fp32; its algorithm is
 * chosen once. */
typedef struct blas_product {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b,
        c; /* as cuBLASLt sees them: column major, so that the product is that of B and A */
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_nbytes;
    int64_t nbatch, rows, columns; /* of C */
    uint32_t alignment[3];         /* of a, b, c: bytes */
    float alpha;
} blas_product;

/* On the GPU that is current. A status of WEFT_UNSUPPORTED: it cannot, or there is no library. */
WEFT_MUST_USE weft_status blas_prepare(blas_product *p, const blas_matrix *a, const blas_matrix *b,
                                       const blas_matrix *c, weft_dtype dtype, int64_t nbatch, float alpha);
/* What a product does more, to its own result or beside it; its addresses stay the same. cuBLASLt's documentation says
 * of each kind what `row` and `aux` are. `aux`: the argument of gelu, of C's extents, or a bit for each element of C,
 * whose rows begin blas_mask_nbytes(1, columns) apart. */
typedef struct blas_epilogue {
    cublasLtEpilogue_t kind;
    const void *row, *aux;
    bool is_mask;
} blas_epilogue;

/* Another algorithm is chosen. Of one product, no batch. A status of WEFT_UNSUPPORTED: there is none, and `p` is as it
 * was. */
WEFT_MUST_USE weft_status blas_follow(blas_product *p, const blas_epilogue *e);
size_t blas_mask_nbytes(int64_t rows, int64_t columns);
WEFT_MUST_USE weft_status blas_launch(const cuda_launch *l, const blas_product *p, const void *a, const void *b,
                                      void *c);

#endif
