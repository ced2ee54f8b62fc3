/* quantize.c: quantization as training simulates it: numbers rounded to steps of a scale, the largest absolute value of
 * a tensor, of each of its channels, a moving average of it, or the largest of a window of runs; and back. Paddle:
 * operators/fake_quantize_op.cc. */
#include <math.h>

#include "executor/kernels/layout.h"

typedef struct quantize_state {
    axis_split channels; /* {1, 1, numel}: one scale for all */
    double steps;        /* 127 of 8 bits */
    double rate;         /* of the moving average */
    bool to_even;        /* how halves are rounded */
    bool back;           /* quantized numbers become what they stand for */
    bool is_test;        /* scales are given */
    bool copies;         /* scales are observed, and nothing is rounded */
} quantize_state;

static weft_status prepare_state(kernel_prepare *p, bool by_channel, bool back) {
    quantize_state *s = KERNEL_STATE(p, quantize_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    int64_t bits = attr_int(p->op, "bit_length", 8);
    TRY(require_real(p, x, "X"));
    TRY(require_present(p, type_out(p, 0), "Out"));
    TRY(require_like(p, x, type_out(p, 0), x->numel, "Out"));
    s->channels = (axis_split){1, 1, x->numel};
    if (by_channel) TRY(axis_split_prepare(p, x, attr_int(p->op, "quant_axis", 0), &s->channels));
    if (bits < 1 || bits > 16)
        return kernel_unsupported(p, "bit_length: expected 1 to 16, found %lld", (long long)bits);
    s->steps = (double)((1 << (bits - 1)) - 1);
    s->rate = attr_float(p->op, "moving_rate", 0.9);
    s->to_even = attr_int(p->op, "round_type", 1) == 0;
    s->back = back;
    s->is_test = attr_bool(p->op, "is_test", false);
    return NULL;
}

static int64_t element_of(const axis_split *a, int64_t channel, int64_t i) {
    return (i / a->inner * a->extent + channel) * a->inner + i % a->inner;
}

static double largest(const quantize_state *s, const tensor *x, int64_t channel) {
    double most = 0;
    for (int64_t i = 0; i < s->channels.outer * s->channels.inner; i++) {
        double size = fabs(tensor_real(x, element_of(&s->channels, channel, i)));
        if (size > most) most = size;
    }
    return most;
}

static void quantize(const quantize_state *s, const tensor *x, int64_t channel, double scale, tensor *out) {
    double per_step = s->steps / (scale <= 1e-30 ? scale + 1e-6 : scale);
    for (int64_t i = 0; i < s->channels.outer * s->channels.inner; i++) {
        int64_t at = element_of(&s->channels, channel, i);
        double value = tensor_real(x, at);
        if (s->to_even) {
            value = rint(value * per_step);
            value = value > s->steps ? s->steps : value < -s->steps - 1 ? -s->steps - 1 : value;
        } else {
            value = round((value > scale ? scale : value < -scale ? -scale : value) * per_step);
        }
        tensor_set_real(out, at, s->back ? value * scale / s->steps : value);
    }
}

/* --- by the largest value of a tensor or a channel ---------------------------------------------------------------- */

static weft_status prepare_largest(kernel_prepare *p, bool by_channel, bool back) {
    TRY(prepare_state(p, by_channel, back));
    const quantize_state *s = p->state;
    if (s->is_test) return kernel_unsupported(p, "is_test: expected false, as the scale that a test uses is no input");
    TRY(require_present(p, type_out(p, 1), "OutScale"));
    return require_like(p, type_in(p, 0), type_out(p, 1), s->channels.extent, "OutScale");
}

static weft_status run_largest(const kernel_call *c) {
    const quantize_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    for (int64_t k = 0; k < s->channels.extent; k++) {
        tensor_set_real(arg_out(c, 1), k, largest(s, x, k));
        quantize(s, x, k, tensor_real(arg_out(c, 1), k), arg_out(c, 0));
    }
    return NULL;
}

#define BY_LARGEST(op, by_channel, back)                                                                               \
    static weft_status prepare_##op(kernel_prepare *p) {                                                               \
        return prepare_largest(p, by_channel, back);                                                                   \
    }                                                                                                                  \
    const kernel kernel_##op = {prepare_##op, run_largest};
BY_LARGEST(fake_quantize_abs_max, false, false)
BY_LARGEST(fake_quantize_dequantize_abs_max, false, true)
BY_LARGEST(fake_channel_wise_quantize_abs_max, true, false)
BY_LARGEST(fake_channel_wise_quantize_dequantize_abs_max, true, true)

