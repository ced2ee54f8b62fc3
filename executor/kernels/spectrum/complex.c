/* complex.c: complex tensors from real ones and their parts. A complex number is a pair of reals, so that most of these
 * are copies with a stride of 2. Paddle: phi/kernels/impl/complex_{kernel,grad_kernel}_impl.h. */
#include <math.h>

#include "executor/kernels/layout.h"

static weft_status require_parts(const kernel_prepare *p, const tensor *whole, const tensor *part, const char *what) {
    TRY(require_present(p, whole, what));
    TRY(require_present(p, part, what));
    if (!dtype_is_complex(whole->dtype) || part->dtype != dtype_of_parts(whole->dtype))
        return kernel_unsupported(p, "%s: expected complex numbers and their parts, found %s and %s", what,
                                  dtype_text(whole->dtype), dtype_text(part->dtype));
    return NULL;
}

#define DEFINE_COPY(dtype, suffix, real)                                                                               \
    static void copy_##suffix(int64_t n, const void *from, int64_t from_step, void *to, int64_t to_step, int64_t at) { \
        const real *x = from;                                                                                          \
        real *y = (real *)to + at;                                                                                     \
        for (int64_t i = 0; i < n; i++) y[i * to_step] = x ? x[i * from_step] : 0;                                     \
    }
REAL_TYPES(DEFINE_COPY)
#undef DEFINE_COPY

/* y[at + i * to_step] = x[i * from_step], or 0 where there is no x. */
static void copy(weft_dtype dtype, int64_t n, const void *from, int64_t from_step, void *to, int64_t to_step,
                 int64_t at) {
    (dtype == WEFT_FP64 ? copy_fp64 : copy_fp32)(n, from, from_step, to, to_step, at);
}

static const void *moved(const tensor *t, weft_dtype part, int64_t count) {
    return (const char *)t->data + (size_t)count * weft_dtype_nbytes(part);
}

/* --- real, imag: every other element; gradients put them back among zeros ----------------------------------------- */

static weft_status prepare_part(kernel_prepare *p) {
    TRY(require_parts(p, type_in(p, 0), type_out(p, 0), "X"));
    return require_numel(p, type_out(p, 0), type_in(p, 0)->numel, "Out");
}
static weft_status prepare_part_grad(kernel_prepare *p) {
    TRY(require_parts(p, type_out(p, 0), type_in(p, 0), "Out@GRAD"));
    return require_numel(p, type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

static weft_status run_part(const kernel_call *c, int64_t which) {
    tensor *out = arg_out(c, 0);
    if (out->numel) copy(out->dtype, out->numel, moved(arg_in(c, 0), out->dtype, which), 2, out->data, 1, 0);
    return NULL;
}
static weft_status run_part_grad(const kernel_call *c, int64_t which) {
    const tensor *g = arg_in(c, 0);
    tensor *dx = arg_out(c, 0);
    copy(g->dtype, g->numel, g->data, 1, dx->data, 2, which);
    copy(g->dtype, g->numel, NULL, 0, dx->data, 2, 1 - which);
    return NULL;
}

static weft_status run_real(const kernel_call *c) {
    return run_part(c, 0);
}
static weft_status run_imag(const kernel_call *c) {
    return run_part(c, 1);
}
static weft_status run_real_grad(const kernel_call *c) {
    return run_part_grad(c, 0);
}
static weft_status run_imag_grad(const kernel_call *c) {
    return run_part_grad(c, 1);
}

const kernel kernel_real = {prepare_part, run_real};
const kernel kernel_imag = {prepare_part, run_imag};
const kernel kernel_real_grad = {prepare_part_grad, run_real_grad};
const kernel kernel_imag_grad = {prepare_part_grad, run_imag_grad};

/* --- angle: of a real number 0 or pi, and its gradient 0; that of 0 is 0 ------------------------------------------ */

static weft_status require_angle(const kernel_prepare *p, const tensor *x, const tensor *angle) {
    TRY(require_present(p, x, "X"));
    if (dtype_is_complex(x->dtype)) {
        TRY(require_parts(p, x, angle, "Out"));
        return require_numel(p, angle, x->numel, "Out");
    }
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, angle, "Out"));
    return require_like(p, x, angle, x->numel, "Out");
}
static weft_status prepare_angle(kernel_prepare *p) {
    return require_angle(p, type_in(p, 0), type_out(p, 0));
}
static weft_status prepare_angle_grad(kernel_prepare *p) {
    TRY(require_angle(p, type_in(p, 0), type_in(p, 1)));
    TRY(require_present(p, type_out(p, 0), "X@GRAD"));
    TRY(require_same_dtype(p, type_in(p, 0), type_out(p, 0), "X@GRAD"));
    return require_numel(p, type_out(p, 0), type_in(p, 0)->numel, "X@GRAD");
}

