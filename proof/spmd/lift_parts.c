/* lift_parts.c: parts that are not equal, or not one stretch.
 *
 * How axes cut a dimension unevenly is a partition: the extents of the parts, in the order of the axes, the major one
 * first. Each of these axes then names that partition, so that equal placements are equal. Parts of which all are of
 * one extent have no partition (lift_nest.c). Runs are stretches of one length that are dealt out in turn. */
#include "proof/spmd/lift.h"

bool lift_is_sharded_at(const lifter *l, const lifted *x, int d) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (sharded_dim(x->placed[i]) == d) return true;
    return false;
}

bool lift_is_uneven(const lifter *l, const lifted *x) {
    for (size_t i = 0; i < l->grid.naxes; i++)
        if (x->placed[i].split) return true;
    return false;
}

const partition *lift_partition(const lifter *l, axis_placement placed) {
    return &l->uneven->items[placed.split - 1];
}

bool lift_leads(const lifter *l, axis_placement placed, size_t axis) {
    return lift_partition(l, placed)->axes[0] == (int)axis;
}

int64_t lift_part_of_axes(const lifter *l, size_t rank, const int *axes, int n) {
    int64_t part = 0;
    for (int i = 0; i < n; i++) part = part * l->grid.extent[axes[i]] + l->grid.at[rank][axes[i]];
    return part;
}

int64_t lift_partition_part(const lifter *l, axis_placement placed, size_t rank, int64_t *out_extent) {
    const partition *p = lift_partition(l, placed);
    int64_t first = 0, at = lift_part_of_axes(l, rank, p->axes, p->naxes);
    for (int64_t i = 0; i < at; i++) first += p->extent[i];
    *out_extent = p->extent[at];
    return first;
}

static int64_t count_parts(const lifter *l, const int *axes, int naxes) {
    int64_t n = 1;
    for (int i = 0; i < naxes; i++) n *= l->grid.extent[axes[i]];
    return n;
}

static bool is_same_partition(const partition *a, const partition *b) {
    return a->naxes == b->naxes && a->total == b->total && memcmp(a->axes, b->axes, sizeof a->axes) == 0 &&
           memcmp(a->extent, b->extent, sizeof a->extent) == 0;
}

int lift_find_partition(const lifter *l, const int *axes, int naxes, const int64_t *extent) {
    partitions *p = l->uneven;
    int64_t n = count_parts(l, axes, naxes);
    partition made = {.naxes = naxes};
    memcpy(made.axes, axes, (size_t)naxes * sizeof *axes);
    memcpy(made.extent, extent, (size_t)n * sizeof *extent);
    for (int64_t i = 0; i < n; i++)
        if (__builtin_add_overflow(made.total, extent[i], &made.total)) return 0;
    for (size_t i = 0; i < p->count; i++)
        if (is_same_partition(&p->items[i], &made)) return (int)i + 1;
    if (p->count == LIFT_PARTITIONS) return 0;
    p->items[p->count] = made;
    return (int)++p->count;
}

void lift_ceil_parts(const lifter *l, const int *axes, int naxes, int64_t total, int64_t *out) {
    int64_t n = 1;
    out[0] = total;
    for (int i = 0; i < naxes; i++) {
        int64_t by = l->grid.extent[axes[i]];
        for (int64_t k = n; k-- > 0;) {
            int64_t rest = out[k], most = (rest + by - 1) / by;
            for (int64_t m = 0; m < by; m++) {
                int64_t own = rest < most ? rest : most;
                out[k * by + m] = own;
                rest -= own;
            }
        }
        n *= by;
    }
}

bool lift_put_parts(const lifter *l, int d, const int *axes, int naxes, const int64_t *extent, lifted *out) {
    int64_t n = count_parts(l, axes, naxes);
    bool even = true;
    for (int64_t i = 1; i < n; i++) even = even && extent[i] == extent[0];
    if (even) return lift_put_nest(out, d, axes, naxes), true;
    int split = lift_find_partition(l, axes, naxes, extent);
    for (int i = 0; i < naxes; i++) out->placed[axes[i]] = sharded_by(d, split);
    return split > 0;
}

int64_t lift_declared_parts(const lifter *l, const char *var, size_t d, const int *axes, int naxes, int64_t *out) {
    int64_t n = count_parts(l, axes, naxes), total = 0, last = -1;
    bool even = true;
    if (n > LIFT_RANKS) return -1;
    for (int64_t i = 0; i < n; i++) out[i] = -1;
    for (size_t i = 0; i < l->nranks; i++) {
        const weft_var *v = weft_block_find_var(l->programs[i]->blocks[0], var);
        int64_t *own = &out[lift_part_of_axes(l, i, axes, naxes)];
        if (!v) continue; /* it has none */
        if (d >= v->ndim || v->dims[d] < 0 || (*own >= 0 && *own != v->dims[d])) return -1;
        even = even && (last < 0 || v->dims[d] == last);
        last = *own = v->dims[d];
    }
    for (int64_t i = 0; i < n; i++) {
        if (out[i] < 0 && !even) return -1;
        if (out[i] < 0) out[i] = last < 0 ? 0 : last;
        if (__builtin_add_overflow(total, out[i], &total)) return -1;
    }
    return total;
}

int lift_find_run(const lifter *l, int64_t run) {
    int64_t *runs = l->uneven->run;
    for (int i = 0; i < LIFT_RUNS; i++) {
        if (!runs[i]) runs[i] = run;
        if (runs[i] == run) return i + SPLIT_RUNS;
    }
    return 0;
}

int64_t lift_run(const lifter *l, axis_placement placed) {
    return l->uneven->run[placed.split - SPLIT_RUNS];
}
