/* npy.c: NumPy's array format, versions 1 to 3: a magic string, a Python dict with dtype, order and shape, the
 * bytes.
 *
 * What a shape claims is held against the bytes that there are before anything is allocated. Source: NumPy enhancement
 * proposal 1. */
#include <stdio.h>

#include "program/tensors.h"

enum { magic_nbytes = 6, max_header_nbytes = 65536 };
static const char magic[] = "\x93NUMPY";

typedef struct npy_type {
    weft_dtype dtype;
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    bool fortran_order;
} npy_type;

/* dtype strings, without the byte order. */
static const struct {
    const char *text;
    weft_dtype dtype;
} descrs[] = {
    {"b1", WEFT_BOOL},  {"i1", WEFT_INT8},  {"u1", WEFT_UINT8},     {"i2", WEFT_INT16},
    {"i4", WEFT_INT32}, {"i8", WEFT_INT64}, {"f2", WEFT_FP16},      {"f4", WEFT_FP32},
    {"f8", WEFT_FP64},  {"u2", WEFT_BF16},  {"c8", WEFT_COMPLEX64}, {"c16", WEFT_COMPLEX128},
};

/* The text after `'key':` in the header's dict; NULL if the key is not there. */
static const char *dict_value(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    while (*at == ' ') at++;
    if (*at++ != ':') return NULL;
    while (*at == ' ') at++;
    return at;
}

static weft_status parse_descr(const char *header, const char *place, weft_dtype *out) {
    const char *at = dict_value(header, "descr");
    size_t n = at && *at == '\'' ? strcspn(at + 1, "'") : 0;
    bool ordered = n > 1 && (at[1] == '<' || at[1] == '|' || at[1] == '=');
    for (size_t i = 0; ordered && i < sizeof descrs / sizeof *descrs; i++)
        if (strlen(descrs[i].text) == n - 1 && strncmp(descrs[i].text, at + 2, n - 1) == 0) {
            *out = descrs[i].dtype;
            return NULL;
        }
    return weft_status_create(WEFT_UNSUPPORTED, place,
                              "expected a little-endian dtype (f2 f4 f8 i1 i2 i4 i8 u1 u2 b1 c8 c16), found \"%.*s\"",
                              (int)(n < 16 ? n : 16), n ? at + 1 : "");
}

static weft_status parse_shape(const char *header, const char *place, npy_type *t) {
    const char *at = dict_value(header, "shape");
    if (!at || *at++ != '(')
        return weft_status_create(WEFT_PARSE, place, "expected 'shape': (...) in the array's header");
    for (;;) {
        while (*at == ' ' || *at == ',') at++;
        if (*at == ')') return NULL;
        int64_t extent = 0;
        const char *digits = at;
        for (; *at >= '0' && *at <= '9'; at++)
            if (__builtin_mul_overflow(extent, 10, &extent) || __builtin_add_overflow(extent, *at - '0', &extent))
                return weft_status_create(WEFT_LIMIT, place, "an extent of the array does not fit 64 bits");
        if (at == digits)
            return weft_status_create(WEFT_PARSE, place, "expected an extent in 'shape', found \"%.8s\"", at);
        if (t->ndim == WEFT_MAX_RANK)
            return weft_status_create(WEFT_LIMIT, place, "expected at most %d axes", WEFT_MAX_RANK);
        t->dims[t->ndim++] = extent;
    }
}

static weft_status parse_header(const char *header, const char *place, npy_type *t) {
    TRY(parse_descr(header, place, &t->dtype));
    TRY(parse_shape(header, place, t));
    const char *order = dict_value(header, "fortran_order");
    if (!order) return weft_status_create(WEFT_PARSE, place, "expected 'fortran_order' in the array's header");
    t->fortran_order = strncmp(order, "True", 4) == 0;
    return NULL;
}

/* Magic, version and header; *out_used is how many bytes they took. */
static weft_status read_header(byte_source *source, const weft_allocator *allocator, npy_type *out,
                               uint64_t *out_used) {
    unsigned char fixed[12];
    TRY(source->read(source->user, fixed, 10));
    if (memcmp(fixed, magic, magic_nbytes) != 0)
        return weft_status_create(WEFT_PARSE, source->place, "expected NumPy's magic bytes at the start of the array");
    size_t prefix = 10, length = (size_t)fixed[8] | (size_t)fixed[9] << 8;
    if (fixed[6] >= 2) {
        TRY(source->read(source->user, fixed + 10, 2));
        prefix = 12;
        length |= (size_t)fixed[10] << 16 | (size_t)fixed[11] << 24;
    }
    if (fixed[6] < 1 || fixed[6] > 3 || length > max_header_nbytes)
        return weft_status_create(
            WEFT_PARSE, source->place,
            "expected format version 1 to 3 and a header of at most %d bytes, found version %d and %zu",
            max_header_nbytes, fixed[6], length);
    char *header = base_alloc(allocator, length + 1);
    if (!header) return base_out_of_memory();
    weft_status status = source->read(source->user, header, length);
    header[length] = '\0';
    if (!status) status = parse_header(header, source->place, out);
    base_free(allocator, header, length + 1);
    *out_used = prefix + length;
    return status;
}

/* Reorders column-major elements to row-major. */
static weft_status to_row_major(const weft_allocator *allocator, weft_tensor *t) {
    size_t size = weft_dtype_nbytes(t->dtype), count = t->nbytes / size;
    char *copy = base_alloc(allocator, t->nbytes);
    if (!copy) return base_out_of_memory();
    memcpy(copy, t->data, t->nbytes);
    int64_t index[WEFT_MAX_RANK] = {0};
    for (size_t i = 0; i < count; i++) {
        size_t from = 0, stride = 1;
        for (size_t d = 0; d < t->ndim; d++) {
            from += (size_t)index[d] * stride;
            stride *= (size_t)t->dims[d];
        }
        memcpy((char *)t->data + i * size, copy + from * size, size);
        for (size_t d = t->ndim; d-- > 0 && ++index[d] == t->dims[d];) index[d] = 0;
    }
    base_free(allocator, copy, t->nbytes);
    return NULL;
}

