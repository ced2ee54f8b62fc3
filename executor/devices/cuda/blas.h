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
    int64_t nbatch, columns; /* columns: of C */
    uint32_t alignment[3];   /* of a, b, c: bytes */
    float alpha;
} blas_product;

/* On the GPU that is current. A status of WEFT_UNSUPPORTED: it cannot, or there is no library. */
WEFT_MUST_USE weft_status blas_prepare(blas_product *p, const blas_matrix *a, const blas_matrix *b,
                                       const blas_matrix *c, weft_dtype dtype, int64_t nbatch, float alpha);
/* Adds a row of C's width to each row, and then relu where asked for: another algorithm. Of one product, no batch. A
 * status of WEFT_UNSUPPORTED: there is none, and `p` is as it was. */
WEFT_MUST_USE weft_status blas_add_row(blas_product *p, const void *row, bool relu);
WEFT_MUST_USE weft_status blas_launch(const cuda_launch *l, const blas_product *p, const void *a, const void *b,
                                      void *c);

#endif
