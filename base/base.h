/* base.h: memory, names and errors for every folder. Nothing here knows of programs. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/table.h"
#include "weft/context.h"
#include "weft/status.h"

/* --- status ------------------------------------------------------------------------------------------------------- */

/* Returns the status of `expression` from the calling function if it failed. */
#define TRY(expression)                                                                                                \
    do {                                                                                                               \
        weft_status try_status_ = (expression);                                                                        \
        if (try_status_) return try_status_;                                                                           \
    } while (0)

/* The same in a function with a clean-up label `done` and a variable `status`. */
#define TRY_DONE(expression)                                                                                           \
    do {                                                                                                               \
        if ((status = (expression))) goto done;                                                                        \
    } while (0)

weft_status base_status_createv(weft_code code, const char *place, const char *format, va_list args);
WEFT_MUST_USE weft_status base_out_of_memory(void);
/* `status` with `place` set if it had none; takes and returns ownership. */
WEFT_MUST_USE weft_status base_status_at(weft_status status, const char *place);

/* --- options ------------------------------------------------------------------------------------------------------ */

/* Copies a host's struct, which begins with its size, into `to` of nbytes: a smaller one is filled up with zeros, a
 * larger one refused. `from` NULL: all zero. The copy begins with nbytes. */
WEFT_MUST_USE weft_status base_take_struct(const char *what, void *to, size_t nbytes, const void *from);

/* --- allocator ---------------------------------------------------------------------------------------------------- */

/* What libraries and containers allocate through. `ptr` NULL allocates; new_nbytes 0 frees. */
void *base_resize(const weft_allocator *allocator, void *ptr, size_t old_nbytes, size_t new_nbytes);
static inline void *base_alloc(const weft_allocator *allocator, size_t nbytes) {
    return base_resize(allocator, NULL, 0, nbytes ? nbytes : 1);
}
static inline void base_free(const weft_allocator *allocator, void *ptr, size_t nbytes) {
    if (ptr) base_resize(allocator, ptr, nbytes ? nbytes : 1, 0);
}
weft_allocator base_libc_allocator(void);

/* a*b and a+b; false on overflow. */
static inline bool base_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool base_add(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}

/* The greatest one; of 0 and a it is a. */
static inline int64_t base_common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Asks for the memory at `ptr` ahead of its use. The empty asm counts as an effect: gcc takes a function that only
 * prefetches for one without any, and drops calls of it. */
static inline void base_prefetch(const void *ptr) {
    __builtin_prefetch(ptr);
    __asm__ volatile("");
}

/* --- arena -------------------------------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_SINGLE_OBJECTS true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_SINGLE_OBJECTS true
#endif
#endif
#ifndef ARENA_SINGLE_OBJECTS
#define ARENA_SINGLE_OBJECTS false
#endif

/* Bump allocation; everything is freed at once. Under AddressSanitizer each object is allocated singly, so that
 * overruns are seen. Memory is zeroed. Returns NULL when the allocator does. */
typedef struct arena_chunk arena_chunk;
typedef struct arena {
    const weft_allocator *allocator;
    arena_chunk *chunks;
    arena_chunk *spare;    /* of objects that arena_reset forgot: taken before new ones */
    size_t used, capacity; /* of the newest chunk */
    size_t total_nbytes;   /* over all chunks in use */
    char *text;            /* room for text, of an object like others */
    size_t text_left;
} arena;

void arena_init(arena *a, const weft_allocator *allocator);
void arena_fini(arena *a);
/* Frees all objects as arena_fini does, and keeps the memory for those to come: the system need not clear pages anew.
 */
void arena_reset(arena *a);
void *arena_alloc(arena *a, size_t nbytes);
void *arena_array(arena *a, size_t count, size_t size); /* checked count * size */
/* For names and strings, which are many and short: aligned to 4 bytes only. */
void *arena_text(arena *a, size_t nbytes);
void *arena_copy(arena *a, const void *bytes, size_t nbytes);
char *arena_string(arena *a, const char *bytes, size_t nbytes); /* NUL-terminated copy */
char *arena_format(arena *a, const char *format, ...) WEFT_PRINTF(2, 3);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, count) ((type *)arena_array((a), (size_t)(count), sizeof(type)))

