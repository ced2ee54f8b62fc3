/* normal_moves.c: a transposition that moves only dimensions of extent 1 leaves the elements where they are. It is a
 * reshape, as which ranks' parts may come out of other moves. */
#include <string.h>

#include "proof/equivalence/normal.h"

/* axis[i] is where dimension i of what is turned comes from. */
static bool keeps_order(const int64_t *axis, size_t naxes, size_t ndim, const int64_t *dims) {
    int64_t last = -1;
    if (naxes != ndim) return false;
    for (size_t i = 0; i < naxes; i++) {
        int64_t from = axis[i] < 0 ? axis[i] + (int64_t)ndim : axis[i];
        if (from < 0 || from >= (int64_t)ndim || dims[from] < 0) return false;
        if (dims[from] == 1) continue;
        if (from < last) return false;
        last = from;
    }
    return true;
}

static bool is_transposition(const head *h) {
    return normal_is_type(h, "transpose2") || normal_is_type(h, "transpose");
}
static bool is_its_gradient(const head *h) {
    return normal_is_type(h, "transpose2_grad") || normal_is_type(h, "transpose_grad");
}

/* out->term TERM_NONE: elements move. */
weft_status normal_turned(normal *n, uint32_t id, uint32_t op, value *out) {
    terms *t = n->terms;
    const head *h = term_head(t, op);
    bool is_gradient = is_its_gradient(h);
    *out = value_of(TERM_NONE);
    if (!h->op || (!is_gradient && !is_transposition(h)) ||
        strcmp(term_head(t, id)->label, is_gradient ? "X@GRAD" : "Out"))
        return NULL;
    size_t at = 0, ndim, nfrom, naxes;
    while (at < h->nargs && h->roles[at] != ROLE_LINEAR) at++;
    if (at >= t->items[op].nargs) return NULL;
    const int64_t *axis = attr_ints(h->op, "axis", &naxes), *dims = term_dims(t, id, &ndim),
                  *from = term_dims(t, term_args(t, op)[at].term, &nfrom);
    if (!dims || !from || nfrom != ndim || !keeps_order(axis, naxes, ndim, is_gradient ? dims : from)) return NULL;
    return term_reshape(t, normal_of_arg(n, op, at), ndim, dims, out);
}
