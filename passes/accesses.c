/* accesses.c: who touches which bytes, for hosts (weft/access.h). */
#include "passes/access.h"
#include "weft/access.h"

struct weft_accesses {
    arena arena;
    access_index index;
};

weft_status weft_accesses_create(weft_program *program, weft_accesses **out_accesses) {
    const weft_allocator *allocator = &program->context->allocator;
    weft_accesses *a = base_alloc(allocator, sizeof *a);
    if (!a) return base_out_of_memory();
    *a = (weft_accesses){0};
    arena_init(&a->arena, allocator);
    weft_status status = access_index_begin(program, &a->arena, &a->index);
    if (!status) status = access_index_gather(&a->index, &a->arena, NULL);
    if (status)
        weft_accesses_destroy(a);
    else
        *out_accesses = a;
    return status;
}

void weft_accesses_destroy(weft_accesses *accesses) {
    if (!accesses) return;
    const weft_allocator *allocator = accesses->arena.allocator;
    arena_fini(&accesses->arena);
    base_free(allocator, accesses, sizeof *accesses);
}

size_t weft_accesses_nops(const weft_accesses *accesses) {
    return accesses->index.nops;
}

weft_op *weft_accesses_op(const weft_accesses *accesses, size_t position) {
    return position < accesses->index.nops ? access_op(&accesses->index, position) : NULL;
}

size_t weft_accesses_count(const weft_accesses *accesses, const weft_var *var) {
    size_t count;
    accesses_of(&accesses->index, var, &count);
    return count;
}

weft_access weft_accesses_at(const weft_accesses *accesses, const weft_var *var, size_t index) {
    size_t count;
    const access *a = &accesses_of(&accesses->index, var, &count)[index];
    return (weft_access){.op = access_op(&accesses->index, a->position),
                         .position = a->position,
                         .reads = a->flags & ACCESS_READ,
                         .writes = a->flags & ACCESS_WRITE,
                         .is_nested = a->flags & ACCESS_NESTED,
                         .makes_views = a->flags & ACCESS_ALIAS};
}

size_t weft_accesses_class(const weft_accesses *accesses, const weft_var *var) {
    return access_class(&accesses->index, var);
}