/* --- by a moving average ------------------------------------------------------------------------------------------ */

enum { AVERAGE_SCALE = 1, AVERAGE_ACCUM, AVERAGE_STATE };
enum { OBSERVE_ACCUM = 1, OBSERVE_STATE };
enum { OUT_SCALE = 1, OUT_STATE, OUT_ACCUM };

static weft_status prepare_average(kernel_prepare *p, int accum, bool back) {
    TRY(prepare_state(p, false, back));
    const quantize_state *s = p->state;
    const tensor *x = type_in(p, 0);
    for (int o = OUT_SCALE; o <= OUT_ACCUM; o++) {
        if (o == OUT_SCALE || !s->is_test) TRY(require_present(p, type_out(p, o), p->schema->outputs[o].name));
        TRY(require_like(p, x, type_out(p, o), 1, p->schema->outputs[o].name));
    }
    for (int i = accum; i <= accum + 1 && !s->is_test; i++) {
        TRY(require_present(p, type_in(p, i), p->schema->inputs[i].name));
        TRY(require_like(p, x, type_in(p, i), 1, p->schema->inputs[i].name));
    }
    return accum == AVERAGE_ACCUM ? require_like(p, x, type_in(p, AVERAGE_SCALE), 1, "InScale") : NULL;
}

/* The average of what was seen so far, and of `x`. */
static void observe(const kernel_call *c, int accum, const tensor *x) {
    const quantize_state *s = c->state;
    double sum = s->rate * tensor_real(arg_in(c, accum), 0) + largest(s, x, 0);
    double count = s->rate * tensor_real(arg_in(c, accum + 1), 0) + 1;
    tensor_set_real(arg_out(c, OUT_ACCUM), 0, sum);
    tensor_set_real(arg_out(c, OUT_STATE), 0, count);
    tensor_set_real(arg_out(c, OUT_SCALE), 0, sum / count);
}

static weft_status run_average(const kernel_call *c) {
    const quantize_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    if (s->is_test)
        tensor_set_real(arg_out(c, OUT_SCALE), 0, tensor_real(arg_in(c, AVERAGE_SCALE), 0));
    else
        observe(c, AVERAGE_ACCUM, x);
    quantize(s, x, 0, tensor_real(arg_out(c, OUT_SCALE), 0), arg_out(c, 0));
    return NULL;
}

static weft_status prepare_fake_quantize_moving_average_abs_max(kernel_prepare *p) {
    return prepare_average(p, AVERAGE_ACCUM, false);
}
static weft_status prepare_fake_quantize_dequantize_moving_average_abs_max(kernel_prepare *p) {
    return prepare_average(p, AVERAGE_ACCUM, true);
}
static weft_status prepare_moving_average_abs_max_scale(kernel_prepare *p) {
    return prepare_average(p, OBSERVE_ACCUM, false);
}
static weft_status run_observe(const kernel_call *c) {
    const quantize_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    copy_bytes(arg_out(c, 0)->data, x->data, tensor_nbytes(x));
    if (!s->is_test) observe(c, OBSERVE_ACCUM, x);
    return NULL;
}

const kernel kernel_fake_quantize_moving_average_abs_max = {prepare_fake_quantize_moving_average_abs_max, run_average};
const kernel kernel_fake_quantize_dequantize_moving_average_abs_max = {
    prepare_fake_quantize_dequantize_moving_average_abs_max, run_average};
const kernel kernel_moving_average_abs_max_scale = {prepare_moving_average_abs_max_scale, run_observe};

/* --- by the largest of a window of runs ------------------------------------------------------------------------- */

enum { RANGE_SCALE = 1, RANGE_ITER, RANGE_SCALES };
enum { OUT_RANGE_SCALE = 1, OUT_RANGE_SCALES };

static weft_status prepare_range(kernel_prepare *p) {
    TRY(prepare_state(p, false, false));
    const quantize_state *s = p->state;
    const tensor *x = type_in(p, 0), *scales = type_in(p, RANGE_SCALES), *iter = type_in(p, RANGE_ITER);
    TRY(require_present(p, type_out(p, OUT_RANGE_SCALE), "OutScale"));
    TRY(require_like(p, x, type_in(p, RANGE_SCALE), 1, "InScale"));
    TRY(require_like(p, x, type_out(p, OUT_RANGE_SCALE), 1, "OutScale"));
    if (s->is_test) return NULL;
    int64_t size = attr_int(p->op, "window_size", 10000);
    if (size < 1) return kernel_unsupported(p, "window_size: expected 1 or more, found %lld", (long long)size);
    TRY(require_present(p, iter, "Iter"));
    TRY(require_integers(p, iter, "Iter"));
    TRY(require_numel(p, iter, 1, "Iter"));
    TRY(require_present(p, scales, "OutScales"));
    TRY(require_present(p, type_out(p, OUT_RANGE_SCALES), "OutScales"));
    TRY(require_like(p, x, scales, size, "OutScales"));
    return require_like(p, x, type_out(p, OUT_RANGE_SCALES), size, "OutScales");
}

