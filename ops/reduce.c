/* reduce.c: types of reductions (paddle/phi/infermeta/unary.cc). */
#include "ops/infer.h"

/* Marks the dimensions of attr `dim`; all of them where it is empty or `all`. */
static weft_status mark_dims(const infer *i, const char *attr, bool all, int32_t ndim, bool marked[WEFT_MAX_RANK]) {
    size_t count;
    const int64_t *dims = attr_ints(i->op, attr, &count);
    for (int32_t d = 0; d < WEFT_MAX_RANK; d++) marked[d] = all || !count;
    for (size_t k = 0; k < count && !all && ndim; k++) {
        int32_t d;
        TRY(infer_axis(i, attr, dims[k], ndim, &d));
        marked[d] = true;
    }
    return NULL;
}

static weft_status drop_marked(infer *i, const shape *x, const bool marked[WEFT_MAX_RANK], bool keep, int32_t dtype) {
    shape out = {.dtype = dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++)
        if (!marked[d] || keep) TRY(shape_append(i, &out, marked[d] ? 1 : x->dims[d]));
    *infer_out(i, 0) = out;
    return NULL;
}

weft_status infer_reduce(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    bool marked[WEFT_MAX_RANK];
    TRY(mark_dims(i, "dim", attr_bool(i->op, "reduce_all", false), x->ndim, marked));
    int64_t dtype = attr_int(i->op, "out_dtype", -1);
    return drop_marked(i, x, marked, attr_bool(i->op, "keep_dim", false), dtype < 0 ? x->dtype : (int32_t)dtype);
}

/* Numbers are truths too. */
weft_status infer_reduce_truth(infer *i) {
    TRY(infer_reduce(i));
    if (infer_out(i, 0)) infer_out(i, 0)->dtype = WEFT_BOOL;
    return NULL;
}

/* Sums of small integers are int64 unless an attr says otherwise. */
weft_status infer_reduce_sum(infer *i) {
    TRY(infer_reduce(i));
    shape *out = infer_out(i, 0);
    bool small = infer_in(i, 0)->dtype == WEFT_BOOL || infer_in(i, 0)->dtype == WEFT_INT32;
    if (out && small && attr_int(i->op, "out_dtype", -1) < 0) out->dtype = WEFT_INT64;
    return NULL;
}

static weft_status reduce_axis(infer *i, bool all, const char *keep_attr) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    bool marked[WEFT_MAX_RANK];
    TRY(mark_dims(i, "axis", all, x->ndim, marked));
    return drop_marked(i, x, marked, attr_bool(i->op, keep_attr, false), x->dtype);
}

weft_status infer_logsumexp(infer *i) {
    return reduce_axis(i, attr_bool(i->op, "reduce_all", false), "keepdim");
}
weft_status infer_p_norm(infer *i) {
    return reduce_axis(i, attr_bool(i->op, "asvector", false), "keepdim");
}

weft_status infer_scalar_like(infer *i) {
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 0, NULL);
    return NULL;
}

weft_status infer_one_like(infer *i) {
    shape_set(infer_out(i, 0), infer_in(i, 0)->dtype, 1, (const int64_t[]){1});
    return NULL;
}

/* Rows added to rows are more rows; anything dense among the arguments makes the sum dense. */
static shape sum_rows(const infer *i) {
    shape out = i->in[0];
    for (size_t k = 1; k < infer_nin(i, 0); k++) {
        out.dims[0] = extent_add(out.dims[0], i->in[k].dims[0]);
        if (out.height < 0) out.height = i->in[k].height;
    }
    return out;
}

weft_status infer_sum(infer *i) {
    const shape *dense = NULL;
    for (size_t k = 0; k < infer_nin(i, 0); k++) {
        const shape *x = &i->in[k];
        if (!shape_known(x)) return NULL;
        if (x->height >= 0 || !shape_numel(x)) continue;
        for (int32_t d = 0; dense && d < x->ndim; d++)
            if (x->ndim != dense->ndim || !extent_fits(x->dims[d], dense->dims[d])) {
                shape_text a, b;
                return infer_error(i, "expected arguments of one shape, found %s and %s", shape_print(dense, &a),
                                   shape_print(x, &b));
            }
        if (!dense) dense = x;
    }
    if (infer_out(i, 0) && infer_nin(i, 0))
        *infer_out(i, 0) = dense ? *dense : i->in[0].height >= 0 ? sum_rows(i) : i->in[0];
    return NULL;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

weft_status infer_arg_max(infer *i) {
    TRY(reduce_axis(i, attr_bool(i->op, "flatten", false), "keepdims"));
    int64_t dtype = attr_int(i->op, "dtype", WEFT_INT64);
    if (dtype >= 0 && dtype != WEFT_INT32 && dtype != WEFT_INT64)
        return infer_error(i, "dtype: expected int32 or int64, found %lld", (long long)dtype);
    if (infer_out(i, 0)) infer_out(i, 0)->dtype = dtype < 0 ? WEFT_INT64 : (int32_t)dtype;
    return NULL;
}

weft_status infer_argsort(infer *i) {
    if (infer_out(i, 0)) *infer_out(i, 0) = *infer_in(i, 0);
    shape_copy_dims(infer_out(i, 1), infer_in(i, 0), WEFT_INT64);
    return NULL;
}

weft_status infer_top_k_v2(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    numbers k;
    shape out = *x;
    TRY(infer_numbers(i, "K", NULL, "k", &k));
    if (x->ndim) {
        int32_t axis;
        TRY(infer_axis(i, "axis", attr_int(i->op, "axis", -1), x->ndim, &axis));
        out.dims[axis] = k.known && k.count == 1 ? k.values[0] : -1;
        if ((x->dims[axis] >= 0 && out.dims[axis] > x->dims[axis]) || (k.known && out.dims[axis] < 1))
            return infer_error(i, "k: expected 1 to %lld, found %lld", (long long)x->dims[axis],
                               (long long)out.dims[axis]);
    }
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    shape_copy_dims(infer_out(i, 1), &out, WEFT_INT64);
    return NULL;
}

weft_status infer_cumsum(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x) || !infer_out(i, 0)) return NULL;
    bool widens = infer_out(i, 0)->dtype == WEFT_INT64 && (x->dtype == WEFT_BOOL || x->dtype == WEFT_INT32);
    int32_t dtype = widens ? WEFT_INT64 : x->dtype; /* torch sums them so */
    shape_copy_dims(infer_out(i, 0), x, dtype);
    if (attr_bool(i->op, "flatten", false)) shape_set(infer_out(i, 0), dtype, 1, (const int64_t[]){shape_numel(x)});
    return NULL;
}

