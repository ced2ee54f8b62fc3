#include <criterion/criterion.h>
#include <stdio.h>

#include "dist_attr/dims.h"
#include "tests/support/table.h"
#include "weft/placement.h"

static const int64_t line_shape[] = {4}, line_ids[] = {0, 1, 2, 3};
static const int64_t grid_shape[] = {2, 3}, grid_ids[] = {0, 1, 2, 3, 4, 5};
/* Entries of lists: axis 0, then 1; the other way round. */
#define BOTH (0 | (1 + 1) << 6)
#define TURNED (1 | (0 + 1) << 6)
static const mesh line = {1, line_shape, line_ids, NULL}, grid = {2, grid_shape, grid_ids, NULL};

static const struct slice_case {
    const mesh *mesh;
    int ndim;
    int64_t mapping[3], whole[3], rank, offset[3], extent[3];
} slice_cases[] = {
    {&line, 2, {0, -1}, {8, 5}, 0, {0, 0}, {2, 5}},
    {&line, 2, {0, -1}, {8, 5}, 3, {6, 0}, {2, 5}},
    {&line, 2, {-1, 0}, {5, 8}, 2, {0, 4}, {5, 2}},
    {&line, 2, {-1, -1}, {5, 8}, 2, {0, 0}, {5, 8}},
    {&grid, 2, {0, 1}, {4, 9}, 5, {2, 6}, {2, 3}},
    {&grid, 2, {1, 0}, {9, 4}, 4, {3, 2}, {3, 2}},
    {&grid, 3, {-1, -1, 1}, {2, 2, 6}, 3, {0, 0, 0}, {2, 2, 2}},
    {&grid, 2, {BOTH, -1}, {12, 2}, 4, {8, 0}, {2, 2}},
    {&grid, 2, {-1, TURNED}, {2, 12}, 4, {0, 6}, {2, 2}},
    {&grid, 0, {0}, {0}, 3, {0}, {0}},
    {NULL, 1, {0}, {7}, 99, {0}, {7}},
};
TABLE_ROWS(placement, slice, slice_cases);

TABLE_TEST(size_t *row, placement, slice) {
    const struct slice_case *c = &slice_cases[*row];
    placement p = {.mesh = c->mesh, .ndim = c->ndim, .dims_mapping = c->mapping};
    int64_t offset[3] = {0}, extent[3] = {0}, whole[3] = {0};
    weft_status status = placement_slice(&p, c->ndim, c->whole, c->rank, "w", offset, extent);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_assert_arr_eq(offset, c->offset, sizeof offset);
    cr_assert_arr_eq(extent, c->extent, sizeof extent);
    cr_assert_null(placement_whole(&p, c->ndim, extent, "w", whole));
    cr_assert_arr_eq(whole, c->whole, sizeof whole);
}

Test(placement, parts_cover_the_whole_once) {
    static const int64_t mapping[] = {1, 0}, whole[] = {6, 4};
    placement p = {.mesh = &grid, .ndim = 2, .dims_mapping = mapping};
    int covered[6][4] = {{0}};
    for (int64_t rank = 0; rank < 6; rank++) {
        int64_t o[2], e[2];
        cr_assert_null(placement_slice(&p, 2, whole, rank, "w", o, e));
        for (int64_t i = o[0]; i < o[0] + e[0]; i++)
            for (int64_t j = o[1]; j < o[1] + e[1]; j++) covered[i][j]++;
    }
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 4; j++) cr_assert_eq(covered[i][j], 1);
}

static void assert_says(weft_status status, const char *message) {
    cr_assert_not_null(status, "expected an error: %s", message);
    cr_assert_not_null(strstr(weft_status_message(status), message), "%s", weft_status_message(status));
    cr_assert_str_eq(weft_status_place(status), "w");
    weft_status_free(status);
}

/* Parts of ceil(extent / ranks): the last are shorter, or empty. */
Test(placement, parts_that_differ) {
    static const int64_t mapping[] = {0}, offsets[][4] = {{0, 2, 4, 6}, {0, 2, 4, 5}, {0, 1, 2, 2}, {0, 1, 1, 1}},
                         extents[][4] = {{2, 2, 2, 1}, {2, 2, 1, 0}, {1, 1, 0, 0}, {1, 0, 0, 0}},
                         whole[] = {7, 5, 2, 1};
    placement p = {.mesh = &line, .ndim = 1, .dims_mapping = mapping};
    for (int i = 0; i < 4; i++)
        for (int64_t rank = 0; rank < 4; rank++) {
            int64_t o = -1, e = -1;
            cr_assert_null(placement_slice(&p, 1, &whole[i], rank, "w", &o, &e));
            cr_assert(o == offsets[i][rank] && e == extents[i][rank], "%lld: rank %lld: %lld at %lld",
                      (long long)whole[i], (long long)rank, (long long)e, (long long)o);
        }
}

/* Of several mesh axes the major one cuts first, the others what it has made: 11 = (2 + 2 + 2) + (2 + 2 + 1). */
Test(placement, parts_of_parts) {
    static const int64_t mappings[] = {BOTH, TURNED}, whole = 11,
                         offsets[][6] = {{0, 2, 4, 6, 8, 10}, {0, 4, 8, 2, 6, 10}},
                         extents[][6] = {{2, 2, 2, 2, 2, 1}, {2, 2, 2, 2, 2, 1}};
    for (int i = 0; i < 2; i++) {
        placement p = {.mesh = &grid, .ndim = 1, .dims_mapping = &mappings[i]};
        cr_assert_eq(placement_parts(&p, 0), 6);
        for (int64_t rank = 0; rank < 6; rank++) {
            int64_t o = -1, e = -1;
            cr_assert_null(placement_slice(&p, 1, &whole, rank, "w", &o, &e));
            cr_assert(o == offsets[i][rank] && e == extents[i][rank], "rank %lld: %lld at %lld", (long long)rank,
                      (long long)e, (long long)o);
        }
    }
}

