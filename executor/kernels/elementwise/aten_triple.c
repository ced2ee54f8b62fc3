/* aten_triple.c: self + value * (tensor1 * tensor2), or / tensor2; self within bounds that are tensors: of three
 * operands that broadcast, or of three lists of them (torch: aten/src/ATen/native/cpu/PointwiseOpsKernel.cpp). */
#include "executor/kernels/layout.h"

/* What is computed of x, a, b and a number. */
#define MULTIPLIED(x, a, b, value) (x) + (value) * ((a) * (b))
#define DIVIDED(x, a, b, value) (x) + (value) * ((a) / (b))
#define CLAMPED(x, a, b, value) least(most(x, a), b)
#define most(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define least(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))

typedef struct triple_state {
    loops loops; /* over the output, which is dense */
    double value;
} triple_state;

/* Of operands x[0], x[1] and x[2]. */
static weft_status prepare_loops(const kernel_prepare *p, const tensor *const x[LOOP_OPERANDS], const tensor *out,
                                 triple_state *s) {
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_real(p, out, "out"));
    for (int k = 0; k < LOOP_OPERANDS; k++) {
        TRY(require_present(p, x[k], "an operand"));
        TRY(require_same_dtype(p, out, x[k], "an operand"));
        if (x[k]->ndim > out->ndim || !strides_broadcast(x[k], -1, out->ndim, out->dims, strides[k]))
            return kernel_unsupported(p, "expected operands that broadcast to the output");
    }
    loops_init(&s->loops, out->ndim, out->dims, LOOP_OPERANDS, strides);
    return NULL;
}

static weft_status prepare(kernel_prepare *p) {
    triple_state *s = KERNEL_STATE(p, triple_state);
    if (!s) return base_out_of_memory();
    s->value = attr_float(p->op, "value", 1);
    return prepare_loops(p, (const tensor *const[]){type_in(p, 0), type_in(p, 1), type_in(p, 2)}, type_out(p, 0), s);
}

static weft_status prepare_lists(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    size_t ngiven;
    const double *given = attr_floats(p->op, "scalars", &ngiven);
    triple_state *states = ARENA_ARRAY(p->arena, triple_state, n ? n : 1);
    p->state = states;
    if (!states) return base_out_of_memory();
    if (p->in_first[2] != 2 * n || p->in_first[3] != 3 * n || p->out_first[1] != n || (ngiven && ngiven != n))
        return kernel_unsupported(p, "expected lists of %u tensors", n);
    for (uint32_t k = 0; k < n; k++) {
        states[k].value = ngiven ? given[k] : attr_float(p->op, "value", 1);
        TRY(prepare_loops(p, (const tensor *const[]){&p->in[k], &p->in[n + k], &p->in[2 * n + k]}, &p->out[k],
                          &states[k]));
    }
    return NULL;
}

#define DEFINE_TYPED(name, suffix, real, FUNCTION)                                                                     \
    static void name##_##suffix(const triple_state *s, const real *x, const real *a, const real *b, real *outs) {      \
        real value = (real)s->value;                                                                                   \
        int64_t xs = loops_stride(&s->loops, 0), as = loops_stride(&s->loops, 1), bs = loops_stride(&s->loops, 2);     \
        (void)value;                                                                                                   \
        for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w)) {                                       \
            real *out = outs + w.position;                                                                             \
            const real *xw = x + w.at[0], *aw = a + w.at[1], *bw = b + w.at[2];                                        \
            for (int64_t i = 0; i < loops_run(&s->loops); i++)                                                         \
                out[i] = FUNCTION(xw[i * xs], aw[i * as], bw[i * bs], value);                                          \
        }                                                                                                              \
    }

#define DEFINE_RUNS(name, FUNCTION)                                                                                    \
    DEFINE_TYPED(name, fp32, float, FUNCTION)                                                                          \
    DEFINE_TYPED(name, fp64, double, FUNCTION)                                                                         \
    static void name##_of(const triple_state *s, const tensor *x, const tensor *a, const tensor *b, tensor *out) {     \
        if (out->dtype == WEFT_FP64)                                                                                   \
            name##_fp64(s, x->data, a->data, b->data, out->data);                                                      \
        else                                                                                                           \
            name##_fp32(s, x->data, a->data, b->data, out->data);                                                      \
    }                                                                                                                  \
    static weft_status run_##name(const kernel_call *c) {                                                              \
        const triple_state *states = c->state;                                                                         \
        uint32_t n = c->in_first[1];                                                                                   \
        for (uint32_t k = 0; k < n; k++)                                                                               \
            name##_of(&states[k], &c->in[k], &c->in[n + k], &c->in[2 * n + k], &c->out[k]);                            \
        return NULL;                                                                                                   \
    }
DEFINE_RUNS(addcmul, MULTIPLIED)
DEFINE_RUNS(addcdiv, DIVIDED)
DEFINE_RUNS(clamp, CLAMPED)

const kernel kernel_aten_addcmul = {prepare, run_addcmul};
const kernel kernel_aten_addcdiv = {prepare, run_addcdiv};
const kernel kernel_aten_clamp_tensor = {prepare, run_clamp};
const kernel kernel_aten_foreach_addcmul = {prepare_lists, run_addcmul};
const kernel kernel_aten_foreach_addcdiv = {prepare_lists, run_addcdiv};
