/* kernel_run.h: one kernel, called as an executor would, on tensors of the test's own. */
#ifndef TESTS_SUPPORT_KERNEL_RUN_H
#define TESTS_SUPPORT_KERNEL_RUN_H

#include "executor/kernel.h"

/* prepare and run of `op`'s kernel. The workspace starts as garbage. WEFT_UNSUPPORTED for an op without a kernel. */
WEFT_MUST_USE weft_status kernel_run_op(weft_op *op, const tensor *in, const uint32_t *in_first, tensor *out,
                                        const uint32_t *out_first, uint64_t op_seed, arena *a);

enum { KERNEL_TEST_ARGS = 16 };

/* An op under construction: kernel_test_init, arguments in any order, attrs on `op`, kernel_test_run. */
typedef struct kernel_test {
    weft_context *context;
    weft_program *program;
    weft_op *op;
    struct {
        const char *slot;
        tensor tensor;
    } in[KERNEL_TEST_ARGS], out[KERNEL_TEST_ARGS];
    int nin, nout;
    uint64_t op_seed;
    int nthreads; /* 1 by default */
    struct pool_slot *slot;
} kernel_test;

void kernel_test_init(kernel_test *t, const char *op_type);
void kernel_test_fini(kernel_test *t);
/* A dense argument of up to 3 dims (-1: no further dim); `data` is the caller's. Returned for rows to be added. */
tensor *kernel_test_in(kernel_test *t, const char *slot_name, weft_dtype dtype, const void *data, int64_t d0,
                       int64_t d1, int64_t d2);
tensor *kernel_test_out(kernel_test *t, const char *slot_name, weft_dtype dtype, void *data, int64_t d0, int64_t d1,
                        int64_t d2);
/* Attrs of the op. */
void kernel_put_longs(kernel_test *t, const char *attr, size_t count, const int64_t *values);
void kernel_put_int(kernel_test *t, const char *attr, int64_t value);
void kernel_put_float(kernel_test *t, const char *attr, double value);
void kernel_put_bool(kernel_test *t, const char *attr, bool value);
void kernel_put_string(kernel_test *t, const char *attr, const char *value);
WEFT_MUST_USE weft_status kernel_test_run(kernel_test *t);
/* The code of a run, freeing its status. */
weft_code kernel_test_code(kernel_test *t);

/* So many numbers in [-0.5, 0.5), and room for one more; to be freed. Ends the test where there is no memory. */
float *kernel_noise(size_t count, uint32_t seed);

#endif
