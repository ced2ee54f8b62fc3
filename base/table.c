/* table.c: see table.h. */
#include "base/table.h"

#include "base/base.h"

enum { SMALLEST_TABLE = 16 };

/* The capacity that has room for `count`, which the present one has not; 0: no number holds it. */
static size_t larger_capacity(size_t capacity, size_t count) {
    size_t twice, wanted;
    if (count >= TABLE_NONE) return 0; /* of items, which have 32 bits */
    if (!base_mul(capacity, 2, &twice) || !base_add(count / 3 * 4, SMALLEST_TABLE, &wanted)) return 0;
    return wanted > twice ? wanted : twice;
}

static bool has_room(size_t capacity, size_t count) {
    return count <= capacity / 4 * 3;
}

static void move_entries(const hash_table *from, hash_table *to) {
    for (size_t i = 0; i < from->capacity; i++) {
        if (!from->entries[i].item_plus_1) continue;
        size_t at = table_home(to, from->entries[i].hash);
        while (to->entries[at].item_plus_1)
            if (++at == to->capacity) at = 0;
        to->entries[at] = from->entries[i];
    }
}

weft_status table_reserve(arena *a, hash_table *t, size_t count) {
    if (has_room(t->capacity, count)) return NULL;
    hash_table larger = {.capacity = larger_capacity(t->capacity, count), .count = t->count};
    if (!larger.capacity || !(larger.entries = ARENA_ARRAY(a, table_entry, larger.capacity)))
        return base_out_of_memory();
    move_entries(t, &larger);
    *t = larger;
    return NULL;
}

weft_status table_reserve_on(const weft_allocator *allocator, hash_table *t, size_t count) {
    if (has_room(t->capacity, count)) return NULL;
    size_t nbytes;
    hash_table larger = {.capacity = larger_capacity(t->capacity, count), .count = t->count};
    if (!larger.capacity || !base_mul(larger.capacity, sizeof *larger.entries, &nbytes) ||
        !(larger.entries = base_alloc(allocator, nbytes)))
        return base_out_of_memory();
    memset(larger.entries, 0, nbytes);
    move_entries(t, &larger);
    table_free(allocator, t);
    *t = larger;
    return NULL;
}

void table_free(const weft_allocator *allocator, hash_table *t) {
    base_free(allocator, t->entries, t->capacity * sizeof *t->entries);
    *t = (hash_table){.entries = NULL};
}

void table_clear(hash_table *t) {
    if (t->capacity) memset(t->entries, 0, t->capacity * sizeof *t->entries);
    t->count = 0;
}

/* --- sets of keys ------------------------------------------------------------------------------------------------- */

static weft_status grow_keys(arena *a, key_set *s) {
    size_t wanted = s->count + 1;
    if (has_room(s->capacity, wanted)) return NULL;
    key_set larger = {.capacity = larger_capacity(s->capacity, wanted), .count = s->count};
    if (!larger.capacity || !(larger.keys = ARENA_ARRAY(a, uint64_t, larger.capacity))) return base_out_of_memory();
    for (size_t i = 0; i < s->capacity; i++)
        if (s->keys[i]) larger.keys[key_set_place(&larger, s->keys[i])] = s->keys[i];
    *s = larger;
    return NULL;
}

weft_status key_set_add(arena *a, key_set *s, uint64_t key, bool *out_new) {
    TRY(grow_keys(a, s));
    size_t at = key_set_place(s, key);
    *out_new = s->keys[at] == 0;
    s->keys[at] = key;
    s->count += *out_new;
    return NULL;
}

void key_set_clear(key_set *s) {
    if (s->count) memset(s->keys, 0, s->capacity * sizeof *s->keys);
    s->count = 0;
}
