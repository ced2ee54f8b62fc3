/* cost.c: flops and bytes of an op.
 *
 * A row of ops.def has a rule here: how its arithmetic is counted (one function a kind of work) and which inputs are
 * not read in full. A row without a rule costs one operation for each element of its largest argument and reads and
 * writes everything once, which is right for most. Weights of elementwise work are the operations of the plain formula,
 * with 10 for a transcendental function: what a vectorised polynomial takes. */
#include "ops/cost.h"

/* --- sizes --- */

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

static bool is_grad(const op_cost_call *c) {
    return strstr(c->schema->type, "_grad") != NULL;
}

/* --- kinds of work: flops; `weight` is the rule's --- */

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

/* Products that are added up for each element of the result of a matrix product. */
static double inner_extent(const op_cost_call *c, const shape *x) {
    if (strncmp(c->schema->type, "mul", 3) == 0) {
        double k = 1;
        for (int i = (int)attr_int(c->op, "x_num_col_dims", 1); i < x->ndim; i++) k *= extent(x, i);
        return k;
    }
    bool transposed = attr_bool(c->op, "trans_x", false) || attr_bool(c->op, "transpose_X", false);
    return extent(x, transposed && x->ndim > 1 ? -2 : -1);
}

/* Each gradient of a product takes as many operations as the product. */
static double count_matmul(const op_cost_call *c, double weight) {
    const shape *x = input(c, "X"), *result = is_grad(c) ? input(c, "Out@GRAD") : &c->out[0];
    if (!x || !result) return 0;
    return weight * numel(result) * inner_extent(c, x) * (is_grad(c) ? outputs_given(c) : 1);
}

/* A product of matrices, and what is added to it. */
static double count_addmm(const op_cost_call *c, double weight) {
    const shape *a = input(c, "mat1");
    return a && c->out_first[1] ? numel(&c->out[0]) * (weight * extent(a, -1) + 2) : 0;
}

/* For each element of the result (of the input where transposed) the part of the filter that it meets. */
static double count_conv(const op_cost_call *c, double weight) {
    const shape *x = input(c, "Input"), *filter = input(c, "Filter");
    const shape *result = is_grad(c) ? input(c, "Output@GRAD") : &c->out[0];
    if (!x || !filter || !result) return 0;
    bool transposed = strstr(c->schema->type, "transpose") != NULL;
    double each = numel(filter) / extent(filter, 0);
    return weight * numel(transposed ? x : result) * each * (is_grad(c) ? outputs_given(c) : 1);
}

static double count_pool(const op_cost_call *c, double weight) {
    size_t n;
    const int64_t *window = attr_ints(c->op, "ksize", &n);
    const shape *result = is_grad(c) ? input(c, "Out@GRAD") : &c->out[0];
    double elements = result ? numel(result) : 0;
    bool all = attr_bool(c->op, "global_pooling", false) || attr_bool(c->op, "adaptive", false);
    for (size_t i = 0; i < n && !all; i++) elements *= (double)window[i];
    return weight * (all ? largest(c) : elements);
}

/* An update of a parameter; by a sparse gradient, of the rows that it has. */
static double count_update(const op_cost_call *c, double weight) {
    const shape *grad = input(c, "Grad");
    return grad && grad->height >= 0 ? weight * numel(grad) : count_first_slot(c, weight);
}

/* --- rules --- */

typedef struct rule {
    double (*flops)(const op_cost_call *, double weight);
    double weight;
    const char *unread; /* input slots of which only the shape is needed, beside those that the row marks '!' */
    const char *partly; /* the input slot of which as much is read as is written */
} rule;

enum {
#define OP(type, family, inputs, outputs, attrs, effects, infer, cpu, summary) ROW_##type,
#include "ops/ops.def"
#undef OP
    NROWS
};

#define EACH(type, weight) [ROW_##type] = {count_largest, weight, NULL, NULL}
#define EACH_UNREAD(type, weight, slots) [ROW_##type] = {count_largest, weight, slots, NULL}
#define LIST(type, weight) [ROW_##type] = {count_first_slot, weight, NULL, NULL}
#define MOVE(type) [ROW_##type] = {count_none, 0, NULL, NULL}
#define MOVE_UNREAD(type, slots) [ROW_##type] = {count_none, 0, slots, NULL}
#define TAKE(type, slot) [ROW_##type] = {count_none, 0, NULL, slot}
#define KIND(type, kind, weight) [ROW_##type] = {count_##kind, weight, NULL, NULL}

