/* strided.c: ops of real elements that are walks (walk.c). */
#include "executor/devices/cuda/strided.h"

#include "base/types.h"
#include "executor/kernels/loops.h"

/* --- two operands ------------------------------------------------------------------------------------------------- */

/* All of one real type. */
static weft_status require_real_args(const kernel_prepare *p, int *out_type) {
    TRY(cuda_require_real(p, out_type));
    const tensor *out = type_out(p, 0);
    for (uint32_t i = 0; i < p->in_first[p->schema->ninputs]; i++)
        if (p->in[i].dtype != WEFT_DTYPE_NONE && !dtype_is_float(p->in[i].dtype)) return cuda_refuse("integers");
    return out && !dtype_is_float(out->dtype) ? cuda_refuse("integers") : NULL;
}

typedef struct pair_walk {
    strided_walk reals;
    elements_walk integers;
    bool is_integer;
} pair_walk;

static weft_status prepare_pair(kernel_prepare *p, cuda_kernel_id items, cuda_kernel_id blocks, int function) {
    pair_walk *w = KERNEL_STATE(p, pair_walk);
    if (!w) return base_out_of_memory();
    int64_t strides[MOST_OPERANDS][WEFT_MAX_RANK];
    const tensor *x = type_in(p, 0), *out = type_out(p, 0);
    int type = ELEMENT_FP32;
    w->is_integer = !dtype_is_float(x->dtype) && function >= 0;
    TRY(w->is_integer ? cuda_require_fp32(p) : require_real_args(p, &type));
    strides_dense(out->ndim, out->dims, strides[0]);
    TRY(strided_broadcast(p, x, out, strides[1]));
    TRY(strided_broadcast(p, type_in(p, 1), out, strides[2]));
    if (w->is_integer)
        return elements_init(&w->integers, (element_function)function, x->dtype, out->dtype, out->ndim, out->dims, 2,
                             strides);
    w->reals = (strided_walk){.args = {.type = type}, .items = items, .blocks = blocks};
    strided_init(&w->reals, out->ndim, out->dims, 2, strides);
    return NULL;
}

static weft_status launch_pair(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const pair_walk *w = c->state;
    const void *x = arg_in(c, 0)->data, *y = arg_in(c, 1)->data;
    if (w->is_integer) return elements_launch(l, &w->integers, arg_out(c, 0)->data, x, y, NULL);
    return strided_launch(l, &w->reals, arg_out(c, 0)->data, x, y, NULL);
}

/* `integers`: the function of elements.def; -1: there is none. */
#define PAIR(name, integers)                                                                                           \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_pair(p, STRIDED_KERNELS(name), integers);                                                       \
    }                                                                                                                  \
    const cuda_op cuda_elementwise_##name = {.prepare = prepare_##name, .launch = launch_pair};
PAIR(add, ELEMENTS_add)
PAIR(sub, ELEMENTS_sub)
PAIR(mul, ELEMENTS_mul)
PAIR(div, -1)
PAIR(max, ELEMENTS_max)
PAIR(min, ELEMENTS_min)
PAIR(pow, -1)
#undef PAIR

/* --- gradients of two operands ------------------------------------------------------------------------------------ */

/* Which arguments a gradient is of: Out@GRAD, X, Y, or none. */
typedef enum source { NOTHING, DOUT, OF_X, OF_Y } source;
typedef struct side_rule {
    cuda_kernel_id items, blocks;
    source in[KERNEL_INPUTS];
    float p;
} side_rule;
typedef struct pair_state {
    strided_walk walks[2];
    const side_rule *rules;
    int dout, type; /* slot; element_type */
} pair_state;

static int slot_of(const op_schema *schema, const char *n) {
    for (size_t i = 0; i < schema->ninputs; i++)
        if (strcmp(schema->inputs[i].name, n) == 0) return (int)i;
    return -1;
}

/* Of Out@GRAD. One element stays one, however many axes of extent 1 the operands write it with. */
static tensor axes_of(const kernel_prepare *p, int dout) {
    tensor all = *type_in(p, dout);
    for (int k = 0; k < 2 && all.numel == 1; k++)
        for (const tensor *t = type_in(p, k); t && all.ndim < t->ndim;) all.dims[all.ndim++] = 1;
    return all;
}

static weft_status prepare_side(const kernel_prepare *p, pair_state *s, int side) {
    int64_t strides[MOST_OPERANDS][WEFT_MAX_RANK] = {{0}};
    const tensor *result = type_out(p, side);
    const side_rule *rule = &s->rules[side];
    if (!result) return NULL;
    tensor all = axes_of(p, s->dout);
    const tensor *dout = &all;
    TRY(strided_broadcast(p, result, dout, strides[0]));
    for (int k = 0; k < KERNEL_INPUTS; k++) {
        if (rule->in[k] == DOUT) strides_dense(dout->ndim, dout->dims, strides[k + 1]);
        if (rule->in[k] == OF_X) TRY(strided_broadcast(p, type_in(p, 0), dout, strides[k + 1]));
        if (rule->in[k] == OF_Y) TRY(strided_broadcast(p, type_in(p, 1), dout, strides[k + 1]));
    }
    s->walks[side] =
        (strided_walk){.args = {.p = rule->p, .type = s->type}, .items = rule->items, .blocks = rule->blocks};
    strided_init(&s->walks[side], dout->ndim, dout->dims, KERNEL_INPUTS, strides);
    return NULL;
}

