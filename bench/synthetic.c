/* synthetic.c: builds the programs of synthetic.h through the public API, op by op, as a framework would. */
#include "bench/synthetic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { batch = 64, ops_per_layer = 8 };

typedef struct builder {
    weft_program *program;
    weft_block *block;
    int64_t length, width; /* length 0: activations are [batch, width] */
    weft_status status;    /* the first failure; later calls do nothing */
} builder;

static weft_var *var(builder *b, size_t ndim, int64_t rows, bool parameter, const char *format, ...) WEFT_PRINTF(5, 6);

/* The var of that name, made if it is new: [rows, width], or [width]; of rank 3 [batch, length, width]. */
static weft_var *var(builder *b, size_t ndim, int64_t rows, bool parameter, const char *format, ...) {
    char n[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(n, sizeof n, format, arguments);
    va_end(arguments);
    if (b->status) return NULL;
    weft_var *v = weft_block_find_var(b->block, n);
    if (v) return v;
    const int64_t dims[] = {rows, b->length, b->width};
    bool flat = ndim == 2;
    if (ndim == 3 && !b->length) ndim = 2, flat = true;
    b->status = weft_block_add_var(b->block, n, WEFT_FP32, ndim,
                                   flat ? (const int64_t[]){rows, b->width} : dims + 3 - ndim, &v);
    if (!b->status && parameter) weft_var_set_persistable(v, true, true);
    return b->status ? NULL : v;
}

typedef struct argument {
    bool output;
    const char *slot;
    weft_var *var;
} argument;

/* Appends an op with up to six arguments (the list ends at a NULL slot). */
static weft_op *append(builder *b, const char *type, int role, const argument *arguments) {
    weft_op *op = NULL;
    if (!b->status) b->status = weft_op_create(b->program, type, &op);
    for (; !b->status && arguments->slot; arguments++)
        b->status = (arguments->output ? weft_op_add_output : weft_op_add_input)(op, arguments->slot, arguments->var);
    if (!b->status) b->status = weft_op_set_attr_int(op, "op_role", role);
    if (!b->status) weft_block_insert_before(b->block, NULL, op);
    return b->status ? NULL : op;
}

static void set_role_var(builder *b, weft_op *op, const weft_var *param, const weft_var *grad) {
    if (b->status) return;
    const char *pair[] = {weft_var_name(param), weft_var_name(grad)};
    b->status = weft_op_set_attr_strings(op, "op_role_var", 2, pair);
}

#define ARGS(...) ((const argument[]){__VA_ARGS__, {false, NULL, NULL}})
#define IN(s, v)                                                                                                       \
    { false, s, v }
#define OUT(s, v)                                                                                                      \
    { true, s, v }

static weft_var *activation(builder *b, size_t layer) {
    return var(b, 3, batch, false, "x_%zu", layer);
}
static weft_var *weight(builder *b, size_t layer) {
    return var(b, 2, b->width, true, "w_%zu", layer);
}
static weft_var *bias(builder *b, size_t layer) {
    return var(b, 1, 0, true, "b_%zu", layer);
}

static void forward(builder *b, size_t layer) {
    weft_var *x = activation(b, layer), *y = activation(b, layer + 1);
    weft_var *product = var(b, 3, batch, false, "m_%zu", layer), *sum = var(b, 3, batch, false, "s_%zu", layer);
    append(b, "matmul_v2", WEFT_ROLE_FORWARD, ARGS(IN("X", x), IN("Y", weight(b, layer)), OUT("Out", product)));
    append(b, "elementwise_add", WEFT_ROLE_FORWARD, ARGS(IN("X", product), IN("Y", bias(b, layer)), OUT("Out", sum)));
    append(b, "relu", WEFT_ROLE_FORWARD, ARGS(IN("X", sum), OUT("Out", y)));
}

static void backward(builder *b, size_t layer) {
    weft_var *x = activation(b, layer), *y = activation(b, layer + 1);
    weft_var *dx = var(b, 3, batch, false, "x_%zu@GRAD", layer), *dy = var(b, 3, batch, false, "x_%zu@GRAD", layer + 1);
    weft_var *product = var(b, 3, batch, false, "m_%zu", layer),
             *dproduct = var(b, 3, batch, false, "m_%zu@GRAD", layer);
    weft_var *dsum = var(b, 3, batch, false, "s_%zu@GRAD", layer);
    weft_var *dw = var(b, 2, b->width, false, "w_%zu@GRAD", layer), *db = var(b, 1, 0, false, "b_%zu@GRAD", layer);
    append(b, "relu_grad", WEFT_ROLE_BACKWARD, ARGS(IN("Out", y), IN("Out@GRAD", dy), OUT("X@GRAD", dsum)));
    weft_op *op = append(b, "elementwise_add_grad", WEFT_ROLE_BACKWARD,
                         ARGS(IN("Out@GRAD", dsum), IN("X", product), IN("Y", bias(b, layer)), OUT("X@GRAD", dproduct),
                              OUT("Y@GRAD", db)));
    set_role_var(b, op, bias(b, layer), db);
    op = append(
        b, "matmul_v2_grad", WEFT_ROLE_BACKWARD,
        ARGS(IN("Out@GRAD", dproduct), IN("X", x), IN("Y", weight(b, layer)), OUT("X@GRAD", dx), OUT("Y@GRAD", dw)));
    set_role_var(b, op, weight(b, layer), dw);
}

static void update(builder *b, weft_var *param, weft_var *grad, weft_var *rate) {
    weft_op *op = append(b, "sgd", WEFT_ROLE_OPTIMIZE,
                         ARGS(IN("Grad", grad), IN("LearningRate", rate), IN("Param", param), OUT("ParamOut", param)));
    set_role_var(b, op, param, grad);
}

/* loss = mean of the last activation; its gradient is seeded with 1. */
static void loss(builder *b, size_t nlayers) {
    weft_var *y = activation(b, nlayers), *mean = NULL, *dmean = NULL;
    if (!b->status) b->status = weft_block_add_var(b->block, "loss", WEFT_FP32, 0, NULL, &mean);
    if (!b->status) b->status = weft_block_add_var(b->block, "loss@GRAD", WEFT_FP32, 0, NULL, &dmean);
    weft_var *dy = var(b, 3, batch, false, "x_%zu@GRAD", nlayers);
    weft_op *op = append(b, "reduce_mean", WEFT_ROLE_LOSS, ARGS(IN("X", y), OUT("Out", mean)));
    if (!b->status) b->status = weft_op_set_attr_bool(op, "reduce_all", true);
    op = append(b, "fill_constant", WEFT_ROLE_LOSS | WEFT_ROLE_BACKWARD, ARGS(OUT("Out", dmean)));
    if (!b->status) b->status = weft_op_set_attr_int(op, "dtype", WEFT_FP32);
    if (!b->status) b->status = weft_op_set_attr_longs(op, "shape", 0, NULL);
    if (!b->status) b->status = weft_op_set_attr_float(op, "value", 1.0);
    op = append(b, "reduce_mean_grad", WEFT_ROLE_BACKWARD, ARGS(IN("Out@GRAD", dmean), IN("X", y), OUT("X@GRAD", dy)));
    if (!b->status) b->status = weft_op_set_attr_bool(op, "reduce_all", true);
}

weft_status synthetic_program(weft_context *context, size_t nops, int64_t width, weft_program **out_program) {
    return synthetic_sequences(context, nops, 0, width, out_program);
}

weft_status synthetic_sequences(weft_context *context, size_t nops, int64_t length, int64_t width,
                                weft_program **out_program) {
    builder b = {.length = length, .width = width};
    size_t nlayers = nops / ops_per_layer + 1;
    b.status = weft_program_create(context, &b.program);
    if (b.status) return b.status;
    b.block = weft_program_block(b.program, 0);
    weft_program_set_version(b.program, 2006002);
    const int64_t one = 1;
    weft_var *rate = NULL;
    b.status = weft_block_add_var(b.block, "learning_rate", WEFT_FP32, 1, &one, &rate);
    if (!b.status) weft_var_set_persistable(rate, true, false);
    for (size_t i = 0; i < nlayers; i++) forward(&b, i);
    loss(&b, nlayers);
    for (size_t i = nlayers; i-- > 0;) backward(&b, i);
    for (size_t i = 0; i < nlayers; i++) {
        update(&b, bias(&b, i), var(&b, 1, 0, false, "b_%zu@GRAD", i), rate);
        update(&b, weight(&b, i), var(&b, 2, width, false, "w_%zu@GRAD", i), rate);
    }
    if (b.status)
        weft_program_destroy(b.program);
    else
        *out_program = b.program;
    return b.status;
}
