/* wire.h: protobuf's wire format, one field at a time, with the position of whatever is wrong. Levels that hold many
 * messages (program, block) are walked with it; single messages go through protobuf-c. */
#ifndef PROGRAM_PDMODEL_WIRE_H
#define PROGRAM_PDMODEL_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "base/base.h"

enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

typedef struct wire_cursor {
    const uint8_t *origin; /* byte 0 of the file, for positions in messages */
    const uint8_t *at, *end;
    const char *place;
} wire_cursor;

typedef struct wire_field {
    uint32_t number;
    uint64_t value;       /* of a varint */
    const uint8_t *bytes; /* of WIRE_BYTES */
    size_t nbytes;
    const uint8_t *start; /* of the whole field, tag included; it ends where the cursor stands */
    int type; /* WIRE_*; not beside `number`: compared with it as one word, it would wait for two stores to end */
} wire_field;

static inline bool wire_take_varint(const uint8_t **at, const uint8_t *end, uint64_t *out) {
    uint64_t value = 0;
    const uint8_t *byte = *at;
    if (byte < end && *byte < 0x80) { /* as nearly all are */
        *out = *byte;
        *at = byte + 1;
        return true;
    }
    for (unsigned shift = 0; shift < 70 && byte < end; shift += 7) {
        value |= (uint64_t)(*byte & 0x7f) << shift;
        if (*byte++ >= 0x80) continue;
        *out = value;
        *at = byte;
        return true;
    }
    return false;
}

/* The next field, where it is whole; false at the end, and where something is wrong: wire_next then says which. The
 * cursor moves only if a field was taken. */
static inline bool wire_take(wire_cursor *c, wire_field *f) {
    const uint8_t *at = c->at;
    uint64_t tag, nbytes = 0;
    if (!wire_take_varint(&at, c->end, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return false;
    *f = (wire_field){.number = (uint32_t)(tag >> 3), .type = (int)(tag & 7), .start = c->at};
    switch (f->type) {
    case WIRE_VARINT:
        if (!wire_take_varint(&at, c->end, &f->value)) return false;
        c->at = at;
        return true;
    case WIRE_64BIT: nbytes = 8; break;
    case WIRE_32BIT: nbytes = 4; break;
    case WIRE_BYTES:
        if (!wire_take_varint(&at, c->end, &nbytes)) return false;
        break;
    default: return false;
    }
    if (nbytes > (uint64_t)(c->end - at)) return false;
    f->bytes = at;
    f->nbytes = (size_t)nbytes;
    c->at = at + nbytes;
    return true;
}

/* Inside a field of WIRE_BYTES, and its bytes. */
static inline wire_cursor wire_inside(const wire_cursor *c, const wire_field *f) {
    return (wire_cursor){c->origin, f->bytes, f->bytes + f->nbytes, c->place};
}
static inline ProtobufCBinaryData wire_data(const wire_field *f) {
    return (ProtobufCBinaryData){f->nbytes, (uint8_t *)f->bytes};
}

/* The next field; *out_more is false at the end. */
WEFT_MUST_USE weft_status wire_next(wire_cursor *c, wire_field *f, bool *out_more);
/* A cursor over the message in a field, whose wire type must be WIRE_BYTES. */
WEFT_MUST_USE weft_status wire_enter(const wire_cursor *c, const wire_field *f, const char *what, wire_cursor *out);
WEFT_MUST_USE weft_status wire_expect(const wire_cursor *c, const wire_field *f, int type, const char *what);
/* Why protobuf-c refused the rest of `c` as a message of that kind: always a status. */
WEFT_MUST_USE weft_status wire_explain(const wire_cursor *c, const ProtobufCMessageDescriptor *kind);

void wire_put_varint(buffer *out, uint64_t value);
void wire_put_tag(buffer *out, uint32_t number, int type);
void wire_put_bytes(buffer *out, uint32_t number, const void *bytes, size_t nbytes);
void wire_put_integer(buffer *out, uint32_t number, int64_t value);
/* A message as a field: what is put between begin, which says where that starts, and end. */
size_t wire_begin(buffer *out, uint32_t number);
void wire_end(buffer *out, size_t start);
/* The same for a message so large that moving it to make room for its length counts: `length_nbytes` is the room kept,
 * what the length will most likely need. */
size_t wire_length_nbytes(size_t nbytes);
size_t wire_begin_room(buffer *out, uint32_t number, size_t length_nbytes);
void wire_end_room(buffer *out, size_t start, size_t length_nbytes);
/* The same for a message of which a part may be in the buffer's file by its end; `at` says where it is to stand. False:
 * its length takes other room than was kept, *length_nbytes is now what it takes, and it is to be put again. */
size_t wire_begin_flushed(buffer *out, uint32_t number, size_t length_nbytes);
bool wire_end_flushed(buffer *out, size_t at, uint32_t number, size_t *length_nbytes);
/* Packs a message as a field. */
void wire_put_message(buffer *out, uint32_t number, const ProtobufCMessage *message);
/* Appends the unknown fields of a message. */
void wire_put_unknown(buffer *out, const ProtobufCMessage *message);

#endif
