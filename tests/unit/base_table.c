/* The hash table and the set of keys: what is put in is found, whatever hashes collide, at any size and on both kinds
 * of memory. */
#include <criterion/criterion.h>

#include "base/base.h"
#include "tests/support/failing_allocator.h"

static weft_allocator libc;
static void setup(void) {
    libc = base_libc_allocator();
}
TestSuite(table, .init = setup);

/* The owner's items: each is its own key. */
typedef struct owner {
    uint64_t items[5000];
    uint32_t count;
    hash_table table;
} owner;

typedef uint32_t (*hash_fn)(uint64_t key);

static uint32_t find(const owner *o, hash_fn hash, uint64_t key) {
    table_probe at = table_find(&o->table, hash(key));
    while (at.item != TABLE_NONE && o->items[at.item] != key) table_next(&o->table, &at);
    return at.item;
}

static uint32_t find_or_put(owner *o, hash_fn hash, uint64_t key) {
    table_probe at = table_find(&o->table, hash(key));
    while (at.item != TABLE_NONE && o->items[at.item] != key) table_next(&o->table, &at);
    if (at.item == TABLE_NONE) {
        o->items[o->count] = key;
        table_put(&o->table, &at, o->count++);
    }
    return at.item;
}

static uint32_t all_last(uint64_t key) {
    (void)key;
    return UINT32_MAX; /* every search begins in the last place and goes round */
}
static uint32_t few(uint64_t key) {
    return (uint32_t)(key % 7) * 0x20000000u;
}

static void check_owner(hash_fn hash, uint64_t step, uint32_t n) {
    static owner o;
    arena a;
    arena_init(&a, &libc);
    o.count = 0;
    o.table = (hash_table){.entries = NULL};
    cr_expect_eq(find(&o, hash, 1), TABLE_NONE, "an empty table has no memory");
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_null(table_reserve(&a, &o.table, o.count + 1));
        cr_expect_eq(find(&o, hash, i * step), TABLE_NONE);
        cr_assert_eq(find_or_put(&o, hash, i * step), i);
        cr_assert_eq(find_or_put(&o, hash, i * step), i, "it is there now");
        cr_assert_leq(o.table.count, o.table.capacity / 4 * 3, "some places are always free");
    }
    cr_assert_eq(o.table.count, n);
    for (uint32_t i = 0; i < n; i++) cr_assert_eq(find(&o, hash, i * step), i);
    cr_expect_eq(find(&o, hash, n * step), TABLE_NONE);
    arena_fini(&a);
}

Test(table, what_is_put_is_found_however_hashes_collide) {
    check_owner(table_hash, 1, 5000);
    check_owner(table_hash, UINT64_C(1) << 32, 5000);
    check_owner(all_last, 3, 300);
    check_owner(few, 1, 300);
}

Test(table, items_of_one_hash_are_all_met_and_no_others) {
    arena a;
    hash_table t = {.entries = NULL};
    arena_init(&a, &libc);
    cr_assert_null(table_reserve(&a, &t, 30));
    for (uint32_t i = 0; i < 30; i++) table_add(&t, i % 3 << 20, i);
    for (uint32_t h = 0; h < 3; h++) {
        uint32_t nmet = 0;
        for (table_probe at = table_find(&t, h << 20); at.item != TABLE_NONE; table_next(&t, &at), nmet++)
            cr_assert_eq(at.item, h + 3 * nmet, "in the order in which they were added");
        cr_assert_eq(nmet, 10);
    }
    arena_fini(&a);
}

Test(table, room_is_reserved_once_and_kept_when_cleared) {
    hash_table t = {.entries = NULL};
    cr_assert_null(table_reserve_on(&libc, &t, 1000));
    const table_entry *entries = t.entries;
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 1000; i++) {
            cr_assert_null(table_reserve_on(&libc, &t, i + 1));
            table_add(&t, table_hash(i), i);
        }
        cr_assert_eq(t.entries, entries);
        cr_assert_eq(t.count, 1000);
        table_clear(&t);
        cr_expect_eq(table_find(&t, table_hash(5)).item, TABLE_NONE);
    }
    cr_assert_null(table_reserve_on(&libc, &t, 5000));
    table_free(&libc, &t);
    table_free(&libc, &t);
    table_clear(&t);
}

Test(table, more_items_than_numbers_are_refused) {
    arena a;
    hash_table t = {.entries = NULL};
    arena_init(&a, &libc);
    static const size_t counts[] = {TABLE_NONE, (size_t)TABLE_NONE + 1, SIZE_MAX / 4, SIZE_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        cr_expect_eq(weft_status_code(table_reserve(&a, &t, counts[i])), WEFT_OUT_OF_MEMORY);
        cr_expect_eq(weft_status_code(table_reserve_on(&libc, &t, counts[i])), WEFT_OUT_OF_MEMORY);
    }
    cr_expect_null(t.entries);
    arena_fini(&a);
}

Test(table, memory_that_runs_out_leaves_a_table_as_it_was) {
    for (size_t n = 1;; n++) {
        failing_allocator f = {.fail_at = n};
        weft_allocator allocator = failing_allocator_on(&f);
        hash_table t = {.entries = NULL};
        weft_status status = NULL;
        uint32_t count = 0;
        while (count < 200 && !(status = table_reserve_on(&allocator, &t, count + 1)))
            table_add(&t, table_hash(count), count), count++;
        cr_assert_eq(t.count, count);
        for (uint32_t i = 0; i < count; i++) cr_assert_eq(table_find(&t, table_hash(i)).item, i);
        table_free(&allocator, &t);
        cr_assert_eq(f.held, 0);
        weft_status_free(status);
        if (!status) break;
    }
}

Test(table, a_set_says_of_each_key_once_that_it_is_new) {
    static const uint64_t steps[] = {1, UINT64_C(1) << 32, UINT64_C(0x9E3779B97F4A7C15)};
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        arena a;
        key_set s = {.keys = NULL};
        bool is_new;
        arena_init(&a, &libc);
        cr_expect_not(key_set_has(&s, 1));
        key_set_clear(&s);
        for (int round = 0; round < 2; round++) {
            for (uint64_t i = 1; i <= 3000; i++) {
                cr_expect_not(key_set_has(&s, i * steps[k]));
                cr_assert_null(key_set_add(&a, &s, i * steps[k], &is_new));
                cr_assert(is_new);
                cr_assert_null(key_set_add(&a, &s, i * steps[k], &is_new));
                cr_assert_not(is_new);
            }
            for (uint64_t i = 1; i <= 3000; i++) cr_assert(key_set_has(&s, i * steps[k]));
            cr_expect_not(key_set_has(&s, 3001 * steps[k]));
            cr_assert_eq(s.count, 3000);
            key_set_clear(&s);
        }
        arena_fini(&a);
    }
}
