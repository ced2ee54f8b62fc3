/* op_versions.c: the op version map of a program file, which Weft only carries, as text that people can read. A map
 * whose bytes are not exactly what op_versions_put would write again stays bytes.
 *
 * OpVersionMap { repeated OpVersionPair pair = 1 }; OpVersionPair { string op_name = 1; OpVersion op_version = 2 };
 * OpVersion { int32 version = 1 }. */
#include <inttypes.h>

#include "program/pdmodel/wire.h"
#include "program/yaml/yaml_form.h"

void op_versions_put(buffer *out, const char *op, size_t nbytes, int64_t version) {
    size_t pair = wire_begin(out, 1);
    wire_put_bytes(out, 1, op, nbytes);
    size_t inner = wire_begin(out, 2);
    wire_put_integer(out, 1, version);
    wire_end(out, inner);
    wire_end(out, pair);
}

/* One field of the number and type that the order demands. */
static bool take(wire_cursor *c, uint32_t number, int type, wire_field *f) {
    bool more;
    weft_status status = wire_next(c, f, &more);
    bool taken = !status && more && f->number == number && f->type == type;
    weft_status_free(status);
    return taken;
}

static bool take_pair(wire_cursor *c, wire_field *op, wire_field *version) {
    wire_field pair, inner;
    if (!take(c, 1, WIRE_BYTES, &pair)) return false;
    wire_cursor members = {c->origin, pair.bytes, pair.bytes + pair.nbytes, c->place};
    if (!take(&members, 1, WIRE_BYTES, op) || !take(&members, 2, WIRE_BYTES, &inner)) return false;
    wire_cursor number = {c->origin, inner.bytes, inner.bytes + inner.nbytes, c->place};
    if (!take(&number, 1, WIRE_VARINT, version)) return false;
    return members.at == members.end && number.at == number.end;
}

bool op_versions_print(text map, buffer *out) {
    const uint8_t *start = map.nbytes ? (const uint8_t *)map.bytes : (const uint8_t *)"";
    wire_cursor c = {start, start, start + map.nbytes, ""};
    buffer again;
    buffer_init(&again, out->allocator);
    bool exact = true;
    const char *open = "[";
    for (; c.at < c.end && exact; open = ", ") {
        wire_field op, version;
        exact = take_pair(&c, &op, &version);
        if (!exact) break;
        buffer_format(out, "%s[", open);
        yaml_put_string(out, (const char *)op.bytes, op.nbytes);
        buffer_format(out, ", %" PRId64 "]", (int64_t)version.value);
        op_versions_put(&again, (const char *)op.bytes, op.nbytes, (int64_t)version.value);
    }
    buffer_text(out, map.nbytes ? "]" : "[]");
    if (again.failed) out->failed = true; /* not a map of another form: there was no memory to find out */
    exact = exact && !again.failed && again.nbytes == map.nbytes &&
            (map.nbytes == 0 || memcmp(again.bytes, map.bytes, map.nbytes) == 0);
    buffer_fini(&again);
    return exact;
}
