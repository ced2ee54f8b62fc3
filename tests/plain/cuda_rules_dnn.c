/* cuda_rules_dnn.c: what the stand-ins for cuBLASLt and cuDNN do not let pass (cuda_rules.c). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/cuda_rule.h"
#include "tests/support/plain.h"

/* --- products ----------------------------------------------------------------------------------------------------- */

static void ask_for_any_order(void) {
    unsigned schemes = 7;
    char preference[64];
    CALL(rule_products, "cublasLtMatmulPreferenceSetAttribute", (void *, int, const void *, size_t), preference, 3,
         &schemes, sizeof schemes);
}

/* Of one element, with what the library says of it; the factor and the workspace are so many bytes beyond where they
 * ought to be. */
static void multiply(size_t factor_at, size_t workspace_at) {
    enum { FP32_SUMS = 68, FP32 = 0 };
    static _Alignas(256) char bytes[16384], desc[1024], layout[512], preference[512], result[1024];
    static const float one = 1, zero = 0;
    int n = 0;
    CALL(rule_products, "cublasLtMatmulDescInit_internal", (void *, size_t, int, int), desc, 256, FP32_SUMS, FP32);
    CALL(rule_products, "cublasLtMatrixLayoutInit_internal",
         (void *, size_t, int, unsigned long long, unsigned long long, long long), layout, 64, FP32, 1, 1, 1);
    CALL(rule_products, "cublasLtMatmulPreferenceInit_internal", (void *, size_t), preference, 64);
    CALL(rule_products, "cublasLtMatmulAlgoGetHeuristic",
         (void *, void *, void *, void *, void *, void *, void *, int, void *, int *), NULL, desc, layout, layout,
         layout, layout, preference, 1, result, &n);
    CALL(rule_products, "cublasLtMatmul",
         (void *, void *, const void *, const void *, void *, const void *, void *, const void *, const void *, void *,
          void *, void *, const void *, void *, size_t, void *),
         NULL, desc, &one, bytes + factor_at, layout, bytes, layout, &zero, bytes + 512, layout, bytes + 512, layout,
         result, bytes + 1024 + workspace_at, 8192, rule_stream());
}
static void multiply_misaligned(void) {
    multiply(4, 0);
}
static void work_misaligned(void) {
    multiply(0, 64);
}

/* --- convolutions ------------------------------------------------------------------------------------------------- */

enum { ADDS_IN_ANY_ORDER, ADDS_IN_ORDER, FMA_MATH = 3 };
#define DNN(function, types, ...) CALL(rule_convolutions, function, types, __VA_ARGS__)

/* Of one element. */
static void *new_tensor(void) {
    void *t = NULL;
    DNN("cudnnCreateTensorDescriptor", (void **), &t);
    DNN("cudnnSetTensor4dDescriptor", (void *, int, int, int, int, int, int), t, 0, 0, 1, 1, 1, 1);
    return t;
}
static void *new_handle(void *stream) {
    void *handle = NULL;
    DNN("cudnnCreate", (void **), &handle);
    DNN("cudnnSetStream", (void *, void *), handle, stream);
    return handle;
}
static void convolve_at(void *handle, int algorithm, int math, void *workspace) {
    static const float one = 1, zero = 0;
    void *filter = NULL, *how = NULL, *x = new_tensor(), *y = new_tensor();
    DNN("cudnnCreateFilterDescriptor", (void **), &filter);
    DNN("cudnnSetFilter4dDescriptor", (void *, int, int, int, int, int, int), filter, 0, 0, 1, 1, 1, 1);
    DNN("cudnnCreateConvolutionDescriptor", (void **), &how);
    DNN("cudnnSetConvolution2dDescriptor", (void *, int, int, int, int, int, int, int, int), how, 0, 0, 1, 1, 1, 1, 1,
        0);
    DNN("cudnnSetConvolutionMathType", (void *, int), how, math);
    DNN("cudnnConvolutionForward",
        (void *, const void *, void *, const void *, void *, const void *, void *, int, void *, size_t, const void *,
         void *, void *),
        handle, &one, x, NULL, filter, NULL, how, algorithm, workspace, 0, &zero, y, NULL);
}
static void convolve(void *handle, int algorithm, int math) {
    convolve_at(handle, algorithm, math, NULL);
}
static void convolve_misaligned(void) {
    static _Alignas(256) char bytes[512];
    convolve_at(new_handle(rule_stream()), ADDS_IN_ORDER, FMA_MATH, bytes + 64);
}
static void convolve_in_any_order(void) {
    convolve(new_handle(rule_stream()), ADDS_IN_ANY_ORDER, FMA_MATH);
}
static void convolve_with_rounding(void) {
    convolve(new_handle(rule_stream()), ADDS_IN_ORDER, 0);
}
static void *convolve_beside(void *handle) {
    convolve(handle, ADDS_IN_ORDER, FMA_MATH);
    return NULL;
}
static void share_handle(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, convolve_beside, new_handle(rule_stream()));
    pthread_join(thread, NULL);
}
static void *set_stream_beside(void *handle) {
    DNN("cudnnSetStream", (void *, void *), handle, rule_stream());
    return NULL;
}
static void set_stream_of_another(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, set_stream_beside, new_handle(rule_stream()));
    pthread_join(thread, NULL);
}
static void leave_handle(void) {
    void *s = rule_stream();
    new_handle(s);
    RUNTIME("cudaStreamDestroy", (void *), s);
    exit(0);
}
static void leave_descriptor(void) {
    new_tensor();
    exit(0);
}

static const rule rules[] = {
    {ask_for_any_order, "a product whose sum has no order"},
    {multiply_misaligned, "a product's first factor is not aligned to 256 bytes, as it was said"},
    {work_misaligned, "a product's workspace is not aligned to 256 bytes"},
};

static const rule dnn_rules[] = {
    {convolve_in_any_order, "a convolution whose sum has no order"},
    {convolve_with_rounding, "a convolution that rounds its factors"},
    {share_handle, "a handle of cuDNN whose stream another thread set"},
    {set_stream_of_another, "two threads set the stream of a handle of cuDNN"},
    {convolve_misaligned, "a convolution's workspace is not aligned to 256 bytes"},
    {leave_handle, "1 handles of cuDNN left at the end"},
    {leave_descriptor, "1 descriptors left at the end"},
};

int main(void) {
    char what[2500];
    if (!rules_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check(rule_holds(&rules[i], what, sizeof what), "%s", what);
    for (size_t i = 0; i < sizeof dnn_rules / sizeof *dnn_rules && rule_convolutions; i++)
        check(rule_holds(&dnn_rules[i], what, sizeof what), "%s", what);
    return report_checks();
}
