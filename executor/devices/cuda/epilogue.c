#include "executor/devices/cuda/epilogue.h"

#include "executor/devices/cuda/blas.h"
#include "executor/kernels/typed.h"

/* --- who reads what ----------------------------------------------------------------------------------------------- */

/* By root, how many read its bytes; what outlives the step has one more. */
static weft_status count_readers(const weft_plan *plan, arena *a, int **out) {
    int *n = ARENA_ARRAY(a, int, plan->nvalues + 1);
    if (!n) return base_out_of_memory();
    for (size_t v = 0; v < plan->nvalues; v++) {
        const plan_value *value = &plan->values[v];
        if (value->persistable || value->is_feed || value->is_fetch || value->space != PLAN_TEMPORARY)
            n[plan_root_of(plan, (int32_t)v)]++;
    }
    for (size_t i = 0; i < plan->ninstrs; i++) {
        const plan_instr *instr = &plan->instrs[i];
        for (size_t s = 0; s < instr->schema->ninputs; s++)
            for (uint32_t k = instr->in_first[s]; k < instr->in_first[s + 1] && !instr->schema->inputs[s].only_type;
                 k++)
                if (instr->in[k] >= 0) n[plan_root_of(plan, instr->in[k])]++;
    }
    *out = n;
    return NULL;
}

typedef struct finder {
    cuda_rank *r;
    const weft_plan *plan;
    const int *nreaders; /* by root */
} finder;

static bool waits_for_another(const cuda_command *c) {
    const plan_instr *instr = c->of->instr;
    for (uint32_t i = 0; i < instr->nwaits; i++)
        if (instr->waits[i].count > 0 && instr->waits[i].stream != instr->stream) return true;
    return false;
}

static bool is_plain(const cuda_command *c) {
    return c->op && !c->guards[0] && !c->guards[1] && c->of->delay_seconds <= 0;
}

/* Whether `next` alone reads the result of c, its first argument, and nobody else knows when that is there. */
static bool feeds(const finder *f, const cuda_command *c, const cuda_command *next) {
    if (!is_plain(next) || !next->of->instr->in_first[1]) return false;
    int32_t result = c->of->instr->out[0];
    const tensor *out = &c->on_device.out[0], *x = &next->on_device.in[0];
    return result >= 0 && f->nreaders[plan_root_of(f->plan, result)] == 1 && x->data == out->data &&
           x->numel == out->numel && x->dtype == out->dtype && !c->of->signals && !waits_for_another(next);
}

static bool overlap(const tensor *a, const tensor *b) {
    uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    return x < y + tensor_nbytes(b) && y < x + tensor_nbytes(a);
}

/* --- what a product may do more ----------------------------------------------------------------------------------- */

/* The row that an elementwise_add adds to each row of its first argument; NULL: it adds something else. */
static const tensor *row_of(const cuda_command *add) {
    if (strcmp(add->of->instr->schema->type, "elementwise_add") != 0) return NULL;
    const tensor *x = &add->on_device.in[0], *y = &add->on_device.in[1];
    int64_t axis = attr_int(add->of->instr->op, "axis", -1);
    bool is_row = x->ndim > 0 && y->ndim == 1 && y->numel == x->dims[x->ndim - 1] && y->dtype == x->dtype &&
                  (axis == -1 || axis == x->ndim - 1);
    return is_row ? y : NULL;
}

/* The product may write where the last of them does. */
static bool is_apart(const cuda_command *product, const tensor *row, const tensor *out) {
    return !overlap(out, &product->on_device.in[0]) && !overlap(out, &product->on_device.in[1]) && !overlap(out, row) &&
           out->numel == product->on_device.out[0].numel && out->dtype == product->on_device.out[0].dtype;
}

/* `n` commands behind the product become its own. false: the library cannot. */
static weft_status give(cuda_command *product, size_t n, const tensor *row, bool relu, bool *out_given) {
    blas_product *state = product->on_device.state;
    cuda_command *last = product + n;
    tensor *out = arena_copy(&product->lane->rank->run->head.executor->arena, &last->on_device.out[0], sizeof *out);
    if (!out) return base_out_of_memory();
    weft_status status = blas_add_row(state, row->data, relu);
    *out_given = !status;
    if (status && weft_status_code(status) != WEFT_UNSUPPORTED) return status;
    weft_status_free(status);
    if (!*out_given) return NULL;
    if (state->workspace_nbytes > product->lane->device_nbytes) product->lane->device_nbytes = state->workspace_nbytes;
    product->on_device.out = out;
    for (cuda_command *c = product; c <= last; c++) c->is_away = true;
    last->product = product;
    return NULL;
}

static weft_status try_product(const finder *f, cuda_command *c, const cuda_command *end) {
    const blas_product *state = c->on_device.state;
    cuda_command *add = c + 1, *relu = c + 2;
    bool given = false;
    if (!is_plain(c) || !c->op->is_product || c->half || state->nbatch != 1 || add >= end || !feeds(f, c, add))
        return NULL;
    const tensor *row = row_of(add);
    if (!row || row->numel != state->columns) return NULL;
    bool has_relu = relu < end && feeds(f, add, relu) && strcmp(relu->of->instr->schema->type, "relu") == 0;
    if (has_relu && is_apart(c, row, &relu->on_device.out[0])) TRY(give(c, 2, row, true, &given));
    if (!given && is_apart(c, row, &add->on_device.out[0])) TRY(give(c, 1, row, false, &given));
    return NULL;
}

weft_status cuda_epilogues(cuda_rank *r) {
    const weft_plan *plan = r->state->plan;
    arena scratch;
    int *nreaders = NULL;
    arena_init(&scratch, r->run->head.device->allocator);
    weft_status status = count_readers(plan, &scratch, &nreaders);
    for (int k = 0; k < plan->nstreams && !status; k++) {
        cuda_lane *l = &r->lanes[k];
        const cuda_command *end = l->commands + l->state->ninstrs;
        for (cuda_command *c = l->commands; c < end && !status; c++)
            status = try_product(&(finder){r, plan, nreaders}, c, end);
    }
    arena_fini(&scratch);
    return status;
}
