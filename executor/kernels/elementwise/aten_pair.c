/* aten_pair.c: one element of each of two operands at a time, with torch's promotion: the operands become elements
 * of one computing type, the result is rounded once to the output's. The second operand may be a number.
 *
 * The computing type is the output's (fp32 for half types, int64 for integers and booleans); of comparisons the first
 * operand's. A number is made an element of the computing type, so that dividing by it is a division
 * (aten/src/ATen/native/cpu/BinaryOpsKernel.cpp). */
#include "executor/kernels/elementwise/aten_pair.h"

#include <math.h>

#include "executor/kernels/elementwise/elementwise.h"

typedef struct pair_state {
    pair_fn run;
    weft_dtype computing;
    bool has_number;
    element number, parameters[PAIR_PARAMETERS];
    bool flat; /* operands of one shape: rows are elements */
    loops loops;
} pair_state;

/* --- runs --------------------------------------------------------------------------------------------------------- */

/* Elements of the computing type: the operand's own, or converted into `room`. */
static const void *computable(weft_dtype from, weft_dtype to, int64_t n, const void *src, void *room) {
    if (from == to) return src;
    cast_elements(from, to, n, src, room);
    return room;
}

/* n elements of a, with those of b from there on (one where bs is 0), NULL: the number. */
static void run_block(const pair_state *s, int64_t n, const tensor *a, const char *as, const tensor *b, const char *bs,
                      int b_stride, const tensor *out, char *to) {
    element room_a[BLOCK], room_b[BLOCK];
    const void *x = computable(a->dtype, s->computing, n, as, room_a);
    const void *y = b ? computable(b->dtype, s->computing, b_stride ? n : 1, bs, room_b) : &s->number;
    if (out->dtype == s->computing) {
        s->run(n, x, y, b_stride, s->parameters, to);
        return;
    }
    s->run(n, x, y, b_stride, s->parameters, room_a);
    cast_elements(s->computing, out->dtype, n, room_a, to);
}

/* A run of n elements; a's go on, or are one. */
static void run_elements(const pair_state *s, int64_t n, const tensor *a, const char *as, int a_stride, const tensor *b,
                         const char *bs, int b_stride, const tensor *out, char *to) {
    size_t a_size = weft_dtype_nbytes(a->dtype), b_size = b ? weft_dtype_nbytes(b->dtype) : 0;
    size_t out_size = weft_dtype_nbytes(out->dtype);
    element repeated[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = block_size(n - i);
        const char *x = as + (size_t)(a_stride ? i : 0) * a_size;
        if (!a_stride) {
            for (int64_t k = 0; k < count; k++) memcpy((char *)repeated + (size_t)k * a_size, as, a_size);
            x = (const char *)repeated;
        }
        run_block(s, count, a, x, b, b ? bs + (size_t)(b_stride ? i : 0) * b_size : NULL, b_stride, out,
                  to + (size_t)i * out_size);
    }
}

static void run_walk(const pair_state *s, const tensor *a, const tensor *b, const tensor *out) {
    size_t a_size = weft_dtype_nbytes(a->dtype), b_size = weft_dtype_nbytes(b->dtype);
    size_t out_size = weft_dtype_nbytes(out->dtype);
    for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w))
        run_elements(s, loops_run(&s->loops), a, (const char *)a->data + (size_t)w.at[0] * a_size,
                     loops_stride(&s->loops, 0) != 0, b, (const char *)b->data + (size_t)w.at[1] * b_size,
                     loops_stride(&s->loops, 1) != 0, out, (char *)out->data + (size_t)w.position * out_size);
}

