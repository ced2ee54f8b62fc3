/* training.c: see training.h. */
#include "tests/support/training.h"

#include <stdio.h>
#include <stdlib.h>

/* --- a context that counts allocations ---------------------------------------------------------------------------- */

static void *counting_resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    counter *c = user;
    (void)old_nbytes;
    c->nallocations++;
    c->nlive += (new_nbytes != 0) - (ptr != NULL);
    if (new_nbytes) return realloc(ptr, new_nbytes);
    free(ptr);
    return NULL;
}

weft_context *new_context(counter *c) {
    weft_context *context = NULL;
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = {counting_resize, c}};
    must(weft_context_create(&options, &context));
    return context;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static weft_var *add_var(weft_block *b, const char *n, weft_dtype dtype, int64_t count, bool persistable) {
    weft_var *v;
    must(weft_block_add_var(b, n, dtype, 1, &count, &v));
    if (persistable) weft_var_set_persistable(v, true, false);
    return v;
}

static weft_op *add_op(weft_block *b, const char *type, int role) {
    weft_op *op;
    must(weft_op_create(b->program, type, &op));
    must(weft_op_set_attr_int(op, "op_role", role));
    weft_block_insert_before(b, NULL, op);
    return op;
}

static void on_stream(weft_op *op, const char *stream) {
    op_dist *dist;
    must(op_dist_get(op, &dist));
    dist->execution_stream = stream;
}

static void add_all_reduce(weft_block *b, weft_var *v, int64_t ring_id, const char *stream) {
    weft_op *op = add_op(b, "c_allreduce_sum", WEFT_ROLE_BACKWARD);
    must(weft_op_add_input(op, "X", v));
    must(weft_op_add_output(op, "Out", v));
    must(weft_op_set_attr_int(op, "ring_id", ring_id));
    must(weft_op_set_attr_bool(op, "use_calc_stream", true));
    on_stream(op, stream);
}

const variation plain = {-1, 0, 0, "gradient_sync"};

weft_program *training_program(weft_context *context, variation how) {
    weft_program *p;
    must(weft_program_create(context, &p));
    weft_block *b = weft_program_block(p, 0);
    weft_var *x[2], *w[NPARAMS], *g[NPARAMS], *lr = add_var(b, "lr", WEFT_FP32, 1, true);
    for (int k = 0; k < NPARAMS; k++) {
        char n[32];
        int64_t count = k == NPARAMS - 1 && how.last_count ? how.last_count : NELEMENTS;
        snprintf(n, sizeof n, "w_%d", k);
        w[k] = add_var(b, n, WEFT_FP32, count, true);
        snprintf(n, sizeof n, k == 0 ? "w_%d@GRAD" : "w_%d</script>@GRAD", k); /* names are not to be trusted */
        g[k] = add_var(b, n, WEFT_FP32, count, false);
    }
    x[0] = add_var(b, "x", WEFT_FP32, NELEMENTS, true);
    x[1] = how.last_count ? add_var(b, "x_last", WEFT_FP32, how.last_count, true) : x[0];
    for (int k = 0; k < NPARAMS; k++) {
        weft_op *mul = add_op(b, "elementwise_mul", WEFT_ROLE_BACKWARD);
        must(weft_op_add_input(mul, "X", x[k == NPARAMS - 1]));
        must(weft_op_add_input(mul, "Y", w[k]));
        must(weft_op_add_output(mul, "Out", g[k]));
        if (k != how.skipped_reduce) add_all_reduce(b, g[k], how.ring_id, how.stream);
    }
    for (int k = 0; k < NPARAMS; k++) {
        weft_op *sgd = add_op(b, "sgd", WEFT_ROLE_OPTIMIZE);
        must(weft_op_add_input(sgd, "Grad", g[k]));
        must(weft_op_add_input(sgd, "LearningRate", lr));
        must(weft_op_add_input(sgd, "Param", w[k]));
        must(weft_op_add_output(sgd, "ParamOut", w[k]));
    }
    return p;
}

float x_of(int rank, int i) {
    return (float)((rank * 7 + i * 3) % 11) * 0.1f - 0.4f;
}
float w_of(int k, int i) {
    return 1.0f + (float)((k * 5 + i) % 13) * 0.25f;
}

static void set_floats(weft_executor *x, int rank, const char *n, int64_t count, const float *values) {
    weft_tensor t = {.name = n, .dtype = WEFT_FP32, .ndim = 1, .dims = {count}, .data = (void *)(uintptr_t)values};
    must(weft_executor_set(x, rank, n, &t));
}

static void set_state(weft_executor *x, int nranks) {
    static float values[NELEMENTS];
    for (int r = 0; r < nranks; r++) {
        for (int i = 0; i < NELEMENTS; i++) values[i] = x_of(r, i);
        set_floats(x, r, "x", NELEMENTS, values);
        for (int k = 0; k < NPARAMS; k++) {
            char n[32];
            snprintf(n, sizeof n, "w_%d", k);
            for (int i = 0; i < NELEMENTS; i++) values[i] = w_of(k, i);
            set_floats(x, r, n, NELEMENTS, values);
        }
        values[0] = 0.01f;
        set_floats(x, r, "lr", 1, values);
    }
}

void open_fixture(fixture *f, int nranks, const weft_executor_options *options) {
    memset(f, 0, sizeof *f);
    f->nranks = nranks;
    f->context = new_context(&f->count);
    f->program = training_program(f->context, plain);
    must(weft_plan_create(f->program, NULL, &f->plan));
    const weft_plan *plans[] = {f->plan};
    must(weft_executor_create(f->context, plans, 1, nranks, options, &f->executor));
    set_state(f->executor, nranks);
}

long close_fixture(fixture *f) {
    weft_executor_destroy(f->executor);
    weft_plan_destroy(f->plan);
    weft_program_destroy(f->program);
    weft_context_destroy(f->context);
    return f->count.nlive;
}