static const rule rules[NROWS] = {
    /* matmul */
    KIND(matmul_v2, matmul, 2),
    KIND(matmul_v2_grad, matmul, 2),
    KIND(matmul, matmul, 2),
    KIND(matmul_grad, matmul, 2),
    KIND(bmm, matmul, 2),
    KIND(bmm_grad, matmul, 2),
    KIND(mul, matmul, 2),
    KIND(mul_grad, matmul, 2),
    KIND(dot, largest, 2),
    KIND(dot_grad, largest, 2),
    /* conv */
    KIND(conv2d, conv, 2),
    KIND(conv2d_grad, conv, 2),
    KIND(depthwise_conv2d, conv, 2),
    KIND(depthwise_conv2d_grad, conv, 2),
    KIND(conv2d_transpose, conv, 2),
    KIND(conv2d_transpose_grad, conv, 2),
    /* pool */
    KIND(pool2d, pool, 1),
    KIND(pool2d_grad, pool, 1),
    EACH(bilinear_interp_v2, 9),
    EACH(bilinear_interp_v2_grad, 9),
    MOVE(nearest_interp_v2),
    EACH(nearest_interp_v2_grad, 1),
    /* elementwise */
    EACH(elementwise_add_grad, 1),
    EACH(elementwise_sub_grad, 1),
    EACH(elementwise_mul_grad, 3),
    EACH(elementwise_div_grad, 5),
    EACH(elementwise_max_grad, 3),
    EACH(elementwise_min_grad, 3),
    EACH(elementwise_pow, 10),
    EACH(elementwise_pow_grad, 24),
    EACH(elementwise_mod, 3),
    EACH(scale, 2),
    EACH(clip, 2),
    EACH(clip_grad, 3),
    EACH(clip_by_norm, 3),
    EACH(pow, 10),
    EACH(pow_grad, 12),
    EACH(where_grad, 1),
    /* activation */
    EACH(gelu, 14),
    EACH(gelu_grad, 27),
    EACH(sigmoid, 12),
    EACH(sigmoid_grad, 3),
    EACH(tanh, 10),
    EACH(tanh_grad, 3),
    EACH(silu, 13),
    EACH(silu_grad, 17),
    EACH(swish, 14),
    EACH(swish_grad, 18),
    EACH(elu, 12),
    EACH(elu_grad, 12),
    EACH(softplus, 21),
    EACH(softplus_grad, 13),
    EACH(swiglu, 14),
    EACH(swiglu_grad, 20),
    EACH(exp, 10),
    EACH(log, 10),
    EACH(log1p, 10),
    EACH(erf, 10),
    EACH(sin, 10),
    EACH(cos, 10),
    EACH(erf_grad, 13),
    EACH(sin_grad, 11),
    EACH(cos_grad, 11),
    EACH(sqrt_grad, 2),
    EACH(rsqrt, 2),
    EACH(rsqrt_grad, 3),
    EACH(square_grad, 2),
    EACH(relu6, 2),
    EACH(relu6_grad, 2),
    EACH(leaky_relu, 2),
    EACH(leaky_relu_grad, 2),
    EACH(hard_sigmoid, 4),
    EACH(hard_swish, 5),
    EACH(hard_swish_grad, 5),
    EACH(dropout, 12),
    EACH(softmax, 14),
    EACH(softmax_grad, 4),
    EACH(log_softmax, 14),
    EACH(log_softmax_grad, 13),
    /* reduce */
    LIST(sum, 1),
    EACH(logsumexp, 13),
    EACH(logsumexp_grad, 12),
    EACH(p_norm, 2),
    EACH(p_norm_grad, 4),
    EACH(squared_l2_norm, 2),
    EACH(reduce_sum_grad, 0),
    EACH(reduce_mean_grad, 1),
    EACH(mean_grad, 0),
    EACH(cumsum_grad, 1),
    KIND(argsort, sort, 1),
    KIND(top_k_v2, sort, 1),
    MOVE(argsort_grad),
    MOVE(top_k_v2_grad),
    /* norm */
    EACH(batch_norm, 8),
    EACH(batch_norm_grad, 11),
    EACH(layer_norm, 8),
    EACH(layer_norm_grad, 14),
    EACH(group_norm, 8),
    EACH(group_norm_grad, 14),
    EACH(instance_norm, 8),
    EACH(instance_norm_grad, 14),
    EACH(norm, 3),
    EACH(norm_grad, 5),
    /* loss */
    EACH(bce_loss, 23),
    EACH(bce_loss_grad, 5),
    EACH(sigmoid_cross_entropy_with_logits, 24),
    EACH(sigmoid_cross_entropy_with_logits_grad, 14),
    EACH(softmax_with_cross_entropy, 15),
    EACH(softmax_with_cross_entropy_grad, 2),
    EACH(kldiv_loss, 13),
    EACH(log_loss, 24),
    EACH(log_loss_grad, 6),
    EACH(huber_loss, 5),
    EACH(huber_loss_grad, 4),
    EACH(label_smooth, 2),
    /* optimizer */
    KIND(sgd, update, 2),
    KIND(momentum, update, 4),
    KIND(merged_momentum, update, 4),
    KIND(lars_momentum, update, 8),
    KIND(adam, update, 12),
    KIND(adamw, update, 14),
    KIND(lamb, update, 20),
    KIND(rmsprop, update, 10),
    KIND(adagrad, update, 5),
    KIND(adadelta, update, 12),
    KIND(adamax, update, 8),
    /* amp */
    LIST(check_finite_and_unscale, 2),
    KIND(update_loss_scaling, none, 0),
    /* embedding */
    TAKE(lookup_table_v2, "W"),
    TAKE(c_embedding, "W"),
    EACH(lookup_table_v2_grad, 1),
    EACH(c_embedding_grad, 1),
    /* index */
    TAKE(gather, "X"),
    TAKE(gather_nd, "X"),
    TAKE(index_select, "X"),
    TAKE(index_sample, "X"),
    TAKE(take_along_axis, "Input"),
    EACH(gather_grad, 1),
    EACH_UNREAD(gather_nd_grad, 1, "X"),
    EACH(index_select_grad, 1),
    EACH_UNREAD(index_sample_grad, 1, "X"),
    EACH_UNREAD(take_along_axis_grad, 1, "Input"),
    MOVE(scatter),
    MOVE(scatter_grad),
    MOVE(masked_select),
    MOVE_UNREAD(masked_select_grad, "X"),
    MOVE(one_hot_v2),
    MOVE(where_index),
    /* shape */
    TAKE(slice, "Input"),
    TAKE(strided_slice, "Input"),
    MOVE(slice_grad),
    MOVE_UNREAD(strided_slice_grad, "Input"),
    MOVE(concat),
    MOVE(concat_grad),
    MOVE(split),
    MOVE(stack),
    MOVE(stack_grad),
    MOVE(unstack),
    MOVE(unstack_grad),
    MOVE(unbind),
    MOVE(reshape),
    MOVE(reshape2),
    MOVE_UNREAD(reshape_grad, "X"),
    MOVE(reshape2_grad),
    MOVE(flatten2),
    MOVE(flatten2_grad),
    MOVE(flatten_contiguous_range),
    MOVE(flatten_contiguous_range_grad),
    MOVE(squeeze2),
    MOVE(squeeze2_grad),
    MOVE(unsqueeze2),
    MOVE(unsqueeze2_grad),
    MOVE(transpose2),
    MOVE(transpose2_grad),
    MOVE(flip),
    MOVE(roll),
    MOVE(roll_grad),
    MOVE(pad),
    MOVE_UNREAD(pad_grad, "X"),
    MOVE(pad3d),
    MOVE_UNREAD(pad3d_grad, "X"),
    MOVE(expand_v2),
    MOVE_UNREAD(expand_as_v2, "Y"),
    MOVE(tile),
    EACH(expand_v2_grad, 1),
    EACH_UNREAD(expand_as_v2_grad, 1, "X"),
    EACH_UNREAD(tile_grad, 1, "X"),
    MOVE(meshgrid),
    EACH_UNREAD(meshgrid_grad, 1, "X"),
    MOVE(diag_v2),
    MOVE_UNREAD(diag_v2_grad, "X"),
    MOVE(set_value),
    MOVE(tril_triu),
    MOVE(tril_triu_grad),
    MOVE_UNREAD(shape, "Input"),
    MOVE_UNREAD(size, "Input"),
    /* fill */
    MOVE(assign),
    MOVE(assign_value),
    MOVE(eye),
    MOVE(fill_any),
    MOVE(fill_any_grad),
    MOVE_UNREAD(fill_any_like, "X"),
    MOVE(fill_constant),
    MOVE_UNREAD(fill_zeros_like, "X"),
    MOVE(linspace),
    MOVE(range),
    MOVE(select_input),
    /* random */
    KIND(uniform_random, first_output, 12),
    KIND(gaussian_random, first_output, 40),
    KIND(truncated_gaussian_random, first_output, 60),
    KIND(randint, first_output, 12),
    /* memory */
    MOVE(memcpy),
    MOVE(memcpy_d2h),
    MOVE(share_buffer),
    MOVE(share_data),
    MOVE(coalesce_tensor),
    /* aten */
    MOVE(aten_view),
    MOVE(aten_alias),
    MOVE(aten_flatten),
    MOVE(aten_unsqueeze),
    MOVE(aten_squeeze),
    MOVE(aten_t),
    MOVE(aten_transpose),
    MOVE(aten_permute),
    MOVE(aten_expand),
    TAKE(aten_slice, "self"),
    TAKE(aten_select, "self"),
    MOVE(aten_split),
    MOVE_UNREAD(aten_copy_, "self"),
    MOVE(aten_cat),
    MOVE(aten_full),
    MOVE(aten_full_like),
    MOVE(aten_masked_fill),
    MOVE(aten_slice_backward),
    EACH(aten_pow_scalar, 10),
    LIST(aten_foreach_add_scalar, 1),
    LIST(aten_foreach_mul_scalar, 1),
    LIST(aten_foreach_div_scalar, 1),
    KIND(aten_addmm, addmm, 2),
    EACH(aten_softmax, 14),
    EACH(aten_log_softmax, 14),
    EACH(aten_native_layer_norm, 8),
    EACH(aten_native_layer_norm_backward, 14),
    /* collective */
    MOVE(all_gather),
    MOVE(all_gather_list),
    MOVE(c_allgather),
    MOVE(scatter_list),
    MOVE(all_to_all),
    MOVE(all_to_all_list),
    MOVE(alltoall),
    MOVE(broadcast),
    MOVE(c_broadcast),
    MOVE(c_concat),
    MOVE(c_identity),
    MOVE(c_split),
    MOVE(barrier),
};

