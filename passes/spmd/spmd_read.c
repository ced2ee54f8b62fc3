/* spmd_read.c: what the passes work on: the mesh, the annotated vars and ops, types of all vars, rules of all ops. */
#include "passes/spmd/spmd.h"

#include <stdio.h>

#include "base/json.h"
#include "ops/infer.h"

/* --- the mesh ----------------------------------------------------------------------------------------------------- */

/* That of the program: of several the one that divides the axes of all others; NULL: there is none. */
static const mesh *finest_mesh(const weft_program *p) {
    for (size_t i = 0; i < p->nmeshes; i++) {
        bool divides = true;
        for (size_t k = 0; k < p->nmeshes && divides; k++) divides = k == i || mesh_divides(p->meshes[i], p->meshes[k]);
        if (divides) return p->meshes[i];
    }
    return NULL;
}

static weft_status take_mesh(spmd_plan *plan, const mesh *taken) {
    spmd_mesh *m = &plan->mesh;
    if (taken->ndim > AXES_MESH)
        return weft_pass_refuse(plan->pass, "expected a mesh of at most %d axes, found %d", AXES_MESH, taken->ndim);
    *m = (spmd_mesh){.mesh = taken, .rows = plan->batch > 0 ? plan->batch : 1};
    m->axes.naxes = m->mesh->ndim;
    m->axes.uneven = m->axes.shares = true;
    for (int i = 0; i < m->mesh->ndim; i++) m->axes.extent[i] = m->mesh->shape[i];
    int64_t shown = plan->rank < 0 ? m->mesh->ids[0] : plan->rank;
    if (!mesh_coordinates(m->mesh, shown, m->at))
        return weft_pass_refuse(plan->pass, "rank %lld is not in the mesh", (long long)shown);
    TRY(spmd_written_init(m, &plan->memory));
    return spmd_paths_init(m, &plan->memory);
}

static weft_status read_mesh(spmd_plan *plan) {
    weft_program *p = plan->program;
    if (p->nmeshes == 0 && plan->is_fx) {
        mesh *made = ARENA_NEW(&plan->memory, mesh);
        if (!made) return base_out_of_memory();
        TRY(spmd_fx_mesh(plan, made));
        return take_mesh(plan, made);
    }
    if (p->nmeshes == 0 && plan->given_mesh) return take_mesh(plan, plan->given_mesh);
    if (p->nmeshes == 0)
        return weft_pass_refuse(plan->pass, "the program has no mesh: a sidecar with meshes is needed (--dist)");
    const mesh *finest = finest_mesh(p);
    if (finest) return take_mesh(plan, finest);
    return weft_pass_refuse(plan->pass,
                            "expected one mesh, or one that divides the axes of the others, found %zu: pipeline stages "
                            "are not partitioned",
                            p->nmeshes);
}

static weft_status check_serial(spmd_plan *plan) {
    char place[160];
    for (size_t b = 0; b < plan->program->nblocks; b++) {
        FOR_EACH_OP(op, plan->program->blocks[b]) {
            if (op_has_effect(op, OP_COLLECTIVE))
                return weft_pass_refuse(plan->pass, "expected a serial program, found the collective %s",
                                        op_place(op, place, sizeof place));
        }
    }
    return NULL;
}

/* --- vars --------------------------------------------------------------------------------------------------------- */

static void read_vars(spmd_plan *plan) {
    for (size_t i = 0; i < plan->nvars; i++) {
        spmd_var *v = &plan->vars[i];
        v->var = program_var(plan->program, i);
        v->whole = plan->types.kept[i];
        v->counts = v->var->block && v->var->kind == WEFT_DENSE_TENSOR && v->whole.ndim >= 0 &&
                    weft_dtype_nbytes((weft_dtype)v->whole.dtype) > 0;
        v->is_kept = v->var->persistable;
        v->is_pinned = v->var->block && v->var->block != plan->block;
    }
}

static bool says_something(const placement *p) {
    int d = 0;
    while (d < p->ndim && p->dims_mapping[d] < 0) d++;
    return d < p->ndim || p->partial_axes;
}

/* Why nothing may follow the annotation; NULL: it may. */
static const char *why_ignored(const spmd_var *v, const placement *p) {
    if (!p->mesh) return "names no mesh";
    if (v->is_pinned) return "is of a var that another block uses, which is whole";
    return v->counts ? NULL : "is of no tensor of known dimensions";
}

/* `op`: whose annotation it is; NULL: that of the var itself. */
static weft_status ignore(spmd_plan *plan, const weft_op *op, const char *var, const char *why) {
    char place[160], by[180] = "";
    if (plan->is_told) return NULL;
    if (!plan->is_strict)
        return weft_pass_left(plan->pass, op, WEFT_REASON_MESH, "var %s: the annotation %s", var, why);
    if (op) snprintf(by, sizeof by, "%s: ", op_place(op, place, sizeof place));
    return weft_pass_refuse(plan->pass, "%svar %s: the annotation %s", by, var, why);
}

