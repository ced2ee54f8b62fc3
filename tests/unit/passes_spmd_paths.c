/* passes_spmd_paths.c: steps between placements against DTensor 2.15's plans for 528 pairs of placements: the same
 * final layout, and never more bytes than the better of its two plans. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "passes/spmd/spmd.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"

static weft_context *context;

static json_t *read_rows(void) {
    char path[600];
    json_t *rows = NULL;
    static char bytes[1 << 20];
    if (!fixture_path(path, sizeof path, "spmd/torch_redistribute_2.15.json")) return NULL;
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(bytes, 1, sizeof bytes - 1, f) : 0;
    if (f) fclose(f);
    for (size_t i = 0; i + 8 <= n; i++) /* Python writes what JSON lacks */
        if (memcmp(bytes + i, "Infinity", 8) == 0) memcpy(bytes + i, "-1      ", 8);
    must(weft_context_create(NULL, &context));
    must(json_read(context, bytes, n, path, &rows));
    return rows;
}

/* What DTensor says of each mesh axis, from the outermost on. */
typedef struct layout {
    int naxes;
    const char *at[AXES_MESH];
} layout;

static layout read_layout(const json_t *list) {
    layout l = {.naxes = (int)json_array_size(list)};
    for (int i = 0; i < l.naxes; i++) l.at[i] = json_string_value(json_array_get(list, (size_t)i));
    return l;
}

static axes_placed placed_as(const layout *l) {
    axes_placed p = {.naxes = {0}};
    for (int i = 0; i < l->naxes; i++) {
        if (l->at[i][0] == 'S') placed_shard(&p, l->at[i][1] - '0', i);
        if (l->at[i][0] == 'P') p.partial[i] = 1 + WEFT_REDUCE_SUM;
    }
    return p;
}

/* Elements of the largest part, with one dimension filled up to a multiple of n. */
static double numel(const layout *l, const spmd_mesh *m, const kept_shape *whole, int fill, int64_t n) {
    double count = 1;
    for (int d = 0; d < whole->ndim; d++) {
        int64_t extent = whole->dims[d];
        for (int i = 0; i < l->naxes; i++)
            if (l->at[i][0] == 'S' && l->at[i][1] - '0' == d)
                extent = (extent + m->axes.extent[i] - 1) / m->axes.extent[i];
        if (d == fill) extent = (extent + n - 1) / n * n;
        count *= (double)extent;
    }
    return count;
}

/* Bytes that a rank sends under one of its plans: steps of mesh axis, from, to. */
static double price(const json_t *plan, layout l, const spmd_mesh *m, const kept_shape *whole) {
    double sent = 0;
    for (size_t k = 0; k < json_array_size(plan); k++) {
        const json_t *step = json_array_get(plan, k);
        int axis = (int)json_integer_value(json_array_get(step, 0));
        const char *from = json_string_value(json_array_get(step, 1)), *to = json_string_value(json_array_get(step, 2));
        int64_t n = m->axes.extent[axis];
        double w = (double)n, b = 4 * numel(&l, m, whole, to[0] == 'S' ? to[1] - '0' : -1, n);
        if (from[0] == 'S' && to[0] == 'R') sent += (w - 1) * b;
        if (from[0] == 'P' && to[0] == 'R') sent += 2 * (w - 1) / w * b;
        if (from[0] != 'R' && to[0] == 'S' && strcmp(from, to) != 0) sent += (w - 1) / w * b;
        l.at[axis] = to;
    }
    return sent;
}

static void check_row(const json_t *row, size_t number, arena *a, double *ours, double *theirs) {
    const json_t *extents = json_object_get(row, "mesh"), *dims = json_object_get(row, "shape");
    mesh on = {.ndim = (int)json_array_size(extents)};
    spmd_mesh m = {.mesh = &on, .axes = {.naxes = on.ndim, .uneven = true, .shares = true}};
    int64_t whole_dims[WEFT_MAX_RANK];
    const kept_shape whole = {.dims = whole_dims, .dtype = WEFT_FP32, .ndim = (int32_t)json_array_size(dims)};
    for (int i = 0; i < on.ndim; i++) m.axes.extent[i] = json_integer_value(json_array_get(extents, (size_t)i));
    for (int d = 0; d < whole.ndim; d++) whole_dims[d] = json_integer_value(json_array_get(dims, (size_t)d));
    layout src = read_layout(json_object_get(row, "src")), dst = read_layout(json_object_get(row, "dst"));
    axes_placed from = placed_as(&src), to = placed_as(&dst);
    spmd_path path;
    must(spmd_paths_init(&m, a));
    cr_assert(spmd_find_path(&m, &whole, &from, &to, &path), "row %zu: there is no path", number);
    const axes_placed *last = path.count ? &path.steps[path.count - 1].made : &from;
    cr_assert(placed_same(last, &to, whole.ndim, on.ndim), "row %zu ends elsewhere", number);
    double greedy = price(json_object_get(row, "greedy"), src, &m, &whole),
           graph = price(json_object_get(row, "graph"), src, &m, &whole), best = greedy < graph ? greedy : graph;
    cr_assert(path.sent <= best + 1e-6, "row %zu: %g bytes, DTensor %g", number, path.sent, best);
    *ours += path.sent, *theirs += best;
}

