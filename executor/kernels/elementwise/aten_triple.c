/* aten_triple.c: self + value * (tensor1 * tensor2), or / tensor2: of three operands that broadcast
 * (torch: aten/src/ATen/native/cpu/PointwiseOpsKernel.cpp). */
#include "executor/kernels/layout.h"

typedef struct triple_state {
    loops loops; /* over the output, which is dense */
    double value;
    bool divides;
} triple_state;

static weft_status prepare(kernel_prepare *p, bool divides) {
    triple_state *s = KERNEL_STATE(p, triple_state);
    const tensor *out = type_out(p, 0);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    if (!s) return base_out_of_memory();
    TRY(require_real(p, out, "out"));
    for (int k = 0; k < LOOP_OPERANDS; k++) {
        const tensor *t = type_in(p, k);
        TRY(require_present(p, t, "an operand"));
        TRY(require_same_dtype(p, out, t, "an operand"));
        if (t->ndim > out->ndim || !strides_broadcast(t, -1, out->ndim, out->dims, strides[k]))
            return kernel_unsupported(p, "expected operands that broadcast to the output");
    }
    s->value = attr_float(p->op, "value", 1);
    s->divides = divides;
    loops_init(&s->loops, out->ndim, out->dims, LOOP_OPERANDS, strides);
    return NULL;
}

static weft_status prepare_addcmul(kernel_prepare *p) {
    return prepare(p, false);
}
static weft_status prepare_addcdiv(kernel_prepare *p) {
    return prepare(p, true);
}

#define DEFINE_RUN(dtype, suffix, real)                                                                                \
    static void run_##suffix(const kernel_call *c, const triple_state *s) {                                            \
        const real *x = arg_in(c, 0)->data, *a = arg_in(c, 1)->data, *b = arg_in(c, 2)->data, value = (real)s->value;  \
        int64_t xs = loops_stride(&s->loops, 0), as = loops_stride(&s->loops, 1), bs = loops_stride(&s->loops, 2);     \
        for (walk w = walk_start(&s->loops); w.left; walk_next(&s->loops, &w)) {                                       \
            real *out = (real *)arg_out(c, 0)->data + w.position;                                                      \
            const real *xw = x + w.at[0], *aw = a + w.at[1], *bw = b + w.at[2];                                        \
            if (s->divides)                                                                                            \
                for (int64_t i = 0; i < loops_run(&s->loops); i++)                                                     \
                    out[i] = xw[i * xs] + value * (aw[i * as] / bw[i * bs]);                                           \
            else                                                                                                       \
                for (int64_t i = 0; i < loops_run(&s->loops); i++)                                                     \
                    out[i] = xw[i * xs] + value * (aw[i * as] * bw[i * bs]);                                           \
        }                                                                                                              \
    }
REAL_TYPES(DEFINE_RUN)
#undef DEFINE_RUN

static weft_status run(const kernel_call *c) {
    if (arg_out(c, 0)->dtype == WEFT_FP64)
        run_fp64(c, c->state);
    else
        run_fp32(c, c->state);
    return NULL;
}

const kernel kernel_aten_addcmul = {prepare_addcmul, run};
const kernel kernel_aten_addcdiv = {prepare_addcdiv, run};
