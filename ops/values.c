/* values.c: the few small tensors whose elements shapes depend on: constants of the program, what the caller knows of
 * feeds, and what is computed from both (fold.c). */
#include "ops/infer.h"

/* As many as attr has, all not known. */
static void unknown_numbers(const infer *i, size_t count, const char *attr, numbers *out) {
    size_t nattr = 0;
    const int64_t *values = attr ? attr_ints(i->op, attr, &nattr) : NULL;
    out->known = false;
    out->count = count;
    for (size_t k = 0; k < count; k++) out->values[k] = nattr == count ? values[k] : -1;
}

static weft_status check_count(const infer *i, const char *slot_name, int64_t count) {
    return count <= WEFT_MAX_RANK ? NULL
                                  : infer_error(i, "%s: expected at most %d numbers, found %lld", slot_name,
                                                WEFT_MAX_RANK, (long long)count);
}

static bool is_float(int32_t dtype) {
    return dtype == WEFT_FP32 || dtype == WEFT_FP64;
}
static bool holds_integers(int32_t dtype) {
    return dtype == WEFT_BOOL || dtype == WEFT_INT32 || dtype == WEFT_INT64;
}

static weft_status numbers_of_tensor(const infer *i, int s, const char *attr, numbers *out) {
    size_t nattr = 0;
    const shape *tensor = infer_in(i, s);
    const int64_t *values = i->in_values[i->in_first[s]];
    if (attr) attr_ints(i->op, attr, &nattr);
    int64_t count = shape_numel(tensor) < 0 ? (int64_t)nattr : shape_numel(tensor);
    TRY(check_count(i, i->schema->inputs[s].name, count));
    unknown_numbers(i, (size_t)count, attr, out);
    if (!values || shape_numel(tensor) < 0) return NULL;
    if (!holds_integers(tensor->dtype)) return NULL;
    memcpy(out->values, values, (size_t)count * sizeof *values);
    out->known = true;
    return NULL;
}

static weft_status numbers_of_list(const infer *i, int s, const char *attr, numbers *out) {
    size_t count = infer_nin(i, s);
    TRY(check_count(i, i->schema->inputs[s].name, (int64_t)count));
    unknown_numbers(i, count, attr, out);
    out->known = true;
    for (size_t k = 0; k < count; k++) {
        const int64_t *value = i->in_values[i->in_first[s] + k];
        const shape *tensor = &i->in[i->in_first[s] + k];
        bool one = value && shape_numel(tensor) == 1 && holds_integers(tensor->dtype);
        if (one) out->values[k] = *value;
        out->known = out->known && one;
    }
    return NULL;
}

weft_status infer_numbers(const infer *i, const char *tensor_slot, const char *list_slot, const char *attr,
                          numbers *out) {
    int tensor = schema_input(i->schema, tensor_slot), list = list_slot ? schema_input(i->schema, list_slot) : -1;
    if (tensor >= 0 && infer_nin(i, tensor)) return numbers_of_tensor(i, tensor, attr, out);
    if (list >= 0 && infer_nin(i, list)) return numbers_of_list(i, list, attr, out);
    size_t count = 0;
    const int64_t *values = attr ? attr_ints(i->op, attr, &count) : NULL;
    TRY(check_count(i, attr ? attr : tensor_slot, (int64_t)count));
    out->count = count;
    out->known = true;
    for (size_t k = 0; k < count; k++) out->values[k] = values[k];
    return NULL;
}

weft_status infer_keep_values(infer *i, size_t index, size_t count, const int64_t *values) {
    int64_t *kept = ARENA_ARRAY(i->memory, int64_t, count ? count : 1);
    if (!kept) return base_out_of_memory();
    if (count) memcpy(kept, values, count * sizeof *kept);
    i->out_values[index] = kept;
    return NULL;
}

double value_real(int32_t dtype, int64_t kept) {
    double real;
    if (!is_float(dtype)) return (double)kept;
    memcpy(&real, &kept, sizeof real);
    return real;
}

/* As an element of the type, kept in 64 bits; false where it has no such element, or the type none that are kept. */
static bool to_element(int32_t dtype, double value, int64_t *out) {
    if (is_float(dtype)) {
        if (dtype == WEFT_FP32) value = (double)(float)value;
        memcpy(out, &value, sizeof *out);
        return true;
    }
    double limit = dtype == WEFT_INT32 ? 2147483647.0 : 9007199254740992.0; /* integers that a double holds exactly */
    if (!holds_integers(dtype) || !(value >= -limit && value <= limit)) return false;
    *out = dtype == WEFT_BOOL ? value != 0 : (int64_t)value;
    return true;
}

weft_status infer_keep_reals(infer *i, size_t index, size_t count, const double *values) {
    int64_t *kept = ARENA_ARRAY(i->memory, int64_t, count ? count : 1);
    if (!kept) return base_out_of_memory();
    for (size_t k = 0; k < count; k++)
        if (!to_element(i->out[index].dtype, values[k], &kept[k])) return NULL;
    i->out_values[index] = kept;
    return NULL;
}

bool infer_one_real(const infer *i, uint32_t index, double *out) {
    if (!i->in_values[index] || shape_numel(&i->in[index]) != 1) return false;
    *out = value_real(i->in[index].dtype, *i->in_values[index]);
    return true;
}
