/* replicas.c: values that differ between ranks, and where they must not arrive.
 *
 * Ranks lie on axes: those of the program's mesh, or its rings where it has no mesh. Of each value a set of axes is
 * known along which it may differ: feeds and state as their dist attrs shard them, other feeds along all, what an op
 * makes along those of its inputs and of the condition that it runs under. A collective that leaves one value on all
 * members takes away the axes of its ring. State that an optimizer updates may differ along the axes that shard it, and
 * no others. Where both branches of a doubt exist the answer is "does not differ": what is told is so. */
#include <stdio.h>

#include "plan/plan.h"
#include "proof/checks.h"

enum { MAX_AXES = 32, MAX_DEPTH = 16, IS_PLAIN = 1, NOT_PLAIN };
typedef uint32_t axes; /* bit i: axis i */

/* Axis i has these ranks, as seen from `rank`. */
typedef struct grid {
    const mesh *mesh; /* NULL: axes are rings */
    uint32_t *same;   /* by place of a ring in the program: the first with the same members */
    uint8_t *set;     /* a flag for each rank that a ring speaks of, all off */
    int64_t nflags;
    const ring *rings[MAX_AXES];
    int naxes;
    axes all;
} grid;

/* What is known of a var. */
typedef struct var_state {
    const slot *parts;         /* the members of a fused buffer, or NULL */
    const weft_op *written_by; /* NULL: nobody yet */
    uint32_t written_at;       /* index of that op */
    uint32_t alias_of;         /* id of the var whose value it shows, plus one; 0: its own */
    axes differs;              /* where it is known: written, or looked at */
    bool is_known, is_told;
} var_state;

typedef struct flow {
    const weft_program *program;
    weft_findings *findings;
    int64_t rank, nranks;
    grid grid;
    axes *of_ring;   /* by place of the ring in the program */
    var_state *vars; /* by var id */
    bool *entered;   /* by block */
    uint8_t *plain;  /* by row of the op table: IS_PLAIN, NOT_PLAIN; 0: not looked at */
    axes guard;
    proof_schedule *places; /* one event, to name ops with */
} flow;

/* --- axes --------------------------------------------------------------------------------------------------------- */

static bool is_in(const ring *r, int64_t rank) {
    return rank < 0 || ring_index(r, rank) >= 0;
}

/* The mesh of most ranks. */
static const mesh *widest_mesh(const weft_program *p, int64_t rank) {
    const mesh *found = NULL;
    int64_t coordinates[MESH_MAX_NDIM];
    for (size_t i = 0; i < p->nmeshes; i++) {
        const mesh *m = p->meshes[i];
        if (rank >= 0 && !mesh_coordinates(m, rank, coordinates)) continue;
        if (!found || mesh_size(m) > mesh_size(found) || (mesh_size(m) == mesh_size(found) && m->ndim > found->ndim))
            found = m;
    }
    return found && mesh_size(found) > 1 ? found : NULL;
}

static void set_members(grid *g, const ring *r, uint8_t value) {
    for (int n = 0; n < r->nranks; n++)
        if (r->ranks[n] >= 0 && r->ranks[n] < g->nflags) g->set[r->ranks[n]] = value;
}

static bool is_part(const ring *r, const grid *of) {
    for (int n = 0; n < r->nranks; n++)
        if (r->ranks[n] < 0 || r->ranks[n] >= of->nflags || !of->set[r->ranks[n]]) return false;
    return true;
}

static weft_status find_same(grid *g, const weft_program *p, const program_rings *rings, arena *a) {
    g->same = ARENA_ARRAY(a, uint32_t, p->nrings + 1);
    if (!g->same) return base_out_of_memory();
    for (uint32_t i = 0; i < p->nrings; i++)
        while (rings->list_of[g->same[i]] != rings->list_of[i]) g->same[i]++;
    for (uint32_t i = 0; i < p->nrings; i++)
        for (int n = 0; g->same[i] == i && n < p->rings[i].nranks; n++)
            if (p->rings[i].ranks[n] >= g->nflags && p->rings[i].ranks[n] < MAX_RANKS)
                g->nflags = p->rings[i].ranks[n] + 1;
    g->set = ARENA_ARRAY(a, uint8_t, g->nflags + 1);
    return g->set ? NULL : base_out_of_memory();
}

