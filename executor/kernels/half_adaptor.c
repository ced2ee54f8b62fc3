/* half_adaptor.c: kernels without loops for fp16 and bf16 run on them all the same: their half tensors are widened to
 * fp32 in the workspace, the kernel computes there, and its half outputs are rounded once, to nearest even.
 *
 * That is what Paddle's kernels for half types compute: phi's MPTypeTrait makes them load T, work in float and store T.
 * A half parameter with a master copy is not widened: its optimizer sees the copy in its place, updates that, and the
 * result is rounded into the parameter. Kernels keep half loops of their own where these save memory traffic
 * (elementwise, matmul, cast); the adaptor is asked only where `prepare` refuses the types that the program declares.
 *
 * The invariant: the kernel sees no half type at all, and every other tensor (indices, masks, statistics that stay
 * fp32, absent arguments) as it is. Widening is exact, so an output that the kernel copies comes back with the same
 * bits. Outputs never share fp32 memory with inputs, also where "Out=X" made them share half memory: everything is read
 * before anything is rounded. */
#include "executor/kernels/half_adaptor.h"

#include "executor/kernels/typed.h"

typedef struct adaptor_state {
    kernel_run_fn run; /* of the kernel */
    half_view view;
} adaptor_state;

/* --- what is widened ---------------------------------------------------------------------------------------------- */

/* One side of the call, as the program gives it. */
typedef struct given_side {
    const slot_schema *slots;
    size_t nslots;
    const tensor *args;
    const uint32_t *first;
    const char *param, *master; /* slots of an optimizer */
} given_side;

static given_side inputs_of(const kernel_prepare *p) {
    return (given_side){p->schema->inputs, p->schema->ninputs, p->in, p->in_first, "Param", "MasterParam"};
}
static given_side outputs_of(const kernel_prepare *p) {
    return (given_side){p->schema->outputs, p->schema->noutputs, p->out, p->out_first, "ParamOut", "MasterParamOut"};
}

static int slot_named(const given_side *side, const char *wanted) {
    for (size_t s = 0; s < side->nslots; s++)
        if (strcmp(side->slots[s].name, wanted) == 0) return (int)s;
    return -1;
}

static bool has_half(const given_side *side) {
    for (uint32_t i = 0; i < side->first[side->nslots]; i++)
        if (dtype_is_half(side->args[i].dtype)) return true;
    return false;
}

/* The master copy of argument i, a parameter; -1 if it has none that fits. */
static int32_t master_of(const given_side *side, uint32_t i) {
    int param = slot_named(side, side->param), master = slot_named(side, side->master);
    if (param < 0 || master < 0 || i < side->first[param] || i >= side->first[param + 1]) return -1;
    uint32_t found = side->first[master] + (i - side->first[param]);
    if (found >= side->first[master + 1] || side->args[found].dtype != WEFT_FP32) return -1;
    return side->args[found].numel == side->args[i].numel ? (int32_t)found : -1;
}

/* An update that asks for master copies has one for every half parameter. */
static bool masters_fit(const given_side *side) {
    int param = slot_named(side, side->param);
    for (uint32_t i = param < 0 ? 0 : side->first[param]; param >= 0 && i < side->first[param + 1]; i++)
        if (dtype_is_half(side->args[i].dtype) && master_of(side, i) < 0) return false;
    return true;
}

static bool asks_for_masters(const kernel_prepare *p, const given_side *in) {
    if (!(p->schema->effects & OP_OPTIMIZER)) return false;
    int master = slot_named(in, in->master);
    return (master >= 0 && type_in(p, master)) || attr_bool(p->op, "multi_precision", false);
}

