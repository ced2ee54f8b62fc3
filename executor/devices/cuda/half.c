#include "executor/devices/cuda/half.h"

#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/strided.h"

weft_status cuda_half_prepare(kernel_prepare *p, const cuda_op *op, half_view *v) {
    if (!half_adaptor_fits(p) || !op->prepare) return cuda_refuse("types that the kernel does not take");
    return half_view_prepare(p, op->prepare, v);
}

static weft_status cast(const cuda_launch *l, const tensor *from, const tensor *to) {
    element_type of_from, of_to;
    if (!from->data || !from->numel || !element_type_of(from->dtype, &of_from) || !element_type_of(to->dtype, &of_to))
        return NULL;
    cast_args a = {from->numel, to->data, from->data, (int)of_from, (int)of_to};
    return cuda_start_items(l, CUDA_KERNEL_cast_elements_of, a.nitems, &a);
}

weft_status cuda_half_launch(const cuda_launch *l, const cuda_op *op, const half_view *v) {
    kernel_call inner = half_view_call(v, l->call);
    cuda_launch seen = *l;
    seen.call = &inner;
    for (uint32_t i = 0; i < v->in.nwide; i++) {
        const wide_arg *w = &v->in.wide[i];
        if (w->master < 0) TRY(cast(l, &l->call->in[w->index], &v->in.seen[w->index]));
    }
    TRY(op->launch(&seen));
    for (uint32_t i = 0; i < v->out.nwide; i++) {
        uint32_t index = v->out.wide[i].index;
        TRY(cast(l, &v->out.seen[index], &l->call->out[index]));
    }
    return NULL;
}
