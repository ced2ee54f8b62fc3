/* term.c: the table of terms. Heads are interned by a key of bytes that says everything that tells two heads apart;
 * terms by head and arguments. */
#include "proof/equivalence/term.h"

weft_status terms_init(terms *t, weft_context *context) {
    *t = (terms){.context = context, .odd = 1};
    arena_init(&t->arena, &context->allocator);
    interner_init(&t->keys, &t->arena);
    interner_init(&t->symbols, &t->arena);
    buffer_init(&t->key, &context->allocator);
    factor unit;
    uint32_t one;
    factor_make(1, 1, &unit);
    TRY(factor_id(t, &unit, &one));
    TRY(vector_reserve(&context->allocator, &t->dims, &t->dims_capacity, 1, sizeof *t->dims));
    t->dims[t->ndims++] = -1; /* index 0: not known */
    return NULL;
}

void terms_fini(terms *t) {
    if (!t->context) return;
    const weft_allocator *a = &t->context->allocator;
    base_free(a, t->heads, t->heads_capacity * sizeof *t->heads);
    base_free(a, t->items, t->capacity * sizeof *t->items);
    base_free(a, t->args, t->args_capacity * sizeof *t->args);
    table_free(a, &t->table);
    base_free(a, t->factors, t->factors_capacity * sizeof *t->factors);
    base_free(a, t->dims, t->dims_capacity * sizeof *t->dims);
    base_free(a, t->meshes, t->meshes_capacity * sizeof *t->meshes);
    buffer_fini(&t->key);
    arena_fini(&t->arena);
    *t = (terms){.context = NULL};
}

/* --- heads -------------------------------------------------------------------------------------------------------- */

buffer *head_begin(terms *t, head_kind kind) {
    t->key.nbytes = 0;
    char k = (char)('A' + kind);
    buffer_append(&t->key, &k, 1);
    return &t->key;
}

void head_put_int(buffer *b, int64_t i) {
    buffer_append(b, &i, sizeof i);
}

void head_put_text(buffer *b, const char *bytes, size_t nbytes) {
    head_put_int(b, (int64_t)nbytes);
    buffer_append(b, bytes, nbytes);
}

static weft_status copy_head(terms *t, const head *h, const name *key, head *out) {
    *out = *h;
    out->key = key;
    if (h->label && !(out->label = arena_string(&t->arena, h->label, strlen(h->label)))) return base_out_of_memory();
    if (h->nargs && h->roles && !(out->roles = arena_copy(&t->arena, h->roles, h->nargs))) return base_out_of_memory();
    if (!h->nints) out->ints = NULL;
    if (h->nints && !(out->ints = arena_copy(&t->arena, h->ints, h->nints * sizeof *h->ints)))
        return base_out_of_memory();
    return NULL;
}

weft_status head_finish(terms *t, const head *h, uint32_t *out) {
    TRY(buffer_status(&t->key));
    const name *key = interner_get(&t->keys, t->key.bytes, t->key.nbytes);
    if (!key) return base_out_of_memory();
    if (key->id >= t->nheads) {
        TRY(vector_reserve(&t->context->allocator, &t->heads, &t->heads_capacity, t->nheads + 1, sizeof *t->heads));
        TRY(copy_head(t, h, key, &t->heads[t->nheads]));
        t->nheads++;
    }
    *out = key->id;
    return NULL;
}

/* --- dims --------------------------------------------------------------------------------------------------------- */

const int64_t *term_dims(const terms *t, uint32_t id, size_t *out_ndim) {
    uint32_t at = t->items[id].dims;
    if (at == 0) return NULL;
    *out_ndim = (size_t)t->dims[at];
    return &t->dims[at + 1];
}

int64_t term_numel(const terms *t, uint32_t id) {
    size_t ndim;
    const int64_t *dims = term_dims(t, id, &ndim);
    if (!dims) return -1;
    int64_t n = 1;
    for (size_t i = 0; i < ndim; i++)
        if (__builtin_mul_overflow(n, dims[i], &n)) return -1;
    return n;
}