/* uint16 bits are bf16 by convention; a program may say that its var of that name holds integers. */
static weft_dtype dtype_for(const npy_type *t, const char *tensor_name, const weft_program *program) {
    if (t->dtype != WEFT_BF16 || !program) return t->dtype;
    const char *slash = strchr(tensor_name, '/');
    const weft_var *v = weft_block_find_var(weft_program_block(program, 0), tensor_name);
    if (!v && slash) v = weft_block_find_var(weft_program_block(program, 0), slash + 1);
    return v && weft_var_dtype(v) == WEFT_INT16 ? WEFT_INT16 : WEFT_BF16;
}

/* The header, and how many bytes follow, which are there. */
static weft_status read_type(byte_source *source, const weft_allocator *allocator, const char *tensor_name,
                             npy_type *type, uint64_t *out_used, size_t *out_nbytes) {
    uint64_t used = 0;
    TRY(read_header(source, allocator, type, &used));
    size_t nbytes = weft_dtype_nbytes(type->dtype);
    bool fits = true;
    for (size_t i = 0; fits && i < type->ndim; i++) fits = base_mul(nbytes, (size_t)type->dims[i], &nbytes);
    if (!fits || used > source->nbytes || nbytes != source->nbytes - used)
        return weft_status_create(WEFT_PARSE, source->place, "the array \"%s\" claims %s%zu bytes, found %llu",
                                  tensor_name, fits ? "" : "more than ", fits ? nbytes : SIZE_MAX,
                                  (unsigned long long)(source->nbytes > used ? source->nbytes - used : 0));
    *out_used = used;
    *out_nbytes = nbytes;
    return NULL;
}

static bool is_reordered(const npy_type *type, size_t nbytes) {
    return type->fortran_order && type->ndim > 1 && nbytes > 0;
}

static bool is_left(const npy_type *type, size_t nbytes) {
    return tensors_may_leave(type->ndim, nbytes) && !is_reordered(type, nbytes);
}

static weft_status read_elements(byte_source *source, const npy_type *type, size_t nbytes, weft_tensor *t,
                                 const weft_allocator *allocator) {
    TRY(source->read(source->user, t->data, nbytes));
    return is_reordered(type, nbytes) ? to_row_major(allocator, t) : NULL;
}

/* The elements too, or only where none are left for later. */
static weft_status read_tensor(byte_source *source, weft_tensors *into, const char *tensor_name,
                               const weft_program *program, bool may_leave) {
    const weft_allocator *allocator = &into->context->allocator;
    npy_type type = {0};
    uint64_t used;
    size_t nbytes;
    weft_tensor *t;
    TRY(read_type(source, allocator, tensor_name, &type, &used, &nbytes));
    weft_dtype dtype = dtype_for(&type, tensor_name, program);
    TRY(may_leave ? tensors_reserve(into, tensor_name, dtype, type.ndim, type.dims, &t)
                  : weft_tensors_add(into, tensor_name, dtype, type.ndim, type.dims, &t));
    return may_leave && is_left(&type, nbytes) ? NULL : read_elements(source, &type, nbytes, t, allocator);
}

weft_status npy_read(byte_source *source, weft_tensors *into, const char *tensor_name, const weft_program *program) {
    return read_tensor(source, into, tensor_name, program, false);
}

weft_status npy_describe(byte_source *source, weft_tensors *into, const char *tensor_name,
                         const weft_program *program) {
    return read_tensor(source, into, tensor_name, program, true);
}

weft_status npy_is_left(byte_source *source, const weft_tensors *tensors, const weft_tensor *t, bool *out_left,
                        uint64_t *out_used) {
    npy_type type = {0};
    size_t nbytes;
    TRY(read_type(source, &tensors->context->allocator, t->name, &type, out_used, &nbytes));
    bool same = type.ndim == t->ndim && memcmp(type.dims, t->dims, t->ndim * sizeof *t->dims) == 0;
    *out_left = is_left(&type, nbytes) && same && nbytes == t->nbytes;
    return NULL;
}

weft_status npy_header(const weft_tensor *t, buffer *out) {
    const char *descr = NULL;
    for (size_t i = 0; i < sizeof descrs / sizeof *descrs; i++)
        if (descrs[i].dtype == t->dtype) descr = descrs[i].text;
    if (!descr) return weft_status_create(WEFT_UNSUPPORTED, t->name, "dtype %d has no NumPy form", (int)t->dtype);
    size_t start = out->nbytes;
    buffer_append(out, magic, magic_nbytes);
    buffer_append(out, "\x01\x00\x00\x00", 4);
    buffer_format(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                  weft_dtype_nbytes(t->dtype) == 1 ? '|' : '<', descr);
    for (size_t i = 0; i < t->ndim; i++)
        buffer_format(out, "%lld,%s", (long long)t->dims[i], i + 1 < t->ndim ? " " : "");
    buffer_text(out, "), }");
    while ((out->nbytes - start + 1) % 64 != 0 && !out->failed) buffer_text(out, " ");
    buffer_text(out, "\n");
    TRY(buffer_status(out));
    size_t length = out->nbytes - start - 10;
    out->bytes[start + 8] = (char)(length & 255);
    out->bytes[start + 9] = (char)(length >> 8);
    return NULL;
}
