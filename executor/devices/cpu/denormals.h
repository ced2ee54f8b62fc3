/* denormals.h: numbers too small for all digits (below 1.2e-38 in fp32) count as zero while kernels run, and results so
 * small become zero.
 *
 * A processor that multiplies such numbers stops for about a hundred cycles at each. Training makes them in numbers:
 * the gradients of masked attention scores are 1e-28 times what a row has. TensorFlow, XLA and Paddle outside its
 * training executor flush them too (paddle/phi/core/platform/denormal.h). It is a mode of the thread: that of a host is
 * put back after each step. Elsewhere than on x86 and ARM nothing changes. */
#ifndef EXECUTOR_DEVICES_CPU_DENORMALS_H
#define EXECUTOR_DEVICES_CPU_DENORMALS_H

#include <stdint.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* Sets the mode of this thread; the one before. */
static inline uint64_t denormals_flush(void) {
#if defined(__SSE2__)
    enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x0040 };
    uint32_t was = _mm_getcsr();
    _mm_setcsr(was | FLUSH_RESULTS | FLUSH_OPERANDS);
    return was;
#elif defined(__aarch64__)
    uint64_t was;
    __asm__ volatile("mrs %0, fpcr" : "=r"(was));
    __asm__ volatile("msr fpcr, %0" : : "r"(was | 1u << 24));
    return was;
#else
    return 0;
#endif
}

static inline void denormals_restore(uint64_t was) {
#if defined(__SSE2__)
    _mm_setcsr((uint32_t)was);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(was));
#else
    (void)was;
#endif
}

#endif
