/* rnn.c: recurrent layers of one kind on top of one another, in one direction or both, and their gradients.
 *
 *   LSTM       i, f, n, o = s(a), s(b), tanh(g), s(o) of W x + b + U h + u;   c = f c' + i n;   h = o tanh(c)
 *   GRU        r, z as above;   n = tanh(W x + b + r (U h + u));              h = (h' - n) z + n
 *   RNN_TANH, RNN_RELU                                                        h = tanh or relu of W x + b + U h + u
 *
 * Input is [steps, batch, features]. Weights are [W, U] of each layer and direction, then their biases. Behind a
 * sequence's length states stay and outputs are 0. The reserve has a row of `width` elements a layer, direction, step
 * and sequence: the gates, the state, the cell (LSTM) or the state's part of n (GRU), and the output.
 * Products with the input are those of all steps at once. Paddle: phi/kernels/cpu/rnn_kernel.cc. */
#include "executor/kernels/multiply_real.h"
#include "executor/kernels/layout.h"
#include "executor/kernels/vector_math.h"

enum { IN_X, IN_BEGIN, IN_WEIGHTS, IN_LENGTHS };
enum { OUT_DROPOUT, OUT_RESERVE, OUT, OUT_END };
enum { IN_RESERVE = 4, IN_OUT_GRAD, IN_END_GRAD };
enum { OUT_X_GRAD, OUT_BEGIN_GRAD, OUT_WEIGHT_GRADS };

typedef enum rnn_mode { LSTM, GRU, SIMPLE_TANH, SIMPLE_RELU, NMODES } rnn_mode;

typedef struct rnn_state {
    rnn_mode mode;
    int nlayers, ndirections;
    int64_t ngates, steps, batch, input, hidden, width, out_column;
    weft_dtype dtype;
} rnn_state;

static float sigmoid_fp32(float x) {
    return 1.0f / (1.0f + vm_exp(-x));
}
static double sigmoid_fp64(double x) {
    return 1 / (1 + exp(-x));
}
static float tangent_fp32(float x) {
    return vm_tanh(x);
}
static double tangent_fp64(double x) {
    return tanh(x);
}

static void *weight_grad(const kernel_call *c, int index) {
    uint32_t i = c->out_first[OUT_WEIGHT_GRADS] + (uint32_t)index;
    return i < c->out_first[OUT_WEIGHT_GRADS + 1] && c->out[i].dtype != WEFT_DTYPE_NONE ? c->out[i].data : NULL;
}
static float *weight_grad_fp32(const kernel_call *c, int index) {
    return weight_grad(c, index);
}
static double *weight_grad_fp64(const kernel_call *c, int index) {
    return weight_grad(c, index);
}

#define TEMPLATE "executor/kernels/recurrent/rnn_real.h"
#include "executor/kernels/each_real.h"

static weft_status check_weights(const kernel_prepare *p, const rnn_state *s) {
    const tensor *w = &p->in[p->in_first[IN_WEIGHTS]];
    int n = s->nlayers * s->ndirections;
    if (p->in_first[IN_WEIGHTS + 1] - p->in_first[IN_WEIGHTS] != 4 * (uint32_t)n)
        return kernel_unsupported(p, "expected %d weights and biases, found %u", 4 * n,
                                  p->in_first[IN_WEIGHTS + 1] - p->in_first[IN_WEIGHTS]);
    for (int i = 0; i < 4 * n; i++) {
        int64_t rows = s->ngates * s->hidden, columns = i >= 2 * n ? 1 : s->hidden;
        if (i < 2 * n && i % 2 == 0) columns = i < 2 * s->ndirections ? s->input : s->hidden * s->ndirections;
        TRY(require_same_dtype(p, type_in(p, IN_X), &w[i], "WeightList"));
        TRY(require_numel(p, &w[i], rows * columns, "WeightList"));
    }
    return NULL;
}

static weft_status read_mode(const kernel_prepare *p, rnn_state *s) {
    static const char *const modes[NMODES] = {"LSTM", "GRU", "RNN_TANH", "RNN_RELU"};
    static const int gates[NMODES] = {4, 3, 1, 1};
    const char *mode = attr_string(p->op, "mode", "");
    for (s->mode = LSTM; s->mode < NMODES && strcmp(mode, modes[s->mode]) != 0;) s->mode++;
    if (s->mode == NMODES) return kernel_unsupported(p, "mode: expected LSTM, GRU, RNN_TANH or RNN_RELU, found %s", mode);
    s->ngates = gates[s->mode];
    return NULL;
}