static weft_status prepare_sides(kernel_prepare *p, const side_rule *rules) {
    pair_state *s = KERNEL_STATE(p, pair_state);
    if (!s) return base_out_of_memory();
    TRY(require_real_args(p, &s->type));
    s->rules = rules;
    s->dout = slot_of(p->schema, "Out@GRAD");
    if (s->dout < 0 || !type_in(p, s->dout)) return cuda_refuse("an op without Out@GRAD");
    TRY(prepare_side(p, s, 0));
    return prepare_side(p, s, 1);
}

/* Y's first: X's may take the memory of Out@GRAD. */
static weft_status launch_sides(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const pair_state *s = c->state;
    const tensor *dout = arg_in(c, s->dout);
    for (int side = 1; side >= 0; side--) {
        const tensor *result = arg_out(c, side), *x = arg_in(c, 0), *y = arg_in(c, 1);
        const void *in[KERNEL_INPUTS];
        for (int k = 0; k < KERNEL_INPUTS && result; k++) {
            source from = s->rules[side].in[k];
            in[k] = from == DOUT ? dout->data : from == OF_X ? x->data : from == OF_Y ? y->data : NULL;
        }
        if (result) TRY(strided_launch(l, &s->walks[side], result->data, in[0], in[1], in[2]));
    }
    return NULL;
}

#define SIDES(name, ...)                                                                                               \
    static weft_status prepare_##name##_sides(kernel_prepare *p) {                                                     \
        static const side_rule rules[2] = {__VA_ARGS__};                                                               \
        return prepare_sides(p, rules);                                                                                \
    }                                                                                                                  \
    const cuda_op cuda_elementwise_##name##_grad = {.prepare = prepare_##name##_sides, .launch = launch_sides};
SIDES(add, {STRIDED_KERNELS(scaled), {DOUT, NOTHING, NOTHING}, 1},
      {STRIDED_KERNELS(scaled), {DOUT, NOTHING, NOTHING}, 1})
SIDES(sub, {STRIDED_KERNELS(scaled), {DOUT, NOTHING, NOTHING}, 1},
      {STRIDED_KERNELS(scaled), {DOUT, NOTHING, NOTHING}, -1})
SIDES(mul, {STRIDED_KERNELS(mul), {DOUT, OF_Y, NOTHING}, 0}, {STRIDED_KERNELS(mul), {DOUT, OF_X, NOTHING}, 0})
SIDES(div, {STRIDED_KERNELS(div), {DOUT, OF_Y, NOTHING}, 0}, {STRIDED_KERNELS(div_slope), {DOUT, OF_X, OF_Y}, 0})
SIDES(pow, {STRIDED_KERNELS(pow_slope), {DOUT, OF_X, OF_Y}, 0},
      {STRIDED_KERNELS(pow_base_slope), {DOUT, OF_X, OF_Y}, 0})
SIDES(max, {STRIDED_KERNELS(if_larger), {DOUT, OF_X, OF_Y}, 0}, {STRIDED_KERNELS(unless_larger), {DOUT, OF_X, OF_Y}, 0})
SIDES(min, {STRIDED_KERNELS(if_smaller), {DOUT, OF_X, OF_Y}, 0},
      {STRIDED_KERNELS(unless_smaller), {DOUT, OF_X, OF_Y}, 0})
#undef SIDES

/* --- one operand -------------------------------------------------------------------------------------------------- */

/* Strides of the reduced tensor along x's axes: 0 where reduced. */
static weft_status reduced_strides(const kernel_prepare *p, bool everything, const tensor *x, int64_t *out) {
    bool is_reduced[WEFT_MAX_RANK] = {false};
    size_t count = 0;
    const int64_t *dim = attr_ints(p->op, "dim", &count);
    bool all = everything || count == 0 || attr_bool(p->op, "reduce_all", false);
    for (size_t i = 0; i < count && !all; i++) {
        int64_t axis = dim[i] < 0 ? dim[i] + x->ndim : dim[i];
        if (axis < 0 || axis >= x->ndim) return cuda_refuse("a scalar's axis");
        is_reduced[axis] = true;
    }
    int64_t stride = 1;
    for (int i = x->ndim - 1; i >= 0; i--) {
        out[i] = all || is_reduced[i] ? 0 : stride;
        if (out[i]) stride *= x->dims[i];
    }
    return NULL;
}

