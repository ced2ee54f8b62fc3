#include "executor/devices/cuda/epilogue.h"

#include "executor/devices/cuda/matmul.h"
#include "executor/kernels/typed.h"

/* --- who reads and writes what ------------------------------------------------------------------------------------ */

typedef struct finder {
    cuda_rank *r;
    const weft_plan *plan;
    int *nreaders, *nwriters; /* by root; what outlives the step has one more reader */
    cuda_command **writer;    /* by value: one of those that write it */
    const cuda_command *end;  /* of the stream at hand */
} finder;

static cuda_command *command_of(const cuda_rank *r, const plan_instr *instr) {
    return &r->lanes[instr->stream].commands[instr->position];
}

static void count_in(finder *f, const plan_instr *instr) {
    for (size_t s = 0; s < instr->schema->ninputs; s++)
        for (uint32_t k = instr->in_first[s]; k < instr->in_first[s + 1] && !instr->schema->inputs[s].only_type; k++)
            if (instr->in[k] >= 0) f->nreaders[plan_root_of(f->plan, instr->in[k])]++;
    for (uint32_t k = 0; k < instr->out_first[instr->schema->noutputs]; k++) {
        if (instr->out[k] < 0) continue;
        f->nwriters[plan_root_of(f->plan, instr->out[k])]++;
        f->writer[instr->out[k]] = command_of(f->r, instr);
    }
}

static weft_status count_uses(finder *f, arena *a) {
    const weft_plan *plan = f->plan;
    f->nreaders = ARENA_ARRAY(a, int, plan->nvalues + 1);
    f->nwriters = ARENA_ARRAY(a, int, plan->nvalues + 1);
    f->writer = ARENA_ARRAY(a, cuda_command *, plan->nvalues + 1);
    if (!f->nreaders || !f->nwriters || !f->writer) return base_out_of_memory();
    for (size_t v = 0; v < plan->nvalues; v++) {
        const plan_value *value = &plan->values[v];
        if (value->persistable || value->is_feed || value->is_fetch || value->space != PLAN_TEMPORARY)
            f->nreaders[plan_root_of(plan, (int32_t)v)]++;
    }
    for (size_t i = 0; i < plan->ninstrs; i++) count_in(f, &plan->instrs[i]);
    return NULL;
}

/* --- neighbours --------------------------------------------------------------------------------------------------- */

static bool is_op(const cuda_command *c, const char *type) {
    return strcmp(c->of->instr->schema->type, type) == 0;
}

static bool is_plain(const cuda_command *c) {
    return c->op && !c->product && !c->guards[0] && !c->guards[1] && c->of->delay_seconds <= 0;
}

/* Whether it runs as soon as the one before it has. */
static bool can_follow(const finder *f, const cuda_command *c) {
    if (c >= f->end || !is_plain(c)) return false;
    const plan_instr *instr = c->of->instr;
    for (uint32_t i = 0; i < instr->nwaits; i++)
        if (instr->waits[i].count > 0 && instr->waits[i].stream != instr->stream) return false;
    return true;
}

static const tensor *argument(const cuda_command *c, const char *its_name) {
    const op_schema *schema = c->of->instr->schema;
    for (size_t s = 0; s < schema->ninputs; s++)
        if (strcmp(schema->inputs[s].name, its_name) == 0) return arg_in(&c->on_device, (int)s);
    return NULL;
}

static bool is_same(const tensor *a, const tensor *b) {
    return a && b && a->data == b->data && a->numel == b->numel && a->dtype == b->dtype;
}

static bool has_one_reader(const finder *f, const cuda_command *c, int result) {
    const plan_instr *instr = c->of->instr;
    return f->nreaders[plan_root_of(f->plan, instr->out[instr->out_first[result]])] == 1;
}

static bool overlap(const tensor *a, const tensor *b) {
    if (!a || !b || a->dtype == WEFT_DTYPE_NONE || b->dtype == WEFT_DTYPE_NONE) return false;
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + tensor_nbytes(b) && y < x + tensor_nbytes(a);
}

/* Whether a product may write there beside what it reads and its second result. */
static bool is_apart(const cuda_command *product, const tensor *t) {
    const kernel_call *c = &product->on_device;
    for (uint32_t i = 0; i < c->in_first[c->schema->ninputs]; i++)
        if (overlap(t, &c->in[i])) return false;
    return c->schema->noutputs < 2 || !overlap(t, arg_out(c, 1));
}