static double largest_of(const tensor *scales, int64_t count) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        if (fabs(tensor_real(scales, i)) > most) most = fabs(tensor_real(scales, i));
    return most;
}

/* A run's scale takes the place of the one a window ago. Where that was the largest, the window is looked through. */
static weft_status observe_range(const kernel_call *c, const tensor *x) {
    const tensor *before = arg_in(c, RANGE_SCALES);
    tensor *scales = arg_out(c, OUT_RANGE_SCALES), *scale = arg_out(c, OUT_RANGE_SCALE);
    int64_t run = tensor_integer(arg_in(c, RANGE_ITER), 0);
    if (run < 0) return kernel_failed(c, "Iter: expected 0 or more, found %lld", (long long)run);
    if (scales->data != before->data) copy_bytes(scales->data, before->data, tensor_nbytes(scales));
    int64_t at = run % scales->numel, count = run < scales->numel ? run : scales->numel;
    double gone = tensor_real(scales, at), seen = largest(c->state, x, 0),
           most = tensor_real(arg_in(c, RANGE_SCALE), 0);
    tensor_set_real(scales, at, seen);
    if (most < seen)
        most = seen;
    else if (fabs(gone - most) < 1e-6)
        most = largest_of(scales, count);
    tensor_set_real(scale, 0, most);
    return NULL;
}

static weft_status run_range(const kernel_call *c) {
    const quantize_state *s = c->state;
    const tensor *x = arg_in(c, 0);
    if (s->is_test)
        tensor_set_real(arg_out(c, OUT_RANGE_SCALE), 0, tensor_real(arg_in(c, RANGE_SCALE), 0));
    else
        TRY(observe_range(c, x));
    quantize(s, x, 0, tensor_real(arg_out(c, OUT_RANGE_SCALE), 0), arg_out(c, 0));
    return NULL;
}

const kernel kernel_quantize_by_window = {prepare_range, run_range};

/* --- back --------------------------------------------------------------------------------------------------------- */

static weft_status prepare_fake_dequantize_max_abs(kernel_prepare *p) {
    TRY(prepare_state(p, false, true));
    TRY(require_present(p, type_in(p, 1), "Scale"));
    ((quantize_state *)p->state)->steps = attr_float(p->op, "max_range", 0);
    return require_like(p, type_in(p, 0), type_in(p, 1), 1, "Scale");
}

static weft_status prepare_fake_channel_wise_dequantize_max_abs(kernel_prepare *p) {
    TRY(prepare_state(p, true, true));
    quantize_state *s = p->state;
    size_t count = 0;
    const int64_t *bits = attr_ints(p->op, "quant_bits", &count);
    if (count != 1 || p->in_first[2] - p->in_first[1] != 1 || bits[0] < 1 || bits[0] > 16)
        return kernel_unsupported(p, "expected one tensor of scales, of 1 to 16 bits");
    s->steps = (double)((1 << (bits[0] - 1)) - 1);
    TRY(require_present(p, type_in(p, 1), "Scales"));
    return require_like(p, type_in(p, 0), type_in(p, 1), s->channels.extent, "Scales");
}

static weft_status run_dequantize(const kernel_call *c) {
    const quantize_state *s = c->state;
    for (int64_t k = 0; k < s->channels.extent; k++)
        for (int64_t i = 0; i < s->channels.outer * s->channels.inner; i++) {
            int64_t at = element_of(&s->channels, k, i);
            tensor_set_real(arg_out(c, 0), at, tensor_real(arg_in(c, 0), at) * tensor_real(arg_in(c, 1), k) / s->steps);
        }
    return NULL;
}

const kernel kernel_fake_dequantize_max_abs = {prepare_fake_dequantize_max_abs, run_dequantize};
const kernel kernel_fake_channel_wise_dequantize_max_abs = {prepare_fake_channel_wise_dequantize_max_abs,
                                                            run_dequantize};

/* --- quantize_linear and dequantize_linear: by a scale that is given, or in training observed --------------------- */

enum { LINEAR_SCALE = 1, LINEAR_ZERO, LINEAR_ACCUM, LINEAR_STATE };
enum { LINEAR_OUT_STATE = 1, LINEAR_OUT_ACCUM, LINEAR_OUT_SCALE };

