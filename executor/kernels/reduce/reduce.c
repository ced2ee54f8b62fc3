/* reduce.c: sums and means over dimensions, their gradients, and squared_l2_norm.
 *
 * Floats are added up in double, integers and booleans in int64, in row-major order of X. A gradient repeats d Out
 * along the reduced dimensions, divided by their extent for a mean. */
#include "executor/kernels/reduce/reduce.h"
#include "executor/kernels/accumulate.h"
#include "executor/kernels/layout.h"

enum { X, DOUT };

typedef struct state {
    loops loops; /* over X's dims; operands: X (or d X), Out (or d Out) */
    double factor;
} state;

weft_status reduce_dims(const kernel_prepare *p, const tensor *x, loops *out_kept, loops *out_gone) {
    size_t count;
    const int64_t *dims = attr_ints(p->op, "dim", &count);
    int64_t extents[2][WEFT_MAX_RANK], strides[2][LOOP_OPERANDS][WEFT_MAX_RANK], dense[WEFT_MAX_RANK];
    bool gone[WEFT_MAX_RANK] = {false};
    int n[2] = {0, 0};
    for (size_t k = 0; k < count; k++) {
        int d = axis_of(x, dims[k]);
        if (d < 0) return kernel_unsupported(p, "dim: expected a dimension of self, found %lld", (long long)dims[k]);
        gone[d] = true;
    }
    strides_dense(x->ndim, x->dims, dense);
    for (int d = 0; d < x->ndim; d++) {
        int side = gone[d] || !count;
        extents[side][n[side]] = x->dims[d];
        strides[side][0][n[side]++] = dense[d];
    }
    loops_init(out_kept, n[0], extents[0], 1, strides[0]);
    loops_init(out_gone, n[1], extents[1], 1, strides[1]);
    return NULL;
}

/* Strides of the result along X's dims: 0 where reduced. Every dim is reduced if reduce_all is set or `dim` is empty.
 */
static weft_status result_strides(const kernel_prepare *p, const char *attr, const tensor *x, int64_t *out_strides,
                                  int64_t *out_nkept) {
    bool reduced[WEFT_MAX_RANK] = {false};
    size_t count = 0;
    const int64_t *dim = attr_ints(p->op, attr, &count);
    bool all = count == 0 || attr_bool(p->op, "reduce_all", false);
    for (size_t i = 0; i < count && !all; i++) {
        int64_t axis = dim[i] < 0 ? dim[i] + x->ndim : dim[i];
        if (axis < 0 || axis >= x->ndim) {
            if (x->ndim == 0) continue;
            return kernel_unsupported(p, "expected dim in [-%d, %d), found %lld", x->ndim, x->ndim, (long long)dim[i]);
        }
        reduced[axis] = true;
    }
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        bool kept = !all && !reduced[i];
        out_strides[i] = kept ? stride : 0;
        if (kept) stride *= x->dims[i];
    }
    *out_nkept = stride;
    return NULL;
}

weft_status reduce_loops(const kernel_prepare *p, const char *attr, const tensor *x, const tensor *result, loops *out) {
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK] = {{0}}, nkept = 1;
    strides_dense(x->ndim, x->dims, strides[0]);
    if (attr) TRY(result_strides(p, attr, x, strides[1], &nkept));
    if (result->numel != nkept)
        return kernel_unsupported(p, "expected %lld elements in the reduced tensor, found %lld", (long long)nkept,
                                  (long long)result->numel);
    loops_init(out, x->ndim, x->dims, 2, strides);
    return NULL;
}

/* The loops between `x` (X or d X) and `result` (Out or d Out). */
static weft_status prepare_loops(kernel_prepare *p, const tensor *x, const tensor *result, bool everything) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    s->factor = 1;
    return reduce_loops(p, everything ? NULL : "dim", x, result, &s->loops);
}

static double mean_factor(const tensor *x, const tensor *result) {
    return result->numel ? (double)result->numel / (double)x->numel : 1;
}

static bool is_integer(weft_dtype d) {
    return d == WEFT_BOOL || d == WEFT_INT32 || d == WEFT_INT64 || d == WEFT_UINT8;
}

static weft_status prepare_forward(kernel_prepare *p, bool is_mean, bool everything) {
    const tensor *x = type_in(p, X), *out = type_out(p, 0);
    TRY(prepare_loops(p, x, out, everything));
    state *s = p->state;
    if (is_mean) s->factor = mean_factor(x, out);
    bool floats = dtype_is_float(x->dtype) && dtype_is_float(out->dtype);
    bool integers =
        !is_mean && is_integer(x->dtype) &&
        (out->dtype == WEFT_INT64 || out->dtype == WEFT_INT32 || out->dtype == WEFT_FP32 || out->dtype == WEFT_FP64);
    if (!floats && !integers)
        return kernel_unsupported(p, "no such reduction of %s to %s", dtype_text(x->dtype), dtype_text(out->dtype));
    p->workspace_nbytes = (size_t)out->numel * sizeof(double);
    return NULL;
}

static void sum_integers(const loops *l, const tensor *x, tensor *out, int64_t *acc) {
    int64_t n = loops_run(l), xs = loops_stride(l, 0), stride = loops_stride(l, 1);
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        for (int64_t i = 0; i < n; i++)
            acc[w.at[1] + i * stride] =
                (int64_t)((uint64_t)acc[w.at[1] + i * stride] + (uint64_t)tensor_integer(x, w.at[0] + i * xs));
    for (int64_t i = 0; i < out->numel; i++) {
        if (out->dtype == WEFT_INT64) {
            ((int64_t *)out->data)[i] = acc[i];
        } else if (out->dtype == WEFT_INT32) {
            ((int32_t *)out->data)[i] = (int32_t)acc[i];
        } else {
            tensor_set_real(out, i, (double)acc[i]);
        }
    }
}

