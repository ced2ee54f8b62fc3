/* cost.c: flops and bytes of an op.
 *
 * A row of ops.def has a rule here: how its arithmetic is counted (one function a kind of work) and which inputs are
 * not read in full. A row without a rule costs one operation for each element of its largest argument. It reads and
 * writes everything once, which is right for most. Weights of elementwise work are the operations of the plain formula,
 * with 10 for a transcendental function: what a vectorised polynomial takes. */
#include "ops/cost.h"
#include "ops/einsum.h"
#include "ops/host_op.h"
#include "ops/rows.h"

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static double numel(const shape *s) {
    double n = s->dtype == WEFT_DTYPE_NONE ? 0 : 1; /* an empty argument has no type */
    for (int i = 0; i < s->ndim; i++) n *= s->dims[i] < 0 ? 1 : (double)s->dims[i];
    return n;
}

static double nbytes(const shape *s) {
    return numel(s) * (double)weft_dtype_nbytes((weft_dtype)s->dtype);
}

static double extent(const shape *s, int axis) {
    if (axis < 0) axis += s->ndim;
    if (axis < 0 || axis >= s->ndim) return 1;
    return s->dims[axis] < 0 ? 1 : (double)s->dims[axis];
}

static const shape *input(const op_cost_call *c, const char *slot_name) {
    for (size_t s = 0; s < c->schema->ninputs; s++)
        if (strcmp(c->schema->inputs[s].name, slot_name) == 0)
            return c->in_first[s] < c->in_first[s + 1] ? &c->in[c->in_first[s]] : NULL;
    return NULL;
}

static double largest(const op_cost_call *c) {
    double most = 0;
    for (uint32_t i = 0; i < c->in_first[c->schema->ninputs]; i++)
        if (numel(&c->in[i]) > most) most = numel(&c->in[i]);
    for (uint32_t i = 0; i < c->out_first[c->schema->noutputs]; i++)
        if (numel(&c->out[i]) > most) most = numel(&c->out[i]);
    return most;
}

static double outputs_given(const op_cost_call *c) {
    double n = 0;
    for (uint32_t i = 0; i < c->out_first[c->schema->noutputs]; i++) n += c->out[i].dtype != WEFT_DTYPE_NONE;
    return n;
}

/* --- kinds of work: flops; `weight` is the rule's ----------------------------------------------------------------- */

static double count_largest(const op_cost_call *c, double weight) {
    return weight * largest(c);
}

static double count_none(const op_cost_call *c, double weight) {
    (void)c;
    return weight * 0;
}

static double count_first_slot(const op_cost_call *c, double weight) {
    double n = 0;
    for (uint32_t i = c->in_first[0]; i < c->in_first[1]; i++) n += numel(&c->in[i]);
    return weight * n;
}

static double count_first_output(const op_cost_call *c, double weight) {
    return c->out_first[1] > c->out_first[0] ? weight * numel(&c->out[c->out_first[0]]) : 0;
}

/* Sorting along an axis: log2 of its extent for each element. */
static double count_sort(const op_cost_call *c, double weight) {
    double n = extent(&c->in[0], (int)attr_int(c->op, "axis", -1)), levels = 1;
    for (; n > 2; n /= 2) levels++;
    return weight * levels * numel(&c->in[0]);
}

/* So many operations for each element of the result; in a gradient, whose result's gradient is that slot, as many for
 * each output. */
static double count_results(const op_cost_call *c, double each, const char *gradient_slot) {
    const shape *result = gradient_slot ? input(c, gradient_slot) : &c->out[0];
    if (!result) return 0;
    return each * numel(result) * (gradient_slot ? outputs_given(c) : 1);
}

/* Products that are added up for each element of the result. */
static double matmul_inner(const op_cost_call *c) {
    const shape *x = input(c, "X");
    bool transposed = attr_bool(c->op, "trans_x", false) || attr_bool(c->op, "transpose_X", false);
    return x ? extent(x, transposed && x->ndim > 1 ? -2 : -1) : 0;
}

static double mul_inner(const op_cost_call *c) {
    const shape *x = input(c, "X");
    double k = x ? 1 : 0;
    for (int i = (int)attr_int(c->op, "x_num_col_dims", 1); x && i < x->ndim; i++) k *= extent(x, i);
    return k;
}

/* Rows that one right operand is for. */
static double matmul_rows(const op_cost_call *c) {
    const shape *y = input(c, "Y"), *out = &c->out[0];
    if (!y || out->ndim < 2) return 0;
    return y->ndim > 2 ? extent(out, -2) : numel(out) / extent(out, -1);
}

static double count_matmul(const op_cost_call *c, double weight) {
    return count_results(c, weight * matmul_inner(c), NULL);
}

static double count_matmul_grad(const op_cost_call *c, double weight) {
    return count_results(c, weight * matmul_inner(c), "Out@GRAD");
}

static double count_mul(const op_cost_call *c, double weight) {
    return count_results(c, weight * mul_inner(c), NULL);
}

