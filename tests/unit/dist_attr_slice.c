/* executor_slice.c: boxes of dense tensors against indexing one by one. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "dist_attr/slice.h"
#include "tests/support/table.h"

static const struct slice boxes[] = {
    {0, {0}, {0}, {0}},
    {1, {7}, {2}, {4}},
    {1, {7}, {0}, {7}},
    {2, {4, 6}, {1, 0}, {2, 6}},
    {2, {4, 6}, {0, 2}, {4, 3}},
    {2, {4, 6}, {3, 5}, {1, 1}},
    {3, {3, 4, 5}, {1, 1, 1}, {2, 2, 3}},
    {3, {3, 4, 5}, {1, 0, 0}, {2, 4, 5}},
    {3, {3, 4, 5}, {0, 2, 0}, {3, 2, 5}},
    {3, {3, 4, 5}, {0, 1, 0}, {3, 0, 5}},
    {4, {2, 1, 3, 2}, {1, 0, 1, 0}, {1, 1, 2, 2}},
};

TABLE_ROWS(executor_slice, box, boxes);

static size_t numel(int ndim, const int64_t *dims) {
    size_t n = 1;
    for (int i = 0; i < ndim; i++) n *= (size_t)dims[i];
    return n;
}

/* Where element `k` of the part lies in the whole. */
static size_t place_of(const slice *s, size_t k) {
    size_t at = 0, stride = 1;
    for (int i = s->ndim - 1; i >= 0; i--) {
        size_t index = k % (size_t)s->extent[i];
        k /= (size_t)s->extent[i];
        at += (index + (size_t)s->offset[i]) * stride;
        stride *= (size_t)s->whole[i];
    }
    return at;
}

TABLE_TEST(size_t *row, executor_slice, box) {
    const slice *s = &boxes[*row];
    static const size_t sizes[] = {1, 2, 4, 8};
    for (size_t z = 0; z < 4; z++) {
        size_t size = sizes[z], nwhole = numel(s->ndim, s->whole), npart = numel(s->ndim, s->extent);
        unsigned char whole[1024], back[1024], part[1024];
        for (size_t i = 0; i < nwhole * size; i++) whole[i] = (unsigned char)(i * 7 + 3);
        memset(part, 0xee, sizeof part);
        slice_take(s, size, whole, part);
        for (size_t k = 0; k < npart; k++) {
            cr_assert(memcmp(part + k * size, whole + place_of(s, k) * size, size) == 0, "element %zu of the part", k);
        }
        cr_assert_eq(part[npart * size], 0xee, "wrote beyond the part");
        memset(back, 0, sizeof back);
        slice_put(s, size, back, part);
        size_t set = 0;
        for (size_t k = 0; k < npart; k++) {
            cr_assert(memcmp(back + place_of(s, k) * size, part + k * size, size) == 0, "element %zu put back", k);
        }
        for (size_t i = 0; i < nwhole * size; i++) set += back[i] != 0 && back[i] != whole[i];
        cr_assert_eq(set, 0, "bytes outside of the box were touched");
    }
}

Test(executor_slice, type_text_is_cut_to_fit) {
    static const int64_t dims[] = {16, -1, 1000000};
    char out[64], small[12];
    cr_assert_str_eq(type_text(WEFT_FP32, 2, dims, out, sizeof out), "float32 [16, -1]");
    cr_assert_str_eq(type_text(WEFT_INT64, 0, dims, out, sizeof out), "int64 []");
    cr_assert_eq(strlen(type_text(WEFT_FP32, 3, dims, small, sizeof small)), sizeof small - 1);
}