/* Whether `word` is one of the words of `list`, which are apart by a space. */
static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ' ' || !at[n])) return true;
    return false;
}

static double count_bytes(const op_cost_call *c, const rule *r) {
    double written = 0, read = 0;
    for (uint32_t i = 0; i < c->out_first[c->schema->noutputs]; i++) written += nbytes(&c->out[i]);
    for (size_t s = 0; s < c->schema->ninputs; s++) {
        const char *slot_name = c->schema->inputs[s].name;
        if (c->schema->inputs[s].only_type || has_word(r->unread, slot_name)) continue;
        double all = 0;
        for (uint32_t i = c->in_first[s]; i < c->in_first[s + 1]; i++) all += nbytes(&c->in[i]);
        read += has_word(r->partly, slot_name) && written < all ? written : all;
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

op_cost op_cost_of(const op_cost_call *c) {
    static const rule other = {count_largest, 1, NULL, NULL};
    const rule *r = c->schema->index >= 0 && c->schema->index < NROWS ? &rules[c->schema->index] : &other;
    if (!r->flops) r = &other;
    if (c->schema->effects & OP_NO_BYTES) return (op_cost){0, 0};
    op_cost cost = {r->flops(c, r->weight), count_bytes(c, r)};
    const shape *grad = r->flops == count_update ? input(c, "Grad") : NULL;
    if (grad && grad->height >= 0) cost.bytes = count_sparse_update(c, grad);
    return cost;
}

/* --- ops of programs --- */

/* The types of one side's arguments, by schema slot. */
static weft_status gather(const shape_env *env, weft_op *op, bool output, const slot_schema *slots, size_t nslots,
                          arena *scratch, const shape **out_shapes, const uint32_t **out_first) {
    size_t n = 0, at = 0;
    for (size_t s = 0; s < nslots; s++) {
        const slot *given = op_find_slot(op, output, slots[s].name);
        n += given ? given->nargs : 0;
    }
    shape *shapes = ARENA_ARRAY(scratch, shape, n + 1);
    uint32_t *first = ARENA_ARRAY(scratch, uint32_t, nslots + 1);
    if (!shapes || !first) return base_out_of_memory();
    for (size_t s = 0; s < nslots; s++) {
        const slot *given = op_find_slot(op, output, slots[s].name);
        first[s] = (uint32_t)at;
        for (size_t i = 0; given && i < given->nargs; i++)
            if (!name_is(given->args[i]->var->name, "@EMPTY@")) shapes[at++] = shape_env_get(env, given->args[i]->var);
    }
    first[nslots] = (uint32_t)at;
    *out_shapes = shapes;
    *out_first = first;
    return NULL;
}

weft_status op_cost_in(const shape_env *env, weft_op *op, arena *scratch, op_cost *out_cost) {
    op_cost_call c = {.op = op, .schema = op_schema_of(op)};
    *out_cost = (op_cost){0, 0};
    if (!c.schema) return NULL;
    TRY(gather(env, op, false, c.schema->inputs, c.schema->ninputs, scratch, &c.in, &c.in_first));
    TRY(gather(env, op, true, c.schema->outputs, c.schema->noutputs, scratch, &c.out, &c.out_first));
    *out_cost = op_cost_of(&c);
    return NULL;
}
