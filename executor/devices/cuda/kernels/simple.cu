/* simple.cu: filling, adding up, casting, dropping out. */
#include "executor/devices/cuda/kernels/kernel.h"

ITEM_KERNEL(fill1, fill_args) {
    ((unsigned char *)a->out)[i] = (unsigned char)a->word;
}

ITEM_KERNEL(fill4, fill_args) {
    ((unsigned *)a->out)[i] = (unsigned)a->word;
}

ITEM_KERNEL(fill8, fill_args) {
    ((unsigned long long *)a->out)[i] = a->word;
}

/* Out may be any of the terms. */
ITEM_KERNEL(sum_terms, sum_args) {
    float sum = real_at(a->in[0], a->type, i);
    for (int k = 1; k < a->n; k++) sum += real_at(a->in[k], a->type, i);
    store_real(a->out, a->type, i, sum);
}

DEVICE float cast_to_float(const cast_args *a, cuda_index i) {
    switch (a->from) {
    case ELEMENT_FP32:
    case ELEMENT_FP16:
    case ELEMENT_BF16: return real_at(a->x, a->from, i);
    case ELEMENT_INT32: return (float)((const int *)a->x)[i];
    case ELEMENT_INT64: return (float)((const long long *)a->x)[i];
    default: return ((const unsigned char *)a->x)[i];
    }
}

DEVICE long long cast_to_integer(const cast_args *a, cuda_index i) {
    switch (a->from) {
    case ELEMENT_FP32:
    case ELEMENT_FP16:
    case ELEMENT_BF16: return (long long)real_at(a->x, a->from, i);
    case ELEMENT_INT32: return ((const int *)a->x)[i];
    case ELEMENT_INT64: return ((const long long *)a->x)[i];
    default: return ((const unsigned char *)a->x)[i];
    }
}

ITEM_KERNEL(cast_elements_of, cast_args) {
    switch (a->to) {
    case ELEMENT_FP32:
    case ELEMENT_FP16:
    case ELEMENT_BF16: store_real(a->out, a->to, i, cast_to_float(a, i)); return;
    case ELEMENT_INT32: ((int *)a->out)[i] = (int)cast_to_integer(a, i); return;
    case ELEMENT_INT64: ((long long *)a->out)[i] = cast_to_integer(a, i); return;
    default:
        ((unsigned char *)a->out)[i] =
            a->from != ELEMENT_INT32 && a->from != ELEMENT_INT64 ? cast_to_float(a, i) != 0 : cast_to_integer(a, i) != 0;
    }
}

/* Philox4x32-10, as executor/kernels/fill/random.c draws: word i % 4 of block i / 4. */
DEVICE unsigned random_word(const dropout_args *a, cuda_index i) {
    unsigned long long block = (unsigned long long)i / 4;
    unsigned long long upper = a->upper + (a->step ? *a->step * 0xC2B2AE3D27D4EB4Full : 0);
    unsigned c0 = (unsigned)block, c1 = (unsigned)(block >> 32), c2 = (unsigned)upper;
    unsigned c3 = (unsigned)(upper >> 32), k0 = (unsigned)a->seed, k1 = (unsigned)(a->seed >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned long long x = 0xD2511F53ull * c0, y = 0xCD9E8D57ull * c2;
        c0 = (unsigned)(y >> 32) ^ c1 ^ k0;
        c1 = (unsigned)y;
        c2 = (unsigned)(x >> 32) ^ c3 ^ k1;
        c3 = (unsigned)x;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return i % 4 == 0 ? c0 : i % 4 == 1 ? c1 : i % 4 == 2 ? c2 : c3;
}

ITEM_KERNEL(dropout_draw, dropout_args) {
    int is_kept = (random_word(a, i) >> 8) >= a->drop_below;
    store_real(a->out, a->type, i, is_kept && a->factor != 0 ? real_at(a->x, a->type, i) * a->factor : 0);
    if (a->mask) a->mask[i] = (unsigned char)is_kept;
}

ITEM_KERNEL(dropout_keep, dropout_args) {
    store_real(a->out, a->type, i, a->mask[i] && a->factor != 0 ? real_at(a->x, a->type, i) * a->factor : 0);
}

ITEM_KERNEL(scale_elements, unary_args) {
    store_real(a->out, a->type, i, a->p * real_at(a->x, a->type, i) + a->q);
}
