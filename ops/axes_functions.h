/* axes_functions.h: the functions behind "@name SLOTS" of axes.def. Each gives dimensions of the slots their factors,
 * and returns whether the op has the form that it knows. */
#ifndef OPS_AXES_FUNCTIONS_H
#define OPS_AXES_FUNCTIONS_H

#include "ops/axes_text.h"

static inline int axes_fresh(axes_build *b, int64_t size) {
    return axes_add_factor(b, size, NULL);
}
static inline int axes_fresh_whole(axes_build *b, int64_t size) {
    return axes_add_factor(b, size, axes_why_whole);
}

/* axes_products.c. SLOTS: X, Y, Out; of an einsum those of axes.def. */
bool axes_matmul(axes_build *b, const char *const *slots, int nslots);
bool axes_kron(axes_build *b, const char *const *slots, int nslots);
bool axes_einsum(axes_build *b, const char *const *slots, int nslots);

/* axes_reshapes.c: the same elements under other extents; and a product over several dimensions that are taken so. */
bool axes_squeeze(axes_build *b, const char *const *slots, int nslots);
bool axes_unsqueeze(axes_build *b, const char *const *slots, int nslots);
bool axes_reshape(axes_build *b, const char *const *slots, int nslots);
bool axes_transpose(axes_build *b, const char *const *slots, int nslots);
bool axes_mul(axes_build *b, const char *const *slots, int nslots);

#endif
