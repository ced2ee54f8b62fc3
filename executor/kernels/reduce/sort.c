/* sort.c: elements in order along an axis: argsort, top_k_v2, and the gradients, which put each back where it came
 * from.
 *
 * Elements are compared as doubles (int32 and int64 as integers), NaN largest. argsort keeps the order of equal
 * elements (merge sort). Which of equal elements top_k_v2 takes follows from the algorithms behind Paddle's CPU kernel
 * (phi/kernels/cpu/top_k_kernel.cc: std::partial_sort where k is below a 64th of the extent, else std::nth_element and
 * std::sort), so heap and quickselect here make the moves of libstdc++'s. accuracy counts the rows whose top indices
 * hold the label. */
#include <math.h>

#include "executor/kernels/layout.h"

typedef struct item {
    double real;
    int64_t integer; /* of integer types */
    int64_t index;
} item;

typedef struct sort_state {
    axis_split split; /* of X */
    int64_t k;        /* elements kept */
    bool descending, integers;
} sort_state;

/* --- order -------------------------------------------------------------------------------------------------------- */

static bool comes_first(const sort_state *s, const item *a, const item *b) {
    if (s->integers) return s->descending ? a->integer > b->integer : a->integer < b->integer;
    bool a_nan = isnan(a->real), b_nan = isnan(b->real);
    if (a_nan || b_nan) return s->descending ? a_nan && !b_nan : !a_nan && b_nan;
    return s->descending ? a->real > b->real : a->real < b->real;
}

/* Sorts n items, equal ones in their order; `scratch` has room for n. */
static void merge_sort(const sort_state *s, item *items, item *scratch, int64_t n) {
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n;
            int64_t end = first + 2 * width < n ? first + 2 * width : n, a = first, b = middle;
            for (int64_t to = first; to < end; to++) {
                bool take_b = b < end && (a >= middle || comes_first(s, &items[b], &items[a]));
                scratch[to] = take_b ? items[b++] : items[a++];
            }
        }
        memcpy(items, scratch, (size_t)n * sizeof *items);
    }
}

/* The heap's top is the element that comes last. */
static void heap_push(const sort_state *s, item *heap, int64_t hole, int64_t top, item value) {
    for (int64_t parent = (hole - 1) / 2; hole > top && comes_first(s, &heap[parent], &value);
         parent = (hole - 1) / 2) {
        heap[hole] = heap[parent];
        hole = parent;
    }
    heap[hole] = value;
}

static void heap_adjust(const sort_state *s, item *heap, int64_t hole, int64_t n, item value) {
    int64_t top = hole, child = hole;
    while (child < (n - 1) / 2) {
        child = 2 * (child + 1);
        if (comes_first(s, &heap[child], &heap[child - 1])) child--;
        heap[hole] = heap[child];
        hole = child;
    }
    if ((n & 1) == 0 && child == (n - 2) / 2) {
        child = 2 * (child + 1);
        heap[hole] = heap[child - 1];
        hole = child - 1;
    }
    heap_push(s, heap, hole, top, value);
}

/* The first k of n items in order, at the front. */
static void partial_sort(const sort_state *s, item *items, int64_t n, int64_t k) {
    for (int64_t parent = (k - 2) / 2; k > 1 && parent >= 0; parent--) heap_adjust(s, items, parent, k, items[parent]);
    for (int64_t i = k; i < n; i++)
        if (comes_first(s, &items[i], &items[0])) {
            item better = items[i];
            items[i] = items[0];
            heap_adjust(s, items, 0, k, better);
        }
    for (int64_t end = k - 1; end > 0; end--) {
        item last = items[end];
        items[end] = items[0];
        heap_adjust(s, items, 0, end, last);
    }
}

static void swap(item *a, item *b) {
    item t = *a;
    *a = *b;
    *b = t;
}

/* Puts the median of three other items into items[0]. */
static void take_median(const sort_state *s, item *items, int64_t n) {
    item *a = items + 1, *b = items + n / 2, *c = items + n - 1;
    if (!comes_first(s, a, b)) {
        item *t = a;
        a = b;
        b = t;
    }
    /* Now b does not come before a; of equal ones the choice is quickselect's usual: the last compared. */
    item *median = comes_first(s, b, c) ? b : comes_first(s, a, c) ? c : a;
    swap(items, median);
}

