/* batch.cu: normalisation of channels over a batch. Each chunk of a channel has a mean and a sum of squares around it;
 * these are joined in the order of chunks (Chan, Golub, LeVeque 1979), so that large means cost no digits. */
#include "executor/devices/cuda/kernels/fold.h"

/* Where element e of a channel lies. */
DEVICE cuda_index batch_place(const batch_args *a, cuda_index channel, cuda_index e) {
    return (e / a->plane * a->channels + channel) * a->plane + e % a->plane;
}

DEVICE cuda_index chunk_first(const batch_args *a, cuda_index row) {
    return row % a->nchunks * a->chunk;
}

DEVICE cuda_index chunk_end(const batch_args *a, cuda_index row) {
    cuda_index end = chunk_first(a, row) + a->chunk, all = a->batch * a->plane;
    return end < all ? end : all;
}

DEVICE void batch_fold(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    FOLD_SUMS
    if (thread < 16) s->sixteen_other[thread] = sum_of_sixteen(&s->other[16 * thread]);
}

/* --- the batch's mean and variance -------------------------------------------------------------------------------- */

DEVICE void batch_sum(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = 0;
    for (cuda_index e = chunk_first(a, row) + thread; e < chunk_end(a, row); e += KERNEL_THREADS)
        sum += real_at(a->x, a->type, batch_place(a, row / a->nchunks, e));
    s->each[thread] = sum;
    s->other[thread] = 0;
}
DEVICE void batch_keep_mean(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    if (!thread) s->sum = sum_of_sixteen(s->sixteen) / (float)(chunk_end(a, row) - chunk_first(a, row));
}
DEVICE void batch_squares(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    float sum = 0, mean = s->sum;
    for (cuda_index e = chunk_first(a, row) + thread; e < chunk_end(a, row); e += KERNEL_THREADS) {
        float d = real_at(a->x, a->type, batch_place(a, row / a->nchunks, e)) - mean;
        sum += d * d;
    }
    s->each[thread] = sum;
}
DEVICE void batch_store(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    if (thread) return;
    a->partial[2 * row] = s->sum;
    a->partial[2 * row + 1] = sum_of_sixteen(s->sixteen);
}
BLOCK_KERNEL(batch_chunks, batch_args, row_shared,
             PHASE(batch_sum) PHASE(batch_fold) PHASE(batch_keep_mean) PHASE(batch_squares) PHASE(batch_fold)
                 PHASE(batch_store))

typedef struct batch_moments {
    double mean, squares;
} batch_moments;

DEVICE batch_moments join_chunks(const batch_args *a, cuda_index channel) {
    batch_moments m = {0, 0};
    double count = 0;
    for (cuda_index row = channel * a->nchunks; row < (channel + 1) * a->nchunks; row++) {
        double n = (double)(chunk_end(a, row) - chunk_first(a, row)), d = a->partial[2 * row] - m.mean;
        m.squares += a->partial[2 * row + 1] + d * d * count * n / (count + n);
        m.mean += d * n / (count + n);
        count += n;
    }
    return m;
}

/* What the next kernel multiplies with, what is saved, and the running ones. Variances are divided by the count. */
ITEM_KERNEL(batch_moments_of, batch_args) {
    batch_moments m = {0, 0};
    double variance;
    if (a->use_running) {
        m.mean = a->mean[i];
        variance = a->variance[i];
    } else {
        m = join_chunks(a, i);
        variance = m.squares / (double)(a->batch * a->plane);
    }
    float inverse = (float)(1 / sqrt(variance + a->epsilon));
    a->centre[i] = (float)m.mean;
    a->factor[i] = a->scale ? a->scale[i] * inverse : inverse;
    a->offset[i] = a->bias ? a->bias[i] : 0;
    if (a->saved_mean) a->saved_mean[i] = a->use_running ? 0 : (float)m.mean;
    if (a->saved_inverse) a->saved_inverse[i] = a->use_running ? 0 : inverse;
    if (a->new_mean) {
        double keep = a->use_running ? 1 : a->momentum;
        a->new_mean[i] = (float)(a->mean[i] * keep + m.mean * (1 - keep));
        a->new_variance[i] = (float)(a->variance[i] * keep + variance * (1 - keep));
    }
}

ITEM_KERNEL(batch_normalize, batch_args) {
    cuda_index c = i / a->plane % a->channels;
    store_real(a->out, a->type, i, (real_at(a->x, a->type, i) - a->centre[c]) * a->factor[c] + a->offset[c]);
}

/* --- gradients ---------------------------------------------------------------------------------------------------- */

DEVICE void batch_dots(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    cuda_index channel = row / a->nchunks;
    float sum = 0, dot = 0, mean = a->mean[channel];
    for (cuda_index e = chunk_first(a, row) + thread; e < chunk_end(a, row); e += KERNEL_THREADS) {
        cuda_index at = batch_place(a, channel, e);
        float dy = real_at(a->dy, a->type, at);
        sum += dy;
        dot += (real_at(a->x, a->type, at) - mean) * dy;
    }
    s->each[thread] = sum;
    s->other[thread] = dot;
}
DEVICE void batch_store_dots(const batch_args *a, row_shared *s, cuda_index row, int thread) {
    if (thread) return;
    a->partial[2 * row] = sum_of_sixteen(s->sixteen);
    a->partial[2 * row + 1] = sum_of_sixteen(s->sixteen_other);
}
BLOCK_KERNEL(batch_grad_chunks, batch_args, row_shared, PHASE(batch_dots) PHASE(batch_fold) PHASE(batch_store_dots))

/* variance: what was saved is 1 / sqrt(variance + epsilon) of the batch; else the running one. */
ITEM_KERNEL(batch_slopes, batch_args) {
    double sum = 0, dot = 0, count = (double)(a->batch * a->plane);
    for (cuda_index row = i * a->nchunks; row < (i + 1) * a->nchunks; row++) {
        sum += a->partial[2 * row];
        dot += a->partial[2 * row + 1];
    }
    double r = a->use_running ? 1 / sqrt(a->variance[i] + a->epsilon) : a->variance[i];
    double f = a->scale ? a->scale[i] * r : r;
    a->factor[i] = (float)f;
    a->slope[i] = a->use_running ? 0 : (float)(f * r * r * dot / count);
    a->offset[i] = a->use_running ? 0 : (float)(f * sum / count);
    if (a->saved_mean) a->saved_mean[i] = (float)(dot * r);
    if (a->saved_inverse) a->saved_inverse[i] = (float)sum;
}

ITEM_KERNEL(batch_propagate, batch_args) {
    cuda_index c = i / a->plane % a->channels;
    float x = real_at(a->x, a->type, i) - a->mean[c];
    store_real(a->out, a->type, i, a->factor[c] * real_at(a->dy, a->type, i) - x * a->slope[c] - a->offset[c]);
}
