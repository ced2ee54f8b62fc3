/* nearest.c: edits between names (Levenshtein), a row at a time. */
#include "base/nearest.h"

#include <string.h>

enum { FAR = 4, LONGEST = 64 };

/* `limit` or more: that far, or further. */
static size_t edits(const char *a, const char *b, size_t limit) {
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST || na + limit <= nb || nb + limit <= na) return limit;
    size_t row[LONGEST + 1]; /* from a[..i] to every b[..j] */
    for (size_t j = 0; j <= nb; j++) row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[nb];
}

nearest_name nearest_to(const char *wanted) {
    size_t half = strlen(wanted) / 2 + 1;
    return (nearest_name){.wanted = wanted, .distance = half < FAR ? half : FAR};
}

void nearest_try(nearest_name *n, const char *candidate) {
    size_t distance = edits(n->wanted, candidate, n->distance);
    if (distance >= n->distance) return;
    n->distance = distance;
    n->name = candidate;
}
