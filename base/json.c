/* json.c: jansson with Weft's errors. jansson caps nesting at 2048 levels itself, on which printing recurses; names may
 * hold NUL. A long document is walked here and only its entries become trees, one at a time: a tree takes some thirty
 * times its text. */
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

static void put_members(buffer *out, const json_t *object) {
    bool first = true;
    for (void *it = json_object_iter((json_t *)object); it; it = json_object_iter_next((json_t *)object, it)) {
        buffer_text(out, first ? "{" : ",");
        json_put_string(out, json_object_iter_key(it), json_object_iter_key_len(it));
        buffer_text(out, ":");
        json_put_value(out, json_object_iter_value(it));
        first = false;
    }
    buffer_text(out, first ? "{}" : "}");
}

static void put_items(buffer *out, const json_t *list) {
    size_t count = json_array_size(list);
    buffer_text(out, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) buffer_text(out, ",");
        json_put_value(out, json_array_get(list, i));
    }
    buffer_text(out, "]");
}

void json_put_value(buffer *out, const json_t *value) {
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: put_members(out, value); return;
    case JSON_ARRAY: put_items(out, value); return;
    case JSON_STRING: json_put_string(out, json_string_value(value), json_string_length(value)); return;
    case JSON_INTEGER: buffer_integer(out, json_integer_value(value)); return;
    case JSON_REAL: buffer_double(out, json_real_value(value)); return;
    case JSON_TRUE: buffer_text(out, "true"); return;
    case JSON_FALSE: buffer_text(out, "false"); return;
    case JSON_NULL: buffer_text(out, "null"); return;
    }
}

/* --- value by value ----------------------------------------------------------------------------------------------- */

weft_status json_error(const json_cursor *c, size_t at, const char *format, ...) {
    int line = 1, column = 1;
    for (size_t i = 0; i < at && i < c->nbytes; i++) {
        column++;
        if (c->bytes[i] == '\n') line++, column = 1;
    }
    char message[1024], where[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    context_diagnose(c->context, WEFT_ERROR, c->place, line, column, "%s", message);
    snprintf(where, sizeof where, "%s:%d:%d", c->place, line, column);
    return weft_status_create(WEFT_PARSE, where, "%s", message);
}

static void skip_spaces(json_cursor *c) {
    while (c->at < c->nbytes && memchr(" \t\r\n", c->bytes[c->at], 4)) c->at++;
}

bool json_accept(json_cursor *c, char mark) {
    skip_spaces(c);
    bool is_next = c->at < c->nbytes && c->bytes[c->at] == mark;
    c->at += is_next;
    return is_next;
}

bool json_at_end(json_cursor *c) {
    skip_spaces(c);
    return c->at >= c->nbytes;
}

weft_status json_expect(json_cursor *c, char mark) {
    if (json_accept(c, mark)) return NULL;
    if (c->at >= c->nbytes) return json_error(c, c->at, "expected '%c', found the end of the text", mark);
    unsigned char found = (unsigned char)c->bytes[c->at];
    if (found < 0x20 || found >= 0x7f) return json_error(c, c->at, "expected '%c', found byte 0x%02x", mark, found);
    return json_error(c, c->at, "expected '%c', found '%c'", mark, found);
}

/* Behind the closing quote of the string that begins at `at`, or the end of the text. */
static size_t string_end(const json_cursor *c, size_t at) {
    for (at++; at < c->nbytes && c->bytes[at] != '"'; at++) at += c->bytes[at] == '\\';
    return at < c->nbytes ? at + 1 : c->nbytes;
}

/* The end of the value at `at`, by brackets alone, and about how many values it holds. */
static size_t value_end(const json_cursor *c, size_t at, size_t *out_nvalues) {
    size_t depth = 0, nvalues = 1;
    while (at < c->nbytes) {
        char byte = c->bytes[at];
        if (byte == '"') {
            at = string_end(c, at);
            if (!depth) break;
            continue;
        }
        if (byte == '[' || byte == '{') depth++, nvalues++;
        if (byte == ',') nvalues++;
        bool closes = byte == ']' || byte == '}';
        if (!depth && (closes || byte == ',' || memchr(" \t\r\n", byte, 4))) break;
        at++;
        if (closes && --depth == 0) break;
    }
    *out_nvalues = nvalues;
    return at;
}

weft_status json_skip(json_cursor *c) {
    size_t nvalues;
    skip_spaces(c);
    size_t end = value_end(c, c->at, &nvalues);
    if (end == c->at) return json_error(c, c->at, "expected a value");
    c->at = end;
    return NULL;
}

weft_status json_take(json_cursor *c, json_t **out) {
    skip_spaces(c);
    size_t nvalues, start = c->at, end = value_end(c, start, &nvalues);
    if (nvalues > c->most_values || end - start > INT32_MAX)
        return weft_status_create(WEFT_LIMIT, c->place, "an entry has %zu values in %zu bytes: too many", nvalues,
                                  end - start);
    json_error_t error = {.line = 1};
    json_t *root =
        json_loadb(c->bytes + start, end - start, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (root) {
        c->at = end;
        *out = root;
        return NULL;
    }
    if (json_error_code(&error) == json_error_out_of_memory) return base_out_of_memory();
    size_t behind = error.position > 0 ? (size_t)error.position : 0; /* of what it could not take */
    return json_error(c, start + (behind ? behind - 1 : 0), "expected JSON: %s", error.text);
}

weft_status json_next(json_cursor *c, bool first, bool *out_more) {
    *out_more = false;
    if (first) TRY(json_expect(c, '['));
    if (json_accept(c, ']')) return NULL;
    if (!first) TRY(json_expect(c, ','));
    skip_spaces(c);
    *out_more = true;
    return NULL;
}
