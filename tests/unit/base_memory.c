/* Arena, interner, vectors and buffers, with memory that runs out at every request in turn. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/base.h"
#include "tests/support/failing_allocator.h"

static weft_allocator libc;
static void setup(void) {
    libc = base_libc_allocator();
}
TestSuite(memory, .init = setup);

Test(memory, arena_objects_are_zeroed_aligned_and_apart) {
    arena a;
    arena_init(&a, &libc);
    unsigned char *objects[1000];
    for (size_t i = 0; i < 1000; i++) {
        objects[i] = arena_alloc(&a, i * 7);
        cr_assert_eq((uintptr_t)objects[i] % 16, 0);
        for (size_t j = 0; j < i * 7; j++) cr_assert_eq(objects[i][j], 0);
        memset(objects[i], (int)(i & 255), i * 7);
    }
    for (size_t i = 0; i < 1000; i++)
        for (size_t j = 0; j < i * 7; j++) cr_assert_eq(objects[i][j], i & 255);
    arena_fini(&a);
}

Test(memory, arena_goes_on_bumping_after_a_large_object) {
    arena a;
    arena_init(&a, &libc);
    cr_assert_not_null(arena_alloc(&a, 100));
    cr_assert_not_null(arena_alloc(&a, 3 << 20));
    size_t before = a.total_nbytes;
    cr_assert_not_null(arena_alloc(&a, 100));
    cr_assert_leq(a.total_nbytes - before, 256, "no new chunk is needed");
    arena_fini(&a);
    cr_assert_eq(a.total_nbytes, 0);
}

Test(memory, an_arena_that_is_reset_has_its_memory_again_and_zeroed) {
    arena a;
    arena_init(&a, &libc);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 1; i < 400; i++) {
            size_t nbytes = i % 50 ? i * 13 : 300000;
            unsigned char *object = arena_alloc(&a, nbytes);
            cr_assert_not_null(object);
            for (size_t j = 0; j < nbytes; j += 7) cr_assert_eq(object[j], 0, "round %d", round);
            memset(object, 0xee, nbytes);
        }
        arena_reset(&a);
        cr_assert_eq(a.total_nbytes, 0);
    }
    weft_allocator none = {.resize = NULL}; /* would be called for a new chunk */
    bool is_bumped = a.spare != NULL;       /* else each object is allocated singly */
    if (is_bumped) a.allocator = &none;
    if (is_bumped) cr_assert_not_null(arena_alloc(&a, 1000));
    a.allocator = &libc;
    arena_fini(&a);
}

Test(memory, strings_of_an_arena_keep_their_bytes) {
    enum { COUNT = 9000 };
    static char *strings[COUNT];
    char expected[64];
    arena a;
    arena_init(&a, &libc);
    for (int i = 0; i < COUNT; i++) {
        int n = snprintf(expected, sizeof expected, "string %d of %d bytes", i, i % 40);
        cr_assert_not_null(strings[i] = arena_string(&a, expected, (size_t)n));
        if (i % 3 == 0) memset(arena_alloc(&a, 24), 0xee, 24);
    }
    for (int i = 0; i < COUNT; i++) {
        snprintf(expected, sizeof expected, "string %d of %d bytes", i, i % 40);
        cr_assert_str_eq(strings[i], expected);
        cr_assert_eq((uintptr_t)strings[i] % 4, 0);
    }
    cr_assert_not_null(arena_text(&a, 0));
    unsigned char *text = arena_text(&a, 1000);
    for (int i = 0; i < 1000; i++) cr_assert_eq(text[i], 0);
    arena_fini(&a);
}

Test(memory, arena_refuses_sizes_that_overflow) {
    arena a;
    arena_init(&a, &libc);
    cr_assert_null(arena_array(&a, SIZE_MAX / 2, 4));
    cr_assert_null(arena_alloc(&a, SIZE_MAX));
    cr_assert_null(arena_string(&a, "x", SIZE_MAX));
    cr_assert_str_eq(arena_format(&a, "%d-%s", 4, "b"), "4-b");
    cr_assert_str_eq(arena_string(&a, "abcdef", 3), "abc");
    arena_fini(&a);
}

Test(memory, names_are_one_pointer_per_bytes) {
    arena a;
    interner in;
    arena_init(&a, &libc);
    interner_init(&in, &a);
    cr_assert_null(interner_find(&in, "a", 1));
    const name *plain = interner_get(&in, "a", 1), *with_nul = interner_get(&in, "a\0b", 3);
    cr_assert_neq(plain, with_nul);
    cr_assert_neq(with_nul, interner_get(&in, "a\0c", 3));
    cr_assert_eq(with_nul, interner_get(&in, "a\0b", 3));
    cr_assert_eq(with_nul->nbytes, 3);
    cr_assert_arr_eq(with_nul->bytes, "a\0b", 4);
    const name *empty = interner_get(&in, "", 0);
    cr_assert_eq(empty, interner_find(&in, "", 0));
    cr_assert_eq(empty->id, 3);
    arena_fini(&a);
}

Test(memory, names_stay_as_the_table_grows) {
    arena a;
    interner in;
    arena_init(&a, &libc);
    interner_init(&in, &a);
    static const name *names[5000];
    char bytes[32];
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(bytes, sizeof bytes, "tensor_%d.tmp", i);
        names[i] = interner_get(&in, bytes, (size_t)n);
        cr_assert_eq(names[i]->id, i);
    }
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(bytes, sizeof bytes, "tensor_%d.tmp", i);
        cr_assert_eq(interner_find(&in, bytes, (size_t)n), names[i]);
    }
    arena_fini(&a);
}

