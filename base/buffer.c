/* buffer.c: growing bytes for printers. A failed growth is remembered, so that printers need not check each append. */
#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "base/number.h"

void buffer_init(buffer *b, const weft_allocator *allocator) {
    *b = (buffer){.allocator = allocator};
}

void buffer_fini(buffer *b) {
    base_free(b->allocator, b->bytes, b->capacity);
    *b = (buffer){.allocator = b->allocator};
}

/* Room for `nbytes` more and a NUL. */
static bool reserve(buffer *b, size_t nbytes) {
    size_t wanted;
    if (nbytes < b->capacity - b->nbytes) return true; /* of a failed buffer too: its bytes are not given out */
    if (b->failed) return false;
    if (!base_add(b->nbytes, nbytes, &wanted) || !base_add(wanted, 1, &wanted)) return b->failed = true, false;
    weft_status status = vector_reserve(b->allocator, &b->bytes, &b->capacity, wanted, 1);
    b->failed = status != NULL;
    weft_status_free(status);
    return !b->failed;
}

void buffer_append(buffer *b, const void *bytes, size_t nbytes) {
    if (!nbytes || !reserve(b, nbytes)) return;
    memcpy(b->bytes + b->nbytes, bytes, nbytes);
    b->nbytes += nbytes;
}

void buffer_repeat(buffer *b, size_t at, size_t nbytes) {
    if (!nbytes || !reserve(b, nbytes)) return;
    memcpy(b->bytes + b->nbytes, b->bytes + at, nbytes);
    b->nbytes += nbytes;
}

void buffer_text(buffer *b, const char *s) {
    buffer_append(b, s, strlen(s));
}

void buffer_format(buffer *b, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char small[256]; /* most fit: one pass */
    int nbytes = vsnprintf(small, sizeof small, format, args);
    if (nbytes >= 0 && (size_t)nbytes < sizeof small) {
        buffer_append(b, small, (size_t)nbytes);
    } else if (nbytes < 0) {
        b->failed = true;
    } else if (reserve(b, (size_t)nbytes)) {
        vsnprintf(b->bytes + b->nbytes, (size_t)nbytes + 1, format, again);
        b->nbytes += (size_t)nbytes;
    }
    va_end(again);
    va_end(args);
}

/* printf writes the locale's decimal point: make it '.', and mark whole numbers as not integers. */
static void put_number(buffer *b, const char *digits) {
    bool marked = false;
    for (const char *at = digits; *at;) {
        if (strchr("+-0123456789e", *at)) {
            marked |= *at == 'e';
            buffer_append(b, at++, 1);
        } else {
            marked = true;
            buffer_append(b, ".", 1);
            while (*at && !strchr("+-0123456789e", *at)) at++;
        }
    }
    if (!marked) buffer_append(b, ".0", 2);
}

static bool put_special(buffer *b, double value) {
    if (isnan(value))
        buffer_text(b, ".nan");
    else if (isinf(value))
        buffer_text(b, value < 0 ? "-.inf" : ".inf");
    else
        return false;
    return true;
}

void buffer_integer(buffer *b, int64_t value) {
    char digits[20], *at = digits + sizeof digits;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do *--at = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0) *--at = '-';
    buffer_append(b, at, (size_t)(digits + sizeof digits - at));
}

/* %g drops trailing zeros, so the first precision that reads back is the shortest; 6 (15) digits always survive a
 * normal float (double), so shorter ones need no trial except among subnormals. */
void buffer_float(buffer *b, float value) {
    if (put_special(b, (double)value)) return;
    char digits[64];
    for (int precision = fpclassify(value) == FP_SUBNORMAL ? 1 : 6; precision <= 9; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
        if (number_strtof(digits) == value) break;
    }
    put_number(b, digits);
}

void buffer_double(buffer *b, double value) {
    if (put_special(b, value)) return;
    char digits[64];
    for (int precision = fpclassify(value) == FP_SUBNORMAL ? 1 : 15; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (number_strtod(digits) == value) break;
    }
    put_number(b, digits);
}

weft_status buffer_status(const buffer *b) {
    return b->failed ? base_out_of_memory() : NULL;
}

weft_status buffer_take(buffer *b, char **out_bytes, size_t *out_nbytes) {
    if (b->failed || !reserve(b, 0)) return buffer_fini(b), base_out_of_memory();
    b->bytes[b->nbytes] = '\0';
    if (b->capacity != b->nbytes + 1) {
        char *fitted = base_resize(b->allocator, b->bytes, b->capacity, b->nbytes + 1);
        if (!fitted) return buffer_fini(b), base_out_of_memory();
        b->bytes = fitted;
    }
    *out_bytes = b->bytes;
    *out_nbytes = b->nbytes;
    *b = (buffer){.allocator = b->allocator};
    return NULL;
}
