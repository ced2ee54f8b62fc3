/* amp.c: loss scaling: gradients divided by the scale and checked, and the scale itself raised or lowered.
 *
 * check_finite_and_unscale takes its tensors in order: those before the first that has an infinity or a NaN are
 * divided, that one and all later ones are multiplied by 0 (phi/kernels/cpu/amp_kernel.cc). update_loss_scaling keeps
 * the scale at 1 or above and never lets it overflow; after an overflow every gradient is zero, whether or not the
 * scale is frozen. */
#include <math.h>

#include "executor/kernels/layout.h"

/* --- check_finite_and_unscale ------------------------------------------------------------------------------------- */

enum { CHECK_IN_X, CHECK_IN_SCALE, CHECK_OUT_X = 0, CHECK_OUT_FOUND };

static weft_status check_list(kernel_prepare *p) {
    uint32_t n = p->in_first[1];
    if (p->out_first[1] != n) return kernel_unsupported(p, "expected %u outputs, found %u", n, p->out_first[1]);
    for (uint32_t i = 0; i < n; i++) {
        if (!dtype_is_float(p->in[i].dtype))
            return kernel_unsupported(p, "expected gradients of a float type, found %s", dtype_text(p->in[i].dtype));
        TRY(require_same_dtype(p, &p->in[i], &p->out[i], "outputs"));
        TRY(require_numel(p, &p->out[i], p->in[i].numel, "an output"));
    }
    return NULL;
}

static weft_status prepare_check(kernel_prepare *p) {
    TRY(check_list(p));
    TRY(require_numel(p, type_in(p, CHECK_IN_SCALE), 1, "Scale"));
    return require_numel(p, type_out(p, CHECK_OUT_FOUND), 1, "FoundInfinite");
}

/* Whether any element has an exponent of all ones. */
#define DEFINE_HAS_INFINITE(suffix, bits_type, exponent)                                                               \
    static bool has_infinite_##suffix(int64_t n, const void *data) {                                                   \
        const bits_type *bits = data;                                                                                  \
        bits_type found = 0;                                                                                           \
        for (int64_t i = 0; i < n; i++) found |= (bits[i] & exponent) == exponent;                                     \
        return found != 0;                                                                                             \
    }
DEFINE_HAS_INFINITE(fp32, uint32_t, 0x7f800000u)
DEFINE_HAS_INFINITE(fp64, uint64_t, 0x7ff0000000000000u)
DEFINE_HAS_INFINITE(fp16, uint16_t, 0x7c00u)
DEFINE_HAS_INFINITE(bf16, uint16_t, 0x7f80u)
#undef DEFINE_HAS_INFINITE

static bool has_infinite(const tensor *t) {
    switch ((int)t->dtype) {
    case WEFT_FP32: return has_infinite_fp32(t->numel, t->data);
    case WEFT_FP64: return has_infinite_fp64(t->numel, t->data);
    case WEFT_FP16: return has_infinite_fp16(t->numel, t->data);
    default: return has_infinite_bf16(t->numel, t->data);
    }
}

#define DEFINE_MULTIPLY(dtype, suffix, real)                                                                           \
    static void multiply_##suffix(int64_t n, const real *x, double factor, real *y) {                                  \
        real f = (real)factor;                                                                                         \
        INDEPENDENT for (int64_t i = 0; i < n; i++) y[i] = x[i] * f;                                                   \
    }
REAL_TYPES(DEFINE_MULTIPLY)
#undef DEFINE_MULTIPLY

static void multiply(const tensor *x, double factor, tensor *y) {
    if (x->dtype == WEFT_FP32) multiply_fp32(x->numel, x->data, factor, y->data);
    if (x->dtype == WEFT_FP64) multiply_fp64(x->numel, x->data, factor, y->data);
    if (!dtype_is_half(x->dtype)) return;
    float block[BLOCK];
    for (int64_t i = 0; i < x->numel; i += BLOCK) {
        int64_t n = block_size(x->numel - i);
        half_load(x->dtype, n, (const uint16_t *)x->data + i, 1, block);
        multiply_fp32(n, block, factor, block);
        half_store(x->dtype, n, block, (uint16_t *)y->data + i);
    }
}

