/* strided.cu: kernels of strided.def. Sums are of partial sums, in an order that does not depend on timing. */
#include "executor/devices/cuda/kernels/place.h"

enum { PARTIAL = 64 }; /* elements that are added up one after another */

/* Behind `at`, element r of those that are added up. */
DEVICE strided_at summed_place(const strided_args *a, strided_at at, cuda_index r) {
    for (int k = a->nsummed_axes - 1; k >= 0; k--) {
        cuda_index index = k ? r % a->summed_extent[k] : r;
        r /= a->summed_extent[k];
        for (int n = 0; n < KERNEL_INPUTS; n++) at.in[n] += index * a->summed_stride[n][k];
    }
    return at;
}

DEVICE float element(const strided_args *a, int n, cuda_index at) {
    return a->in[n] ? real_at(a->in[n], a->type, at) : 0;
}

typedef struct strided_shared {
    float each[KERNEL_THREADS], sixteen[16];
} strided_shared;

DEVICE void fold_shared(const strided_args *a, strided_shared *s, cuda_index row, int thread) {
    (void)a, (void)row;
    if (thread >= 16) return;
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += s->each[16 * thread + i];
    s->sixteen[thread] = sum;
}

DEVICE void write_shared(const strided_args *a, strided_shared *s, cuda_index row, int thread) {
    if (thread) return;
    float sum = 0;
    for (int i = 0; i < 16; i++) sum += s->sixteen[i];
    store_real(a->out, a->type, place_of(a, row).out, sum);
}

/* An item adds up by itself; of the second kernel a block does. */
#define STRIDED(name, value) \
    DEVICE float name##_value(float a, float b, float c, float p) { \
        (void)a, (void)b, (void)c, (void)p; \
        return value; \
    } \
    DEVICE float name##_at(const strided_args *a, strided_at at) { \
        return name##_value(element(a, 0, at.in[0]), element(a, 1, at.in[1]), element(a, 2, at.in[2]), a->p); \
    } \
    ITEM_KERNEL(strided_##name, strided_args) { \
        strided_at at = place_of(a, i); \
        float sum = 0; \
        for (cuda_index r = 0; r < a->nsummed; r += PARTIAL) { \
            float part = 0; \
            for (cuda_index k = r; k < r + PARTIAL && k < a->nsummed; k++) part += name##_at(a, summed_place(a, at, k)); \
            sum += part; \
        } \
        store_real(a->out, a->type, at.out, sum); \
    } \
    DEVICE void name##_part(const strided_args *a, strided_shared *s, cuda_index row, int thread) { \
        strided_at at = place_of(a, row); \
        float sum = 0; \
        for (cuda_index r = thread; r < a->nsummed; r += KERNEL_THREADS) sum += name##_at(a, summed_place(a, at, r)); \
        s->each[thread] = sum; \
    } \
    BLOCK_KERNEL(summed_##name, strided_args, strided_shared, \
                 PHASE(name##_part) PHASE(fold_shared) PHASE(write_shared))
#include "executor/devices/cuda/kernels/strided.def"
#undef STRIDED