static double count_mul_grad(const op_cost_call *c, double weight) {
    return count_results(c, weight * mul_inner(c), "Out@GRAD");
}

/* All indices of an equation: each is a product, or of one operand an addition. */
static double einsum_indices(const op_cost_call *c, const shape *operands, int n) {
    int ndims[EINSUM_OPERANDS];
    double count = 1;
    einsum e;
    if (n < 1 || n > EINSUM_OPERANDS) return 0;
    for (int k = 0; k < n; k++) ndims[k] = operands[k].ndim;
    if (einsum_parse(attr_string(c->op, "equation", ""), n, ndims, &e)) return 0;
    double extents[EINSUM_LABELS] = {0};
    for (int k = 0; k < n; k++)
        for (int d = 0; d < e.in[k].ndim; d++)
            if (extent(&operands[k], d) > extents[e.in[k].label[d]])
                extents[e.in[k].label[d]] = extent(&operands[k], d);
    for (int l = 0; l < e.nlabels; l++) count *= extents[l];
    return n == 1 ? count / 2 : count;
}

static double count_einsum(const op_cost_call *c, double weight) {
    return weight * einsum_indices(c, c->in, (int)c->in_first[1]);
}

static double count_einsum_grad(const op_cost_call *c, double weight) {
    return weight * outputs_given(c) * einsum_indices(c, c->in, (int)c->in_first[1]);
}

/* Products of all channels at every position. */
static double count_fsp(const op_cost_call *c, double weight) {
    const shape *x = input(c, "X"), *y = input(c, "Y");
    return x && y ? weight * numel(x) * extent(y, 1) : 0;
}

/* Products of each row with all weights. */
static double count_gru_unit(const op_cost_call *c, double weight) {
    const shape *before = input(c, "HiddenPrev"), *w = input(c, "Weight");
    return before && w ? weight * extent(before, 0) * numel(w) : 0;
}

/* A product of matrices, and what is added to it. */
static double count_addmm(const op_cost_call *c, double weight) {
    const shape *a = input(c, "mat1");
    return a && c->out_first[1] ? numel(&c->out[0]) * (weight * extent(a, -1) + 2) : 0;
}

/* The part of the filter that each element of the result meets (of the input where transposed). */
static double filter_part(const op_cost_call *c) {
    const shape *filter = input(c, "Filter");
    return filter ? numel(filter) / extent(filter, 0) : 0;
}

static double count_conv(const op_cost_call *c, double weight) {
    return count_results(c, weight * filter_part(c), NULL);
}

static double count_conv_grad(const op_cost_call *c, double weight) {
    return count_results(c, weight * filter_part(c), "Output@GRAD");
}

static double count_conv_transpose(const op_cost_call *c, double weight) {
    const shape *x = input(c, "Input");
    return x ? weight * numel(x) * filter_part(c) : 0;
}

static double count_conv_transpose_grad(const op_cost_call *c, double weight) {
    return count_conv_transpose(c, weight) * outputs_given(c);
}

/* The same of ATen's, transposed or not; `result` is what is convolved to. */
static double convolved(const op_cost_call *c, const shape *result) {
    const shape *x = input(c, "input"), *weight = input(c, "weight");
    if (!x || !weight || !result) return 0;
    return numel(attr_bool(c->op, "transposed", false) ? x : result) * numel(weight) / extent(weight, 0);
}

static double count_convolution(const op_cost_call *c, double weight) {
    return c->out_first[1] ? weight * convolved(c, &c->out[0]) : 0;
}

static double count_convolution_backward(const op_cost_call *c, double weight) {
    return weight * convolved(c, input(c, "grad_output")) * outputs_given(c);
}

static double count_baddbmm(const op_cost_call *c, double weight) {
    const shape *a = input(c, "batch1");
    return a && c->out_first[1] ? numel(&c->out[0]) * (weight * extent(a, -1) + 2) : 0;
}

/* Two products of [rows, keys] by the width each; in the gradient five. */
static double attention_products(const op_cost_call *c) {
    const shape *q = input(c, "query"), *k = input(c, "key");
    return q && k ? numel(q) * extent(k, 2) : 0;
}

static double count_attention(const op_cost_call *c, double weight) {
    return weight * 2 * attention_products(c);
}

static double count_attention_backward(const op_cost_call *c, double weight) {
    return weight * 5 * attention_products(c);
}

static double count_aten_pool(const op_cost_call *c, double weight) {
    size_t n;
    const int64_t *window = attr_ints(c->op, "kernel_size", &n);
    double elements = c->out_first[1] ? numel(&c->out[0]) : 0;
    for (size_t i = 0; i < n; i++) elements *= (double)window[i];
    return weight * elements;
}

/* What each element of the result takes of its window. */
static double count_windows(const op_cost_call *c, double weight, const shape *result) {
    size_t n;
    const int64_t *window = attr_ints(c->op, "ksize", &n);
    double elements = result ? numel(result) : 0;
    bool all = attr_bool(c->op, "global_pooling", false) || attr_bool(c->op, "adaptive", false);
    for (size_t i = 0; i < n && !all; i++) elements *= (double)window[i];
    return weight * (all ? largest(c) : elements);
}

