/* weft/status.h: how every Weft function reports failure.
 *
 * A function that can fail returns a weft_status. NULL is success. Anything else is owned by the caller, who reads it
 * and passes it to weft_status_free. Statuses are plain values: they may be read and freed on any thread. Running out
 * of memory is reported by a status that needs no memory itself.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEFT_MUST_USE __attribute__((warn_unused_result))
#define WEFT_PRINTF(format_index, first_arg) __attribute__((format(printf, format_index, first_arg)))
#else
#define WEFT_MUST_USE
#define WEFT_PRINTF(format_index, first_arg)
#endif

/* Option structs begin with their size, so that a host that was compiled with an older or newer header is understood:
 * fields that it does not have are as if not set, a struct that is larger than the library's is refused. Each has a macro
 * that sets the size and stands first among its fields; what is not set is zero, which is the default of each:
 *
 *     weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT, .programs = &program, .nprograms = 1};
 *
 * A function that takes a pointer to options takes NULL too, for all defaults, unless something must be given. */

/* What kind of failure it was, and what a caller can do about it. */
typedef enum weft_code {
    WEFT_OK = 0,           /* success: the code of a NULL status */
    WEFT_INVALID_ARGUMENT, /* the call itself is wrong: mend the caller */
    WEFT_PARSE,            /* bytes or text do not follow their format: mend the input */
    WEFT_NOT_FOUND,        /* a file, variable, op, pass or ring that was named does not exist */
    WEFT_IO,               /* the system refused to read or write: the message holds its reason */
    WEFT_OUT_OF_MEMORY,    /* the allocator returned NULL */
    WEFT_LIMIT,            /* the input asks for more than a stated cap */
    WEFT_UNSUPPORTED,      /* legal, but this build or device cannot do it (an op without a kernel) */
    WEFT_REFUSED,          /* a pass declined: the program is unchanged */
    WEFT_INVALID_PROGRAM,  /* the structural verifier found problems: see the diagnostics */
    WEFT_RUNTIME,          /* execution failed: the message names rank, op and ring */
    WEFT_CANCELLED,        /* stopped because another rank or thread failed first */
    WEFT_CODE_COUNT
} weft_code;

typedef struct weft_status_detail *weft_status;

/* The code of `status`; WEFT_OK for NULL. */
weft_code weft_status_code(weft_status status);

/* The message: what was expected, what was found. Borrowed from `status`; "" for NULL. */
const char *weft_status_message(weft_status status);

/* Where it happened ("mlp.pdmodel, block 0", "passes.yaml:3:7"); "" if nothing narrower is known. Borrowed. */
const char *weft_status_place(weft_status status);

/* A stable word for a code: "parse", "not_found", ... Static. */
const char *weft_code_name(weft_code code);

/* Frees `status`; NULL is fine. */
void weft_status_free(weft_status status);

/* A new status with a formatted message, for hosts that implement passes and callbacks. `place` may be NULL. */
WEFT_MUST_USE weft_status weft_status_create(weft_code code, const char *place, const char *format, ...)
    WEFT_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif
#endif
