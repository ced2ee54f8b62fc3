/* loops.c: merging axes and walking them. */
#include "executor/kernels/loops.h"

void strides_dense(int ndim, const int64_t *dims, int64_t *out_strides) {
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        out_strides[i] = stride;
        stride *= dims[i];
    }
}

bool strides_broadcast(const tensor *t, int axis, int ndim, const int64_t *dims, int64_t *out_strides) {
    int64_t own[WEFT_MAX_RANK];
    int t_ndim = t->ndim;
    strides_dense(t_ndim, t->dims, own);
    if (axis < 0) axis = ndim - t_ndim;
    while (t_ndim > 0 && axis > ndim - t_ndim && t->dims[t_ndim - 1] == 1) t_ndim--;
    if (axis < 0 || axis > ndim - t_ndim) return false;
    for (int i = 0; i < ndim; i++) out_strides[i] = 0;
    for (int i = 0; i < t_ndim; i++) {
        if (t->dims[i] == dims[axis + i]) {
            out_strides[axis + i] = own[i];
        } else if (t->dims[i] != 1) {
            return false;
        }
    }
    return true;
}

/* Whether axis `inner` goes on where the merged axis `outer` of `l` steps, for every operand. */
static bool continues(const loops *l, int64_t (*strides)[WEFT_MAX_RANK], int inner, int64_t extent) {
    for (int k = 0; k < l->noperands; k++)
        if (l->stride[k][l->naxes - 1] != strides[k][inner] * extent) return false;
    return true;
}

void loops_init(loops *l, int ndim, const int64_t *dims, int noperands, int64_t (*strides)[WEFT_MAX_RANK]) {
    *l = (loops){.naxes = 0, .noperands = noperands, .numel = 1};
    for (int i = 0; i < ndim; i++) {
        l->numel *= dims[i];
        if (dims[i] == 1) continue;
        if (l->naxes && continues(l, strides, i, dims[i])) {
            l->extent[l->naxes - 1] *= dims[i];
        } else {
            l->extent[l->naxes++] = dims[i];
        }
        for (int k = 0; k < noperands; k++) l->stride[k][l->naxes - 1] = strides[k][i];
    }
    if (l->naxes == 0) { /* one element */
        l->extent[0] = 1;
        for (int k = 0; k < noperands; k++) l->stride[k][0] = 1;
        l->naxes = 1;
    }
}

walk walk_start(const loops *l) {
    walk w = {.left = l->numel ? 1 : 0};
    if (l->numel)
        for (int i = 0; i + 1 < l->naxes; i++) w.left *= l->extent[i];
    return w;
}

void walk_next(const loops *l, walk *w) {
    w->left--;
    w->position += loops_run(l);
    for (int i = l->naxes - 2; i >= 0; i--) {
        bool wraps = ++w->index[i] == l->extent[i];
        int64_t steps = wraps ? 1 - l->extent[i] : 1;
        for (int k = 0; k < l->noperands; k++) w->at[k] += steps * l->stride[k][i];
        if (!wraps) return;
        w->index[i] = 0;
    }
}

void loops_at(const loops *l, int64_t run, int64_t out_at[LOOP_OPERANDS]) {
    for (int k = 0; k < LOOP_OPERANDS; k++) out_at[k] = 0;
    for (int i = l->naxes - 2; i >= 0; i--) {
        int64_t index = run % l->extent[i];
        run /= l->extent[i];
        for (int k = 0; k < l->noperands; k++) out_at[k] += index * l->stride[k][i];
    }
}
