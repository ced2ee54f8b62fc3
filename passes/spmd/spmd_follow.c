/* spmd_follow.c: placements of all vars from those of some, through the factors of ops, until nothing changes.
 *
 * A dimension follows another of the same factor, from inputs to outputs and back. Ops that treat each element for
 * itself come first, since nothing is lost there; the others when those are done. What is there stays: the first
 * placement that reaches a dimension wins, and the user's before all. Annotations of priority 0 spread until nothing
 * changes, then those of 1, and so on. Whether ops can have what is wanted is not asked
 * here: spmd_choose.c does, with the price of each side. */
#include "passes/spmd/spmd.h"

#include <stdio.h>

#include "base/json.h"

int spmd_lead(const axes_rule *r, const axes_arg *x, int d) {
    for (int k = 0; k < x->dims[d].nfactors; k++)
        if (r->factors[x->dims[d].factors[k]].size != 1) return x->dims[d].factors[k];
    return -1;
}

void spmd_place_dim(const axes_rule *r, const axes_mesh *on, const axes_arg *x, int d, const int *chosen,
                    const uint8_t *order, axes_placed *need) {
    for (int k = 0; k < x->dims[d].nfactors; k++) {
        int64_t left = r->factors[x->dims[d].factors[k]].size;
        for (int i = 0; i < on->naxes; i++) {
            if (chosen[order[i]] != x->dims[d].factors[k]) continue;
            placed_shard(need, d, order[i]);
            left = left < 0 ? left : left / on->extent[order[i]];
        }
        if (left != 1) return;
    }
}

/* The mesh axes that shard a factor, major first. */
typedef struct claim {
    uint8_t count, axes[AXES_MESH];
    uint32_t var[AXES_MESH]; /* whose placement says so */
} claim;

typedef struct follower {
    spmd_plan *plan;
    claim *claims; /* by factor */
    size_t nclaims;
    bool *is_due; /* by op: a placement of one of its vars has changed since it was looked at */
    uint64_t nchanges;
    int round; /* the priority of the annotations that spread now */
} follower;

/* Whose placements an op follows first: annotations; what followed from them; annotations whose round it is, where
 * others came before. */
enum { TURN_FIXED, TURN_FOUND, TURN_NEW, NTURNS };

static int turn_of(const follower *f, const spmd_var *v) {
    if (!v->is_fixed) return TURN_FOUND;
    if (v->priority > f->round) return NTURNS;
    return f->round && v->priority == f->round ? TURN_NEW : TURN_FIXED;
}

/* A longer list of a factor goes on where the shorter one ends; of others the first counts. */
static void claim_dim(follower *f, const spmd_op *op, const axes_arg *x, int d, const spmd_var *v) {
    uint16_t factors[AXES_MESH];
    uint8_t at[AXES_MESH]; /* which axis of its factor */
    int n = axes_factors(&op->kind->rule, &f->plan->mesh.axes, x, d, &v->want, factors);
    for (int i = 0; i < n; i++) {
        claim *c = &f->claims[factors[i]];
        at[i] = i && factors[i] == factors[i - 1] ? (uint8_t)(at[i - 1] + 1) : 0;
        if (op->kind->rule.factors[factors[i]].why) return;
        if (at[i] < c->count && c->axes[at[i]] != v->want.axes[d][i]) return;
        if (at[i] < c->count) continue;
        c->axes[at[i]] = v->want.axes[d][i];
        c->var[at[i]] = v->var->id;
        c->count = (uint8_t)(at[i] + 1);
    }
}

static void claim_factors(follower *f, const spmd_op *op, const axes_arg *x, const spmd_var *v, int turn) {
    if (!v || x->any || v->whole.ndim != x->ndim || turn_of(f, v) != turn) return;
    for (int d = 0; d < x->ndim; d++)
        if (v->want.naxes[d]) claim_dim(f, op, x, d, v);
}

static void call_for(follower *f, const weft_var *v) {
    FOR_EACH_USE(u, v) {
        const weft_op *op = use_op(v->program, u);
        if (op->block == f->plan->block) f->is_due[op->mark] = true;
    }
}

/* Whether the factor may be cut by the first `n` axes of its claim in a dimension of that extent. Factors before it
 * make `before` parts of that. Parts may differ where the factor is the dimension. */
static bool may_cut(const follower *f, const claim *c, int n, int64_t size, int64_t extent, int64_t before) {
    axes_cuts cuts = axes_cut(&f->plan->mesh.axes, size, c->axes, n);
    if (cuts == AXES_CUT_UNEVEN) return size == extent;
    int64_t parts = before;
    for (int i = 0; i < n; i++) parts *= f->plan->mesh.axes.extent[c->axes[i]];
    return cuts == AXES_CUT_EVEN && (extent < 0 || extent % parts == 0 || size == extent);
}