/* Without a mesh: rings that no smaller ring is part of. */
static void use_rings(grid *g, const weft_program *p, int64_t rank) {
    for (size_t i = 0; i < p->nrings && g->naxes < MAX_AXES; i++) {
        const ring *r = &p->rings[i];
        if (g->same[i] != i || r->nranks < 2 || !is_in(r, rank)) continue;
        bool is_axis = true;
        set_members(g, r, 1);
        for (size_t k = 0; k < p->nrings && is_axis; k++) {
            const ring *other = &p->rings[k];
            if (g->same[k] != k || other->nranks < 2 || !is_in(other, rank)) continue;
            bool may = other->nranks < r->nranks || (k < i && other->nranks == r->nranks);
            is_axis = !may || !is_part(other, g);
        }
        set_members(g, r, 0);
        if (is_axis) g->rings[g->naxes++] = r;
    }
    g->all =
        g->naxes ? (axes)((UINT64_C(1) << g->naxes) - 1) : 1; /* no ring at all: ranks differ, and nothing joins them */
}

static void make_grid(grid *g, const weft_program *p, int64_t rank) {
    g->mesh = widest_mesh(p, rank);
    if (!g->mesh) {
        use_rings(g, p, rank);
        return;
    }
    g->naxes = g->mesh->ndim;
    for (int i = 0; i < g->naxes; i++)
        if (g->mesh->shape[i] > 1) g->all |= (axes)1 << i;
}

/* The axes along which the ranks of a ring differ, if it has every rank along them. */
static axes axes_of_mesh_ring(const mesh *m, const ring *r) {
    int64_t first[MESH_MAX_NDIM], at[MESH_MAX_NDIM], size = 1;
    axes found = 0;
    if (!mesh_coordinates(m, r->ranks[0], first)) return 0;
    for (int n = 1; n < r->nranks; n++) {
        if (!mesh_coordinates(m, r->ranks[n], at)) return 0;
        for (int i = 0; i < m->ndim; i++)
            if (at[i] != first[i]) found |= (axes)1 << i;
    }
    for (int i = 0; i < m->ndim; i++)
        if (found >> i & 1) size *= m->shape[i];
    return size == r->nranks ? found : 0;
}

static axes axes_of_ring(const flow *f, int64_t ring_id) {
    const ring *r = program_find_ring(f->program, ring_id);
    return r ? f->of_ring[r - f->program->rings] : f->grid.all; /* not told: all ranks */
}

static weft_status find_axes_of_rings(flow *f, arena *a) {
    const weft_program *p = f->program;
    f->of_ring = ARENA_ARRAY(a, axes, p->nrings + 1);
    if (!f->of_ring) return base_out_of_memory();
    for (size_t k = 0; k < p->nrings; k++) {
        const ring *r = &p->rings[k];
        f->of_ring[k] = f->of_ring[f->grid.same[k]];
        if (f->grid.same[k] != k) continue;
        if (f->grid.mesh && r->nranks) f->of_ring[k] = axes_of_mesh_ring(f->grid.mesh, r);
        if (f->grid.mesh) continue;
        set_members(&f->grid, r, 1);
        for (int i = 0; i < f->grid.naxes; i++)
            if (is_part(f->grid.rings[i], &f->grid)) f->of_ring[k] |= (axes)1 << i;
        set_members(&f->grid, r, 0);
    }
    return NULL;
}

