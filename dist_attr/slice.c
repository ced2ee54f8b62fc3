/* slice.c: boxes of dense tensors. Trailing axes that the box takes whole are one run of bytes; the axes before them
 * are counted through like an odometer. */
#include "dist_attr/slice.h"

#include <stdio.h>

bool slice_is_whole(const slice *s) {
    return memcmp(s->whole, s->extent, (size_t)s->ndim * sizeof *s->whole) == 0;
}

typedef struct runs {
    int naxes;                    /* axes that are counted */
    size_t nbytes;                /* of one run */
    size_t count;                 /* how many runs */
    size_t first;                 /* byte of the first one in the whole tensor */
    size_t stride[WEFT_MAX_RANK]; /* bytes from one index of a counted axis to the next */
} runs;

static runs find_runs(const slice *s, size_t size) {
    runs r = {.naxes = s->ndim, .nbytes = size, .count = 1};
    size_t stride = size;
    bool whole = true;
    for (int i = s->ndim - 1; i >= 0; i--) {
        r.stride[i] = stride;
        r.first += (size_t)s->offset[i] * stride;
        stride *= (size_t)s->whole[i];
        if (whole) {
            r.nbytes *= (size_t)s->extent[i];
            r.naxes = i;
        } else {
            r.count *= (size_t)s->extent[i];
        }
        whole = whole && s->extent[i] == s->whole[i];
    }
    if (r.nbytes == 0) r.count = 0;
    return r;
}

/* Calls for every run: where it lies in the whole tensor, and in the part. */
static void copy_runs(const slice *s, size_t size, unsigned char *whole, unsigned char *part, bool take) {
    runs r = find_runs(s, size);
    int64_t at[WEFT_MAX_RANK] = {0};
    unsigned char *run = whole + r.first;
    for (size_t k = 0; k < r.count; k++, part += r.nbytes) {
        memcpy(take ? part : run, take ? run : part, r.nbytes);
        for (int i = r.naxes - 1; i >= 0; i--) {
            run += r.stride[i];
            if (++at[i] < s->extent[i]) break;
            run -= (size_t)at[i] * r.stride[i];
            at[i] = 0;
        }
    }
}

void slice_take(const slice *s, size_t size, const void *whole, void *part) {
    copy_runs(s, size, (unsigned char *)(uintptr_t)whole, part, true);
}

void slice_put(const slice *s, size_t size, void *whole, const void *part) {
    copy_runs(s, size, whole, (unsigned char *)(uintptr_t)part, false);
}

const char *type_text(weft_dtype dtype, size_t ndim, const int64_t *dims, char *out, size_t nbytes) {
    const char *known = weft_dtype_name(dtype);
    int used = snprintf(out, nbytes, "%s [", known ? known : "no type");
    for (size_t i = 0; i < ndim && used >= 0 && (size_t)used < nbytes; i++) {
        used += snprintf(out + used, nbytes - (size_t)used, "%s%lld", i ? ", " : "", (long long)dims[i]);
    }
    if (used >= 0 && (size_t)used < nbytes) snprintf(out + used, nbytes - (size_t)used, "]");
    return out;
}
