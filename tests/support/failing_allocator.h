/* failing_allocator.h: libc's memory, except that the n-th request fails; counts what is still held. */
#ifndef TESTS_SUPPORT_FAILING_ALLOCATOR_H
#define TESTS_SUPPORT_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/context.h"

typedef struct failing_allocator {
    size_t fail_at;   /* the request that fails, from 1; 0: none */
    size_t nrequests; /* so far */
    size_t held;      /* bytes not yet freed, by the sizes that callers give */
    size_t peak;      /* the most that were held at once; the test may reset it */
    bool failed;      /* whether a request was refused */
    bool wrong_size;  /* whether a block came back with another size than it was given out with */
} failing_allocator;

/* An allocator over `state`, which must outlive it. Not for several threads. */
weft_allocator failing_allocator_on(failing_allocator *state);

#endif
