/* prune_grad_scale: fold the 1/n of averaged gradients into the value that starts the backward pass.
 *
 * The seeds are the fill_constant ops of role backward|loss. Everything computed from a seed changes by the factor f
 * that is folded into it, until it passes the data-parallel scales that are deleted; so the program stays the same in
 * one case alone. Every changed value reaches only ops that are homogeneous linear in their changed inputs, and each
 * sync deletes exactly f. One sweep over block 0 follows the change: a var is changed by (at most) one seed; an op that
 * mixes two seeds makes them one group (union-find), whose members share f and stand or fall together. A group is
 * spoilt by
 *   - an op that is not known, updates a parameter or is not linear in the changed inputs;
 *   - an op that mixes changed and unchanged inputs, as a regularisation term that was never averaged;
 *   - a changed value in a persistable, in shared bytes, or in a gradient that the program names and a fetch may ask
 * for;
 *   - a changed value of a type whose range the factor would leave (fp16, unless allow_half);
 *   - syncs with different factors.
 * A reduce that averages has no scale, so nothing is folded for it.
 *
 * The other place for the factor would be the optimizers' rescale_grad. Of the ops that have it, Paddle's CPU momentum
 * ignores it, so folding there would change the result; no optimizer is left for which it would be right on every
 * device. Scales that stay are merged to one a bucket by coalesce_grads. Sources: paddle.md 11.5 to 11.8. */
#include <math.h>
#include <stdlib.h>

#include "passes/certificate.h"
#include "passes/grad_sync.h"

static const weft_option options[] = {
    {"allow_half", WEFT_OPTION_BOOL, "false", NULL,
     "fold also where gradients are fp16: they become n times smaller before they are summed"},
};

enum { NO_SEED = UINT32_MAX, NO_SYNC = UINT32_MAX };

typedef struct seed {
    weft_op *op;
    uint32_t parent;      /* union-find */
    double factor;        /* of the group's syncs; 0: none yet */
    const weft_op *fault; /* the op that spoilt the group */
    const char *message;  /* how; NULL: the group is sound */
    weft_reason reason;
    size_t nsyncs;
} seed;

typedef struct pruner {
    weft_pass_context *pass;
    weft_program *program;
    arena *scratch;
    grad_syncs syncs;
    bool allow_half;
    seed *seeds;
    uint32_t nseeds;
    uint32_t *seed_of;       /* by var id: the seed that changed it, or NO_SEED */
    uint32_t *sync_of;       /* by number of the class: the last sync that began, or NO_SYNC */
    uint32_t nbegun;         /* syncs that began */
    uint32_t *group_of_sync; /* by sync */
    bit_set gradients;       /* by var id: those that the program names as a parameter's gradient */
} pruner;

/* --- groups of seeds ---------------------------------------------------------------------------------------------- */

static uint32_t group(pruner *n, uint32_t s) {
    while (n->seeds[s].parent != s) s = n->seeds[s].parent = n->seeds[n->seeds[s].parent].parent;
    return s;
}

static void spoil(pruner *n, uint32_t s, weft_reason reason, const weft_op *op, const char *message) {
    seed *g = &n->seeds[group(n, s)];
    if (g->message) return;
    g->message = message;
    g->fault = op;
    g->reason = reason;
}

static uint32_t join(pruner *n, uint32_t a, uint32_t b, const weft_op *op) {
    a = group(n, a);
    b = group(n, b);
    if (a == b) return a;
    seed *into = &n->seeds[a], *from = &n->seeds[b];
    from->parent = a;
    into->nsyncs += from->nsyncs;
    if (from->message) spoil(n, a, from->reason, from->fault, from->message);
    if (into->factor != 0 && from->factor != 0 && into->factor != from->factor)
        spoil(n, a, WEFT_REASON_SCALE, op, "two losses whose gradients have different factors meet here");
    if (into->factor == 0) into->factor = from->factor;
    return a;
}

/* --- seeds -------------------------------------------------------------------------------------------------------- */

