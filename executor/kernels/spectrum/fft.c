/* fft.c: Fourier transforms over axes, of complex64 to complex64, real to complex and complex to real, and gradients.
 *
 * KISS FFT transforms a line of a tensor at a time; lines of several axes one axis after another. A real line is
 * transformed as a complex one, and of its transform the first half and one is kept (`onesided`): the rest is that
 * mirrored. Paddle: phi/kernels/cpu/fft_{kernel,grad_kernel}.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

#if WEFT_HAVE_KISSFFT
#include <kissfft/kiss_fft.h>
#endif

typedef struct complex64 {
    float re, im;
} complex64;

typedef struct spectrum_state {
    int naxes;
    int axes[WEFT_MAX_RANK];   /* the last one is that of which half may be kept */
    void *plans[WEFT_MAX_RANK]; /* of KISS FFT, one an axis */
    int64_t longest;            /* line */
    float factor;
    bool halved;
} spectrum_state;

/* `whole` has the extents of the transform, without halves; `forward` its direction; the factor is that of the op's. */
static weft_status prepare_plans(kernel_prepare *p, const tensor *whole, bool forward) {
#if !WEFT_HAVE_KISSFFT
    (void)whole, (void)forward;
    return kernel_unsupported(p, "expected a build with KISS FFT (libkissfft-dev)");
#else
    spectrum_state *s = p->state;
    double count = 1;
    for (int k = 0; k < s->naxes; k++) {
        int64_t n = whole->dims[s->axes[k]];
        if (n < 1 || n > INT32_MAX / 2)
            return kernel_unsupported(p, "expected lines of 1 element or more, found %lld", (long long)n);
        count *= (double)n;
        if (n > s->longest) s->longest = n;
        size_t nbytes = 0;
        kiss_fft_alloc((int)n, !forward, NULL, &nbytes);
        void *memory = arena_alloc(p->arena, nbytes);
        if (!memory) return base_out_of_memory();
        s->plans[k] = kiss_fft_alloc((int)n, !forward, memory, &nbytes);
    }
    const char *by = attr_string(p->op, "normalization", "backward");
    bool is_forward = attr_bool(p->op, "forward", true), orthogonal = strcmp(by, "ortho") == 0;
    if (!orthogonal && strcmp(by, "backward") != 0 && strcmp(by, "forward") != 0)
        return kernel_unsupported(p, "normalization: expected backward, forward or ortho, found %s", by);
    s->factor = 1;
    if (orthogonal) s->factor = (float)(1 / sqrt(count));
    if (!orthogonal && is_forward == (*by == 'f')) s->factor = (float)(1 / count);
    return NULL;
#endif
}

static weft_status prepare_axes(kernel_prepare *p, const tensor *x) {
    spectrum_state *s = KERNEL_STATE(p, spectrum_state);
    if (!s) return base_out_of_memory();
    size_t naxes;
    const int64_t *axes = attr_ints(p->op, "axes", &naxes);
    if (naxes < 1 || naxes > (size_t)x->ndim)
        return kernel_unsupported(p, "axes: expected 1 to %d, found %zu", x->ndim, naxes);
    s->naxes = (int)naxes;
    for (int k = 0; k < s->naxes; k++) {
        s->axes[k] = axis_of(x, axes[k]);
        if (s->axes[k] < 0) return kernel_unsupported(p, "axes: X has %d dimensions", x->ndim);
    }
    return NULL;
}

static weft_status require_dtype(const kernel_prepare *p, const tensor *t, weft_dtype dtype, const char *what) {
    TRY(require_present(p, t, what));
    if (t->dtype == dtype) return NULL;
    return kernel_unsupported(p, "%s: expected %s, found %s", what, dtype_text(dtype), dtype_text(t->dtype));
}

/* Like `t`, but for the extent of the last axis. */
static tensor with_last(const spectrum_state *s, const tensor *t, int64_t extent) {
    tensor out = *t;
    out.dims[s->axes[s->naxes - 1]] = extent;
    out.numel = 1;
    for (int d = 0; d < out.ndim; d++) out.numel *= out.dims[d];
    return out;
}

