/* complex_functions.c: functions of one or two complex numbers, element by element, and their gradients.
 *
 * What flows back through f is d Out times the conjugate of f's derivative, as in Paddle; where an operand was
 * stretched it is summed. Everything is computed in double by the C library, whose branch cuts are those of C++ and so
 * Paddle's. An op is a row: what it is of z (and w), or its derivative by z (and by w). */
#include <complex.h>

#include "executor/kernels/complex_functions.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/loops.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"
#include "ops/rows.h"

typedef double complex number;

#define LN_2 0.69314718055994530942
#define LN_10 2.30258509299404568402

static inline number sigmoid(number z) {
    return 1 / (1 + cexp(-z));
}
static inline number times(number z, double a) {
    return CMPLX(creal(z) * a, cimag(z) * a);
}
/* 0 to the power 0 is 1, and the power of another number by its logarithm. */
static inline number power(number z, number w) {
    return w == 0 ? 1 : z == 0 ? 0 : cpow(z, w);
}

/* F(type, of z) */
#define FUNCTIONS(F)                                                                                                   \
    F(exp, cexp(z))                                                                                                    \
    F(expm1, cexp(z) - 1)                                                                                              \
    F(log, clog(z))                                                                                                    \
    F(log2, times(clog(z), 1 / LN_2))                                                                                  \
    F(log10, times(clog(z), 1 / LN_10))                                                                                \
    F(log1p, clog(1 + z))                                                                                              \
    F(sqrt, csqrt(z))                                                                                                  \
    F(rsqrt, 1 / csqrt(z))                                                                                             \
    F(square, z *z)                                                                                                    \
    F(reciprocal, 1 / z)                                                                                               \
    F(sin, csin(z))                                                                                                    \
    F(cos, ccos(z))                                                                                                    \
    F(tan, ctan(z))                                                                                                    \
    F(asin, casin(z))                                                                                                  \
    F(acos, cacos(z))                                                                                                  \
    F(atan, catan(z))                                                                                                  \
    F(sinh, csinh(z))                                                                                                  \
    F(cosh, ccosh(z))                                                                                                  \
    F(tanh, ctanh(z))                                                                                                  \
    F(asinh, casinh(z))                                                                                                \
    F(acosh, cacosh(z))                                                                                                \
    F(atanh, catanh(z))                                                                                                \
    F(sigmoid, sigmoid(z))                                                                                             \
    F(logsigmoid, -clog(1 + cexp(-z)))                                                                                 \
    F(silu, z *sigmoid(z))                                                                                             \
    F(tanh_shrink, z - ctanh(z))

/* F(type, derivative), z being X, or Out where the row in ops.def has no X. */
#define DERIVATIVES(F)                                                                                                 \
    F(exp_grad, z)                                                                                                     \
    F(expm1_grad, z + 1)                                                                                               \
    F(log_grad, 1 / z)                                                                                                 \
    F(log2_grad, 1 / times(z, LN_2))                                                                                   \
    F(log10_grad, 1 / times(z, LN_10))                                                                                 \
    F(log1p_grad, 1 / (1 + z))                                                                                         \
    F(sqrt_grad, 0.5 / z)                                                                                              \
    F(rsqrt_grad, times(z *z *z, -0.5))                                                                                \
    F(square_grad, times(z, 2))                                                                                        \
    F(reciprocal_grad, -z *z)                                                                                          \
    F(sin_grad, ccos(z))                                                                                               \
    F(cos_grad, -csin(z))                                                                                              \
    F(tan_grad, 1 / (ccos(z) * ccos(z)))                                                                               \
    F(asin_grad, 1 / csqrt(1 - z * z))                                                                                 \
    F(acos_grad, -1 / csqrt(1 - z * z))                                                                                \
    F(atan_grad, 1 / (1 + z * z))                                                                                      \
    F(sinh_grad, ccosh(z))                                                                                             \
    F(cosh_grad, csinh(z))                                                                                             \
    F(tanh_grad, 1 - z * z)                                                                                            \
    F(asinh_grad, 1 / csqrt(z * z + 1))                                                                                \
    F(acosh_grad, 1 / (csqrt(z - 1) * csqrt(z + 1)))                                                                   \
    F(atanh_grad, 1 / (1 - z * z))                                                                                     \
    F(sigmoid_grad, z *(1 - z))                                                                                        \
    F(logsigmoid_grad, sigmoid(-z))                                                                                    \
    F(silu_grad, sigmoid(z) * (1 + z * (1 - sigmoid(z))))                                                              \
    F(tanh_shrink_grad, ctanh(z) * ctanh(z))