static bool is_seed(const weft_op *op) {
    enum { ROLES = WEFT_ROLE_BACKWARD | WEFT_ROLE_LOSS };
    return op_is(op, "fill_constant") && (op_role(op) & ROLES) == ROLES && !(op_role(op) & WEFT_ROLE_NOT_SPECIFIED) &&
           op_out(op) && weft_op_ninputs(op, "ValueTensor") == 0;
}

/* The value that the kernel fills in: a non-empty str_value beats value. */
static bool seed_value(const weft_op *op, double *out) {
    const char *digits = attr_string(op, "str_value", "");
    char *end;
    *out = *digits ? strtod(digits, &end) : attr_float(op, "value", 0.0);
    return (!*digits || *end == 0) && isfinite(*out);
}

/* `v` now holds a value changed by seed s. */
static void change(pruner *n, weft_var *v, uint32_t s, const weft_op *op) {
    if (!v->block) return; /* @EMPTY@ */
    n->seed_of[v->id] = s;
    if (v->dtype == WEFT_FP16 && !n->allow_half)
        spoil(n, s, WEFT_REASON_DTYPE, op, "fp16 gradients could leave their range (see allow_half)");
    else if (v->dtype != WEFT_FP16 && v->dtype != WEFT_FP32 && v->dtype != WEFT_FP64 && v->dtype != WEFT_BF16)
        spoil(n, s, WEFT_REASON_DTYPE, op, "its result is not of a floating-point type");
    if (v->persistable) spoil(n, s, WEFT_REASON_IN_USE, op, "it keeps a changed value beyond the step");
    if (access_is_shared(&n->syncs.index, v))
        spoil(n, s, WEFT_REASON_IN_USE, op, "it writes bytes that other variables share (prune before coalescing)");
}

static uint32_t change_of(const pruner *n, const weft_var *v) {
    return n->seed_of[v->id];
}

static void start_seed(pruner *n, weft_op *op) {
    uint32_t s = n->nseeds++;
    n->seeds[s] = (seed){.op = op, .parent = s};
    double value;
    if (!seed_value(op, &value)) spoil(n, s, WEFT_REASON_SCALE, op, "its str_value is no number");
    change(n, op_out(op), s, op);
}

/* --- one op ------------------------------------------------------------------------------------------------------- */

static bool is_grad_slot(const name *slot_name) {
    static const char suffix[] = "@GRAD";
    size_t n = sizeof suffix - 1;
    return slot_name->nbytes >= n && memcmp(slot_name->bytes + slot_name->nbytes - n, suffix, n) == 0;
}

/* Whether the changed values of an op are inputs in which it is jointly linear, all of them. */
static bool is_linear_in_changed(pruner *n, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    if (!schema) return false;
    int reduce = op_collective_reduce(op);
    if (reduce != COLLECTIVE_NO_REDUCE && reduce != WEFT_REDUCE_SUM && reduce != WEFT_REDUCE_AVG) return false;
    if (op_is(op, "scale") && attr_float(op, "bias", 0.0) != 0.0) return false;
    for (size_t i = 0; i < op_nslots(op, false); i++) {
        const slot *s = op_slot(op, false, i);
        bool of_first = schema->ninputs && name_is(s->name, schema->inputs[0].name);
        bool counts = (schema->effects & OP_LINEAR) || ((schema->effects & OP_LINEAR_X) && of_first) ||
                      ((schema->effects & OP_LINEAR_GRAD) && is_grad_slot(s->name));
        for (size_t k = 0; k < s->nargs; k++) {
            const weft_var *v = slot_var(op, s, k);
            bool is_index = v->dtype == WEFT_INT32 || v->dtype == WEFT_INT64 || v->dtype == WEFT_BOOL;
            if (!v->block || (is_index && change_of(n, v) == NO_SEED)) continue;
            if ((change_of(n, v) != NO_SEED) != counts) return false;
        }
    }
    return true;
}

