/* json.c: jansson with Weft's errors. jansson caps nesting at 2048 levels itself; names may hold NUL. */
#include <stdio.h>

#include "base/json.h"

weft_status json_read(weft_context *context, const char *bytes, size_t nbytes, const char *place, json_t **out_root) {
    json_error_t error = {.line = -1};
    json_t *root = json_loadb(bytes, nbytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root) {
        *out_root = root;
        return NULL;
    }
    if (json_error_code(&error) == json_error_out_of_memory) return base_out_of_memory();
    int line = error.line > 0 ? error.line : 1, column = error.column > 0 ? error.column : 1;
    context_diagnose(context, WEFT_ERROR, place, line, column, "expected JSON: %s", error.text);
    char where[512];
    snprintf(where, sizeof where, "%s:%d:%d", place, line, column);
    return weft_status_create(WEFT_PARSE, where, "expected JSON: %s", error.text);
}

/* Length of the UTF-8 sequence at `at`, 0 if it is not one (overlong forms and surrogates are not). */
static size_t utf8_length(const unsigned char *at, size_t left) {
    unsigned char c = at[0];
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n > left) return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] >= 0xa0)) return 0;
    if ((c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] >= 0x90)) return 0;
    return n;
}

void json_put_string(buffer *out, const char *bytes, size_t nbytes) {
    const unsigned char *at = (const unsigned char *)bytes, *end = at + nbytes;
    buffer_append(out, "\"", 1);
    while (at < end) {
        const unsigned char *run = at;
        while (at < end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\') at++;
        buffer_append(out, run, (size_t)(at - run));
        if (at == end) break;
        size_t n = utf8_length(at, (size_t)(end - at));
        if (n == 0)
            buffer_text(out, "\\ufffd"); /* JSON is text: a byte that is not has no form in it */
        else if (*at == '"' || *at == '\\')
            buffer_format(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            buffer_format(out, "\\u%04x", *at);
        else
            buffer_append(out, at, n);
        at += n ? n : 1;
    }
    buffer_append(out, "\"", 1);
}
