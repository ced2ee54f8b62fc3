/* interner.c: names by open addressing with linear probing, at most half full. Superseded tables stay in the arena:
 * together they are no larger than the last. */
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

/* The place of the name, or the free place where it would go. The table must have a free place. */
static size_t find_place(const interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    size_t mask = in->capacity - 1, at = hash & mask;
    for (;; at = (at + 1) & mask) {
        const name *n = in->table[at];
        if (!n) return at;
        if (n->hash == hash && n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0) return at;
    }
}

static bool grow(interner *in) {
    size_t capacity = in->capacity ? in->capacity * 2 : 64;
    const name **table = ARENA_ARRAY(in->arena, const name *, capacity);
    if (!table) return false;
    for (size_t i = 0; i < in->capacity; i++) {
        const name *n = in->table[i];
        if (!n) continue;
        size_t at = n->hash & (capacity - 1);
        while (table[at]) at = (at + 1) & (capacity - 1);
        table[at] = n;
    }
    in->table = table;
    in->capacity = capacity;
    return true;
}

const name *interner_get(interner *in, const char *bytes, size_t nbytes) {
    if (nbytes >= UINT32_MAX - sizeof(name) || in->count == UINT32_MAX) return NULL;
    if (in->count >= in->capacity / 2 && !grow(in)) return NULL;
    uint32_t hash = base_hash(bytes, nbytes);
    size_t at = find_place(in, bytes, nbytes, hash);
    if (in->table[at]) return in->table[at];
    name *n = arena_alloc(in->arena, sizeof *n + nbytes + 1);
    if (!n) return NULL;
    *n = (name){.hash = hash, .nbytes = (uint32_t)nbytes, .id = (uint32_t)in->count++};
    if (nbytes) memcpy(n->bytes, bytes, nbytes);
    in->table[at] = n;
    return n;
}

const name *interner_find(const interner *in, const char *bytes, size_t nbytes) {
    if (!in->capacity) return NULL;
    return in->table[find_place(in, bytes, nbytes, base_hash(bytes, nbytes))];
}
