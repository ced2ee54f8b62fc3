/* data_parallel_flow.c: how ranks hold each value, op by op: all the same, each its rows, addends of a sum or of a mean,
 * or something of its own.
 *
 * Where extents differ between the whole and a part (data_parallel_shapes.c), a rank has its rows. Where rows vanish, and
 * where addends are read, the op's factor table (ops/axes.def) says what comes of it. The gradient of what all ranks have
 * alike is an addend: each rank adds what its rows give. Two ways to walk:
 *
 *   - as ranks' own losses: a rank's loss is that of its rows, and the gradients of all are averaged or summed. What
 *     cannot be told is the rank's own.
 *   - exactly: ranks compute the serial program together. Addends that an op needs whole are joined before it, and what
 *     cannot be told is refused. */
#include "passes/data_parallel.h"

#include "ops/axes.h"

/* What an op reads. */
typedef struct reading {
    bool rows, partial, own, extents;
    bool unclear; /* something is a rank's own, and nobody knows why */
    const weft_op *cause;
} reading;

static const char grad_suffix[] = "@GRAD";

static const slot_schema *slot_schema_of(const op_schema *schema, const slot *s) {
    for (size_t i = 0; schema && i < schema->ninputs; i++)
        if (name_is(s->name, schema->inputs[i].name)) return &schema->inputs[i];
    return NULL;
}

/* Of an XShape, and where the schema says so, only the extents are read. */
static bool reads_elements(const op_schema *schema, const slot *s) {
    const slot_schema *known = slot_schema_of(schema, s);
    return !(known && known->only_type) && !name_is(s->name, "XShape");
}

static void read_value(reading *r, const dp_value *v) {
    r->rows |= v->hold == DP_ROWS;
    r->partial |= v->hold == DP_PARTIAL;
    r->own |= v->hold == DP_OWN;
    r->extents |= v->hold == DP_EXTENT;
    r->unclear |= (v->hold == DP_OWN && !v->cause) || v->hold == DP_EXTENT;
    if (!r->cause) r->cause = v->cause;
}

static reading read_inputs(const dp_flow *f, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    reading r = {0};
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        if (!s->nargs || !reads_elements(schema, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) read_value(&r, &f->held[slot_args(op, s)[i].var_id]);
    }
    return r;
}

bool dp_reads_elements(weft_op *op, const slot *s) {
    return reads_elements(op_schema_of(op), s);
}

/* --- what comes of it ---------------------------------------------------------------------------------------------- */

/* A part where extents differ; else `otherwise`. */
static dp_value by_extents(const dp_flow *f, const weft_var *var, dp_hold otherwise, const weft_op *cause) {
    int axis = dp_split_axis(f->plan, var);
    if (axis >= 0) return (dp_value){.hold = DP_ROWS, .axis = (uint8_t)axis, .cause = cause};
    return (dp_value){.hold = (uint8_t)otherwise, .cause = cause};
}

static bool differs_in_values(const dp_flow *f, const weft_var *var) {
    return f->plan->differs[var->id] && !var->persistable && dp_split_axis(f->plan, var) < 0 &&
           var->kind != WEFT_SELECTED_ROWS;
}

/* What reads nothing that differs, or extents alone. */
static dp_value made_of_same(const dp_flow *f, const weft_var *var, const reading *r) {
    bool extent = r->extents || differs_in_values(f, var);
    return by_extents(f, var, extent ? DP_EXTENT : DP_SAME, NULL);
}

/* What output slot `s` is the gradient of, argument by argument; NULL: nothing that the op is given. */
const slot *dp_forward_slot(const weft_op *op, const slot *s) {
    char text_[64];
    size_t n = s->name->nbytes, cut = sizeof grad_suffix - 1;
    if (n <= cut || n - cut >= sizeof text_ || strcmp(s->name->bytes + n - cut, grad_suffix) != 0) return NULL;
    memcpy(text_, s->name->bytes, n - cut);
    text_[n - cut] = '\0';
    return op_find_slot(op, false, text_);
}

