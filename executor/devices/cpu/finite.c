/* finite.c: whether what a kernel has just written is finite (options.check_finite_every).
 *
 * A check is a call around the kernel's own, made when the plan is recorded: where nobody asked there is none, and a
 * step does nothing for it. */
#include "executor/devices/cpu/cpu.h"

/* The exponent of what is not finite has all bits set. */
#define DEFINE_FIND(name, type, exponent)                                                                              \
    static bool any_##name(const type *bits, int64_t n) {                                                              \
        type any = 0;                                                                                                  \
        for (int64_t i = 0; i < n; i++) any |= (bits[i] & (exponent)) == (exponent);                                   \
        return any;                                                                                                    \
    }                                                                                                                  \
    static int64_t first_##name(const type *bits, int64_t n) {                                                         \
        int64_t i = 0;                                                                                                 \
        while (i < n && (bits[i] & (exponent)) != (exponent)) i++;                                                     \
        return i;                                                                                                      \
    }
DEFINE_FIND(fp64, uint64_t, UINT64_C(0x7ff0000000000000))
DEFINE_FIND(fp32, uint32_t, 0x7f800000u)
DEFINE_FIND(fp16, uint16_t, 0x7c00u)
DEFINE_FIND(bf16, uint16_t, 0x7f80u)
#undef DEFINE_FIND

/* The first element that is not finite; -1: there is none. */
static int64_t find_not_finite(const tensor *t) {
    if (!t->data) return -1;
    switch ((int)t->dtype) {
    case WEFT_FP64: return any_fp64(t->data, t->numel) ? first_fp64(t->data, t->numel) : -1;
    case WEFT_FP32: return any_fp32(t->data, t->numel) ? first_fp32(t->data, t->numel) : -1;
    case WEFT_FP16: return any_fp16(t->data, t->numel) ? first_fp16(t->data, t->numel) : -1;
    case WEFT_BF16: return any_bf16(t->data, t->numel) ? first_bf16(t->data, t->numel) : -1;
    default: return -1;
    }
}

static double element_of(const tensor *t, int64_t i) {
    switch ((int)t->dtype) {
    case WEFT_FP64: return ((const double *)t->data)[i];
    case WEFT_FP32: return (double)((const float *)t->data)[i];
    case WEFT_FP16: return (double)fp16_to_f32(((const uint16_t *)t->data)[i]);
    default: return (double)bf16_to_f32(((const uint16_t *)t->data)[i]);
    }
}

weft_status cpu_check_finite(const kernel_call *c, const rank_state *rank, const plan_instr *instr) {
    for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++) {
        int64_t at = instr->out[k] >= 0 ? find_not_finite(&c->out[k]) : -1;
        if (at < 0) continue;
        return weft_status_create(WEFT_RUNTIME, NULL,
                                  "output \"%s\" is not finite: element %lld of %lld is %g, in step %llu",
                                  rank->plan->values[instr->out[k]].name, (long long)at, (long long)c->out[k].numel,
                                  element_of(&c->out[k], at), (unsigned long long)(c->step ? *c->step : 0));
    }
    return NULL;
}
