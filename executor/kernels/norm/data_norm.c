/* data_norm.c: columns normalised by sums over all data so far, and gradients: of X, and what a batch adds to the sums.
 *
 * Mean is BatchSum / BatchSize, scale sqrt(BatchSize / BatchSquareSum). With slot_dim a row is made of slots, the first
 * element of which is how often the slot was shown. Where that is 0 the slot becomes 0 and is not added to the sums, but
 * its gradient is that of any other. Paddle: fluid/operators/data_norm_op.cc, which gives means with slot_dim. The
 * sums themselves are outputs of the gradient that only its GPU kernel changes. */
#include <math.h>

#include "executor/kernels/layout.h"

enum { IN_SCALE_W, IN_BIAS, IN_X, IN_SIZE, IN_SUM, IN_SQUARES, OUT_Y = 0, OUT_MEANS, OUT_SCALES };
enum { GRAD_X, GRAD_SCALE_W, GRAD_BIAS, GRAD_MEANS, GRAD_SCALES, GRAD_Y_GRAD };
enum { OUT_DX, OUT_DSIZE, OUT_DSUM, OUT_DSQUARES, OUT_DSCALE_W, OUT_DBIAS };

typedef struct data_norm_state {
    int64_t rows, width, slot; /* elements of a slot; 0: there are none */
    double epsilon;
    bool shifts;
} data_norm_state;

static weft_status prepare_common(kernel_prepare *p, const tensor *x, int scale, int bias) {
    data_norm_state *s = KERNEL_STATE(p, data_norm_state);
    if (!s) return base_out_of_memory();
    TRY(require_real(p, x, "X"));
    if (x->ndim != 2) return kernel_unsupported(p, "expected X of 2 dimensions, found %d", x->ndim);
    s->rows = x->dims[0];
    s->width = x->dims[1];
    s->slot = attr_int(p->op, "slot_dim", -1);
    s->epsilon = attr_float(p->op, "epsilon", 1e-4);
    s->shifts = attr_bool(p->op, "enable_scale_and_shift", false);
    if (s->slot < 0) s->slot = 0;
    if (s->slot && s->width % s->slot)
        return kernel_unsupported(p, "expected slot_dim that divides %lld columns, found %lld", (long long)s->width,
                                  (long long)s->slot);
    if (!s->shifts) return NULL;
    TRY(require_present(p, type_in(p, scale), "scale_w"));
    TRY(require_present(p, type_in(p, bias), "bias"));
    TRY(require_like(p, x, type_in(p, scale), s->width, "scale_w"));
    return require_like(p, x, type_in(p, bias), s->width, "bias");
}

/* Whether the slot of element j of a row was shown. */
static bool is_shown(const data_norm_state *s, const tensor *x, int64_t row, int64_t j) {
    if (!s->slot) return true;
    double shown = tensor_real(x, row * s->width + j / s->slot * s->slot);
    return !(shown > -1e-7 && shown < 1e-7);
}

static weft_status prepare(kernel_prepare *p) {
    const tensor *x = type_in(p, IN_X);
    TRY(prepare_common(p, x, IN_SCALE_W, IN_BIAS));
    const data_norm_state *s = p->state;
    static const char *const sums[] = {"BatchSize", "BatchSum", "BatchSquareSum"};
    for (int k = 0; k < 3; k++) {
        TRY(require_present(p, type_in(p, IN_SIZE + k), sums[k]));
        TRY(require_like(p, x, type_in(p, IN_SIZE + k), s->width, sums[k]));
    }
    TRY(require_present(p, type_out(p, OUT_Y), "Y"));
    TRY(require_like(p, x, type_out(p, OUT_Y), x->numel, "Y"));
    TRY(require_like(p, x, type_out(p, OUT_MEANS), s->width, "Means"));
    return require_like(p, x, type_out(p, OUT_SCALES), s->width, "Scales");
}

