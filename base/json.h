/* json.h: JSON text read with jansson, with line and column in errors; and escaping for writers. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>

#include "base/base.h"

/* Reads one document (duplicate keys and trailing text are errors; depth is capped). The caller frees with json_decref. */
WEFT_MUST_USE weft_status json_read(weft_context *context, const char *bytes, size_t nbytes, const char *place,
                                    json_t **out_root);
/* Appends `bytes` as a JSON string with its quotes. */
void json_put_string(buffer *out, const char *bytes, size_t nbytes);

#endif
