/* order_statistics.c: along an axis: the k-th smallest element (kthvalue), the most frequent one (mode), the largest or
 * smallest so far (cummax, cummin). And counts of elements by equal bins (histogram). Gradients go to the element that
 * was taken: of one a column as argsort's do (sort.c), of cummax and cummin several may meet.
 *
 * NaN is largest for kthvalue and mode. cummax and cummin keep the first NaN from there on, as numpy's maximum does.
 * Of equal elements the last counts. */
#include <math.h>
#include <stdlib.h>

#include "executor/kernels/layout.h"

enum { IN_X, OUT_VALUES = 0, OUT_INDICES };

typedef struct item {
    double value;
    int64_t index;
} item;

typedef struct order_state {
    axis_split split;
    int64_t k; /* kthvalue: from 1 */
    bool descending;
} order_state;

/* `each`: as many results as elements, else one a column. */
static weft_status prepare_columns(kernel_prepare *p, bool each) {
    order_state *s = KERNEL_STATE(p, order_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *values = type_out(p, OUT_VALUES), *indices = type_out(p, OUT_INDICES);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, values, "Out"));
    TRY(require_present(p, indices, "Indices"));
    TRY(require_same_dtype(p, x, values, "Out"));
    if (!dtype_is_float(x->dtype) && x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected X of a type with an order, found %s", dtype_text(x->dtype));
    if (x->dtype == WEFT_FP16 || x->dtype == WEFT_BF16) return require_real(p, x, "X");
    if (indices->dtype != WEFT_INT32 && indices->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64 Indices, found %s", dtype_text(indices->dtype));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    int64_t columns = s->split.outer * s->split.inner, results = each ? x->numel : columns;
    if (!each && columns && !s->split.extent) return kernel_unsupported(p, "expected an axis that is not empty");
    TRY(require_numel(p, values, results, "Out"));
    TRY(require_numel(p, indices, results, "Indices"));
    p->workspace_nbytes = (size_t)s->split.extent * sizeof(item);
    return NULL;
}

static double value_at(const tensor *x, int64_t i) {
    return dtype_is_float(x->dtype) ? tensor_real(x, i) : (double)tensor_integer(x, i);
}

/* Element `from` of X is result `to`. */
static void take(const kernel_call *c, int64_t to, int64_t from, int64_t index) {
    const tensor *x = arg_in(c, IN_X), *indices = arg_out(c, OUT_INDICES);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    memcpy((char *)arg_out(c, OUT_VALUES)->data + (size_t)to * nbytes, (const char *)x->data + (size_t)from * nbytes,
           nbytes);
    if (indices->dtype == WEFT_INT64)
        ((int64_t *)indices->data)[to] = index;
    else
        ((int32_t *)indices->data)[to] = (int32_t)index;
}

/* --- kthvalue, mode ----------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    const item *x = a, *y = b;
    if (isnan(x->value) != isnan(y->value)) return isnan(x->value) ? 1 : -1;
    if (x->value != y->value && !isnan(x->value)) return x->value < y->value ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool is_same(const item *a, const item *b) {
    return a->value == b->value || (isnan(a->value) && isnan(b->value));
}

/* The last item of the longest run of equal ones, the first such run. */
static int64_t most_frequent(const item *items, int64_t n) {
    int64_t best = 0, longest = 0, run = 0;
    for (int64_t i = 0; i < n; i++) {
        run = i > 0 && is_same(&items[i - 1], &items[i]) ? run + 1 : 1;
        if (run <= longest) continue;
        longest = run;
        best = i;
    }
    return items[best].index;
}

/* Of each column, in order. */
static void choose(const kernel_call *c, bool is_mode) {
    const order_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    item *items = c->workspace;
    for (int64_t column = 0; column < s->split.outer * s->split.inner; column++) {
        int64_t inner = s->split.inner, first = column / inner * s->split.extent * inner + column % inner;
        for (int64_t i = 0; i < s->split.extent; i++) items[i] = (item){value_at(x, first + i * inner), i};
        qsort(items, (size_t)s->split.extent, sizeof *items, by_value);
        int64_t index = is_mode ? most_frequent(items, s->split.extent) : items[s->k - 1].index;
        take(c, column, first + index * inner, index);
    }
}

static weft_status prepare_kthvalue(kernel_prepare *p) {
    TRY(prepare_columns(p, false));
    order_state *s = p->state;
    s->k = attr_int(p->op, "k", 1);
    if (s->k >= 1 && s->k <= s->split.extent) return NULL;
    return kernel_unsupported(p, "expected k of 1 to %lld, found %lld", (long long)s->split.extent, (long long)s->k);
}
static weft_status prepare_mode(kernel_prepare *p) {
    return prepare_columns(p, false);
}
static weft_status run_kthvalue(const kernel_call *c) {
    choose(c, false);
    return NULL;
}
static weft_status run_mode(const kernel_call *c) {
    choose(c, true);
    return NULL;
}

const kernel kernel_kthvalue = {prepare_kthvalue, run_kthvalue};
const kernel kernel_mode = {prepare_mode, run_mode};

/* --- cummax, cummin ----------------------------------------------------------------------------------------------- */

static weft_status prepare_running(kernel_prepare *p, bool descending) {
    TRY(prepare_columns(p, true));
    ((order_state *)p->state)->descending = descending;
    return NULL;
}
static weft_status prepare_cummax(kernel_prepare *p) {
    return prepare_running(p, true);
}
static weft_status prepare_cummin(kernel_prepare *p) {
    return prepare_running(p, false);
}

static weft_status run_running(const kernel_call *c) {
    const order_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    int64_t inner = s->split.inner;
    for (int64_t column = 0; column < s->split.outer * inner; column++) {
        int64_t first = column / inner * s->split.extent * inner + column % inner, best = 0;
        for (int64_t i = 0; i < s->split.extent; i++) {
            double value = value_at(x, first + i * inner), most = value_at(x, first + best * inner);
            if (isnan(value) || (s->descending ? value >= most : value <= most)) best = i;
            take(c, first + i * inner, first + best * inner, best);
        }
    }
    return NULL;
}

const kernel kernel_cummax = {prepare_cummax, run_running};
const kernel kernel_cummin = {prepare_cummin, run_running};

/* --- gradients of cummax, cummin: each goes to where its index says, and what meets there is added up ------------- */

enum { GRAD_IN_INDICES = 1, GRAD_IN_OUT_GRAD };

static weft_status prepare_put(kernel_prepare *p) {
    axis_split *s = KERNEL_STATE(p, axis_split);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *g = type_in(p, GRAD_IN_OUT_GRAD);
    TRY(require_present(p, x, "X"));
    TRY(require_real(p, g, "Out@GRAD"));
    TRY(require_numel(p, type_in(p, GRAD_IN_INDICES), g->numel, "Indices"));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    TRY(require_like(p, g, type_out(p, 0), x->numel, "X@GRAD"));
    TRY(require_numel(p, g, x->numel, "Out@GRAD"));
    return axis_split_prepare(p, x, attr_int(p->op, "axis", -1), s);
}

static weft_status run_put(const kernel_call *c) {
    const axis_split *s = c->state;
    const tensor *indices = arg_in(c, GRAD_IN_INDICES), *g = arg_in(c, GRAD_IN_OUT_GRAD);
    tensor *dx = arg_out(c, 0);
    tensor_clear(dx);
    for (int64_t e = 0; e < g->numel; e++) {
        int64_t index = tensor_integer(indices, e);
        if (index < 0 || index >= s->extent)
            return kernel_failed(c, "expected indices of 0 to %lld, found %lld", (long long)s->extent - 1,
                                 (long long)index);
        int64_t first = e / (s->extent * s->inner) * s->extent * s->inner + e % s->inner;
        tensor_add_real(dx, first + index * s->inner, tensor_real(g, e));
    }
    return NULL;
}

const kernel kernel_cummax_grad = {prepare_put, run_put};
const kernel kernel_cummin_grad = {prepare_put, run_put};

/* --- histogram ---------------------------------------------------------------------------------------------------- */

typedef struct bins {
    int64_t count;
    double low, high;
} bins;

static weft_status prepare_histogram(kernel_prepare *p) {
    bins *s = KERNEL_STATE(p, bins);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *out = type_out(p, 0);
    TRY(require_present(p, x, "X"));
    *s = (bins){attr_int(p->op, "bins", 100), (double)attr_int(p->op, "min", 0), (double)attr_int(p->op, "max", 0)};
    if (s->count < 1) return kernel_unsupported(p, "expected 1 or more bins, found %lld", (long long)s->count);
    if (s->low > s->high) return kernel_unsupported(p, "expected min below max, found %g and %g", s->low, s->high);
    if (x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64) TRY(require_real(p, x, "X"));
    TRY(require_numel(p, out, s->count, "Out"));
    return out->dtype == WEFT_INT64 ? NULL : kernel_unsupported(p, "expected Out of int64");
}

/* The range of the elements, where none is given. */
static weft_status find_range(const kernel_call *c, bins *s) {
    const tensor *x = arg_in(c, IN_X);
    if (!x->numel || s->low != s->high) return NULL;
    s->low = INFINITY, s->high = -INFINITY;
    for (int64_t i = 0; i < x->numel; i++) {
        double value = value_at(x, i);
        if (!isfinite(value)) return kernel_failed(c, "expected a finite range, found %g in X", value);
        s->low = fmin(s->low, value), s->high = fmax(s->high, value);
    }
    if (s->low == s->high) s->low -= 1, s->high += 1;
    return NULL;
}

static weft_status run_histogram(const kernel_call *c) {
    bins s = *(const bins *)c->state;
    const tensor *x = arg_in(c, IN_X);
    int64_t *counts = arg_out(c, 0)->data;
    tensor_clear(arg_out(c, 0));
    TRY(find_range(c, &s));
    for (int64_t i = 0; i < x->numel; i++) {
        double value = value_at(x, i);
        if (!(value >= s.low && value <= s.high)) continue;
        int64_t bin = (int64_t)((value - s.low) * (double)s.count / (s.high - s.low));
        counts[bin < s.count ? bin : s.count - 1]++;
    }
    return NULL;
}

const kernel kernel_histogram = {prepare_histogram, run_histogram};
