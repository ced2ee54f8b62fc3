/* rows.cu: softmax, its cross entropy, layer normalisation, and their gradients: a block for each row. */
#include "executor/devices/cuda/kernels/fold.h"

/* --- softmax ------------------------------------------------------------------------------------------------------ */

/* As Paddle bounds it: the smallest share is exp(-64). */
DEVICE float share_of(float x, float top) {
    float below = x - top;
    return expf(below < -64 ? -64 : below);
}

DEVICE void softmax_top(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float top = x[0];
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) top = x[i] > top ? x[i] : top;
    s->each[thread] = top;
}
DEVICE void softmax_fold_top(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    (void)a, (void)row;
    if (thread < 16) s->sixteen[thread] = max_of_sixteen(&s->each[16 * thread]);
}
DEVICE void softmax_sum(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float top = max_of_sixteen(s->sixteen), sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += share_of(x[i], top);
    s->each[thread] = sum;
    if (!thread) s->top = top;
}
DEVICE void softmax_fold(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    FOLD_SUMS
}
DEVICE cuda_index label_of(const softmax_args *a, cuda_index row) {
    return a->wide_labels ? ((const long long *)a->labels)[row] : ((const int *)a->labels)[row];
}
/* A label that is no class makes the loss no number, where the CPU's kernel says which one it was. */
DEVICE float loss_of_row(const softmax_args *a, const float *x, cuda_index row, float top, float sum) {
    cuda_index label = label_of(a, row);
    if (label == a->ignore) return 0;
    if (label < 0 || label >= a->width) return NAN;
    float log_share = logf(share_of(x[label], top) / sum);
    return -(log_share < -1e20f ? -1e20f : log_share);
}
DEVICE void softmax_loss(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    if (a->loss && !thread) s->dot = loss_of_row(a, x, row, s->top, sum_of_sixteen(s->sixteen));
}
/* Behind a barrier, since out may be x. */
DEVICE void softmax_store(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float *out = a->out + row * a->width, sum = sum_of_sixteen(s->sixteen), top = s->top;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) out[i] = share_of(x[i], top) / sum;
    if (a->loss && !thread) a->loss[row] = s->dot;
}
BLOCK_KERNEL(softmax_rows, softmax_args, row_shared,
             PHASE(softmax_top) PHASE(softmax_fold_top) PHASE(softmax_sum) PHASE(softmax_fold) PHASE(softmax_loss)
                 PHASE(softmax_store))

/* dx = y (dy - sum of y dy); x is y. */
DEVICE void softmax_dot(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *y = a->x + row * a->width, *dy = a->dy + row * a->width;
    float sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += y[i] * dy[i];
    s->each[thread] = sum;
}
DEVICE void softmax_slope(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    const float *y = a->x + row * a->width, *dy = a->dy + row * a->width;
    float *dx = a->out + row * a->width, dot = sum_of_sixteen(s->sixteen);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) dx[i] = y[i] * (dy[i] - dot);
}
BLOCK_KERNEL(softmax_grad_rows, softmax_args, row_shared, PHASE(softmax_dot) PHASE(softmax_fold) PHASE(softmax_slope))

/* x is the softmax, dy the gradient of each row's loss. */
ITEM_KERNEL(cross_entropy_grad, softmax_args) {
    cuda_index row = i / a->width, label = label_of(a, row);
    float g = a->dy[row];
    a->out[i] = label == a->ignore ? 0 : (a->x[i] - (i % a->width == label ? 1 : 0)) * g;
}

/* --- layer normalisation ------------------------------------------------------------------------------------------ */

DEVICE void norm_fold(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    FOLD_SUMS
    if (thread < 16) s->sixteen_other[thread] = sum_of_sixteen(&s->other[16 * thread]);
}
DEVICE void norm_sum(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += x[i];
    s->each[thread] = sum;
    s->other[thread] = 0;
}
DEVICE void norm_keep_mean(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    (void)row;
    if (!thread) s->sum = sum_of_sixteen(s->sixteen) / (float)a->width;
}
DEVICE void norm_squares(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float sum = 0, mean = s->sum;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += (x[i] - mean) * (x[i] - mean);
    s->each[thread] = sum;
}
DEVICE void norm_write(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width;
    float *y = a->out + row * a->width, mean = s->sum, variance = sum_of_sixteen(s->sixteen) / (float)a->width;
    float r = 1 / sqrtf(variance + a->epsilon);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float h = (x[i] - mean) * r;
        y[i] = (a->scale ? h * a->scale[i] : h) + (a->bias ? a->bias[i] : 0);
    }
    if (thread) return;
    if (a->mean) a->mean[row] = mean;
    if (a->variance) a->variance[row] = variance;
}
BLOCK_KERNEL(layer_norm_rows, norm_args, row_shared,
             PHASE(norm_sum) PHASE(norm_fold) PHASE(norm_keep_mean) PHASE(norm_squares) PHASE(norm_fold)
                 PHASE(norm_write))

DEVICE void norm_dots(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width, *dy = a->dy + row * a->width;
    float sum = 0, dot = 0, mean = a->mean[row], r = 1 / sqrtf(a->variance[row] + a->epsilon);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float g = a->scale ? dy[i] * a->scale[i] : dy[i];
        sum += g;
        dot += g * (x[i] - mean) * r;
    }
    s->each[thread] = sum;
    s->other[thread] = dot;
}
DEVICE void norm_slope(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    const float *x = a->x + row * a->width, *dy = a->dy + row * a->width;
    float *dx = a->out + row * a->width, n = (float)a->width, mean = a->mean[row];
    float r = 1 / sqrtf(a->variance[row] + a->epsilon);
    float sum = sum_of_sixteen(s->sixteen) / n, dot = sum_of_sixteen(s->sixteen_other) / n;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float g = a->scale ? dy[i] * a->scale[i] : dy[i];
        dx[i] = r * (g - sum - (x[i] - mean) * r * dot);
    }
}
BLOCK_KERNEL(layer_norm_grad_rows, norm_args, row_shared, PHASE(norm_dots) PHASE(norm_fold) PHASE(norm_slope))

/* Sums over rows, of one column; partial sums of 64 rows. */
ITEM_KERNEL(layer_norm_grad_columns, norm_args) {
    float dscale = 0, dbias = 0;
    for (cuda_index first = 0; first < a->nrows; first += 64) {
        float scale_part = 0, bias_part = 0;
        for (cuda_index row = first; row < first + 64 && row < a->nrows; row++) {
            float g = a->dy[row * a->width + i], r = 1 / sqrtf(a->variance[row] + a->epsilon);
            scale_part += g * (a->x[row * a->width + i] - a->mean[row]) * r;
            bias_part += g;
        }
        dscale += scale_part;
        dbias += bias_part;
    }
    if (a->dscale) a->dscale[i] = dscale;
    if (a->dbias) a->dbias[i] = dbias;
}