typedef struct changed_inputs {
    pruner *n;
    weft_op *op;
    uint32_t seed; /* the group of all of them, or NO_SEED */
    bool nested;   /* one is used in a sub-block */
} changed_inputs;

static weft_status gather(void *user, const use *u, bool nested) {
    changed_inputs *c = user;
    uint32_t s = c->n->seed_of[u->var_id];
    if (s == NO_SEED || (u->is_output && !nested)) return NULL;
    c->seed = c->seed == NO_SEED ? s : join(c->n, c->seed, s, c->op);
    c->nested = c->nested || nested;
    return NULL;
}

static const weft_op *first_scale(const pruner *n, const grad_sync *g) {
    FOR_EACH_SYNC_OP(scale, &n->syncs, g, GRAD_SCALE) return scale;
    return NULL;
}

static void follow_sync(pruner *n, const grad_sync *g) {
    uint32_t s = n->seed_of[g->var->id];
    n->group_of_sync[g - n->syncs.items] = s;
    if (s == NO_SEED || g->nscales == 0) return;
    n->seed_of[g->var->id] = NO_SEED;
    seed *of = &n->seeds[group(n, s)];
    if (!(g->factor > 0 && isfinite(g->factor)))
        spoil(n, s, WEFT_REASON_SCALE, first_scale(n, g), "its factor is not a positive number");
    if (of->factor != 0 && of->factor != g->factor)
        spoil(n, s, WEFT_REASON_SCALE, first_scale(n, g), "gradients of one loss have different factors");
    of->factor = g->factor;
    of->nsyncs++;
}

/* The sync that ends with the op, or NULL. Syncs begin in their order; those of one class follow each other. */
static const grad_sync *sync_ending_at(pruner *n, weft_op *op) {
    const grad_syncs *syncs = &n->syncs;
    if (syncs->kinds[op->mark] == GRAD_OTHER) return NULL;
    uint32_t class = access_class(&syncs->index, op_x(op));
    if (!bit_set_has(&syncs->index.gathered, class)) return NULL;
    uint32_t *at = &n->sync_of[bit_set_index(&syncs->index.gathered, class)];
    if (n->nbegun < syncs->count && grad_sync_first(syncs, &syncs->items[n->nbegun]) == op->mark) *at = n->nbegun++;
    const grad_sync *g = *at == NO_SYNC ? NULL : &syncs->items[*at];
    return g && grad_sync_last(syncs, g) == op->mark ? g : NULL;
}

static weft_status follow(pruner *n, weft_op *op) {
    if (!op->block) return NULL; /* removed by a pass before */
    const grad_sync *ends = sync_ending_at(n, op);
    if (is_seed(op)) {
        start_seed(n, op);
        return NULL;
    }
    if (n->nseeds == 0 || op_has_effect(op, OP_NO_BYTES)) return NULL;
    changed_inputs c = {n, op, NO_SEED, false};
    TRY(access_visit(op, n->scratch, gather, &c));
    if (c.seed != NO_SEED && (c.nested || op_has_effect(op, OP_OPTIMIZER)))
        spoil(n, c.seed, WEFT_REASON_SCALE, op,
              c.nested ? "a changed value would reach its sub-block"
                       : "it updates a parameter with a gradient that has no scale to delete");
    else if (c.seed != NO_SEED && n->syncs.kinds[op->mark] == GRAD_OTHER && !is_linear_in_changed(n, op))
        spoil(n, c.seed, WEFT_REASON_SCALE, op, "it is not linear in all of the values that would change");
    FOR_EACH_ARG(op, true, u) {
        if (c.seed != NO_SEED)
            change(n, use_var(op->program, u), c.seed, op);
        else
            n->seed_of[u->var_id] = NO_SEED;
    }
    if (ends) follow_sync(n, ends);
    return NULL;
}

/* A gradient that the program names and that is still changed when the step ends: somebody may fetch it. */
static void check_end(pruner *n) {
    for (size_t i = 0; i < n->program->nall_vars; i++)
        if (bit_set_has(&n->gradients, i) && n->seed_of[i] != NO_SEED)
            spoil(n, n->seed_of[i], WEFT_REASON_SCALE, NULL, "a parameter's gradient has no scale to delete");
}

