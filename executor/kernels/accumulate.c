/* accumulate.c: sums over runs, columns and nested loops. */
#include "executor/kernels/accumulate.h"
#include "executor/kernels/typed.h"

enum { LANES = 16 }; /* independent partial sums of a run: what two vector registers of doubles hold, twice */

#define TEMPLATE "executor/kernels/accumulate_real.h"
#include "executor/kernels/each_real.h"

void accumulate(weft_dtype dtype, int64_t n, const void *src, int64_t stride, double *acc) {
    float values[BLOCK];
    switch ((int)dtype) {
    case WEFT_FP32: accumulate_fp32(n, src, stride, acc); break;
    case WEFT_FP64: accumulate_fp64(n, src, stride, acc); break;
    default:
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t part = block_size(n - i);
            half_load(dtype, part, (const uint16_t *)src + i, 1, values);
            accumulate_fp32(part, values, stride, acc + i * stride);
        }
    }
}

void accumulate_columns(weft_dtype dtype, int64_t rows, int64_t row, int64_t n, const void *src, double *acc) {
    if (dtype == WEFT_FP64)
        add_columns_fp64(rows, row, n, src, acc);
    else
        add_columns_fp32(rows, row, n, src, acc);
}

void accumulate_loops(const loops *l, weft_dtype dtype, const void *src, double *acc) {
    int64_t n = loops_run(l), stride = loops_stride(l, 1);
    size_t size = weft_dtype_nbytes(dtype);
    bool columns = l->numel && l->naxes == 2 && l->stride[1][0] == 0 && stride == 1 && loops_stride(l, 0) == 1;
    if (columns && (dtype == WEFT_FP32 || dtype == WEFT_FP64)) {
        accumulate_columns(dtype, l->extent[0], l->stride[0][0], n, src, acc);
        return;
    }
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        accumulate(dtype, n, (const char *)src + (size_t)w.at[0] * size, stride, acc + w.at[1]);
}

double sum_of_squares(weft_dtype dtype, int64_t n, const void *src) {
    float values[BLOCK];
    double total = 0;
    switch ((int)dtype) {
    case WEFT_FP32: return sum_squares_fp32(n, src);
    case WEFT_FP64: return sum_squares_fp64(n, src);
    default:
        for (int64_t i = 0; i < n; i += BLOCK) {
            int64_t part = block_size(n - i);
            half_load(dtype, part, (const uint16_t *)src + i, 1, values);
            total += sum_squares_fp32(part, values);
        }
        return total;
    }
}

void load_doubles(weft_dtype dtype, int64_t n, const void *src, double *dst) {
    switch ((int)dtype) {
    case WEFT_FP32:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)((const float *)src)[i];
        break;
    case WEFT_FP64: copy_bytes(dst, src, (size_t)n * sizeof *dst); break;
    case WEFT_BF16:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)bf16_to_f32(((const uint16_t *)src)[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) dst[i] = (double)fp16_to_f32(((const uint16_t *)src)[i]);
    }
}

void store_doubles(weft_dtype dtype, int64_t n, const double *src, void *dst) {
    switch ((int)dtype) {
    case WEFT_FP32:
        for (int64_t i = 0; i < n; i++) ((float *)dst)[i] = (float)src[i];
        break;
    case WEFT_FP64: copy_bytes(dst, src, (size_t)n * sizeof *src); break;
    case WEFT_BF16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = f32_to_bf16((float)src[i]);
        break;
    default:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = f32_to_fp16((float)src[i]);
    }
}