/* The claims of the dimension's factors, one after another as long as each is used up, where they go on from what the
 * dimension has. */
static void give_dim(follower *f, size_t number, const axes_arg *x, int d, spmd_var *v) {
    const axes_rule *r = &f->plan->ops[number].kind->rule;
    int64_t parts = 1;
    int at = 0;
    for (int k = 0; k < x->dims[d].nfactors; k++) {
        const claim *c = &f->claims[x->dims[d].factors[k]];
        int64_t left = r->factors[x->dims[d].factors[k]].size, before = parts, size = left;
        for (int i = 0; i < c->count; i++, at++) {
            int axis = c->axes[i];
            if (at < v->want.naxes[d] && v->want.axes[d][at] != axis) return;
            if (!may_cut(f, c, i + 1, size, v->whole.dims[d], before)) return;
            parts *= f->plan->mesh.axes.extent[axis];
            left = left < 0 ? left : left / f->plan->mesh.axes.extent[axis];
            if (at < v->want.naxes[d]) continue;
            if (placed_dim_of(&v->want, v->whole.ndim, axis) >= 0) return;
            placed_shard(&v->want, d, axis);
            v->origin[axis] = (spmd_origin){(uint32_t)(1 + number), c->var[i]};
            f->nchanges++;
            call_for(f, v->var);
        }
        if (left != 1) return;
    }
}

static void give(follower *f, size_t number, const axes_arg *x, spmd_var *v) {
    if (!v || x->any || v->whole.ndim != x->ndim || v->is_fixed || v->is_pinned) return;
    for (int d = 0; d < x->ndim; d++) {
        const axes_dim *dim = &x->dims[d];
        bool has_all = dim->nfactors == 1 && f->claims[dim->factors[0]].count <= v->want.naxes[d];
        if (!has_all) give_dim(f, number, x, d, v);
    }
}

static void follow_op(follower *f, size_t number) {
    const spmd_op *op = &f->plan->ops[number];
    const axes_rule *r = &op->kind->rule;
    f->is_due[number] = false;
    if (op->kind->why_whole || !r->nfactors || r->nfactors > f->nclaims) return;
    memset(f->claims, 0, r->nfactors * sizeof *f->claims);
    for (int turn = 0; turn <= (f->round ? TURN_NEW : TURN_FOUND); turn++) {
        for (size_t i = 0; i < r->nin; i++) claim_factors(f, op, &r->in[i], op->in[i], turn);
        for (size_t o = 0; o < r->nout; o++) claim_factors(f, op, &r->out[o], op->out[o], turn);
    }
    for (size_t i = 0; i < r->nin; i++) give(f, number, &r->in[i], op->in[i]);
    for (size_t o = 0; o < r->nout; o++) give(f, number, &r->out[o], op->out[o]);
}

/* One way through the program and back. */
static bool sweep(follower *f, bool all) {
    uint64_t before = f->nchanges;
    for (size_t k = 0; k < f->plan->nops; k++)
        if (f->is_due[k] && (all || f->plan->ops[k].kind->passes)) follow_op(f, k);
    for (size_t k = f->plan->nops; k-- > 0;)
        if (f->is_due[k] && (all || f->plan->ops[k].kind->passes)) follow_op(f, k);
    return f->nchanges != before;
}

/* Accumulators lie as their parameters, under every policy. */
static void follow_state(follower *f) {
    for (size_t k = 0; k < f->plan->nops; k++)
        if (op_has_effect(f->plan->ops[k].op, OP_OPTIMIZER)) follow_op(f, k);
}

static void follow_round(follower *f) {
    if (f->plan->policy.spread == SPREAD_NONE) {
        follow_state(f);
        return;
    }
    do /* every change settles a dimension: it ends */
        while (sweep(f, false)) {
        }
    while (f->plan->policy.spread == SPREAD_ALL && sweep(f, true));
}

/* The next priority that an annotation has, whose vars are looked at again; false: that was the last. */
static bool next_round(follower *f) {
    int next = UINT8_MAX + 1;
    for (size_t i = 0; i < f->plan->nvars; i++) {
        const spmd_var *v = &f->plan->vars[i];
        if (v->is_fixed && v->priority > f->round && v->priority < next) next = v->priority;
    }
    if (next > UINT8_MAX) return false;
    f->round = next;
    for (size_t i = 0; i < f->plan->nvars; i++)
        if (f->plan->vars[i].is_fixed && f->plan->vars[i].priority == next) call_for(f, f->plan->vars[i].var);
    return true;
}