static weft_status run_forward(const kernel_call *c) {
    const state *s = c->state;
    const tensor *x = arg_in(c, X);
    tensor *out = arg_out(c, 0);
    memset(c->workspace, 0, (size_t)out->numel * sizeof(double));
    if (!dtype_is_float(x->dtype)) {
        sum_integers(&s->loops, x, out, c->workspace);
        return NULL;
    }
    double *acc = c->workspace;
    accumulate_loops(&s->loops, x->dtype, x->data, acc);
    for (int64_t i = 0; i < out->numel; i++) acc[i] *= s->factor;
    store_doubles(out->dtype, out->numel, acc, out->data);
    return NULL;
}

static weft_status prepare_sum(kernel_prepare *p) {
    return prepare_forward(p, false, false);
}
static weft_status prepare_mean(kernel_prepare *p) {
    return prepare_forward(p, true, false);
}
static weft_status prepare_mean_of_all(kernel_prepare *p) {
    return prepare_forward(p, true, true);
}

const kernel kernel_reduce_sum = {prepare_sum, run_forward};
const kernel kernel_reduce_mean = {prepare_mean, run_forward};
const kernel kernel_mean = {prepare_mean_of_all, run_forward};

/* --- gradients ---------------------------------------------------------------------------------------------------- */

static weft_status prepare_gradient(kernel_prepare *p, bool is_mean, bool everything) {
    const tensor *dx = type_out(p, 0), *dout = type_in(p, DOUT);
    TRY(prepare_loops(p, dx, dout, everything));
    state *s = p->state;
    if (is_mean) s->factor = mean_factor(dx, dout);
    bool floats = dtype_is_float(dx->dtype) && dtype_is_float(dout->dtype);
    if (!floats && (is_mean || !is_integer(dx->dtype) || !is_integer(dout->dtype)))
        return kernel_unsupported(p, "expected float types, found %s and %s", dtype_text(dout->dtype),
                                  dtype_text(dx->dtype));
    return NULL;
}

/* n elements of d X from contiguous d Out. */
static void scale_run(const tensor *dout, int64_t from, const tensor *dx, int64_t to, int64_t n, double factor) {
    const char *src = (const char *)dout->data + (size_t)from * weft_dtype_nbytes(dout->dtype);
    char *dst = (char *)dx->data + (size_t)to * weft_dtype_nbytes(dx->dtype);
    double values[BLOCK];
    load_doubles(dout->dtype, n, src, values);
    for (int64_t i = 0; i < n; i++) values[i] *= factor;
    store_doubles(dx->dtype, n, values, dst);
}

/* Of counts, whose gradients end in integers. */
static void spread_integers(const loops *l, const tensor *dout, const tensor *dx) {
    int64_t n = loops_run(l);
    for (walk w = walk_start(l); w.left; walk_next(l, &w))
        for (int64_t i = 0; i < n; i++)
            fill_elements(dx->dtype, (char *)dx->data + (size_t)(w.at[0] + i) * weft_dtype_nbytes(dx->dtype), 1,
                          (double)tensor_integer(dout, w.at[1] + i * loops_stride(l, 1)));
}

static weft_status run_gradient(const kernel_call *c) {
    const state *s = c->state;
    const loops *l = &s->loops;
    const tensor *dout = arg_in(c, DOUT), *dx = arg_out(c, 0);
    int64_t n = loops_run(l);
    if (!dtype_is_float(dx->dtype)) {
        spread_integers(l, dout, dx);
        return NULL;
    }
    for (walk w = walk_start(l); w.left; walk_next(l, &w)) {
        if (loops_stride(l, 1) == 0) {
            double value;
            load_doubles(dout->dtype, 1, (const char *)dout->data + (size_t)w.at[1] * weft_dtype_nbytes(dout->dtype),
                         &value);
            fill_elements(dx->dtype, (char *)dx->data + (size_t)w.at[0] * weft_dtype_nbytes(dx->dtype), n,
                          value * s->factor);
        } else {
            for (int64_t i = 0; i < n; i += BLOCK)
                scale_run(dout, w.at[1] + i, dx, w.at[0] + i, block_size(n - i), s->factor);
        }
    }
    return NULL;
}

static weft_status prepare_sum_grad(kernel_prepare *p) {
    return prepare_gradient(p, false, false);
}
static weft_status prepare_mean_grad(kernel_prepare *p) {
    return prepare_gradient(p, true, false);
}
static weft_status prepare_mean_of_all_grad(kernel_prepare *p) {
    return prepare_gradient(p, true, true);
}

const kernel kernel_reduce_sum_grad = {prepare_sum_grad, run_gradient};
const kernel kernel_reduce_mean_grad = {prepare_mean_grad, run_gradient};
const kernel kernel_mean_grad = {prepare_mean_of_all_grad, run_gradient};

/* --- squared_l2_norm ---------------------------------------------------------------------------------------------- */

static weft_status prepare_squared_norm(kernel_prepare *p) {
    const tensor *x = type_in(p, X), *out = type_out(p, 0);
    if (dtype_is_float(x->dtype) && dtype_is_float(out->dtype)) return NULL;
    return kernel_unsupported(p, "expected a float type, found %s", dtype_text(x->dtype));
}

static weft_status run_squared_norm(const kernel_call *c) {
    const tensor *x = arg_in(c, X), *out = arg_out(c, 0);
    double total = sum_of_squares(x->dtype, x->numel, x->data);
    store_doubles(out->dtype, 1, &total, out->data);
    return NULL;
}

const kernel kernel_squared_l2_norm = {prepare_squared_norm, run_squared_norm};
