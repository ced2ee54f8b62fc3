/* loop.cu: collectives of ranks that share a GPU (executor/comm/loopback/). Arithmetic is that of executor/comm/reduce.c:
 * in the type of the elements, from the first source to the last, 16-bit floats in 32 bits and rounded once. */
#include "executor/devices/cuda/kernels/kernel.h"

/* --- fp16, as executor/kernels/half.c has it: what the GPU itself makes of NaN has other bits ---------------------- */

DEVICE float loop_load_f16(unsigned short h) {
    unsigned sign = (unsigned)(h & 0x8000u) << 16, fields = (unsigned)(h & 0x7fffu) << 13;
    unsigned subnormal = bits_of_float(float_of_bits(fields + 0x38800000u) - 0x1p-14f), special = fields | 0x7f800000u;
    unsigned finite = fields < 0x00800000u ? subnormal : fields + 0x38000000u;
    return float_of_bits(sign | (fields >= 0x0f800000u ? special : finite));
}
DEVICE unsigned short loop_store_f16(float f) {
    unsigned u = bits_of_float(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    unsigned normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    unsigned subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
    unsigned nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    unsigned finite = magnitude < 0x38800000u ? subnormal : normal;
    unsigned special = magnitude > 0x7f800000u ? nan : 0x7c00u;
    return (unsigned short)(sign | (magnitude >= 0x477ff000u ? special : finite));
}

/* --- reductions --------------------------------------------------------------------------------------------------- */

#define LOOP_IS(x) (x)
#define LOOP_TRUTH(x) ((x) != 0)

/* Sums and products wrap around in `whole`. */
#define LOOP(name, element, value, whole, load, store)                                                                 \
    DEVICE value loop_##name##_of(int op, value a, value b) {                                                          \
        switch (op) {                                                                                                  \
        case LOOP_SUM: return (value)((whole)a + (whole)b);                                                            \
        case LOOP_PROD: return (value)((whole)a * (whole)b);                                                           \
        case LOOP_MAX: return b > a || b != b ? b : a;                                                                 \
        default: return b < a || b != b ? b : a;                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    DEVICE element loop_##name##_at(const loop_args *a, cuda_index at) {                                               \
        value all = (value)load(((const element *)a->srcs[0])[at]);                                                    \
        for (int k = 1; k < a->nsrcs; k++)                                                                             \
            all = loop_##name##_of(a->op, all, (value)load(((const element *)a->srcs[k])[at]));                        \
        if (a->averages) all = (value)(all / (value)a->nsrcs);                                                         \
        return (element)store(all);                                                                                    \
    }                                                                                                                  \
    ITEM_KERNEL(loop_##name, loop_args) {                                                                              \
        cuda_index at = a->first + i;                                                                                  \
        if (!a->part) {                                                                                                \
            element all = loop_##name##_at(a, at);                                                                     \
            for (int k = 0; k < a->ndsts; k++) ((element *)a->dsts[k])[at] = all;                                      \
            return;                                                                                                    \
        }                                                                                                              \
        for (int k = 0; k < a->ndsts; k++)                                                                             \
            ((element *)a->dsts[k])[at] = loop_##name##_at(a, k * a->part + at);                                       \
    }

LOOP(f32, float, float, float, LOOP_IS, LOOP_IS)
LOOP(f64, double, double, double, LOOP_IS, LOOP_IS)
LOOP(f16, unsigned short, float, float, loop_load_f16, loop_store_f16)
LOOP(bf16, unsigned short, float, float, float_of_bf16, bf16_of_float)
LOOP(i64, long long, long long, unsigned long long, LOOP_IS, LOOP_IS)
LOOP(i32, int, int, unsigned, LOOP_IS, LOOP_IS)
LOOP(i16, short, short, int, LOOP_IS, LOOP_IS)
LOOP(i8, signed char, signed char, int, LOOP_IS, LOOP_IS)
LOOP(u8, unsigned char, unsigned char, int, LOOP_IS, LOOP_IS)
LOOP(u64, unsigned long long, unsigned long long, unsigned long long, LOOP_IS, LOOP_IS)
LOOP(bool, unsigned char, unsigned char, int, LOOP_TRUTH, LOOP_IS)

/* --- moves in place ----------------------------------------------------------------------------------------------- */

/* One thread does all that there is to do of a word's place in the parts. Nothing is written before it is read.
 * Gathering, part 0 is where sources are: it comes last. Scattering, the root's own result is where part 0 was, which
 * has gone by then. */
#define LOOP_MOVE(name, word)                                                                                          \
    DEVICE word loop_##name##_from(const loop_move_args *a, int member, int part, cuda_index at) {                     \
        return ((const word *)a->srcs[member])[part * a->part + at];                                                   \
    }                                                                                                                  \
    DEVICE void loop_##name##_to(const loop_move_args *a, int member, int part, cuda_index at, word value) {           \
        ((word *)a->dsts[member])[part * a->part + at] = value;                                                        \
    }                                                                                                                  \
    ITEM_KERNEL(loop_##name, loop_move_args) {                                                                         \
        cuda_index at = a->first + i;                                                                                  \
        int n = a->nmembers;                                                                                           \
        for (int k = 0; k < n; k++) {                                                                                  \
            int part = (k + 1) % n;                                                                                    \
            word whole = loop_##name##_from(a, a->kind == LOOP_SCATTER ? a->root : a->kind == LOOP_GATHER ? part : k,  \
                                            a->kind == LOOP_GATHER ? 0 : k, at);                                       \
            if (a->kind == LOOP_SCATTER) loop_##name##_to(a, k, 0, at, whole);                                         \
            for (int m = 0; a->kind == LOOP_GATHER && m < n; m++) loop_##name##_to(a, m, part, at, whole);             \
            if (a->kind != LOOP_EXCHANGE) continue;                                                                    \
            loop_##name##_to(a, k, k, at, whole);                                                                      \
            for (int m = k + 1; m < n; m++) {                                                                          \
                word there = loop_##name##_from(a, m, k, at), back = loop_##name##_from(a, k, m, at);                  \
                loop_##name##_to(a, k, m, at, there);                                                                  \
                loop_##name##_to(a, m, k, at, back);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }

LOOP_MOVE(bytes, unsigned char)
LOOP_MOVE(words, unsigned)

/* --- time --------------------------------------------------------------------------------------------------------- */

/* The stand-in's clock counts it (tests/standin/); without that it takes nothing there. */
ITEM_KERNEL(loop_delay, loop_delay_args) {
    (void)i;
#if defined(__CUDACC__)
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        __nanosleep(200);
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < (unsigned long long)a->ns);
#else
    (void)a;
#endif
}
