#include "tests/support/failing_allocator.h"

#include <stdlib.h>
#include <string.h>

enum { HEADER = 16 };

static void *resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    failing_allocator *state = user;
    unsigned char *block = ptr ? (unsigned char *)ptr - HEADER : NULL;
    size_t given = 0;
    if (block) memcpy(&given, block, sizeof given);
    if (block && given != old_nbytes) state->wrong_size = true;
    if (!new_nbytes) {
        state->held -= given;
        free(block);
        return NULL;
    }
    if (++state->nrequests == state->fail_at) {
        state->failed = true;
        return NULL;
    }
    block = realloc(block, new_nbytes + HEADER);
    if (!block) return NULL;
    memcpy(block, &new_nbytes, sizeof new_nbytes);
    state->held += new_nbytes - given;
    if (state->held > state->peak) state->peak = state->held;
    return block + HEADER;
}

weft_allocator failing_allocator_on(failing_allocator *state) {
    return (weft_allocator){resize, state};
}
