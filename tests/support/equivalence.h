/* equivalence.h: what a comparison of programs says. */
#ifndef TESTS_SUPPORT_EQUIVALENCE_H
#define TESTS_SUPPORT_EQUIVALENCE_H

#include <string.h>

#include "weft/equivalent.h"

/* Whether a finding has these words in it. */
static inline bool any_words(const weft_equivalence *e, const char *wanted) {
    for (size_t i = 0; i < weft_equivalence_nfindings(e); i++) {
        const char *words;
        (void)weft_equivalence_finding(e, i, NULL, &words);
        if (strstr(words, wanted)) return true;
    }
    return false;
}

#endif
