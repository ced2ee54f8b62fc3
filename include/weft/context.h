/* weft/context.h: the one object from which everything else hangs.
 *
 * A context owns the allocator, the diagnostic sink, the op table and the pass table. The library has no globals. A
 * context may be used from several threads as long as each program is used from one thread at a time. Passes are
 * registered before that. */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_context weft_context;

/* The one allocation function (as Lua's): grow, shrink, allocate (ptr NULL, old_nbytes 0) or free (new_nbytes 0,
 * returns NULL). Returns NULL when it cannot: the old block then stays valid. Memory is aligned for any type. Must be
 * callable from several threads. */
typedef struct weft_allocator {
    void *(*resize)(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes);
    void *user;
} weft_allocator;

typedef enum weft_severity { WEFT_NOTE, WEFT_WARNING, WEFT_ERROR } weft_severity;

/* One finding of a parser or verifier. Strings are borrowed for the duration of the call. */
typedef struct weft_diagnostic {
    weft_severity severity;
    const char *message;
    const char *place; /* file or object; "" if unknown */
    int line, column;  /* from 1; 0 if the form has no lines */
} weft_diagnostic;

typedef void (*weft_diagnostic_fn)(void *user, const weft_diagnostic *diagnostic);

/* A line of what the library does: `from` is the pass, the file or the part of the library that says it. Strings are
 * borrowed for the duration of the call. */
typedef void (*weft_log_fn)(void *user, weft_severity severity, const char *from, const char *text);

/* All fields may be zero: libc's allocator, no sink, default limits. */
typedef struct weft_context_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_CONTEXT_OPTIONS_INIT */
    weft_allocator allocator;
    weft_diagnostic_fn on_diagnostic; /* called on the thread that found the problem */
    void *diagnostic_user;
    size_t max_file_nbytes; /* larger inputs are refused; 0 means 4 GiB */
    size_t
        max_kept_nbytes; /* of freed memory that libc's allocator does not get back yet; 0 means 256 MiB, 1 nothing */
    /* Gets everything that the library says: what on_diagnostic gets, what passes did and left alone and why, refusals,
     * plans that are made and dropped. Called on the thread that says it. */
    weft_log_fn on_log;
    void *log_user;
} weft_context_options;
#define WEFT_CONTEXT_OPTIONS_INIT .struct_nbytes = sizeof(weft_context_options)

/* Creates a context. `options` may be NULL. The caller destroys it after everything made from it. */
WEFT_MUST_USE weft_status weft_context_create(const weft_context_options *options, weft_context **out_context);

/* Destroys `context`; NULL is fine. */
void weft_context_destroy(weft_context *context);

/* Gives freed memory that the context keeps for later back to the system. Any thread may call it. */
void weft_context_trim(weft_context *context);

/* Frees bytes that a function of this library returned (weft_program_print and the like); NULL is fine. `nbytes` is the
 * size that came with them (for text: without the terminating NUL). */
void weft_bytes_free(weft_context *context, void *bytes, size_t nbytes);

/* "weft MAJOR.MINOR.PATCH". Static. */
const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
