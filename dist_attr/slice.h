/* slice.h: copying a box out of a dense tensor, or into one. */
#ifndef DIST_ATTR_SLICE_H
#define DIST_ATTR_SLICE_H

#include "base/base.h"
#include "weft/types.h"

/* A box of `extent` at `offset` of a whole tensor of `whole` dims. */
typedef struct slice {
    int ndim;
    int64_t whole[WEFT_MAX_RANK], offset[WEFT_MAX_RANK], extent[WEFT_MAX_RANK];
} slice;

/* `part` is dense, of the box's extents; elements have `size` bytes. */
void slice_take(const slice *s, size_t size, const void *whole, void *part);
void slice_put(const slice *s, size_t size, void *whole, const void *part);

bool slice_is_whole(const slice *s);

/* "float32 [16, 32]", cut to fit; returns `out`. */
const char *type_text(weft_dtype dtype, size_t ndim, const int64_t *dims, char *out, size_t nbytes);

#endif
