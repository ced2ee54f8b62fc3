/* rows.cu: softmax, its cross entropy, layer normalisation, and their gradients: a block for each row. */
#include "executor/devices/cuda/kernels/fold.h"

/* --- softmax ------------------------------------------------------------------------------------------------------ */

/* As Paddle bounds it: the smallest share is exp(-64). */
DEVICE float share_of(float x, float top) {
    float below = x - top;
    return expf(below < -64 ? -64 : below);
}

DEVICE float softmax_x(const softmax_args *a, cuda_index row, cuda_index i) {
    return real_at(a->x, a->type, row * a->width + i);
}
DEVICE void softmax_top(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    float top = softmax_x(a, row, 0);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float x = softmax_x(a, row, i);
        top = x > top ? x : top;
    }
    s->each[thread] = top;
}
DEVICE void softmax_fold_top(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    (void)a, (void)row;
    if (thread < 16) s->sixteen[thread] = max_of_sixteen(&s->each[16 * thread]);
}
DEVICE void softmax_sum(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    float top = max_of_sixteen(s->sixteen), sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += share_of(softmax_x(a, row, i), top);
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
DEVICE float loss_of_row(const softmax_args *a, cuda_index row, float top, float sum) {
    cuda_index label = label_of(a, row);
    if (label == a->ignore) return 0;
    if (label < 0 || label >= a->width) return NAN;
    float log_share = logf(share_of(softmax_x(a, row, label), top) / sum);
    return -(log_share < -1e20f ? -1e20f : log_share);
}
DEVICE void softmax_loss(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    if (a->loss && !thread) s->dot = loss_of_row(a, row, s->top, sum_of_sixteen(s->sixteen));
}
/* Behind a barrier, since out may be x. */
DEVICE void softmax_store(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = sum_of_sixteen(s->sixteen), top = s->top;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS)
        store_real(a->out, a->type, row * a->width + i, share_of(softmax_x(a, row, i), top) / sum);
    if (a->loss && !thread) store_real(a->loss, a->type, row, s->dot);
}
BLOCK_KERNEL(softmax_rows, softmax_args, row_shared,
             PHASE(softmax_top) PHASE(softmax_fold_top) PHASE(softmax_sum) PHASE(softmax_fold) PHASE(softmax_loss)
                 PHASE(softmax_store))

/* dx = y (dy - sum of y dy); x is y. */
DEVICE void softmax_dot(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS)
        sum += softmax_x(a, row, i) * real_at(a->dy, a->type, row * a->width + i);
    s->each[thread] = sum;
}
DEVICE void softmax_slope(const softmax_args *a, row_shared *s, cuda_index row, int thread) {
    float dot = sum_of_sixteen(s->sixteen);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        cuda_index at = row * a->width + i;
        store_real(a->out, a->type, at, softmax_x(a, row, i) * (real_at(a->dy, a->type, at) - dot));
    }
}
BLOCK_KERNEL(softmax_grad_rows, softmax_args, row_shared, PHASE(softmax_dot) PHASE(softmax_fold) PHASE(softmax_slope))

/* x is the softmax, dy the gradient of each row's loss. */
ITEM_KERNEL(cross_entropy_grad, softmax_args) {
    cuda_index row = i / a->width, label = label_of(a, row);
    float g = real_at(a->dy, a->type, row), share = real_at(a->x, a->type, i) - (i % a->width == label ? 1 : 0);
    store_real(a->out, a->type, i, label == a->ignore ? 0 : share * g);
}

/* --- layer normalisation ------------------------------------------------------------------------------------------ */

