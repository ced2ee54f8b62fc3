/* allocator.c: the one way memory is had: the context's resize function, or libc's where the host gave none. */
#include <stdlib.h>

#include "base/base.h"

static void *libc_resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    (void)user;
    (void)old_nbytes;
    if (new_nbytes) return realloc(ptr, new_nbytes);
    free(ptr);
    return NULL;
}

weft_allocator base_libc_allocator(void) {
    return (weft_allocator){libc_resize, NULL};
}

void *base_resize(const weft_allocator *allocator, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    return allocator->resize(allocator->user, ptr, old_nbytes, new_nbytes);
}

weft_status vector_reserve(const weft_allocator *allocator, void *items, size_t *capacity, size_t count, size_t size) {
    if (count <= *capacity) return NULL;
    size_t wanted = *capacity < 4 ? 8 : *capacity + *capacity / 2;
    if (wanted < count) wanted = count;
    size_t nbytes;
    if (!base_mul(wanted, size, &nbytes)) return base_out_of_memory();
    void *old, *grown; /* `items` is the address of a pointer of any type: copied, never punned */
    memcpy(&old, items, sizeof old);
    grown = base_resize(allocator, old, *capacity * size, nbytes);
    if (!grown) return base_out_of_memory();
    memcpy(items, &grown, sizeof grown);
    *capacity = wanted;
    return NULL;
}
