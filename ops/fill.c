/* fill.c: types of constants and random numbers: a shape and a dtype from attrs. */
#include <math.h>

#include "base/number.h"
#include "ops/infer.h"

enum { LIST_MAX = 64 }; /* numbers of a list that is kept */

/* Small constants are kept: shapes may depend on them. */
static weft_status keep_constant(infer *i, const shape *out) {
    double values[WEFT_MAX_RANK];
    int64_t count = shape_numel(out);
    int by = schema_input(i->schema, "ValueTensor");
    if (count < 0 || count > WEFT_MAX_RANK) return NULL;
    const char *precise = attr_string(i->op, "str_value", "");
    double value = *precise ? number_strtod(precise) : attr_float(i->op, "value", 0); /* so does Paddle */
    if (by >= 0 && infer_nin(i, by) && !infer_one_real(i, i->in_first[by], &value)) return NULL;
    for (int64_t k = 0; k < count; k++) values[k] = value;
    return infer_keep_reals(i, 0, (size_t)count, values);
}

static weft_status keep_list(infer *i, const shape *out) {
    static const char *const attrs[] = {"int32_values", "int64_values"};
    int64_t values[LIST_MAX], numel = shape_numel(out);
    if ((out->dtype != WEFT_INT32 && out->dtype != WEFT_INT64) || numel < 0 || numel > LIST_MAX) return NULL;
    const weft_attr *a = op_find_attr(i->op, "values");
    if (a && a->type == ATTR_SCALARS && (int64_t)a->count == numel) {
        for (int64_t k = 0; k < numel; k++) values[k] = a->u.scalars[k].i;
        return infer_keep_values(i, 0, (size_t)numel, values);
    }
    for (size_t k = 0; k < sizeof attrs / sizeof *attrs; k++) {
        size_t count;
        const int64_t *given = attr_ints(i->op, attrs[k], &count);
        if (count && (int64_t)count == numel) return infer_keep_values(i, 0, count, given);
    }
    return NULL;
}

static weft_status shape_from(infer *i, const numbers *extents, shape *out) {
    *out = (shape){.dtype = (int32_t)attr_int(i->op, "dtype", WEFT_FP32), .height = -1};
    for (size_t d = 0; d < extents->count; d++)
        TRY(shape_append(i, out, extents->values[d] < 0 ? -1 : extents->values[d]));
    return NULL;
}

/* ShapeTensor and ShapeTensorList take the place of attr `shape`. */
weft_status infer_fill_constant(infer *i) {
    numbers extents;
    shape out;
    if (!infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "ShapeTensor", "ShapeTensorList", "shape", &extents));
    TRY(shape_from(i, &extents, &out));
    *infer_out(i, 0) = out;
    return op_is(i->op, "fill_constant") ? keep_constant(i, &out) : NULL;
}

weft_status infer_assign_value(infer *i) {
    numbers extents;
    shape out;
    if (!infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "", NULL, "shape", &extents));
    TRY(shape_from(i, &extents, &out));
    *infer_out(i, 0) = out;
    return keep_list(i, &out);
}

weft_status infer_fill_any_like(infer *i) {
    int64_t dtype = attr_int(i->op, "dtype", -1);
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), dtype < 0 ? infer_in(i, 0)->dtype : (int32_t)dtype);
    return NULL;
}

weft_status infer_eye(infer *i) {
    int64_t rows = attr_int(i->op, "num_rows", 0), columns = attr_int(i->op, "num_columns", -1);
    if (rows < 0) return infer_error(i, "num_rows: expected 0 or more, found %lld", (long long)rows);
    shape_set(infer_out(i, 0), (int32_t)attr_int(i->op, "dtype", WEFT_FP32), 2,
              (const int64_t[]){rows, columns < 0 ? rows : columns});
    return NULL;
}

weft_status infer_linspace(infer *i) {
    numbers num;
    TRY(infer_numbers(i, "Num", NULL, NULL, &num));
    int64_t count = num.known && num.count == 1 ? num.values[0] : -1;
    shape_set(infer_out(i, 0), (int32_t)attr_int(i->op, "dtype", WEFT_FP32), 1, &count);
    return NULL;
}

