/* numbers.h: element types of which a sum has parts, and a multiple a factor. */
#ifndef BASE_NUMBERS_H
#define BASE_NUMBERS_H

#include "base/types.h"

/* Real and complex numbers. */
static inline bool dtype_is_inexact(int32_t d) {
    return dtype_is_float(d) || d == WEFT_COMPLEX64 || d == WEFT_COMPLEX128;
}

#endif
