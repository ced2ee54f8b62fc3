/* wire.h: protobuf's wire format, one field at a time, with the position of whatever is wrong. Levels that hold many
 * messages (program, block) are walked with it; single messages go through protobuf-c. */
#ifndef PROGRAM_WIRE_H
#define PROGRAM_WIRE_H

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
    int type;             /* WIRE_* */
    uint64_t value;       /* of a varint */
    const uint8_t *bytes; /* of WIRE_BYTES */
    size_t nbytes;
    const uint8_t *start; /* of the whole field, tag included; it ends where the cursor stands */
} wire_field;

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
/* Makes what stands in `out` from `start` on a field: tag and length are put before it. */
void wire_wrap(buffer *out, size_t start, uint32_t number);
/* Packs a message as a field; `rest` are wire bytes that go at its end. */
void wire_put_message(buffer *out, uint32_t number, const ProtobufCMessage *message, const void *rest,
                      size_t rest_nbytes);
/* Appends the unknown fields of a message. */
void wire_put_unknown(buffer *out, const ProtobufCMessage *message);

#endif
