/* counted.c: indices and numbers that follow from extents and attrs: corners of matrices, powers evenly spaced, the
 * part of a table that has a row, whether there are elements at all. */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- tril_indices, triu_indices: [2, n], rows and then columns ---------------------------------------------------- */

typedef struct corner {
    int64_t rows, columns, offset;
    bool is_lower;
} corner;

static weft_status prepare_corner(kernel_prepare *p, corner given) {
    corner *s = KERNEL_STATE(p, corner);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    *s = given;
    if (out->dtype != WEFT_INT32 && out->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64, found %s", dtype_text(out->dtype));
    return NULL;
}
static weft_status prepare_tril(kernel_prepare *p) {
    return prepare_corner(
        p, (corner){attr_int(p->op, "rows", 0), attr_int(p->op, "cols", 0), attr_int(p->op, "offset", 0), true});
}
static weft_status prepare_triu(kernel_prepare *p) {
    return prepare_corner(
        p, (corner){attr_int(p->op, "row", 0), attr_int(p->op, "col", 0), attr_int(p->op, "offset", 0), false});
}

static weft_status run_corner(const kernel_call *c) {
    const corner *s = c->state;
    tensor *out = arg_out(c, 0);
    int64_t count = out->numel / 2, n = 0;
    size_t nbytes = weft_dtype_nbytes(out->dtype);
    for (int64_t i = 0; i < s->rows; i++)
        for (int64_t j = 0; j < s->columns; j++) {
            if (s->is_lower ? j - i > s->offset : j - i < s->offset) continue;
            if (n == count) return kernel_failed(c, "expected room for more than %lld indices", (long long)count);
            fill_elements(out->dtype, (char *)out->data + (size_t)n * nbytes, 1, (double)i);
            fill_elements(out->dtype, (char *)out->data + (size_t)(count + n++) * nbytes, 1, (double)j);
        }
    return NULL;
}

const kernel kernel_tril_indices = {prepare_tril, run_corner};
const kernel kernel_triu_indices = {prepare_triu, run_corner};

/* --- logspace: Base to the power of numbers evenly spaced --------------------------------------------------------- */

enum { START, STOP, NUM, BASE };

static weft_status prepare_logspace(kernel_prepare *p) {
    for (int s = START; s <= BASE; s++) TRY(require_present(p, type_in(p, s), p->schema->inputs[s].name));
    return NULL;
}

/* The second half is counted back from Stop, as linspace does. */
static weft_status run_logspace(const kernel_call *c) {
    const tensor *out = arg_out(c, 0);
    double start = host_scalar(c, arg_in(c, START)), stop = host_scalar(c, arg_in(c, STOP));
    double base = host_scalar(c, arg_in(c, BASE));
    int64_t n = out->numel;
    double step = n > 1 ? (stop - start) / (double)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        double power = n == 1 || i < n / 2 ? start + step * (double)i : stop - step * (double)(n - i - 1);
        fill_elements(out->dtype, (char *)out->data + (size_t)i * weft_dtype_nbytes(out->dtype), 1, pow(base, power));
    }
    return NULL;
}

const kernel kernel_logspace = {prepare_logspace, run_logspace};

/* --- is_empty ----------------------------------------------------------------------------------------------------- */

static weft_status prepare_is_empty(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, 0), "X"));
    return require_numel(p, type_out(p, 0), 1, "Out");
}

static weft_status run_is_empty(const kernel_call *c) {
    *(bool *)arg_out(c, 0)->data = arg_in(c, 0)->numel == 0;
    return NULL;
}

const kernel kernel_is_empty = {prepare_is_empty, run_is_empty};

/* --- shard_index: an index within one of nshards equal parts of a table, or ignore_value -------------------------- */

typedef struct shard {
    int64_t extent, index_num, id, ignored;
} shard;

static weft_status prepare_shard_index(kernel_prepare *p) {
    shard *s = KERNEL_STATE(p, shard);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    int64_t nshards = attr_int(p->op, "nshards", 1);
    *s = (shard){.index_num = attr_int(p->op, "index_num", 0),
                 .id = attr_int(p->op, "shard_id", 0),
                 .ignored = attr_int(p->op, "ignore_value", -1)};
    TRY(require_present(p, x, "X"));
    if (x->dtype != WEFT_INT32 && x->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64, found %s", dtype_text(x->dtype));
    if (s->index_num < 1 || nshards < 1 || s->id < 0 || s->id >= nshards)
        return kernel_unsupported(p, "expected index_num and nshards above 0, and shard_id below nshards");
    TRY(require_present(p, type_out(p, 0), "Out"));
    TRY(require_same_dtype(p, x, type_out(p, 0), "Out"));
    s->extent = (s->index_num + nshards - 1) / nshards;
    return require_numel(p, type_out(p, 0), x->numel, "Out");
}

static weft_status run_shard_index(const kernel_call *c) {
    const shard *s = c->state;
    const tensor *x = arg_in(c, 0), *out = arg_out(c, 0);
    for (int64_t i = 0; i < x->numel; i++) {
        int64_t index = tensor_integer(x, i);
        if (index < 0 || index >= s->index_num)
            return kernel_failed(c, "expected an index of 0 to %lld, found %lld", (long long)s->index_num - 1,
                                 (long long)index);
        double value = (double)(index / s->extent == s->id ? index % s->extent : s->ignored);
        fill_elements(out->dtype, (char *)out->data + (size_t)i * weft_dtype_nbytes(out->dtype), 1, value);
    }
    return NULL;
}

const kernel kernel_shard_index = {prepare_shard_index, run_shard_index};