/* Moves items that come before items[0] ahead of the others; returns where those begin. */
static int64_t partition(const sort_state *s, item *items, int64_t n) {
    int64_t low = 1, high = n;
    for (;;) {
        while (comes_first(s, &items[low], &items[0])) low++;
        high--;
        while (comes_first(s, &items[0], &items[high])) high--;
        if (low >= high) return low;
        swap(&items[low++], &items[high]);
    }
}

/* Quickselect: the first k of n items at the front, the last of them in its place, the others in any order. */
static void select_first(const sort_state *s, item *items, int64_t n, int64_t k) {
    int depth = 0;
    for (int64_t i = n; i > 1; i /= 2) depth += 2;
    while (n > 3) {
        if (depth-- == 0) {
            partial_sort(s, items, n, k);
            return;
        }
        take_median(s, items, n);
        int64_t cut = partition(s, items, n);
        if (cut <= k - 1) {
            items += cut;
            n -= cut;
            k -= cut;
        } else {
            n = cut;
        }
    }
    item scratch[3];
    merge_sort(s, items, scratch, n);
}

/* The first k of n items in order at the front, as Paddle finds them. */
static void order_first(const sort_state *s, item *items, int64_t n, int64_t k) {
    if (k * 64 < n) {
        partial_sort(s, items, n, k);
        return;
    }
    select_first(s, items, n, k);
    merge_sort(s, items, items + n, k - 1);
}

/* --- argsort, top_k_v2 -------------------------------------------------------------------------------------------- */

enum { IN_X, OUT_VALUES = 0, OUT_INDICES };

static weft_status prepare_order(kernel_prepare *p, bool descending) {
    sort_state *s = KERNEL_STATE(p, sort_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *values = type_out(p, OUT_VALUES), *indices = type_out(p, OUT_INDICES);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, values, "Out"));
    TRY(require_present(p, indices, "Indices"));
    TRY(require_same_dtype(p, x, values, "Out"));
    s->integers = x->dtype == WEFT_INT32 || x->dtype == WEFT_INT64;
    if (!s->integers && !dtype_is_float(x->dtype))
        return kernel_unsupported(p, "expected X of a type with an order, found %s", dtype_text(x->dtype));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    int64_t columns = s->split.outer * s->split.inner;
    s->k = columns ? values->numel / columns : 0;
    if (s->k > s->split.extent || s->k * columns != values->numel || indices->numel != values->numel ||
        indices->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected Out and int64 Indices of at most %lld elements along the axis",
                                  (long long)s->split.extent);
    s->descending = descending;
    p->workspace_nbytes = 2 * (size_t)s->split.extent * sizeof(item);
    return NULL;
}

static weft_status prepare_argsort(kernel_prepare *p) {
    return prepare_order(p, attr_bool(p->op, "descending", false));
}
static weft_status prepare_top_k(kernel_prepare *p) {
    return prepare_order(p, attr_bool(p->op, "largest", true));
}

static void load_column(const sort_state *s, const tensor *x, int64_t first, item *items) {
    tensor element = *x;
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    for (int64_t i = 0; i < s->split.extent; i++) {
        element.data = (char *)x->data + (size_t)(first + i * s->split.inner) * nbytes;
        items[i] = (item){.index = i};
        if (s->integers)
            items[i].integer = tensor_integer(&element, 0);
        else
            items[i].real = tensor_scalar(&element);
    }
}

static void order_columns(const kernel_call *c, bool all) {
    const sort_state *s = c->state;
    const tensor *x = arg_in(c, IN_X);
    size_t nbytes = weft_dtype_nbytes(x->dtype);
    char *values = arg_out(c, OUT_VALUES)->data;
    int64_t *indices = arg_out(c, OUT_INDICES)->data, n = s->split.extent, step = s->split.inner;
    item *items = c->workspace;
    for (int64_t o = 0; o < s->split.outer; o++)
        for (int64_t i = 0; i < step; i++) {
            int64_t first = o * n * step + i, to = o * s->k * step + i;
            load_column(s, x, first, items);
            if (all)
                merge_sort(s, items, items + n, n);
            else
                order_first(s, items, n, s->k);
            for (int64_t k = 0; k < s->k; k++, to += step) {
                indices[to] = items[k].index;
                memcpy(values + (size_t)to * nbytes,
                       (const char *)x->data + (size_t)(first + items[k].index * step) * nbytes, nbytes);
            }
        }
}

static weft_status run_argsort(const kernel_call *c) {
    order_columns(c, true);
    return NULL;
}
static weft_status run_top_k(const kernel_call *c) {
    const sort_state *s = c->state;
    if (s->k > 0) order_columns(c, false);
    return NULL;
}

