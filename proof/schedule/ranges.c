/* ranges.c: a segment tree with marks that stay where they are put. An access marks the O(log n) nodes that make up its
 * range; a later one meets it either in such a node's descendants (`any`) or in an ancestor (`whole`). Epochs of a
 * stream only grow, so marking is assigning. */
#include "proof/schedule/ranges.h"

weft_status ranges_build(byte_ranges *r, arena *a) {
    r->nleaves = r->npoints > 1 ? r->npoints - 1 : 1;
    size_t count;
    if (!base_mul(2 * r->nleaves, r->nstreams ? r->nstreams : 1, &count)) return base_out_of_memory();
    r->whole = ARENA_ARRAY(a, epochs, count);
    r->any = ARENA_ARRAY(a, epochs, count);
    return r->whole && r->any ? NULL : base_out_of_memory();
}

void ranges_find(const byte_ranges *r, int64_t begin, int64_t end, size_t *out_low, size_t *out_high) {
    *out_low = points_find(r->points, r->npoints, begin);
    *out_high = points_find(r->points, r->npoints, end);
}

/* The later of what conflicts with a read or a write. */
static uint32_t conflicting(epochs e, bool is_write, uint32_t found) {
    if (e.write > found) found = e.write;
    return is_write && e.read > found ? e.read : found;
}

uint32_t ranges_last(const byte_ranges *r, size_t low, size_t high, size_t index, bool is_write) {
    uint32_t found = 0;
    size_t n = r->nleaves, first = low + n, last = high - 1 + n;
    for (size_t i = first, j = last + 1; i < j; i /= 2, j /= 2) {
        if (i % 2) found = conflicting(r->any[i++ * r->nstreams + index], is_write, found);
        if (j % 2) found = conflicting(r->any[--j * r->nstreams + index], is_write, found);
    }
    for (size_t i = first; i > 0; i /= 2) found = conflicting(r->whole[i * r->nstreams + index], is_write, found);
    for (size_t i = last; i > 0; i /= 2) found = conflicting(r->whole[i * r->nstreams + index], is_write, found);
    return found;
}

static void mark(epochs *e, bool is_write, uint32_t epoch) {
    *(is_write ? &e->write : &e->read) = epoch;
}

void ranges_note(byte_ranges *r, size_t low, size_t high, size_t index, bool is_write, uint32_t epoch) {
    size_t n = r->nleaves, first = low + n, last = high - 1 + n;
    for (size_t i = first, j = last + 1; i < j; i /= 2, j /= 2) {
        if (i % 2) {
            mark(&r->whole[i * r->nstreams + index], is_write, epoch);
            mark(&r->any[i++ * r->nstreams + index], is_write, epoch);
        }
        if (j % 2) {
            mark(&r->whole[--j * r->nstreams + index], is_write, epoch);
            mark(&r->any[j * r->nstreams + index], is_write, epoch);
        }
    }
    for (size_t i = first; i > 0; i /= 2) mark(&r->any[i * r->nstreams + index], is_write, epoch);
    for (size_t i = last; i > 0; i /= 2) mark(&r->any[i * r->nstreams + index], is_write, epoch);
}