static void rows(const kernel_call *c, int64_t first, int64_t end) {
    const pair_state *s = c->state;
    const tensor *a = arg_in(c, 0), *b = s->has_number ? NULL : arg_in(c, 1), *out = arg_out(c, 0);
    const char *as = a->data, *bs = b ? b->data : NULL;
    size_t a_size = weft_dtype_nbytes(a->dtype), b_size = b ? weft_dtype_nbytes(b->dtype) : 0;
    size_t out_size = weft_dtype_nbytes(out->dtype);
    char *to = out->data;
    if (s->flat) {
        element_range e = elements_of(c, out->numel, first, end);
        run_elements(s, e.n, a, as + (size_t)e.at * a_size, 1, b, b ? bs + (size_t)e.at * b_size : NULL, b != NULL, out,
                     to + (size_t)e.at * out_size);
        return;
    }
    run_walk(s, a, b, out);
}

/* A tensor after another, each with its number or its tensor. */
weft_status pair_run_each(const kernel_call *c) {
    const pair_state *states = c->state;
    uint32_t nothers = c->schema->ninputs > 1 ? c->in_first[2] - c->in_first[1] : 0;
    for (uint32_t k = 0; k < c->in_first[1]; k++) {
        const pair_state *s = &states[k];
        const tensor *a = &c->in[k], *b = NULL, *out = &c->out[k];
        if (!s->has_number) b = &c->in[c->in_first[1] + (nothers == 1 ? 0 : k)];
        if (s->flat)
            run_elements(s, out->numel, a, a->data, 1, b, b ? b->data : NULL, b != NULL, out, out->data);
        else
            run_walk(s, a, b, out);
    }
    return NULL;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static weft_dtype computing_type(const pair_function *f, const tensor *x, const tensor *out, double number) {
    weft_dtype of = f->compares ? x->dtype : out->dtype;
    if (of == WEFT_FP64) return WEFT_FP64;
    if (dtype_is_float(of)) return WEFT_FP32;
    return f->compares && number != floor(number) ? WEFT_FP32 : WEFT_INT64;
}

static weft_status prepare_function(kernel_prepare *p, const pair_function *f, const tensor *x, const tensor *out,
                                    double number, const char *const *parameters, pair_state *s) {
    s->computing = computing_type(f, x, out, number);
    s->run = s->computing == WEFT_FP32 ? f->fp32 : s->computing == WEFT_FP64 ? f->fp64 : f->int64;
    if (!s->run || !cast_exists(x->dtype, s->computing) || !cast_exists(s->computing, out->dtype))
        return kernel_unsupported(p, "no such operation on %s that gives %s", dtype_text(x->dtype),
                                  dtype_text(out->dtype));
    for (int k = 0; k < PAIR_PARAMETERS; k++) {
        double value = parameters[k] ? attr_float(p->op, parameters[k], 1) : 1;
        cast_elements(WEFT_FP64, s->computing, 1, &value, &s->parameters[k]);
    }
    return NULL;
}

/* Comparisons see the number as an element of x's type, as torch does; other ops keep it as they compute. */
static void set_number(pair_state *s, const pair_function *f, const tensor *x, double number) {
    s->has_number = true;
    if (f->compares && dtype_is_half(x->dtype)) {
        uint16_t half;
        cast_elements(WEFT_FP64, x->dtype, 1, &number, &half);
        cast_elements(x->dtype, WEFT_FP64, 1, &half, &number);
    }
    cast_elements(WEFT_FP64, s->computing, 1, &number, &s->number);
}

static weft_status prepare_with(kernel_prepare *p, const pair_function *f, uint32_t k, double number,
                                const char *const *parameters, pair_state *s) {
    TRY(require_numel(p, &p->out[k], p->in[k].numel, "the output"));
    TRY(prepare_function(p, f, &p->in[k], &p->out[k], number, parameters, s));
    set_number(s, f, &p->in[k], number);
    s->flat = true;
    return NULL;
}

weft_status pair_prepare_number(kernel_prepare *p, const pair_function *f, const char *attr,
                                const char *const parameters[PAIR_PARAMETERS]) {
    pair_state *s = KERNEL_STATE(p, pair_state);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, type_in(p, 0), "the operand"));
    TRY(require_present(p, type_out(p, 0), "the output"));
    TRY(prepare_with(p, f, 0, attr ? attr_float(p->op, attr, 0) : 0, parameters, s));
    split_elements(p, rows, p->out[0].numel);
    return NULL;
}

