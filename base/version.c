/* version.c: which library this is. */
#include "weft/context.h"

const char *weft_version(void) {
    return "weft " WEFT_VERSION;
}
