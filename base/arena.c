/* arena.c: bump allocation in chunks that double up to 1 MiB; further ones are an eighth of the whole, up to 8 MiB. A
 * large object gets a chunk of its own behind the newest one, so that the room left there is not lost. Under
 * AddressSanitizer every object is a chunk: overruns are seen. */
#include <stdio.h>

#include "base/base.h"

enum {
    AHEAD = 256,
    ALIGNMENT = 16,
    CACHE_LINE = 64,
    FIRST_CHUNK = 1024,
    LAST_DOUBLED = 1 << 20,
    LARGEST_CHUNK = 8 << 20,
    TEXT_ROOM = 4096
};

struct arena_chunk {
    struct arena_chunk *next;
    size_t nbytes; /* of the whole block */
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

void arena_init(arena *a, const weft_allocator *allocator) {
    *a = (arena){.allocator = allocator};
}

static void free_chunks(const arena *a, arena_chunk *chunk) {
    for (arena_chunk *next; chunk; chunk = next) {
        next = chunk->next;
        base_free(a->allocator, chunk, chunk->nbytes);
    }
}

void arena_fini(arena *a) {
    free_chunks(a, a->chunks);
    free_chunks(a, a->spare);
    *a = (arena){.allocator = a->allocator};
}

void arena_reset(arena *a) {
    if (ARENA_SINGLE_OBJECTS) {
        arena_fini(a);
        return;
    }
    arena_chunk **end = &a->chunks;
    while (*end) end = &(*end)->next;
    *end = a->spare;
    *a = (arena){.allocator = a->allocator, .spare = a->chunks};
}

/* A spare chunk that is large enough and not much too large, or NULL. */
static arena_chunk *take_spare(arena *a, size_t nbytes) {
    for (arena_chunk **link = &a->spare; *link; link = &(*link)->next) {
        arena_chunk *chunk = *link;
        if (chunk->nbytes < nbytes || chunk->nbytes / 2 > nbytes) continue;
        *link = chunk->next;
        return chunk;
    }
    return NULL;
}

static arena_chunk *new_chunk(arena *a, size_t room) {
    size_t nbytes;
    if (!base_add(room, sizeof(arena_chunk), &nbytes)) return NULL;
    arena_chunk *chunk = take_spare(a, nbytes);
    if (!chunk) {
        if (!(chunk = base_alloc(a->allocator, nbytes))) return NULL;
        chunk->nbytes = nbytes;
    }
    a->total_nbytes += chunk->nbytes;
    return chunk;
}

/* A chunk for one object, linked behind the newest so that bumping goes on there. */
static void *alloc_alone(arena *a, size_t nbytes) {
    arena_chunk *chunk = new_chunk(a, nbytes);
    if (!chunk) return NULL;
    arena_chunk **link = a->chunks ? &a->chunks->next : &a->chunks;
    chunk->next = *link;
    *link = chunk;
    return memset(chunk->bytes, 0, nbytes);
}

static bool open_chunk(arena *a, size_t nbytes) {
    size_t room = a->capacity ? a->capacity * 2 : FIRST_CHUNK, share = a->total_nbytes / 8;
    if (room > LAST_DOUBLED) room = share < LAST_DOUBLED ? LAST_DOUBLED : share;
    if (room > LARGEST_CHUNK) room = LARGEST_CHUNK;
    while (room < nbytes + CACHE_LINE) room *= 2;
    arena_chunk *chunk = new_chunk(a, room);
    if (!chunk) return false;
    chunk->next = a->chunks;
    a->chunks = chunk;
    a->capacity = chunk->nbytes - sizeof *chunk;
    a->used = (CACHE_LINE - (uintptr_t)chunk->bytes % CACHE_LINE) % CACHE_LINE; /* so that objects of whole lines are */
    return true;
}

void *arena_alloc(arena *a, size_t nbytes) {
    if (ARENA_SINGLE_OBJECTS) return alloc_alone(a, nbytes ? nbytes : 1);
    size_t rounded;
    if (!base_add(nbytes ? nbytes : 1, ALIGNMENT - 1, &rounded)) return NULL;
    rounded &= ~(size_t)(ALIGNMENT - 1);
    if (rounded > a->capacity - a->used) {
        if (rounded > LAST_DOUBLED / 4 && a->chunks) return alloc_alone(a, rounded);
        if (!open_chunk(a, rounded)) return NULL;
    }
    void *object = a->chunks->bytes + a->used;
    a->used += rounded;
    /* Objects to come: fresh memory is far away. */
    __builtin_prefetch((void *)((uintptr_t)object + rounded + AHEAD), 1);
    return memset(object, 0, rounded);
}

void *arena_text(arena *a, size_t nbytes) {
    if (ARENA_SINGLE_OBJECTS || nbytes > TEXT_ROOM / 4 || a->total_nbytes < 16 * TEXT_ROOM)
        return arena_alloc(a, nbytes);
    size_t rounded = ((nbytes ? nbytes : 1) + 3) / 4 * 4;
    if (rounded > a->text_left) {
        if (!(a->text = arena_alloc(a, TEXT_ROOM))) return a->text_left = 0, NULL;
        a->text_left = TEXT_ROOM;
    }
    char *object = a->text;
    a->text += rounded;
    a->text_left -= rounded;
    return object;
}

void *arena_array(arena *a, size_t count, size_t size) {
    size_t nbytes;
    return base_mul(count, size, &nbytes) ? arena_alloc(a, nbytes) : NULL;
}

void *arena_copy(arena *a, const void *bytes, size_t nbytes) {
    void *copy = arena_alloc(a, nbytes);
    if (copy && nbytes) memcpy(copy, bytes, nbytes);
    return copy;
}

char *arena_string(arena *a, const char *bytes, size_t nbytes) {
    size_t with_nul;
    char *copy = base_add(nbytes, 1, &with_nul) ? arena_text(a, with_nul) : NULL;
    if (copy && nbytes) memcpy(copy, bytes, nbytes);
    return copy;
}

char *arena_format(arena *a, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int nbytes = vsnprintf(NULL, 0, format, args);
    char *formatted = nbytes < 0 ? NULL : arena_alloc(a, (size_t)nbytes + 1);
    if (formatted) vsnprintf(formatted, (size_t)nbytes + 1, format, again);
    va_end(again);
    va_end(args);
    return formatted;
}
