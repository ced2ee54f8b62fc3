#include "tests/support/kernel_run.h"

#include <stdio.h>
#include <stdlib.h>

/* 64-byte aligned bytes of 0xff: an fp32 or fp64 read from them is NaN. */
static void *garbage(arena *a, size_t nbytes) {
    char *bytes = arena_alloc(a, nbytes + 64);
    if (!bytes) return NULL;
    bytes += 64 - (uintptr_t)bytes % 64;
    memset(bytes, 0xff, nbytes);
    return bytes;
}

/* What prepare sees of tensors: no data. */
static tensor *types_of(const tensor *tensors, uint32_t count, arena *a) {
    tensor *types = ARENA_ARRAY(a, tensor, count + 1);
    for (uint32_t i = 0; types && i < count; i++) {
        types[i] = tensors[i];
        types[i].data = NULL;
        types[i].rows = NULL;
    }
    return types;
}

/* The inputs as an executor gives them: without the bytes of those that a kernel only knows the type of. */
static tensor *readable(const op_schema *schema, const tensor *in, const uint32_t *in_first, arena *a) {
    uint32_t count = in_first[schema->ninputs];
    tensor *copy = ARENA_ARRAY(a, tensor, count + 1);
    if (copy && count) memcpy(copy, in, count * sizeof *in);
    for (size_t s = 0; copy && s < schema->ninputs; s++)
        for (uint32_t k = in_first[s]; schema->inputs[s].only_type && k < in_first[s + 1]; k++)
            copy[k].data = copy[k].rows = NULL;
    return copy;
}

/* On `nthreads` threads: helpers of a pool, asked at `slot`. */
static weft_status run_on(int nthreads, struct pool_slot *place, weft_op *op, const tensor *in,
                          const uint32_t *in_first, tensor *out, const uint32_t *out_first, uint64_t op_seed,
                          arena *a) {
    const op_schema *schema = op_schema_of(op);
    const kernel *k = kernel_find(schema);
    if (!k) return weft_status_create(WEFT_UNSUPPORTED, NULL, "%s has no kernel", op->type->bytes);
    kernel_prepare p = {.op = op, .schema = schema, .in_first = in_first, .out_first = out_first, .arena = a};
    p.in = types_of(in, in_first[schema->ninputs], a);
    p.out = types_of(out, out_first[schema->noutputs], a);
    p.nranks = p.ring_nranks = 1;
    p.nthreads = nthreads;
    if (!p.in || !p.out) return base_out_of_memory();
    kernel_run_fn run;
    TRY(kernel_bind(&p, &run));
    tensor *seen = readable(schema, in, in_first, a);
    if (!seen) return base_out_of_memory();
    kernel_call c = {.schema = schema, .in = seen, .out = out, .in_first = in_first, .out_first = out_first};
    c.state = p.state;
    c.split = p.split;
    c.nranks = 1;
    c.nthreads = nthreads;
    c.slot = place;
    c.seed = 1;
    c.op_seed = op_seed;
    c.workspace = garbage(a, p.workspace_nbytes);
    return c.workspace ? run(&c) : base_out_of_memory();
}

weft_status kernel_run_op(weft_op *op, const tensor *in, const uint32_t *in_first, tensor *out,
                          const uint32_t *out_first, uint64_t op_seed, arena *a) {
    return run_on(1, NULL, op, in, in_first, out, out_first, op_seed, a);
}

/* --- ops made by hand --------------------------------------------------------------------------------------------- */

static void require(weft_status status) {
    if (!status) return;
    fprintf(stderr, "%s\n", weft_status_message(status));
    abort();
}

/* One for all: under ASan a context takes longer than most kernels. */
static weft_context *shared_context(void) {
    static weft_context *context;
    if (!context) require(weft_context_create(NULL, &context));
    return context;
}

void kernel_test_init(kernel_test *t, const char *op_type) {
    *t = (kernel_test){.op_seed = 1, .nthreads = 1, .context = shared_context()};
    require(weft_program_create(t->context, &t->program));
    require(weft_op_create(t->program, op_type, &t->op));
}

void kernel_test_fini(kernel_test *t) {
    weft_program_destroy(t->program);
}

static tensor dense(weft_dtype dtype, void *data, int64_t d0, int64_t d1, int64_t d2) {
    const int64_t dims[] = {d0, d1, d2};
    tensor t = {.data = data, .dtype = dtype, .numel = 1, .height = -1};
    for (int i = 0; i < 3 && dims[i] >= 0; i++) t.numel *= t.dims[t.ndim++] = dims[i];
    return t;
}

tensor *kernel_test_in(kernel_test *t, const char *slot_name, weft_dtype dtype, const void *data, int64_t d0,
                       int64_t d1, int64_t d2) {
    t->in[t->nin].slot = slot_name;
    t->in[t->nin].tensor = dense(dtype, (void *)(uintptr_t)data, d0, d1, d2);
    return &t->in[t->nin++].tensor;
}

tensor *kernel_test_out(kernel_test *t, const char *slot_name, weft_dtype dtype, void *data, int64_t d0, int64_t d1,
                        int64_t d2) {
    t->out[t->nout].slot = slot_name;
    t->out[t->nout].tensor = dense(dtype, data, d0, d1, d2);
    return &t->out[t->nout++].tensor;
}

void kernel_put_longs(kernel_test *t, const char *attr, size_t count, const int64_t *values) {
    require(weft_op_set_attr_longs(t->op, attr, count, values));
}
void kernel_put_int(kernel_test *t, const char *attr, int64_t value) {
    require(weft_op_set_attr_int(t->op, attr, value));
}
void kernel_put_float(kernel_test *t, const char *attr, double value) {
    require(weft_op_set_attr_float(t->op, attr, value));
}
void kernel_put_bool(kernel_test *t, const char *attr, bool value) {
    require(weft_op_set_attr_bool(t->op, attr, value));
}
void kernel_put_string(kernel_test *t, const char *attr, const char *value) {
    require(weft_op_set_attr_string(t->op, attr, value));
}

weft_status kernel_test_run(kernel_test *t) {
    const op_schema *schema = op_schema_of(t->op);
    tensor in[KERNEL_TEST_ARGS], out[KERNEL_TEST_ARGS];
    uint32_t in_first[64] = {0}, out_first[64] = {0}, n = 0;
    for (size_t s = 0; s < schema->ninputs; s++) {
        for (int i = 0; i < t->nin; i++)
            if (strcmp(t->in[i].slot, schema->inputs[s].name) == 0) in[n++] = t->in[i].tensor;
        in_first[s + 1] = n;
    }
    n = 0;
    for (size_t s = 0; s < schema->noutputs; s++) {
        for (int i = 0; i < t->nout; i++)
            if (strcmp(t->out[i].slot, schema->outputs[s].name) == 0) out[n++] = t->out[i].tensor;
        out_first[s + 1] = n;
    }
    arena a;
    arena_init(&a, &t->context->allocator);
    weft_status status = run_on(t->nthreads, t->slot, t->op, in, in_first, out, out_first, t->op_seed, &a);
    arena_fini(&a);
    return status;
}

weft_code kernel_test_code(kernel_test *t) {
    weft_status status = kernel_test_run(t);
    weft_code code = weft_status_code(status);
    weft_status_free(status);
    return code;
}

float *kernel_noise(size_t count, uint32_t seed) {
    float *x = malloc((count + 1) * sizeof *x);
    if (!x) abort();
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-24f - 0.5f;
    }
    return x;
}
