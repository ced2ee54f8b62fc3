/* rows.c: launchers of softmax, its cross entropy, and layer normalisation. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"
#include "executor/kernels/layout.h"

/* --- softmax ------------------------------------------------------------------------------------------------------ */

typedef struct softmax_state {
    int64_t nrows, width, ignore;
    int type; /* element_type */
} softmax_state;

static weft_status prepare_rows(kernel_prepare *p, const tensor *x) {
    softmax_state *s = KERNEL_STATE(p, softmax_state);
    if (!s) return base_out_of_memory();
    TRY(cuda_require_real(p, &s->type));
    int64_t axis = attr_int(p->op, "axis", -1);
    if (x->ndim < 1 || !x->numel || (axis != -1 && axis != x->ndim - 1))
        return cuda_refuse("another axis than the last");
    s->width = x->dims[x->ndim - 1];
    s->nrows = x->numel / s->width;
    s->ignore = attr_int(p->op, "ignore_index", -100);
    return NULL;
}

static weft_status prepare_softmax(kernel_prepare *p) {
    return prepare_rows(p, type_in(p, 0));
}

static weft_status launch_softmax(const cuda_launch *l) {
    const softmax_state *s = l->call->state;
    softmax_args a = {.nrows = s->nrows,
                      .width = s->width,
                      .type = s->type,
                      .out = arg_out(l->call, 0)->data,
                      .x = arg_in(l->call, 0)->data};
    return cuda_start(l, CUDA_KERNEL_softmax_rows, s->nrows, &a);
}

static weft_status launch_softmax_grad(const cuda_launch *l) {
    const softmax_state *s = l->call->state;
    softmax_args a = {.nrows = s->nrows,
                      .width = s->width,
                      .type = s->type,
                      .out = arg_out(l->call, 0)->data,
                      .x = arg_in(l->call, 0)->data,
                      .dy = arg_in(l->call, 1)->data};
    return cuda_start(l, CUDA_KERNEL_softmax_grad_rows, s->nrows, &a);
}

const cuda_op cuda_softmax = {.prepare = prepare_softmax, .launch = launch_softmax};
const cuda_op cuda_softmax_grad = {.prepare = prepare_softmax, .launch = launch_softmax_grad};

/* --- cross entropy ------------------------------------------------------------------------------------------------ */

static weft_status prepare_loss(kernel_prepare *p, const tensor *x, const tensor *label) {
    if (attr_bool(p->op, "soft_label", false)) return cuda_refuse("labels that are shares");
    if (!attr_bool(p->op, "use_softmax", true)) return cuda_refuse("logits that are shares");
    if (label->dtype != WEFT_INT64 && label->dtype != WEFT_INT32)
        return cuda_refuse("labels of %s", weft_dtype_name(label->dtype));
    return prepare_rows(p, x);
}

static weft_status prepare_cross_entropy(kernel_prepare *p) {
    return prepare_loss(p, type_in(p, 0), type_in(p, 1));
}
static weft_status prepare_cross_entropy_grad(kernel_prepare *p) {
    return prepare_loss(p, type_in(p, 1), type_in(p, 0));
}

static softmax_args loss_args(const softmax_state *s, const tensor *label) {
    return (softmax_args){.nrows = s->nrows,
                          .nitems = s->nrows * s->width,
                          .width = s->width,
                          .type = s->type,
                          .labels = label->data,
                          .wide_labels = label->dtype == WEFT_INT64,
                          .ignore = s->ignore};
}

static weft_status launch_cross_entropy(const cuda_launch *l) {
    const kernel_call *c = l->call;
    softmax_args a = loss_args(c->state, arg_in(c, 1));
    a.x = arg_in(c, 0)->data;
    a.out = arg_out(c, 0)->data;
    a.loss = arg_out(c, 1)->data;
    return cuda_start(l, CUDA_KERNEL_softmax_rows, a.nrows, &a);
}

static weft_status launch_cross_entropy_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    softmax_args a = loss_args(c->state, arg_in(c, 0));
    a.x = arg_in(c, 1)->data;
    a.dy = arg_in(c, 2)->data;
    a.out = arg_out(c, 0)->data;
    return cuda_start_items(l, CUDA_KERNEL_cross_entropy_grad, a.nitems, &a);
}