const kernel kernel_argsort = {prepare_argsort, run_argsort};
const kernel kernel_top_k_v2 = {prepare_top_k, run_top_k};

/* --- gradients: element k of a column goes to where Indices says -------------------------------------------------- */

typedef struct put_state {
    axis_split split;
    int64_t k;
    int indices, gradient; /* slots */
} put_state;

static weft_status prepare_put(kernel_prepare *p, int indices, int gradient) {
    put_state *s = KERNEL_STATE(p, put_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *index = type_in(p, indices), *dy = type_in(p, gradient);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, dy, "Out@GRAD"));
    TRY(require_numel(p, index, dy->numel, "Indices"));
    TRY(require_numel(p, type_out(p, 0), x->numel, "X@GRAD"));
    TRY(require_same_dtype(p, dy, type_out(p, 0), "X@GRAD"));
    TRY(axis_split_prepare(p, x, attr_int(p->op, "axis", -1), &s->split));
    int64_t columns = s->split.outer * s->split.inner;
    s->k = columns ? dy->numel / columns : 0;
    s->indices = indices;
    s->gradient = gradient;
    return require_numel(p, dy, s->k * columns, "Out@GRAD");
}

static weft_status prepare_argsort_grad(kernel_prepare *p) {
    return prepare_put(p, 1, 2);
}
static weft_status prepare_top_k_grad(kernel_prepare *p) {
    return prepare_put(p, 2, 3);
}

static weft_status run_put(const kernel_call *c) {
    const put_state *s = c->state;
    const tensor *dy = arg_in(c, s->gradient), *indices = arg_in(c, s->indices);
    tensor *dx = arg_out(c, 0);
    size_t nbytes = weft_dtype_nbytes(dy->dtype);
    int64_t step = s->split.inner;
    const char *from = dy->data;
    tensor_clear(dx);
    for (int64_t e = 0; e < dy->numel; e++, from += nbytes) {
        int64_t index = tensor_integer(indices, e), column = e / (s->k * step) * s->split.extent * step + e % step;
        if (index < 0 || index >= s->split.extent)
            return kernel_failed(c, "expected indices of 0 to %lld, found %lld", (long long)s->split.extent - 1,
                                 (long long)index);
        memcpy((char *)dx->data + (size_t)(column + index * step) * nbytes, from, nbytes);
    }
    return NULL;
}

const kernel kernel_argsort_grad = {prepare_argsort_grad, run_put};
const kernel kernel_top_k_v2_grad = {prepare_top_k_grad, run_put};

/* --- accuracy ----------------------------------------------------------------------------------------------------- */

enum { ACC_IN_OUT, ACC_IN_INDICES, ACC_IN_LABEL, ACC_OUT_ACCURACY = 0, ACC_OUT_CORRECT, ACC_OUT_TOTAL };

static weft_status prepare_accuracy(kernel_prepare *p) {
    const tensor *indices = type_in(p, ACC_IN_INDICES), *labels = type_in(p, ACC_IN_LABEL);
    TRY(require_present(p, indices, "Indices"));
    TRY(require_present(p, labels, "Label"));
    for (int i = ACC_OUT_ACCURACY; i <= ACC_OUT_TOTAL; i++) TRY(require_numel(p, type_out(p, i), 1, "an output"));
    if (labels->numel ? indices->numel % labels->numel == 0 : indices->numel == 0) return NULL;
    return kernel_unsupported(p, "expected a Label for each row of Indices");
}

static weft_status run_accuracy(const kernel_call *c) {
    const tensor *indices = arg_in(c, ACC_IN_INDICES), *labels = arg_in(c, ACC_IN_LABEL);
    int64_t n = labels->numel, k = n ? indices->numel / n : 0, correct = 0;
    for (int64_t i = 0; i < n; i++) {
        bool hit = false;
        for (int64_t j = 0; j < k && !hit; j++) hit = tensor_integer(indices, i * k + j) == tensor_integer(labels, i);
        correct += hit;
    }
    const double values[] = {n ? (double)correct / (double)n : 0, (double)correct, (double)n};
    for (int i = ACC_OUT_ACCURACY; i <= ACC_OUT_TOTAL; i++)
        fill_elements(arg_out(c, i)->dtype, arg_out(c, i)->data, 1, values[i]);
    return NULL;
}

const kernel kernel_accuracy = {prepare_accuracy, run_accuracy};