/* A complex tensor as its parts, one after another. */
static tensor parts_of(const tensor *t) {
    tensor parts = *t;
    parts.dtype = dtype_of_parts(t->dtype);
    parts.numel = 2 * t->numel;
    return parts;
}

static weft_status run_angle(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    bool is_complex = dtype_is_complex(x->dtype);
    tensor parts = is_complex ? parts_of(x) : *x;
    for (int64_t i = 0; i < x->numel; i++) {
        double re = tensor_real(&parts, is_complex ? 2 * i : i), im = is_complex ? tensor_real(&parts, 2 * i + 1) : 0;
        tensor_set_real(arg_out(c, 0), i, is_complex ? atan2(im, re) : re < 0 ? acos(-1) : isnan(re) ? re : 0);
    }
    return NULL;
}

static weft_status run_angle_grad(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    tensor *dx = arg_out(c, 0);
    tensor_clear(dx);
    if (!dtype_is_complex(x->dtype)) return NULL;
    tensor parts = parts_of(x), slopes = parts_of(dx);
    for (int64_t i = 0; i < x->numel; i++) {
        double re = tensor_real(&parts, 2 * i), im = tensor_real(&parts, 2 * i + 1), size = re * re + im * im;
        if (size == 0) continue;
        double g = tensor_real(arg_in(c, 1), i) / size;
        tensor_set_real(&slopes, 2 * i, -im * g);
        tensor_set_real(&slopes, 2 * i + 1, re * g);
    }
    return NULL;
}

const kernel kernel_angle = {prepare_angle, run_angle};
const kernel kernel_angle_grad = {prepare_angle_grad, run_angle_grad};

/* --- as_real, as_complex: the same bytes; conj: the other sign of every other element ------------------------------
 */

static weft_status prepare_as_real(kernel_prepare *p) {
    TRY(require_parts(p, type_in(p, 0), type_out(p, 0), "X"));
    return require_numel(p, type_out(p, 0), 2 * type_in(p, 0)->numel, "Out");
}
static weft_status prepare_as_complex(kernel_prepare *p) {
    TRY(require_parts(p, type_out(p, 0), type_in(p, 0), "X"));
    return require_numel(p, type_in(p, 0), 2 * type_out(p, 0)->numel, "X");
}

static weft_status run_as(const kernel_call *c) {
    copy_bytes(arg_out(c, 0)->data, arg_in(c, 0)->data, tensor_nbytes(arg_out(c, 0)));
    return NULL;
}

const kernel kernel_as_real = {prepare_as_real, run_as};
const kernel kernel_as_complex = {prepare_as_complex, run_as};

static weft_status prepare_conj(kernel_prepare *p) {
    const tensor *x = type_in(p, 0);
    TRY(require_present(p, x, "X"));
    TRY(require_present(p, type_out(p, 0), "Out"));
    if (!dtype_is_complex(x->dtype)) TRY(require_real(p, x, "X"));
    TRY(require_same_dtype(p, x, type_out(p, 0), "Out"));
    return require_numel(p, type_out(p, 0), x->numel, "Out");
}