/* F(type, of z and w) */
#define PAIRS(F) F(elementwise_pow, power(z, w))
/* F(type, derivative by z, derivative by w) */
#define PAIR_DERIVATIVES(F)                                                                                            \
    F(elementwise_div_grad, 1 / w, -z / (w * w))                                                                       \
    F(elementwise_pow_grad, w *power(z, w - 1), clog(z) * power(z, w))

#define DEFINE_FUNCTION(type, value)                                                                                   \
    static number type##_at(number z) {                                                                                \
        return value;                                                                                                  \
    }
#define DEFINE_PAIR(type, value)                                                                                       \
    static number type##_at(number z, number w) {                                                                      \
        return value;                                                                                                  \
    }
#define DEFINE_BOTH(type, by_z, by_w)                                                                                  \
    static number type##_by_z(number z, number w) {                                                                    \
        (void)z;                                                                                                       \
        return by_z;                                                                                                   \
    }                                                                                                                  \
    static number type##_by_w(number z, number w) {                                                                    \
        return by_w;                                                                                                   \
    }
FUNCTIONS(DEFINE_FUNCTION)
DERIVATIVES(DEFINE_FUNCTION)
PAIRS(DEFINE_PAIR)
PAIR_DERIVATIVES(DEFINE_BOTH)

typedef struct function {
    number (*of)(number z);
    number (*of_pair)(number z, number w);
    number (*by[2])(number z, number w);
    bool is_derivative;
} function;

static const function FUNCTION_OF[NROWS] = {
#define ROW(type, ...) [ROW_##type] = {.of = type##_at},
    FUNCTIONS(ROW)
#undef ROW
#define ROW(type, ...) [ROW_##type] = {.of = type##_at, .is_derivative = true},
        DERIVATIVES(ROW)
#undef ROW
#define ROW(type, ...) [ROW_##type] = {.of_pair = type##_at},
            PAIRS(ROW)
#undef ROW
#define ROW(type, ...) [ROW_##type] = {.by = {type##_by_z, type##_by_w}, .is_derivative = true},
                PAIR_DERIVATIVES(ROW)
#undef ROW
};

static number element(const tensor *t, int64_t i) {
    if (t->dtype == WEFT_COMPLEX128)
        return CMPLX(((const double *)t->data)[2 * i], ((const double *)t->data)[2 * i + 1]);
    return CMPLX((double)((const float *)t->data)[2 * i], (double)((const float *)t->data)[2 * i + 1]);
}

