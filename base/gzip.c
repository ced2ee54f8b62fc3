/* gzip.c: zlib in steps of at most 64 KiB of output, so that a bomb is refused when it passes the cap and never held.
 */
#include <limits.h>
#include <zlib.h>

#include "base/gzip.h"

enum { STEP_NBYTES = 1 << 16, GZIP_WINDOW = 15 + 16, HEADER = 16 };

/* zlib frees without a size: keep it in front of the block. */
static void *zlib_alloc(void *user, unsigned count, unsigned size) {
    size_t nbytes;
    if (!base_mul(count, size, &nbytes) || !base_add(nbytes, HEADER, &nbytes)) return NULL;
    unsigned char *block = base_alloc(user, nbytes);
    if (!block) return NULL;
    memcpy(block, &nbytes, sizeof nbytes);
    return block + HEADER;
}

static void zlib_free(void *user, void *ptr) {
    if (!ptr) return;
    unsigned char *block = (unsigned char *)ptr - HEADER;
    size_t nbytes;
    memcpy(&nbytes, block, sizeof nbytes);
    base_free(user, block, nbytes);
}

static z_stream stream_on(const buffer *out) {
    return (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = (void *)(uintptr_t)out->allocator};
}

/* Gives zlib the next piece of input and of output. zlib counts in unsigned ints, files in size_t. */
static weft_status feed(z_stream *z, const unsigned char **at, const unsigned char *end, buffer *out) {
    if (z->avail_in == 0) {
        size_t left = (size_t)(end - *at);
        z->next_in = (unsigned char *)(uintptr_t)*at;
        z->avail_in = left > INT_MAX ? INT_MAX : (unsigned)left;
        *at += z->avail_in;
    }
    TRY(vector_reserve(out->allocator, &out->bytes, &out->capacity, out->nbytes + STEP_NBYTES, 1));
    z->next_out = (unsigned char *)out->bytes + out->nbytes;
    z->avail_out = STEP_NBYTES;
    return NULL;
}

weft_status gzip_inflate(const void *bytes, size_t nbytes, const char *place, size_t max_nbytes, buffer *out) {
    z_stream z = stream_on(out);
    if (inflateInit2(&z, GZIP_WINDOW) != Z_OK) return base_out_of_memory();
    const unsigned char *at = bytes, *end = at + nbytes;
    weft_status status = NULL;
    for (;;) {
        TRY_DONE(feed(&z, &at, end, out));
        int code = inflate(&z, Z_NO_FLUSH);
        out->nbytes += STEP_NBYTES - z.avail_out;
        if (out->nbytes > max_nbytes) {
            status = weft_status_create(WEFT_LIMIT, place, "inflates to more than the limit of %zu bytes", max_nbytes);
            goto done;
        }
        if (code == Z_STREAM_END) {
            if (z.avail_in == 0 && at == end) goto done;
            code = inflateReset(&z); /* another member follows */
        }
        if (code == Z_MEM_ERROR) {
            status = base_out_of_memory();
            goto done;
        }
        if (code != Z_OK) {
            const char *found = code == Z_BUF_ERROR ? "the stream ends early" : z.msg ? z.msg : "damaged data";
            status = weft_status_create(WEFT_PARSE, place, "expected gzip data: %s (byte %zu)", found,
                                        nbytes - (size_t)(end - at) - z.avail_in);
            goto done;
        }
    }
done:
    inflateEnd(&z);
    return status;
}

weft_status gzip_deflate(const void *bytes, size_t nbytes, buffer *out) {
    z_stream z = stream_on(out);
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return base_out_of_memory();
    const unsigned char *at = bytes, *end = at + nbytes;
    weft_status status = NULL;
    for (int code = Z_OK; code == Z_OK;) {
        TRY_DONE(feed(&z, &at, end, out));
        code = deflate(&z, at == end ? Z_FINISH : Z_NO_FLUSH);
        out->nbytes += STEP_NBYTES - z.avail_out;
    }
done:
    deflateEnd(&z);
    return status;
}
