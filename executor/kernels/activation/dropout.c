/* dropout.c: zeroing elements at random, and its gradient.
 *
 * Element i is dropped if its 24 random bits, as a fraction, are below dropout_prob. Mask keeps which were kept, for
 * the gradient. upscale_in_train divides what is kept by 1 - dropout_prob; downgrade_in_infer multiplies by it in
 * tests. */
#include <math.h>

#include "executor/kernels/borrow.h"
#include "executor/kernels/fill/random.h"
#include "executor/kernels/rows.h"
#include "executor/kernels/typed.h"

enum { DROPOUT_X, DROPOUT_SEED };
enum { DROPOUT_OUT, DROPOUT_MASK };
enum { GRAD_MASK, GRAD_OUT };

typedef struct dropout_state {
    int64_t seed;
    float keep_factor;   /* what a kept element is multiplied by */
    float test_factor;   /* what every element is multiplied by in a test */
    uint32_t drop_below; /* an element is dropped if its 24 random bits are below this */
    bool is_test;
} dropout_state;

/* n elements times a factor each, from `at` on; 0 where the factor is, even if the element is infinite. */
static void multiply(const tensor *x, const tensor *out, int64_t at, int64_t n, const float *factors) {
    float values[BLOCK];
    switch ((int)x->dtype) {
#define CASE(dtype, suffix, type)                                                                                      \
    case dtype: {                                                                                                      \
        const type *in = (const type *)x->data + at;                                                                   \
        type *to = (type *)out->data + at;                                                                             \
        INDEPENDENT for (int64_t i = 0; i < n; i++) to[i] = factors[i] != 0 ? in[i] * (type)factors[i] : 0;            \
        break;                                                                                                         \
    }
        REAL_TYPES(CASE)
#undef CASE
    default:
        half_load(x->dtype, n, (const uint16_t *)x->data + at, 1, values);
        for (int64_t i = 0; i < n; i++) values[i] = factors[i] != 0 ? values[i] * factors[i] : 0;
        half_store(x->dtype, n, values, (uint16_t *)out->data + at);
    }
}

static void multiply_all(const tensor *x, const tensor *out, element_range e, float factor) {
    float factors[BLOCK];
    for (int i = 0; i < BLOCK; i++) factors[i] = factor;
    for (int64_t i = 0; i < e.n; i += BLOCK) multiply(x, out, e.at + i, block_size(e.n - i), factors);
}

/* Which of BLOCK elements from `at`, a multiple of 64, are kept. */
static void draw_kept(const dropout_state *s, random_key key, int64_t at, int64_t n, uint8_t kept[BLOCK]) {
    uint32_t bits[4 * PHILOX_BLOCKS];
    for (int64_t i = 0; i < n; i += 4 * PHILOX_BLOCKS) {
        philox_blocks(key, (uint64_t)(at + i) / 4, bits);
        for (int j = 0; j < 4 * PHILOX_BLOCKS; j++) kept[i + j] = (bits[j] >> 8) >= s->drop_below;
    }
}

static void dropout_rows(const kernel_call *c, int64_t first, int64_t end) {
    const dropout_state *s = c->state;
    const tensor *x = arg_in(c, DROPOUT_X), *given_seed = arg_in(c, DROPOUT_SEED);
    const tensor *out = arg_out(c, DROPOUT_OUT), *mask = arg_out(c, DROPOUT_MASK);
    element_range e = elements_of(c, x->numel, first, end);
    if (s->is_test) {
        multiply_all(x, out, e, s->test_factor);
        return;
    }
    random_key key = random_key_of(c, given_seed ? host_integer(c, given_seed, 0) : s->seed);
    float factors[BLOCK];
    uint8_t kept[BLOCK];
    for (int64_t i = 0; i < e.n; i += BLOCK) {
        int64_t n = block_size(e.n - i);
        draw_kept(s, key, e.at + i, n, kept);
        for (int64_t j = 0; j < n; j++) factors[j] = kept[j] ? s->keep_factor : 0.0f;
        if (mask) memcpy((uint8_t *)mask->data + e.at + i, kept, (size_t)n);
        multiply(x, out, e.at + i, n, factors);
    }
}

static void dropout_grad_rows(const kernel_call *c, int64_t first, int64_t end) {
    const dropout_state *s = c->state;
    const tensor *mask = arg_in(c, GRAD_MASK), *dout = arg_in(c, GRAD_OUT), *dx = arg_out(c, 0);
    element_range e = elements_of(c, dx->numel, first, end);
    if (s->is_test) {
        multiply_all(dout, dx, e, s->test_factor);
        return;
    }
    float factors[BLOCK];
    for (int64_t i = 0; i < e.n; i += BLOCK) {
        int64_t n = block_size(e.n - i);
        const uint8_t *kept = (const uint8_t *)mask->data + e.at + i;
        for (int64_t j = 0; j < n; j++) factors[j] = kept[j] ? s->keep_factor : 0.0f;
        multiply(dout, dx, e.at + i, n, factors);
    }
}

static weft_status prepare_either(kernel_prepare *p, void (*rows)(const kernel_call *, int64_t, int64_t)) {
    dropout_state *s = KERNEL_STATE(p, dropout_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    if (!dtype_is_float(out->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(out->dtype));
    double drop = attr_float(p->op, "dropout_prob", 0.5);
    if (!(drop >= 0 && drop <= 1)) return kernel_unsupported(p, "expected dropout_prob in [0, 1], found %g", drop);
    bool upscale = strcmp(attr_string(p->op, "dropout_implementation", "downgrade_in_infer"), "upscale_in_train") == 0;
    s->is_test = attr_bool(p->op, "is_test", false);
    s->seed = attr_bool(p->op, "fix_seed", false) ? attr_int(p->op, "seed", 0) : 0;
    s->keep_factor = !upscale ? 1.0f : drop < 1 ? (float)(1.0 / (1.0 - drop)) : 0.0f;
    s->test_factor = upscale ? 1.0f : (float)(1.0 - drop);
    s->drop_below = (uint32_t)ceil(drop * 0x1p24);
    split_elements(p, rows, out->numel);
    return NULL;
}

static weft_status prepare_dropout(kernel_prepare *p) {
    return prepare_either(p, dropout_rows);
}
static weft_status prepare_grad(kernel_prepare *p) {
    return prepare_either(p, dropout_grad_rows);
}

const kernel kernel_dropout = {prepare_dropout, kernel_run_rows};
const kernel kernel_dropout_grad = {prepare_grad, kernel_run_rows};

/* ATen's has no slot for a seed. */
static weft_status prepare_aten(kernel_prepare *p) {
    static const borrowed_slots slots = {2, 2, {DROPOUT_X, -1}, {DROPOUT_OUT, DROPOUT_MASK}};
    borrowed *b = KERNEL_STATE(p, borrowed);
    if (!b) return base_out_of_memory();
    TRY(borrow_prepare(p, &kernel_dropout, &slots, b));
    p->state = b;
    return NULL;
}
static weft_status run_aten(const kernel_call *c) {
    return borrow_run(c, c->state);
}
const kernel kernel_aten_native_dropout = {prepare_aten, run_aten};
