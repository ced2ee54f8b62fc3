/* read_parts.c: what the readers of a ProgramDesc share: memory, strings, names, what Weft does not model. */
#include "program/grow.h"
#include "program/pdmodel/pdmodel.h"

weft_status pdmodel_refusal(const pdmodel_reader *r, const wire_cursor *c, const ProtobufCMessageDescriptor *kind) {
    if (r->bump.over_budget) return form_over_budget(r->program, r->budget);
    if (r->bump.failed) return base_out_of_memory();
    return wire_explain(c, kind);
}

weft_status pdmodel_begin_message(pdmodel_reader *r) {
    TRY(form_charge(r->program, r->budget, 0));
    bump_reset(&r->bump);
    r->bump.max_nbytes = r->budget - program_nbytes(r->program);
    return NULL;
}

weft_status pdmodel_unpack(pdmodel_reader *r, const wire_cursor *c, const ProtobufCMessageDescriptor *kind,
                           void *out_message) {
    TRY(pdmodel_begin_message(r));
    ProtobufCMessage *message = protobuf_c_message_unpack(kind, &r->bump.protobuf, (size_t)(c->end - c->at), c->at);
    if (!message) return pdmodel_refusal(r, c, kind);
    memcpy(out_message, &message, sizeof message);
    return NULL;
}

weft_status pdmodel_array(pdmodel_reader *r, size_t count, size_t size, void *out_array) {
    size_t nbytes;
    void *array = NULL;
    if (count == 0) {
        memcpy(out_array, &array, sizeof array);
        return NULL;
    }
    if (!base_mul(count, size, &nbytes)) return form_over_budget(r->program, r->budget);
    TRY(form_charge(r->program, r->budget, nbytes));
    if (!(array = arena_alloc(&r->program->arena, nbytes))) return base_out_of_memory();
    memcpy(out_array, &array, sizeof array);
    return NULL;
}

static weft_status keep_bytes(pdmodel_reader *r, const void *bytes, size_t nbytes, text *out) {
    if (nbytes == 0) {
        *out = (text){"", 0};
        return NULL;
    }
    TRY(form_charge(r->program, r->budget, nbytes));
    const char *copy = arena_string(&r->program->arena, bytes, nbytes);
    if (!copy) return base_out_of_memory();
    *out = (text){copy, nbytes};
    return NULL;
}

weft_status pdmodel_text(pdmodel_reader *r, ProtobufCBinaryData from, text *out) {
    return keep_bytes(r, from.data, from.len, out);
}

weft_status pdmodel_string(pdmodel_reader *r, ProtobufCBinaryData from, const name **out) {
    enum { LONGEST_SHARED = 1024 };
    const char *bytes = from.data ? (const char *)from.data : "";
    if ((*out = pdmodel_name_ahead(&r->ahead, from))) return NULL; /* op_role_var says the op's own arguments */
    TRY(form_charge(r->program, r->budget, from.len));
    *out = from.len > LONGEST_SHARED ? name_create(&r->program->arena, bytes, from.len)
                                     : interner_get(&r->strings, bytes, from.len);
    return *out ? NULL : base_out_of_memory();
}

weft_status pdmodel_attr_text(pdmodel_reader *r, ProtobufCBinaryData from, weft_attr *to) {
    const name *string;
    TRY(pdmodel_string(r, from, &string));
    attr_set_text(to, text_of_name(string));
    return NULL;
}

weft_status pdmodel_name(pdmodel_reader *r, ProtobufCBinaryData from, const name **out) {
    TRY(form_charge(r->program, r->budget, from.len));
    return program_name(r->program, from.data ? (const char *)from.data : "", from.len, out);
}

weft_status pdmodel_name_like(pdmodel_reader *r, ProtobufCBinaryData from, const name *guess, const name **out) {
    *out = guess;
    if (guess && guess->nbytes == from.len && memcmp(guess->bytes, from.data, from.len) == 0) return NULL;
    return pdmodel_name(r, from, out);
}

weft_status pdmodel_unknown(pdmodel_reader *r, const ProtobufCMessage *message, const buffer *extra, text *out) {
    weft_status status = NULL;
    if (!message->n_unknown_fields && !extra->nbytes) return NULL;
    buffer bytes;
    buffer_init(&bytes, r->allocator);
    buffer_append(&bytes, extra->bytes, extra->nbytes);
    wire_put_unknown(&bytes, message);
    TRY_DONE(buffer_status(&bytes));
    TRY_DONE(keep_bytes(r, bytes.bytes, bytes.nbytes, out));
done:
    buffer_fini(&bytes);
    return status;
}