Test(spmd_paths, no_more_bytes_than_dtensor) {
    json_t *rows = read_rows();
    double ours = 0, theirs = 0;
    if (!rows) cr_skip_test("no recorded plans");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        arena a;
        arena_init(&a, &context->allocator);
        check_row(json_array_get(rows, i), i, &a, &ours, &theirs);
        arena_fini(&a);
    }
    cr_assert(json_array_size(rows) == 528 && ours < theirs, "%zu rows, %g bytes, DTensor %g", json_array_size(rows),
              ours, theirs);
    json_decref(rows);
    weft_context_destroy(context);
}

/* --- lists of axes ------------------------------------------------------------------------------------------------ */

/* Axes of a dimension as digits, major first; "+" before one: the value is a sum along it. */
typedef struct list_row {
    const char *from[2], *to[2]; /* by dimension; of a sum in the first */
    int count;                   /* of steps */
    spmd_step_kind kind;         /* of the first */
    uint32_t axes;
    double sent; /* bytes of 16 x 16 floats on 2 x 2 x 3 ranks */
} list_row;

static const list_row list_rows[] = {
    {{"01", ""}, {"0", ""}, 1, STEP_ALL_GATHER, 2, 256},
    {{"01", ""}, {"", ""}, 1, STEP_ALL_GATHER, 3, 768},
    {{"10", ""}, {"", ""}, 2, STEP_ALL_GATHER, 1, 768},
    {{"01", ""}, {"", "01"}, 1, STEP_ALL_TO_ALL, 3, 192},
    {{"01", ""}, {"0", "1"}, 1, STEP_ALL_TO_ALL, 2, 128},
    {{"0", "1"}, {"01", ""}, 1, STEP_ALL_TO_ALL, 2, 128},
    {{"+0+1", ""}, {"01", ""}, 1, STEP_REDUCE_SCATTER, 3, 768},
    {{"+0+1", ""}, {"10", ""}, 2, STEP_REDUCE_SCATTER, 2, 768},
    {{"+0+1", ""}, {"", ""}, 1, STEP_ALL_REDUCE, 3, 1536},
    {{"", ""}, {"01", ""}, 1, STEP_SLICE, 3, 0},
    {{"", ""}, {"10", ""}, 2, STEP_SLICE, 2, 0},
    {{"0", ""}, {"01", ""}, 1, STEP_SLICE, 2, 0},
    {{"01", ""}, {"10", ""}, 1, STEP_PERMUTE, 3, 256},
    {{"02", ""}, {"20", ""}, 4, STEP_ALL_TO_ALL, 4, 624}, /* parts of 3, 3 and 2 rows are not permuted */
    {{"0", ""}, {"1", ""}, 3, STEP_SLICE, 2, 512},        /* of which there are copies */
    {{"0", "1"}, {"1", "0"}, 1, STEP_PERMUTE, 3, 256},
    {{"01", "2"}, {"10", "2"}, 1, STEP_PERMUTE, 3, 96},
    {{"02", ""}, {"0", ""}, 1, STEP_ALL_GATHER, 4, 384}, /* parts of 3, 3 and 2 rows */
};

static axes_placed placed_as_said(const char *const *said) {
    axes_placed p = {.naxes = {0}};
    for (int d = 0; d < 2; d++)
        for (const char *at = said[d]; *at; at++) {
            if (*at == '+')
                p.partial[*++at - '0'] = 1 + WEFT_REDUCE_SUM;
            else
                placed_shard(&p, d, *at - '0');
        }
    return p;
}

Test(spmd_paths, lists_of_axes) {
    static const int64_t extents[] = {2, 2, 3};
    const mesh on = {.ndim = 3, .shape = extents};
    const kept_shape whole = {.dims = (const int64_t[]){16, 16}, .dtype = WEFT_FP32, .ndim = 2};
    spmd_mesh m = {.mesh = &on, .axes = {.naxes = 3, .extent = {2, 2, 3}, .uneven = true, .shares = true}};
    arena a;
    must(weft_context_create(NULL, &context));
    arena_init(&a, &context->allocator);
    must(spmd_paths_init(&m, &a));
    for (size_t i = 0; i < sizeof list_rows / sizeof *list_rows; i++) {
        const list_row *r = &list_rows[i];
        axes_placed from = placed_as_said(r->from), to = placed_as_said(r->to);
        spmd_path path;
        cr_assert(spmd_find_path(&m, &whole, &from, &to, &path), "row %zu", i);
        cr_expect_eq(path.count, r->count, "row %zu: %d steps", i, path.count);
        cr_expect(path.steps[0].kind == r->kind && path.steps[0].axes == r->axes, "row %zu: kind %d along %u", i,
                  path.steps[0].kind, path.steps[0].axes);
        cr_expect_float_eq(path.sent, r->sent, 1e-6, "row %zu: %g bytes", i, path.sent);
        cr_expect(placed_same(&path.steps[path.count - 1].made, &to, 2, 3), "row %zu ends elsewhere", i);
    }
    arena_fini(&a);
    weft_context_destroy(context);
}
