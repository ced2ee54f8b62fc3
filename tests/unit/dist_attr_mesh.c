#include <criterion/criterion.h>
#include <stdio.h>

#include "dist_attr/dist_attr.h"
#include "tests/support/table.h"

static const int64_t two_by_three[] = {2, 3}, six[] = {6}, ids[] = {3, 1, 4, 0, 5, 2};
static const char *const names[] = {"dp", "mp"}, *const other_names[] = {"x", "y"}, *const same_names[] = {"x", "x"};

Test(mesh, equality_ignores_names) {
    mesh a = {2, two_by_three, ids, names}, b = {2, two_by_three, ids, other_names}, flat = {1, six, ids, NULL};
    cr_assert(mesh_equal(&a, &b));
    cr_assert_not(mesh_equal(&a, &flat));
    cr_assert_not(mesh_equal(&a, NULL));
    cr_assert_eq(mesh_size(&a), 6);
}

Test(mesh, coordinates_are_row_major) {
    mesh m = {2, two_by_three, ids, NULL};
    int64_t at[2];
    cr_assert(mesh_coordinates(&m, 3, at));
    cr_assert(at[0] == 0 && at[1] == 0);
    cr_assert(mesh_coordinates(&m, 5, at));
    cr_assert(at[0] == 1 && at[1] == 1);
    cr_assert_not(mesh_coordinates(&m, 6, at));
}

static const struct mesh_case {
    int ndim;
    int64_t shape[3], ids[4];
    const char *const *names;
    const char *message; /* of the error; NULL: valid */
} check_cases[] = {
    {1, {4}, {0, 1, 2, 3}, NULL, NULL},
    {2, {2, 2}, {3, 2, 1, 0}, names, NULL},
    {1, {1}, {7}, NULL, NULL},
    {0, {0}, {0}, NULL, "dims, found 0"},
    {33, {0}, {0}, NULL, "dims, found 33"},
    {2, {2, 0}, {0, 1}, NULL, "found 0"},
    {1, {-3}, {0}, NULL, "found -3"},
    {1, {(int64_t)1 << 60}, {0}, NULL, "limit"},
    {3, {1 << 30, 1 << 30, 1 << 30}, {0}, NULL, "limit"},
    {1, {3}, {0, 1, 0}, NULL, "rank 0 is given twice"},
    {1, {2}, {0, -1}, NULL, "found -1"},
    {2, {2, 2}, {0, 1, 2, 3}, same_names, "\"x\" is given twice"},
};
TABLE_ROWS(mesh, check, check_cases);

static void assert_says(weft_status status, const char *message) {
    if (!message) {
        cr_assert_null(status, "%s", weft_status_message(status));
        return;
    }
    cr_assert_not_null(status, "expected an error: %s", message);
    cr_assert_not_null(strstr(weft_status_message(status), message), "%s", weft_status_message(status));
    cr_assert_str_eq(weft_status_place(status), "here");
    weft_status_free(status);
}

TABLE_TEST(size_t *row, mesh, check) {
    const struct mesh_case *c = &check_cases[*row];
    mesh m = {c->ndim, c->shape, c->ids, c->names};
    assert_says(mesh_check(&m, "here"), c->message);
}

static const struct ring_case {
    int64_t id;
    int nranks;
    int64_t ranks[3];
    const char *message;
} ring_cases[] = {
    {0, 2, {1, 0}, NULL},
    {-1, 1, {0}, "id of 0 or more"},
    {3, 0, {0}, "ring 3: has no ranks"},
    {3, 3, {0, 2, 2}, "ring 3: rank 2 is given twice"},
    {3, 1, {(int64_t)1 << 40}, "found 1099511627776"},
};
TABLE_ROWS(ring, check, ring_cases);

TABLE_TEST(size_t *row, ring, check) {
    const struct ring_case *c = &ring_cases[*row];
    ring r = {c->id, c->nranks, c->ranks, NULL};
    assert_says(ring_check(&r, "here"), c->message);
}

Test(ring, order_and_type_count) {
    static const int64_t forth[] = {0, 1, 2}, back[] = {2, 1, 0};
    ring a = {1, 3, forth, NULL}, b = {1, 3, back, NULL}, c = {1, 3, forth, "p2p"};
    cr_assert(ring_equal(&a, &a));
    cr_assert_not(ring_equal(&a, &b));
    cr_assert_not(ring_equal(&a, &c));
    cr_assert_eq(ring_index(&b, 2), 0);
    cr_assert_eq(ring_index(&b, 7), -1);
}