static dp_value partial_of_losses(const dp_flow *f) {
    return (dp_value){.hold = DP_PARTIAL,
                      .reduce = (uint8_t)(f->plan->combine == DP_MEAN ? WEFT_REDUCE_AVG : WEFT_REDUCE_SUM)};
}

static dp_value read_placed(const axes_placed *p, int ndim) {
    if (p->partial[0]) {
        weft_reduce reduce = (weft_reduce)(p->partial[0] - 1);
        bool joins = reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG;
        return (dp_value){.hold = joins ? DP_PARTIAL : DP_OWN, .reduce = (uint8_t)reduce};
    }
    for (int d = 0; d < ndim; d++)
        if (p->naxes[d]) return (dp_value){.hold = DP_ROWS, .axis = (uint8_t)d};
    return (dp_value){.hold = DP_SAME};
}

/* --- the op's rule ------------------------------------------------------------------------------------------------- */

typedef struct question {
    const dp_flow *flow;
    weft_op *op;
    arena arena;
    axes_rule rule;
    axes_placed *in, *out;
    bool open;       /* what is split has an extent that nothing is compared with */
    const char *why; /* NULL: the rule says how the outputs lie */
} question;

static weft_status read_side(question *q, bool output, size_t nslots, const slot_schema *slots, shape **out_shapes,
                             uint32_t **out_first, axes_placed **out_placed) {
    arena *a = &q->arena;
    size_t n = op_nargs(q->op, output), at = 0;
    shape *shapes = *out_shapes = ARENA_ARRAY(a, shape, n + 1);
    uint32_t *first = *out_first = ARENA_ARRAY(a, uint32_t, nslots + 1);
    axes_placed *placed = *out_placed = ARENA_ARRAY(a, axes_placed, n + 1);
    if (!shapes || !first || !placed) return base_out_of_memory();
    for (size_t i = 0; i < nslots; i++) {
        const slot *found = op_find_slot(q->op, output, slots[i].name);
        first[i] = (uint32_t)at;
        for (size_t k = 0; found && k < found->nargs; k++, at++) {
            const weft_var *var = slot_var(q->op, found, k);
            const dp_value *held = &q->flow->held[var->id];
            shapes[at] = shape_env_get(&q->flow->plan->whole, var);
            int split = q->open ? dp_split_axis(q->flow->plan, var) : -1;
            if (split >= 0 && split < shapes[at].ndim) shapes[at].dims[split] = -1;
            if (output || !reads_elements(op_schema_of(q->op), found)) held = NULL;
            if (!output && !held && shapes[at].ndim > 0 && dp_split_axis(q->flow->plan, var) >= 0) {
                placed[at].naxes[dp_split_axis(q->flow->plan, var)] = 1; /* its extents are those of a part */
            } else if (held && held->hold == DP_ROWS && held->axis < WEFT_MAX_RANK) {
                placed[at].naxes[held->axis] = 1;
            } else if (held && held->hold == DP_PARTIAL) {
                placed[at].partial[0] = (uint8_t)(1 + held->reduce);
            }
        }
    }
    first[nslots] = (uint32_t)at;
    return NULL;
}

static weft_status ask_rule(question *q) {
    const op_schema *schema = op_schema_of(q->op);
    q->why = "its type is not known";
    if (!schema) return NULL;
    axes_call call = {.op = q->op, .schema = schema};
    shape *in, *out;
    uint32_t *in_first, *out_first;
    TRY(read_side(q, false, schema->ninputs, schema->inputs, &in, &in_first, &q->in));
    TRY(read_side(q, true, schema->noutputs, schema->outputs, &out, &out_first, &q->out));
    call = (axes_call){q->op, schema, in, out, in_first, out_first};
    TRY(axes_of_op(&call, &q->arena, &q->rule));
    const axes_mesh line = {.naxes = 1, .extent = {q->flow->plan->nranks}};
    q->why = axes_follow(&q->rule, &line, q->in, q->out);
    return NULL;
}

