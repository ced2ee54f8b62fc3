/* replicas.c: values that differ between ranks, and where they must not arrive.
 *
 * Ranks lie on axes (axes.h). Of each value a set of axes is known along which it may differ: feeds and state as their
 * dist attrs shard them, and other feeds along all. What an op makes varies along those of its inputs and of the
 * condition that it runs under. A collective that leaves one value on all members takes away the axes of its ring.
 * State that an optimizer updates may differ along the axes that shard it, and no others. Where both branches of a
 * doubt exist the answer is "does not differ": what is reported is so. Where something would be, all is looked at
 * again, and each output of an op differs as what it is made of: of a view its input, of a gradient what its row reads.
 *
 * Most ops make what they write of what they read, and most updates read nothing that differs: of these the schedule
 * says enough, and the program is not looked at. */
#include "proof/spmd/replicas.h"
#include "ops/axes.h"
#include "plan/plan.h"
#include "program/grow.h"

enum { MAX_DEPTH = 16 };

/* --- values ------------------------------------------------------------------------------------------------------- */

static weft_status share(flow *f, uint32_t id, sharing **out) {
    var_state *v = &f->vars[id];
    if (!v->shared) {
        TRY(grow(f->arena, &f->shared, &f->shared_capacity, f->nshared + 1, sizeof *f->shared));
        f->shared[f->nshared++] = (sharing){0};
        v->shared = (uint32_t)f->nshared;
    }
    *out = &f->shared[v->shared - 1];
    return NULL;
}

/* The members of a fused buffer, or NULL. */
static const sharing *parts_of(const flow *f, uint32_t id) {
    const sharing *s = sharing_of(f, id);
    return s && s->nparts ? s : NULL;
}

static bool is_written(const weft_var *v) {
    FOR_EACH_USE(u, v) {
        weft_op *op = use_op(v->program, u);
        if (u->is_output && op->block && !op_has_effect(op, OP_ALIASES | OP_NO_BYTES)) return true;
    }
    return false;
}

static bool is_feed_op(const weft_op *op) {
    return op_is(op, "feed") || op_is(op, "feed_v2");
}

static axes start_value(const flow *f, const weft_var *v) {
    if (v->persistable) return axes_of_shards(&f->grid, v->dist);
    if (!v->need_check_feed && is_written(v)) return 0;
    if (v->dist && v->dist->mesh && f->grid.mesh) return axes_of_shards(&f->grid, v->dist);
    return f->grid.all;
}

static axes get_alone(flow *f, uint32_t id) {
    var_state *v = &f->vars[id];
    if (v->known == UNKNOWN) {
        v->differs = start_value(f, program_var(f->program, id));
        v->known = AT_START;
    }
    return v->differs;
}

/* So has the shape that an op leaves for its gradient: nothing of it can differ. */
static bool has_no_elements(const weft_var *v) {
    for (size_t d = 0; d < v->ndim; d++)
        if (v->dims[d] == 0) return true;
    return false;
}

static axes get(flow *f, uint32_t id) {
    if (has_no_elements(program_var(f->program, id))) return 0;
    if (!f->vars[id].shared) return get_alone(f, id);
    id = replicas_shown_by(f, id);
    const sharing *of = parts_of(f, id);
    axes found = of && f->vars[id].known == UNKNOWN ? 0 : get_alone(f, id); /* what its members are written to */
    for (uint32_t i = 0; of && i < of->nparts; i++) {
        bool is_own = i >= of->own_begin && i < of->own_end;
        found |= get_alone(f, of->parts[i]) & ~(is_own ? of->joined : 0);
    }
    return found;
}

static void put_alone(flow *f, uint32_t id, axes differs) {
    f->vars[id].differs = differs;
    f->vars[id].known = WRITTEN + f->at;
}

