/* grow.h: arrays in a program's arena. Doubling leaves the old copies to the arena, at most as much again as is in use.
 */
#ifndef PROGRAM_GROW_H
#define PROGRAM_GROW_H

#include "base/base.h"

/* Makes room for `count` items of `size` bytes behind *items. */
static inline weft_status grow(arena *a, void *items, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return NULL;
    size_t wanted = *capacity ? *capacity : count;
    while (wanted < count)
        if (!base_mul(wanted, 2, &wanted)) return base_out_of_memory();
    void *bytes = arena_array(a, wanted, size);
    if (!bytes) return base_out_of_memory();
    void *old;
    memcpy(&old, items, sizeof old);
    if (*capacity) memcpy(bytes, old, *capacity * size);
    memcpy(items, &bytes, sizeof bytes);
    *capacity = wanted;
    return NULL;
}

#endif