static void set_element(tensor *t, int64_t i, number z) {
    tensor parts = *t;
    parts.dtype = dtype_of_parts(t->dtype);
    tensor_set_real(&parts, 2 * i, creal(z));
    tensor_set_real(&parts, 2 * i + 1, cimag(z));
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

enum { Z, W };

typedef struct state {
    const function *f;
    int z, dout; /* input slots */
    bool wanted[2];
    loops each[2]; /* of pairs: over Out; operands z, w and, of a derivative, its gradient */
    size_t at[2];  /* sums of gradients in the workspace */
} state;

bool complex_function_fits(const kernel_prepare *p) {
    const function *f = p->schema->index < 0 ? NULL : &FUNCTION_OF[p->schema->index];
    if (!f || (!f->of && !f->of_pair && !f->by[Z])) return false;
    for (uint32_t i = 0; i < p->in_first[p->schema->ninputs]; i++)
        if (!dtype_is_complex(p->in[i].dtype) || p->in[i].dtype != p->in[0].dtype) return false;
    for (uint32_t i = 0; i < p->out_first[p->schema->noutputs]; i++)
        if (p->out[i].dtype != p->in[0].dtype) return false;
    return p->in_first[p->schema->ninputs] > 0;
}

static void run_elements(const kernel_call *c, int64_t first, int64_t end) {
    const state *s = c->state;
    const tensor *z = arg_in(c, s->z);
    element_range e = elements_of(c, z->numel, first, end);
    for (int64_t i = e.at; i < e.at + e.n; i++) {
        number value = s->f->of(element(z, i));
        set_element(arg_out(c, 0), i, s->f->is_derivative ? element(arg_in(c, s->dout), i) * conj(value) : value);
    }
}

/* How z, w and `to` lie in `whole`. */
static weft_status prepare_pair(kernel_prepare *p, const tensor *whole, const tensor *to, loops *out) {
    const tensor *operands[] = {type_in(p, Z), type_in(p, W), to};
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    int axis = (int)attr_int(p->op, "axis", -1);
    for (int k = 0; k < LOOP_OPERANDS; k++)
        if (!strides_broadcast(operands[k], operands[k]->ndim == whole->ndim ? -1 : axis, whole->ndim, whole->dims,
                               strides[k]))
            return kernel_unsupported(p, "expected operands that broadcast to the result");
    loops_init(out, whole->ndim, whole->dims, LOOP_OPERANDS, strides);
    return NULL;
}

static weft_status prepare_gradients(kernel_prepare *p, state *s) {
    const tensor *g = type_in(p, s->dout);
    size_t nbytes = 0;
    TRY(require_present(p, g, "Out@GRAD"));
    for (int k = Z; k <= W; k++) {
        s->wanted[k] = type_out(p, k) != NULL;
        if (!s->wanted[k]) continue;
        TRY(require_numel(p, type_out(p, k), type_in(p, k)->numel, "a gradient"));
        TRY(prepare_pair(p, g, type_in(p, k), &s->each[k]));
        s->at[k] = nbytes;
        nbytes += (size_t)type_in(p, k)->numel * sizeof(number);
    }
    p->workspace_nbytes = nbytes;
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    state *s = KERNEL_STATE(p, state);
    if (!s) return base_out_of_memory();
    s->f = &FUNCTION_OF[p->schema->index];
    s->dout = s->f->is_derivative ? (int)p->schema->ninputs - 1 : -1;
    TRY(require_present(p, type_in(p, Z), "the first argument"));
    if (!s->f->of) {
        TRY(require_present(p, type_in(p, W), "the second argument"));
        if (s->f->is_derivative) return prepare_gradients(p, s);
        TRY(require_present(p, type_out(p, 0), "the result"));
        return prepare_pair(p, type_out(p, 0), type_out(p, 0), &s->each[Z]);
    }
    TRY(require_present(p, type_out(p, 0), "the result"));
    TRY(require_numel(p, type_out(p, 0), type_in(p, Z)->numel, "the result"));
    if (s->f->is_derivative) {
        TRY(require_present(p, type_in(p, s->dout), "Out@GRAD"));
        TRY(require_numel(p, type_in(p, s->dout), type_in(p, Z)->numel, "Out@GRAD"));
    }
    split_elements(p, run_elements, type_in(p, Z)->numel);
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static void run_pairs(const kernel_call *c, const state *s) {
    const loops *l = &s->each[Z];
    for (walk k = walk_start(l); k.left; walk_next(l, &k))
        for (int64_t i = 0; i < loops_run(l); i++) {
            number z = element(arg_in(c, Z), k.at[0] + i * loops_stride(l, 0));
            number w = element(arg_in(c, W), k.at[1] + i * loops_stride(l, 1));
            set_element(arg_out(c, 0), k.at[2] + i * loops_stride(l, 2), s->f->of_pair(z, w));
        }
}

static void run_gradient(const kernel_call *c, const state *s, int of) {
    const loops *l = &s->each[of];
    tensor *d = arg_out(c, of);
    number *sums = (number *)(void *)((char *)c->workspace + s->at[of]);
    memset(sums, 0, (size_t)d->numel * sizeof *sums);
    for (walk k = walk_start(l); k.left; walk_next(l, &k))
        for (int64_t i = 0; i < loops_run(l); i++) {
            number z = element(arg_in(c, Z), k.at[0] + i * loops_stride(l, 0));
            number w = element(arg_in(c, W), k.at[1] + i * loops_stride(l, 1));
            number g = element(arg_in(c, s->dout), k.position + i);
            sums[k.at[2] + i * loops_stride(l, 2)] += g * conj(s->f->by[of](z, w));
        }
    for (int64_t i = 0; i < d->numel; i++) set_element(d, i, sums[i]);
}

static weft_status run(const kernel_call *c) {
    const state *s = c->state;
    if (s->f->of) return kernel_run_rows(c);
    if (!s->f->is_derivative) run_pairs(c, s);
    for (int k = Z; k <= W; k++)
        if (s->wanted[k]) run_gradient(c, s, k);
    return NULL;
}

const kernel kernel_complex_function = {prepare, run};
