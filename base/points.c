/* points.c: see points.h. */
#include <stdlib.h>
#include <string.h>

#include "base/points.h"

static int compare_points(const void *x, const void *y) {
    int64_t a, b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, y, sizeof b);
    return (a > b) - (a < b);
}

size_t points_sort(int64_t *points, size_t npoints) {
    size_t n = 0;
    if (npoints) qsort(points, npoints, sizeof *points, compare_points);
    for (size_t i = 0; i < npoints; i++)
        if (!n || points[i] != points[n - 1]) points[n++] = points[i];
    return n;
}

size_t points_find(const int64_t *points, size_t npoints, int64_t point) {
    size_t low = 0, high = npoints;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (points[middle] < point)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