static weft_status prepare_reduce(kernel_prepare *p, bool is_mean, bool is_grad, bool everything, cuda_kernel_id items,
                                  cuda_kernel_id blocks) {
    strided_walk *w = KERNEL_STATE(p, strided_walk);
    if (!w) return base_out_of_memory();
    int64_t strides[MOST_OPERANDS][WEFT_MAX_RANK];
    const tensor *x = type_in(p, 0), *small = is_grad ? type_in(p, 1) : type_out(p, 0);
    int type;
    TRY(require_real_args(p, &type));
    if (!x->numel) return cuda_refuse("no elements");
    strides_dense(x->ndim, x->dims, strides[is_grad ? 0 : 1]);
    TRY(reduced_strides(p, everything, x, strides[is_grad ? 1 : 0]));
    *w = (strided_walk){.args = {.type = type}, .items = items, .blocks = blocks};
    w->args.p = is_mean ? (float)((double)small->numel / (double)x->numel) : 1;
    strided_init(w, x->ndim, x->dims, 1, strides);
    return NULL;
}

static weft_status launch_single(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return strided_launch(l, c->state, arg_out(c, 0)->data, arg_in(c, 0)->data, NULL, NULL);
}
static weft_status launch_single_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    return strided_launch(l, c->state, arg_out(c, 0)->data, arg_in(c, 1)->data, NULL, NULL);
}

#define REDUCE(name, function, is_mean, is_grad, everything)                                                           \
    static weft_status prepare_##name(kernel_prepare *p) {                                                             \
        return prepare_reduce(p, is_mean, is_grad, everything, STRIDED_KERNELS(function));                             \
    }                                                                                                                  \
    const cuda_op cuda_##name = {.prepare = prepare_##name, .launch = is_grad ? launch_single_grad : launch_single};
REDUCE(reduce_sum, scaled, false, false, false)
REDUCE(reduce_mean, scaled, true, false, false)
REDUCE(mean, scaled, true, false, true)
REDUCE(squared_l2_norm, squared, false, false, true)
REDUCE(reduce_sum_grad, scaled, false, true, false)
REDUCE(reduce_mean_grad, scaled, true, true, false)
REDUCE(mean_grad, scaled, true, true, true)
#undef REDUCE

/* --- sigmoid_cross_entropy_with_logits ---------------------------------------------------------------------------- */

static weft_status prepare_logits(kernel_prepare *p, cuda_kernel_id items, cuda_kernel_id blocks, int nin) {
    strided_walk *w = KERNEL_STATE(p, strided_walk);
    if (!w) return base_out_of_memory();
    int64_t strides[MOST_OPERANDS][WEFT_MAX_RANK];
    const tensor *x = type_in(p, 0);
    int type;
    TRY(require_real_args(p, &type));
    if (type_in(p, 2)) return cuda_refuse("weights");
    if (attr_bool(p->op, "normalize", false)) return cuda_refuse("a loss divided by a count");
    if (type_in(p, 1)->numel != x->numel) return cuda_refuse("labels that broadcast");
    for (int k = 0; k <= nin; k++) strides_dense(x->ndim, x->dims, strides[k]);
    float ignored = (float)attr_int(p->op, "ignore_index", -100);
    *w = (strided_walk){.args = {.p = ignored, .type = type}, .items = items, .blocks = blocks};
    strided_init(w, x->ndim, x->dims, nin, strides);
    return NULL;
}

static weft_status prepare_logits_loss(kernel_prepare *p) {
    return prepare_logits(p, STRIDED_KERNELS(sigmoid_loss), 2);
}
static weft_status prepare_logits_grad(kernel_prepare *p) {
    return prepare_logits(p, STRIDED_KERNELS(sigmoid_loss_slope), 3);
}
static weft_status launch_logits(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const void *dy = c->schema->ninputs > 3 ? arg_in(c, 3)->data : NULL;
    return strided_launch(l, c->state, arg_out(c, 0)->data, arg_in(c, 0)->data, arg_in(c, 1)->data, dy);
}

const cuda_op cuda_sigmoid_loss = {.prepare = prepare_logits_loss, .launch = launch_logits};
const cuda_op cuda_sigmoid_loss_grad = {.prepare = prepare_logits_grad, .launch = launch_logits};

/* --- gradients of what was repeated ------------------------------------------------------------------------------- */

static weft_status prepare_expand_grad(kernel_prepare *p) {
    pair_state *s = KERNEL_STATE(p, pair_state);
    static const side_rule rules[2] = {{STRIDED_KERNELS(scaled), {DOUT, NOTHING, NOTHING}, 1}};
    if (!s) return base_out_of_memory();
    TRY(cuda_require_real(p, &s->type));
    s->rules = rules;
    s->dout = slot_of(p->schema, "Out@GRAD");
    if (!dtype_is_float(type_out(p, 0)->dtype)) return cuda_refuse("integers");
    return prepare_side(p, s, 0);
}

static weft_status launch_expand_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    const pair_state *s = c->state;
    return strided_launch(l, &s->walks[0], arg_out(c, 0)->data, arg_in(c, s->dout)->data, NULL, NULL);
}

const cuda_op cuda_expand_grad = {.prepare = prepare_expand_grad, .launch = launch_expand_grad};
