/* json.h: JSON text read with jansson, whole or value by value, with line and column in errors; and printing. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Reads one document (duplicate keys and trailing text are errors; depth is capped). The caller frees with json_decref.
 */
WEFT_MUST_USE weft_status json_read(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                                    json_t **out_root);
/* Appends `bytes` as a JSON string with its quotes. */
void json_put_string(buffer *out, const char *bytes, size_t nbytes);
/* Appends a value in one line without spaces: reading it gives the same value, and printing that the same bytes. */
void json_put_value(buffer *out, const json_t *value);

/* --- value by value: a document too large for one tree ------------------------------------------------------------ */

/* JSON text and a place in it. `most_values` caps the values of one tree. */
typedef struct json_cursor {
    weft_context *context;
    const char *bytes, *place;
    size_t nbytes, at;
    size_t most_values;
} json_cursor;

/* A failure at byte `at` of the text, reported to the sink with line and column, which the status has in its place. */
WEFT_MUST_USE weft_status json_error(const json_cursor *c, size_t at, const char *format, ...) WEFT_PRINTF(3, 4);
/* Passes `mark` after white space, or fails. */
WEFT_MUST_USE weft_status json_expect(json_cursor *c, char mark);
/* Whether `mark` is next after white space; then it is passed. */
bool json_accept(json_cursor *c, char mark);
bool json_at_end(json_cursor *c); /* nothing but white space follows */
/* Passes a value without looking at what is in it. */
WEFT_MUST_USE weft_status json_skip(json_cursor *c);
/* Reads the next value as a tree, which the caller frees with json_decref. */
WEFT_MUST_USE weft_status json_take(json_cursor *c, json_t **out);
/* Goes through a list: *out_more says whether an element follows, at which `c` then stands. `first` is true at the
 * first call, which expects the bracket. */
WEFT_MUST_USE weft_status json_next(json_cursor *c, bool first, bool *out_more);

#endif
