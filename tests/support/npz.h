/* npz.h: the members of a .npz file as they are stored, of any dtype, for comparing. */
#ifndef TESTS_SUPPORT_NPZ_H
#define TESTS_SUPPORT_NPZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"
#include "weft/types.h"

typedef struct npz_array {
    const char *name; /* without .npy */
    char dtype[16];   /* "<f4", "|b1", ... */
    int ndim;
    int64_t dims[WEFT_MAX_RANK];
    int64_t numel;
    const void *data; /* C order */
    size_t nbytes;
} npz_array;

typedef struct npz {
    arena arena;
    npz_array *arrays;
    size_t count;
} npz;

/* False, with the reason in `why`, for a file that is no .npz. */
bool npz_open(npz *z, const weft_allocator *allocator, const char *path, char *why, size_t why_nbytes);
void npz_close(npz *z);
const npz_array *npz_find(const npz *z, const char *prefix, const char *wanted); /* NULL if absent */

#endif
