/* Items named by 32 bits: ids and items find each other, what is taken together lies together, memory is bounded. */
#include <criterion/criterion.h>

#include "base/base.h"
#include "program/pool.h"
#include "weft/context.h"

typedef struct item {
    uint32_t id, span;
    char rest[16];
} item;

static weft_context *context;
static id_pool p;

static void set_up(void) {
    cr_assert_null(weft_context_create(NULL, &context));
    pool_init(&p, &context->allocator, sizeof(item));
}
static void tear_down(void) {
    pool_fini(&p);
    weft_context_destroy(context);
}
TestSuite(program_pool, .init = set_up, .fini = tear_down);

/* Takes `count` items and writes their ids into them. */
static item *take(size_t count) {
    uint32_t id;
    item *items = pool_take(&p, count, &id);
    cr_assert_not_null(items);
    for (size_t i = 0; i < count; i++) items[i] = (item){.id = id + (uint32_t)i, .span = (uint32_t)count};
    return items;
}

static void check(const item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(items[i].span, count, "another took the memory");
        cr_assert(pool_at(&p, items[i].id, sizeof(item)) == (const void *)&items[i]);
    }
}

Test(program_pool, no_id_is_no_item) {
    cr_assert_null(pool_at(&p, 0, sizeof(item)));
    for (int i = 0; i < 1000; i++) cr_assert_neq(take(1)->id, 0);
}

Test(program_pool, items_and_ids_find_each_other) {
    enum { NSPANS = 3000 };
    static item *spans[NSPANS];
    static size_t counts[NSPANS];
    uint32_t state = 7;
    for (size_t i = 0; i < NSPANS; i++) {
        state = state * 1664525u + 1013904223u;
        counts[i] = state >> 28 ? 1 + (state >> 8) % 5 : 1 + (state >> 8) % 3000; /* a large one among many small */
        spans[i] = take(counts[i]);
    }
    for (size_t i = 0; i < NSPANS; i++) check(spans[i], counts[i]);
}

Test(program_pool, growth_is_told_before_it_happens_and_is_a_quarter) {
    for (size_t n = 1; n < 200000; n++) {
        size_t before = p.total_nbytes, growth = pool_growth(&p, 1);
        take(1);
        cr_assert_eq(p.total_nbytes, before + growth);
        cr_assert_leq(p.total_nbytes, (n + n / 4 + 64) * sizeof(item), "after %zu items", n);
    }
}

Test(program_pool, a_span_may_be_larger_than_all_before_it) {
    item *small = take(3), *large = take(100000), *next = take(2);
    check(small, 3);
    check(large, 100000);
    check(next, 2);
}

Test(program_pool, more_than_there_are_ids_for_is_refused) {
    uint32_t id;
    cr_assert_eq(pool_growth(&p, (size_t)1 << 40), SIZE_MAX);
    cr_assert_null(pool_take(&p, (size_t)1 << 40, &id));
    check(take(1), 1);
}

Test(program_pool, one_by_one_there_are_no_gaps) {
    for (uint32_t i = 0; i < 100000; i++) cr_assert_eq(take(1)->id, POOL_FIRST + i);
}

/* Only the last ones may grow, and only while their chunk has room. */
Test(program_pool, the_last_items_may_have_more_behind_them) {
    item *first = take(3), *last = take(2);
    cr_assert(!pool_extend(&p, first->id, 3, 1));
    cr_assert(pool_extend(&p, last->id, 2, 3));
    for (uint32_t i = 0; i < 5; i++) last[i] = (item){.id = last->id + i, .span = 5};
    item *next = take(1);
    check(first, 3);
    check(last, 5);
    check(next, 1);
    size_t left = p.end - p.next;
    cr_assert(!pool_extend(&p, next->id, 1, left + 1));
    cr_assert(pool_extend(&p, next->id, 1, left));
    check(take(1), 1);
}
