/* interner.c: names by open addressing with linear probing, at most three quarters full. An entry begins its search at
 * the share of the table that its hash is of all hashes, so that the table has any capacity, and a larger one is filled
 * from front to back. Superseded tables stay in the arena: together they are no larger than the last. */
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

enum { SMALLEST_TABLE = 64, FIRST_PIECE_NBYTES = 256 };

void interner_init(interner *in, arena *a) {
    *in = (interner){.arena = a, .npieces = 1}; /* place 0 is none */
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static bool is_name(const name *n, const char *bytes, size_t nbytes) {
    return n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0;
}

static size_t following(const interner *in, size_t at) {
    return at + 1 < in->capacity ? at + 1 : 0;
}

/* The place of the name, or the free place where it would go. The table must have a free place. Entries hold the hash,
 * so that a name is looked at only where that is equal. */
static interner_entry *find_place(const interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    for (size_t at = interner_home(in, hash);; at = following(in, at)) {
        interner_entry *e = &in->table[at];
        if (!e->place || (e->hash == hash && is_name(interner_name(in, e->place), bytes, nbytes))) return e;
    }
}

const name *interner_guess(const interner *in, uint32_t hash) {
    if (!in->capacity) return NULL;
    size_t at = interner_home(in, hash);
    while (in->table[at].place && in->table[at].hash != hash) at = following(in, at);
    return in->table[at].place ? interner_name(in, in->table[at].place) : NULL;
}

static bool resize(interner *in, size_t capacity) {
    interner larger = *in;
    larger.capacity = capacity;
    if (!(larger.table = ARENA_ARRAY(in->arena, interner_entry, capacity))) return false;
    for (size_t i = 0; i < in->capacity; i++) {
        if (!in->table[i].place) continue;
        size_t at = interner_home(&larger, in->table[i].hash);
        while (larger.table[at].place) at = following(&larger, at);
        larger.table[at] = in->table[i];
    }
    *in = larger;
    return true;
}

bool interner_reserve(interner *in, size_t count) {
    if (count <= in->capacity / 4 * 3) return true;
    size_t twice, wanted;
    if (!base_mul(in->capacity, 2, &twice) || !base_add(count / 3 * 4, SMALLEST_TABLE, &wanted)) return false;
    return resize(in, wanted > twice ? wanted : twice);
}

/* --- names -------------------------------------------------------------------------------------------------------- */

const name *name_create(arena *a, const char *bytes, size_t nbytes) {
    size_t with_nul;
    if (nbytes > UINT32_MAX || !base_add(nbytes, sizeof(name) + 1, &with_nul)) return NULL;
    name *n = arena_text(a, with_nul);
    if (!n) return NULL;
    *n = (name){.nbytes = (uint32_t)nbytes, .id = UINT32_MAX};
    if (nbytes) memcpy(n->bytes, bytes, nbytes);
    return n;
}

static bool open_piece(interner *in, size_t nbytes, uint32_t *out_place) {
    if (in->npieces >= in->piece_capacity) {
        size_t capacity = in->piece_capacity ? 2 * in->piece_capacity : 8;
        char **pieces = ARENA_ARRAY(in->arena, char *, capacity);
        if (!pieces) return false;
        if (in->pieces) memcpy(pieces, in->pieces, in->npieces * sizeof *pieces);
        in->pieces = pieces;
        in->piece_capacity = capacity;
    }
    if (in->npieces > UINT32_MAX / INTERNER_PIECE_UNITS) return false;
    if (!(in->pieces[in->npieces] = arena_alloc(in->arena, nbytes))) return false;
    *out_place = (uint32_t)(in->npieces++ * INTERNER_PIECE_UNITS);
    return true;
}

/* A piece for the names to come; the first ones are small. */
static bool open_next(interner *in, size_t nbytes) {
    size_t room = in->npieces <= 4 ? (size_t)FIRST_PIECE_NBYTES << (in->npieces - 1) : INTERNER_PIECE_NBYTES;
    if (room < nbytes) room = INTERNER_PIECE_NBYTES;
    if (!open_piece(in, room, &in->next)) return false;
    in->next_left = room;
    return true;
}

/* Room for a name; a large one has a piece of its own, of any size. */
static bool take_room(interner *in, size_t nbytes, uint32_t *out_place) {
    size_t rounded = (nbytes + INTERNER_UNIT - 1) / INTERNER_UNIT * INTERNER_UNIT;
    if (ARENA_SINGLE_OBJECTS || rounded > INTERNER_PIECE_NBYTES / 4) return open_piece(in, rounded, out_place);
    if (rounded > in->next_left && !open_next(in, rounded)) return false;
    *out_place = in->next;
    in->next += (uint32_t)(rounded / INTERNER_UNIT);
    in->next_left -= rounded;
    return true;
}

const name *interner_get(interner *in, const char *bytes, size_t nbytes) {
    return interner_get_hashed(in, bytes, nbytes, base_hash(bytes, nbytes));
}

const name *interner_get_hashed(interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    uint32_t place;
    if (nbytes >= UINT32_MAX - sizeof(name) || in->count == UINT32_MAX - 1) return NULL;
    if (!interner_reserve(in, in->count + 1)) return NULL;
    interner_entry *e = find_place(in, bytes, nbytes, hash);
    if (e->place) return interner_name(in, e->place);
    if (!take_room(in, sizeof(name) + nbytes + 1, &place)) return NULL;
    name *n = (name *)interner_name(in, place);
    *n = (name){.nbytes = (uint32_t)nbytes, .id = (uint32_t)in->count++};
    if (nbytes) memcpy(n->bytes, bytes, nbytes);
    *e = (interner_entry){hash, place};
    return n;
}

const name *interner_find(const interner *in, const char *bytes, size_t nbytes) {
    if (!in->capacity) return NULL;
    const interner_entry *e = find_place(in, bytes, nbytes, base_hash(bytes, nbytes));
    return e->place ? interner_name(in, e->place) : NULL;
}

void interner_list(const interner *in, const name **out) {
    for (size_t i = 0; i < in->capacity; i++) {
        if (!in->table[i].place) continue;
        const name *n = interner_name(in, in->table[i].place);
        out[n->id] = n;
    }
}