static void put(flow *f, uint32_t id, axes differs) {
    id = replicas_shown_by(f, id);
    const sharing *of = parts_of(f, id);
    put_alone(f, id, of ? 0 : differs);
    for (uint32_t i = 0; of && i < of->nparts; i++) put_alone(f, of->parts[i], differs);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static axes differs_of(flow *f, const weft_op *op, const slot *s) {
    axes found = 0;
    for (uint32_t i = 0; i < s->nargs; i++) found |= get(f, slot_args(op, s)[i].var_id);
    return found;
}

static axes inputs_of(flow *f, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    axes found = 0;
    for (uint32_t k = 0; k < op_nslots(op, false); k++)
        if (!bind_wants_type_only(schema, op_slot(op, false, k))) found |= differs_of(f, op, op_slot(op, false, k));
    return found;
}

/* The input that an output is a view of, and that no other output is written to; -1: none. */
static int viewed_input(const op_schema *schema, const slot *out) {
    int viewed = -1;
    for (size_t k = 0; k < schema->noutputs; k++)
        if (name_is(out->name, schema->outputs[k].name)) viewed = schema->outputs[k].view_of;
    for (size_t k = 0; k < schema->noutputs; k++)
        if (viewed >= 0 && schema->outputs[k].in_place_of == viewed) return -1;
    return viewed;
}

/* Of those that an output is made of. */
static axes inputs_of_output(flow *f, weft_op *op, const slot *out) {
    const op_schema *schema = op_schema_of(op);
    int viewed = schema ? viewed_input(schema, out) : -1;
    const slot *shown = viewed < 0 ? NULL : op_find_slot(op, false, schema->inputs[viewed].name);
    axes found = 0;
    if (!schema || op_communicates(op)) return inputs_of(f, op);
    if (shown) return differs_of(f, op, shown);
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        axes own = bind_wants_type_only(schema, s) ? 0 : differs_of(f, op, s);
        if ((own & ~found) && axes_reads(schema, out->name->bytes, s->name->bytes)) found |= own;
    }
    return found;
}

/* What a collective leaves. On ranks other than the root a reduce leaves what was there. */
static axes joined(const flow *f, const weft_op *op, axes in, axes ring_axes) {
    const ring *r = program_find_ring(f->program, op_ring(op));
    collective_kind kind = op_collective_kind(op);
    if (kind == COLLECTIVE_REDUCE && f->rank >= 0 && r && ring_index(r, f->rank) >= 0)
        return ring_index(r, f->rank) == op_collective_root(op) ? in & ~ring_axes : in;
    bool parts = kind == COLLECTIVE_REDUCE_SCATTER || kind == COLLECTIVE_ALL_TO_ALL || kind == COLLECTIVE_SCATTER;
    return parts ? in | ring_axes : in & ~ring_axes;
}

/* What an op leaves of `in`; `ring_axes`: of its ring, if it communicates or splits. */
static axes made_of(const flow *f, const weft_op *op, axes in, axes ring_axes) {
    in |= f->guard;
    if (is_feed_op(op)) return f->grid.all;
    if (op_is_collective(op, COLLECTIVE_SPLIT)) return in | ring_axes;
    return op_communicates(op) ? joined(f, op, in, ring_axes) : in;
}

static axes ring_axes_of(const flow *f, const weft_op *op) {
    return op_communicates(op) || op_is_collective(op, COLLECTIVE_SPLIT) ? axes_of_ring(&f->grid, op_ring(op)) : 0;
}

/* The members of a fused buffer that an op reads and writes, such as a reduce: what goes on in one stays in it. */
static const sharing *works_in_parts(const flow *f, const weft_op *op) {
    if (op_nslots(op, true) != 1 || !op_nargs(op, true)) return NULL;
    const sharing *of = parts_of(f, op_args(op, true)->var_id);
    return of && op_x(op) && op_x(op) == op_out(op) ? of : NULL;
}

static void write_parts(flow *f, const weft_op *op, const sharing *of) {
    axes ring_axes = ring_axes_of(f, op);
    for (uint32_t i = 0; i < of->nparts; i++)
        put(f, of->parts[i], made_of(f, op, get_alone(f, of->parts[i]), ring_axes));
}

