/* coalesce.c: coalesce_tensor: one buffer with views.
 *
 * The planner gives every output its place in the fused buffer; what is left to do is the content. Bytes between
 * members are zeroed every step, because they take part in the buffer's reduce: two ranks must not add up garbage.
 * copy_data copies inputs that are not in their place already; set_constant fills the whole buffer. */
#include "executor/kernels/typed.h"

enum { OUTPUT, FUSED };

typedef struct state {
    bool copy_data, set_constant;
    double constant;
} state;

static weft_status prepare(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    const tensor *fused = type_out(p, FUSED);
    size_t nin = p->in_first[1], nout = p->out_first[FUSED];
    if (nin != nout) return kernel_unsupported(p, "expected as many outputs as inputs, found %zu and %zu", nout, nin);
    for (size_t i = 0; i < nout; i++) {
        if (p->in[i].height >= 0) return kernel_unsupported(p, "expected dense inputs, found rows (input %zu)", i);
        TRY(require_same_dtype(p, fused, &p->in[i], "input"));
        TRY(require_same_dtype(p, fused, &p->out[i], "output"));
        if (p->in[i].numel != p->out[i].numel)
            return kernel_unsupported(p, "expected output %zu of %lld elements, found %lld", i,
                                      (long long)p->in[i].numel, (long long)p->out[i].numel);
    }
    s->copy_data = attr_bool(p->op, "copy_data", false);
    s->set_constant = attr_bool(p->op, "set_constant", false);
    s->constant = attr_float(p->op, "constant", 0.0);
    return NULL;
}

/* Zeroes what lies between the members, which stand in argument order. */
static weft_status zero_padding(const kernel_call *c, const tensor *fused) {
    size_t end = 0, total = tensor_nbytes(fused);
    for (uint32_t i = 0; i < c->out_first[FUSED]; i++) {
        uintptr_t at = (uintptr_t)c->out[i].data - (uintptr_t)fused->data;
        if (at < end || at > total || tensor_nbytes(&c->out[i]) > total - at)
            return kernel_failed(c, "output %u is not in its place in the fused buffer", i);
        memset((char *)fused->data + end, 0, at - end);
        end = at + tensor_nbytes(&c->out[i]);
    }
    memset((char *)fused->data + end, 0, total - end);
    return NULL;
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    const tensor *fused = arg_out(c, FUSED);
    if (s->set_constant) {
        fill_elements(fused->dtype, fused->data, fused->numel, s->constant);
        return NULL;
    }
    if (s->copy_data)
        for (uint32_t i = 0; i < c->out_first[FUSED]; i++)
            copy_bytes(c->out[i].data, c->in[i].data, tensor_nbytes(&c->in[i]));
    return zero_padding(c, fused);
}

const kernel kernel_coalesce_tensor = {prepare, run};
