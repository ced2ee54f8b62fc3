/* selected_rows.c: sorting and adding up rows by index, and the ops that do no more. */
#include "executor/kernels/selected_rows.h"

/* --- merging ------------------------------------------------------------------------------------------------------ */

size_t selected_rows_merge_nbytes(const tensor *x) {
    return x->height < 0 ? 0 : 2 * (size_t)x->dims[0] * sizeof(int64_t);
}

/* Positions in rising order of their rows, equal ones as they stand; returns the array that holds them. */
static const int64_t *sorted_positions(const int64_t *rows, int64_t n, int64_t *from, int64_t *to) {
    for (int64_t i = 0; i < n; i++) from[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            for (int64_t a = begin, b = middle, k = begin; k < end; k++) {
                bool left = a < middle && (b >= end || rows[from[a]] <= rows[from[b]]);
                to[k] = left ? from[a++] : from[b++];
            }
        }
        int64_t *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

#define DEFINE_ADD(type_id, suffix, real)                                                                              \
    static void add_##suffix(int64_t n, const real *restrict from, real *restrict to) {                                \
        for (int64_t i = 0; i < n; i++) to[i] += from[i];                                                              \
    }
REAL_TYPES(DEFINE_ADD)
#undef DEFINE_ADD

void selected_rows_merge(const tensor *x, tensor *out, void *workspace) {
    int64_t n = x->dims[0], width = n ? x->numel / n : 0, count = -1;
    const int64_t *order = sorted_positions(x->rows, n, workspace, (int64_t *)workspace + n);
    tensor_clear(out);
    for (int64_t k = 0; k < n; k++) {
        int64_t from = order[k];
        if (count < 0 || out->rows[count] != x->rows[from]) out->rows[++count] = x->rows[from];
        if (x->dtype == WEFT_FP64)
            add_fp64(width, (const double *)x->data + from * width, (double *)out->data + count * width);
        else
            add_fp32(width, (const float *)x->data + from * width, (float *)out->data + count * width);
    }
    for (int64_t k = count + 1; k < n; k++) out->rows[k] = out->rows[count];
}

void selected_rows_keep(const tensor *x, const tensor *out) {
    if (x->rows && out->rows) copy_bytes(out->rows, x->rows, (size_t)x->dims[0] * sizeof *x->rows);
}

/* --- merge_selected_rows, get_tensor_from_selected_rows ----------------------------------------------------------- */

enum { IN_X, OUT = 0 };

static weft_status prepare_same(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X), *out = type_out(p, OUT);
    TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, out, "Out"));
    return require_numel(p, out, x->numel, "Out");
}

static weft_status prepare_merge(kernel_prepare *p) {
    TRY(prepare_same(p));
    p->workspace_nbytes = selected_rows_merge_nbytes(type_in(p, IN_X));
    return NULL;
}

static weft_status run_merge(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X);
    if (x->rows)
        selected_rows_merge(x, arg_out(c, OUT), c->workspace);
    else
        copy_bytes(arg_out(c, OUT)->data, x->data, tensor_nbytes(x));
    return NULL;
}

static weft_status run_values(const kernel_call *c) {
    const tensor *x = arg_in(c, IN_X);
    copy_bytes(arg_out(c, OUT)->data, x->data, tensor_nbytes(x));
    return NULL;
}

const kernel kernel_merge_selected_rows = {prepare_merge, run_merge};
const kernel kernel_get_tensor_from_selected_rows = {prepare_same, run_values};