static weft_status prepare_linear(kernel_prepare *p) {
    TRY(prepare_state(p, attr_int(p->op, "quant_axis", 0) >= 0, false));
    quantize_state *s = p->state;
    if (op_find_attr(p->op, "qmax")) s->steps = (double)attr_int(p->op, "qmax", 127); /* Paddle 3 says it */
    s->to_even = attr_int(p->op, "round_type", 0) == 0;
    s->is_test = attr_bool(p->op, "is_test", true);
    s->copies = attr_bool(p->op, "only_observer", false);
    return NULL;
}

static weft_status prepare_quantize_linear(kernel_prepare *p) {
    TRY(prepare_linear(p));
    const quantize_state *s = p->state;
    const tensor *x = type_in(p, 0);
    bool by_average = !s->is_test && attr_int(p->op, "quant_axis", 0) < 0;
    if (s->is_test) TRY(require_present(p, type_in(p, LINEAR_SCALE), "Scale"));
    if (s->is_test) return require_like(p, x, type_in(p, LINEAR_SCALE), s->channels.extent, "Scale");
    TRY(require_present(p, type_out(p, LINEAR_OUT_SCALE), "OutScale"));
    TRY(require_like(p, x, type_out(p, LINEAR_OUT_SCALE), s->channels.extent, "OutScale"));
    for (int k = 0; k < 2 && by_average; k++) {
        TRY(require_present(p, type_in(p, LINEAR_ACCUM + k), p->schema->inputs[LINEAR_ACCUM + k].name));
        TRY(require_like(p, x, type_in(p, LINEAR_ACCUM + k), 1, p->schema->inputs[LINEAR_ACCUM + k].name));
        TRY(require_present(p, type_out(p, LINEAR_OUT_STATE + k), p->schema->outputs[LINEAR_OUT_STATE + k].name));
        TRY(require_like(p, x, type_out(p, LINEAR_OUT_STATE + k), 1, p->schema->outputs[LINEAR_OUT_STATE + k].name));
    }
    return NULL;
}

/* One scale is a moving average of what was seen, with a rate of 0.9; those of channels are what is seen. */
static void observe_scales(const kernel_call *c, const quantize_state *s) {
    const tensor *x = arg_in(c, 0), *accum = arg_in(c, LINEAR_ACCUM), *state = arg_in(c, LINEAR_STATE);
    tensor *scale = arg_out(c, LINEAR_OUT_SCALE), *to_accum = arg_out(c, LINEAR_OUT_ACCUM);
    if (!accum || !to_accum) {
        for (int64_t k = 0; k < s->channels.extent; k++) tensor_set_real(scale, k, largest(s, x, k));
        return;
    }
    double sum = 0.9 * tensor_real(accum, 0) + largest(s, x, 0), count = 0.9 * tensor_real(state, 0) + 1;
    tensor_set_real(to_accum, 0, sum);
    tensor_set_real(arg_out(c, LINEAR_OUT_STATE), 0, count);
    tensor_set_real(scale, 0, sum / count);
}

static weft_status run_quantize_linear(const kernel_call *c) {
    const quantize_state *s = c->state;
    const tensor *x = arg_in(c, 0), *scale = s->is_test ? arg_in(c, LINEAR_SCALE) : arg_out(c, LINEAR_OUT_SCALE);
    if (!s->is_test) observe_scales(c, s);
    if (s->copies) copy_bytes(arg_out(c, 0)->data, x->data, tensor_nbytes(x));
    for (int64_t k = 0; k < s->channels.extent && !s->copies; k++)
        quantize(s, x, k, tensor_real(scale, k), arg_out(c, 0));
    return NULL;
}

static weft_status prepare_dequantize_linear(kernel_prepare *p) {
    TRY(prepare_linear(p));
    TRY(require_present(p, type_in(p, LINEAR_SCALE), "Scale"));
    return require_like(p, type_in(p, 0), type_in(p, LINEAR_SCALE), ((quantize_state *)p->state)->channels.extent,
                        "Scale");
}

static weft_status run_dequantize_linear(const kernel_call *c) {
    const tensor *x = arg_in(c, 0);
    if (!((const quantize_state *)c->state)->copies) return run_dequantize(c);
    copy_bytes(arg_out(c, 0)->data, x->data, tensor_nbytes(x));
    return NULL;
}

const kernel kernel_quantize_linear = {prepare_quantize_linear, run_quantize_linear};
const kernel kernel_dequantize_linear = {prepare_dequantize_linear, run_dequantize_linear};