static double count_pool(const op_cost_call *c, double weight) {
    return count_windows(c, weight, &c->out[0]);
}

static double count_pool_grad(const op_cost_call *c, double weight) {
    return count_windows(c, weight, input(c, "Out@GRAD"));
}

/* Every matrix on every row. */
static double count_bilinear(const op_cost_call *c, double weight) {
    const shape *x = input(c, "X"), *w = input(c, "Weight");
    return x && w ? weight * extent(x, 0) * numel(w) : 0;
}

static double count_bilinear_grad(const op_cost_call *c, double weight) {
    return count_bilinear(c, weight) * outputs_given(c);
}

/* A node's row for each step of a way. */
static double count_hierarchical_sigmoid(const op_cost_call *c, double weight) {
    const shape *x = input(c, "X"), *steps = input(c, "PreOut");
    if (!steps && c->out_first[2] > c->out_first[1]) steps = &c->out[c->out_first[1]];
    return x && steps ? weight * numel(steps) * extent(x, -1) : 0;
}

/* An update of a parameter; by a sparse gradient, of the rows that it has. */
static double count_update(const op_cost_call *c, double weight) {
    const shape *grad = input(c, "Grad");
    return grad && grad->height >= 0 ? weight * numel(grad) : count_first_slot(c, weight);
}

/* --- rules -------------------------------------------------------------------------------------------------------- */

typedef struct rule {
    double (*flops)(const op_cost_call *, double weight);
    double weight;
    const char *unread; /* input slots of which only the shape is needed, beside those that the row marks '!' */
    const char *partly; /* the input slot of which as much is read as is written */
} rule;

#define EACH(type, weight) [ROW_##type] = {count_largest, weight, NULL, NULL}
#define EACH_UNREAD(type, weight, slots) [ROW_##type] = {count_largest, weight, slots, NULL}
#define LIST(type, weight) [ROW_##type] = {count_first_slot, weight, NULL, NULL}
#define MOVE(type) [ROW_##type] = {count_none, 0, NULL, NULL}
#define MOVE_UNREAD(type, slots) [ROW_##type] = {count_none, 0, slots, NULL}
#define TAKE(type, slot) [ROW_##type] = {count_none, 0, NULL, slot}
#define KIND(type, kind, weight) [ROW_##type] = {count_##kind, weight, NULL, NULL}

static const rule rules[NROWS] = {
#include "ops/cost.def"
};

static double count_bytes(const op_cost_call *c, const rule *r) {
    double written = 0, read = 0;
    for (uint32_t i = 0; i < c->out_first[c->schema->noutputs]; i++) written += nbytes(&c->out[i]);
    for (size_t s = 0; s < c->schema->ninputs; s++) {
        const char *slot_name = c->schema->inputs[s].name;
        if (c->schema->inputs[s].only_type || base_has_word(r->unread, slot_name, strlen(slot_name))) continue;
        double all = 0;
        for (uint32_t i = c->in_first[s]; i < c->in_first[s + 1]; i++) all += nbytes(&c->in[i]);
        read += base_has_word(r->partly, slot_name, strlen(slot_name)) && written < all ? written : all;
    }
    return read + written;
}

/* A sparse gradient touches the rows that it has: of parameter and state, read and written. */
static double count_sparse_update(const op_cost_call *c, const shape *grad) {
    double arrays = 0;
    const shape *param = input(c, "Param");
    for (uint32_t i = 0; i < c->out_first[c->schema->noutputs]; i++)
        arrays += param && numel(&c->out[i]) >= numel(param);
    return nbytes(grad) * (1 + 2 * arrays);
}

/* A host's op: as its function says, else so many operations for each element of the largest argument. */
static op_cost cost_of_host(const op_cost_call *c) {
    double weight = c->schema->host->def.flops_per_element;
    rule r = {.flops = count_largest, .weight = weight > 0 ? weight : 1};
    op_cost cost = {r.flops(c, r.weight), count_bytes(c, &r), 0};
    host_op_cost(c, &cost.flops, &cost.bytes);
    return cost;
}

op_cost op_cost_of(const op_cost_call *c) {
    static const rule other = {count_largest, 1, NULL, NULL};
    const rule *r = c->schema->index >= 0 && c->schema->index < NROWS ? &rules[c->schema->index] : &other;
    if (!r->flops) r = &other;
    if (c->schema->host) return cost_of_host(c);
    if (c->schema->effects & OP_NO_BYTES) return (op_cost){0, 0, 0};
    op_cost cost = {r->flops(c, r->weight), count_bytes(c, r), 0};
    if (r->flops == count_matmul) cost.rows = matmul_rows(c);
    const shape *grad = r->flops == count_update ? input(c, "Grad") : NULL;
    if (grad && grad->height >= 0) cost.bytes = count_sparse_update(c, grad);
    return cost;
}