static weft_status run_check(const kernel_call *c) {
    double inverse = 1 / host_scalar(c, arg_in(c, CHECK_IN_SCALE));
    bool found = false;
    for (uint32_t i = 0; i < c->in_first[1]; i++) {
        found = found || has_infinite(&c->in[i]);
        multiply(&c->in[i], found ? 0 : inverse, &c->out[i]);
    }
    *(uint8_t *)arg_out(c, CHECK_OUT_FOUND)->data = found;
    return NULL;
}

const kernel kernel_check_finite_and_unscale = {prepare_check, run_check};

/* --- update_loss_scaling ------------------------------------------------------------------------------------------ */

enum { UPDATE_IN_X, UPDATE_IN_FOUND, UPDATE_IN_SCALE, UPDATE_IN_GOOD, UPDATE_IN_BAD, UPDATE_IN_STOP };
enum { UPDATE_OUT_X, UPDATE_OUT_SCALE, UPDATE_OUT_GOOD, UPDATE_OUT_BAD };

typedef struct scaling_state {
    int64_t good_steps, bad_steps; /* after so many in a row the scale moves */
    double up, down;
    bool stopped;
} scaling_state;

static weft_status prepare_update(kernel_prepare *p) {
    scaling_state *s = KERNEL_STATE(p, scaling_state);
    if (!s) return base_out_of_memory();
    TRY(check_list(p));
    static const char *const names[] = {"FoundInfinite", "PrevLossScaling", "InGoodSteps", "InBadSteps"};
    for (int i = 0; i < 4; i++) TRY(require_numel(p, type_in(p, UPDATE_IN_FOUND + i), 1, names[i]));
    for (int i = 1; i < 4; i++) TRY(require_numel(p, type_out(p, i), 1, "an output"));
    s->good_steps = attr_int(p->op, "incr_every_n_steps", 1000);
    s->bad_steps = attr_int(p->op, "decr_every_n_nan_or_inf", 2);
    s->up = attr_float(p->op, "incr_ratio", 2);
    s->down = attr_float(p->op, "decr_ratio", 0.5);
    s->stopped = attr_bool(p->op, "stop_update", false);
    return NULL;
}

static void set_one(tensor *t, double value) {
    fill_elements(t->dtype, t->data, 1, value);
}

/* What a tensor of the type would hold. */
static double stored_as(weft_dtype dtype, double value) {
    double element;
    tensor one = {.data = &element, .dtype = dtype, .numel = 1};
    set_one(&one, value);
    return tensor_scalar(&one);
}

/* The scale and the two counters after one step. */
static void move_scale(const scaling_state *s, bool found, weft_dtype dtype, double *scale, int64_t *good,
                       int64_t *bad) {
    *good = found ? 0 : *good + 1;
    *bad = found ? *bad + 1 : 0;
    if (found && *bad == s->bad_steps) {
        *scale = *scale * s->down < 1 ? 1 : *scale * s->down;
        *bad = 0;
    }
    if (!found && *good == s->good_steps) {
        double raised = stored_as(dtype, *scale * s->up);
        if (isfinite(raised)) *scale = raised;
        *good = 0;
    }
}

static weft_status run_update(const kernel_call *c) {
    const scaling_state *s = c->state;
    const tensor *stop = arg_in(c, UPDATE_IN_STOP), *previous = arg_in(c, UPDATE_IN_SCALE);
    bool found = host_scalar(c, arg_in(c, UPDATE_IN_FOUND)) != 0;
    double scale = host_scalar(c, previous);
    int64_t good = host_integer(c, arg_in(c, UPDATE_IN_GOOD), 0), bad = host_integer(c, arg_in(c, UPDATE_IN_BAD), 0);
    for (uint32_t i = 0; i < c->in_first[1]; i++) {
        if (found)
            memset(c->out[i].data, 0, tensor_nbytes(&c->out[i]));
        else
            copy_bytes(c->out[i].data, c->in[i].data, tensor_nbytes(&c->in[i]));
    }
    bool stopped = s->stopped || (stop && host_scalar(c, stop) != 0);
    if (!stopped) move_scale(s, found, previous->dtype, &scale, &good, &bad);
    set_one(arg_out(c, UPDATE_OUT_SCALE), scale);
    set_one(arg_out(c, UPDATE_OUT_GOOD), (double)good);
    set_one(arg_out(c, UPDATE_OUT_BAD), (double)bad);
    return NULL;
}

const kernel kernel_update_loss_scaling = {prepare_update, run_update};