/* Whether it may be the product's first result instead. */
static bool may_be_result(const cuda_command *product, const blas_product *p, const tensor *out) {
    const tensor *own = arg_out(&product->on_device, 0);
    return is_apart(product, out) && out->numel == own->numel && out->dtype == own->dtype &&
           ((uintptr_t)out->data & (p->alignment[2] - 1)) == 0;
}

/* --- joining ------------------------------------------------------------------------------------------------------ */

/* Commands first .. last become one launch, that of `product`, if the library can. */
static weft_status join(cuda_command *first, cuda_command *last, cuda_command *product, blas_product *p,
                        const blas_epilogue *e, bool *out_joined) {
    weft_status status = blas_follow(p, e);
    *out_joined = !status;
    if (status && weft_status_code(status) != WEFT_UNSUPPORTED) return status;
    weft_status_free(status);
    if (!*out_joined) return NULL;
    if (p->workspace_nbytes > product->lane->device_nbytes) product->lane->device_nbytes = p->workspace_nbytes;
    for (cuda_command *c = first; c <= last; c++) {
        c->product = product;
        c->is_away = c != first;
    }
    return NULL;
}

/* `to` becomes the first result of a command. */
static weft_status aim_result(cuda_command *c, const tensor *to) {
    kernel_call *call = &c->on_device;
    uint32_t n = call->out_first[call->schema->noutputs];
    tensor *out = arena_copy(&c->lane->rank->run->head.executor->arena, call->out, n * sizeof *out);
    if (!out) return base_out_of_memory();
    out[call->out_first[0]] = *to;
    call->out = out;
    return NULL;
}

