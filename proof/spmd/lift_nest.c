/* lift_nest.c: equal parts of equal parts. Several axes may shard one dimension, each the parts of the one before. That
 * order is the grid's for most values, and another for some: a list of axes that stand against that order says at each
 * that its parts are of those behind it (SPLIT_INNER). Such lists are in one form, so equal placements are equal. */
#include "proof/spmd/lift.h"

int lift_nest(const lifter *l, const lifted *x, int d, int *out_axes) {
    int n = 0;
    for (int depth = 0; depth < LIFT_AXES; depth++) {
        for (size_t k = 0; k < l->grid.naxes; k++) {
            axis_placement p = x->placed[k];
            if (sharded_dim(p) != d) continue;
            if (has_partition(p) || has_runs(p)) return -1;
            if (nest_depth(p) == depth) out_axes[n++] = (int)k;
        }
    }
    return n;
}

void lift_put_nest(lifted *x, int d, const int *axes, int n) {
    int depth = 0;
    for (int i = 0; i < n; i++) {
        depth += i && axes[i] < axes[i - 1];
        x->placed[axes[i]] = sharded_by(d, depth ? SPLIT_INNER + depth - 1 : SPLIT_EVEN);
    }
}

bool lift_nest_deeper(const lifter *l, uint32_t axes, int d, lifted *x) {
    int list[LIFT_AXES], n = lift_nest(l, x, d, list);
    if (n < 0) return false;
    for (size_t k = 0; k < l->grid.naxes; k++)
        if (axes >> k & 1) list[n++] = (int)k;
    lift_put_nest(x, d, list, n);
    return true;
}

bool lift_is_innermost(const lifter *l, const lifted *x, uint32_t axes, int d) {
    int list[LIFT_AXES], n = lift_nest(l, x, d, list), count = __builtin_popcount(axes);
    if (n < count) return false;
    for (int i = n - count; i < n; i++)
        if (!(axes >> list[i] & 1) || (i > n - count && list[i] < list[i - 1])) return false;
    return true;
}

bool lift_next_order(int *axes, int n) {
    int i = n - 2, k = n - 1;
    while (i >= 0 && axes[i] > axes[i + 1]) i--;
    if (i < 0) return false;
    while (axes[k] < axes[i]) k--;
    for (int swap = axes[i], once = 1; once; once = 0) axes[i] = axes[k], axes[k] = swap;
    for (int a = i + 1, b = n - 1; a < b; a++, b--) {
        int swap = axes[a];
        axes[a] = axes[b], axes[b] = swap;
    }
    return true;
}
