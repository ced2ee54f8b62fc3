/* A tree of maxima over positions; what is added to a whole range stays at the nodes that make it up. */
#include "passes/live_bytes.h"

weft_status live_bytes_create(live_bytes *l, arena *a, size_t npositions) {
    l->nleaves = 1;
    while (l->nleaves < npositions) l->nleaves *= 2;
    l->most = ARENA_ARRAY(a, int64_t, 2 * l->nleaves);
    l->added = ARENA_ARRAY(a, int64_t, 2 * l->nleaves);
    return l->most && l->added ? NULL : base_out_of_memory();
}

static void add(live_bytes *l, size_t node, size_t low, size_t high, size_t first, size_t end, int64_t nbytes) {
    if (end <= low || high <= first) return;
    if (first <= low && high <= end) {
        l->most[node] += nbytes;
        l->added[node] += nbytes;
        return;
    }
    size_t middle = (low + high) / 2;
    add(l, 2 * node, low, middle, first, end, nbytes);
    add(l, 2 * node + 1, middle, high, first, end, nbytes);
    int64_t left = l->most[2 * node], right = l->most[2 * node + 1];
    l->most[node] = (left > right ? left : right) + l->added[node];
}

void live_bytes_add(live_bytes *l, size_t first, size_t end, int64_t nbytes) {
    if (first < end) add(l, 1, 0, l->nleaves, first, end, nbytes);
}

/* The outermost position above `limit`, from the left or from the right; nleaves: there is none. `limit` is less what
 * the ancestors add. */
static size_t find(const live_bytes *l, size_t node, size_t low, size_t high, size_t first, size_t end, int64_t limit,
                   bool from_right) {
    if (end <= low || high <= first || l->most[node] <= limit) return l->nleaves;
    if (high - low == 1) return low;
    size_t middle = (low + high) / 2, found = l->nleaves;
    for (int turn = 0; turn < 2 && found == l->nleaves; turn++) {
        bool right = (turn == 0) == from_right;
        found = find(l, 2 * node + right, right ? middle : low, right ? high : middle, first, end,
                     limit - l->added[node], from_right);
    }
    return found;
}

size_t live_bytes_first_above(const live_bytes *l, size_t first, size_t end, int64_t limit) {
    size_t found = first < end ? find(l, 1, 0, l->nleaves, first, end, limit, false) : l->nleaves;
    return found < end ? found : end;
}

size_t live_bytes_last_above(const live_bytes *l, size_t first, size_t end, int64_t limit) {
    size_t found = first < end ? find(l, 1, 0, l->nleaves, first, end, limit, true) : l->nleaves;
    return found < end ? found + 1 : first;
}
