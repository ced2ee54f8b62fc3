/* status.c: a status is one block of libc memory that holds its message and place behind the struct. So it needs no
 * context and may be freed on any thread. Running out of memory is one constant object, which is never freed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

struct weft_status_detail {
    weft_code code;
    const char *message, *place; /* behind the struct */
};

static const struct weft_status_detail out_of_memory = {WEFT_OUT_OF_MEMORY, "out of memory", ""};

static const char *const code_names[WEFT_CODE_COUNT] = {
    [WEFT_OK] = "ok",           [WEFT_INVALID_ARGUMENT] = "invalid_argument",
    [WEFT_PARSE] = "parse",     [WEFT_NOT_FOUND] = "not_found",
    [WEFT_IO] = "io",           [WEFT_OUT_OF_MEMORY] = "out_of_memory",
    [WEFT_LIMIT] = "limit",     [WEFT_UNSUPPORTED] = "unsupported",
    [WEFT_REFUSED] = "refused", [WEFT_INVALID_PROGRAM] = "invalid_program",
    [WEFT_RUNTIME] = "runtime", [WEFT_CANCELLED] = "cancelled",
};

const char *weft_code_name(weft_code code) {
    return (unsigned)code < WEFT_CODE_COUNT ? code_names[code] : "unknown";
}

weft_code weft_status_code(weft_status status) {
    return status ? status->code : WEFT_OK;
}

const char *weft_status_message(weft_status status) {
    return status ? status->message : "";
}

const char *weft_status_place(weft_status status) {
    return status ? status->place : "";
}

weft_status base_out_of_memory(void) {
    /* The caller only reads it. */
    return (weft_status)(uintptr_t)&out_of_memory;
}

/* The constant is known by its message lying elsewhere: a plugin has a constant of its own. */
static bool is_allocated(weft_status status) {
    return status->message == (const char *)(status + 1);
}

void weft_status_free(weft_status status) {
    if (status && is_allocated(status)) free(status);
}

/* A status with room for a message of `nbytes` and a copy of `place`. */
static weft_status allocate(weft_code code, const char *place, size_t nbytes, char **out_message) {
    size_t place_nbytes = strlen(place) + 1;
    weft_status status = malloc(sizeof *status + nbytes + 1 + place_nbytes);
    if (!status) return base_out_of_memory();
    char *message = (char *)(status + 1);
    char *place_copy = message + nbytes + 1;
    memcpy(place_copy, place, place_nbytes);
    *status = (struct weft_status_detail){code, message, place_copy};
    *out_message = message;
    return status;
}

weft_status base_status_createv(weft_code code, const char *place, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int nbytes = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *message = NULL;
    weft_status status = allocate(code, place ? place : "", nbytes < 0 ? 0 : (size_t)nbytes, &message);
    if (!message) return status;
    message[0] = '\0';
    if (nbytes > 0) vsnprintf(message, (size_t)nbytes + 1, format, args);
    return status;
}

weft_status weft_status_create(weft_code code, const char *place, const char *format, ...) {
    va_list args;
    va_start(args, format);
    weft_status status = base_status_createv(code, place, format, args);
    va_end(args);
    return status;
}

weft_status base_status_at(weft_status status, const char *place) {
    if (!status || !is_allocated(status) || status->place[0] || !place || !place[0]) return status;
    size_t nbytes = strlen(status->message);
    char *message = NULL;
    weft_status placed = allocate(status->code, place, nbytes, &message);
    if (!message) return status; /* no memory for the place: the error itself matters more */
    memcpy(message, status->message, nbytes + 1);
    weft_status_free(status);
    return placed;
}
