/* points.h: points on a line, sorted and each once: the ends of ranges, which cut it into parts. */
#ifndef BASE_POINTS_H
#define BASE_POINTS_H

#include <stddef.h>
#include <stdint.h>

/* Sorts end points and drops those that are there twice; how many are left. */
size_t points_sort(int64_t *points, size_t npoints);
/* The first point that is not before `point`. */
size_t points_find(const int64_t *points, size_t npoints, int64_t point);

#endif