Test(memory, names_of_any_size_are_listed_by_id) {
    arena a;
    interner in;
    arena_init(&a, &libc);
    interner_init(&in, &a);
    static const size_t sizes[] = {1, 1100, 5000, 3, INTERNER_PIECE_NBYTES, 900, 1000, 1001, 0, 70000};
    enum { NSIZES = sizeof sizes / sizeof *sizes };
    static char bytes[70000];
    memset(bytes, 'n', sizeof bytes);
    const name *names[NSIZES], *listed[NSIZES];
    cr_assert(interner_reserve(&in, NSIZES));
    const table_entry *entries = in.table.entries;
    for (size_t i = 0; i < NSIZES; i++) {
        cr_assert_not_null(names[i] = interner_get(&in, bytes, sizes[i]));
        name_set_value(names[i], (uint32_t)(7 * i));
    }
    cr_assert_eq(in.table.entries, entries, "it was reserved");
    interner_list(&in, listed);
    for (size_t i = 0; i < NSIZES; i++) {
        cr_expect_eq(listed[i], names[i]);
        cr_expect_eq(interner_find(&in, bytes, sizes[i]), names[i]);
        cr_expect_eq(interner_guess(&in, base_hash(bytes, sizes[i])), names[i]);
        cr_expect(names[i]->nbytes == sizes[i] && names[i]->bytes[sizes[i]] == 0 && names[i]->value == 7 * i);
    }
    cr_expect_null(interner_guess(&in, base_hash("other", 5)));
    arena_fini(&a);
}

Test(memory, vectors_grow_and_refuse_overflow) {
    int *items = NULL;
    size_t capacity = 0;
    for (size_t i = 0; i < 1000; i++) {
        cr_assert_null(vector_reserve(&libc, &items, &capacity, i + 1, sizeof *items));
        items[i] = (int)i;
    }
    for (size_t i = 0; i < 1000; i++) cr_assert_eq(items[i], i);
    weft_status status = vector_reserve(&libc, &items, &capacity, SIZE_MAX / 2, sizeof *items);
    cr_assert_eq(weft_status_code(status), WEFT_OUT_OF_MEMORY);
    base_free(&libc, items, capacity * sizeof *items);
}

Test(memory, buffers_print_integers_and_repeat_what_they_hold) {
    buffer b;
    buffer_init(&b, &libc);
    const int64_t values[] = {0, -1, 10, INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 5; i++) {
        buffer_integer(&b, values[i]);
        buffer_text(&b, " ");
    }
    for (int i = 0; i < 8; i++) buffer_repeat(&b, 2, 3); /* grows under its own bytes */
    buffer_append(&b, "", 1);
    cr_expect_str_eq(b.bytes, "0 -1 10 -9223372036854775808 9223372036854775807 -1 -1 -1 -1 -1 -1 -1 -1 ");
    buffer_fini(&b);
}

Test(memory, buffers_take_exactly_their_bytes) {
    buffer b;
    buffer_init(&b, &libc);
    buffer_format(&b, "%500d|", 7);
    buffer_text(&b, "end");
    char *bytes;
    size_t nbytes;
    cr_assert_null(buffer_take(&b, &bytes, &nbytes));
    cr_assert_eq(nbytes, 504);
    cr_assert_str_eq(bytes + 499, "7|end");
    base_free(&libc, bytes, nbytes + 1);
    cr_assert_null(buffer_take(&b, &bytes, &nbytes), "an empty buffer gives an empty string");
    cr_assert_str_eq(bytes, "");
    base_free(&libc, bytes, nbytes + 1);
}

/* Everything above once more in small, on memory that fails at its n-th request. */
static weft_status use_all(const weft_allocator *allocator) {
    weft_status status = NULL;
    arena a;
    interner in;
    buffer b;
    int *items = NULL;
    size_t capacity = 0;
    arena_init(&a, allocator);
    interner_init(&in, &a);
    buffer_init(&b, allocator);
    for (int i = 0; i < 200; i++) {
        char bytes[300];
        int n = snprintf(bytes, sizeof bytes, "%0*d", i, i);
        if (!interner_get(&in, bytes, (size_t)n)) TRY_DONE(base_out_of_memory());
        buffer_format(&b, "%s,", bytes);
        TRY_DONE(vector_reserve(allocator, &items, &capacity, (size_t)i + 1, sizeof *items));
        items[i] = i;
    }
    char *taken = NULL;
    size_t nbytes = 0;
    TRY_DONE(buffer_status(&b));
    TRY_DONE(buffer_take(&b, &taken, &nbytes));
    base_free(allocator, taken, nbytes + 1);
done:
    base_free(allocator, items, capacity * sizeof *items);
    buffer_fini(&b);
    arena_fini(&a);
    return status;
}

Test(memory, every_failed_request_is_a_clean_status) {
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        failing_allocator state = {.fail_at = n};
        weft_allocator allocator = failing_allocator_on(&state);
        weft_status status = use_all(&allocator);
        failed = state.failed;
        cr_assert_eq(weft_status_code(status), failed ? WEFT_OUT_OF_MEMORY : WEFT_OK, "request %zu", n);
        cr_assert_eq(state.held, 0, "request %zu: %zu bytes are lost", n, state.held);
        cr_assert_not(state.wrong_size);
        cr_assert_lt(n, 10000);
    }
}