/* --- what the program says about gradients ------------------------------------------------------------------------ */

static void mark_gradient(pruner *n, const weft_var *v) {
    if (v) bit_set_add(&n->gradients, v->id);
}

static void mark_gradients(pruner *n) {
    weft_program *p = n->program;
    for (size_t i = 0; i < p->nparams_grads; i++) {
        const name *grad = p->params_grads[2 * i + 1];
        if (grad) mark_gradient(n, block_find(p->blocks[0], grad));
    }
    for (size_t i = 0; i < n->syncs.index.nops; i++) {
        const weft_op *op = access_op(&n->syncs.index, i);
        const weft_attr *pairs = op->block ? op_find_attr(op, "op_role_var") : NULL;
        if (!pairs || pairs->type != ATTR_STRINGS) continue;
        for (size_t k = 1; k < pairs->count; k += 2)
            mark_gradient(n, op_find_var(op, text_of_name(pairs->u.strings[k])));
    }
}

static weft_status prepare(pruner *n) {
    size_t nvars = n->program->nall_vars, nops = n->syncs.index.nops, nseeds = 0;
    for (size_t i = 0; i < nops; i++) nseeds += is_seed(access_op(&n->syncs.index, i));
    n->seeds = ARENA_ARRAY(n->scratch, seed, nseeds + 1);
    n->seed_of = ARENA_ARRAY(n->scratch, uint32_t, nvars + 1);
    n->sync_of = ARENA_ARRAY(n->scratch, uint32_t, n->syncs.count + 1); /* no class is without a sync */
    n->group_of_sync = ARENA_ARRAY(n->scratch, uint32_t, n->syncs.count + 1);
    if (!n->seeds || !n->seed_of || !n->sync_of || !n->group_of_sync || !bit_set_init(&n->gradients, n->scratch, nvars))
        return base_out_of_memory();
    for (size_t i = 0; i < nvars; i++) n->seed_of[i] = NO_SEED;
    for (size_t i = 0; i < n->syncs.count; i++) n->sync_of[i] = n->group_of_sync[i] = NO_SYNC;
    mark_gradients(n);
    return NULL;
}

/* --- deciding and doing ------------------------------------------------------------------------------------------- */

/* The group whose factor takes this sync's scales, or NULL; *out_left says why not. */
static const seed *folding_group(pruner *n, size_t sync) {
    if (n->syncs.items[sync].nscales == 0 || n->group_of_sync[sync] == NO_SEED) return NULL;
    const seed *g = &n->seeds[group(n, n->group_of_sync[sync])];
    return g->message ? NULL : g;
}

static weft_status report_left(pruner *n, size_t sync) {
    const grad_sync *g = &n->syncs.items[sync];
    if (g->nscales == 0) return NULL;
    if (n->group_of_sync[sync] == NO_SEED)
        return weft_pass_left(n->pass, first_scale(n, g), WEFT_REASON_SCALE,
                              "\"%s\" does not come from a loss gradient that is a constant", g->var->name->bytes);
    const seed *s = &n->seeds[group(n, n->group_of_sync[sync])];
    if (!s->fault)
        return weft_pass_left(n->pass, first_scale(n, g), s->reason, "\"%s\": %g cannot be folded: %s",
                              g->var->name->bytes, g->factor, s->message);
    return weft_pass_left(n->pass, first_scale(n, g), s->reason, "\"%s\": %g cannot be folded: %s #%llu: %s",
                          g->var->name->bytes, g->factor, s->fault->type->bytes, (unsigned long long)s->fault->mark,
                          s->message);
}