static weft_status run_conj(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    tensor *out = arg_out(c, 0);
    copy_bytes(out->data, x->data, tensor_nbytes(x));
    for (int64_t i = 0; i < out->numel; i++) {
        if (out->dtype == WEFT_COMPLEX64) ((float *)out->data)[2 * i + 1] *= -1;
        if (out->dtype == WEFT_COMPLEX128) ((double *)out->data)[2 * i + 1] *= -1;
    }
    return NULL;
}

const kernel kernel_conj = {prepare_conj, run_conj};

/* --- complex: of two parts, either stretched to the other; gradients add up what was stretched -------------------- */

enum { IN_RE, IN_IM, IN_OUT_GRAD, OUT_RE_GRAD = 0, OUT_IM_GRAD };

/* Operand 0 is the complex tensor's index, 1 and 2 are the parts. */
static weft_status prepare_pair(kernel_prepare *p, const tensor *whole) {
    loops *l = KERNEL_STATE(p, loops);
    if (!l) return base_out_of_memory();
    const tensor *re = type_in(p, IN_RE), *im = type_in(p, IN_IM);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_parts(p, whole, re, "X"));
    TRY(require_parts(p, whole, im, "Y"));
    strides_dense(whole->ndim, whole->dims, strides[0]);
    if (!strides_broadcast(re, -1, whole->ndim, whole->dims, strides[1]) ||
        !strides_broadcast(im, -1, whole->ndim, whole->dims, strides[2]))
        return kernel_unsupported(p, "expected X and Y that stretch to one shape");
    loops_init(l, whole->ndim, whole->dims, LOOP_OPERANDS, strides);
    return NULL;
}

static weft_status prepare_complex(kernel_prepare *p) {
    return prepare_pair(p, type_out(p, 0));
}

static weft_status run_complex(const kernel_call *c) {
    const loops *l = c->state;
    const tensor *re = arg_in(c, IN_RE), *im = arg_in(c, IN_IM);
    int64_t n = loops_run(l), step = loops_stride(l, 0);
    for (walk w = walk_start(l); w.left; walk_next(l, &w)) {
        copy(re->dtype, n, moved(re, re->dtype, w.at[1]), loops_stride(l, 1), arg_out(c, 0)->data, 2 * step,
             2 * w.at[0]);
        copy(re->dtype, n, moved(im, re->dtype, w.at[2]), loops_stride(l, 2), arg_out(c, 0)->data, 2 * step,
             2 * w.at[0] + 1);
    }
    return NULL;
}

static weft_status prepare_complex_grad(kernel_prepare *p) {
    TRY(require_present(p, type_in(p, IN_OUT_GRAD), "Out@GRAD"));
    TRY(prepare_pair(p, type_in(p, IN_OUT_GRAD)));
    TRY(require_like(p, type_in(p, IN_RE), type_out(p, OUT_RE_GRAD), type_in(p, IN_RE)->numel, "X@GRAD"));
    return require_like(p, type_in(p, IN_IM), type_out(p, OUT_IM_GRAD), type_in(p, IN_IM)->numel, "Y@GRAD");
}

static weft_status run_complex_grad(const kernel_call *c) {
    const loops *l = c->state;
    tensor parts = *arg_in(c, IN_OUT_GRAD);
    parts.dtype = dtype_of_parts(parts.dtype);
    for (int k = OUT_RE_GRAD; k <= OUT_IM_GRAD; k++) {
        tensor *d = arg_out(c, k);
        if (!d) continue;
        tensor_clear(d);
        for (walk w = walk_start(l); w.left; walk_next(l, &w))
            for (int64_t i = 0; i < loops_run(l); i++) {
                int64_t from = 2 * (w.at[0] + i * loops_stride(l, 0)) + k,
                        to = w.at[1 + k] + i * loops_stride(l, 1 + k);
                tensor_set_real(d, to, tensor_real(d, to) + tensor_real(&parts, from));
            }
    }
    return NULL;
}

const kernel kernel_complex = {prepare_complex, run_complex};
const kernel kernel_complex_grad = {prepare_complex_grad, run_complex_grad};
