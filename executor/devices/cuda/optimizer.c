/* optimizer.c: launchers of sgd, momentum, adam and adamw. */
#include "executor/devices/cuda/attrs.h"
#include "executor/devices/cuda/kernels/args.h"
#include "executor/devices/cuda/launch.h"
#include "executor/kernels/layout.h"

typedef struct update_state {
    update_args rule; /* without addresses */
    bool is_global;   /* powers stay */
    int skip;         /* the slot that says whether the step changes nothing; -1: none */
    int master, grad; /* slots; no master copy: -1 */
    int master_out;   /* then */
} update_state;

static int slot_named(const slot_schema *slots, size_t n, const char *wanted) {
    for (size_t k = 0; k < n; k++)
        if (strcmp(slots[k].name, wanted) == 0) return (int)k;
    return -1;
}

/* A parameter of half type has a master copy, which the update computes with; its gradient may be of half type too. */
static weft_status take_master(const kernel_prepare *p, update_state *s) {
    s->master = slot_named(p->schema->inputs, p->schema->ninputs, "MasterParam");
    s->master_out = slot_named(p->schema->outputs, p->schema->noutputs, "MasterParamOut");
    s->grad = slot_named(p->schema->inputs, p->schema->ninputs, "Grad");
    if (s->master < 0 || !type_in(p, s->master)) s->master = -1;
    if (s->master < 0) return NULL;
    if (s->master_out < 0 || !type_out(p, s->master_out) || !dtype_is_half(type_in(p, 0)->dtype))
        return cuda_refuse("a master copy that is none");
    TRY(cuda_take_real(type_in(p, 0), &s->rule.rounded_type));
    return cuda_take_real(type_in(p, s->grad), &s->rule.grad_type);
}

/* All arguments are dense and fp32, but for what the launcher does not read, and those that take_master has seen. */
static weft_status begin(kernel_prepare *p, const char *const *refused) {
    update_state *s = KERNEL_STATE(p, update_state);
    if (!s) return base_out_of_memory();
    TRY(take_master(p, s));
    for (size_t k = 0; k < p->schema->ninputs; k++) {
        const tensor *t = type_in(p, (int)k);
        if (!t || (s->master >= 0 && ((int)k == 0 || (int)k == s->grad))) continue;
        if (t->height >= 0) return cuda_refuse("rows (SelectedRows)");
        if (t->dtype != WEFT_FP32 && t->dtype != WEFT_BOOL)
            return cuda_refuse("an argument of %s", weft_dtype_name(t->dtype));
    }
    for (const char *const *r = refused; *r; r++) {
        int k = slot_named(p->schema->inputs, p->schema->ninputs, *r);
        if (k >= 0 && type_in(p, k)) return cuda_refuse("a %s", *r);
    }
    return NULL;
}

static update_args begin_args(const kernel_call *c) {
    const update_state *s = c->state;
    update_args a = s->rule;
    a.nitems = arg_in(c, 0)->numel;
    a.param = arg_in(c, s->master < 0 ? 0 : s->master)->data;
    a.param_out = arg_out(c, s->master < 0 ? 0 : s->master_out)->data;
    if (s->master >= 0) a.rounded = arg_out(c, 0)->data;
    a.grad = arg_in(c, s->grad)->data;
    return a;
}

static weft_status prepare_sgd(kernel_prepare *p) {
    return begin(p, (const char *const[]){NULL});
}

static update_args args_of_sgd(const kernel_call *c) {
    update_args a = begin_args(c);
    a.rate = arg_in(c, 1)->data;
    return a;
}

static weft_status launch_sgd(const cuda_launch *l) {
    update_args a = args_of_sgd(l->call);
    return cuda_start_items(l, CUDA_KERNEL_update_sgd, a.nitems, &a);
}

static weft_status prepare_momentum(kernel_prepare *p) {
    TRY(begin(p, (const char *const[]){NULL}));
    update_args *rule = &((update_state *)p->state)->rule;
    bool l2 = strcmp(attr_string(p->op, "regularization_method", ""), "l2_decay") == 0;
    rule->mu = (float)attr_float(p->op, "mu", 0.9);
    rule->nesterov = attr_bool(p->op, "use_nesterov", false);
    rule->decay = l2 ? (float)attr_float(p->op, "regularization_coeff", 0) : 0;
    return NULL;
}