/* Outputs in the order of arguments, from those in the order of the schema. */
static void read_answer(const question *q, dp_value *made, uint32_t *times) {
    const op_schema *schema = op_schema_of(q->op);
    size_t at = 0;
    for (size_t i = 0; i < schema->noutputs; i++) {
        const slot *found = op_find_slot(q->op, true, schema->outputs[i].name);
        for (size_t k = 0; found && k < found->nargs; k++, at++) {
            size_t arg = (size_t)(slot_args(q->op, found) + k - op_args(q->op, true));
            made[arg] = read_placed(&q->out[at], q->rule.out[at].ndim);
            times[arg] = q->out[at].times;
        }
    }
}

static weft_status out_of_memory_in(question *q) {
    arena_fini(&q->arena);
    return base_out_of_memory();
}

/* --- what does not go with rows ------------------------------------------------------------------------------------ */

static bool has_factor(const axes_dim *dim, size_t which) {
    for (int k = 0; k < dim->nfactors; k++)
        if (dim->factors[k] == which) return true;
    return false;
}

/* The factor that rows of input `i` are split by; -1: they are not. */
static int rows_factor(const question *q, size_t i) {
    const axes_arg *x = &q->rule.in[i];
    for (int d = 0; d < x->ndim && !x->any; d++)
        for (int k = 0; q->in[i].naxes[d] && k < x->dims[d].nfactors; k++)
            if (q->rule.factors[x->dims[d].factors[k]].size != 1) return x->dims[d].factors[k];
    return -1;
}

static const weft_var *input_var(const question *q, size_t i) {
    const op_schema *schema = op_schema_of(q->op);
    for (size_t s = 0, at = 0; s < schema->ninputs; s++) {
        const slot *found = op_find_slot(q->op, false, schema->inputs[s].name);
        for (size_t k = 0; found && k < found->nargs; k++)
            if (at++ == i) return slot_var(q->op, found, k);
    }
    return NULL;
}

static bool is_same(const question *q, size_t i) {
    const weft_var *var = input_var(q, i);
    return var && q->flow->held[var->id].hold == DP_SAME;
}

/* The whole input along that factor, of more than one element there; -1: there is none. */
static int whole_along(const question *q, size_t factor) {
    for (size_t i = 0; i < q->rule.nin; i++) {
        const axes_arg *x = &q->rule.in[i];
        for (int d = 0; d < x->ndim && !x->any; d++)
            if (!q->in[i].naxes[d] && has_factor(&x->dims[d], factor) && x->extents[d] > 1 && is_same(q, i)) return (int)i;
    }
    return -1;
}

static bool keeps_factor(const question *q, size_t factor) {
    for (size_t o = 0; o < q->rule.nout; o++)
        for (int d = 0; d < q->rule.out[o].ndim; d++)
            if (has_factor(&q->rule.out[o].dims[d], factor)) return true;
    return false;
}

/* Numbers of rows: integers that all ranks have alike, or of other rows where a feed is looked up. */
static const weft_var *row_numbers(const question *q, const weft_var *rows) {
    FOR_EACH_ARG(q->op, false, u) {
        const weft_var *var = use_var(q->op->program, u);
        bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
        dp_hold hold = (dp_hold)q->flow->held[var->id].hold;
        if (var == rows || !is_integer || !var->ndim || (!q->flow->writer[var->id] && hold == DP_SAME && var->persistable))
            continue;
        if (hold == DP_SAME || (hold == DP_ROWS && !q->flow->writer[rows->id])) return var;
    }
    return NULL;
}

static weft_status refuse_input(const question *q, size_t i, int factor) {
    const weft_var *rows = input_var(q, i);
    char place[160], maker[160];
    op_place(q->op, place, sizeof place);
    int whole = whole_along(q, (size_t)factor);
    if (whole >= 0) {
        const weft_var *fixed = input_var(q, (size_t)whole);
        const weft_op *by = q->flow->writer[fixed->id];
        if (!by && dp_splits_feed(q->flow->plan, fixed)) return dp_again();
        return weft_pass_refuse(q->flow->plan->pass,
                                "%s: %s is as long as the batch, but the same on all ranks (%s), and does not go with the "
                                "rows of %s, of which a rank has its part%s",
                                place, fixed->name->bytes, by ? op_place(by, maker, sizeof maker) : "it is fed whole",
                                rows->name->bytes, by ? "" : "; see the option replicate");
    }
    const weft_var *numbers = row_numbers(q, rows);
    if (!q->rule.factors[factor].why || keeps_factor(q, (size_t)factor) || !numbers) return NULL;
    return weft_pass_refuse(q->flow->plan->pass,
                            "%s: %s picks rows of %s by their number in the whole batch, of which a rank has its part: a "
                            "feed that is no rows of the batch is named in the option replicate",
                            place, numbers->name->bytes, rows->name->bytes);
}