const cuda_op cuda_cross_entropy = {.prepare = prepare_cross_entropy, .launch = launch_cross_entropy};
const cuda_op cuda_cross_entropy_grad = {.prepare = prepare_cross_entropy_grad, .launch = launch_cross_entropy_grad};

/* --- layer normalisation ------------------------------------------------------------------------------------------ */

typedef struct norm_state {
    norm_args rule; /* without addresses */
} norm_state;

/* One type of all of them that are there. */
static weft_status take_types(const tensor *const *of, size_t n, int *out_type) {
    int type;
    *out_type = -1;
    for (size_t i = 0; i < n; i++) {
        if (!of[i] || of[i]->dtype == WEFT_DTYPE_NONE) continue;
        TRY(cuda_take_real(of[i], &type));
        if (*out_type >= 0 && *out_type != type) return cuda_refuse("two types");
        *out_type = type;
    }
    if (*out_type < 0) *out_type = ELEMENT_FP32;
    return NULL;
}

static weft_status prepare_norm_of(kernel_prepare *p, const tensor *const own[3], const tensor *const params[4],
                                   const tensor *const moments[2]) {
    norm_state *s = KERNEL_STATE(p, norm_state);
    if (!s) return base_out_of_memory();
    const tensor *x = type_in(p, 0);
    int64_t axis = attr_int(p->op, "begin_norm_axis", 1);
    norm_args *a = &s->rule;
    *a = (norm_args){.nrows = 1, .width = 1, .epsilon = (float)attr_float(p->op, "epsilon", 1e-5)};
    TRY(take_types(own, 3, &a->type));
    TRY(take_types(params, 4, &a->param_type));
    TRY(take_types(moments, 2, &a->moment_type));
    for (int i = 0; i < x->ndim; i++) *(i < axis ? &a->nrows : &a->width) *= x->dims[i];
    a->nitems = a->width;
    return x->numel ? NULL : cuda_refuse("no elements");
}

static weft_status prepare_norm(kernel_prepare *p) {
    return prepare_norm_of(p, (const tensor *[3]){type_in(p, 0), type_out(p, 0)},
                           (const tensor *[4]){type_in(p, 1), type_in(p, 2)},
                           (const tensor *[2]){type_out(p, 1), type_out(p, 2)});
}

static weft_status prepare_norm_grad(kernel_prepare *p) {
    return prepare_norm_of(p, (const tensor *[3]){type_in(p, 0), type_in(p, 5), type_out(p, 0)},
                           (const tensor *[4]){type_in(p, 1), type_in(p, 2), type_out(p, 1), type_out(p, 2)},
                           (const tensor *[2]){type_in(p, 3), type_in(p, 4)});
}

static weft_status launch_norm(const cuda_launch *l) {
    const kernel_call *c = l->call;
    norm_args a = ((const norm_state *)c->state)->rule;
    a.x = arg_in(c, 0)->data;
    a.scale = data_or_null(arg_in(c, 1));
    a.bias = data_or_null(arg_in(c, 2));
    a.out = arg_out(c, 0)->data;
    a.mean = data_or_null(arg_out(c, 1));
    a.variance = data_or_null(arg_out(c, 2));
    return cuda_start(l, CUDA_KERNEL_layer_norm_rows, a.nrows, &a);
}

static weft_status launch_norm_grad(const cuda_launch *l) {
    const kernel_call *c = l->call;
    norm_args a = ((const norm_state *)c->state)->rule;
    a.x = arg_in(c, 0)->data;
    a.scale = data_or_null(arg_in(c, 1));
    a.mean = arg_in(c, 3)->data;
    a.variance = arg_in(c, 4)->data;
    a.dy = arg_in(c, 5)->data;
    a.out = data_or_null(arg_out(c, 0));
    a.dscale = data_or_null(arg_out(c, 1));
    a.dbias = data_or_null(arg_out(c, 2));
    if (a.dscale || a.dbias) TRY(cuda_start_items(l, CUDA_KERNEL_layer_norm_grad_columns, a.width, &a));
    return a.out ? cuda_start(l, CUDA_KERNEL_layer_norm_grad_rows, a.nrows, &a) : NULL;
}

const cuda_op cuda_layer_norm = {.prepare = prepare_norm, .launch = launch_norm};
const cuda_op cuda_layer_norm_grad = {.prepare = prepare_norm_grad, .launch = launch_norm_grad};
