/* gzip.h: gzip streams in memory, with zlib's memory from Weft's allocator. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

#include "base/base.h"

/* Appends the inflated bytes of all members; more than `max_nbytes` is an error before it is held. */
WEFT_MUST_USE weft_status gzip_inflate(const void *bytes, size_t nbytes, const char *place, size_t max_nbytes,
                                       buffer *out);
/* Appends one member without name or time: equal input gives equal bytes. */
WEFT_MUST_USE weft_status gzip_deflate(const void *bytes, size_t nbytes, buffer *out);

#endif
