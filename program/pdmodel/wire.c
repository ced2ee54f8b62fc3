/* wire.c: tags, varints and lengths of protobuf's wire format.
 *
 * protobuf-c says only that a message is malformed. wire_explain walks the same bytes along the message's descriptor
 * and finds the first field that cannot be: its number, its position, and what was expected there. */
#include "program/pdmodel/wire.h"

enum { VARINT_MAX_NBYTES = 10, DEPTH_LIMIT = 8 };

static size_t position(const wire_cursor *c, const uint8_t *at) {
    return (size_t)(at - c->origin);
}

static weft_status read_varint(wire_cursor *c, uint64_t *out, const char *what) {
    if (wire_take_varint(&c->at, c->end, out)) return NULL;
    if (c->end - c->at < VARINT_MAX_NBYTES)
        return weft_status_create(WEFT_PARSE, c->place, "byte %zu: expected %s, found the end of the data",
                                  position(c, c->end), what);
    return weft_status_create(WEFT_PARSE, c->place, "byte %zu: expected %s, found a number longer than %d bytes",
                              position(c, c->at), what, VARINT_MAX_NBYTES);
}

static weft_status read_fixed(wire_cursor *c, wire_field *f, size_t nbytes) {
    if ((size_t)(c->end - c->at) < nbytes)
        return weft_status_create(WEFT_PARSE, c->place, "byte %zu: expected %zu bytes of field %u, found %zu",
                                  position(c, c->at), nbytes, f->number, (size_t)(c->end - c->at));
    f->bytes = c->at;
    f->nbytes = nbytes;
    c->at += nbytes;
    return NULL;
}

static weft_status read_payload(wire_cursor *c, wire_field *f) {
    uint64_t nbytes;
    switch (f->type) {
    case WIRE_VARINT: return read_varint(c, &f->value, "a number");
    case WIRE_64BIT: return read_fixed(c, f, 8);
    case WIRE_32BIT: return read_fixed(c, f, 4);
    case WIRE_BYTES:
        TRY(read_varint(c, &nbytes, "a length"));
        if (nbytes > (uint64_t)(c->end - c->at))
            return weft_status_create(
                WEFT_PARSE, c->place, "byte %zu: field %u claims %llu bytes, expected at most the %zu that are left",
                position(c, f->start), f->number, (unsigned long long)nbytes, (size_t)(c->end - c->at));
        return read_fixed(c, f, (size_t)nbytes);
    default:
        return weft_status_create(WEFT_PARSE, c->place,
                                  "byte %zu: expected wire type 0, 1, 2 or 5 for field %u, found %d",
                                  position(c, f->start), f->number, f->type);
    }
}

weft_status wire_next(wire_cursor *c, wire_field *f, bool *out_more) {
    if ((*out_more = wire_take(c, f)) || c->at == c->end) return NULL;
    uint64_t tag;
    *f = (wire_field){.start = c->at};
    TRY(read_varint(c, &tag, "a field tag"));
    f->type = (int)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff)
        return weft_status_create(WEFT_PARSE, c->place,
                                  "byte %zu: expected a field number from 1 to 536870911, found %llu",
                                  position(c, f->start), (unsigned long long)(tag >> 3));
    f->number = (uint32_t)(tag >> 3);
    TRY(read_payload(c, f));
    *out_more = true;
    return NULL;
}

static const char *type_words(int type) {
    return type == WIRE_VARINT ? "a number" : type == WIRE_BYTES ? "bytes with a length" : "a number of fixed size";
}

weft_status wire_expect(const wire_cursor *c, const wire_field *f, int type, const char *what) {
    if (f->type == type) return NULL;
    return weft_status_create(WEFT_PARSE, c->place, "byte %zu: expected %s as %s (field %u), found %s",
                              position(c, f->start), type_words(type), what, f->number, type_words(f->type));
}

