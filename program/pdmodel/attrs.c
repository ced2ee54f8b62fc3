/* attrs.c: the attrs of plain ops, straight from the wire.
 *
 * Most ops of a program have the same attrs as an op before them, byte for byte: layers repeat. Such ops share one
 * list, which is found by the bytes without reading them. (op_set_attr gives an op a list of its own before it
 * changes.) A table holds one list for each low part of a hash, so that finding costs no more than a look; a list that
 * was replaced there is read again. Other lists differ in one attr from that of the op of their type before (each
 * optimizer op names its own parameter): the rest is taken from there. A call stack, the longest attr, may come from
 * any op: it is in the table as a list of one. */
#include "program/pdmodel/pdmodel.h"

/* --- one attr ----------------------------------------------------------------------------------------------------- */

/* The field that holds the value of each AttrType; number 0 where the value is a message. */
static const struct {
    uint8_t number, wire_type;
    bool is_list;
} value_fields[] = {
    [ATTR_INT] = {3, WIRE_VARINT, false},
    [ATTR_FLOAT] = {4, WIRE_32BIT, false},
    [ATTR_STRING] = {5, WIRE_BYTES, false},
    [ATTR_INTS] = {6, WIRE_VARINT, true},
    [ATTR_FLOATS] = {7, WIRE_32BIT, true},
    [ATTR_STRINGS] = {8, WIRE_BYTES, true},
    [ATTR_BOOLEAN] = {10, WIRE_VARINT, false},
    [ATTR_BOOLEANS] = {11, WIRE_VARINT, true},
    [ATTR_BLOCK] = {12, WIRE_VARINT, false},
    [ATTR_LONG] = {13, WIRE_VARINT, false},
    [ATTR_BLOCKS] = {14, WIRE_VARINT, true},
    [ATTR_LONGS] = {15, WIRE_VARINT, true},
    [ATTR_FLOAT64S] = {16, WIRE_64BIT, true},
    [ATTR_VAR] = {17, WIRE_BYTES, false},
    [ATTR_VARS] = {18, WIRE_BYTES, true},
    [ATTR_FLOAT64] = {19, WIRE_64BIT, false},
    [ATTR_SCALAR] = {0, 0, false},
    [ATTR_SCALARS] = {0, 0, true},
};

static double float_of(const wire_field *f) {
    float value;
    memcpy(&value, f->bytes, sizeof value);
    return (double)value;
}

static double double_of(const wire_field *f) {
    double value;
    memcpy(&value, f->bytes, sizeof value);
    return value;
}

/* A plain attr: its head, and where its values stand. */
typedef struct attr_head {
    ProtobufCBinaryData name;
    attr_type type;
    wire_cursor values; /* from the first value on */
    wire_field first;   /* value */
    size_t count;
} attr_head;

static bool scan_attr_head(wire_cursor c, attr_head *head) {
    wire_field f;
    if (!wire_take(&c, &f) || f.number != ATTR_NAME || f.type != WIRE_BYTES) return false;
    head->name = wire_data(&f);
    if (!wire_take(&c, &f) || f.number != ATTR_TYPE || f.type != WIRE_VARINT || f.value >= ATTR_SCALAR) return false;
    head->type = (attr_type)f.value;
    head->values = c;
    head->count = 0;
    while (wire_take(&c, &f)) {
        if (f.number != value_fields[head->type].number || f.type != value_fields[head->type].wire_type) return false;
        if (head->count++ == 0) head->first = f;
    }
    return c.at == c.end && (value_fields[head->type].is_list || head->count == 1);
}

static weft_status read_list(pdmodel_reader *r, const attr_head *head, weft_attr *to) {
    wire_cursor c = head->values;
    wire_field f;
    int64_t *ints = NULL;
    double *floats = NULL;
    uint8_t *bools = NULL;
    const name **strings = NULL;
    to->count = (uint32_t)head->count;
    switch (head->type) {
    case ATTR_INTS:
    case ATTR_BLOCKS:
        TRY(pdmodel_array(r, head->count, sizeof *ints, &ints));
        for (size_t i = 0; wire_take(&c, &f); i++) ints[i] = (int32_t)f.value;
        to->u.ints = ints;
        break;
    case ATTR_LONGS:
        TRY(pdmodel_array(r, head->count, sizeof *ints, &ints));
        for (size_t i = 0; wire_take(&c, &f); i++) ints[i] = (int64_t)f.value;
        to->u.ints = ints;
        break;
    case ATTR_FLOATS:
    case ATTR_FLOAT64S:
        TRY(pdmodel_array(r, head->count, sizeof *floats, &floats));
        for (size_t i = 0; wire_take(&c, &f); i++) floats[i] = head->type == ATTR_FLOATS ? float_of(&f) : double_of(&f);
        to->u.floats = floats;
        break;
    case ATTR_BOOLEANS:
        TRY(pdmodel_array(r, head->count, sizeof *bools, &bools));
        for (size_t i = 0; wire_take(&c, &f); i++) bools[i] = f.value != 0;
        to->u.bools = bools;
        break;
    default: /* STRINGS, VARS */
        TRY(pdmodel_array(r, head->count, sizeof *strings, &strings));
        for (size_t i = 0; wire_take(&c, &f); i++) TRY(pdmodel_string(r, wire_data(&f), &strings[i]));
        to->u.strings = strings;
    }
    return NULL;
}