static weft_status fold_into(weft_op *op, double factor) {
    double value;
    if (!seed_value(op, &value)) return NULL;
    value *= factor;
    if (*attr_string(op, "str_value", "")) {
        buffer message;
        buffer_init(&message, &op->program->context->allocator);
        buffer_double(&message, value);
        weft_status status = buffer_status(&message);
        char *copy = status ? NULL : arena_string(&op->program->arena, message.bytes, message.nbytes);
        buffer_fini(&message);
        TRY(status);
        if (!copy) return base_out_of_memory();
        TRY(weft_op_set_attr_string(op, "str_value", copy));
    }
    return weft_op_set_attr_float(op, "value", value);
}

static weft_status fold_seeds(pruner *n) {
    for (uint32_t i = 0; i < n->nseeds; i++) {
        const seed *g = &n->seeds[group(n, i)];
        if (g->message || g->nsyncs == 0) continue;
        TRY(weft_pass_did(n->pass, "folded %g into \"%s\", in place of %zu gradients' scales", g->factor,
                          op_out(n->seeds[i].op)->name->bytes, g->nsyncs));
    }
    for (uint32_t i = 0; i < n->nseeds; i++) {
        const seed *g = &n->seeds[group(n, i)];
        if (g->message || g->nsyncs == 0) continue;
        TRY(fold_into(n->seeds[i].op, g->factor));
        TRY(pass_claim_add(n->pass, (pass_claim){.kind = CLAIM_SEED,
                                                 .op = n->seeds[i].op,
                                                 .var = op_out(n->seeds[i].op),
                                                 .factor = g->factor}));
    }
    return NULL;
}

/* Where the factors of a sync's scales go. */
static weft_status claim_factors(pruner *n, size_t sync, const seed *to) {
    const grad_sync *g = &n->syncs.items[sync];
    pass_claim claim = {.kind = CLAIM_FACTOR, .other = to->op, .var = g->var, .text = "seed"};
    if (!pass_certifies(n->pass)) return NULL;
    FOR_EACH_SYNC_OP(scale, &n->syncs, g, GRAD_SCALE) {
        claim.op = scale;
        claim.factor = attr_float(scale, "scale", 1.0);
        TRY(pass_claim_add(n->pass, claim));
    }
    return NULL;
}

static weft_status decide_and_do(pruner *n) {
    int64_t removed = 0;
    bool has_streams = grad_syncs_have_streams(&n->syncs);
    for (size_t i = 0; i < n->syncs.count; i++) {
        if (folding_group(n, i))
            removed += (int64_t)n->syncs.items[i].nscales;
        else
            TRY(report_left(n, i));
    }
    TRY(weft_pass_count_add(n->pass, "scales removed", removed));
    TRY(fold_seeds(n));
    for (size_t i = 0; i < n->syncs.count; i++) {
        const grad_sync *g = &n->syncs.items[i];
        const seed *to = folding_group(n, i);
        if (!to) continue;
        TRY(claim_factors(n, i, to));
        FOR_EACH_SYNC_OP(scale, &n->syncs, g, GRAD_SCALE) weft_op_remove(scale);
    }
    grad_syncs_keep(n->pass, n->program);
    size_t nevents;
    return removed && has_streams ? grad_sync_write_events(n->pass, n->program, &nevents) : NULL;
}

static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    pruner n = {.pass = pass,
                .program = program,
                .scratch = pass_scratch(pass),
                .allow_half = weft_pass_option_bool(pass, "allow_half")};
    TRY(grad_syncs_find(pass, program, &n.syncs));
    size_t nscales = 0;
    for (size_t i = 0; i < n.syncs.count; i++) nscales += n.syncs.items[i].nscales;
    if (n.syncs.count == 0) return grad_syncs_none(pass, &n.syncs);
    if (nscales == 0) return weft_pass_left(pass, NULL, WEFT_REASON_NOTHING, "no gradient is scaled after its reduce");
    TRY(prepare(&n));
    for (size_t i = 0; i < n.syncs.index.nops; i++) TRY(follow(&n, access_op(&n.syncs.index, i)));
    check_end(&n);
    return decide_and_do(&n);
}

const weft_pass pass_prune_grad_scale = {
    .options = options, .noptions = sizeof options / sizeof *options, .run = run, .keeps_places = true};
