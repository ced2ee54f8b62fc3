/* random.c: counter-based random numbers and the ops that fill tensors with them.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3; SC 2011): a block cipher of
 * ten rounds over a counter. So element i of a tensor depends on (seed, op, step, i) alone, not on threads or order. */
#include <math.h>

#include "executor/kernels/fill/random.h"
#include "executor/kernels/typed.h"

static void philox_round(uint32_t c[4], const uint32_t k[2]) {
    uint64_t a = 0xD2511F53ull * c[0], b = 0xCD9E8D57ull * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(b >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)a;
}

void philox(uint64_t seed, uint64_t op_seed, uint64_t step, uint64_t index, uint32_t out[4]) {
    /* The counter has 128 bits for three 64-bit words: op and step share the upper half, spread by odd factors. */
    uint64_t upper = op_seed * 0x9E3779B97F4A7C15ull + step * 0xC2B2AE3D27D4EB4Full;
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)upper, (uint32_t)(upper >> 32)};
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < 10; round++) {
        philox_round(c, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* The same of PHILOX_BLOCKS blocks side by side, each round a loop over them that becomes vector code. */
void philox_blocks(random_key key, uint64_t index, uint32_t out[4 * PHILOX_BLOCKS]) {
    uint64_t upper = key.op_seed * 0x9E3779B97F4A7C15ull + key.step * 0xC2B2AE3D27D4EB4Full;
    uint32_t c[4][PHILOX_BLOCKS], k0 = (uint32_t)key.seed, k1 = (uint32_t)(key.seed >> 32);
    for (uint32_t i = 0; i < PHILOX_BLOCKS; i++) {
        c[0][i] = (uint32_t)(index + i);
        c[1][i] = (uint32_t)((index + i) >> 32);
        c[2][i] = (uint32_t)upper;
        c[3][i] = (uint32_t)(upper >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < PHILOX_BLOCKS; i++) {
            uint64_t a = 0xD2511F53ull * c[0][i], b = 0xCD9E8D57ull * c[2][i];
            uint32_t c1 = c[1][i], c3 = c[3][i];
            c[0][i] = (uint32_t)(b >> 32) ^ c1 ^ k0;
            c[1][i] = (uint32_t)b;
            c[2][i] = (uint32_t)(a >> 32) ^ c3 ^ k1;
            c[3][i] = (uint32_t)a;
        }
    for (int i = 0; i < PHILOX_BLOCKS; i++)
        for (int w = 0; w < 4; w++) out[4 * i + w] = c[w][i];
}

/* Up to 4 values from block `index` of the stream. */
typedef void (*draw_fn)(const uint32_t bits[4], double a, double b, double out[4]);

static void draw_uniform(const uint32_t bits[4], double low, double high, double out[4]) {
    for (int i = 0; i < 4; i++) out[i] = low + (high - low) * (double)random_unit(bits[i]);
}

/* Box and Muller's transform: two normals from two uniforms. */
static void draw_normal(const uint32_t bits[4], double mean, double deviation, double out[4]) {
    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt(-2.0 * log(random_above_zero(bits[i]))),
               angle = 0x1.921fb54442d18p+2 * (double)random_unit(bits[i + 1]);
        out[i] = mean + deviation * radius * cos(angle);
        out[i + 1] = mean + deviation * radius * sin(angle);
    }
}

static void store_reals(const tensor *t, int64_t first, int64_t n, const double *values) {
    for (int64_t i = 0; i < n; i++) {
        void *at = (char *)t->data + (size_t)(first + i) * weft_dtype_nbytes(t->dtype);
        fill_elements(t->dtype, at, 1, values[i]);
    }
}

static void draw_tensor(const tensor *t, random_key key, draw_fn draw, double a, double b) {
    for (int64_t i = 0; i < t->numel; i += 4) {
        uint32_t bits[4];
        double values[4];
        philox(key.seed, key.op_seed, key.step, (uint64_t)i / 4, bits);
        draw(bits, a, b, values);
        store_reals(t, i, t->numel - i < 4 ? t->numel - i : 4, values);
    }
}

/* The share of the standard normal distribution below x. */
static double normal_below(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752);
}

/* Normals within [a, b] deviations: where the distribution reaches a uniform number between its values there, found by
 * halving the interval. */
static double truncated_normal(double share, double a, double b) {
    double low = normal_below(a), high = normal_below(b), target = low + (high - low) * share;
    for (int i = 0; i < 48; i++) {
        double middle = 0.5 * (a + b);
        if (normal_below(middle) < target)
            a = middle;
        else
            b = middle;
    }
    return 0.5 * (a + b);
}

typedef struct random_state {
    int64_t seed;
    double a, b; /* mean and deviation, or bounds */
    int64_t diagonal_count, diagonal_step;
    double diagonal_value;
} random_state;

static weft_status prepare_random(kernel_prepare *p, const char *a, double a_fallback, const char *b) {
    random_state *s = KERNEL_STATE(p, random_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    if (!dtype_is_float(out->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(out->dtype));
    *s = (random_state){.seed = attr_int(p->op, "seed", 0),
                        .a = attr_float(p->op, a, a_fallback),
                        .b = attr_float(p->op, b, 1.0),
                        .diagonal_count = attr_int(p->op, "diag_num", 0),
                        .diagonal_step = attr_int(p->op, "diag_step", 0),
                        .diagonal_value = attr_float(p->op, "diag_val", 1.0)};
    return NULL;
}

static weft_status prepare_gaussian(kernel_prepare *p) {
    return prepare_random(p, "mean", 0.0, "std");
}
static weft_status prepare_uniform(kernel_prepare *p) {
    return prepare_random(p, "min", -1.0, "max");
}

static weft_status run_gaussian(const kernel_call *c) {
    const random_state *s = c->state;
    draw_tensor(arg_out(c, 0), initial_key_of(c, s->seed), draw_normal, s->a, s->b);
    return NULL;
}

static weft_status run_uniform(const kernel_call *c) {
    const random_state *s = c->state;
    tensor *out = arg_out(c, 0);
    draw_tensor(out, initial_key_of(c, s->seed), draw_uniform, s->a, s->b);
    for (int64_t i = 0; i < s->diagonal_count; i++) {
        int64_t at = i * s->diagonal_step + i;
        if (at < 0 || at >= out->numel) return kernel_failed(c, "diag_num * diag_step leaves the tensor");
        store_reals(out, at, 1, &s->diagonal_value);
    }
    return NULL;
}

const kernel kernel_gaussian_random = {prepare_gaussian, run_gaussian};
const kernel kernel_uniform_random = {prepare_uniform, run_uniform};

/* --- integers, truncated normals ---------------------------------------------------------------------------------- */

typedef struct bounded_state {
    int64_t seed, low, high; /* randint: [low, high) */
    double mean, deviation, a, b;
} bounded_state;

static weft_status prepare_randint(kernel_prepare *p) {
    bounded_state *s = KERNEL_STATE(p, bounded_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    *s = (bounded_state){
        .seed = attr_int(p->op, "seed", 0), .low = attr_int(p->op, "low", 0), .high = attr_int(p->op, "high", 0)};
    if (out->dtype != WEFT_INT32 && out->dtype != WEFT_INT64)
        return kernel_unsupported(p, "expected int32 or int64, found %s", dtype_text(out->dtype));
    if (s->low < s->high) return NULL;
    return kernel_unsupported(p, "expected low below high, found %lld and %lld", (long long)s->low, (long long)s->high);
}

static weft_status run_randint(const kernel_call *c) {
    const bounded_state *s = c->state;
    tensor *out = arg_out(c, 0);
    random_key key = initial_key_of(c, s->seed);
    uint64_t range = (uint64_t)s->high - (uint64_t)s->low;
    for (int64_t i = 0; i < out->numel; i++) {
        uint32_t bits[4];
        philox(key.seed, key.op_seed, key.step, (uint64_t)i, bits);
        uint64_t value = (uint64_t)s->low + (((uint64_t)bits[0] << 32) | bits[1]) % range;
        if (out->dtype == WEFT_INT64)
            ((int64_t *)out->data)[i] = (int64_t)value;
        else
            ((int32_t *)out->data)[i] = (int32_t)(int64_t)value;
    }
    return NULL;
}

static weft_status prepare_truncated(kernel_prepare *p) {
    bounded_state *s = KERNEL_STATE(p, bounded_state);
    if (!s) return base_out_of_memory();
    const tensor *out = type_out(p, 0);
    *s = (bounded_state){.seed = attr_int(p->op, "seed", 0),
                         .mean = attr_float(p->op, "mean", 0),
                         .deviation = attr_float(p->op, "std", 1),
                         .a = attr_float(p->op, "a", -2),
                         .b = attr_float(p->op, "b", 2)};
    if (!dtype_is_float(out->dtype))
        return kernel_unsupported(p, "expected a float type, found %s", dtype_text(out->dtype));
    return s->a <= s->b ? NULL : kernel_unsupported(p, "expected a of at most b, found %g and %g", s->a, s->b);
}

static weft_status run_truncated(const kernel_call *c) {
    const bounded_state *s = c->state;
    tensor *out = arg_out(c, 0);
    random_key key = initial_key_of(c, s->seed);
    for (int64_t i = 0; i < out->numel; i++) {
        uint32_t bits[4];
        philox(key.seed, key.op_seed, key.step, (uint64_t)i, bits);
        double value = s->mean + s->deviation * truncated_normal((double)random_unit(bits[0]), s->a, s->b);
        store_reals(out, i, 1, &value);
    }
    return NULL;
}

const kernel kernel_randint = {prepare_randint, run_randint};
const kernel kernel_truncated_gaussian_random = {prepare_truncated, run_truncated};
