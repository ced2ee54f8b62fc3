/* table.h: the hash table of every folder, and a set of 64-bit keys.
 *
 * A table holds no items. Its owner keeps them in an array (or wherever a number finds them), and an entry is an item's
 * hash and number. So a table has no callbacks: the owner compares, and only items of the same hash. Growing needs no
 * item either. Entries are never removed one by one.
 *
 *     table_probe at = table_find(&t, hash);
 *     while (at.item != TABLE_NONE && !is_same(&items[at.item], key)) table_next(&t, &at);
 *     if (at.item == TABLE_NONE) table_put(&t, &at, nitems++);    (behind a table_reserve of one more)
 *
 * Open addressing with linear probing, at most three quarters full. A search begins at the share of the table that the
 * hash is of all hashes: so a table has any capacity, and a larger one is filled from front to back. That takes the
 * high bits of a hash: integers and addresses go through table_hash. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/context.h"
#include "weft/status.h"

struct arena;

#define TABLE_NONE UINT32_MAX

typedef struct table_entry {
    uint32_t hash, item_plus_1; /* 0: free */
} table_entry;

/* All zero: empty. */
typedef struct hash_table {
    table_entry *entries;
    size_t capacity, count;
} hash_table;

typedef struct table_probe {
    size_t at;
    uint32_t hash, item; /* TABLE_NONE: no (further) item of that hash, and `at` is where a new one goes */
} table_probe;

/* Room for `count` items in all. In an arena, which keeps superseded entries: together they are no larger than the
 * last. */
WEFT_MUST_USE weft_status table_reserve(struct arena *a, hash_table *t, size_t count);
/* The same on an allocator; ended by table_free. */
WEFT_MUST_USE weft_status table_reserve_on(const weft_allocator *allocator, hash_table *t, size_t count);
void table_free(const weft_allocator *allocator, hash_table *t);
void table_clear(hash_table *t); /* forgets all items and keeps the room */

static inline uint32_t table_hash(uint64_t key) {
    return (uint32_t)(key * UINT64_C(0x9E3779B97F4A7C15) >> 32);
}

static inline size_t table_home(const hash_table *t, uint32_t hash) {
    return (size_t)((uint64_t)hash * t->capacity >> 32);
}

/* From `at` on: the first entry of that hash, or the first free one. */
static inline void table_seek(const hash_table *t, table_probe *p) {
    const table_entry *e = &t->entries[p->at];
    while (e->item_plus_1 && e->hash != p->hash) {
        if (++p->at == t->capacity) p->at = 0;
        e = &t->entries[p->at];
    }
    p->item = e->item_plus_1 - 1;
}

/* The first item of that hash. */
static inline table_probe table_find(const hash_table *t, uint32_t hash) {
    table_probe p = {table_home(t, hash), hash, TABLE_NONE};
    if (t->capacity) table_seek(t, &p);
    return p;
}

/* The next one. */
static inline void table_next(const hash_table *t, table_probe *p) {
    if (++p->at == t->capacity) p->at = 0;
    table_seek(t, p);
}

/* Adds an item where a search for it ended with TABLE_NONE. The table must have had room for it then. */
static inline void table_put(hash_table *t, table_probe *p, uint32_t item) {
    t->entries[p->at] = (table_entry){p->hash, item + 1};
    t->count++;
    p->item = item;
}

/* Adds an item that is known to be new. The table must have room. */
static inline void table_add(hash_table *t, uint32_t hash, uint32_t item) {
    table_probe p = table_find(t, hash);
    while (p.item != TABLE_NONE) table_next(t, &p);
    table_put(t, &p, item);
}

/* The item in place `at` of the table; TABLE_NONE: none. In no order. */
static inline uint32_t table_item_at(const hash_table *t, size_t at) {
    return t->entries[at].item_plus_1 - 1;
}

/* --- sets of keys ------------------------------------------------------------------------------------------------- */

/* Keys of 64 bits other than 0. All zero: empty. */
typedef struct key_set {
    uint64_t *keys; /* 0: free */
    size_t capacity, count;
} key_set;

/* Adds a key; whether it is new. */
WEFT_MUST_USE weft_status key_set_add(struct arena *a, key_set *s, uint64_t key, bool *out_new);
void key_set_clear(key_set *s);

static inline size_t key_set_place(const key_set *s, uint64_t key) {
    size_t at = (size_t)((uint64_t)table_hash(key) * s->capacity >> 32);
    while (s->keys[at] && s->keys[at] != key)
        if (++at == s->capacity) at = 0;
    return at;
}

static inline bool key_set_has(const key_set *s, uint64_t key) {
    return s->capacity && s->keys[key_set_place(s, key)] == key;
}

#endif