/* Transforms all lines along axis k of `dims` in place; `work` has room for two lines. */
static void transform_axis(const spectrum_state *s, int k, const tensor *dims, complex64 *data, complex64 *work) {
    axis_split split = axis_split_at(dims, s->axes[k]);
    complex64 *from = work, *to = work + split.extent;
    for (int64_t i = 0; i < split.outer * split.inner; i++) {
        complex64 *line = data + i / split.inner * split.extent * split.inner + i % split.inner;
        for (int64_t j = 0; j < split.extent; j++) from[j] = line[j * split.inner];
#if WEFT_HAVE_KISSFFT
        kiss_fft(s->plans[k], (const kiss_fft_cpx *)(const void *)from, (kiss_fft_cpx *)(void *)to);
#endif
        for (int64_t j = 0; j < split.extent; j++) line[j * split.inner] = to[j];
    }
}

static void transform(const spectrum_state *s, int naxes, const tensor *dims, complex64 *data, complex64 *work) {
    for (int k = 0; k < naxes; k++) transform_axis(s, k, dims, data, work);
}

static void scale(float factor, int64_t n, float *data) {
    for (int64_t i = 0; factor != 1 && i < n; i++) data[i] *= factor;
}

/* Lines along the last axis of a tensor of `from_extent`, as the first elements of lines of `to_extent`: cut off, or
 * zeros behind. */
static void copy_lines(const spectrum_state *s, const tensor *from_dims, const complex64 *from, int64_t to_extent,
                       complex64 *to) {
    axis_split split = axis_split_at(from_dims, s->axes[s->naxes - 1]);
    size_t run = (size_t)((split.extent < to_extent ? split.extent : to_extent) * split.inner);
    size_t rest = (size_t)(to_extent * split.inner) - run;
    for (int64_t i = 0; i < split.outer; i++, to += to_extent * split.inner) {
        memcpy(to, from + i * split.extent * split.inner, run * sizeof *to);
        if (rest) memset(to + run, 0, rest * sizeof *to);
    }
}

/* --- complex to complex: the gradient is the transform in the other direction ------------------------------------- */

static weft_status prepare_c2c(kernel_prepare *p, bool grad) {
    const tensor *x = type_in(p, 0), *y = type_out(p, 0);
    TRY(require_dtype(p, x, WEFT_COMPLEX64, "X"));
    TRY(require_dtype(p, y, WEFT_COMPLEX64, "Out"));
    TRY(require_numel(p, y, x->numel, "Out"));
    TRY(prepare_axes(p, x));
    TRY(prepare_plans(p, x, attr_bool(p->op, "forward", true) != grad));
    p->workspace_nbytes = 2 * (size_t)((spectrum_state *)p->state)->longest * sizeof(complex64);
    return NULL;
}

static weft_status prepare_forward(kernel_prepare *p) {
    return prepare_c2c(p, false);
}
static weft_status prepare_backward(kernel_prepare *p) {
    return prepare_c2c(p, true);
}

static weft_status run_c2c(const kernel_call *c) {
    const spectrum_state *s = c->state;
    tensor *y = arg_out(c, 0);
    copy_bytes(y->data, arg_in(c, 0)->data, tensor_nbytes(y));
    transform(s, s->naxes, y, y->data, c->workspace);
    scale(s->factor, 2 * y->numel, y->data);
    return NULL;
}

const kernel kernel_fft_c2c = {prepare_forward, run_c2c};
const kernel kernel_fft_c2c_grad = {prepare_backward, run_c2c};

/* --- real to complex: the gradient is the real part of the transform back, of zeros where no half was kept -------- */

static weft_status prepare_halves(kernel_prepare *p, const tensor *real, const tensor *half, bool forward) {
    TRY(require_dtype(p, real, WEFT_FP32, "the real tensor"));
    TRY(require_dtype(p, half, WEFT_COMPLEX64, "the transform"));
    TRY(prepare_axes(p, real));
    spectrum_state *s = p->state;
    int64_t n = real->dims[s->axes[s->naxes - 1]];
    s->halved = attr_bool(p->op, "onesided", true);
    tensor kept = with_last(s, real, s->halved ? n / 2 + 1 : n);
    TRY(require_numel(p, half, kept.numel, "the transform"));
    TRY(prepare_plans(p, real, forward));
    p->workspace_nbytes = ((size_t)real->numel + 2 * (size_t)s->longest) * sizeof(complex64);
    return NULL;
}

static weft_status prepare_r2c(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, 0), "X"));
    return prepare_halves(p, type_in(p, 0), type_out(p, 0), attr_bool(p->op, "forward", true));
}

