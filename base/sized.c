/* sized.c: structs of the public headers that begin with their own size, so that a host and a library of different ages
 * fit: fields that an older host does not have are zero, which is what every field means when it is not set. */
#include "base/base.h"

weft_status base_take_struct(const char *what, void *to, size_t nbytes, const void *from) {
    size_t given = 0;
    memset(to, 0, nbytes);
    if (from) memcpy(&given, from, sizeof given);
    if (from && given < sizeof given)
        return weft_status_create(WEFT_INVALID_ARGUMENT, what,
                                  "expected a struct that begins with its size (its _INIT macro), found %zu", given);
    if (given > nbytes)
        return weft_status_create(WEFT_INVALID_ARGUMENT, what,
                                  "found a struct of %zu bytes, this library (%s) knows %zu: it is older than the host",
                                  given, weft_version(), nbytes);
    if (from) memcpy(to, from, given);
    memcpy(to, &nbytes, sizeof nbytes);
    return NULL;
}
