/* select.c: select_input: a copy of the argument that Mask counts to. Where a program branches, each branch leaves its
 * value in one of the arguments. select_output: the way back, zeros for the branches that did not run. assert: fails
 * where Cond is false. Source: paddle/fluid/operators/select_input_op.cc, assert_op.cc. */
#include "executor/kernels/layout.h"

enum { SELECT_IN_X, SELECT_IN_MASK };

static weft_status prepare_select_input(kernel_prepare *p) {
    const tensor *out = type_out(p, 0);
    TRY(require_present(p, out, "Out"));
    TRY(require_present(p, type_in(p, SELECT_IN_MASK), "Mask"));
    TRY(require_numel(p, type_in(p, SELECT_IN_MASK), 1, "Mask"));
    for (uint32_t i = p->in_first[SELECT_IN_X]; i < p->in_first[SELECT_IN_X + 1]; i++) {
        TRY(require_same_dtype(p, out, &p->in[i], "X"));
        TRY(require_numel(p, &p->in[i], out->numel, "X"));
    }
    return NULL;
}

static weft_status run_select_input(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    int64_t chosen = host_integer(c, arg_in(c, SELECT_IN_MASK), 0);
    uint32_t count = c->in_first[SELECT_IN_X + 1] - c->in_first[SELECT_IN_X];
    if (chosen < 0 || chosen >= count)
        return kernel_failed(c, "Mask: expected a number below %u, found %lld", count, (long long)chosen);
    copy_bytes(out->data, c->in[c->in_first[SELECT_IN_X] + (uint32_t)chosen].data, tensor_nbytes(out));
    return NULL;
}

static weft_status prepare_select_output(kernel_prepare *p) {
    const tensor *x = type_in(p, SELECT_IN_X);
    TRY(require_present(p, x, "X"));
    TRY(require_numel(p, type_in(p, SELECT_IN_MASK), 1, "Mask"));
    for (uint32_t i = p->out_first[0]; i < p->out_first[1]; i++) {
        if (p->out[i].dtype == WEFT_DTYPE_NONE) continue;
        TRY(require_same_dtype(p, x, &p->out[i], "Out"));
        TRY(require_numel(p, &p->out[i], x->numel, "Out"));
    }
    return NULL;
}

static weft_status run_select_output(const kernel_call *c) {
    const tensor *x = arg_in(c, SELECT_IN_X);
    int64_t chosen = host_integer(c, arg_in(c, SELECT_IN_MASK), 0);
    for (uint32_t i = c->out_first[0]; i < c->out_first[1]; i++) {
        const tensor *out = &c->out[i];
        if (out->dtype == WEFT_DTYPE_NONE || !out->numel) continue;
        if (chosen == i - c->out_first[0])
            copy_bytes(out->data, x->data, tensor_nbytes(out));
        else
            tensor_clear(out);
    }
    return NULL;
}

static weft_status prepare_assert(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, 0), "Cond"));
    const char *message = attr_string(p->op, "message", "");
    p->state = arena_string(p->arena, message, strlen(message));
    if (!p->state) return base_out_of_memory();
    if (type_in(p, 0)->dtype == WEFT_BOOL) return require_numel(p, type_in(p, 0), 1, "Cond");
    return kernel_unsupported(p, "expected Cond of bool, found %s", dtype_text(type_in(p, 0)->dtype));
}

static weft_status run_assert(const kernel_call *c) {
    const char *message = c->state;
    if (*(const uint8_t *)arg_in(c, 0)->data) return NULL;
    return kernel_failed(c, "%s", *message ? message : "what the program asserts is false");
}

const kernel kernel_select_output = {prepare_select_output, run_select_output};
const kernel kernel_assert = {prepare_assert, run_assert};
const kernel kernel_select_input = {prepare_select_input, run_select_input};
