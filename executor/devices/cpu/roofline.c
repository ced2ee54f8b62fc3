/* roofline.c: what this machine can do at best: fused multiply-adds, and bytes from cache and from memory.
 *
 * The idea of a roofline (Williams, Waterman, Patterson 2009): a kernel is bound by arithmetic or by moving bytes, and
 * what a machine does in loops of only that kind is its roofline. A dozen independent chains of multiply-adds keep the
 * pipelines full; a triad a = b + s c moves bytes. Each loop runs for a few milliseconds and the best short round
 * counts, since others may use the machine. */
#include <pthread.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "executor/devices/cpu/cpu.h"
#include "executor/profile.h"

enum { CHAINS = 12, ROUNDS = 12, FMA_ROUNDS = 20000, MOST_NBYTES = 3 * (16 << 20), NSIZES = 3, MOST_LANES = 16 };

typedef struct loops_of {
    int nlanes;
    /* CHAINS vectors, `nrounds` times; all are stored, or a compiler would compute the last alone. */
    void (*multiply_add)(int64_t nrounds, float *sink);
    void (*triad)(int64_t n, float *a, const float *b, const float *c); /* n a multiple of 16 */
} loops_of;

#if defined(__x86_64__)
#define DEFINE_LOOPS(suffix, isa, lanes, type, splat, load, store, fma)                                                \
    __attribute__((target(isa))) static void multiply_add_##suffix(int64_t nrounds, float *sink) {                     \
        type chain[CHAINS], factor = splat(0.999F), addend = splat(1e-3F);                                             \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) chain[i] = splat((float)i);                          \
        for (int64_t t = 0; t < nrounds; t++) {                                                                        \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) chain[i] = fma(chain[i], factor, addend);        \
        }                                                                                                              \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) store(sink + i * lanes, chain[i]);                   \
    }                                                                                                                  \
    __attribute__((target(isa))) static void triad_##suffix(int64_t n, float *a, const float *b, const float *c) {     \
        type factor = splat(0.5F);                                                                                     \
        for (int64_t i = 0; i < n; i += lanes) store(a + i, fma(load(c + i), factor, load(b + i)));                    \
    }
DEFINE_LOOPS(avx512, "avx512f", 16, __m512, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps)
DEFINE_LOOPS(avx2, "avx2,fma", 8, __m256, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps)
#undef DEFINE_LOOPS
#endif

typedef float four __attribute__((vector_size(16), aligned(4), may_alias));

static void multiply_add_plain(int64_t nrounds, float *sink) {
    four chain[CHAINS], factor = {0.999F, 0.999F, 0.999F, 0.999F}, addend = {1e-3F, 1e-3F, 1e-3F, 1e-3F};
    for (int i = 0; i < CHAINS; i++) chain[i] = factor + (float)i;
    for (int64_t t = 0; t < nrounds; t++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) chain[i] = chain[i] * factor + addend;
    }
    for (int i = 0; i < CHAINS; i++) ((four *)sink)[i] = chain[i];
}

static void triad_plain(int64_t n, float *a, const float *b, const float *c) {
    for (int64_t i = 0; i < n; i += 4) *(four *)(a + i) = *(const four *)(b + i) + *(const four *)(c + i) * 0.5F;
}

static loops_of best_loops(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return (loops_of){16, multiply_add_avx512, triad_avx512};
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return (loops_of){8, multiply_add_avx2, triad_avx2};
#endif
    return (loops_of){4, multiply_add_plain, triad_plain};
}

/* --- one thread --------------------------------------------------------------------------------------------------- */

typedef struct prober {
    loops_of loops;
    size_t nbytes[NSIZES]; /* of this thread's arrays */
    float *arrays;         /* MOST_NBYTES */
    double flops, bandwidth[NSIZES];
    pthread_t thread;
    bool has_thread;
} prober;

static double rate(double amount, int64_t start) {
    int64_t ns = wait_clock_ns() - start;
    return amount * 1e9 / (double)(ns > 0 ? ns : 1);
}

static void keep_larger(double *best, double value) {
    if (value > *best) *best = value;
}

/* The best of some rounds over three arrays of nbytes together, each round `repeats` times. */
static double probe_triad(const prober *p, size_t nbytes, int rounds, int repeats) {
    int64_t n = (int64_t)(nbytes / 3 / sizeof(float)) / 16 * 16;
    double best = 0;
    for (int round = 0; round < rounds; round++) {
        int64_t start = wait_clock_ns();
        for (int i = 0; i < repeats; i++) p->loops.triad(n, p->arrays, p->arrays + n, p->arrays + 2 * n);
        keep_larger(&best, rate(3.0 * (double)n * sizeof(float) * repeats, start));
    }
    return best;
}

static void *probe(void *arg) {
    prober *p = arg;
    float sink[CHAINS * MOST_LANES];
    double flops = 2.0 * FMA_ROUNDS * CHAINS * p->loops.nlanes;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t start = wait_clock_ns();
        p->loops.multiply_add(FMA_ROUNDS, sink);
        keep_larger(&p->flops, rate(flops, start));
    }
    for (int i = 0; i < NSIZES; i++) {
        int repeats = (int)((16 << 20) / p->nbytes[i]) + 1;
        p->bandwidth[i] = probe_triad(p, p->nbytes[i], i ? 3 : ROUNDS, repeats);
    }
    return NULL;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static size_t level2_nbytes(void) {
#ifdef _SC_LEVEL2_CACHE_SIZE
    long nbytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (nbytes >= 64 << 10 && nbytes <= 4 << 20) return (size_t)nbytes;
#endif
    return 512 << 10;
}

static weft_status start_prober(const weft_allocator *a, prober *p, bool own_thread) {
    p->loops = best_loops();
    p->nbytes[0] = level2_nbytes() / 2;
    p->nbytes[1] = level2_nbytes() * 4;
    p->nbytes[2] = MOST_NBYTES;
    p->arrays = base_alloc(a, MOST_NBYTES);
    if (!p->arrays) return base_out_of_memory();
    for (size_t i = 0; i < MOST_NBYTES / sizeof(float); i++) p->arrays[i] = 1;
    if (!own_thread) return NULL;
    int failed = pthread_create(&p->thread, NULL, probe, p);
    if (failed)
        return weft_status_create(WEFT_IO, NULL, "cannot start a thread to measure the machine: %s", strerror(failed));
    p->has_thread = true;
    return NULL;
}

weft_status cpu_measure(device *d, int nthreads, roofline *out_roofline) {
    const weft_allocator *allocator = d->allocator;
    roofline sum = {.nthreads = nthreads};
    size_t n = (size_t)nthreads;
    prober *probers = base_alloc(allocator, n * sizeof *probers);
    if (!probers) return base_out_of_memory();
    memset(probers, 0, n * sizeof *probers);
    weft_status status = NULL;
    for (size_t i = n; i-- > 0;) TRY_DONE(start_prober(allocator, &probers[i], i > 0));
    probe(&probers[0]);
done:
    for (size_t i = 0; i < n; i++) {
        if (probers[i].has_thread) pthread_join(probers[i].thread, NULL);
        sum.flops += probers[i].flops;
        for (int k = 0; k < NSIZES; k++) {
            sum.nbytes[k] += probers[i].nbytes[k];
            sum.bandwidth[k] += probers[i].bandwidth[k];
        }
        base_free(allocator, probers[i].arrays, MOST_NBYTES);
    }
    base_free(allocator, probers, n * sizeof *probers);
    if (!status) *out_roofline = sum;
    return status;
}