static void real_to_half(const kernel_call *c, const tensor *real, tensor *half) {
    const spectrum_state *s = c->state;
    complex64 *whole = c->workspace, *work = whole + real->numel;
    for (int64_t i = 0; i < real->numel; i++) whole[i] = (complex64){((const float *)real->data)[i], 0};
    transform(s, s->naxes, real, whole, work);
    copy_lines(s, real, whole, half->dims[s->axes[s->naxes - 1]], half->data);
    scale(s->factor, 2 * half->numel, half->data);
}

static weft_status run_r2c(const kernel_call *c) {
    real_to_half(c, arg_in(c, 0), arg_out(c, 0));
    return NULL;
}

enum { R2C_X, R2C_OUT_GRAD };

static weft_status prepare_r2c_grad(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    return prepare_halves(p, type_out(p, 0), type_in(p, R2C_OUT_GRAD), !attr_bool(p->op, "forward", true));
}

static weft_status run_r2c_grad(const kernel_call *c) {
    const spectrum_state *s = c->state;
    const tensor *half = arg_in(c, R2C_OUT_GRAD);
    tensor *real = arg_out(c, 0);
    complex64 *whole = c->workspace, *work = whole + real->numel;
    copy_lines(s, half, half->data, real->dims[s->axes[s->naxes - 1]], whole);
    transform(s, s->naxes, real, whole, work);
    for (int64_t i = 0; i < real->numel; i++) ((float *)real->data)[i] = s->factor * whole[i].re;
    return NULL;
}

const kernel kernel_fft_r2c = {prepare_r2c, run_r2c};
const kernel kernel_fft_r2c_grad = {prepare_r2c_grad, run_r2c_grad};

/* --- complex to real: the missing half is the other mirrored. What is there twice has twice the gradient ---------- */

static weft_status prepare_c2r(kernel_prepare *p) {
    TRY(require_present(p, type_out(p, 0), "Out"));
    return prepare_halves(p, type_out(p, 0), type_in(p, 0), attr_bool(p->op, "forward", true));
}

/* Fills the other half of each line along the last axis. */
static void mirror_lines(const spectrum_state *s, const tensor *dims, complex64 *data) {
    axis_split split = axis_split_at(dims, s->axes[s->naxes - 1]);
    for (int64_t i = 0; i < split.outer; i++, data += split.extent * split.inner)
        for (int64_t j = split.extent / 2 + 1; j < split.extent; j++)
            for (int64_t k = 0; k < split.inner; k++) {
                complex64 z = data[(split.extent - j) * split.inner + k];
                data[j * split.inner + k] = (complex64){z.re, -z.im};
            }
}

/* The other axes are transformed first, while half of the lines is there. */
static weft_status run_c2r(const kernel_call *c) {
    const spectrum_state *s = c->state;
    const tensor *half = arg_in(c, 0);
    tensor *real = arg_out(c, 0);
    complex64 *whole = c->workspace, *work = whole + real->numel;
    int last = s->naxes - 1;
    copy_lines(s, half, half->data, real->dims[s->axes[last]], whole);
    transform(s, last, real, whole, work);
    mirror_lines(s, real, whole);
    transform_axis(s, last, real, whole, work);
    for (int64_t i = 0; i < real->numel; i++) ((float *)real->data)[i] = s->factor * whole[i].re;
    return NULL;
}

static weft_status prepare_c2r_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, 0), "Out@GRAD"));
    return prepare_halves(p, type_in(p, 0), type_out(p, 0), !attr_bool(p->op, "forward", true));
}

static weft_status run_c2r_grad(const kernel_call *c) {
    const spectrum_state *s = c->state;
    const tensor *real = arg_in(c, 0);
    tensor *half = arg_out(c, 0);
    real_to_half(c, real, half);
    axis_split split = axis_split_at(half, s->axes[s->naxes - 1]);
    int64_t n = real->dims[s->axes[s->naxes - 1]];
    complex64 *line = half->data;
    for (int64_t i = 0; i < split.outer; i++, line += split.extent * split.inner)
        scale(2, 2 * ((n - 1) / 2) * split.inner, &line[split.inner].re);
    return NULL;
}

const kernel kernel_fft_c2r = {prepare_c2r, run_c2r};
const kernel kernel_fft_c2r_grad = {prepare_c2r_grad, run_c2r_grad};
