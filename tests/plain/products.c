/* products.c: matrix products in every way that shapes and layouts lead to, against a naive reference: the kernels that
 * this machine runs, and the plain ones; and on 3 threads to the bit what one thread gives. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "executor/devices/cpu/pool.h"
#include "executor/kernels/matmul/gemm_matrices.h"
#include "tests/support/kernel_run.h"

static const struct {
    int64_t m, n, k;
} shapes[] = {
    {1, 1, 1},       {7, 5, 3},       {8, 48, 16}, {33, 65, 19}, /* tiles that are cut off */
    {128, 100, 30},  {100, 130, 512},                            /* B as it lies, and small blocks */
    {190, 210, 300}, /* panel by panel, two blocks of depth; a row is left over */
    {300, 450, 70},  /* strips after the first, two blocks of columns */
    {261, 97, 1024}, /* A's rows pages apart */
    {512, 120, 40},  /* A's columns pages apart */
};
enum { NSHAPES = sizeof shapes / sizeof *shapes, NSAMPLES = 400 };

static int npassed, nfailed;

static void require(weft_status status) {
    if (!status) return;
    printf("%s\n", weft_status_message(status));
    exit(1);
}

typedef struct product {
    int64_t m, n, k;
    bool ta, tb;
    float *a, *b;
} product;

static double reference(const product *p, int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t d = 0; d < p->k; d++)
        sum += (double)p->a[p->ta ? d * p->m + i : i * p->k + d] * (double)p->b[p->tb ? j * p->k + d : d * p->n + j];
    return sum;
}

/* Corners and some elements between them. */
static void check(const product *p, const char *which, double alpha, const float *before, double beta, const float *c) {
    double worst = 0;
    for (int64_t s = 0; s < NSAMPLES; s++) {
        int64_t at = s < 2 ? s * (p->m * p->n - 1) : s * 7919 % (p->m * p->n);
        double want = alpha * reference(p, at / p->n, at % p->n) + (before ? beta * (double)before[at] : 0);
        double error = fabs((double)c[at] - want);
        if (!(error <= worst)) worst = error;
    }
    bool right = worst <= 2e-6 * sqrt((double)p->k) + 1e-6;
    right ? npassed++ : nfailed++;
    if (!right)
        printf("%s %lld x %lld x %lld, transposed %d %d: off by %g\n", which, (long long)p->m, (long long)p->n,
               (long long)p->k, p->ta, p->tb, worst);
}

static void check_same(const product *p, const char *which, const float *c, const float *other) {
    bool same = !memcmp(c, other, (size_t)(p->m * p->n) * sizeof *c);
    same ? npassed++ : nfailed++;
    if (!same)
        printf("%s %lld x %lld x %lld, transposed %d %d: threads differ\n", which, (long long)p->m, (long long)p->n,
               (long long)p->k, p->ta, p->tb);
}

/* By the kernel that this machine runs. */
static void run_kernel(const product *p, pool_slot *place, float *c) {
    kernel_test t;
    kernel_test_init(&t, "matmul_v2");
    kernel_put_bool(&t, "trans_x", p->ta);
    kernel_put_bool(&t, "trans_y", p->tb);
    kernel_test_in(&t, "X", WEFT_FP32, p->a, p->ta ? p->k : p->m, p->ta ? p->m : p->k, -1);
    kernel_test_in(&t, "Y", WEFT_FP32, p->b, p->tb ? p->n : p->k, p->tb ? p->k : p->n, -1);
    kernel_test_out(&t, "Out", WEFT_FP32, c, p->m, p->n, -1);
    if (place) t.slot = place, t.nthreads = 3;
    require(kernel_test_run(&t));
    kernel_test_fini(&t);
}

static void run_plain(const product *p, pool_slot *place, float alpha, float beta, float *c) {
    gemm g = {.m = p->m, .n = p->n, .k = p->k, .a = p->a, .lda = p->ta ? p->m : p->k, .a_transposed = p->ta};
    g.alpha = alpha, g.beta = beta, g.c = c, g.ldc = p->n;
    g.b = p->b, g.ldb = p->tb ? p->k : p->n, g.b_transposed = p->tb;
    gemm_matrices(&(kernel_call){.nthreads = place ? 3 : 1, .slot = place}, &g);
}

static void try_product(product *p, pool_slot *place) {
    int64_t count = p->m * p->n;
    p->a = kernel_noise((size_t)(p->m * p->k), 21), p->b = kernel_noise((size_t)(p->k * p->n), 22);
    float *before = kernel_noise((size_t)count, 23), *c = kernel_noise((size_t)count, 23),
          *c3 = kernel_noise((size_t)count, 23);
    run_plain(p, NULL, -2, 0.5F, c);
    run_plain(p, place, -2, 0.5F, c3);
    check(p, "plain", -2, before, 0.5, c);
    check_same(p, "plain", c, c3);
    run_kernel(p, NULL, c);
    run_kernel(p, place, c3);
    check(p, "kernel", 1, NULL, 0, c);
    check_same(p, "kernel", c, c3);
    free(p->a), free(p->b), free(before), free(c), free(c3);
}

int main(void) {
    weft_allocator allocator = base_libc_allocator();
    thread_pool *pool;
    require(thread_pool_create(&allocator, NULL, 2, 1, false, &pool));
    for (int i = 0; i < NSHAPES; i++)
        for (int layout = 0; layout < 4; layout++) {
            product p = {.m = shapes[i].m, .n = shapes[i].n, .k = shapes[i].k, .ta = layout & 1, .tb = layout & 2};
            try_product(&p, thread_pool_slot(pool, 0));
        }
    thread_pool_destroy(pool);
    printf("%d passed, %d failed\n", npassed, nfailed);
    return nfailed > 0;
}
