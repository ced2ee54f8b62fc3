/* interner.c: names, found by a table of their places. Superseded tables stay in the arena. */
#include "base/base.h"

/* Fewer than eight bytes as the low ones of a word. Loads overlap: a word that was put together in memory byte by byte
 * could not be loaded before all of these stores ended. */
static uint64_t last_bytes(const unsigned char *at, size_t nbytes) {
    uint32_t low, high;
    if (nbytes < sizeof low)
        return nbytes
                   ? at[0] | (uint64_t)at[nbytes / 2] << nbytes / 2 * 8 | (uint64_t)at[nbytes - 1] << (nbytes - 1) * 8
                   : 0;
    memcpy(&low, at, sizeof low);
    memcpy(&high, at + nbytes - sizeof high, sizeof high);
    return low | (uint64_t)high << (nbytes - sizeof high) * 8;
}

static uint64_t fold(uint64_t state, uint64_t word) {
    uint64_t mixed = (state ^ word) * 0xd6e8feb86659fd93u;
    return mixed ^ (mixed >> 32);
}

uint32_t base_hash(const void *bytes, size_t nbytes) {
    /* Eight bytes a step, folded by a wide multiply (the idea of wyhash). */
    const unsigned char *at = bytes;
    uint64_t state = 0x9e3779b97f4a7c15u ^ nbytes, word;
    for (; nbytes >= sizeof word; at += sizeof word, nbytes -= sizeof word) {
        memcpy(&word, at, sizeof word);
        state = fold(state, word);
    }
    return (uint32_t)fold(nbytes ? fold(state, last_bytes(at, nbytes)) : state, 0);
}

enum { FEWEST_NAMES = 48, FIRST_PIECE_NBYTES = 256 };

void interner_init(interner *in, arena *a) {
    *in = (interner){.arena = a, .npieces = 1}; /* place 0 is none */
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static bool is_name(const name *n, const char *bytes, size_t nbytes) {
    return n->nbytes == nbytes && memcmp(n->bytes, bytes, nbytes) == 0;
}

/* The name's place in the table, or where it would go. */
static table_probe find_place(const interner *in, const char *bytes, size_t nbytes, uint32_t hash) {
    table_probe at = table_find(&in->table, hash);
    while (at.item != TABLE_NONE && !is_name(interner_name(in, at.item), bytes, nbytes)) table_next(&in->table, &at);
    return at;
}

const name *interner_guess(const interner *in, uint32_t hash) {
    table_probe at = table_find(&in->table, hash);
    return at.item == TABLE_NONE ? NULL : interner_name(in, at.item);
}

bool interner_reserve(interner *in, size_t count) {
    weft_status status = table_reserve(in->arena, &in->table, count > FEWEST_NAMES ? count : FEWEST_NAMES);
    bool done = !status;
    weft_status_free(status);
    return done;
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
    table_probe at = find_place(in, bytes, nbytes, hash);
    if (at.item != TABLE_NONE) return interner_name(in, at.item);
    if (!take_room(in, sizeof(name) + nbytes + 1, &place)) return NULL;
    name *n = (name *)interner_name(in, place);
    *n = (name){.nbytes = (uint32_t)nbytes, .id = (uint32_t)in->count++};
    if (nbytes) memcpy(n->bytes, bytes, nbytes);
    table_put(&in->table, &at, place);
    return n;
}

const name *interner_find(const interner *in, const char *bytes, size_t nbytes) {
    table_probe at = find_place(in, bytes, nbytes, base_hash(bytes, nbytes));
    return at.item == TABLE_NONE ? NULL : interner_name(in, at.item);
}

void interner_list(const interner *in, const name **out) {
    for (size_t i = 0; i < in->table.capacity; i++) {
        uint32_t place = table_item_at(&in->table, i);
        if (place == TABLE_NONE) continue;
        const name *n = interner_name(in, place);
        out[n->id] = n;
    }
}
