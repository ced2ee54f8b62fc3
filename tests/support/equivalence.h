/* equivalence.h: what a comparison of programs says. */
#ifndef TESTS_SUPPORT_EQUIVALENCE_H
#define TESTS_SUPPORT_EQUIVALENCE_H

#include <string.h>

#include "weft/equivalent.h"

/* Whether a finding has these words in it. */
static inline bool any_message(const weft_equivalence *e, const char *wanted) {
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        const char *message;
        (void)weft_equivalence_finding(e, i, NULL, &message);
        if (strstr(message, wanted)) return true;
    }
    return false;
}

#endif