/* Parameters and feeds come whole, or in parts. */
static bool comes_from_outside(const spmd_var *v) {
    bool is_made = false;
    FOR_EACH_USE(u, v->var) is_made |= u->is_output;
    return v->is_kept || !is_made;
}

/* Takes what was annotated. A dimension of which some ranks would get nothing is told and left whole, but for an input
 * of a graph: its caller gives the parts that the graph says. */
static weft_status annotate(spmd_plan *plan, spmd_var *v, const weft_op *op, const placement *p, bool fixes) {
    const char *why = p ? why_ignored(v, p) : NULL;
    if (why) return says_something(p) ? ignore(plan, op, v->var->name->bytes, why) : NULL;
    if (!p || v->is_fixed) return NULL;
    if (p->partial_axes && comes_from_outside(v))
        TRY(ignore(plan, op, v->var->name->bytes,
                   "is partial: what comes from outside is no sum, so that it is whole"));
    char words[160];
    axes_placed want = placed_of(&plan->mesh, p);
    if (p->ndim != v->whole.ndim && plan->is_told) return NULL;
    if (p->ndim != v->whole.ndim && p->ndim == (int)v->var->ndim)
        return weft_pass_left(plan->pass, NULL, WEFT_REASON_SHAPE,
                              "var %s: annotated as declared, with %d dimensions, but what is written to it has %d",
                              v->var->name->bytes, p->ndim, v->whole.ndim);
    if (p->ndim != v->whole.ndim)
        return weft_pass_refuse(plan->pass, "var %s: expected a placement of %d dimensions, found %d",
                                v->var->name->bytes, v->whole.ndim, p->ndim);
    bool keeps = plan->is_fx && fixes && v->is_kept;
    for (int d = 0; d < v->whole.ndim; d++) {
        int fit = placed_fitting(&plan->mesh, &want, d, v->whole.dims[d]);
        if (fit == want.naxes[d]) continue;
        if (!plan->is_told)
            TRY(weft_pass_left(
                plan->pass, NULL, WEFT_REASON_SHAPE,
                "var %s: annotated %s, but dimension %d of extent %lld leaves some of %lld ranks without "
                "elements: it is %s",
                v->var->name->bytes, placed_text(&plan->mesh, &want, v->whole.ndim, words, sizeof words), d,
                (long long)v->whole.dims[d], (long long)spmd_extent(&plan->mesh, placed_dim_axes(&want, d)),
                keeps ? "gathered"
                : fit ? "sharded by fewer of these axes"
                      : "whole"));
        if (keeps) continue;
        want.naxes[d] = (uint8_t)fit;
        fixes = false;
    }
    for (int d = 0; d < v->whole.ndim; d++) {
        bool is_free = !v->want.naxes[d];
        for (int i = 0; i < want.naxes[d] && is_free; i++)
            if (placed_dim_of(&v->want, v->whole.ndim, want.axes[d][i]) < 0) placed_shard(&v->want, d, want.axes[d][i]);
    }
    if (fixes && !v->is_kept) memcpy(v->want.partial, want.partial, sizeof v->want.partial);
    v->is_fixed = fixes;
    return NULL;
}

/* The member "priority" of its entry in the sidecar. */
static weft_status read_priority(spmd_plan *plan, spmd_var *v) {
    const char *json = v->var->rest->dist_extra_json;
    json_t *entry = NULL;
    if (!v->var->dist || !json || !strstr(json, "\"priority\"")) return NULL;
    TRY(json_read(plan->program->context, json, strlen(json), v->var->name->bytes, &entry));
    const json_t *value = json_object_get(entry, "priority");
    json_int_t priority = json_integer_value(value);
    bool fits = !value || (json_is_integer(value) && priority >= 0 && priority <= UINT8_MAX);
    if (fits) v->priority = (uint8_t)priority;
    json_decref(entry);
    if (fits) return NULL;
    return weft_pass_refuse(plan->pass, "var %s: expected a priority from 0 to %d", v->var->name->bytes, UINT8_MAX);
}

static weft_var *arg_of(const weft_op *op, bool output, const name *wanted) {
    FOR_EACH_ARG(op, output, u)
    if (use_var(op->program, u)->name == wanted) return use_var(op->program, u);
    return NULL;
}