static weft_status read_value(pdmodel_reader *r, const attr_head *head, weft_attr *to) {
    const wire_field *f = &head->first;
    to->type = head->type;
    if (value_fields[head->type].is_list) return read_list(r, head, to);
    switch (head->type) {
    case ATTR_INT:
    case ATTR_BLOCK: to->u.i = (int32_t)f->value; break;
    case ATTR_LONG: to->u.i = (int64_t)f->value; break;
    case ATTR_FLOAT: to->u.f = float_of(f); break;
    case ATTR_FLOAT64: to->u.f = double_of(f); break;
    case ATTR_BOOLEAN: to->u.b = f->value != 0; break;
    default: return pdmodel_attr_text(r, wire_data(f), to); /* STRING, VAR */
    }
    return NULL;
}

/* --- lists -------------------------------------------------------------------------------------------------------- */

bool pdmodel_note_attr(pdmodel_attrs *attrs, const uint8_t *from, const uint8_t *end) {
    if (!attrs->count)
        attrs->from = from;
    else if (attrs->end != from)
        return false; /* something else stands between two attrs: not as frameworks write it */
    attrs->end = end;
    return attrs->count++ < OP_MAX_ATTRS;
}

static uint64_t fold(uint64_t part, const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    part = (part ^ word) * UINT64_C(0xD6E8FEB86659FD93);
    return part ^ part >> 32;
}

/* In four parts that do not wait for one another: call stacks make lists long. */
static uint32_t hash_list(const uint8_t *at, size_t nbytes) {
    uint64_t a = 1, b = 2, c = 3, d = nbytes;
    for (; nbytes >= 32; at += 32, nbytes -= 32) {
        a = fold(a, at);
        b = fold(b, at + 8);
        c = fold(c, at + 16);
        d = fold(d, at + 24);
    }
    const uint64_t parts[] = {a, b, c, d};
    return base_hash(parts, sizeof parts) * 31 + base_hash(at, nbytes);
}

static bool is_same(const known_attrs *known, const uint8_t *from, size_t nbytes) {
    return known->nbytes == nbytes && memcmp(known->from, from, nbytes) == 0;
}

/* Where a list of these bytes is, or goes; its hash is *out_hash. */
static known_attrs *place_of(pdmodel_reader *r, const uint8_t *from, size_t nbytes, uint32_t *out_hash) {
    *out_hash = hash_list(from, nbytes);
    return &r->known[*out_hash % PDMODEL_KNOWN_ATTRS];
}

static weft_status read_attr(pdmodel_reader *r, const wire_cursor *c, const wire_field *f, weft_attr *to,
                             bool *out_plain) {
    enum { LONG_NBYTES = 256 };
    const size_t nbytes = (size_t)(c->at - f->start);
    uint32_t hash = 0;
    known_attrs *known = nbytes < LONG_NBYTES ? NULL : place_of(r, f->start, nbytes, &hash);
    *out_plain = true;
    if (known && known->hash == hash && is_same(known, f->start, nbytes)) {
        *to = known->items[0];
        return NULL;
    }
    attr_head head = {.count = 0};
    if (!(*out_plain = scan_attr_head(wire_inside(c, f), &head))) return NULL;
    TRY(pdmodel_name(r, head.name, &to->name));
    TRY(read_value(r, &head, to));
    if (known) *known = (known_attrs){f->start, nbytes, to, 1, hash};
    return NULL;
}

/* `like`: a list that has most of these attrs, in the same places, or an empty one. */
static weft_status read_attrs(pdmodel_reader *r, wire_cursor c, uint32_t count, const known_attrs *like,
                              pdmodel_attr_list *out) {
    wire_cursor known = {c.origin, like->from, like->nbytes ? like->from + like->nbytes : like->from, c.place};
    wire_field f, same;
    TRY(pdmodel_array(r, count, sizeof *out->items, &out->items));
    for (out->count = 0; wire_take(&c, &f); out->count++) {
        weft_attr *a = &out->items[out->count];
        size_t nbytes = (size_t)(c.at - f.start);
        if (wire_take(&known, &same) && known.at - same.start == c.at - f.start &&
            memcmp(same.start, f.start, nbytes) == 0) {
            *a = like->items[out->count];
            continue;
        }
        bool is_plain;
        TRY(read_attr(r, &c, &f, a, &is_plain));
        if (!is_plain) return NULL;
    }
    out->is_plain = true;
    return NULL;
}

weft_status pdmodel_find_attrs(pdmodel_reader *r, const wire_cursor *c, const pdmodel_attrs *attrs, known_attrs *last,
                               pdmodel_attr_list *out) {
    *out = (pdmodel_attr_list){.is_plain = attrs->count == 0};
    if (!attrs->count) return NULL;
    const size_t nbytes = (size_t)(attrs->end - attrs->from);
    uint32_t hash = 0;
    known_attrs *known = is_same(last, attrs->from, nbytes) ? last : place_of(r, attrs->from, nbytes, &hash);
    if (known == last || (known->hash == hash && is_same(known, attrs->from, nbytes))) {
        *out = (pdmodel_attr_list){known->items, known->count, true};
    } else {
        TRY(read_attrs(r, (wire_cursor){c->origin, attrs->from, attrs->end, c->place}, attrs->count, last, out));
        if (!out->is_plain) return NULL;
        *known = (known_attrs){attrs->from, nbytes, out->items, out->count, hash};
    }
    *last = *known;
    return NULL;
}
