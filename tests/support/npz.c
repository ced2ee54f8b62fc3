#include "tests/support/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <zip.h>

/* "'key': value" of a .npy header; the text after the colon. */
static const char *header_value(const char *header, const char *key) {
    const char *at = strstr(header, key);
    at = at ? strchr(at, ':') : NULL;
    return at ? at + 1 : NULL;
}

static bool parse_header(npz_array *a, const char *header) {
    const char *descr = header_value(header, "'descr'"), *order = header_value(header, "'fortran_order'");
    const char *shape_text = header_value(header, "'shape'");
    if (!descr || !order || !shape_text || sscanf(descr, " '%15[^']'", a->dtype) != 1) return false;
    shape_text = strchr(shape_text, '(');
    a->numel = 1;
    for (const char *c = shape_text ? shape_text + 1 : ""; *c && *c != ')';) {
        char *end;
        int64_t extent = strtoll(c, &end, 10);
        if (end == c) {
            c++;
            continue;
        }
        if (a->ndim == WEFT_MAX_RANK) return false;
        a->dims[a->ndim++] = extent;
        a->numel *= extent;
        c = end;
    }
    return shape_text && strncmp(order, " False", 6) == 0;
}

/* Magic, version, length of the header, header, data. */
static bool parse_npy(npz_array *a, char *bytes, size_t nbytes) {
    if (nbytes < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) return false;
    const unsigned char *u = (const unsigned char *)bytes;
    size_t at = u[6] == 1 ? 10 : 12, length = (size_t)u[8] | (size_t)u[9] << 8;
    if (u[6] > 1) length |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
    if (length > nbytes - at || length == 0) return false;
    bytes[at + length - 1] = 0; /* the newline that ends the header */
    a->data = bytes + at + length;
    a->nbytes = nbytes - at - length;
    return parse_header(a, bytes + at);
}

static bool read_member(npz *z, zip_t *zip, zip_uint64_t index) {
    zip_stat_t info;
    if (zip_stat_index(zip, index, 0, &info) != 0) return false;
    size_t stem = strlen(info.name);
    if (stem > 4 && strcmp(info.name + stem - 4, ".npy") == 0) stem -= 4;
    npz_array *a = &z->arrays[z->count];
    char *bytes = arena_alloc(&z->arena, (size_t)info.size + 1);
    a->name = arena_string(&z->arena, info.name, stem);
    zip_file_t *file = zip_fopen_index(zip, index, 0);
    bool ok = bytes && a->name && file && zip_fread(file, bytes, info.size) == (zip_int64_t)info.size;
    if (file) zip_fclose(file);
    if (!ok || !parse_npy(a, bytes, (size_t)info.size)) return false;
    z->count++;
    return true;
}

bool npz_open(npz *z, const weft_allocator *allocator, const char *path, char *why, size_t why_nbytes) {
    *z = (npz){.arrays = NULL};
    arena_init(&z->arena, allocator);
    zip_t *zip = zip_open(path, ZIP_RDONLY, NULL);
    zip_int64_t count = zip ? zip_get_num_entries(zip, 0) : -1;
    bool ok = count >= 0;
    if (ok) z->arrays = ARENA_ARRAY(&z->arena, npz_array, count + 1);
    for (zip_int64_t i = 0; ok && i < count; i++) ok = read_member(z, zip, (zip_uint64_t)i);
    if (zip) zip_discard(zip);
    if (!ok) snprintf(why, why_nbytes, "%s cannot be read", path);
    return ok;
}

void npz_close(npz *z) {
    arena_fini(&z->arena);
}

const npz_array *npz_find(const npz *z, const char *prefix, const char *wanted) {
    size_t n = strlen(prefix);
    for (size_t i = 0; i < z->count; i++)
        if (strncmp(z->arrays[i].name, prefix, n) == 0 && strcmp(z->arrays[i].name + n, wanted) == 0)
            return &z->arrays[i];
    return NULL;
}
