/* nearest.h: the name that may be meant by one that nobody has. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

typedef struct nearest_name {
    const char *wanted;
    const char *name; /* the nearest so far, borrowed; NULL: none is near */
    size_t distance;
} nearest_name;

/* Names that need four edits, or edits of more than half of what is wanted, are others and no misspelling. */
nearest_name nearest_to(const char *wanted);
void nearest_try(nearest_name *n, const char *candidate);

#endif