/* The area, and the counts by threshold. */
weft_status infer_auc(infer *i) {
    shape_set(infer_out(i, 0), WEFT_FP64, 0, NULL);
    for (int s = 1; s <= 2; s++) {
        if (!infer_out(i, s) || !infer_in(i, s + 1)) continue;
        *infer_out(i, s) = *infer_in(i, s + 1);
        if (!attr_int(i->op, "slide_steps", 1))
            shape_set(infer_out(i, s), WEFT_INT64, 2,
                      (const int64_t[]){1, attr_int(i->op, "num_thresholds", 4095) + 1});
    }
    return NULL;
}

weft_status infer_accuracy(infer *i) {
    shape_set(infer_out(i, 0), WEFT_FP32, 0, NULL);
    shape_set(infer_out(i, 1), WEFT_INT32, 0, NULL);
    shape_set(infer_out(i, 2), WEFT_INT32, 0, NULL);
    return NULL;
}

/* --- order -------------------------------------------------------------------------------------------------------- */

weft_status infer_kthvalue(infer *i) {
    const shape *x = infer_in(i, 0);
    if (!shape_known(x)) return NULL;
    shape out = *x;
    if (x->ndim) {
        int32_t axis;
        TRY(infer_axis(i, "axis", attr_int(i->op, "axis", -1), x->ndim, &axis));
        out.dims[axis] = 1;
        if (!attr_bool(i->op, "keepdim", false)) {
            out.ndim--;
            memmove(out.dims + axis, out.dims + axis + 1, (size_t)(out.ndim - axis) * sizeof *out.dims);
        }
    }
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    shape_copy_dims(infer_out(i, 1), &out, WEFT_INT64);
    return NULL;
}

weft_status infer_cummax(infer *i) {
    const shape *x = infer_in(i, 0);
    if (infer_out(i, 0)) *infer_out(i, 0) = *x;
    shape_copy_dims(infer_out(i, 1), x, (int32_t)attr_int(i->op, "dtype", WEFT_INT64));
    return NULL;
}

weft_status infer_histogram(infer *i) {
    int64_t bins = attr_int(i->op, "bins", 100);
    if (bins < 1) return infer_error(i, "bins: expected 1 or more, found %lld", (long long)bins);
    shape_set(infer_out(i, 0), WEFT_INT64, 1, &bins);
    return NULL;
}

/* MedianIndex: two of each median, or with "min" one; before Paddle 3, which has no mode, twice the elements of X. */
weft_status infer_nanmedian(infer *i) {
    const shape *x = infer_in(i, 0);
    size_t naxes;
    const int64_t *axes = attr_ints(i->op, "axis", &naxes);
    bool reduced[WEFT_MAX_RANK] = {false}, keep = attr_bool(i->op, "keepdim", false);
    if (!shape_known(x)) return NULL;
    for (size_t k = 0; k < naxes; k++) {
        int32_t axis;
        TRY(infer_axis(i, "axis", axes[k], x->ndim, &axis));
        reduced[axis] = true;
    }
    shape out = {.dtype = x->dtype, .height = -1};
    for (int32_t d = 0; d < x->ndim; d++)
        if (naxes && !reduced[d])
            TRY(shape_append(i, &out, x->dims[d]));
        else if (keep)
            TRY(shape_append(i, &out, 1));
    if (infer_out(i, 0)) *infer_out(i, 0) = out;
    if (!op_find_attr(i->op, "mode")) {
        int64_t count = extent_mul(2, shape_numel(x));
        shape_set(infer_out(i, 1), WEFT_INT64, 1, &count);
        return NULL;
    }
    if (strcmp(attr_string(i->op, "mode", "avg"), "min") != 0) TRY(shape_append(i, &out, 2));
    shape_copy_dims(infer_out(i, 1), &out, WEFT_INT64);
    return NULL;
}

weft_status infer_reduce_as(infer *i) {
    shape_copy_dims(infer_out(i, 0), infer_in(i, 1), infer_in(i, 0)->dtype);
    return NULL;
}