/* --- interned names ----------------------------------------------------------------------------------------------- */

/* A name is bytes with a length (they may hold any byte, NUL too); two equal names of one interner are one pointer. */
typedef struct name {
    uint32_t nbytes;
    uint32_t id;    /* dense, in order of first use */
    uint32_t value; /* what the interner's owner knows of it, 0 at first: name_set_value */
    char bytes[];   /* NUL-terminated */
} name;

static inline void name_set_value(const name *n, uint32_t value) {
    ((name *)n)->value = value; /* only interner.c makes names, and not as constants */
}

/* Names lie in pieces of memory; the place of one is its piece's index and, in the low bits, where it is there. */
enum { INTERNER_UNIT = 4, INTERNER_PIECE_UNITS = 1024, INTERNER_PIECE_NBYTES = INTERNER_PIECE_UNITS * INTERNER_UNIT };

typedef struct interner {
    arena *arena;
    hash_table table; /* an item is the place of a name: interner_name */
    size_t count;
    char **pieces; /* from 1 on */
    size_t npieces, piece_capacity;
    uint32_t next;    /* the place to come */
    size_t next_left; /* bytes in its piece */
} interner;

void interner_init(interner *in, arena *a);
WEFT_MUST_USE bool interner_reserve(interner *in, size_t count); /* room for so many names in all; false: no memory */
void interner_list(const interner *in, const name **out);        /* all, by id */
/* A name that no interner has; NULL: out of memory. */
const name *name_create(arena *a, const char *bytes, size_t nbytes);
const name *interner_get(interner *in, const char *bytes, size_t nbytes);        /* adds; NULL: out of memory */
const name *interner_find(const interner *in, const char *bytes, size_t nbytes); /* never adds; NULL: not there */
/* interner_get where base_hash of the bytes is known. */
const name *interner_get_hashed(interner *in, const char *bytes, size_t nbytes, uint32_t hash);
uint32_t base_hash(const void *bytes, size_t nbytes);
static inline const name *interner_name(const interner *in, uint32_t place) {
    char *piece = in->pieces[place / INTERNER_PIECE_UNITS];
    return (const name *)(const void *)(piece + place % INTERNER_PIECE_UNITS * INTERNER_UNIT);
}
/* For lookups to come, so that their cache misses overlap: where one begins, and a name of that hash or NULL. */
static inline void interner_ask(const interner *in, uint32_t hash) {
    if (in->table.capacity) base_prefetch(&in->table.entries[table_home(&in->table, hash)]);
}
const name *interner_guess(const interner *in, uint32_t hash);

/* The length first: most names differ in it, and for a literal the rest is a few compares. */
static inline bool name_is(const name *n, const char *text) {
    size_t nbytes = strlen(text);
    return n && n->nbytes == nbytes && memcmp(n->bytes, text, nbytes) == 0;
}

/* Whether these bytes are one of the words of `list`, which are apart by a space; NULL has none. */
static inline bool base_has_word(const char *list, const char *word, size_t nbytes) {
    for (size_t n = 0; list && *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (n == nbytes && memcmp(list, word, n) == 0) return true;
    }
    return false;
}

/* --- vectors and buffers ------------------------------------------------------------------------------------------ */

/* Makes room for `count` elements of `size` bytes behind *items; *capacity in elements. */
WEFT_MUST_USE weft_status vector_reserve(const weft_allocator *allocator, void *items, size_t *capacity, size_t count,
                                         size_t size);

/* Growing bytes; used for printing. After the first failed growth it stays failed, and buffer_status says so. */
typedef struct buffer {
    const weft_allocator *allocator;
    char *bytes;
    size_t nbytes, capacity;
    struct file_writer *file; /* where bytes go at buffer_flush; NULL: they stay */
    size_t nflushed;          /* what has gone there, from the first byte on */
    bool failed;
} buffer;

