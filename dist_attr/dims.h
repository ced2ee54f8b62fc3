/* dims.h: entries of a dims_mapping: the mesh axes that shard one dimension, major first. The first of them cuts it,
 * the next one each of these parts, and so on. -1: none; of one axis, its number; of several, six bits an axis, those
 * of further axes holding 1 + axis. So equal lists are equal numbers. */
#ifndef DIST_ATTR_DIMS_H
#define DIST_ATTR_DIMS_H

#include "dist_attr/dist_attr.h"

enum { DIM_MAX_AXES = 10 }; /* that shard one dimension */

static inline int dim_naxes(int64_t entry) {
    int n = entry >= 0;
    while (n && n < DIM_MAX_AXES && entry >> 6 * n) n++;
    return n;
}
/* Number i of them; -1 or too large for a mesh where the entry was made by nobody here. */
static inline int dim_axis(int64_t entry, int i) {
    return (int)(entry >> 6 * i & 63) - (i > 0);
}
/* The list with one more axis, the minor one; -2, which no placement has: it does not fit. */
int64_t dim_add(int64_t entry, int64_t axis);
/* "[[0, 1], -1, 2]". */
void dims_mapping_print(buffer *out, const int64_t *dims_mapping, size_t ndim);
/* How many parts tensor axis `axis` is in. */
int64_t placement_parts(const placement *p, int axis);

#endif
