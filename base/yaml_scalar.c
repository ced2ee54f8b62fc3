/* yaml_scalar.c: what a scalar means (YAML 1.2 core schema), and how a string is written so that it stays one. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "base/yaml.h"

static bool is_one_of(const char *s, const char *const *words) {
    for (; *words; words++)
        if (strcmp(s, *words) == 0) return true;
    return false;
}

/* Plain scalars alone can be other than strings; one with a NUL inside cannot. */
static bool is_typed(const yaml_node *node) {
    return node && node->kind == NODE_SCALAR && node->plain && !node->tag && strlen(node->bytes) == node->nbytes;
}

bool yaml_is_null(const yaml_node *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};
    return is_typed(node) && is_one_of(node->bytes, words);
}

bool yaml_as_bool(const yaml_node *node, bool *out) {
    static const char *const yes[] = {"true", "True", "TRUE", NULL}, *const no[] = {"false", "False", "FALSE", NULL};
    if (!is_typed(node)) return false;
    bool is_yes = is_one_of(node->bytes, yes);
    if (!is_yes && !is_one_of(node->bytes, no)) return false;
    *out = is_yes;
    return true;
}

bool yaml_as_int(const yaml_node *node, int64_t *out) {
    if (!is_typed(node)) return false;
    const char *digits = node->bytes;
    int radix = 10;
    if (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'o')) {
        radix = digits[1] == 'x' ? 16 : 8;
        digits += 2;
    }
    const char *allowed = radix == 16 ? "0123456789abcdefABCDEF" : radix == 8 ? "01234567" : "0123456789";
    const char *unsigned_digits = digits + (radix == 10 && (*digits == '-' || *digits == '+'));
    if (!*unsigned_digits || strspn(unsigned_digits, allowed) != strlen(unsigned_digits)) return false;
    errno = 0;
    long long value = strtoll(digits, NULL, radix);
    if (errno == ERANGE) return false;
    *out = value;
    return true;
}

/* [-+]? ( .digits | digits [. digits*] ) ( [eE] [-+]? digits )? */
static bool is_decimal(const char *at) {
    static const char digits[] = "0123456789";
    if (*at == '-' || *at == '+') at++;
    size_t whole = strspn(at, digits), fraction = 0;
    at += whole;
    if (*at == '.') {
        fraction = strspn(++at, digits);
        at += fraction;
    }
    if (!whole && !fraction) return false;
    if (*at == 'e' || *at == 'E') {
        at++;
        if (*at == '-' || *at == '+') at++;
        size_t exponent = strspn(at, digits);
        if (!exponent) return false;
        at += exponent;
    }
    return !*at;
}

bool yaml_as_double(const yaml_node *node, double *out) {
    static const char *const infinities[] = {".inf", ".Inf", ".INF", NULL}, *const nans[] = {".nan", ".NaN", ".NAN",
                                                                                             NULL};
    if (!is_typed(node)) return false;
    int64_t whole;
    const char *s = node->bytes, *magnitude = s + (*s == '-' || *s == '+');
    if (is_decimal(s))
        *out = number_strtod(s);
    else if (is_one_of(magnitude, infinities))
        *out = *s == '-' ? -INFINITY : INFINITY;
    else if (is_one_of(s, nans))
        *out = NAN;
    else if (yaml_as_int(node, &whole))
        *out = (double)whole;
    else
        return false;
    return true;
}

/* --- UTF-8 -------------------------------------------------------------------------------------------------------- */

/* Decodes one code point; the length of its sequence, 0 if it is malformed. */
static size_t decode(const unsigned char *at, size_t left, uint32_t *out) {
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = at[0];
    size_t n = c < 0x80 ? 1 : (c & 0xe0) == 0xc0 ? 2 : (c & 0xf0) == 0xe0 ? 3 : (c & 0xf8) == 0xf0 ? 4 : 0;
    if (n == 0 || n > left) return 0;
    uint32_t point = n == 1 ? c : c & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        point = point << 6 | (at[i] & 0x3f);
    }
    if (point < smallest[n] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return 0;
    *out = point;
    return n;
}