bool half_adaptor_fits(const kernel_prepare *p) {
    given_side in = inputs_of(p), out = outputs_of(p);
    if (p->schema->effects & (OP_COLLECTIVE | OP_ALIASES | OP_HOST | OP_NO_BYTES | OP_CONTROL)) return false;
    if (!has_half(&in) && !has_half(&out)) return false;
    return !asks_for_masters(p, &in) || (masters_fit(&in) && masters_fit(&out));
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/* What the kernel sees: fp32 in the workspace, or a master copy. What has no bytes (nothing has in prepare) gets none.
 */
static void present(const wide_side *side, const tensor *args, char *workspace) {
    memcpy(side->seen, args, side->count * sizeof *args);
    for (uint32_t i = 0; i < side->nwide; i++) {
        const wide_arg *w = &side->wide[i];
        tensor *seen = &side->seen[w->index];
        if (w->master >= 0) {
            *seen = args[w->master];
            side->seen[w->master].dtype = WEFT_DTYPE_NONE;
        } else {
            seen->dtype = WEFT_FP32;
            seen->data = args[w->index].data ? workspace + w->at : NULL;
        }
    }
}

static weft_status widen_one(const given_side *given, uint32_t i, bool only_type, size_t *workspace, wide_side *out) {
    wide_arg *w = &out->wide[out->nwide++];
    *w = (wide_arg){.index = i, .master = master_of(given, i), .at = *workspace};
    if (w->master >= 0 || only_type) return NULL;
    size_t nbytes;
    if (!base_mul((size_t)given->args[i].numel, sizeof(float), &nbytes)) return base_out_of_memory();
    return adaptor_reserve(workspace, nbytes);
}

static weft_status widen(const kernel_prepare *p, const given_side *given, size_t *workspace, wide_side *out) {
    out->count = given->first[given->nslots];
    out->seen = ARENA_ARRAY(p->arena, tensor, out->count + 1);
    out->wide = ARENA_ARRAY(p->arena, wide_arg, out->count + 1);
    if (!out->seen || !out->wide) return base_out_of_memory();
    for (size_t s = 0; s < given->nslots; s++)
        for (uint32_t i = given->first[s]; i < given->first[s + 1]; i++)
            if (dtype_is_half(given->args[i].dtype))
                TRY(widen_one(given, i, given->slots[s].only_type, workspace, out));
    present(out, given->args, NULL);
    return NULL;
}

weft_status half_view_prepare(kernel_prepare *p, weft_status (*prepare)(kernel_prepare *), half_view *v) {
    given_side in = inputs_of(p), out = outputs_of(p);
    size_t workspace = 0;
    TRY(widen(p, &in, &workspace, &v->in));
    TRY(widen(p, &out, &workspace, &v->out));
    return adaptor_prepare(p, prepare, v->in.seen, v->out.seen, workspace, &v->kernel);
}

kernel_call half_view_call(const half_view *v, const kernel_call *c) {
    present(&v->in, c->in, c->workspace);
    present(&v->out, c->out, c->workspace);
    return adaptor_call(&v->kernel, c, v->in.seen, v->out.seen);
}

/* Prepares the kernel on the types that it will see. */
static weft_status prepare(kernel_prepare *p) {
    adaptor_state *s = ARENA_NEW(p->arena, adaptor_state);
    if (!s) return base_out_of_memory();
    s->run = p->adapted->run;
    TRY(half_view_prepare(p, p->adapted->prepare, &s->view));
    p->state = s;
    return NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

static weft_status run(const kernel_call *c) {
    const adaptor_state *s = c->state;
    const wide_side *in = &s->view.in, *out = &s->view.out;
    kernel_call inner = half_view_call(&s->view, c);
    for (uint32_t i = 0; i < in->nwide; i++) {
        const wide_arg *w = &in->wide[i];
        const tensor *half = &c->in[w->index];
        if (w->master < 0 && half->data) half_load(half->dtype, half->numel, half->data, 1, in->seen[w->index].data);
    }
    TRY(s->run(&inner));
    for (uint32_t i = 0; i < out->nwide; i++) {
        const tensor *half = &c->out[out->wide[i].index];
        half_store(half->dtype, half->numel, out->seen[out->wide[i].index].data, half->data);
    }
    return NULL;
}

const kernel kernel_half_adaptor = {prepare, run};