/* Whether some argument is the same on all ranks and might meet rows: constants, whole feeds; and lookups in feeds. */
static bool may_meet_rows(const dp_flow *f, const weft_op *op) {
    bool whole = false, rows = false;
    FOR_EACH_ARG(op, false, u) {
        const weft_var *var = use_var(op->program, u);
        dp_hold hold = (dp_hold)f->held[u->var_id].hold;
        const kept_shape *own = &f->plan->whole.kept[u->var_id];
        rows |= hold == DP_ROWS;
        bool is_integer = var->dtype == WEFT_INT32 || var->dtype == WEFT_INT64;
        whole |= (hold == DP_SAME && !var->persistable && own->ndim > 0 && !(own->ndim == 1 && own->dims[0] <= 1)) ||
                 (hold == DP_ROWS && is_integer);
    }
    return rows && whole;
}

/* A value that is as long as the whole batch must not meet a rank's rows: inference sees it in some ops alone. */
static weft_status check_rows(dp_flow *f, weft_op *op) {
    question q = {.flow = f, .op = op, .open = true};
    if ((op_role(op) & WEFT_ROLE_BACKWARD) || !may_meet_rows(f, op)) return NULL;
    arena_init(&q.arena, f->plan->scratch->allocator);
    weft_status status = ask_rule(&q);
    if (!status && op_schema_of(op) && !q.rule.why_none)
        for (size_t i = 0; i < q.rule.nin && !status; i++) {
            int factor = rows_factor(&q, i);
            if (factor >= 0) status = refuse_input(&q, i, factor);
        }
    arena_fini(&q.arena);
    return status;
}

/* --- ranks' own losses --------------------------------------------------------------------------------------------- */

/* An op that may join rows: only its rule tells. */
static weft_status follow_rule(dp_flow *f, weft_op *op, const reading *r, dp_value *made) {
    question q = {.flow = f, .op = op};
    bool forward = !(op_role(op) & WEFT_ROLE_BACKWARD);
    size_t n = op_nargs(op, true), at = 0;
    if (!r->own && !r->extents) {
        arena_init(&q.arena, f->plan->scratch->allocator);
        weft_status status = ask_rule(&q);
        uint32_t *times = ARENA_ARRAY(&q.arena, uint32_t, n + 1);
        if (!status && !times) return out_of_memory_in(&q);
        if (!status && !q.why) read_answer(&q, made, times);
        arena_fini(&q.arena);
        if (status || !q.why) {
            for (size_t i = 0; i < n; i++) made[i].cause = made[i].hold == DP_OWN ? op : r->cause;
            return status;
        }
    }
    const weft_op *cause = r->unclear ? NULL : r->partial && forward ? op : r->cause;
    FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_OWN, cause);
    return NULL;
}

/* Whether all outputs have other extents for a part: it is made row by row, and no rule is asked. */
static bool keeps_rows(const dp_flow *f, const weft_op *op) {
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (dp_split_axis(f->plan, v) < 0 && v->has_tensor) return false;
    }
    return true;
}

/* Whether an argument differs between ranks, or something that it was made of was partial. */
static bool is_plain(const dp_flow *f, const weft_op *op, dp_hold hold) {
    FOR_EACH_ARG(op, false, u)
    if (f->held[u->var_id].hold > (uint8_t)hold || f->held[u->var_id].cause) return false;
    return true;
}

/* The gradient of what all ranks have alike is an addend: each adds what its rows give. Whether all outputs are such,
 * or a rank's rows. */