static bool is_utf8(const char *bytes, size_t nbytes) {
    uint32_t point;
    for (size_t i = 0, n; i < nbytes; i += n)
        if (!(n = decode((const unsigned char *)bytes + i, nbytes - i, &point))) return false;
    return true;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A narrow choice: nothing that any YAML reader, 1.1 or 1.2, could take for an indicator, a number or a word. */
static bool is_safe_plain(const char *bytes, size_t nbytes) {
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n", NULL};
    if (!nbytes || (!is_letter(bytes[0]) && bytes[0] != '/')) return false;
    for (size_t i = 0; i < nbytes; i++) {
        char c = bytes[i];
        bool inner_space = c == ' ' && i + 1 < nbytes;
        if (!is_letter(c) && !(c >= '0' && c <= '9') && !(c && strchr("./@-+$()=;|", c)) && !inner_space) return false;
    }
    for (const char *const *word = words; *word; word++)
        if (strlen(*word) == nbytes && strncasecmp(*word, bytes, nbytes) == 0) return false;
    return true;
}

static void put_code_point(buffer *out, uint32_t point, const char *bytes, size_t nbytes) {
    bool printable = (point >= 0x20 && point < 0x7f) || (point > 0xa0 && point != 0x2028 && point != 0x2029 &&
                                                         point != 0xfeff && point != 0xfffe && point != 0xffff);
    if (point == '"' || point == '\\')
        buffer_format(out, "\\%c", (char)point);
    else if (point == '\n')
        buffer_text(out, "\\n");
    else if (point == '\t')
        buffer_text(out, "\\t");
    else if (printable)
        buffer_append(out, bytes, nbytes);
    else if (point < 0x100)
        buffer_format(out, "\\x%02X", point);
    else
        buffer_format(out, "\\u%04X", point);
}

void yaml_put_string(buffer *out, const char *bytes, size_t nbytes) {
    if (is_safe_plain(bytes, nbytes)) {
        buffer_append(out, bytes, nbytes);
        return;
    }
    bool utf8 = is_utf8(bytes, nbytes);
    buffer_text(out, utf8 ? "\"" : "!bytes \"");
    for (size_t i = 0, n = 1; i < nbytes; i += n) {
        uint32_t point = (unsigned char)bytes[i];
        if (utf8) n = decode((const unsigned char *)bytes + i, nbytes - i, &point);
        if (!utf8 && point >= 0x80)
            buffer_format(out, "\\x%02X", point);
        else
            put_code_point(out, point, bytes + i, n);
    }
    buffer_text(out, "\"");
}

weft_status yaml_as_bytes(weft_context *context, const yaml_node *node, const char *place, arena *a,
                          const char **out_bytes, size_t *out_nbytes) {
    if (node->kind != NODE_SCALAR) return yaml_error(context, node, place, "expected a string");
    if (!node->tag) {
        *out_bytes = node->bytes;
        *out_nbytes = node->nbytes;
        return NULL;
    }
    if (strcmp(node->tag, "!bytes") != 0)
        return yaml_error(context, node, place, "expected a string or the tag !bytes, found the tag %s", node->tag);
    char *bytes = arena_string(a, node->bytes, node->nbytes); /* decoding only shrinks it */
    if (!bytes) return base_out_of_memory();
    size_t count = 0;
    for (size_t i = 0, n; i < node->nbytes; i += n) {
        uint32_t point = 0x100;
        n = decode((const unsigned char *)node->bytes + i, node->nbytes - i, &point);
        if (!n || point > 0xff) return yaml_error(context, node, place, "expected bytes written as \\xNN after !bytes");
        bytes[count++] = (char)point;
    }
    bytes[count] = '\0';
    *out_bytes = bytes;
    *out_nbytes = count;
    return NULL;
}
