/* walk.c: walks over dims by strides, of which strided.c and elements.c make ops. */
#include "executor/devices/cuda/strided.h"

#include "executor/kernels/loops.h"

/* Neighbouring axes that all operands cross with one stride are one. */
static int merge(int ndim, const int64_t *dims, int n, int64_t (*strides)[WEFT_MAX_RANK], int64_t *out_extent,
                 int64_t (*out)[WEFT_MAX_RANK]) {
    int naxes = 0;
    for (int i = 0; i < ndim; i++) {
        if (dims[i] == 1) continue;
        bool continues = naxes > 0;
        for (int k = 0; k < n && continues; k++) continues = out[k][naxes - 1] == strides[k][i] * dims[i];
        if (continues)
            out_extent[naxes - 1] *= dims[i];
        else
            out_extent[naxes++] = dims[i];
        for (int k = 0; k < n; k++) out[k][naxes - 1] = strides[k][i];
    }
    return naxes;
}

void strided_init(strided_walk *w, int ndim, const int64_t *dims, int nin, int64_t (*strides)[WEFT_MAX_RANK]) {
    strided_args *a = &w->args;
    int64_t extent[WEFT_MAX_RANK], merged[MOST_OPERANDS][WEFT_MAX_RANK];
    int naxes = merge(ndim, dims, nin + 1, strides, extent, merged);
    *a = (strided_args){.nitems = 1, .nsummed = 1, .p = a->p, .type = a->type};
    for (int i = 0; i < naxes; i++) {
        bool is_summed = merged[0][i] == 0;
        int at = is_summed ? a->nsummed_axes++ : a->naxes++;
        (is_summed ? a->summed_extent : a->extent)[at] = extent[i];
        *(is_summed ? &a->nsummed : &a->nitems) *= extent[i];
        if (!is_summed) a->out_stride[at] = merged[0][i];
        for (int k = 0; k < nin; k++) (is_summed ? a->summed_stride : a->stride)[k][at] = merged[k + 1][i];
    }
    a->nrows = a->nitems;
}

weft_status strided_launch(const cuda_launch *l, const strided_walk *w, void *out, const void *a, const void *b,
                           const void *c) {
    enum { ENOUGH_ITEMS = 1024, LONG = 64 };
    strided_args args = w->args;
    args.out = out;
    args.in[0] = a;
    args.in[1] = b;
    args.in[2] = c;
    bool by_blocks = args.nsummed > LONG && args.nitems < ENOUGH_ITEMS;
    return by_blocks ? cuda_start(l, w->blocks, args.nrows, &args) : cuda_start_items(l, w->items, args.nitems, &args);
}

weft_status strided_broadcast(const kernel_prepare *p, const tensor *t, const tensor *into, int64_t *out_strides) {
    int axis = t->ndim < into->ndim ? (int)attr_int(p->op, "axis", -1) : -1;
    if (strides_broadcast(t, axis, into->ndim, into->dims, out_strides)) return NULL;
    return cuda_refuse("a way of broadcasting");
}
