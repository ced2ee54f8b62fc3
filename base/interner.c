/* interner.c: names by open addressing with linear probing, at most three quarters full. Superseded tables stay in the
 * arena: together they are no larger than the last. */
#include "base/base.h"

uint32_t base_hash(const void *bytes, size_t nbytes) {
    /* Eight bytes a step, folded by a wide multiply (the idea of wyhash). */
    const unsigned char *at = bytes;
    uint64_t state = 0x9e3779b97f4a7c15u ^ nbytes;
    while (nbytes) {
        uint64_t word = 0;
        size_t step = nbytes < 8 ? nbytes : 8;
        memcpy(&word, at, step);
        uint64_t mixed = (state ^ word) * 0xd6e8feb86659fd93u;
        state = mixed ^ (mixed >> 32);
        at += step;
        nbytes -= step;
    }
    state *= 0xd6e8feb86659fd93u;
    return (uint32_t)(state ^ (state >> 32));
}

void interner_init(interner *in, arena *a) {
    *in = (interner){.arena = a};
}

static bool is_name(const name *n, const char *bytes, size_t nbytes) {
    return n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0;
}

/* The place of the name, or the free place where it would go. The table must have a free place. Entries hold the hash,
 * so that a name is looked at only where that is equal. */
static interner_entry *find_place(const interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    size_t mask = in->capacity - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        interner_entry *e = &in->table[at];
        if (!e->id_plus_1 || (e->hash == hash && is_name(in->names[e->id_plus_1 - 1], bytes, nbytes))) return e;
    }
}

static bool resize(interner *in, size_t capacity) {
    interner_entry *table = ARENA_ARRAY(in->arena, interner_entry, capacity);
    const name **names = ARENA_ARRAY(in->arena, const name *, capacity / 4 * 3);
    if (!table || !names) return false;
    for (size_t i = 0; i < in->capacity; i++) {
        if (!in->table[i].id_plus_1) continue;
        size_t at = in->table[i].hash & (capacity - 1);
        while (table[at].id_plus_1) at = (at + 1) & (capacity - 1);
        table[at] = in->table[i];
    }
    if (in->count) memcpy(names, in->names, in->count * sizeof *names);
    in->table = table;
    in->names = names;
    in->capacity = capacity;
    return true;
}

/* At most three quarters of the places are taken. */
bool interner_reserve(interner *in, size_t count) {
    size_t capacity = in->capacity ? in->capacity : 64;
    while (count > capacity / 4 * 3)
        if (!base_mul(capacity, 2, &capacity)) return false;
    return capacity == in->capacity || resize(in, capacity);
}

const name *interner_get(interner *in, const char *bytes, size_t nbytes) {
    return interner_get_hashed(in, bytes, nbytes, base_hash(bytes, nbytes));
}

const name *interner_get_hashed(interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    if (nbytes >= UINT32_MAX - sizeof(name) || in->count == UINT32_MAX - 1) return NULL;
    if (!interner_reserve(in, in->count + 1)) return NULL;
    interner_entry *e = find_place(in, bytes, nbytes, hash);
    if (e->id_plus_1) return in->names[e->id_plus_1 - 1];
    name *n = arena_text(in->arena, sizeof *n + nbytes + 1);
    if (!n) return NULL;
    *n = (name){.hash = hash, .nbytes = (uint32_t)nbytes, .id = (uint32_t)in->count};
    if (nbytes) memcpy(n->bytes, bytes, nbytes);
    in->names[in->count++] = n;
    *e = (interner_entry){hash, n->id + 1};
    return n;
}

const name *interner_find(const interner *in, const char *bytes, size_t nbytes) {
    if (!in->capacity) return NULL;
    const interner_entry *e = find_place(in, bytes, nbytes, base_hash(bytes, nbytes));
    return e->id_plus_1 ? in->names[e->id_plus_1 - 1] : NULL;
}