static weft_status read_annotations(spmd_plan *plan) {
    for (size_t i = 0; i < plan->nvars; i++) TRY(annotate(plan, &plan->vars[i], NULL, plan->vars[i].var->dist, true));
    FOR_EACH_OP(op, plan->block) {
        const op_dist_rest *rest = op->dist ? op_dist_rest_of(op->dist) : NULL;
        for (int side = 0; rest && side < 2; side++) {
            size_t n = side ? rest->noutputs : rest->ninputs;
            for (size_t k = 0; k < n; k++) {
                const op_placement *one = side ? &rest->outputs[k] : &rest->inputs[k];
                const weft_var *v = arg_of(op, side, one->var);
                if (v)
                    TRY(annotate(plan, &plan->vars[v->id], op, one->placement, side));
                else
                    TRY(ignore(plan, op, one->var->bytes, "is of no argument of the op"));
            }
        }
    }
    return NULL;
}

weft_status spmd_use_mesh(spmd_plan *plan, const mesh *m) {
    TRY(take_mesh(plan, m));
    for (size_t i = 0; i < plan->nvars; i++) {
        plan->vars[i].want = (axes_placed){.naxes = {0}};
        plan->vars[i].is_fixed = false;
        memset(plan->vars[i].origin, 0, sizeof plan->vars[i].origin);
    }
    plan->is_told = true;
    return read_annotations(plan);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

static void count_readers(spmd_plan *plan) {
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        bool takes_sums = plan->partial_outputs && op_is(op->op, "fetch");
        for (size_t i = 0; i < op->kind->rule.nin; i++) {
            spmd_var *v = op->in[i];
            if (!v || !op->kind->reads[i]) continue;
            v->nreaders++;
            v->ngiven += takes_sums || op->kind->passes_sums[i];
        }
    }
}

/* What is read before any op of the block writes it is kept between steps, or fed. */
static void find_given(spmd_plan *plan, bool *written) {
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        bool feeds = op_is(op->op, "feed");
        FOR_EACH_ARG(op->op, feeds, u)
        if (!written[u->var_id]) plan->vars[u->var_id].is_kept = true;
        FOR_EACH_ARG(op->op, true, u) written[u->var_id] = true;
    }
    for (size_t b = 0; b < plan->program->nblocks; b++) {
        if (plan->program->blocks[b] == plan->block) continue;
        FOR_EACH_OP(op, plan->program->blocks[b])
        for (int side = 0; side < 2; side++) FOR_EACH_ARG(op, side, u) plan->vars[u->var_id].is_pinned = true;
    }
}

static weft_status read_ops(spmd_plan *plan) {
    plan->ops = ARENA_ARRAY(&plan->memory, spmd_op, plan->block->nops + 1);
    bool *written = ARENA_ARRAY(&plan->memory, bool, plan->nvars + 1);
    if (!plan->ops || !written) return base_out_of_memory();
    FOR_EACH_OP(op, plan->block) {
        op->mark = (uint32_t)plan->nops;
        TRY(spmd_read_op(plan, op, &plan->ops[plan->nops++]));
    }
    size_t nin = 0, nout = 0;
    for (size_t k = 0; k < plan->nops; k++) {
        if (plan->ops[k].kind->rule.nin > nin) nin = plan->ops[k].kind->rule.nin;
        if (plan->ops[k].kind->rule.nout > nout) nout = plan->ops[k].kind->rule.nout;
    }
    spmd_choice *const rooms[] = {&plan->tried, &plan->chosen};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        rooms[i]->in = ARENA_ARRAY(&plan->memory, axes_placed, nin + 1);
        rooms[i]->out = ARENA_ARRAY(&plan->memory, axes_placed, nout + 1);
        if (!rooms[i]->in || !rooms[i]->out) return base_out_of_memory();
    }
    find_given(plan, written);
    count_readers(plan);
    return NULL;
}

weft_status spmd_read(spmd_plan *plan) {
    plan->block = plan->program->blocks[0];
    plan->is_fx = plan->program->fx_json != NULL;
    arena_init(&plan->memory, &plan->program->context->allocator);
    arena_init(&plan->decided, &plan->program->context->allocator);
    arena_init(&plan->walked, &plan->program->context->allocator);
    TRY(read_mesh(plan));
    TRY(check_serial(plan));
    plan->nvars = plan->program->nall_vars;
    TRY(shape_env_init(&plan->types, plan->program, &plan->memory));
    TRY(shape_infer_block(&plan->types, plan->block, &plan->memory));
    plan->vars = ARENA_ARRAY(&plan->memory, spmd_var, plan->nvars + 1);
    if (!plan->vars) return base_out_of_memory();
    read_vars(plan);
    TRY(spmd_kinds_init(plan));
    TRY(read_ops(plan));
    for (size_t i = 0; i < plan->nvars; i++) TRY(read_priority(plan, &plan->vars[i]));
    TRY(read_annotations(plan));
    return plan->is_fx ? spmd_fx_read(plan) : NULL;
}

void spmd_plan_fini(spmd_plan *plan) {
    arena_fini(&plan->memory);
    arena_fini(&plan->decided);
    arena_fini(&plan->walked);
}