Test(placement, lists_of_axes) {
    static const int64_t axes[] = {31, 0, 5, 1, 2, 3, 4, 6, 7, 8, 9};
    int64_t back[WEFT_DIM_MAX_AXES];
    for (size_t n = 0; n <= WEFT_DIM_MAX_AXES; n++) {
        int64_t entry = weft_dims_entry(n, axes);
        cr_assert_eq(weft_dims_axes(entry, back), n);
        for (size_t i = 0; i < n; i++) cr_assert_eq(back[i], axes[i]);
    }
    cr_assert_eq(weft_dims_entry(0, axes), -1);
    cr_assert_eq(weft_dims_entry(1, axes), 31);
    cr_assert_eq(weft_dims_entry(11, axes), -2);
    cr_assert_eq(weft_dims_entry(1, (const int64_t[]){32}), -2);
    cr_assert_eq(weft_dims_entry(2, (const int64_t[]){0, -1}), -2);
}

/* Along a dynamic axis the first parts are one longer. */
Test(placement, parts_that_differ_by_one) {
    static const int64_t mapping[] = {0}, offsets[][4] = {{0, 2, 4, 6}, {0, 2, 3, 4}, {0, 1, 2, 2}, {0, 2, 4, 6}},
                         extents[][4] = {{2, 2, 2, 1}, {2, 1, 1, 1}, {1, 1, 0, 0}, {2, 2, 2, 2}},
                         whole[] = {7, 5, 2, 8};
    static const uint8_t dynamic[] = {1};
    placement p = {.mesh = &line, .ndim = 1, .dims_mapping = mapping, .dynamic_dims = dynamic};
    for (int i = 0; i < 4; i++) {
        weft_status status = placement_check_even(&p, 1, &whole[i], 0, "w");
        cr_assert_eq(!status, whole[i] >= 4, "%lld", (long long)whole[i]);
        weft_status_free(status);
        for (int64_t rank = 0; rank < 4; rank++) {
            int64_t o = -1, e = -1;
            cr_assert_null(placement_slice(&p, 1, &whole[i], rank, "w", &o, &e));
            cr_assert(o == offsets[i][rank] && e == extents[i][rank], "%lld: rank %lld: %lld at %lld",
                      (long long)whole[i], (long long)rank, (long long)e, (long long)o);
        }
    }
}

Test(placement, slices_that_cannot_be_are_errors) {
    static const int64_t mapping[] = {0}, seven[] = {7}, eight[] = {8}, huge[] = {INT64_MAX};
    placement p = {.mesh = &line, .ndim = 1, .dims_mapping = mapping};
    int64_t o[1], e[1];
    assert_says(placement_check_even(&p, 1, seven, 0, "w"), "axis 0 of extent 7 does not divide by 4");
    assert_says(placement_slice(&p, 1, eight, 9, "w", o, e), "rank 9 is not in the tensor's mesh");
    assert_says(placement_slice(&p, 2, eight, 0, "w", o, e), "found 1");
    assert_says(placement_whole(&p, 1, huge, "w", o), "too large");
}

static const struct check_case {
    const mesh *mesh;
    int ndim;
    int64_t mapping[2];
    uint32_t partial;
    int tensor_ndim;
    const char *message; /* NULL: valid */
} check_cases[] = {
    {&grid, 2, {0, 1}, 0, 2, NULL},
    {&grid, 2, {0, -1}, 2, 2, NULL},
    {&grid, 2, {0, -1}, 2, -1, NULL},
    {&grid, 2, {0, 0}, 0, 2, "shards another tensor axis too"},
    {&grid, 2, {0, 2}, 0, 2, "below 2, found 2"},
    {&grid, 2, {-2, 0}, 0, 2, "found -2"},
    {&grid, 2, {-1, 0}, 1, 2, "mesh axis 0 both shards the tensor and is partial"},
    {&grid, 2, {-1, -1}, 4, 2, "partial over mesh axis 2"},
    {&grid, 2, {-1, -1}, 0, 3, "3 entries, one a tensor axis, found 2"},
    {NULL, 2, {9, 9}, 9, 3, NULL},
};
TABLE_ROWS(placement, check, check_cases);

TABLE_TEST(size_t *row, placement, check) {
    const struct check_case *c = &check_cases[*row];
    placement p = {.mesh = c->mesh, .ndim = c->ndim, .dims_mapping = c->mapping, .partial_axes = c->partial};
    weft_status status = placement_check(&p, c->tensor_ndim, "w");
    if (c->message)
        assert_says(status, c->message);
    else
        cr_assert_null(status, "%s", weft_status_message(status));
}

Test(placement, sharding) {
    static const int64_t split[] = {0, -1}, whole[] = {-1, -1}, one[] = {1}, zero[] = {0};
    static const mesh single = {1, one, zero, NULL};
    placement a = {.mesh = &line, .ndim = 2, .dims_mapping = split}, b = a;
    b.dims_mapping = whole;
    cr_assert_not(placement_is_sharded(&b));
    cr_assert(placement_is_sharded(&a));
    a.mesh = &single;
    cr_assert_not(placement_is_sharded(&a), "one part is the whole");
    cr_assert_not(placement_is_sharded(NULL));
}
