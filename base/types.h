/* types.h: kinds of element types. */
#ifndef BASE_TYPES_H
#define BASE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "weft/types.h"

static inline bool dtype_is_half(int32_t d) {
    return d == WEFT_FP16 || d == WEFT_BF16;
}
static inline bool dtype_is_float(int32_t d) {
    return d == WEFT_FP32 || d == WEFT_FP64 || dtype_is_half(d);
}

#endif