static weft_status keep_dims(terms *t, size_t ndim, const int64_t *dims, uint32_t *out) {
    *out = 0;
    if (!dims) return NULL;
    for (size_t i = 0; i < ndim; i++)
        if (dims[i] < 0) return NULL;
    uintptr_t at = (uintptr_t)dims, from = (uintptr_t)t->dims; /* another term's: shared */
    if (at > from && at < (uintptr_t)(t->dims + t->ndims))
        return *out = (uint32_t)((at - from) / sizeof *dims) - 1, NULL;
    if (t->ndims > UINT32_MAX - 16) return NULL;
    TRY(vector_reserve(&t->context->allocator, &t->dims, &t->dims_capacity, t->ndims + ndim + 1, sizeof *t->dims));
    *out = (uint32_t)t->ndims;
    t->dims[t->ndims++] = (int64_t)ndim;
    for (size_t i = 0; i < ndim; i++) t->dims[t->ndims++] = dims[i];
    return NULL;
}

/* --- terms -------------------------------------------------------------------------------------------------------- */

weft_status factor_id(terms *t, const factor *f, uint32_t *out) {
    for (size_t i = t->nfactors; i-- > 0;)
        if (factor_equal(&t->factors[i], f)) return *out = (uint32_t)i, NULL;
    TRY(vector_reserve(&t->context->allocator, &t->factors, &t->factors_capacity, t->nfactors + 1, sizeof *t->factors));
    *out = (uint32_t)t->nfactors;
    t->factors[t->nfactors++] = *f;
    return NULL;
}

static uint32_t hash_of(uint32_t head_id, const value *args, size_t nargs) {
    uint64_t h = (uint64_t)head_id * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < nargs; i++) {
        h = (h ^ ((uint64_t)args[i].factor << 32 | args[i].term)) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
    }
    return (uint32_t)(h ^ h >> 29);
}

static bool is_term(const terms *t, const term *x, uint32_t head_id, const value *args, size_t nargs) {
    return x->head == head_id && x->nargs == nargs &&
           (nargs == 0 || memcmp(&t->args[x->first], args, nargs * sizeof *args) == 0);
}

static weft_status add_term(terms *t, term x, const value *args) {
    if (t->count >= UINT32_MAX - 1 || t->nargs + x.nargs >= UINT32_MAX)
        return weft_status_create(WEFT_LIMIT, "proof", "a program has more than 2^32 terms");
    TRY(vector_reserve(&t->context->allocator, &t->items, &t->capacity, t->count + 1, sizeof *t->items));
    TRY(vector_reserve(&t->context->allocator, &t->args, &t->args_capacity, t->nargs + x.nargs, sizeof *t->args));
    x.first = (uint32_t)t->nargs;
    for (size_t i = 0; i < x.nargs; i++) {
        uint32_t height = t->items[args[i].term].height;
        if (height >= x.height) x.height = height + 1;
        t->args[t->nargs++] = args[i];
    }
    t->items[t->count++] = x;
    return NULL;
}

weft_status term_make(terms *t, uint32_t head_id, const value *args, size_t nargs, int32_t dtype, size_t ndim,
                      const int64_t *dims, uint32_t *out) {
    TRY(table_reserve_on(&t->context->allocator, &t->table, t->count + 1));
    table_probe at = table_find(&t->table, hash_of(head_id, args, nargs));
    while (at.item != TABLE_NONE && !is_term(t, &t->items[at.item], head_id, args, nargs)) table_next(&t->table, &at);
    if (at.item != TABLE_NONE) return *out = at.item, NULL;
    term x = {.head = head_id, .nargs = (uint32_t)nargs, .dtype = dtype};
    x.ndim = dims ? (int32_t)ndim : -1;
    TRY(keep_dims(t, ndim, dims, &x.dims));
    TRY(add_term(t, x, args));
    *out = (uint32_t)t->count - 1;
    table_put(&t->table, &at, *out);
    return NULL;
}