static update_args args_of_momentum(const kernel_call *c) {
    update_args a = begin_args(c);
    a.moment = arg_in(c, 2)->data;
    a.rate = arg_in(c, 3)->data;
    a.moment_out = arg_out(c, 1)->data;
    return a;
}

static weft_status launch_momentum(const cuda_launch *l) {
    update_args a = args_of_momentum(l->call);
    return cuda_start_items(l, CUDA_KERNEL_update_momentum, a.nitems, &a);
}

static weft_status prepare_adams(kernel_prepare *p, double coeff) {
    TRY(begin(p, (const char *const[]){"Moment2Max", "Beta1Tensor", "Beta2Tensor", "EpsilonTensor", NULL}));
    update_state *s = p->state;
    if (attr_bool(p->op, "amsgrad", false)) return cuda_refuse("amsgrad");
    s->rule.beta1 = attr_float(p->op, "beta1", 0.9);
    s->rule.beta2 = attr_float(p->op, "beta2", 0.999);
    s->rule.epsilon = attr_float(p->op, "epsilon", 1e-8);
    s->rule.coeff = coeff;
    s->is_global = attr_bool(p->op, "use_global_beta_pow", false);
    s->skip = slot_named(p->schema->inputs, p->schema->ninputs, "SkipUpdate");
    p->workspace_nbytes = 4 * sizeof(float);
    return s->is_global ? cuda_refuse("powers that stay") : NULL;
}

static weft_status prepare_adam(kernel_prepare *p) {
    return prepare_adams(p, 0);
}
static weft_status prepare_adamw(kernel_prepare *p) {
    bool decays = attr_bool(p->op, "with_decay", false);
    return prepare_adams(p, decays ? attr_float(p->op, "coeff", 0.01) * attr_float(p->op, "lr_ratio", 1) : 0);
}

static update_args args_of_adam(const kernel_call *c) {
    const update_state *s = c->state;
    update_args a = begin_args(c);
    a.rate = arg_in(c, 2)->data;
    a.moment = arg_in(c, 3)->data;
    a.second = arg_in(c, 4)->data;
    a.pow1 = arg_in(c, 5)->data;
    a.pow2 = arg_in(c, 6)->data;
    a.moment_out = arg_out(c, 1)->data;
    a.second_out = arg_out(c, 2)->data;
    a.pow1_out = data_or_null(arg_out(c, 3));
    a.pow2_out = data_or_null(arg_out(c, 4));
    if (s->skip >= 0) a.skip = data_or_null(arg_in(c, s->skip));
    return a;
}

static weft_status launch_adam(const cuda_launch *l) {
    update_args a = args_of_adam(l->call);
    cuda_index n = a.nitems;
    a.step = l->call->workspace;
    a.nitems = 1;
    TRY(cuda_start_items(l, CUDA_KERNEL_adam_begin, 1, &a));
    a.nitems = n;
    return cuda_start_items(l, CUDA_KERNEL_update_adam, a.nitems, &a);
}

static const cuda_updates all_sgd = {args_of_sgd, CUDA_KERNELS, CUDA_KERNEL_update_sgd_many},
                          all_momentum = {args_of_momentum, CUDA_KERNELS, CUDA_KERNEL_update_momentum_many},
                          all_adam = {args_of_adam, CUDA_KERNEL_adam_begin_many, CUDA_KERNEL_update_adam_many};

const cuda_op cuda_sgd = {.prepare = prepare_sgd, .launch = launch_sgd, .updates = &all_sgd};
const cuda_op cuda_momentum = {.prepare = prepare_momentum, .launch = launch_momentum, .updates = &all_momentum};
const cuda_op cuda_adam = {.prepare = prepare_adam, .launch = launch_adam, .updates = &all_adam};
const cuda_op cuda_adamw = {.prepare = prepare_adamw, .launch = launch_adam, .updates = &all_adam};
