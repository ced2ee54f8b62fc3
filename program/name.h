/* name.h: comparing a name with a text that is mostly short and mostly another. */
#ifndef PROGRAM_NAME_H
#define PROGRAM_NAME_H

#include "base/base.h"

/* As name_is, without a call: most slots and attrs are told apart by their first byte. */
static inline bool name_is_short(const name *n, const char *with) {
    uint32_t i = 0;
    while (i < n->nbytes && n->bytes[i] == with[i] && with[i]) i++;
    return i == n->nbytes && !with[i];
}

#endif
