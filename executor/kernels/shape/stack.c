/* stack.c: tensors of one shape along a new dimension, and taken apart again. In the stacked tensor, [outer, parts,
 * inner], part k is every k-th run of inner elements. */
#include "executor/kernels/layout.h"

typedef struct stack_state {
    int whole, parts; /* slots; which of them are inputs follows from `stacks` */
    bool stacks;
    int64_t outer, inner;
    size_t nbytes; /* of one part's run */
} stack_state;

/* `axis` counts the stacked tensor's dimensions. */
static weft_status prepare_stack(kernel_prepare *p, bool stacks, int whole_slot, int parts_slot) {
    stack_state *s = KERNEL_STATE(p, stack_state);
    if (!s) return base_out_of_memory();
    *s = (stack_state){.whole = whole_slot, .parts = parts_slot, .stacks = stacks};
    const tensor *whole = stacks ? type_out(p, whole_slot) : type_in(p, whole_slot);
    const tensor *parts = stacks ? p->in : p->out;
    const uint32_t *first = stacks ? p->in_first : p->out_first;
    uint32_t nparts = first[parts_slot + 1] - first[parts_slot];
    TRY(require_present(p, whole, "stacked tensor"));
    axis_split split;
    TRY(axis_split_prepare(p, whole, attr_int(p->op, "axis", 0), &split));
    if (split.extent != nparts)
        return kernel_unsupported(p, "expected %lld tensors, found %u", (long long)split.extent, nparts);
    s->outer = split.outer;
    s->inner = split.inner;
    s->nbytes = (size_t)split.inner * weft_dtype_nbytes(whole->dtype);
    for (uint32_t k = 0; k < nparts; k++) {
        const tensor *part = &parts[first[parts_slot] + k];
        if (!stacks && part->dtype == WEFT_DTYPE_NONE) continue; /* a gradient that nobody asked for */
        TRY(require_same_dtype(p, whole, part, "tensors"));
        TRY(require_numel(p, part, s->outer * s->inner, "each tensor"));
    }
    return NULL;
}

/* stack: X* -> Y.  unstack_grad: Y@GRAD* -> X@GRAD.  stack_grad: X*, Y@GRAD -> X@GRAD*.  unstack, unbind: X -> Y*. */
static weft_status prepare_into(kernel_prepare *p) {
    return prepare_stack(p, true, 0, 0);
}
static weft_status prepare_apart(kernel_prepare *p) {
    return prepare_stack(p, false, 0, 0);
}
static weft_status prepare_gradient(kernel_prepare *p) {
    return prepare_stack(p, false, 1, 0);
}

static weft_status run(const kernel_call *c) {
    const stack_state *s = c->state;
    const tensor *whole = s->stacks ? arg_out(c, s->whole) : arg_in(c, s->whole);
    const tensor *parts = s->stacks ? c->in : c->out;
    const uint32_t *first = s->stacks ? c->in_first : c->out_first;
    uint32_t nparts = first[s->parts + 1] - first[s->parts];
    for (uint32_t k = 0; k < nparts; k++) {
        char *part = parts[first[s->parts] + k].data, *at = (char *)whole->data + k * s->nbytes;
        if (!part) continue;
        for (int64_t o = 0; o < s->outer; o++, part += s->nbytes, at += nparts * s->nbytes)
            memcpy(s->stacks ? at : part, s->stacks ? part : at, s->nbytes);
    }
    return NULL;
}

const kernel kernel_stack = {prepare_into, run};
const kernel kernel_stack_grad = {prepare_gradient, run};
const kernel kernel_unstack = {prepare_apart, run};
const kernel kernel_unstack_grad = {prepare_into, run};
const kernel kernel_unbind = {prepare_apart, run};
