/* reshape.c: ops that change a tensor's shape and leave its elements where they are: a copy, or nothing at all when the
 * planner gave input and output the same memory. XShape, which only carries a shape, is never touched. */
#include "executor/kernels/layout.h"

enum { OUT = 0 };

typedef struct reshape_state {
    int from; /* the input slot that is copied */
} reshape_state;

static weft_status prepare_from(kernel_prepare *p, const char *slot_name) {
    reshape_state *s = KERNEL_STATE(p, reshape_state);
    if (!s) return base_out_of_memory();
    while (s->from + 1 < (int)p->schema->ninputs && strcmp(p->schema->inputs[s->from].name, slot_name) != 0) s->from++;
    const tensor *from = type_in(p, s->from), *to = type_out(p, OUT);
    TRY(require_present(p, from, slot_name));
    TRY(require_present(p, to, "output"));
    TRY(require_same_dtype(p, from, to, "output"));
    return require_numel(p, to, from->numel, "output");
}

static weft_status prepare(kernel_prepare *p) {
    return prepare_from(p, "X");
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_from(p, "Out@GRAD");
}

static weft_status run(const kernel_call *c) {
    const tensor *from = arg_in(c, ((const reshape_state *)c->state)->from);
    copy_bytes(arg_out(c, OUT)->data, from->data, tensor_nbytes(from));
    return NULL;
}

const kernel kernel_reshape = {prepare, run};
const kernel kernel_reshape2 = {prepare, run};
const kernel kernel_squeeze2 = {prepare, run};
const kernel kernel_unsqueeze2 = {prepare, run};
const kernel kernel_flatten2 = {prepare, run};
const kernel kernel_flatten_contiguous_range = {prepare, run};
const kernel kernel_reshape_grad = {prepare_grad, run};
const kernel kernel_reshape2_grad = {prepare_grad, run};
const kernel kernel_squeeze2_grad = {prepare_grad, run};
const kernel kernel_unsqueeze2_grad = {prepare_grad, run};
const kernel kernel_flatten2_grad = {prepare_grad, run};
const kernel kernel_flatten_contiguous_range_grad = {prepare_grad, run};
