/* infer_parts.c: what inference functions share: errors, extents, types of outputs. */
#include "ops/infer.h"

#include <stdio.h>

weft_status infer_error(const infer *i, const char *format, ...) {
    char place[160], message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return weft_status_create(WEFT_INVALID_PROGRAM, i->op->program->place, "%s: %s",
                              op_place(i->op, place, sizeof place), message);
}

int64_t shape_numel(const shape *s) {
    if (s->ndim < 0) return -1;
    int64_t n = 1;
    for (int32_t i = 0; i < s->ndim; i++) n = extent_mul(n, s->dims[i]);
    return n;
}

int64_t extent_add(int64_t a, int64_t b) {
    int64_t sum;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? -1 : sum;
}

int64_t extent_mul(int64_t a, int64_t b) {
    int64_t product;
    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

const char *shape_print(const shape *s, shape_text *out) {
    if (s->ndim < 0) return "?";
    size_t n = (size_t)snprintf(out->bytes, sizeof out->bytes, "[");
    for (int32_t i = 0; i < s->ndim && n < sizeof out->bytes; i++)
        n += (size_t)snprintf(out->bytes + n, sizeof out->bytes - n, i ? ", %lld" : "%lld", (long long)s->dims[i]);
    if (n < sizeof out->bytes) snprintf(out->bytes + n, sizeof out->bytes - n, "]");
    return out->bytes;
}

void shape_set(shape *to, int32_t dtype, size_t ndim, const int64_t *dims) {
    if (!to) return;
    *to = (shape){.dtype = dtype, .ndim = ndim > WEFT_MAX_RANK ? -1 : (int32_t)ndim, .height = -1};
    for (int32_t i = 0; i < to->ndim; i++) to->dims[i] = dims[i];
}

void shape_copy_dims(shape *to, const shape *from, int32_t dtype) {
    if (!to) return;
    *to = *from;
    to->dtype = dtype;
}

weft_status shape_append(infer *i, shape *s, int64_t extent) {
    if (s->ndim >= WEFT_MAX_RANK) return infer_error(i, "expected at most %d dimensions", WEFT_MAX_RANK);
    s->dims[s->ndim++] = extent;
    return NULL;
}

weft_status infer_axis(const infer *i, const char *what, int64_t axis, int32_t ndim, int32_t *out) {
    if (axis < -(int64_t)ndim || axis >= ndim)
        return infer_error(i, "%s: expected a dimension of %d, found %lld", what, ndim, (long long)axis);
    *out = (int32_t)(axis < 0 ? axis + ndim : axis);
    return NULL;
}

void infer_xshape(infer *i, int output_slot, const shape *x) {
    shape *xshape = output_slot < (int)i->schema->noutputs ? infer_out(i, output_slot) : NULL;
    if (!xshape || x->ndim < 0 || x->ndim == WEFT_MAX_RANK) return;
    *xshape = (shape){.dtype = x->dtype, .ndim = x->ndim + 1, .height = -1};
    memcpy(xshape->dims + 1, x->dims, (size_t)x->ndim * sizeof *x->dims);
}

static int find_slot(const slot_schema *slots, size_t count, const char *slot_name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(slots[i].name, slot_name) == 0) return (int)i;
    return -1;
}

int schema_input(const op_schema *s, const char *slot_name) {
    return find_slot(s->inputs, s->ninputs, slot_name);
}
int schema_output(const op_schema *s, const char *slot_name) {
    return find_slot(s->outputs, s->noutputs, slot_name);
}

bool infer_has(const infer *i, const char *input_slot) {
    int s = schema_input(i->schema, input_slot);
    return s >= 0 && infer_nin(i, s) > 0;
}