DEVICE void norm_fold(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    FOLD_SUMS
    if (thread < 16) s->sixteen_other[thread] = sum_of_sixteen(&s->other[16 * thread]);
}
DEVICE float norm_x(const norm_args *a, cuda_index row, cuda_index i) {
    return real_at(a->x, a->type, row * a->width + i);
}
DEVICE void norm_sum(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) sum += norm_x(a, row, i);
    s->each[thread] = sum;
    s->other[thread] = 0;
}
DEVICE void norm_keep_mean(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    (void)row;
    if (!thread) s->sum = sum_of_sixteen(s->sixteen) / (float)a->width;
}
DEVICE void norm_squares(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = 0, mean = s->sum;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float d = norm_x(a, row, i) - mean;
        sum += d * d;
    }
    s->each[thread] = sum;
}
DEVICE void norm_write(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    float mean = s->sum, variance = sum_of_sixteen(s->sixteen) / (float)a->width;
    float r = 1 / sqrtf(variance + a->epsilon);
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float h = (norm_x(a, row, i) - mean) * r;
        if (a->scale) h *= real_at(a->scale, a->param_type, i);
        store_real(a->out, a->type, row * a->width + i, h + (a->bias ? real_at(a->bias, a->param_type, i) : 0));
    }
    if (thread) return;
    if (a->mean) store_real(a->mean, a->moment_type, row, mean);
    if (a->variance) store_real(a->variance, a->moment_type, row, variance);
}
BLOCK_KERNEL(layer_norm_rows, norm_args, row_shared,
             PHASE(norm_sum) PHASE(norm_fold) PHASE(norm_keep_mean) PHASE(norm_squares) PHASE(norm_fold)
                 PHASE(norm_write))

/* What a row's elements were normalized with. */
typedef struct norm_moments {
    float mean, r;
} norm_moments;
DEVICE norm_moments norm_moments_of(const norm_args *a, cuda_index row) {
    norm_moments m = {real_at(a->mean, a->moment_type, row),
                      1 / sqrtf(real_at(a->variance, a->moment_type, row) + a->epsilon)};
    return m;
}
DEVICE float norm_slope_of(const norm_args *a, cuda_index row, cuda_index i) {
    float dy = real_at(a->dy, a->type, row * a->width + i);
    return a->scale ? dy * real_at(a->scale, a->param_type, i) : dy;
}
DEVICE void norm_dots(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    norm_moments m = norm_moments_of(a, row);
    float sum = 0, dot = 0;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS) {
        float g = norm_slope_of(a, row, i);
        sum += g;
        dot += g * (norm_x(a, row, i) - m.mean) * m.r;
    }
    s->each[thread] = sum;
    s->other[thread] = dot;
}
DEVICE void norm_slope(const norm_args *a, row_shared *s, cuda_index row, int thread) {
    norm_moments m = norm_moments_of(a, row);
    float n = (float)a->width, sum = sum_of_sixteen(s->sixteen) / n, dot = sum_of_sixteen(s->sixteen_other) / n;
    for (cuda_index i = thread; i < a->width; i += KERNEL_THREADS)
        store_real(a->out, a->type, row * a->width + i,
                   m.r * (norm_slope_of(a, row, i) - sum - (norm_x(a, row, i) - m.mean) * m.r * dot));
}
BLOCK_KERNEL(layer_norm_grad_rows, norm_args, row_shared, PHASE(norm_dots) PHASE(norm_fold) PHASE(norm_slope))

/* Sums over rows, of one column; partial sums of 64 rows. */
ITEM_KERNEL(layer_norm_grad_columns, norm_args) {
    float dscale = 0, dbias = 0;
    for (cuda_index first = 0; first < a->nrows; first += 64) {
        float scale_part = 0, bias_part = 0;
        for (cuda_index row = first; row < first + 64 && row < a->nrows; row++) {
            norm_moments m = norm_moments_of(a, row);
            float g = real_at(a->dy, a->type, row * a->width + i);
            scale_part += g * (norm_x(a, row, i) - m.mean) * m.r;
            bias_part += g;
        }
        dscale += scale_part;
        dbias += bias_part;
    }
    if (a->dscale) store_real(a->dscale, a->param_type, i, dscale);
    if (a->dbias) store_real(a->dbias, a->param_type, i, dbias);
}