/* Of an op that adds up over its ring: the output that is of the rank's classes or rows alone. NULL: there is none. */
static const char *own_output(const weft_op *op) {
    static const char *const rows[][2] = {{"c_softmax_with_cross_entropy", "Softmax"},
                                          {"c_batch_norm", "Y"},
                                          {"c_batch_norm_grad", "X@GRAD"},
                                          {"c_aten_batch_norm", "out"},
                                          {"c_aten_batch_norm_backward", "grad_input"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (op_is(op, rows[i][0])) return rows[i][1];
    return NULL;
}

static void write_output(flow *f, weft_op *op, const use *u, axes differs) {
    bool unknown = !op_schema_of(op) && op_communicates(op);
    const char *named = own_output(op);
    const slot *own = named ? op_find_slot(op, true, named) : NULL;
    const placement *where = is_feed_op(op) || unknown ? use_var(op->program, u)->dist : NULL;
    if (op_shows_own_input(op, u)) return;
    if (unknown || (where && where->mesh && f->grid.mesh)) differs = axes_of_shards(&f->grid, where);
    if (own && (uint32_t)(u - slot_args(op, own)) < own->nargs) differs |= axes_of_ring(&f->grid, op_ring(op));
    put(f, u->var_id, differs);
}

/* The input of which argument i of an output is a copy; NULL: it is none. An einsum keeps each operand for its
 * gradient. */
static const use *copied_input(const weft_op *op, const slot *out, uint32_t i) {
    const slot *operands = op_find_slot(op, false, "Operands");
    bool keeps = op_is(op, "einsum") && name_is(out->name, "InnerCache");
    return keeps && operands && i < operands->nargs ? &slot_args(op, operands)[i] : NULL;
}

static weft_status write_outputs(flow *f, weft_op *op) {
    uint32_t n = op_nslots(op, true);
    axes ring_axes = ring_axes_of(f, op), all = made_of(f, op, inputs_of(f, op), ring_axes);
    axes *made = f->is_exact ? ARENA_ARRAY(f->arena, axes, n + 1) : NULL;
    if (f->is_exact && !made) return base_out_of_memory();
    for (uint32_t k = 0; made && k < n; k++) /* before any is written, maybe over an input */
        made[k] = made_of(f, op, inputs_of_output(f, op, op_slot(op, true, k)), ring_axes);
    for (uint32_t k = 0; k < n; k++) {
        const slot *s = op_slot(op, true, k);
        for (uint32_t i = 0; i < s->nargs; i++) {
            const use *copied = made ? copied_input(op, s, i) : NULL;
            axes differs = copied ? made_of(f, op, get(f, copied->var_id), ring_axes) : made ? made[k] : all;
            write_output(f, op, &slot_args(op, s)[i], differs);
        }
    }
    return NULL;
}

static weft_status name_parts(flow *f, uint32_t fused, const uint32_t *parts, uint32_t nparts) {
    sharing *s;
    TRY(share(f, fused, &s));
    s->parts = parts;
    s->nparts = nparts;
    return NULL;
}

/* Rows that ranks send each other (micro_pipeline_tp): each member's lie where it stands on the ring, so the rank's own
 * may be no others. */
static void note_gathered(const flow *f, const weft_op *op, uint32_t fused) {
    sharing *s = &f->shared[f->vars[fused].shared - 1];
    const weft_attr *id = op_find_attr(op, "micro_pipeline_ring");
    const ring *r = id ? program_find_ring(f->program, id->u.i) : NULL;
    int index = r && f->rank >= 0 ? ring_index(r, f->rank) : -1;
    if (index < 0 || s->nparts % (uint32_t)r->nranks) return;
    uint32_t each = s->nparts / (uint32_t)r->nranks;
    s->own_begin = (uint32_t)index * each;
    s->own_end = s->own_begin + each;
    s->joined = axes_of_ring(&f->grid, r->id);
}

static weft_status share_names(flow *f, const weft_op *op) {
    weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    const slot *outputs = op_find_slot(op, true, "Output");
    if (!fused) return NULL;
    uint32_t n = outputs ? outputs->nargs : 0, *parts = ARENA_ARRAY(f->arena, uint32_t, n + 1);
    if (!parts) return base_out_of_memory();
    for (uint32_t i = 0; i < n; i++) parts[i] = slot_args(op, outputs)[i].var_id;
    TRY(name_parts(f, fused->id, parts, n));
    note_gathered(f, op, fused->id);
    return NULL;
}

/* An output that shows an input's bytes differs as that does, from here on. */
static weft_status share_views(flow *f, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    for (size_t k = 0; schema && k < schema->noutputs; k++) {
        if (schema->outputs[k].view_of < 0) continue;
        const slot *out = op_find_slot(op, true, schema->outputs[k].name);
        const slot *in = op_find_slot(op, false, schema->inputs[schema->outputs[k].view_of].name);
        for (uint32_t i = 0; out && in && i < out->nargs && i < in->nargs; i++) {
            uint32_t shown = replicas_shown_by(f, slot_args(op, in)[i].var_id);
            sharing *s;
            if (shown == slot_args(op, out)[i].var_id) continue;
            TRY(share(f, slot_args(op, out)[i].var_id, &s));
            s->alias_of = shown + 1;
        }
    }
    return NULL;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

/* Of an op that updates several parameters: whose update an argument belongs to. What all share is the first one's. */
static weft_var *param_of(const weft_op *op, const slot *s, uint32_t i, weft_var *first) {
    const slot *params = op_find_slot(op, false, "Param");
    return params && params->nargs > 1 && params->nargs == s->nargs ? slot_var(op, params, i) : first;
}

/* State that an optimizer writes is equal along every axis that does not shard it; so must be what it is made from. */
static weft_status check_update(flow *f, const weft_op *op, uint32_t index) {
    weft_var *param = op_updated_param(op);
    bool scaling = op_is(op, "update_loss_scaling");
    if (!scaling && (!op_has_effect((weft_op *)op, OP_OPTIMIZER) || !param || !param->persistable)) return NULL;
    axes guarded = param ? f->guard & ~axes_of_shards(&f->grid, param->dist) : 0;
    for (uint32_t k = 0; k < op_nslots(op, false); k++) {
        const slot *s = op_slot(op, false, k);
        bool counts = scaling ? name_is(s->name, "FoundInfinite") : true;
        for (uint32_t i = 0; counts && i < s->nargs; i++) {
            const weft_var *own = param_of(op, s, i, param);
            const weft_var *state = own ? own : weft_op_output(op, "LossScaling", 0);
            axes may = own ? axes_of_shards(&f->grid, own->dist) : 0,
                 differ = get(f, slot_args(op, s)[i].var_id) & ~may;
            /* State that is sharded otherwise than the parameter is its own business. */
            if (slot_var(op, s, i)->persistable) differ &= ~axes_of_shards(&f->grid, slot_var(op, s, i)->dist);
            if (differ)
                TRY(replicas_report(f, op, index, slot_var(op, s, i), state ? state : slot_var(op, s, i), differ));
        }
    }
    return guarded ? replicas_report(f, op, index, param, param, guarded) : NULL;
}

/* A parameter that is trained. Statistics of batch norm are parameters too, but no gradient flows into them. */
static bool is_trained(const weft_var *v) {
    return v->persistable && v->is_parameter && v->has_stop_gradient && !v->stop_gradient;
}

/* The first input that differs over one of these axes; else what is written itself. */
static const weft_var *source_of(flow *f, const weft_op *op, axes differ, const weft_var *made) {
    FOR_EACH_ARG(op, false, u) {
        if (get(f, u->var_id) & differ) return use_var(op->program, u);
    }
    return made;
}

/* What another op than an optimizer writes to a trained parameter: an update by hand, such as an assign. */
static weft_status check_writes(flow *f, const weft_op *op, uint32_t index) {
    if (op_has_effect((weft_op *)op, OP_OPTIMIZER)) return NULL;
    FOR_EACH_ARG(op, true, u) {
        const weft_var *v = use_var(op->program, u);
        if (!is_trained(v)) continue;
        axes differ = get(f, v->id) & ~axes_of_shards(&f->grid, v->dist);
        if (differ) TRY(replicas_report(f, op, index, source_of(f, op, differ, v), v, differ));
    }
    return NULL;
}

static bool writes_trained(const weft_program *p) {
    for (size_t i = 0; i < p->nall_vars; i++) {
        const weft_var *v = program_var(p, i);
        if (is_trained(v) && is_written(v)) return true;
    }
    return false;
}

/* --- the sweep ---------------------------------------------------------------------------------------------------- */

static weft_status sweep_block(flow *f, const weft_block *block, uint32_t outer, int depth);

static weft_status sweep_sub_block(flow *f, const weft_op *op, uint32_t index, int depth) {
    const weft_attr *body = op_find_attr(op, "sub_block");
    if (!body || body->type != ATTR_BLOCK || body->u.i <= 0 || (uint64_t)body->u.i >= f->program->nblocks ||
        depth >= MAX_DEPTH || f->entered[body->u.i])
        return NULL;
    f->entered[body->u.i] = true;
    axes outer = f->guard;
    const slot *condition = op_find_slot(op, false, "Cond");
    if (!condition) condition = op_find_slot(op, false, "Condition");
    for (uint32_t i = 0; condition && i < condition->nargs; i++) f->guard |= get(f, slot_args(op, condition)[i].var_id);
    TRY(sweep_block(f, f->program->blocks[body->u.i], index, depth + 1));
    f->guard = outer;
    return NULL;
}

static weft_status sweep_op(flow *f, weft_op *op, uint32_t index, int depth) {
    if (f->program->nblocks > 1 && op_find_attr(op, "sub_block")) return sweep_sub_block(f, op, index, depth);
    bool aliases = op_has_effect(op, OP_ALIASES);
    if (aliases) TRY(share_names(f, op));
    TRY(share_views(f, op));
    if (aliases || op_has_effect(op, OP_NO_BYTES)) return NULL;
    if (f->guard && op_communicates(op) && f->guard & axes_of_ring(&f->grid, op_ring(op)))
        TRY(replicas_report_guarded(f, op, index, f->guard & axes_of_ring(&f->grid, op_ring(op))));
    TRY(check_update(f, op, index));
    if (op_has_effect(op, OP_OPTIMIZER)) return NULL; /* reported already: what follows is not reported again */
    const sharing *of = works_in_parts(f, op);
    if (of)
        write_parts(f, op, of);
    else
        TRY(write_outputs(f, op));
    return check_writes(f, op, index);
}

static weft_status sweep_block(flow *f, const weft_block *block, uint32_t outer, int depth) {
    FOR_EACH_OP(op, block) {
        TRY(grow(f->arena, &f->inner, &f->inner_capacity, f->ninner + 1, sizeof *f->inner));
        f->inner[f->ninner] = (inner_op){op, outer};
        f->at = INNER | (uint32_t)f->ninner++;
        TRY(sweep_op(f, op, outer, depth));
    }
    return NULL;
}

static bool sweep_all_reduce(flow *f, const proof_collective *c, const proof_touch *x, size_t n) {
    if (n != 2 || x[0].is_write || !x[1].is_write) return false;
    axes ring_axes = axes_of_ring(&f->grid, c->ring);
    const sharing *of = parts_of(f, x[1].owner);
    if (!of || x[0].owner != x[1].owner) {
        put(f, x[1].owner, get(f, x[0].owner) & ~ring_axes);
        return true;
    }
    for (uint32_t i = 0; i < of->nparts; i++) put(f, of->parts[i], get_alone(f, of->parts[i]) & ~ring_axes);
    return true;
}

static bool sweep_plain(flow *f, const proof_touch *x, size_t n) {
    size_t nreads = 0;
    axes differs = 0;
    if (f->is_exact) return false;
    for (; nreads < n && !x[nreads].is_write; nreads++) differs |= get(f, x[nreads].owner);
    for (size_t k = nreads; k < n; k++)
        if (f->vars[x[k].owner].shared || (differs && is_trained(program_var(f->program, x[k].owner))))
            return false; /* it may be told apart by members; it must not differ */
    for (size_t k = nreads; k < n; k++) put_alone(f, x[k].owner, differs);
    return true;
}

/* An update of nothing that differs is in order, whatever shards it. */
static bool sweep_update(flow *f, const proof_touch *x, size_t n) {
    axes differs = 0;
    for (size_t k = 0; k < n && !x[k].is_write; k++) differs |= get(f, x[k].owner);
    return differs == 0;
}

/* Block 0, launch by launch. What an op runs stands behind it, and is swept with it. */
static weft_status sweep_launches(flow *f) {
    const proof_schedule *s = f->schedule;
    const weft_program *p = f->program;
    const proof_fusion *fusion = s->fusions;
    for (uint32_t i = 0; i < s->nevents; i++) {
        const proof_event *e = &s->events[i];
        const proof_touch *x = &s->touches[e->first_access];
        size_t n = proof_naccesses(s, i);
        bool is_done = false;
        f->at = i;
        switch (e->makes) {
        case PROOF_MAKES_OF_ALL: is_done = sweep_plain(f, x, n); break;
        case PROOF_MAKES_ALL_REDUCE: is_done = sweep_all_reduce(f, &s->collectives[e->collective], x, n); break;
        case PROOF_MAKES_UPDATE: is_done = sweep_update(f, x, n); break;
        case PROOF_MAKES_NAMES:
            TRY(name_parts(f, fusion->fused, s->fused_parts + fusion->first_part, fusion->nparts));
            note_gathered(f, e->op, fusion->fused);
            fusion++;
            is_done = true;
            break;
        default: is_done = i && e[-1].op == e->op; /* another launch of one op */
        }
        if (!is_done && (p->nblocks == 1 || e->op->block == p->blocks[0]))
            TRY(sweep_op(f, (weft_op *)e->op, e->op_index, 0));
    }
    return NULL;
}

static weft_status sweep(flow *f, const program_rings *rings) {
    const weft_program *p = f->program;
    TRY(axes_find(p, rings, f->rank, f->arena, &f->grid));
    f->vars = ARENA_ARRAY(f->arena, var_state, p->nall_vars + 1);
    f->entered = ARENA_ARRAY(f->arena, bool, p->nblocks);
    if (!f->vars || !f->entered) return base_out_of_memory();
    proof_schedule places;
    TRY(schedule_init(&places, p->context, f->arena));
    TRY(schedule_event(&places, NULL, 0, 0, NULL));
    f->places = &places;
    return sweep_launches(f);
}

weft_status check_replicas(const proof_schedule *s, const program_rings *rings, int64_t rank, int64_t nranks,
                           weft_findings *findings) {
    const weft_program *p = s->program;
    if (nranks < 2) return NULL;
    /* Of an update, of a collective under a condition. */
    bool may_tell = s->nupdates > 0 || p->nblocks > 1 || writes_trained(p);
    if (!may_tell) return NULL;
    arena scratch;
    arena_init(&scratch, &p->context->allocator);
    flow first = {.program = p, .schedule = s, .findings = findings, .arena = &scratch, .nranks = nranks};
    first.rank = p->has_dist && p->rank < 0 ? -1 : rank;
    flow again = first;
    again.is_exact = true;
    weft_status status = sweep(&first, rings);
    if (!status && first.is_doubtful) status = sweep(&again, rings);
    arena_fini(&scratch);
    return status;
}