static weft_status aim_argument(cuda_command *c, int which, const tensor *from) {
    kernel_call *call = &c->on_device;
    uint32_t n = call->in_first[call->schema->ninputs];
    tensor *in = arena_copy(&c->lane->rank->run->head.executor->arena, call->in, n * sizeof *in);
    if (!in) return base_out_of_memory();
    in[call->in_first[which]] = *from;
    call->in = in;
    return NULL;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

static bool is_row_of(const cuda_command *add, const tensor *x, const tensor *y) {
    int64_t axis = attr_int(add->of->instr->op, "axis", -1);
    return x && y && x->ndim > 0 && y->ndim == 1 && y->numel == x->dims[x->ndim - 1] && y->dtype == x->dtype &&
           (axis == -1 || axis == x->ndim - 1);
}

/* The row that an elementwise_add adds to each row of its first argument; NULL: it adds something else. */
static const tensor *row_of(const cuda_command *add) {
    if (!is_op(add, "elementwise_add")) return NULL;
    const tensor *x = arg_in(&add->on_device, 0), *y = arg_in(&add->on_device, 1);
    return is_row_of(add, x, y) ? y : NULL;
}

/* The library's gelu is that of tanh. */
static bool is_gelu(const cuda_command *c, const char *type) {
    return is_op(c, type) && attr_bool(c->of->instr->op, "approximate", false);
}

/* relu or gelu behind the row. */
static weft_status join_activation(const finder *f, cuda_command *product, const tensor *row, bool *out_joined) {
    cuda_command *add = product + 1, *last = product + 2;
    blas_product *p = product->on_device.state;
    bool relu = last < f->end && is_op(last, "relu"), gelu = last < f->end && is_gelu(last, "gelu");
    if (!(relu || gelu) || !can_follow(f, last)) return NULL;
    const tensor *sum = arg_out(&add->on_device, 0), *out = arg_out(&last->on_device, 0);
    bool is_sole = has_one_reader(f, add, 0), keeps = gelu && !is_sole; /* the sum, for the gradient of gelu */
    if (!is_same(arg_in(&last->on_device, 0), sum) || !(is_sole || keeps)) return NULL;
    if (!may_be_result(product, p, out) || overlap(row, out)) return NULL;
    if (keeps && (!is_apart(product, sum) || overlap(sum, out) || overlap(sum, row))) return NULL;
    blas_epilogue e = {relu    ? CUBLASLT_EPILOGUE_RELU_BIAS
                       : keeps ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                               : CUBLASLT_EPILOGUE_GELU_BIAS,
                       row->data, keeps ? sum->data : NULL, false};
    TRY(join(product, last, product, p, &e, out_joined));
    return *out_joined ? aim_result(product, out) : NULL;
}

static weft_status try_product(const finder *f, cuda_command *product) {
    blas_product *p = product->on_device.state;
    cuda_command *add = product + 1;
    bool joined = false;
    if (!can_follow(f, add) || p->nbatch != 1) return NULL;
    const tensor *row = row_of(add), *own = arg_out(&product->on_device, 0);
    if (!row || row->numel != p->columns || !is_same(arg_in(&add->on_device, 0), own) || !has_one_reader(f, product, 0))
        return NULL;
    TRY(join_activation(f, product, row, &joined));
    const tensor *sum = arg_out(&add->on_device, 0);
    if (joined || !may_be_result(product, p, sum) || overlap(row, sum)) return NULL;
    blas_epilogue e = {CUBLASLT_EPILOGUE_BIAS, row->data, NULL, false};
    TRY(join(product, add, product, p, &e, &joined));
    return joined ? aim_result(product, sum) : NULL;
}

/* --- backward: the row -------------------------------------------------------------------------------------------- */

/* Where an elementwise_add_grad leaves the gradient of a row that was added; NULL: it was something else. */
static const tensor *row_gradient_of(const cuda_command *c) {
    if (!is_op(c, "elementwise_add_grad")) return NULL;
    const tensor *dout = argument(c, "Out@GRAD"), *dx = arg_out(&c->on_device, 0), *dy = arg_out(&c->on_device, 1);
    return is_row_of(c, dx, dy) && dout && dout->numel == dx->numel && dout->dtype == dx->dtype ? dy : NULL;
}

/* What elementwise_add_grad hands on of its argument is the argument: whether nobody misses the copy. */
static bool is_passed_on(const finder *f, const cuda_command *add) {
    return arg_out(&add->on_device, 0)->data == argument(add, "Out@GRAD")->data || has_one_reader(f, add, 0);
}

/* The gradient of weights is a product with Out@GRAD, over whose rows the library may add up. */
static weft_status try_row_gradient(const finder *f, cuda_command *add, bool *out_joined) {
    cuda_command *product = add + 1;
    const tensor *row = row_gradient_of(add);
    if (!row || !can_follow(f, product) || product->op->product != CUDA_PRODUCT_GRADIENTS || product->half) return NULL;
    matmul_gradient *g = &((matmul_gradients *)product->on_device.state)->of[MATMUL_Y];
    const tensor *dout = argument(add, "Out@GRAD"), *passed = arg_in(&product->on_device, MATMUL_DOUT);
    bool is_second = g->second == MATMUL_DOUT; /* the library's first */
    if (!g->product.rows || g->product.nbatch != 1 || g->product.alpha != 1 ||
        !is_same(passed, arg_out(&add->on_device, 0)))
        return NULL;
    if (row->numel != (is_second ? g->product.columns : g->product.rows) || !is_passed_on(f, add)) return NULL;
    const tensor *dx = arg_out(&product->on_device, 0);
    if (!is_apart(product, row) || overlap(row, dout) || overlap(row, dx) || overlap(dout, dx) ||
        overlap(dout, arg_out(&product->on_device, 1)) || (uintptr_t)dout->data % 256 != (uintptr_t)passed->data % 256)
        return NULL;
    blas_epilogue e = {is_second ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB, row->data, NULL, false};
    TRY(join(add, product, product, &g->product, &e, out_joined));
    return *out_joined ? aim_argument(product, MATMUL_DOUT, dout) : NULL;
}

/* --- backward: relu and gelu -------------------------------------------------------------------------------------- */

/* Of the product that a relu is part of: it also says which elements were above 0. NULL: there is none. */
static weft_status find_mask(const finder *f, const cuda_command *relu_grad, const blas_product *like,
                             const void **out_mask) {
    const plan_instr *instr = relu_grad->of->instr;
    int32_t value = instr->in[instr->in_first[0]];
    const cuda_command *relu = value >= 0 ? f->writer[value] : NULL;
    *out_mask = NULL;
    if (!relu || f->nwriters[plan_root_of(f->plan, value)] != 1 || !is_op(relu, "relu") || !relu->product) return NULL;
    cuda_command *product = relu->product;
    blas_product *p = product->on_device.state;
    size_t nbytes = blas_mask_nbytes(p->rows, p->columns);
    if (p->rows != like->rows || p->columns != like->columns) return NULL;
    if (!product->workspace.bytes) {
        device_memory mask;
        cuda_run *run = f->r->run;
        TRY(cuda_alloc(run->head.device, f->r->state->rank, DEVICE_OWN, nbytes, &mask));
        blas_epilogue e = {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, NULL, mask.bytes, true};
        weft_status status = blas_follow(p, &e);
        if (status) {
            weft_status_free(status);
            cuda_free(run->head.device, &mask);
            return NULL;
        }
        product->workspace = mask;
        run->nbytes += mask.block_nbytes;
        if (p->workspace_nbytes > product->lane->device_nbytes) product->lane->device_nbytes = p->workspace_nbytes;
    }
    *out_mask = product->workspace.bytes;
    return NULL;
}

/* The gradient of what follows the factor X was made by: relu or gelu. */
static weft_status try_activation_gradient(const finder *f, cuda_command *first, cuda_command *product) {
    blas_product *p = &((matmul_gradients *)product->on_device.state)->of[MATMUL_X].product;
    cuda_command *last = product + 1, *add = product + 2;
    bool joined = false;
    if (!can_follow(f, last) || !p->rows || p->nbatch != 1) return NULL;
    bool relu = is_op(last, "relu_grad"), gelu = is_gelu(last, "gelu_grad");
    if (!(relu || gelu) || !has_one_reader(f, product, 0) ||
        !is_same(argument(last, "Out@GRAD"), arg_out(&product->on_device, 0)))
        return NULL;
    const tensor *of = arg_in(&last->on_device, 0), *out = arg_out(&last->on_device, 0);
    const void *aux = of->data;
    if (!may_be_result(product, p, out) || overlap(out, of)) return NULL;
    if (relu) TRY(find_mask(f, last, p, &aux));
    if (!aux) return NULL;
    const tensor *row = can_follow(f, add) ? row_gradient_of(add) : NULL;
    if (row && row->numel == p->columns && is_same(argument(add, "Out@GRAD"), out)) {
        const tensor *passed = arg_out(&add->on_device, 0);
        bool fits = (passed->data == out->data || has_one_reader(f, last, 0)) && may_be_result(product, p, passed) &&
                    is_apart(product, row) && !overlap(row, passed) && !overlap(row, of) && !overlap(passed, of);
        blas_epilogue e = {relu ? CUBLASLT_EPILOGUE_DRELU_BGRAD : CUBLASLT_EPILOGUE_DGELU_BGRAD, row->data, aux, relu};
        if (fits) TRY(join(first, add, product, p, &e, &joined));
        if (joined) return aim_result(product, passed);
    }
    blas_epilogue e = {relu ? CUBLASLT_EPILOGUE_DRELU : CUBLASLT_EPILOGUE_DGELU, NULL, aux, relu};
    TRY(join(first, last, product, p, &e, &joined));
    return joined ? aim_result(product, out) : NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status try_command(const finder *f, cuda_command *c) {
    bool joined = false;
    if (!is_plain(c)) return NULL;
    TRY(try_row_gradient(f, c, &joined));
    cuda_command *product = joined ? c + 1 : c;
    if (product->op->product == CUDA_NO_PRODUCT || product->half) return NULL;
    return product->op->product == CUDA_PRODUCT ? try_product(f, product) : try_activation_gradient(f, c, product);
}

weft_status cuda_epilogues(cuda_rank *r) {
    arena scratch;
    finder f = {.r = r, .plan = r->state->plan};
    arena_init(&scratch, r->run->head.device->allocator);
    weft_status status = count_uses(&f, &scratch);
    for (int k = 0; k < f.plan->nstreams && !status; k++) {
        cuda_lane *l = &r->lanes[k];
        f.end = l->commands + l->state->ninstrs;
        for (cuda_command *c = l->commands; c < f.end && !status; c++) status = try_command(&f, c);
    }
    arena_fini(&scratch);
    return status;
}
