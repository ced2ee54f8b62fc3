/* small_trainer.h: a trainer of a small program on two ranks, for plain mains. Include it once in a test's file. */
#ifndef TESTS_SUPPORT_SMALL_TRAINER_H
#define TESTS_SUPPORT_SMALL_TRAINER_H

#include <stdio.h>
#include <stdlib.h>

#include "program/ir.h"
#include "tests/support/plain.h"
#include "weft/trainer.h"

static _Atomic long nallocations, nlive, fail_at; /* the fail_at-th allocation from now on fails; 0: none */

static inline void *counting_resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    (void)user;
    (void)old_nbytes;
    nallocations++;
    if (new_nbytes && fail_at && --fail_at == 0) return NULL;
    nlive += (new_nbytes != 0) - (ptr != NULL);
    if (new_nbytes) return realloc(ptr, new_nbytes);
    free(ptr);
    return NULL;
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static inline weft_var *add_var(weft_program *p, const char *n, size_t ndim, const int64_t *dims, bool persistable) {
    weft_var *v;
    must(weft_block_add_var(weft_program_block(p, 0), n, WEFT_FP32, ndim, dims, &v));
    if (persistable) weft_var_set_persistable(v, true, false);
    return v;
}

static inline weft_op *add_op(weft_program *p, const char *type, weft_var *x, weft_var *y, weft_var *out) {
    weft_op *op;
    must(weft_op_create(p, type, &op));
    must(weft_op_add_input(op, "X", x));
    if (y) must(weft_op_add_input(op, "Y", y));
    must(weft_op_add_output(op, "Out", out));
    weft_block_insert_before(weft_program_block(p, 0), NULL, op);
    return op;
}

/* Sharded on axis 0 over two ranks. */
static inline void shard(weft_program *p, weft_var *v) {
    static const int64_t two[] = {2}, ids[] = {0, 1}, mapping[] = {0, -1};
    const mesh m = {.ndim = 1, .shape = two, .ids = ids}, *kept;
    must(program_add_mesh(p, &m, &kept));
    placement dist = {.mesh = kept, .ndim = (int)v->ndim, .dims_mapping = mapping};
    must(placement_clone(p, &dist, &v->dist));
}

/* y = x * w; half = 2 * half (sharded); n = 2 * n; kept is declared and touched by nobody; mean = mean(y). */
static inline weft_program *small_program(weft_context *context, int64_t rows) {
    static const int64_t three[] = {3}, one[] = {1};
    int64_t dims[] = {rows, 3};
    weft_program *p;
    must(weft_program_create(context, &p));
    weft_var *x = add_var(p, "x", 2, dims, false), *w = add_var(p, "w", 1, three, true);
    weft_var *y = add_var(p, "y", 2, dims, false), *half = add_var(p, "half", 1, three, true);
    weft_var *n = add_var(p, "n", 1, one, true), *mean = add_var(p, "mean", 0, one, false);
    add_var(p, "kept", 1, one, true);
    shard(p, half);
    must(weft_op_set_attr_int(add_op(p, "elementwise_mul", x, w, y), "axis", -1));
    must(weft_op_set_attr_float(add_op(p, "scale", half, NULL, half), "scale", 2.0));
    must(weft_op_set_attr_float(add_op(p, "scale", n, NULL, n), "scale", 2.0));
    must(weft_op_set_attr_bool(add_op(p, "reduce_mean", y, NULL, mean), "reduce_all", true));
    return p;
}

static inline void put(weft_tensors *set, const char *n, weft_dtype dtype, int64_t rows, int64_t columns, float first) {
    int64_t dims[] = {rows, columns};
    weft_tensor *t;
    must(weft_tensors_add(set, n, dtype, columns ? 2 : 1, dims, &t));
    if (dtype == WEFT_FP32) {
        for (size_t i = 0; i < t->nbytes / 4; i++) ((float *)t->data)[i] = first + (float)i;
    }
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

typedef struct fixture {
    weft_context *context;
    weft_program *programs[2];
    weft_tensors *params, *feeds[2];
    const char *fetches[4];
    weft_trainer_options options;
    weft_trainer *trainer;
} fixture;

/* Two ranks of one program, all parameters, no feeds yet. */
static inline void open_fixture(fixture *f, int64_t rows) {
    memset(f, 0, sizeof *f);
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = {counting_resize, NULL}};
    must(weft_context_create(&options, &f->context));
    f->programs[0] = small_program(f->context, rows);
    must(weft_tensors_create(f->context, &f->params));
    for (int i = 0; i < 2; i++) must(weft_tensors_create(f->context, &f->feeds[i]));
    put(f->params, "w", WEFT_FP32, 3, 0, 1);
    put(f->params, "half", WEFT_FP32, 6, 0, 10);
    put(f->params, "n", WEFT_FP32, 1, 0, 1);
    put(f->params, "kept", WEFT_FP32, 1, 0, 77);
    put(f->params, "not in the program", WEFT_FP32, 1, 0, 0);
    f->options = (weft_trainer_options){WEFT_TRAINER_OPTIONS_INIT, .programs = (const weft_program *const *)f->programs,
                                        .nprograms = 1,
                                        .nranks = 2,
                                        .params = f->params,
                                        .params_place = "p.npz",
                                        .feeds = (const weft_tensors *const *)f->feeds,
                                        .fetches = f->fetches};
}

static inline void fetch(fixture *f, const char *n) {
    f->fetches[f->options.nfetches++] = n;
}

static inline weft_status start(fixture *f) {
    return weft_trainer_create(f->context, &f->options, &f->trainer);
}

static inline void close_fixture(fixture *f) {
    weft_trainer_destroy(f->trainer);
    for (int i = 0; i < 2; i++) {
        weft_tensors_destroy(f->feeds[i]);
        weft_program_destroy(f->programs[i]);
    }
    weft_tensors_destroy(f->params);
    weft_context_destroy(f->context);
    check(nlive == 0, "%ld blocks leaked", nlive);
    nlive = 0;
}

/* n = 3; half is drawn. */
static inline weft_program *startup_program(weft_context *context) {
    static const int64_t six[] = {6}, one[] = {1};
    weft_program *p;
    must(weft_program_create(context, &p));
    weft_var *half = add_var(p, "half", 1, six, true), *n = add_var(p, "n", 1, one, true);
    weft_op *op;
    must(weft_op_create(p, "fill_constant", &op));
    must(weft_op_add_output(op, "Out", n));
    must(weft_op_set_attr_longs(op, "shape", 1, one));
    must(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
    must(weft_op_set_attr_float(op, "value", 3));
    weft_block_insert_before(weft_program_block(p, 0), NULL, op);
    must(weft_op_create(p, "uniform_random", &op));
    must(weft_op_add_output(op, "Out", half));
    must(weft_op_set_attr_longs(op, "shape", 1, six));
    must(weft_op_set_attr_int(op, "dtype", WEFT_FP32));
    must(weft_op_set_attr_float(op, "min", 1));
    must(weft_op_set_attr_float(op, "max", 2));
    weft_block_insert_before(weft_program_block(p, 0), NULL, op);
    return p;
}

#endif