/* Start, End and Step are one number each that the program fixes, as with paddle.arange(6), or computes from extents.
 */
weft_status infer_range(infer *i) {
    double given[3] = {0, 0, 0};
    int64_t count = -1;
    bool known = true;
    for (uint32_t s = 0; s < 3; s++) known = infer_one_real(i, i->in_first[s], &given[s]) && known;
    if (known && given[2] == 0) return infer_error(i, "expected a Step that is not 0");
    if (known) {
        double steps = ceil((given[1] - given[0]) / given[2]);
        if (steps > 1e15) return infer_error(i, "expected fewer than 1e15 numbers, found %g", steps);
        count = steps < 0 ? 0 : (int64_t)steps;
    }
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 1, &count);
    return NULL;
}

weft_status infer_select_input(infer *i) {
    const shape *x = infer_in(i, 0);
    if (infer_out(i, 0)) shape_copy_dims(infer_out(i, 0), x, x->dtype);
    return NULL;
}

/* All have X's type; one is written. */
weft_status infer_select_output(infer *i) {
    const shape *x = infer_in(i, 0);
    for (size_t k = 0; k < infer_nout(i, 0); k++) shape_copy_dims(&i->out[i->out_first[0] + k], x, x->dtype);
    return NULL;
}

/* One extent is Input's. */
weft_status infer_batch_size_like(infer *i) {
    const shape *like = infer_in(i, 0);
    numbers extents;
    shape out;
    int32_t from = 0, to;
    if (!infer_out(i, 0)) return NULL;
    TRY(infer_numbers(i, "", NULL, "shape", &extents));
    TRY(shape_from(i, &extents, &out));
    TRY(infer_axis(i, "output_dim_idx", attr_int(i->op, "output_dim_idx", 0), out.ndim, &to));
    if (shape_known(like)) TRY(infer_axis(i, "input_dim_idx", attr_int(i->op, "input_dim_idx", 0), like->ndim, &from));
    out.dims[to] = shape_known(like) ? like->dims[from] : -1;
    *infer_out(i, 0) = out;
    return op_is(i->op, "fill_constant_batch_size_like") ? keep_constant(i, &out) : NULL;
}

/* --- corners of a matrix: [2, how many] --------------------------------------------------------------------------- */

static weft_status count_corner(infer *i, int64_t nrows, int64_t ncolumns, int64_t offset, bool is_lower) {
    int64_t count = 0;
    if (nrows < 0 || ncolumns < 0)
        return infer_error(i, "expected extents of 0 or more, found %lld and %lld", (long long)nrows,
                           (long long)ncolumns);
    for (int64_t row = 0; row < nrows; row++) {
        int64_t on = row + offset + (is_lower ? 1 : 0); /* elements left of it */
        int64_t left = on < 0 ? 0 : on < ncolumns ? on : ncolumns;
        count += is_lower ? left : ncolumns - left;
    }
    shape_set(infer_out(i, 0), (int32_t)attr_int(i->op, "dtype", WEFT_INT64), 2, (const int64_t[]){2, count});
    return NULL;
}

weft_status infer_tril_indices(infer *i) {
    return count_corner(i, attr_int(i->op, "rows", 0), attr_int(i->op, "cols", 0), attr_int(i->op, "offset", 0), true);
}
weft_status infer_triu_indices(infer *i) {
    return count_corner(i, attr_int(i->op, "row", 0), attr_int(i->op, "col", 0), attr_int(i->op, "offset", 0), false);
}

weft_status infer_is_empty(infer *i) {
    shape_set(infer_out(i, 0), WEFT_BOOL, 0, NULL);
    return NULL;
}

weft_status infer_seed(infer *i) {
    shape_set(infer_out(i, 0), WEFT_INT32, 1, (const int64_t[]){1});
    return NULL;
}

/* How many of so many tries held. */
weft_status infer_binomial(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 0), WEFT_INT64);
    return NULL;
}
