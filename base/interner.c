/* interner.c: names, found by a table of their places. Superseded tables stay in the arena. */
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