static bool add_gradients(const dp_flow *f, const weft_op *op, dp_value *made) {
    for (uint32_t k = 0; k < op_nslots(op, true); k++) {
        const slot *s = op_slot(op, true, k), *of = s->nargs ? dp_forward_slot(op, s) : NULL;
        for (uint32_t i = 0; of && i < s->nargs && i < of->nargs; i++) {
            const use *u = &slot_args(op, s)[i];
            if (f->held[slot_args(op, of)[i].var_id].hold == DP_SAME &&
                dp_split_axis(f->plan, use_var(op->program, u)) < 0)
                made[u - op_args(op, true)] = partial_of_losses(f);
        }
    }
    for (size_t i = 0; i < op_nargs(op, true); i++)
        if (made[i].hold == DP_OWN) return false;
    return true;
}

static weft_status follow_losses(dp_flow *f, weft_op *op, dp_value *made) {
    size_t at = 0;
    bool rows = keeps_rows(f, op);
    if (rows && is_plain(f, op, DP_ROWS)) {
        FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_ROWS, NULL);
        return NULL;
    }
    reading r = {0};
    if (!is_plain(f, op, DP_SAME)) r = read_inputs(f, op);
    if (!r.rows && !r.partial && !r.own) {
        FOR_EACH_ARG(op, true, u) made[at++] = made_of_same(f, use_var(op->program, u), &r);
        return NULL;
    }
    if (rows) {
        const weft_op *cause = r.unclear ? NULL : r.partial && !(op_role(op) & WEFT_ROLE_BACKWARD) ? op : r.cause;
        FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_ROWS, cause);
        return NULL;
    }
    FOR_EACH_ARG(op, true, u) made[at++] = by_extents(f, use_var(op->program, u), DP_OWN, r.cause);
    if (add_gradients(f, op, made)) return NULL;
    TRY(follow_rule(f, op, &r, made));
    add_gradients(f, op, made);
    return NULL;
}

/* --- the walk ------------------------------------------------------------------------------------------------------ */

weft_status dp_flow_begin(dp_flow *f, dp_plan *plan) {
    size_t n = plan->program->nall_vars + 1;
    f->plan = plan;
    if (!f->held) {
        f->held = ARENA_ARRAY(&plan->types, dp_value, n);
        f->writer = ARENA_ARRAY(&plan->types, weft_op *, n);
        if (!f->held || !f->writer) return base_out_of_memory();
    }
    memset(f->held, 0, n * sizeof *f->held);
    memset(f->writer, 0, n * sizeof(weft_op *));
    f->nmarks = 0;
    for (size_t i = 0; i < plan->nfeeds; i++)
        if (plan->feeds[i].split) f->held[plan->feeds[i].var->id].hold = DP_ROWS;
    return NULL;
}

static weft_status make_values(dp_flow *f, size_t n, dp_value **out) {
    if (n > f->nmade) {
        f->made = ARENA_ARRAY(&f->plan->types, dp_value, 2 * n);
        f->nmade = 2 * n;
    }
    if (!f->made) return base_out_of_memory();
    memset(f->made, 0, f->nmade * sizeof *f->made);
    *out = f->made;
    return NULL;
}

weft_status dp_flow_op(dp_flow *f, weft_op *op) {
    size_t n = op_nargs(op, true);
    dp_value *made = NULL;
    if (!n || op_is(op, "feed") || op_has_effect(op, OP_NO_BYTES)) return NULL;
    TRY(make_values(f, n, &made));
    TRY(check_rows(f, op));
    TRY(follow_losses(f, op, made));
    FOR_EACH_ARG(op, true, u) {
        f->held[u->var_id] = *made++;
        if (f->plan->whole.values[u->var_id] && f->plan->part.values[u->var_id])
            f->held[u->var_id] = (dp_value){.hold = f->plan->differs[u->var_id] ? DP_EXTENT : DP_SAME};
        f->writer[u->var_id] = op;
        if (f->plan->joined_after[u->var_id] == op) f->held[u->var_id] = (dp_value){.hold = DP_SAME};
    }
    return NULL;
}