static weft_status run(const kernel_call *c) {
    const data_norm_state *s = c->state;
    const tensor *x = arg_in(c, IN_X), *scale_w = arg_in(c, IN_SCALE_W), *bias = arg_in(c, IN_BIAS);
    tensor *means = arg_out(c, OUT_MEANS), *scales = arg_out(c, OUT_SCALES);
    for (int64_t j = 0; j < s->width; j++) {
        double size = tensor_real(arg_in(c, IN_SIZE), j), mean = tensor_real(arg_in(c, IN_SUM), j) / size;
        double scale = sqrt(size / tensor_real(arg_in(c, IN_SQUARES), j));
        if (means) tensor_set_real(means, j, mean);
        if (scales) tensor_set_real(scales, j, scale);
        for (int64_t i = 0; i < s->rows; i++) {
            double y = (tensor_real(x, i * s->width + j) - mean) * scale;
            if (s->shifts) y = y * tensor_real(scale_w, j) + tensor_real(bias, j);
            tensor_set_real(arg_out(c, OUT_Y), i * s->width + j, is_shown(s, x, i, j) ? y : 0);
        }
    }
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    const tensor *x = type_in(p, GRAD_X), *g = type_in(p, GRAD_Y_GRAD);
    TRY(prepare_common(p, x, GRAD_SCALE_W, GRAD_BIAS));
    const data_norm_state *s = p->state;
    if (!s->rows) return kernel_unsupported(p, "expected rows in X, which have a mean, found none");
    TRY(require_present(p, g, "Y@GRAD"));
    TRY(require_like(p, x, g, x->numel, "Y@GRAD"));
    TRY(require_present(p, type_in(p, GRAD_MEANS), "Means"));
    TRY(require_present(p, type_in(p, GRAD_SCALES), "Scales"));
    TRY(require_like(p, x, type_in(p, GRAD_MEANS), s->width, "Means"));
    TRY(require_like(p, x, type_in(p, GRAD_SCALES), s->width, "Scales"));
    TRY(require_like(p, x, type_out(p, OUT_DX), x->numel, "X@GRAD"));
    for (int k = OUT_DSIZE; k <= OUT_DBIAS; k++)
        TRY(require_like(p, x, type_out(p, k), s->width, "a gradient of a column"));
    return NULL;
}

static void set_column(const kernel_call *c, int output, int64_t j, double value) {
    tensor *t = arg_out(c, output);
    if (t) tensor_set_real(t, j, value);
}

/* What column j adds to the sums: those of the batch, or with slots means over the rows that were shown. */
static void add_to_sums(const kernel_call *c, int64_t j, double count, double sum, double squares) {
    const data_norm_state *s = c->state;
    if (!s->slot) {
        set_column(c, OUT_DSIZE, j, count);
        set_column(c, OUT_DSUM, j, sum);
        set_column(c, OUT_DSQUARES, j, squares + count * s->epsilon);
        return;
    }
    bool any = count >= 1;
    set_column(c, OUT_DSIZE, j, any);
    set_column(c, OUT_DSUM, j, any ? sum / count : 0);
    set_column(c, OUT_DSQUARES, j, any ? squares / count + count * s->epsilon : 0);
}

static weft_status run_grad(const kernel_call *c) {
    const data_norm_state *s = c->state;
    const tensor *x = arg_in(c, GRAD_X), *g = arg_in(c, GRAD_Y_GRAD);
    for (int64_t j = 0; j < s->width; j++) {
        double mean = tensor_real(arg_in(c, GRAD_MEANS), j), scale = tensor_real(arg_in(c, GRAD_SCALES), j);
        double by = s->shifts ? tensor_real(arg_in(c, GRAD_SCALE_W), j) : 1, count = 0, sum = 0, squares = 0;
        double of_scale = 0, of_bias = 0;
        for (int64_t i = 0; i < s->rows; i++) {
            int64_t at = i * s->width + j;
            bool shown = is_shown(s, x, i, j);
            double value = tensor_real(x, at), slope = tensor_real(g, at);
            if (arg_out(c, OUT_DX)) tensor_set_real(arg_out(c, OUT_DX), at, slope * scale * by);
            of_scale += slope * (value - mean) * scale;
            of_bias += slope;
            if (!shown) continue;
            count += 1;
            sum += value;
            squares += (value - mean) * (value - mean);
        }
        add_to_sums(c, j, count, sum, squares);
        set_column(c, OUT_DSCALE_W, j, of_scale);
        set_column(c, OUT_DBIAS, j, of_bias);
    }
    return NULL;
}

const kernel kernel_data_norm = {prepare, run};
const kernel kernel_data_norm_grad = {prepare_grad, run_grad};