/* The axes that shard a value. A placement on another mesh says nothing of these axes, save by size. */
static axes shards_of(const flow *f, const placement *p) {
    axes found = 0;
    if (!p || !f->grid.mesh || !p->mesh) return 0;
    for (int i = 0; i < p->ndim; i++) {
        int64_t axis = p->dims_mapping[i];
        if (axis < 0 || axis >= p->mesh->ndim) continue;
        if (mesh_equal(p->mesh, f->grid.mesh))
            found |= (axes)1 << axis;
        else
            found |= f->grid.all;
    }
    return found & f->grid.all;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static uint32_t shown_by(const flow *f, uint32_t id) {
    while (f->vars[id].alias_of) id = f->vars[id].alias_of - 1;
    return id;
}

static bool is_written(const weft_var *v) {
    FOR_EACH_USE(u, v)
    if (u->is_output && use_op(u)->block && !op_has_effect(use_op(u), OP_ALIASES | OP_NO_BYTES)) return true;
    return false;
}

static bool is_feed_op(const weft_op *op) {
    return op_is(op, "feed") || op_is(op, "feed_v2");
}

static axes start_value(const flow *f, const weft_var *v) {
    if (v->persistable) return shards_of(f, v->dist);
    if (!v->need_check_feed && is_written(v)) return 0;
    if (v->dist && v->dist->mesh && f->grid.mesh) return shards_of(f, v->dist);
    return f->grid.all;
}

static axes get_alone(flow *f, uint32_t id) {
    var_state *v = &f->vars[id];
    if (!v->is_known) v->differs = start_value(f, f->program->all_vars[id]);
    v->is_known = true;
    return v->differs;
}

static axes get(flow *f, uint32_t id) {
    id = shown_by(f, id);
    axes found = get_alone(f, id);
    const slot *parts = f->vars[id].parts;
    for (uint32_t i = 0; parts && i < parts->nargs; i++) found |= get_alone(f, parts->args[i].var_id);
    return found;
}

static void put_alone(flow *f, uint32_t id, axes differs, const weft_op *op, uint32_t index) {
    var_state *v = &f->vars[id];
    v->differs = differs;
    v->is_known = true;
    v->written_by = op;
    v->written_at = index;
}

static void put(flow *f, uint32_t id, axes differs, const weft_op *op, uint32_t index) {
    id = shown_by(f, id);
    const slot *parts = f->vars[id].parts;
    put_alone(f, id, parts ? 0 : differs, op, index);
    for (uint32_t i = 0; parts && i < parts->nargs; i++) put_alone(f, parts->args[i].var_id, differs, op, index);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static bool looks_at_type_only(const op_schema *schema, const slot *s) {
    for (size_t i = 0; schema && i < schema->ninputs; i++)
        if (schema->inputs[i].only_type && name_is(s->name, schema->inputs[i].name)) return true;
    return false;
}

static axes inputs_of(flow *f, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    axes found = 0;
    for (uint32_t k = 0; k < op->inputs.count; k++) {
        const slot *s = &op->inputs.slots[k];
        if (looks_at_type_only(schema, s)) continue;
        for (uint32_t i = 0; i < s->nargs; i++) found |= get(f, s->args[i].var_id);
    }
    return found;
}

/* What a collective leaves. On ranks other than the root a reduce leaves what was there. */
static axes joined(const flow *f, const weft_op *op, axes in, axes ring_axes) {
    const ring *r = program_find_ring(f->program, op_ring(op));
    if (op_is_all_reduce(op, NULL)) return in & ~ring_axes;
    bool reduces = strncmp(op->type->bytes, "c_reduce_", 9) == 0 || op_is(op, "reduce");
    if (reduces && f->rank >= 0 && r && ring_index(r, f->rank) >= 0)
        return ring_index(r, f->rank) == attr_int(op, "root_id", 0) ? in & ~ring_axes : in;
    if (op_is(op, "c_reducescatter") || op_is(op, "reduce_scatter") || op_is(op, "alltoall") || op_is(op, "all_to_all"))
        return in | ring_axes;
    return in & ~ring_axes;
}

static axes made_of(const flow *f, const weft_op *op, axes in) {
    in |= f->guard;
    if (is_feed_op(op)) return f->grid.all;
    if (op_is(op, "c_split")) return in | axes_of_ring(f, op_ring(op));
    return op_communicates(op) ? joined(f, op, in, axes_of_ring(f, op_ring(op))) : in;
}

/* A fused buffer that an op reads and writes, such as a reduce: what goes on in one member stays in it. */
static bool works_in_parts(const flow *f, const weft_op *op) {
    const slot *out = op->outputs.slots;
    if (op->outputs.count != 1 || !out->nargs || !f->vars[out->args[0].var_id].parts) return false;
    return op_x(op) && op_x(op) == op_out(op);
}

static void write_parts(flow *f, const weft_op *op, uint32_t index) {
    const slot *parts = f->vars[op_out(op)->id].parts;
    for (uint32_t i = 0; i < parts->nargs; i++) {
        uint32_t part = parts->args[i].var_id;
        put(f, part, made_of(f, op, get_alone(f, part)), op, index);
    }
}

static void write_outputs(flow *f, weft_op *op, uint32_t index, axes differs) {
    bool unknown = !op_schema_of(op) && op_communicates(op), feeds = is_feed_op(op);
    FOR_EACH_ARG(op, true, u) {
        axes of_it = differs;
        if (feeds && u->var->dist && u->var->dist->mesh && f->grid.mesh) of_it = shards_of(f, u->var->dist);
        if (unknown) of_it = shards_of(f, u->var->dist);
        if (op_is(op, "c_softmax_with_cross_entropy") && name_is(op->outputs.slots[u_s].name, "Softmax"))
            of_it |= axes_of_ring(f, op_ring(op)); /* the rank's classes */
        put(f, u->var_id, of_it, op, index);
    }
}

static void bind_names(flow *f, const weft_op *op) {
    weft_var *fused = weft_op_output(op, "FusedOutput", 0);
    if (fused) f->vars[fused->id].parts = op_find_slot(op, true, "Output");
}

/* An output that shows an input's bytes differs as that does, from here on. */
static void bind_views(flow *f, weft_op *op) {
    const op_schema *schema = op_schema_of(op);
    for (size_t k = 0; schema && k < schema->noutputs; k++) {
        if (schema->outputs[k].view_of < 0) continue;
        const slot *out = op_find_slot(op, true, schema->outputs[k].name);
        const slot *in = op_find_slot(op, false, schema->inputs[schema->outputs[k].view_of].name);
        for (uint32_t i = 0; out && in && i < out->nargs && i < in->nargs; i++) {
            uint32_t shown = shown_by(f, in->args[i].var_id);
            if (shown != out->args[i].var_id) f->vars[out->args[i].var_id].alias_of = shown + 1;
        }
    }
}

/* --- telling ------------------------------------------------------------------------------------------------------ */

static const char *axes_text(const flow *f, axes a, char *out, size_t room) {
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < f->grid.naxes && n < room; i++) {
        if (!(a >> i & 1)) continue;
        const char *axis = f->grid.mesh && f->grid.mesh->names ? f->grid.mesh->names[i] : NULL;
        if (axis)
            n += (size_t)snprintf(out + n, room - n, "%smesh axis %s", n ? ", " : "", axis);
        else if (f->grid.mesh)
            n += (size_t)snprintf(out + n, room - n, "%smesh axis %d", n ? ", " : "", i);
        else
            n += (size_t)snprintf(out + n, room - n, "%sring %lld", n ? ", " : "", (long long)f->grid.rings[i]->id);
    }
    if (!n) snprintf(out, room, "all ranks");
    return out;
}

static weft_status add_op(flow *f, weft_finding *found, const weft_op *op, uint32_t index, const char *role) {
    f->places->events[0].op = op;
    f->places->events[0].op_index = index;
    TRY(finding_op(f->findings, found, f->places, 0, f->rank, role));
    ((weft_finding_op *)found->ops)[found->nops - 1].stream = "";
    return NULL;
}

static weft_status tell(flow *f, const weft_op *op, uint32_t index, const weft_var *v, axes differ) {
    weft_finding *found;
    char of_axes[256], words[256], maker[256] = "";
    const var_state *shown = &f->vars[shown_by(f, v->id)];
    if (f->vars[v->id].is_told) return NULL;
    f->vars[v->id].is_told = true;
    TRY(finding_add(f->findings, WEFT_VERDICT_MISSING_REDUCE, &found));
    if (!found) return NULL;
    TRY(add_op(f, found, op, index, "reads"));
    TRY(finding_says(f->findings, &found->value, "%s", v->name->bytes));
    finding_op_text(&found->ops[0], words, sizeof words);
    if (shown->written_by) {
        TRY(add_op(f, found, shown->written_by, shown->written_at, "writes"));
        char text_[256];
        snprintf(maker, sizeof maker, ", written last by %s,", finding_op_text(&found->ops[1], text_, sizeof text_));
    }
    TRY(finding_says(
        f->findings, &found->message,
        "%s updates state that must be equal on all ranks from \"%s\"%s which differs over %s: no collective "
        "joins it on the way",
        words, found->value, maker, axes_text(f, differ, of_axes, sizeof of_axes)));
    return finding_says(f->findings, &found->remedy, "a reduce of \"%s\" over %s before %s #%u", found->value, of_axes,
                        op->type->bytes, index);
}

static weft_status tell_guarded(flow *f, const weft_op *op, uint32_t index, axes differ) {
    weft_finding *found;
    char of_axes[256], words[256];
    TRY(finding_add(f->findings, WEFT_VERDICT_DEADLOCK, &found));
    if (!found) return NULL;
    found->ring = op_ring(op);
    TRY(add_op(f, found, op, index, "communicates"));
    return finding_says(
        f->findings, &found->message,
        "%s communicates on ring %lld under a condition that differs over %s: some of its ranks may run it "
        "and others not",
        finding_op_text(&found->ops[0], words, sizeof words), (long long)found->ring,
        axes_text(f, differ, of_axes, sizeof of_axes));
}

/* State that an optimizer writes is equal along every axis that does not shard it; so must be what it is made from. */
static weft_status check_update(flow *f, const weft_op *op, uint32_t index) {
    weft_var *param = weft_op_output(op, "ParamOut", 0);
    bool scaling = op_is(op, "update_loss_scaling");
    if (!scaling && (!op_has_effect((weft_op *)op, OP_OPTIMIZER) || !param || !param->persistable)) return NULL;
    axes may = param ? shards_of(f, param->dist) : 0;
    for (uint32_t k = 0; k < op->inputs.count; k++) {
        const slot *s = &op->inputs.slots[k];
        bool counts = scaling ? name_is(s->name, "FoundInfinite") : true;
        for (uint32_t i = 0; counts && i < s->nargs; i++) {
            axes differ = get(f, s->args[i].var_id) & ~may;
            /* State that is sharded otherwise than the parameter is its own business. */
            if (s->args[i].var->persistable) differ &= ~shards_of(f, s->args[i].var->dist);
            if (differ) TRY(tell(f, op, index, s->args[i].var, differ));
        }
    }
    axes differ = f->guard & ~may;
    return differ && param ? tell(f, op, index, param, differ) : NULL;
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
    for (uint32_t i = 0; condition && i < condition->nargs; i++) f->guard |= get(f, condition->args[i].var_id);
    TRY(sweep_block(f, f->program->blocks[body->u.i], index, depth + 1));
    f->guard = outer;
    return NULL;
}

/* Whether what ops of a type make differs as their inputs do, whatever the op. */
static uint8_t look_at_type(const weft_op *op, const op_schema *s) {
    bool plain = !(s->effects & (OP_ALIASES | OP_NO_BYTES | OP_COLLECTIVE | OP_OPTIMIZER)) && !is_feed_op(op) &&
                 !op_is(op, "c_split") && !op_is(op, "update_loss_scaling");
    for (size_t i = 0; i < s->ninputs; i++) plain &= !s->inputs[i].only_type;
    for (size_t i = 0; i < s->noutputs; i++) plain &= s->outputs[i].view_of < 0;
    return plain ? IS_PLAIN : NOT_PLAIN;
}

/* Most ops of most programs; false: not this one. */
static bool sweep_plain(flow *f, weft_op *op, uint32_t index) {
    const op_schema *s = op_schema_of(op);
    axes differs = f->guard;
    if (s && !f->plain[s->index]) f->plain[s->index] = look_at_type(op, s);
    if (!s || f->plain[s->index] != IS_PLAIN) return false;
    FOR_EACH_ARG(op, true, u) {
        if (f->vars[u->var_id].parts) return false;
    }
    FOR_EACH_ARG(op, false, u) {
        differs |= get(f, u->var_id);
    }
    FOR_EACH_ARG(op, true, u) {
        put(f, u->var_id, differs, op, index);
    }
    return true;
}

static weft_status sweep_op(flow *f, weft_op *op, uint32_t index, int depth) {
    if (f->program->nblocks > 1 && op_find_attr(op, "sub_block")) return sweep_sub_block(f, op, index, depth);
    if (sweep_plain(f, op, index)) return NULL;
    if (op_has_effect(op, OP_ALIASES)) bind_names(f, op);
    bind_views(f, op);
    if (op_has_effect(op, OP_ALIASES | OP_NO_BYTES)) return NULL;
    if (f->guard && op_communicates(op) && f->guard & axes_of_ring(f, op_ring(op)))
        TRY(tell_guarded(f, op, index, f->guard & axes_of_ring(f, op_ring(op))));
    TRY(check_update(f, op, index));
    bool updates = op_has_effect(op, OP_OPTIMIZER); /* told already: what follows is not told again */
    if (!updates && works_in_parts(f, op))
        write_parts(f, op, index);
    else if (!updates)
        write_outputs(f, op, index, made_of(f, op, inputs_of(f, op)));
    return NULL;
}

static weft_status sweep_block(flow *f, const weft_block *block, uint32_t outer, int depth) {
    uint32_t index = 0;
    FOR_EACH_OP(op, block) TRY(sweep_op(f, op, depth ? outer : index++, depth));
    return NULL;
}

static weft_status sweep(flow *f, const program_rings *rings, arena *a) {
    const weft_program *p = f->program;
    size_t n = p->nall_vars + 1;
    TRY(find_same(&f->grid, p, rings, a));
    make_grid(&f->grid, p, f->rank);
    TRY(find_axes_of_rings(f, a));
    f->vars = ARENA_ARRAY(a, var_state, n);
    f->entered = ARENA_ARRAY(a, bool, p->nblocks);
    f->plain = ARENA_ARRAY(a, uint8_t, ops_count(p->context) + 1);
    if (!f->vars || !f->entered || !f->plain) return base_out_of_memory();
    proof_schedule places;
    TRY(schedule_init(&places, p->context, a));
    TRY(schedule_event(&places, NULL, 0, 0, NULL));
    f->places = &places;
    return sweep_block(f, p->blocks[0], 0, 0);
}

weft_status check_replicas(const proof_schedule *s, const program_rings *rings, int64_t rank, int64_t nranks,
                           weft_findings *findings) {
    const weft_program *p = s->program;
    bool may_tell = s->nupdates > 0 || p->nblocks > 1; /* of an update, of a collective under a condition */
    if (nranks < 2 || !may_tell) return NULL;
    arena scratch;
    arena_init(&scratch, &p->context->allocator);
    flow f = {.program = p, .findings = findings, .rank = p->has_dist && p->rank < 0 ? -1 : rank, .nranks = nranks};
    weft_status status = sweep(&f, rings, &scratch);
    arena_fini(&scratch);
    return status;
}