weft_status spmd_follow(spmd_plan *plan) {
    follower f = {.plan = plan};
    for (size_t k = 0; k < plan->nops; k++)
        if (plan->ops[k].kind->rule.nfactors > f.nclaims) f.nclaims = plan->ops[k].kind->rule.nfactors;
    f.claims = ARENA_ARRAY(&plan->memory, claim, f.nclaims + 1);
    f.is_due = ARENA_ARRAY(&plan->memory, bool, plan->nops + 1);
    if (!f.claims || !f.is_due) return base_out_of_memory();
    memset(f.is_due, true, plan->nops);
    do follow_round(&f);
    while (next_round(&f));
    return NULL;
}

/* --- what is written ---------------------------------------------------------------------------------------------- */

typedef struct origin_writer {
    spmd_plan *plan;
    const spmd_told *told;
    const char *axes[AXES_MESH]; /* the beginning of each one's member: ,"mp":{"op": */
    buffer json;                 /* of the var at hand */
} origin_writer;

static weft_status name_axes(origin_writer *w) {
    char axis[40];
    buffer *b = &w->json;
    for (int a = 0; a < w->plan->mesh.axes.naxes; a++) {
        const char *const *names = w->plan->mesh.mesh->names;
        if (!names) snprintf(axis, sizeof axis, "%d", a);
        const char *named = names ? names[a] : axis;
        b->nbytes = 0;
        buffer_text(b, ",");
        json_put_string(b, named, strlen(named));
        buffer_text(b, ":{\"op\":");
        TRY(buffer_status(b));
        if (!(w->axes[a] = arena_string(w->plan->scratch, b->bytes, b->nbytes))) return base_out_of_memory();
    }
    return NULL;
}

static void put_source(const spmd_plan *plan, const spmd_origin *from, buffer *json) {
    const weft_op *by = plan->ops[from->op - 1].op;
    const name *var = program_var(plan->program, from->var)->name;
    json_put_string(json, by->type->bytes, by->type->nbytes);
    json->nbytes--; /* the number goes inside the quotes */
    buffer_text(json, " #");
    buffer_integer(json, from->op - 1);
    buffer_text(json, "\",\"var\":");
    json_put_string(json, var->bytes, var->nbytes);
    buffer_text(json, "}");
}

/* Axes that came the same way have the same source. */
static void put_origins(origin_writer *w, const spmd_var *v) {
    const spmd_origin *last = NULL;
    size_t at = 0, nbytes = 0;
    for (int a = 0; a < w->plan->mesh.axes.naxes; a++) {
        const spmd_origin *from = &v->origin[a];
        if (!from->op || placed_dim_of(&v->want, v->whole.ndim, a) < 0) continue;
        if (!last) buffer_text(&w->json, "{\"placed_by\":{");
        buffer_text(&w->json, w->axes[a] + !last);
        if (last && last->op == from->op && last->var == from->var) {
            buffer_repeat(&w->json, at, nbytes);
            continue;
        }
        at = w->json.nbytes;
        put_source(w->plan, from, &w->json);
        nbytes = w->json.nbytes - at;
        last = from;
    }
    if (last) buffer_text(&w->json, "}");
}

/* The members "placed_by" and "conflicts" of the sidecar's entry. */
static weft_status write_origin(origin_writer *w, const spmd_var *v) {
    buffer *json = &w->json;
    json->nbytes = 0;
    put_origins(w, v);
    spmd_conflicts_put(w->plan, w->told, v, json->nbytes ? ",\"conflicts\":[" : "{\"conflicts\":[", json);
    if (!json->nbytes || v->var->rest->dist_extra_json) return NULL;
    buffer_text(json, "}");
    TRY(buffer_status(json));
    weft_program *p = w->plan->program;
    var_rest *rest;
    TRY(var_rest_get(p, v->var, &rest));
    rest->dist_extra_json = arena_string(&p->arena, json->bytes, json->nbytes);
    return rest->dist_extra_json ? NULL : base_out_of_memory();
}

weft_status spmd_write_origins(spmd_plan *plan) {
    origin_writer w = {.plan = plan};
    spmd_told *told;
    TRY(spmd_conflicts_by_var(plan, &told));
    w.told = told;
    buffer_init(&w.json, &plan->program->context->allocator);
    weft_status status = name_axes(&w);
    for (size_t i = 0; i < plan->nvars && !status; i++)
        if (plan->vars[i].counts && plan->vars[i].var->block == plan->block) status = write_origin(&w, &plan->vars[i]);
    buffer_fini(&w.json);
    return status;
}

weft_status spmd_write_wanted(spmd_plan *plan) {
    TRY(program_divide_meshes(plan->program, plan->mesh.mesh, &plan->mesh.mesh));
    for (size_t i = 0; i < plan->nvars; i++) {
        const spmd_var *v = &plan->vars[i];
        if (v->counts && v->var->block == plan->block)
            TRY(placed_declare(&plan->mesh, &v->want, &v->whole, v->whole.dims, v->var));
    }
    plan->program->has_dist = true;
    return NULL;
}
