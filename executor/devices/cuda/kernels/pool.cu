/* pool.cu: the largest or the mean element of each window, and gradients, as executor/kernels/pool/pool.c has them: the
 * gradient of max goes to the first largest element of a window. An element of dx adds up its windows in their order. */
#include "executor/devices/cuda/kernels/kernel.h"

typedef struct pool_span {
    cuda_index first, end, count; /* the part of a window inside the image; what it counts for in a mean */
} pool_span;

DEVICE pool_span pool_window(const pool_args *a, int d, cuda_index i) {
    cuda_index extent = a->extent[d], n = a->count[d];
    if (a->is_adaptive) {
        pool_span r = {i * extent / n, ((i + 1) * extent + n - 1) / n, 0};
        r.count = r.end - r.first;
        return r;
    }
    cuda_index first = i * a->stride[d] - a->before[d], end = first + a->size[d];
    if (end > extent + a->before[d]) end = extent + a->before[d];
    pool_span r = {first < 0 ? 0 : first, end > extent ? extent : end, end - first};
    if (a->is_exclusive) r.count = r.end - r.first;
    return r;
}

/* The windows that see a row or column. */
DEVICE pool_span pool_windows_of(const pool_args *a, int d, cuda_index at) {
    cuda_index extent = a->extent[d], n = a->count[d];
    pool_span r = {at * n / extent, ((at + 1) * n + extent - 1) / extent, 0};
    if (a->is_adaptive) return r;
    cuda_index late = at + a->before[d] - a->size[d];
    r.first = late < 0 ? 0 : late / a->stride[d] + 1;
    r.end = (at + a->before[d]) / a->stride[d] + 1;
    if (r.end > n) r.end = n;
    return r;
}

/* Of the image that begins there. */
DEVICE float pool_x(const pool_args *a, cuda_index from, cuda_index row, cuda_index column) {
    return real_at(a->x, a->type, from + row * a->in_step[2] + column * a->in_step[3]);
}

ITEM_KERNEL(pool_windows, pool_args) {
    cuda_index column = i % a->count[1], row = i / a->count[1] % a->count[0], plane = i / a->count[1] / a->count[0];
    cuda_index image = plane / a->channels, channel = plane % a->channels;
    cuda_index from = image * a->in_step[0] + channel * a->in_step[1];
    pool_span r = pool_window(a, 0, row), k = pool_window(a, 1, column);
    float result = a->is_max ? -3.402823466e+38f : 0;
    for (cuda_index y = r.first; y < r.end; y++)
        for (cuda_index j = k.first; j < k.end; j++) {
            float e = pool_x(a, from, y, j);
            result = a->is_max ? (result > e ? result : e) : result + e;
        }
    cuda_index to = image * a->out_step[0] + channel * a->out_step[1] + row * a->out_step[2] + column * a->out_step[3];
    store_real(a->out, a->type, to, a->is_max ? result : result / (float)(r.count * k.count));
}

/* Whether nothing before (row, column) in its window is as large. */
DEVICE bool pool_is_first(const pool_args *a, cuda_index from, float top, pool_span r, pool_span k, cuda_index row,
                          cuda_index column) {
    for (cuda_index y = r.first; y <= row; y++)
        for (cuda_index j = k.first; j < k.end; j++) {
            if (y == row && j == column) return true;
            if (pool_x(a, from, y, j) == top) return false;
        }
    return true;
}

ITEM_KERNEL(pool_spread, pool_args) {
    cuda_index column = i % a->extent[1], row = i / a->extent[1] % a->extent[0];
    cuda_index plane = i / a->extent[1] / a->extent[0], image = plane / a->channels, channel = plane % a->channels;
    cuda_index from = image * a->in_step[0] + channel * a->in_step[1];
    cuda_index to = image * a->out_step[0] + channel * a->out_step[1];
    cuda_index at = from + row * a->in_step[2] + column * a->in_step[3];
    pool_span rows = pool_windows_of(a, 0, row), columns = pool_windows_of(a, 1, column);
    float sum = 0, x = real_at(a->x, a->type, at);
    for (cuda_index y = rows.first; y < rows.end; y++)
        for (cuda_index j = columns.first; j < columns.end; j++) {
            cuda_index window = to + y * a->out_step[2] + j * a->out_step[3];
            pool_span r = pool_window(a, 0, y), k = pool_window(a, 1, j);
            float dy = real_at(a->dy, a->type, window);
            if (!a->is_max)
                sum += dy / (float)(r.count * k.count);
            else if (x == real_at(a->y, a->type, window) && pool_is_first(a, from, x, r, k, row, column))
                sum += dy;
        }
    store_real(a->out, a->type, at, sum);
}
