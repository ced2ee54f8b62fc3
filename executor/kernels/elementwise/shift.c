/* shift.c: bits of integers moved to the left or to the right.
 *
 * By fewer than none, or by all that an integer has, nothing is left of it. To the right a sign fills what is free, or
 * with is_arithmetic = false zeros do. Paddle: phi/kernels/funcs/bitwise_functors.h. */
#include "executor/kernels/elementwise/elementwise.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/loops.h"

typedef void (*shift_fn)(const loops *l, const void *x, const void *y, void *out);

typedef struct shift_state {
    loops l; /* X, Y, and the result */
    shift_fn run;
} shift_state;

/* By so many an integer keeps some of its bits. */
#define KEEPS(type, b) ((uint64_t)(int64_t)(b) < 8 * sizeof(type))

/* `bits`: the unsigned type of as many. */
#define DEFINE_SHIFTS(suffix, type, bits)                                                                              \
    DEFINE_RUN(left_##suffix, type, KEEPS(type, b) ? (type)(bits)((uint64_t)(bits)a << b) : (type)0)                   \
    DEFINE_RUN(right_##suffix, type, KEEPS(type, b) ? (type)(a >> b) : (type)(a < (type)1 && a ? -1 : 0))              \
    DEFINE_RUN(freed_##suffix, type, KEEPS(type, b) ? (type)((bits)a >> b) : (type)0)
#define DEFINE_RUN(name, type, result)                                                                                 \
    static void run_##name(const loops *l, const void *x, const void *y, void *out) {                                  \
        for (walk w = walk_start(l); w.left; walk_next(l, &w))                                                         \
            for (int64_t i = 0; i < loops_run(l); i++) {                                                               \
                type a = ((const type *)x)[w.at[0] + i * loops_stride(l, 0)];                                          \
                type b = ((const type *)y)[w.at[1] + i * loops_stride(l, 1)];                                          \
                ((type *)out)[w.at[2] + i * loops_stride(l, 2)] = (type)(result);                                      \
            }                                                                                                          \
    }
DEFINE_SHIFTS(int8, int8_t, uint8_t)
DEFINE_SHIFTS(int16, int16_t, uint16_t)
DEFINE_SHIFTS(int32, int32_t, uint32_t)
DEFINE_SHIFTS(int64, int64_t, uint64_t)
DEFINE_SHIFTS(uint8, uint8_t, uint8_t)
#undef DEFINE_RUN
#undef DEFINE_SHIFTS
#undef KEEPS

static const struct {
    weft_dtype dtype;
    shift_fn left, right, freed;
} shifts[] = {{WEFT_INT8, run_left_int8, run_right_int8, run_freed_int8},
              {WEFT_INT16, run_left_int16, run_right_int16, run_freed_int16},
              {WEFT_INT32, run_left_int32, run_right_int32, run_freed_int32},
              {WEFT_INT64, run_left_int64, run_right_int64, run_freed_int64},
              {WEFT_UINT8, run_left_uint8, run_right_uint8, run_freed_uint8}};

static weft_status prepare_shift(kernel_prepare *p, bool to_left) {
    shift_state *s = KERNEL_STATE(p, shift_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0), *y = type_in(p, 1), *out = type_out(p, 0);
    int64_t strides[LOOP_OPERANDS][WEFT_MAX_RANK];
    TRY(require_present(p, x, "x"));
    TRY(require_present(p, y, "y"));
    TRY(require_present(p, out, "out"));
    TRY(require_same_dtype(p, x, y, "y"));
    TRY(require_same_dtype(p, x, out, "out"));
    for (size_t k = 0; k < sizeof shifts / sizeof *shifts; k++)
        if (shifts[k].dtype == x->dtype)
            s->run = to_left                                     ? shifts[k].left
                     : attr_bool(p->op, "is_arithmetic", true) ? shifts[k].right
                                                               : shifts[k].freed;
    if (!s->run) return kernel_unsupported(p, "expected integers, found %s", dtype_text(x->dtype));
    TRY(broadcast_strides(p, -1, x, y, out->ndim, out->dims, strides));
    strides_dense(out->ndim, out->dims, strides[2]);
    loops_init(&s->l, out->ndim, out->dims, 3, strides);
    return NULL;
}
static weft_status prepare_left(kernel_prepare *p) {
    return prepare_shift(p, true);
}
static weft_status prepare_right(kernel_prepare *p) {
    return prepare_shift(p, false);
}

static weft_status run(const kernel_call *c) {
    const shift_state *s = c->state;
    s->run(&s->l, arg_in(c, 0)->data, arg_in(c, 1)->data, arg_out(c, 0)->data);
    return NULL;
}

const kernel kernel_bitwise_left_shift = {prepare_left, run};
const kernel kernel_bitwise_right_shift = {prepare_right, run};
