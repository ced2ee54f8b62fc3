/* witness_parts.c: see witness_parts.h. */
#include "train/witness_parts.h"

static const weft_var *var_of(const weft_program *const *programs, size_t nprograms, size_t rank,
                              const weft_tensor *whole) {
    const weft_var *v = weft_block_find_var(programs[nprograms > 1 ? rank : 0]->blocks[0], whole->name);
    return v && v->has_tensor && v->ndim == whole->ndim ? v : NULL;
}

bool witness_is_in_parts(const weft_program *const *programs, size_t nprograms, const weft_tensors *whole) {
    if (!programs[0]->fx_json) return false;
    for (size_t i = 0; i < weft_tensors_count(whole); i++) {
        const weft_var *v = var_of(programs, nprograms, 0, weft_tensors_at(whole, i));
        if (v && v->dist) return false;
    }
    return true;
}

static size_t bytes_behind(const weft_tensor *t, size_t d) {
    size_t n = weft_dtype_nbytes(t->dtype);
    for (size_t i = d + 1; i < t->ndim; i++) n *= (size_t)t->dims[i];
    return n;
}

/* The stretch of dimension `d` from `from` on that the part has. */
static void copy_stretch(const weft_tensor *whole, size_t d, int64_t from, weft_tensor *part) {
    size_t row = bytes_behind(whole, d), nrows = 1;
    for (size_t i = 0; i < d; i++) nrows *= (size_t)whole->dims[i];
    for (size_t i = 0; i < nrows; i++)
        memcpy((char *)part->data + i * row * (size_t)part->dims[d],
               (const char *)whole->data + (i * (size_t)whole->dims[d] + (size_t)from) * row,
               row * (size_t)part->dims[d]);
}

static weft_status add_part(const weft_tensor *whole, const weft_program *const *programs, size_t nprograms,
                            size_t rank, weft_tensors *to) {
    const weft_var *v = var_of(programs, nprograms, rank, whole);
    const int64_t *dims = v ? v->dims : whole->dims;
    size_t d = 0, ncut = 0;
    int64_t from = 0;
    for (size_t i = 0; i < whole->ndim; i++)
        if (dims[i] != whole->dims[i]) d = i, ncut++;
    for (size_t r = 0; ncut && r < rank; r++) {
        const weft_var *before = var_of(programs, nprograms, r, whole);
        from += before ? before->dims[d] : 0;
    }
    if (ncut > 1 || (ncut && (dims[d] < 0 || from + dims[d] > whole->dims[d])))
        return weft_status_create(WEFT_UNSUPPORTED, programs[0]->place,
                                  "feed \"%s\": its part of rank %zu is not known", whole->name, rank);
    weft_tensor *part;
    TRY(weft_tensors_add(to, whole->name, whole->dtype, whole->ndim, dims, &part));
    if (whole->ndim)
        copy_stretch(whole, d, from, part);
    else
        memcpy(part->data, whole->data, weft_dtype_nbytes(whole->dtype));
    return NULL;
}

weft_status witness_add_parts(const weft_tensors *whole, const weft_program *const *programs, size_t nprograms,
                              size_t rank, weft_tensors *to) {
    for (size_t i = 0; i < weft_tensors_count(whole); i++)
        TRY(add_part(weft_tensors_at(whole, i), programs, nprograms, rank, to));
    return NULL;
}
