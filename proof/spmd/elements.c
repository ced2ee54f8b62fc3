/* elements.c: lists of elements, and boxes of them.
 *
 * Where parts differ, are filled up, or go to other ranks in another order, moves are no strides of one value. Which
 * element of which serial value stands where in what a rank has is known all the same: of what is known it is the part
 * that the rank holds (elements_known.c), and each move (elements_moves.c), exchange or gather (elements_ring.c) takes
 * its elements from what it is of. An element may also be a zero that fills up. Values of many elements are left to the
 * other rules. */
#include "proof/spmd/elements.h"

bool elements_room(walk *w, uint32_t id, elements *out) {
    const terms *t = w->l->t;
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    int64_t numel = term_numel(t, id);
    if (!dims || numel <= 0 || numel > ELEMENTS_MOST || numel > w->left || ndim > WEFT_MAX_RANK) return false;
    w->left -= numel;
    *out = (elements){.base = TERM_NONE, .ndim = ndim, .count = numel};
    int64_t *own = ARENA_ARRAY(&w->memory, int64_t, ndim + 1);
    out->at = ARENA_ARRAY(&w->memory, int64_t, (size_t)numel);
    if (!own || !out->at) return w->failed = true, false;
    if (ndim) memcpy(own, dims, ndim * sizeof *own);
    out->dims = own; /* the table may move */
    for (int64_t i = 0; i < numel; i++) out->at[i] = ELEMENT_ZERO;
    return true;
}

bool elements_join(elements *all, const elements *more) {
    if (more->base == TERM_NONE) return true;
    if (all->base != TERM_NONE)
        return all->base == more->base && all->partial == more->partial && all->family == more->family;
    all->base = more->base, all->partial = more->partial, all->family = more->family;
    return true;
}

void elements_copy(size_t ndim, const int64_t *dims, const int64_t *src, const int64_t *src_dims, int64_t from,
                   int64_t *dst, const int64_t *dst_dims, int64_t to) {
    int64_t count = 1;
    for (size_t d = 0; d < ndim; d++) count *= dims[d];
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, a = from, b = to, src_stride = 1, dst_stride = 1;
        for (size_t d = ndim; d-- > 0; rest /= dims[d]) {
            a += rest % dims[d] * src_stride, b += rest % dims[d] * dst_stride;
            src_stride *= src_dims[d], dst_stride *= dst_dims[d];
        }
        dst[b] = src[a];
    }
}

int64_t elements_stride(size_t ndim, const int64_t *dims, size_t d) {
    int64_t n = 1;
    for (size_t i = d + 1; i < ndim; i++) n *= dims[i];
    return n;
}

bool elements_put(const elements *one, size_t d, int64_t from, int64_t count, int64_t to, elements *all) {
    int64_t dims[WEFT_MAX_RANK];
    if (one->ndim != all->ndim || d >= one->ndim || from < 0 || count < 0 || from + count > one->dims[d] ||
        to + count > all->dims[d] || !elements_join(all, one))
        return false;
    for (size_t i = 0; i < one->ndim; i++) {
        if (i != d && one->dims[i] != all->dims[i]) return false;
        dims[i] = i == d ? count : one->dims[i];
    }
    elements_copy(one->ndim, dims, one->at, one->dims, from * elements_stride(one->ndim, one->dims, d), all->at,
                  all->dims, to * elements_stride(all->ndim, all->dims, d));
    return true;
}