void buffer_init(buffer *b, const weft_allocator *allocator);
void buffer_fini(buffer *b);
void buffer_append(buffer *b, const void *bytes, size_t nbytes);
/* Appends again `nbytes` that begin `at` bytes into the buffer. */
void buffer_repeat(buffer *b, size_t at, size_t nbytes);
void buffer_text(buffer *b, const char *text);
void buffer_format(buffer *b, const char *format, ...) WEFT_PRINTF(2, 3);
void buffer_integer(buffer *b, int64_t value); /* decimal */
/* Shortest decimal text that reads back to the same float (double); always with '.', 'e', inf or nan. */
void buffer_float(buffer *b, float value);
void buffer_double(buffer *b, double value);
/* Lets the bytes go to the buffer's file if there is one and they are many. Nothing may look back at them. */
static inline void buffer_flush(buffer *b);
WEFT_MUST_USE weft_status buffer_status(const buffer *b);
/* Gives the bytes (NUL-terminated, block of nbytes + 1) to the caller, to be freed with base_free(.., nbytes + 1). */
WEFT_MUST_USE weft_status buffer_take(buffer *b, char **out_bytes, size_t *out_nbytes);

/* --- context ------------------------------------------------------------------------------------------------------ */

/* A slot that a higher folder hangs on the context (op table, what it says of attrs, pass table), destroyed with it. */
typedef enum { CONTEXT_OPS, CONTEXT_ATTRS, CONTEXT_PASSES, CONTEXT_DEVICES, CONTEXT_SLOT_COUNT } context_slot_id;
typedef struct context_slot {
    void *value;
    void (*destroy)(void *value);
} context_slot;

struct weft_context {
    weft_allocator allocator;
    weft_diagnostic_fn on_diagnostic;
    void *diagnostic_user;
    weft_log_fn on_log; /* NULL: nobody listens */
    void *log_user;
    size_t max_file_nbytes;
    struct kept_blocks *kept; /* behind `allocator`; NULL: the host gave one */
    arena arena;              /* lives as long as the context; filled only by create and register functions */
    context_slot slots[CONTEXT_SLOT_COUNT];
};

/* Says what is done, where somebody listens. */
void context_log(weft_context *context, weft_severity severity, const char *from, const char *format, ...)
    WEFT_PRINTF(4, 5);
/* Sends one finding to the sink, and to the log. */
void context_diagnose(weft_context *context, weft_severity severity, const char *place, int line, int column,
                      const char *format, ...) WEFT_PRINTF(6, 7);

/* --- files -------------------------------------------------------------------------------------------------------- */

/* Reads a whole file, through gzip if its name ends in .gz (inflated size capped at max_nbytes too). "-" is stdin.
 * Bytes are NUL-terminated beyond out_nbytes and freed with base_free(.., nbytes + 1). */
WEFT_MUST_USE weft_status file_read(const weft_allocator *allocator, const char *path, size_t max_nbytes,
                                    char **out_bytes, size_t *out_nbytes);
/* Writes to a temporary beside `path` and renames, so that nothing is ever half written; gzip by extension; "-" is
 * stdout. */
WEFT_MUST_USE weft_status file_write(const weft_allocator *allocator, const char *path, const void *bytes,
                                     size_t nbytes);
bool file_exists(const char *path);

/* A file that is written while it is printed: what is appended to `out` goes to a temporary, a piece at a time, where
 * buffer_flush is called. In the end the temporary takes the place of `path`, as file_write's does. What is compressed,
 * "-", and what cannot be replaced are written whole at the end. */
typedef struct file_writer {
    buffer out;
    const char *path;
    struct file_temporary *temporary; /* NULL: no piece has been written yet */
    bool is_whole;
    weft_status problem; /* why writing failed; `out` has failed too then */
} file_writer;

void file_writer_init(file_writer *w, const weft_allocator *allocator, const char *path); /* `w` may not move then */
/* Ends the file; `printed` is the status of printing: where that failed nothing is left behind. Takes and returns it.
 */
WEFT_MUST_USE weft_status file_writer_end(file_writer *w, weft_status printed);
void file_writer_flush(file_writer *w);
/* Of what has gone to the file: other bytes `at` that place; all from `at` on taken back, what is in `out` too. */
void file_writer_overwrite(file_writer *w, size_t at, const void *bytes, size_t nbytes);
void file_writer_rewind(file_writer *w, size_t at);

enum { FILE_PIECE_NBYTES = 1 << 18 };
static inline void buffer_flush(buffer *b) {
    if (b->file && b->nbytes >= FILE_PIECE_NBYTES) file_writer_flush(b->file);
}

#endif
