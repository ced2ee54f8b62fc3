/* The allocator of contexts: what it gives out never overlaps and keeps its bytes when it is resized; what is kept
 * serves later requests, up to its bound. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/kept_blocks.h"
#include "weft/context.h"

enum { MIB = 1 << 20, SLOTS = 24, STEPS = 4000 };
static const bool keeps = KEPT_BLOCKS_LARGE != SIZE_MAX;

typedef struct piece {
    unsigned char *bytes;
    size_t nbytes;
    unsigned char seed;
} piece;

static size_t page_at(const piece *p, size_t i) {
    return i * 4096 < p->nbytes ? i * 4096 : p->nbytes - 1;
}
static size_t npages(const piece *p) {
    return p->nbytes / 4096 + 2;
}
static void fill(piece *p) {
    for (size_t i = 0; i < npages(p); i++) p->bytes[page_at(p, i)] = (unsigned char)(p->seed + page_at(p, i) / 4096);
}
/* The first `nbytes` are as they were filled; the last of them may have been another's last. */
static bool holds(const piece *p, size_t nbytes) {
    for (size_t i = 0; i * 4096 < nbytes; i++)
        if (p->bytes[i * 4096] != (unsigned char)(p->seed + i)) return false;
    return true;
}

static size_t random_nbytes(unsigned *seed) {
    size_t unit = rand_r(seed) % 3 ? MIB / 8 : MIB;
    return 1 + (size_t)rand_r(seed) % (unit * 12);
}

Test(kept_blocks, hold_what_is_written_whatever_is_resized_and_freed) {
    weft_allocator a;
    kept_blocks *k = kept_blocks_create(48 * MIB, &a);
    piece pieces[SLOTS] = {{NULL, 0, 0}};
    unsigned seed = 7;
    for (int step = 0; step < STEPS; step++) {
        piece *p = &pieces[rand_r(&seed) % SLOTS];
        size_t before = p->nbytes, wanted = rand_r(&seed) % 3 ? random_nbytes(&seed) : 0;
        if (p->bytes) cr_assert(holds(p, before), "step %d", step);
        p->bytes = wanted || before ? base_resize(&a, p->bytes, before, wanted) : NULL;
        cr_assert_eq(p->bytes != NULL, wanted != 0, "step %d", step);
        if (wanted && before) cr_assert(holds(p, wanted < before ? wanted : before), "step %d: bytes were lost", step);
        p->nbytes = wanted, p->seed = (unsigned char)step;
        if (wanted) fill(p);
        cr_assert_leq(k->nbytes, 48 * MIB);
    }
    for (int i = 0; i < SLOTS; i++) base_free(&a, pieces[i].bytes, pieces[i].nbytes);
    cr_assert_eq(k->nbytes > 0, keeps);
    kept_blocks_trim(k);
    cr_assert_eq(k->nbytes, 0);
    kept_blocks_destroy(k);
}

Test(kept_blocks, serve_later_requests_whole_or_in_parts) {
    if (!keeps) cr_skip_test("nothing is kept under this sanitizer");
    weft_allocator a;
    kept_blocks *k = kept_blocks_create(64 * MIB, &a);
    char *large = base_alloc(&a, 20 * MIB);
    base_free(&a, large, 20 * MIB);
    size_t kept = k->nbytes;
    cr_assert_geq(kept, 20 * MIB);
    char *first = base_alloc(&a, 6 * MIB), *second = base_alloc(&a, 9 * MIB);
    cr_assert_eq(first, large);
    cr_assert(second > first && second < large + 20 * MIB);
    cr_assert_leq(k->nbytes, kept - 15 * MIB);
    base_free(&a, first, 6 * MIB);
    base_free(&a, second, 9 * MIB);
    cr_assert_eq(k->nbytes, kept);
    cr_assert_eq(base_alloc(&a, 20 * MIB), large, "parts that are free again are one block");
    base_free(&a, large, 20 * MIB);
    kept_blocks_destroy(k);
}

Test(kept_blocks, give_back_what_does_not_fit_before_they_ask_for_more) {
    if (!keeps) cr_skip_test("nothing is kept under this sanitizer");
    weft_allocator a;
    kept_blocks *k = kept_blocks_create(64 * MIB, &a);
    char *small[4];
    for (int i = 0; i < 4; i++) small[i] = base_alloc(&a, 2 * MIB);
    for (int i = 0; i < 4; i++) base_free(&a, small[i], 2 * MIB);
    cr_assert_geq(k->nbytes, 8 * MIB);
    char *large = base_alloc(&a, 5 * MIB);
    cr_assert_leq(k->nbytes, 4 * MIB);
    base_free(&a, large, 5 * MIB);
    kept_blocks_destroy(k);
}

Test(kept_blocks, keep_no_more_than_a_context_allows) {
    weft_allocator a;
    kept_blocks *k = kept_blocks_create(1, &a);
    base_free(&a, base_alloc(&a, 3 * MIB), 3 * MIB);
    cr_assert_eq(k->nbytes, 0);
    cr_assert_null(base_alloc(&a, SIZE_MAX - 100));
    kept_blocks_destroy(k);
    weft_context *context;
    cr_assert_null(
        weft_context_create(&(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .max_kept_nbytes = 8 * MIB}, &context));
    weft_context_trim(context);
    weft_context_destroy(context);
}

Test(kept_blocks, lie_side_by_side_and_grow_in_place) {
    if (!keeps) cr_skip_test("nothing is kept under this sanitizer");
    weft_allocator a;
    kept_blocks *k = kept_blocks_create(64 * MIB, &a);
    char *first = base_alloc(&a, MIB / 2), *second = base_alloc(&a, MIB / 2);
    cr_assert(second > first && second < first + MIB);
    memset(second, 7, MIB / 2);
    cr_assert_eq(base_resize(&a, second, MIB / 2, MIB), second, "nothing is behind it yet");
    cr_assert_eq(second[MIB / 2 - 1], 7);
    char *moved = base_resize(&a, first, MIB / 2, MIB);
    cr_assert(moved >= second + MIB || moved + MIB <= second);
    cr_assert_geq(k->nbytes, MIB / 2, "what it moved from is kept");
    char *others[8];
    for (int i = 0; i < 8; i++) others[i] = memset(base_alloc(&a, 3 * MIB), i, 3 * MIB);
    for (int i = 0; i < 8; i++) cr_assert(others[i][0] == i && others[i][3 * MIB - 1] == i);
    for (int i = 0; i < 8; i++) base_free(&a, others[i], 3 * MIB);
    base_free(&a, moved, MIB);
    base_free(&a, second, MIB);
    kept_blocks_destroy(k);
}