weft_status wire_enter(const wire_cursor *c, const wire_field *f, const char *what, wire_cursor *out) {
    TRY(wire_expect(c, f, WIRE_BYTES, what));
    *out = (wire_cursor){c->origin, f->bytes, f->bytes + f->nbytes, c->place};
    return NULL;
}

/* --- explaining --------------------------------------------------------------------------------------------------- */

static int wire_type_of(const ProtobufCFieldDescriptor *field) {
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32BIT;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64BIT;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

static weft_status explain_packed(const wire_cursor *c, const wire_field *f, const ProtobufCFieldDescriptor *field) {
    wire_cursor values = {c->origin, f->bytes, f->bytes + f->nbytes, c->place};
    uint64_t value;
    size_t unit = wire_type_of(field) == WIRE_64BIT ? 8 : 4;
    if (wire_type_of(field) == WIRE_VARINT) {
        while (values.at < values.end) TRY(read_varint(&values, &value, "a number"));
    } else if (f->nbytes % unit) {
        return weft_status_create(WEFT_PARSE, c->place,
                                  "byte %zu: expected a multiple of %zu bytes in \"%s\", found %zu",
                                  position(c, f->start), unit, field->name, f->nbytes);
    }
    return NULL;
}

static weft_status explain(wire_cursor c, const ProtobufCMessageDescriptor *kind, int depth) {
    uint64_t seen = 0; /* by index of field; no message has more than 64 */
    const uint8_t *start = c.at;
    wire_field f;
    for (bool more;;) {
        TRY(wire_next(&c, &f, &more));
        if (!more) break;
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(kind, f.number);
        if (!field) continue;
        seen |= (uint64_t)1 << ((size_t)(field - kind->fields) & 63);
        int type = wire_type_of(field);
        if (type != WIRE_BYTES && f.type == WIRE_BYTES && field->label == PROTOBUF_C_LABEL_REPEATED) {
            TRY(explain_packed(&c, &f, field));
            continue;
        }
        TRY(wire_expect(&c, &f, type, field->name));
        if (field->type != PROTOBUF_C_TYPE_MESSAGE || depth >= DEPTH_LIMIT) continue;
        wire_cursor inner;
        TRY(wire_enter(&c, &f, field->name, &inner));
        TRY(explain(inner, field->descriptor, depth + 1));
    }
    for (unsigned i = 0; i < kind->n_fields && i < 64; i++)
        if (kind->fields[i].label == PROTOBUF_C_LABEL_REQUIRED && !(seen >> i & 1))
            return weft_status_create(WEFT_PARSE, c.place,
                                      "byte %zu: expected a field \"%s\" (%u) in this %s, found none",
                                      position(&c, start), kind->fields[i].name, kind->fields[i].id, kind->short_name);
    return NULL;
}

weft_status wire_explain(const wire_cursor *c, const ProtobufCMessageDescriptor *kind) {
    TRY(explain(*c, kind, 0));
    return weft_status_create(WEFT_PARSE, c->place, "byte %zu: expected a message of kind %s", position(c, c->at),
                              kind->short_name);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static size_t encode_varint(uint64_t value, uint8_t *out) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

/* Where up to `nbytes` may be written at the end of `out`; NULL once it has failed. */
static uint8_t *room(buffer *out, size_t nbytes) {
    size_t wanted;
    if (out->failed) return NULL;
    if (out->capacity - out->nbytes > nbytes) return (uint8_t *)out->bytes + out->nbytes;
    weft_status status = base_add(out->nbytes + 1, nbytes, &wanted)
                             ? vector_reserve(out->allocator, &out->bytes, &out->capacity, wanted, 1)
                             : base_out_of_memory();
    out->failed = status != NULL;
    weft_status_free(status);
    return out->failed ? NULL : (uint8_t *)out->bytes + out->nbytes;
}

static size_t encode_tag(uint32_t number, int type, uint8_t *out) {
    return encode_varint((uint64_t)number << 3 | (unsigned)type, out);
}

void wire_put_varint(buffer *out, uint64_t value) {
    uint8_t *at = room(out, VARINT_MAX_NBYTES);
    if (at) out->nbytes += encode_varint(value, at);
}

void wire_put_tag(buffer *out, uint32_t number, int type) {
    wire_put_varint(out, (uint64_t)number << 3 | (unsigned)type);
}

void wire_put_integer(buffer *out, uint32_t number, int64_t value) {
    uint8_t *at = room(out, 2 * VARINT_MAX_NBYTES);
    if (!at) return;
    size_t n = encode_tag(number, WIRE_VARINT, at);
    out->nbytes += n + encode_varint((uint64_t)value, at + n);
}

void wire_put_bytes(buffer *out, uint32_t number, const void *bytes, size_t nbytes) {
    size_t most;
    uint8_t *at = base_add(nbytes, 2 * VARINT_MAX_NBYTES, &most) ? room(out, most) : (out->failed = true, NULL);
    if (!at) return;
    size_t n = encode_tag(number, WIRE_BYTES, at);
    n += encode_varint(nbytes, at + n);
    if (nbytes) memcpy(at + n, bytes, nbytes);
    out->nbytes += n + nbytes;
}

size_t wire_length_nbytes(size_t nbytes) {
    uint8_t length[VARINT_MAX_NBYTES];
    return encode_varint(nbytes, length);
}

size_t wire_begin_room(buffer *out, uint32_t number, size_t length_nbytes) {
    uint8_t *at = room(out, 2 * VARINT_MAX_NBYTES);
    if (at) out->nbytes += encode_tag(number, WIRE_BYTES, at) + length_nbytes;
    return out->nbytes;
}

void wire_end_room(buffer *out, size_t start, size_t length_nbytes) {
    size_t nbytes = out->nbytes - start;
    uint8_t *at = room(out, VARINT_MAX_NBYTES), length[VARINT_MAX_NBYTES];
    if (!at) return;
    size_t n = encode_varint(nbytes, length);
    uint8_t *body = at - nbytes;
    if (n != length_nbytes) memmove(body - length_nbytes + n, body, nbytes);
    memcpy(body - length_nbytes, length, n);
    out->nbytes += n - length_nbytes;
}

size_t wire_begin_flushed(buffer *out, uint32_t number, size_t length_nbytes) {
    size_t at = out->nflushed + out->nbytes;
    wire_begin_room(out, number, length_nbytes);
    return at;
}

bool wire_end_flushed(buffer *out, size_t at, uint32_t number, size_t *length_nbytes) {
    uint8_t tag[VARINT_MAX_NBYTES], length[VARINT_MAX_NBYTES];
    size_t start = at + encode_tag(number, WIRE_BYTES, tag) + *length_nbytes;
    if (out->failed) return true;
    if (at >= out->nflushed) {
        wire_end_room(out, start - out->nflushed, *length_nbytes);
        return true;
    }
    size_t n = encode_varint(out->nflushed + out->nbytes - start, length);
    if (n == *length_nbytes) {
        file_writer_overwrite(out->file, start - n, length, n);
        return true;
    }
    *length_nbytes = n;
    file_writer_rewind(out->file, at);
    return false;
}

size_t wire_begin(buffer *out, uint32_t number) {
    return wire_begin_room(out, number, 1); /* what most take */
}

void wire_end(buffer *out, size_t start) {
    wire_end_room(out, start, 1);
}

void wire_put_message(buffer *out, uint32_t number, const ProtobufCMessage *message) {
    size_t nbytes = protobuf_c_message_get_packed_size(message);
    wire_put_tag(out, number, WIRE_BYTES);
    wire_put_varint(out, nbytes);
    uint8_t *at = room(out, nbytes);
    if (at) out->nbytes += protobuf_c_message_pack(message, at);
}

void wire_put_unknown(buffer *out, const ProtobufCMessage *message) {
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        wire_put_tag(out, field->tag, (int)field->wire_type);
        buffer_append(out, field->data, field->len);
    }
}
