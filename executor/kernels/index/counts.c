/* counts.c: how often numbers occur (bincount), where they belong in order (searchsorted), which there are
 * (unique), and runs of them (unique_consecutive).
 *
 * How many results unique and bincount have follows from elements; the plan has inferred it from values that it knows,
 * and a run that finds another count fails. Paddle: phi/kernels/cpu/{bincount,searchsorted,unique}_kernel.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

/* Elements as doubles, or as integers where both are: these order all elements of one tensor. */
static bool is_integer(weft_dtype d) {
    return d == WEFT_INT32 || d == WEFT_INT64;
}

static int compare_elements(const tensor *a, int64_t i, const tensor *b, int64_t j) {
    if (is_integer(a->dtype) && is_integer(b->dtype)) {
        int64_t x = tensor_integer(a, i), y = tensor_integer(b, j);
        return (x > y) - (x < y);
    }
    double x = tensor_number(a, i), y = tensor_number(b, j);
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

static weft_status require_ordered(const kernel_prepare *p, const tensor *t, const char *what) {
    TRY(require_present(p, t, what));
    return is_integer(t->dtype) ? NULL : require_real(p, t, what);
}

/* --- bincount ----------------------------------------------------------------------------------------------------- */

static weft_status prepare_bincount(kernel_prepare *p) {
    const tensor *x = type_in(p, 0), *weights = type_in(p, 1), *out = type_out(p, 0);
    TRY(require_integers(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    if (!weights) return require_integers(p, out, "Out");
    TRY(require_real(p, weights, "Weights"));
    TRY(require_same_dtype(p, weights, out, "Out"));
    return require_numel(p, weights, x->numel, "Weights");
}

static weft_status run_bincount(const kernel_call *c) {
    const tensor *x = arg_in(c, 0), *weights = arg_in(c, 1);
    tensor *out = arg_out(c, 0);
    tensor_clear(out);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t k = tensor_integer(x, i);
        if (k < 0 || k >= out->numel)
            return kernel_failed(c, "X: expected 0 to %lld, found %lld", (long long)out->numel - 1, (long long)k);
        if (weights)
            tensor_set_real(out, k, tensor_real(out, k) + tensor_real(weights, i));
        else
            tensor_set_integer(out, k, tensor_integer(out, k) + 1);
    }
    return NULL;
}

const kernel kernel_bincount = {prepare_bincount, run_bincount};

/* --- searchsorted: what is not finite belongs at the end, as in Paddle -------------------------------------------- */

typedef struct search_state {
    int64_t length, per_row; /* of a sorted row; values that are looked for in one; 0: all in the one row */
    bool right;
} search_state;

static weft_status prepare_searchsorted(kernel_prepare *p) {
    search_state *s = KERNEL_STATE(p, search_state);
    if (!s) return base_out_of_memory();
    const tensor *sorted = type_in(p, 0), *values = type_in(p, 1), *out = type_out(p, 0);
    TRY(require_ordered(p, sorted, "SortedSequence"));
    TRY(require_ordered(p, values, "Values"));
    TRY(require_integers(p, out, "Out"));
    if (sorted->ndim < 1) return kernel_unsupported(p, "expected a SortedSequence of 1 dimension or more");
    s->length = sorted->dims[sorted->ndim - 1];
    s->right = attr_bool(p->op, "right", false);
    bool rows = sorted->ndim > 1 && values->ndim == sorted->ndim;
    for (int d = 0; rows && d + 1 < sorted->ndim; d++) rows = sorted->dims[d] == values->dims[d];
    if (sorted->ndim > 1 && !rows)
        return kernel_unsupported(p, "expected Values with a row for each of SortedSequence");
    s->per_row = rows ? values->dims[values->ndim - 1] : 0;
    return require_numel(p, out, values->numel, "Out");
}

static weft_status run_searchsorted(const kernel_call *c) {
    const search_state *s = c->state;
    const tensor *sorted = arg_in(c, 0), *values = arg_in(c, 1);
    for (int64_t i = 0; i < values->numel; i++) {
        int64_t first = s->per_row ? i / s->per_row * s->length : 0, low = 0, high = s->length;
        if (!is_integer(values->dtype) && !isfinite(tensor_real(values, i))) low = high;
        while (low < high) {
            int64_t middle = (low + high) / 2;
            int order = compare_elements(sorted, first + middle, values, i);
            if (order < 0 || (s->right && order == 0))
                low = middle + 1;
            else
                high = middle;
        }
        tensor_set_integer(arg_out(c, 0), i, low);
    }
    return NULL;
}

const kernel kernel_searchsorted = {prepare_searchsorted, run_searchsorted};

/* --- unique ------------------------------------------------------------------------------------------------------- */

enum { OUT_VALUES, OUT_INDICES, OUT_INDEX, OUT_COUNTS };

/* Slices along an axis: element (b, a) of slice k is at ((a * blocks + b) * extent + k) * inner. They are compared in
 * the order in which Paddle has turned the axis to the front: it changes places with the first one. */
typedef struct unique_state {
    int64_t firsts, blocks, extent, inner, found;
    bool sorted;
} unique_state;

static weft_status prepare_unique(kernel_prepare *p) {
    unique_state *s = KERNEL_STATE(p, unique_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, OUT_VALUES);
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, "axis", &naxes);
    TRY(require_ordered(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, x, out, "Out"));
    *s = (unique_state){1, 1, x->numel, 1, out->numel, attr_bool(p->op, "is_sorted", false)};
    if (naxes > 1 || (naxes && !s->sorted))
        return kernel_unsupported(p, "expected one axis at most, and is_sorted with it");
    if (naxes) {
        int axis = axis_of(x, axes[0]);
        if (axis < 0 || x->ndim < 1) return kernel_unsupported(p, "axis: X has %d dimensions", x->ndim);
        axis_split split = axis_split_at(x, axis);
        s->firsts = axis ? x->dims[0] : 1;
        s->blocks = s->firsts ? split.outer / s->firsts : 0;
        s->extent = split.extent;
        s->inner = split.inner;
        s->found = out->ndim == x->ndim ? out->dims[axis] : -1;
    }
    for (int k = OUT_INDICES; k <= OUT_COUNTS; k++)
        if (type_out(p, k)) {
            TRY(require_integers(p, type_out(p, k), "indices and counts"));
            TRY(require_numel(p, type_out(p, k), k == OUT_INDEX ? s->extent : s->found, "indices and counts"));
        }
    p->workspace_nbytes = 3 * (size_t)s->extent * sizeof(int64_t);
    return NULL;
}

static int compare_slices(const unique_state *s, const tensor *x, int64_t i, int64_t j) {
    for (int64_t b = 0; b < s->blocks; b++)
        for (int64_t a = 0; a < s->firsts; a++) {
            int64_t row = (a * s->blocks + b) * s->extent;
            for (int64_t k = 0; k < s->inner; k++) {
                int order = compare_elements(x, (row + i) * s->inner + k, x, (row + j) * s->inner + k);
                if (order) return order;
            }
        }
    return 0;
}

/* Merges ever longer runs, so that equal slices keep their order. */
static int64_t *sort_slices(const unique_state *s, const tensor *x, int64_t *order, int64_t *other) {
    for (int64_t i = 0; i < s->extent; i++) order[i] = i;
    for (int64_t run = 1; run < s->extent; run *= 2) {
        for (int64_t first = 0; first < s->extent; first += 2 * run) {
            int64_t middle = first + run < s->extent ? first + run : s->extent;
            int64_t end = middle + run < s->extent ? middle + run : s->extent, i = first, j = middle, to = first;
            while (i < middle || j < end) {
                bool left = j >= end || (i < middle && compare_slices(s, x, order[i], order[j]) <= 0);
                other[to++] = left ? order[i++] : order[j++];
            }
        }
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    return order;
}

static void copy_slice(const unique_state *s, const tensor *x, int64_t from, tensor *out, int64_t to) {
    size_t size = weft_dtype_nbytes(x->dtype), run = (size_t)s->inner * size;
    for (int64_t row = 0; row < s->blocks * s->firsts; row++)
        memcpy((char *)out->data + (size_t)(row * s->found + to) * run,
               (const char *)x->data + (size_t)(row * s->extent + from) * run, run);
}

/* Numbers groups of equal slices in the order in which they were met, in place of that of their values. */
static void number_by_meeting(const unique_state *s, int64_t *group, int64_t *first, int64_t found) {
    int64_t next = 0;
    for (int64_t g = 0; g < found; g++) first[g] = -1;
    for (int64_t i = 0; i < s->extent; i++) {
        int64_t *number = &first[group[i]];
        if (*number < 0) *number = next++;
        group[i] = *number;
    }
}

static weft_status run_unique(const kernel_call *c) {
    const unique_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *out = arg_out(c, OUT_VALUES), *indices = arg_out(c, OUT_INDICES), *counts = arg_out(c, OUT_COUNTS);
    int64_t *group = c->workspace, *a = group + s->extent, *b = a + s->extent, found = 0;
    int64_t *order = sort_slices(s, x, a, b), *first = order == a ? b : a;
    for (int64_t i = 0; i < s->extent; i++) {
        found += i == 0 || compare_slices(s, x, order[i - 1], order[i]) != 0;
        group[order[i]] = found - 1;
    }
    if (found != s->found)
        return kernel_failed(c, "expected %lld different values in X, found %lld", (long long)s->found,
                             (long long)found);
    if (!s->sorted) number_by_meeting(s, group, first, found);
    for (int64_t g = 0; counts && g < found; g++) tensor_set_integer(counts, g, 0);
    for (int64_t i = s->extent - 1; i >= 0; i--) {
        copy_slice(s, x, i, out, group[i]);
        if (indices) tensor_set_integer(indices, group[i], i);
        if (counts) tensor_set_integer(counts, group[i], tensor_integer(counts, group[i]) + 1);
        if (arg_out(c, OUT_INDEX)) tensor_set_integer(arg_out(c, OUT_INDEX), i, group[i]);
    }
    return NULL;
}

const kernel kernel_unique = {prepare_unique, run_unique};

/* --- unique_consecutive: runs of equal slices, in the order in which they stand ----------------------------------- */

enum { RUN_VALUES, RUN_INDEX, RUN_COUNTS };

static weft_status prepare_consecutive(kernel_prepare *p) {
    unique_state *s = KERNEL_STATE(p, unique_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *out = type_out(p, RUN_VALUES);
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, "axis", &naxes);
    TRY(require_ordered(p, x, "X"));
    TRY(require_present(p, out, "Out"));
    TRY(require_same_dtype(p, x, out, "Out"));
    *s = (unique_state){1, 1, x->numel, 1, out->numel, true};
    if (naxes > 1) return kernel_unsupported(p, "expected one axis at most");
    if (naxes) {
        axis_split split;
        TRY(axis_split_prepare(p, x, axes[0], &split));
        s->blocks = split.outer, s->extent = split.extent, s->inner = split.inner;
        s->found = out->ndim == x->ndim && x->ndim ? out->dims[axis_of(x, axes[0])] : -1;
    }
    for (int k = RUN_INDEX; k <= RUN_COUNTS; k++)
        if (type_out(p, k)) {
            TRY(require_integers(p, type_out(p, k), "indices and counts"));
            TRY(require_numel(p, type_out(p, k), k == RUN_INDEX ? s->extent : s->found, "indices and counts"));
        }
    return NULL;
}

static weft_status run_consecutive(const kernel_call *c) {
    const unique_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    tensor *index = arg_out(c, RUN_INDEX), *counts = arg_out(c, RUN_COUNTS);
    int64_t found = 0, first = 0;
    for (int64_t i = 0; i < s->extent; i++) {
        bool begins = i == 0 || compare_slices(s, x, i - 1, i) != 0;
        if (begins && found < s->found) copy_slice(s, x, i, arg_out(c, RUN_VALUES), found);
        if (begins) first = i;
        found += begins;
        if (index) tensor_set_integer(index, i, found - 1);
        if (counts && found <= s->found) tensor_set_integer(counts, found - 1, i - first + 1);
    }
    if (found == s->found) return NULL;
    return kernel_failed(c, "expected %lld runs of values in X, found %lld", (long long)s->found, (long long)found);
}

const kernel kernel_unique_consecutive = {prepare_consecutive, run_consecutive};