static weft_status prepare_common(kernel_prepare *p, const tensor *reserve) {
    rnn_state *s = KERNEL_STATE(p, rnn_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, IN_X), *begin = type_in(p, IN_BEGIN), *lengths = type_in(p, IN_LENGTHS);
    TRY(require_real(p, x, "Input"));
    TRY(require_present(p, begin, "PreState"));
    TRY(read_mode(p, s));
    if (x->ndim != 3 || begin->ndim != 3 || !x->dims[0])
        return kernel_unsupported(p, "expected Input and PreState of 3 dimensions, and a step or more");
    s->nlayers = (int)attr_int(p->op, "num_layers", 1);
    s->ndirections = attr_bool(p->op, "is_bidirec", false) ? 2 : 1;
    s->steps = x->dims[0], s->batch = x->dims[1], s->input = x->dims[2], s->hidden = begin->dims[2];
    s->dtype = x->dtype;
    s->out_column = (s->ngates + (s->ngates == 1 ? 1 : 2)) * s->hidden;
    s->width = s->out_column + s->hidden;
    for (uint32_t k = p->in_first[IN_BEGIN]; k < p->in_first[IN_BEGIN + 1]; k++) {
        TRY(require_same_dtype(p, x, &p->in[k], "PreState"));
        TRY(require_numel(p, &p->in[k], s->nlayers * s->ndirections * s->batch * s->hidden, "PreState"));
    }
    if (p->in_first[IN_BEGIN + 1] - p->in_first[IN_BEGIN] != (s->mode == LSTM ? 2 : 1))
        return kernel_unsupported(p, "expected %d states in PreState", s->mode == LSTM ? 2 : 1);
    if (lengths) TRY(require_numel(p, lengths, s->batch, "SequenceLength"));
    TRY(require_present(p, reserve, "Reserve"));
    TRY(require_same_dtype(p, x, reserve, "Reserve"));
    TRY(require_numel(p, reserve, s->nlayers * s->ndirections * s->steps * s->batch * s->width, "Reserve"));
    if (attr_float(p->op, "dropout_prob", 0) > 0 && !attr_bool(p->op, "is_test", false) && s->nlayers > 1)
        return kernel_unsupported(p, "expected dropout_prob = 0 between layers that are trained");
    return check_weights(p, s);
}

static size_t lengths_nbytes(const rnn_state *s) {
    return ((size_t)s->batch * sizeof(int64_t) + 63) / 64 * 64;
}

static weft_status prepare(kernel_prepare *p) {
    TRY(prepare_common(p, type_out(p, OUT_RESERVE)));
    const rnn_state *s = p->state;
    TRY(require_present(p, type_out(p, OUT), "Out"));
    TRY(require_numel(p, type_out(p, OUT), s->steps * s->batch * s->hidden * s->ndirections, "Out"));
    if (p->out_first[OUT_END + 1] - p->out_first[OUT_END] != (s->mode == LSTM ? 2 : 1))
        return kernel_unsupported(p, "expected %d states in State", s->mode == LSTM ? 2 : 1);
    for (uint32_t k = p->out_first[OUT_END]; k < p->out_first[OUT_END + 1]; k++)
        TRY(require_numel(p, &p->out[k], s->nlayers * s->ndirections * s->batch * s->hidden, "State"));
    p->workspace_nbytes = lengths_nbytes(s) + (size_t)(s->batch * s->ngates * s->hidden) * weft_dtype_nbytes(s->dtype);
    return NULL;
}

static weft_status prepare_grad(kernel_prepare *p) {
    TRY(prepare_common(p, type_in(p, IN_RESERVE)));
    const rnn_state *s = p->state;
    int64_t nrows = s->steps * s->batch, outputs = nrows * s->hidden * s->ndirections;
    if (type_in(p, IN_OUT_GRAD)) TRY(require_numel(p, type_in(p, IN_OUT_GRAD), outputs, "Out@GRAD"));
    int64_t count = nrows * s->ngates * s->hidden * (s->mode == GRU ? 2 : 1) + 2 * s->batch * s->hidden + 2 * outputs;
    p->workspace_nbytes = lengths_nbytes(s) + (size_t)count * weft_dtype_nbytes(s->dtype);
    return NULL;
}

/* Lengths as 64-bit numbers at the beginning of the scratch; *out_rest is what follows. */
static int64_t *read_lengths(const kernel_call *c, const rnn_state *s, void **out_rest) {
    const tensor *lengths = arg_in(c, IN_LENGTHS);
    int64_t *all = c->workspace;
    *out_rest = (char *)c->workspace + lengths_nbytes(s);
    for (int64_t b = 0; lengths && b < s->batch; b++) all[b] = tensor_integer(lengths, b);
    return lengths ? all : NULL;
}

static weft_status run(const kernel_call *c) {
    const rnn_state *s = c->state;
    void *rest;
    const int64_t *lengths = read_lengths(c, s, &rest);
    if (s->dtype == WEFT_FP64)
        forward_fp64(c, s, lengths, rest);
    else
        forward_fp32(c, s, lengths, rest);
    return NULL;
}

static weft_status run_grad(const kernel_call *c) {
    const rnn_state *s = c->state;
    void *rest;
    const int64_t *lengths = read_lengths(c, s, &rest);
    if (s->dtype == WEFT_FP64)
        backward_fp64(c, s, lengths, rest);
    else
        backward_fp32(c, s, lengths, rest);
    return NULL;
}

const kernel kernel_rnn = {prepare, run};
const kernel kernel_rnn_grad = {prepare_grad, run_grad};
