/* ranges.c: the last accesses to each byte range of each buffer, by stream.
 *
 * The slices of a buffer cut it into leaves. A segment tree over them is kept for reads and for writes. It has the
 * number of instructions of each stream after which all accesses seen so far are done. A stream runs in order and
 * instructions come in program order. So the newest access of a stream stands for all its older ones and nothing is
 * ever taken back. `cover` holds accesses of all of a node's bytes, `below` those of any: a query reads `below` where
 * it ends and `cover` on the way. A buffer without slices is a tree of one leaf. O(nstreams log nleaves) an access. */
#include <stdlib.h>

#include "plan/builder.h"

enum { COVER, BELOW, NPARTS }; /* of a node, each [read, write][stream] */

struct plan_ranges {
    const plan_builder *b;
    int32_t *nodes;
    int64_t *cuts; /* where the leaves of a root begin */
    size_t nstreams;
};

typedef struct cut {
    int32_t root;
    int64_t at;
} cut;

static int compare_cuts(const void *x, const void *y) {
    const cut *a = x, *c = y;
    if (a->root != c->root) return a->root < c->root ? -1 : 1;
    return (a->at > c->at) - (a->at < c->at);
}

/* The cuts of buffers that have slices, sorted and each once; roots get theirs. */
static weft_status find_cuts(plan_builder *b, plan_ranges *r) {
    cut *cuts = ARENA_ARRAY(&b->scratch, cut, 2 * b->nvalues + 1);
    r->cuts = ARENA_ARRAY(&b->scratch, int64_t, 2 * b->nvalues + 1);
    size_t n = 0, kept = 0;
    if (!cuts || !r->cuts) return base_out_of_memory();
    for (size_t v = 0; v < b->nvalues; v++) {
        int32_t root = b->root_of[v];
        if (!b->roots[root].has_views) continue;
        cuts[n++] = (cut){root, b->begin_of[v]};
        cuts[n++] = (cut){root, b->begin_of[v] + b->values[v].nbytes};
    }
    if (n > 1) qsort(cuts, n, sizeof *cuts, compare_cuts);
    for (size_t i = 0; i < n; i++) {
        plan_root *root = &b->roots[cuts[i].root];
        bool is_new = !i || cuts[i - 1].root != cuts[i].root || cuts[i - 1].at != cuts[i].at;
        if (!is_new || cuts[i].at >= root->nbytes) continue; /* the end is no leaf */
        if (!root->nleaves++) root->first_leaf = (uint32_t)kept;
        r->cuts[kept++] = cuts[i].at;
    }
    return NULL;
}

weft_status plan_ranges_create(plan_builder *b, plan_ranges **out_ranges) {
    plan_ranges *r = ARENA_NEW(&b->scratch, plan_ranges);
    size_t nnodes = 0, nints;
    if (!r) return base_out_of_memory();
    r->b = b;
    r->nstreams = b->nstreams;
    TRY(find_cuts(b, r));
    for (size_t v = 0; v < b->nvalues; v++) {
        plan_root *root = &b->roots[v];
        if (b->root_of[v] != (int32_t)v || !root->nbytes) continue;
        if (!root->nleaves) root->nleaves = 1;
        root->nodes = (uint32_t)nnodes;
        nnodes += 2 * (size_t)root->nleaves - 1;
    }
    if (!base_mul(nnodes, 2 * NPARTS * r->nstreams, &nints)) return base_out_of_memory();
    r->nodes = ARENA_ARRAY(&b->scratch, int32_t, nints + 1);
    *out_ranges = r;
    return r->nodes ? NULL : base_out_of_memory();
}

/* The leaf at which a byte offset (that is a cut) lies, or the number of leaves for the end. */
static uint32_t leaf_at(const plan_ranges *r, const plan_root *root, int64_t at) {
    uint32_t low = 0, high = root->nleaves;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (r->cuts[root->first_leaf + middle] < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const plan_root *leaves_of(const plan_ranges *r, int32_t value, uint32_t *out_first, uint32_t *out_end) {
    const plan_builder *b = r->b;
    const plan_root *root = &b->roots[b->root_of[value]];
    *out_first = 0;
    *out_end = root->nleaves;
    if (root->has_views) {
        *out_first = leaf_at(r, root, b->begin_of[value]);
        *out_end = leaf_at(r, root, b->begin_of[value] + b->values[value].nbytes);
    }
    return root;
}

static int32_t *part_of(const plan_ranges *r, size_t node, int part, bool is_write) {
    return r->nodes + ((node * NPARTS + (size_t)part) * 2 + is_write) * r->nstreams;
}

static void raise(int32_t *need, const int32_t *counts, size_t n) {
    for (size_t s = 0; s < n; s++)
        if (counts[s] > need[s]) need[s] = counts[s];
}

/* A node of leaves [low, high): its left child follows it, its right child follows the left one's subtree. */
static void query(const plan_ranges *r, size_t node, uint32_t low, uint32_t high, uint32_t first, uint32_t end,
                  bool writes, int32_t *need) {
    if (first <= low && high <= end) {
        raise(need, part_of(r, node, BELOW, writes), r->nstreams);
        return;
    }
    raise(need, part_of(r, node, COVER, writes), r->nstreams);
    uint32_t middle = low + (high - low) / 2;
    if (first < middle) query(r, node + 1, low, middle, first, end, writes, need);
    if (end > middle) query(r, node + 2 * (size_t)(middle - low), middle, high, first, end, writes, need);
}

void plan_ranges_conflicts(const plan_ranges *r, plan_access access, int32_t *need) {
    uint32_t first, end;
    const plan_root *root = leaves_of(r, access.value, &first, &end);
    query(r, root->nodes, 0, root->nleaves, first, end, true, need);
    if (access.is_write) query(r, root->nodes, 0, root->nleaves, first, end, false, need);
}

static void record(plan_ranges *r, size_t node, uint32_t low, uint32_t high, uint32_t first, uint32_t end,
                   bool is_write, int32_t stream, int32_t count) {
    part_of(r, node, BELOW, is_write)[stream] = count;
    if (first <= low && high <= end) {
        part_of(r, node, COVER, is_write)[stream] = count;
        return;
    }
    uint32_t middle = low + (high - low) / 2;
    if (first < middle) record(r, node + 1, low, middle, first, end, is_write, stream, count);
    if (end > middle) record(r, node + 2 * (size_t)(middle - low), middle, high, first, end, is_write, stream, count);
}

void plan_ranges_record(plan_ranges *r, plan_access access, int32_t stream, int32_t count) {
    uint32_t first, end;
    const plan_root *root = leaves_of(r, access.value, &first, &end);
    record(r, root->nodes, 0, root->nleaves, first, end, access.is_write, stream, count);
}