/* A state for each tensor of the first slot. */
static weft_status prepare_each(kernel_prepare *p, pair_state **out) {
    uint32_t count = p->in_first[1];
    p->state = *out = ARENA_ARRAY(p->arena, pair_state, count ? count : 1);
    if (!*out) return base_out_of_memory();
    if (p->out_first[1] == count) return NULL;
    return kernel_unsupported(p, "expected %u outputs, found %u", count, p->out_first[1]);
}

weft_status pair_prepare_numbers(kernel_prepare *p, const pair_function *f) {
    static const char *const parameters[PAIR_PARAMETERS] = {NULL};
    pair_state *states;
    size_t ngiven;
    const double *given = attr_floats(p->op, "scalars", &ngiven);
    TRY(prepare_each(p, &states));
    if (ngiven && ngiven != p->in_first[1])
        return kernel_unsupported(p, "scalars: expected %u, found %zu", p->in_first[1], ngiven);
    for (uint32_t k = 0; k < p->in_first[1]; k++)
        TRY(prepare_with(p, f, k, ngiven ? given[k] : attr_float(p->op, "scalar", 0), parameters, &states[k]));
    return NULL;
}

/* Of two tensors the one whose type they are compared in. */
static const tensor *wider(const tensor *x, const tensor *y) {
    bool x_floats = dtype_is_float(x->dtype), y_floats = dtype_is_float(y->dtype);
    return x_floats != y_floats ? (x_floats ? x : y) : y->dtype == WEFT_FP64 ? y : x;
}

static weft_status prepare_two(kernel_prepare *p, const pair_function *f, const char *const *parameters,
                               const tensor *x, const tensor *y, const tensor *out, pair_state *s) {
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(prepare_function(p, f, wider(x, y), out, 0, parameters, s));
    if (!cast_exists(x->dtype, s->computing) || !cast_exists(y->dtype, s->computing))
        return kernel_unsupported(p, "no such operation on %s", dtype_text(y->dtype));
    TRY(broadcast_strides(p, -1, x, y, out->ndim, out->dims, strides));
    loops_init(&s->loops, out->ndim, out->dims, 2, strides);
    s->flat = x->numel == out->numel && y->numel == out->numel;
    return NULL;
}

weft_status pair_prepare(kernel_prepare *p, const pair_function *f, const char *const parameters[PAIR_PARAMETERS]) {
    pair_state *s = KERNEL_STATE(p, pair_state);
    const tensor *x = type_in(p, 0), *y = type_in(p, 1), *out = type_out(p, 0);
    if (!s) return base_out_of_memory();
    TRY(require_present(p, x, "the first operand"));
    TRY(require_present(p, y, "the second operand"));
    TRY(require_present(p, out, "the output"));
    TRY(prepare_two(p, f, parameters, x, y, out, s));
    if (s->flat)
        split_elements(p, rows, out->numel);
    else
        split_rows(p, rows, out->numel > 0);
    return NULL;
}

weft_status pair_prepare_lists(kernel_prepare *p, const pair_function *f,
                               const char *const parameters[PAIR_PARAMETERS]) {
    uint32_t n = p->in_first[1], nothers = p->in_first[2] - n;
    pair_state *states;
    TRY(prepare_each(p, &states));
    if (nothers != n && nothers != 1) return kernel_unsupported(p, "expected %u other tensors, found %u", n, nothers);
    for (uint32_t k = 0; k < n; k++)
        TRY(prepare_two(p, f, parameters, &p->in[k], &p->in[n + (nothers == 1 ? 0 : k)], &p->out[k], &states[k]));
    return NULL;
}
