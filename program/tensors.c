/* tensors.c: sets of named tensors. */
#include "program/tensors.h"

weft_status weft_tensors_create(weft_context *context, weft_tensors **out_tensors) {
    weft_tensors *t = base_alloc(&context->allocator, sizeof *t);
    if (!t) return base_out_of_memory();
    *t = (weft_tensors){.context = context};
    *out_tensors = t;
    return NULL;
}

static void item_fini(weft_tensors *tensors, size_t index) {
    const weft_allocator *allocator = &tensors->context->allocator;
    weft_tensor *t = &tensors->items[index];
    base_free(allocator, (void *)t->name, strlen(t->name) + 1);
    if (!tensors->borrowed[index]) base_free(allocator, t->data, t->nbytes);
}

void weft_tensors_destroy(weft_tensors *tensors) {
    if (!tensors) return;
    const weft_allocator *allocator = &tensors->context->allocator;
    for (size_t i = 0; i < tensors->count; i++) item_fini(tensors, i);
    base_free(allocator, tensors->items, tensors->capacity * sizeof *tensors->items);
    base_free(allocator, tensors->borrowed, tensors->capacity_borrowed * sizeof *tensors->borrowed);
    table_free(allocator, &tensors->table);
    base_free(allocator, tensors, sizeof *tensors);
}

size_t weft_tensors_count(const weft_tensors *tensors) {
    return tensors->count;
}

const weft_tensor *weft_tensors_at(const weft_tensors *tensors, size_t index) {
    return index < tensors->count ? &tensors->items[index] : NULL;
}

/* The item of that name, or where it would go. */
static table_probe find_tensor(const weft_tensors *tensors, const char *tensor_name) {
    table_probe at = table_find(&tensors->table, base_hash(tensor_name, strlen(tensor_name)));
    while (at.item != TABLE_NONE && strcmp(tensors->items[at.item].name, tensor_name) != 0)
        table_next(&tensors->table, &at);
    return at;
}

const weft_tensor *weft_tensors_find(const weft_tensors *tensors, const char *tensor_name) {
    table_probe at = find_tensor(tensors, tensor_name);
    return at.item == TABLE_NONE ? NULL : &tensors->items[at.item];
}

static weft_status tensor_nbytes(weft_dtype dtype, size_t ndim, const int64_t *dims, const char *tensor_name,
                                 size_t *out_nbytes) {
    size_t nbytes = weft_dtype_nbytes(dtype);
    bool good = nbytes > 0 && ndim <= WEFT_MAX_RANK;
    for (size_t i = 0; good && i < ndim; i++) good = dims[i] >= 0;
    if (!good)
        return weft_status_create(WEFT_INVALID_ARGUMENT, tensor_name,
                                  "expected a known dtype and at most %d extents that are not negative", WEFT_MAX_RANK);
    for (size_t i = 0; good && i < ndim; i++) good = base_mul(nbytes, (size_t)dims[i], &nbytes);
    if (!good) return weft_status_create(WEFT_LIMIT, tensor_name, "the product of the extents overflows");
    *out_nbytes = nbytes;
    return NULL;
}

/* Puts a tensor of `nbytes` under its name. `data` NULL: data of its own, zeroed or as it comes. */
static weft_status put_tensor(weft_tensors *tensors, const char *tensor_name, weft_tensor *t, void *data, bool zeroed) {
    const weft_allocator *allocator = &tensors->context->allocator;
    size_t wanted = tensors->count + 1, length = strlen(tensor_name) + 1;
    TRY(table_reserve_on(allocator, &tensors->table, wanted));
    TRY(vector_reserve(allocator, &tensors->items, &tensors->capacity, wanted, sizeof *tensors->items));
    TRY(vector_reserve(allocator, &tensors->borrowed, &tensors->capacity_borrowed, wanted, sizeof *tensors->borrowed));
    char *copy = base_alloc(allocator, length);
    t->data = data ? data : base_alloc(allocator, t->nbytes);
    if (!copy || !t->data) {
        base_free(allocator, copy, length);
        if (!data) base_free(allocator, t->data, t->nbytes);
        return base_out_of_memory();
    }
    memcpy(copy, tensor_name, length);
    if (!data && zeroed) memset(t->data, 0, t->nbytes);
    t->name = copy;
    table_probe at = find_tensor(tensors, tensor_name);
    if (at.item == TABLE_NONE)
        table_put(&tensors->table, &at, (uint32_t)tensors->count++);
    else
        item_fini(tensors, at.item);
    tensors->items[at.item] = *t;
    tensors->borrowed[at.item] = data != NULL;
    return NULL;
}

static weft_status describe(weft_tensor *t, const char *tensor_name, weft_dtype dtype, size_t ndim,
                            const int64_t *dims) {
    *t = (weft_tensor){.dtype = dtype, .ndim = ndim};
    TRY(tensor_nbytes(dtype, ndim, dims, tensor_name, &t->nbytes));
    if (ndim) memcpy(t->dims, dims, ndim * sizeof *dims);
    return NULL;
}

static weft_status add_tensor(weft_tensors *tensors, const char *tensor_name, weft_dtype dtype, size_t ndim,
                              const int64_t *dims, bool clears, weft_tensor **out_tensor) {
    weft_tensor t;
    TRY(describe(&t, tensor_name, dtype, ndim, dims));
    TRY(put_tensor(tensors, tensor_name, &t, NULL, clears));
    *out_tensor = &tensors->items[find_tensor(tensors, tensor_name).item];
    return NULL;
}

weft_status weft_tensors_add(weft_tensors *tensors, const char *tensor_name, weft_dtype dtype, size_t ndim,
                             const int64_t *dims, weft_tensor **out_tensor) {
    return add_tensor(tensors, tensor_name, dtype, ndim, dims, true, out_tensor);
}

weft_status tensors_reserve(weft_tensors *tensors, const char *tensor_name, weft_dtype dtype, size_t ndim,
                            const int64_t *dims, weft_tensor **out_tensor) {
    return add_tensor(tensors, tensor_name, dtype, ndim, dims, false, out_tensor);
}

/* Of complex numbers that of their parts. */
static size_t element_alignment(weft_dtype dtype) {
    return dtype == WEFT_COMPLEX64 ? 4 : dtype == WEFT_COMPLEX128 ? 8 : weft_dtype_nbytes(dtype);
}

weft_status weft_tensors_borrow(weft_tensors *tensors, const char *tensor_name, weft_dtype dtype, size_t ndim,
                                const int64_t *dims, const void *data) {
    weft_tensor t;
    TRY(describe(&t, tensor_name, dtype, ndim, dims));
    if (!data || (uintptr_t)data % element_alignment(dtype))
        return weft_status_create(WEFT_INVALID_ARGUMENT, tensor_name, "expected data that is aligned for its elements");
    return put_tensor(tensors, tensor_name, &t, (void *)(uintptr_t)data, false);
}

/* --- bytes in memory --------------------------------------------------------------------------------------------- */

static weft_status read_memory(void *user, void *out, size_t nbytes) {
    memory_bytes *m = user;
    if (nbytes > m->nbytes - m->at)
        return weft_status_create(WEFT_PARSE, m->place, "expected %zu more bytes at byte %zu, found %zu", nbytes, m->at,
                                  m->nbytes - m->at);
    memcpy(out, m->bytes + m->at, nbytes);
    m->at += nbytes;
    return NULL;
}

static void skip_memory(void *user, size_t nbytes) {
    memory_bytes *m = user;
    m->at += nbytes;
}

byte_source memory_source(memory_bytes *m) {
    return (byte_source){read_memory, skip_memory, m, m->nbytes, m->place};
}
