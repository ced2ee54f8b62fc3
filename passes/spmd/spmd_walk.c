/* spmd_walk.c: the program op by op: which versions of each value there are, and which steps make those that an op
 * needs. The same walk decides, and then edits; a version is made once, for all its readers. */
#include "passes/spmd/spmd.h"

typedef struct walk {
    spmd_plan *plan;
    spmd_state *states; /* by var id */
    bool edits;
    spmd_emitter emit;
} walk;

/* `placed` outlives the walk. */
static weft_status add_version(walk *w, spmd_state *s, const axes_placed *placed, weft_var *var) {
    spmd_version *made = ARENA_NEW(&w->plan->walked, spmd_version), **end = &s->versions;
    if (!made) return base_out_of_memory();
    *made = (spmd_version){.placed = placed, .var = var};
    while (*end) end = &(*end)->next;
    *end = made;
    return NULL;
}

static weft_status begin(walk *w) {
    arena_reset(&w->plan->walked);
    w->states = ARENA_ARRAY(&w->plan->walked, spmd_state, w->plan->nvars + 1);
    if (!w->states) return base_out_of_memory();
    for (size_t i = 0; i < w->plan->nvars; i++) {
        const spmd_var *v = &w->plan->vars[i];
        spmd_state *s = &w->states[i];
        if (!v->counts || (!v->is_kept && !v->is_pinned)) continue;
        s->home = &v->want;
        TRY(add_version(w, s, s->home, v->var));
    }
    return NULL;
}

/* `axes`: along which attrs say where a rank stands. */
static void tell_apart(spmd_apart *to, uint32_t axes, const char *why) {
    to->differs = why;
    to->placed |= axes;
}

/* Parts of one axis are as long as one another but for the last. */
static void note_arg(const walk *w, const spmd_var *v, const axes_placed *p, spmd_apart *to) {
    for (int d = 0; v && d < v->whole.ndim; d++) {
        uint32_t axes = placed_dim_axes(p, d);
        if (v->whole.dims[d] < 0 || v->whole.dims[d] % spmd_extent(&w->plan->mesh, axes) == 0) continue;
        to->differs = "parts are of different extents";
        bool fills = placed_fitting(&w->plan->mesh, p, d, v->whole.dims[d]) == p->naxes[d];
        *(p->naxes[d] == 1 && fills ? &to->ended : &to->told) |= axes;
    }
}

/* An open extent is split, and the rank has its own part of that: by another var than others. */
static bool takes_output(const spmd_var *v, const spmd_step *step) {
    return step->kind == STEP_SLICE && v->whole.dims[step->dim] < 0;
}

/* The axes along which attrs of the ops of a path say where a rank stands. */
static uint32_t placed_axes(const spmd_var *v, const spmd_path *path) {
    uint32_t axes = 0;
    for (int i = 0; i < path->count; i++) {
        const spmd_step *step = &path->steps[i];
        bool tells = step->kind == STEP_SLICE || step->kind == STEP_PAD || step->kind == STEP_PERMUTE ||
                     (step->kind == STEP_ALL_GATHER && step->dim > 0);
        if (tells && !takes_output(v, step)) axes |= step->axes;
    }
    return axes;
}

/* Which ranks' programs are equal depends on what steps there are. */
static void note_path(walk *w, const spmd_var *v, const spmd_path *path) {
    spmd_apart *to = &w->plan->apart;
    int64_t all = mesh_size(w->plan->mesh.mesh);
    for (int i = 0; i < path->count; i++) {
        const spmd_step *step = &path->steps[i];
        note_arg(w, v, &step->made, to);
        if (takes_output(v, step)) {
            tell_apart(to, 0, "each keeps its own part of an open extent");
            to->told |= step->axes;
        }
        if (step->sent > 0 && spmd_extent(&w->plan->mesh, step->axes) != all)
            tell_apart(to, 0, "they are on different rings");
    }
    if (placed_axes(v, path)) tell_apart(to, placed_axes(v, path), "each states which part is its own");
}

/* `reader`: the type of the op that it is made for; NULL: several, or none yet. */
static weft_status follow_path(walk *w, const spmd_var *v, weft_var *from, const spmd_path *path, const char *reader,
                               weft_var *into, weft_var **out) {
    note_path(w, v, path);
    *out = into;
    if (!w->edits) return w->plan->sent += path->sent, w->plan->nopen += path->nopen, NULL;
    for (int i = 0; i < path->count; i++) TRY(spmd_note_step(w->plan, v, &path->steps[i], reader));
    uint32_t axes = w->emit.places ? placed_axes(v, path) : 0;
    if (axes) TRY(spmd_places_begin(w->emit.places, axes, v, from, path, into));
    weft_status status = spmd_emit_path(&w->emit, v, from, path, into, out);
    if (axes) spmd_places_end(w->emit.places);
    return status;
}

/* --- inputs ------------------------------------------------------------------------------------------------------- */

/* An op that nothing is known of gets what is sharded whole: told, or refused. */
static weft_status note_whole(walk *w, const spmd_op *op, const spmd_var *v, const spmd_path *path) {
    char place[160];
    if (!op->kind->why_whole || path->sent <= 0) return NULL;
    if (w->plan->is_strict)
        return weft_pass_refuse(w->plan->pass, "%s needs the whole of var %s, which is sharded: %s",
                                op_place(op->op, place, sizeof place), v->var->name->bytes, op->kind->why_whole);
    if (!w->edits) return NULL;
    return weft_pass_left(w->plan->pass, op->op, WEFT_REASON_MESH, "var %s is gathered for it: %s", v->var->name->bytes,
                          op->kind->why_whole);
}

static weft_status bring_input(walk *w, spmd_op *op, size_t i) {
    const spmd_var *v = op->in[i];
    spmd_path path;
    if (!v || op->kind->rule.in[i].any) return NULL;
    spmd_state *s = &w->states[v->var->id];
    const axes_placed *need = &op->choice->in[i];
    spmd_version *from = spmd_nearest(w->plan, v, s, need, &path);
    if (!from)
        return weft_pass_refuse(w->plan->pass, "%s reads %s, which it cannot have in one piece", op->op->type->bytes,
                                v->var->name->bytes);
    weft_var *found = from->var;
    TRY(note_whole(w, op, v, &path));
    if (path.count) {
        w->emit.before = op->op;
        TRY(follow_path(w, v, from->var, &path, op->op->type->bytes, NULL, &found));
        TRY(add_version(w, s, need, found));
    }
    if (w->edits) spmd_set_arg(op, i, found);
    return NULL;
}

/* --- outputs ------------------------------------------------------------------------------------------------------ */

static weft_status scale_means(walk *w, const spmd_op *op, size_t o, weft_var *var) {
    const spmd_mesh *m = &w->plan->mesh;
    double times = (double)spmd_extent(m, op->choice->out[o].times);
    double share = op->kind->why_whole ? 1 : axes_share(&op->kind->rule, &m->axes, op->choice->in, o, m->at);
    return (times > 1 || share < 1) && w->edits ? spmd_emit_scale(&w->emit, var, var, share / times) : NULL;
}

static weft_status keep_placed(walk *w, const axes_placed *p, const axes_placed **out) {
    *out = arena_copy(&w->plan->walked, p, sizeof *p);
    return *out ? NULL : base_out_of_memory();
}

static weft_status refuse_path(const walk *w, const spmd_var *v, const axes_placed *made, const axes_placed *to) {
    char lies[160], wanted[160];
    return weft_pass_refuse(w->plan->pass, "var %s, which lies %s, does not get to %s", v->var->name->bytes,
                            placed_text(&w->plan->mesh, made, v->whole.ndim, lies, sizeof lies),
                            placed_text(&w->plan->mesh, to, v->whole.ndim, wanted, sizeof wanted));
}

/* What an op writes in place, and shows under another name, is the bytes that it reads: where these are brought in
 * another var than it writes, they go there first. */
static weft_status write_in_place(walk *w, spmd_op *op, const spmd_var *v, weft_var *target) {
    if (!w->edits || !op_has_effect(op->op, OP_VIEWS)) return NULL;
    for (size_t i = 0; i < op->kind->rule.nin; i++) {
        weft_var *brought = use_var(w->plan->program, &op->op->args[op->at[i]]);
        if (op->in[i] != v || brought == target) continue;
        w->emit.before = op->op;
        TRY(spmd_emit_copy(&w->emit, brought, target));
        spmd_set_arg(op, i, target);
        w->emit.before = op->op->next;
    }
    return NULL;
}

/* The op writes the var itself. */
static weft_status leave_own(walk *w, spmd_op *op, const spmd_var *v, size_t o) {
    const spmd_mesh *m = &w->plan->mesh;
    const axes_placed *made = &op->choice->out[o];
    spmd_state *s = &w->states[v->var->id];
    axes_placed to = spmd_settled(w->plan, op, v, made);
    const axes_placed *kept;
    spmd_path path;
    weft_var *found;
    TRY(write_in_place(w, op, v, v->var));
    TRY(scale_means(w, op, o, v->var));
    if (placed_same(made, &to, v->whole.ndim, m->axes.naxes)) return add_version(w, s, made, v->var);
    if (!spmd_find_path(m, &v->whole, made, &to, &path)) return refuse_path(w, v, made, &to);
    bool in_place = !w->plan->is_fx && placed_same_dims(made, &to, v->whole.ndim) && path.count == 1;
    if (!in_place) TRY(add_version(w, s, made, v->var));
    TRY(follow_path(w, v, v->var, &path, NULL, in_place ? v->var : NULL, &found));
    TRY(keep_placed(w, &to, &kept));
    return add_version(w, s, kept, found);
}

/* The op writes another var, from which the var gets what it is to have. */
static weft_status leave_other(walk *w, spmd_op *op, const spmd_var *v, size_t o) {
    const axes_placed *made = &op->choice->out[o];
    spmd_state *s = &w->states[v->var->id];
    spmd_path path;
    weft_var *other = NULL, *found;
    if (!spmd_find_path(&w->plan->mesh, &v->whole, made, s->home, &path))
        return weft_pass_refuse(w->plan->pass, "var %s does not get to where it is kept", v->var->name->bytes);
    if (w->edits) {
        TRY(spmd_new_var(w->plan, v, made, &other));
        spmd_set_arg(op, op->kind->rule.nin + o, other);
        TRY(write_in_place(w, op, v, other));
        TRY(scale_means(w, op, o, other));
    }
    TRY(follow_path(w, v, other, &path, NULL, v->var, &found));
    TRY(add_version(w, s, s->home, v->var));
    return add_version(w, s, made, other);
}

/* Where what is made first lies, when it is summed up. */
static weft_status settle_home(walk *w, const axes_placed *made, spmd_state *s) {
    axes_placed whole = placed_whole_sums(made);
    s->home = made;
    return placed_is_partial(made, w->plan->mesh.axes.naxes) ? keep_placed(w, &whole, &s->home) : NULL;
}

static weft_status leave_output(walk *w, spmd_op *op, size_t o) {
    const spmd_var *v = op->out[o];
    if (!v) return NULL;
    spmd_state *s = &w->states[v->var->id];
    const axes_placed *made = &op->choice->out[o];
    s->versions = NULL;
    if (!s->home) TRY(settle_home(w, made, s));
    w->emit.before = op->op->next;
    bool feeds = op_is(op->op, "feed");
    if (feeds || placed_same_dims(made, s->home, v->whole.ndim)) return leave_own(w, op, v, o);
    return leave_other(w, op, v, o);
}

/* --- ops ---------------------------------------------------------------------------------------------------------- */

/* Whether the op's attrs are those of its part, by its rule. */
static bool is_localized(const spmd_op *op) {
    return !op->kind->why_whole && !(op->choice->is_special && op->kind->form != FORM_SHARES);
}

/* The axes along which the op itself says where a rank stands. */
static uint32_t op_axes(const walk *w, const spmd_op *op) {
    uint32_t axes = spmd_form_axes(op), own;
    const axes_rule *r = &op->kind->rule;
    for (size_t i = 0; i < r->nchanges && is_localized(op); i++) {
        if (r->changes[i].kind != AXES_OFFSET) continue;
        (void)axes_offset(r, &w->plan->mesh.axes, op->choice->in, r->changes[i].factor, w->plan->mesh.at, &own);
        axes |= own;
    }
    return axes;
}

static void find_apart(const walk *w, const spmd_op *op, spmd_apart *to) {
    const spmd_kind *kind = op->kind;
    for (size_t i = 0; i < kind->rule.nin; i++) note_arg(w, op->in[i], &op->choice->in[i], to);
    for (size_t o = 0; o < kind->rule.nout; o++) note_arg(w, op->out[o], &op->choice->out[o], to);
    uint32_t batch = spmd_form_ring(op), axes = op_axes(w, op);
    if (batch && spmd_extent(&w->plan->mesh, batch) != mesh_size(w->plan->mesh.mesh))
        tell_apart(to, 0, "they are on different rings");
    if (axes) tell_apart(to, axes, "each has another part of classes or rows");
}

/* Of ops that are decided alike it is found once. */
static void note_op(walk *w, const spmd_op *op) {
    spmd_choice *c = op->choice;
    spmd_apart *to = &w->plan->apart;
    if (!c->is_noted) find_apart(w, op, &c->apart);
    c->is_noted = true;
    if (c->apart.differs) to->differs = c->apart.differs;
    to->told |= c->apart.told;
    to->ended |= c->apart.ended;
    to->placed |= c->apart.placed;
}

static weft_status walk_op(walk *w, spmd_op *op) {
    w->emit.role = op_role(op->op);
    if (!w->edits) {
        TRY(spmd_choose(w->plan, w->states, op));
        note_op(w, op);
        w->plan->sent += op->choice->sent;
    } else if (op->choice->is_special)
        TRY(spmd_take_form(&w->emit, op));
    for (size_t i = 0; i < op->kind->rule.nin; i++) TRY(bring_input(w, op, i));
    if (w->edits && is_localized(op))
        TRY(axes_localize(&op->kind->rule, &w->plan->mesh.axes, op->choice->in, op->choice->out, w->plan->mesh.at,
                          op->op));
    uint32_t axes = w->emit.places ? op_axes(w, op) : 0;
    if (axes) TRY(spmd_places_add_op(w->emit.places, axes, op));
    for (size_t o = 0; o < op->kind->rule.nout; o++) TRY(leave_output(w, op, o));
    if (w->edits) TRY(spmd_form_fit(&w->emit, op));
    if (w->edits && op->kind->is_own && op->choice->in[0].naxes[0])
        TRY(weft_pass_count_add(w->plan->pass, "normalised by a rank's own rows", 1));
    if (w->edits) op->op->dist = NULL; /* it spoke of the serial program */
    return NULL;
}

static bool is_below(const spmd_plan *plan, int64_t nopen, double sent) {
    return plan->nopen < nopen || (plan->nopen == nopen && plan->sent < sent);
}

/* Both sums only grow from op to op. */
weft_status spmd_decide_below(spmd_plan *plan, int64_t nopen, double sent, bool *out_below) {
    walk w = {.plan = plan};
    plan->sent = 0;
    plan->nopen = 0;
    plan->apart = (spmd_apart){0};
    TRY(spmd_known_begin(plan));
    TRY(begin(&w));
    for (size_t k = 0; k < plan->nops && is_below(plan, nopen, sent); k++) TRY(walk_op(&w, &plan->ops[k]));
    *out_below = is_below(plan, nopen, sent);
    for (size_t i = 0; i < plan->nvars; i++)
        if (w.states[i].home) note_arg(&w, &plan->vars[i], w.states[i].home, &plan->apart);
    return NULL;
}

weft_status spmd_decide(spmd_plan *plan) {
    bool is_below;
    return spmd_decide_below(plan, INT64_MAX, 0, &is_below);
}

static weft_status write_var(walk *w, const spmd_var *v, const spmd_state *s) {
    const axes_placed *last = s->versions && s->versions->var == v->var ? s->versions->placed : s->home;
    int64_t extents[WEFT_MAX_RANK];
    placed_extents(&w->plan->mesh, last, &v->whole, extents);
    return placed_declare(&w->plan->mesh, last, &v->whole, extents, v->var);
}

/* How a var's name lies, known before the first edit. */
static weft_status write_vars(walk *w) {
    for (size_t i = 0; i < w->plan->nvars; i++) {
        const spmd_var *v = &w->plan->vars[i];
        if (v->counts && v->var->block == w->plan->block && w->states[i].home) TRY(write_var(w, v, &w->states[i]));
    }
    return NULL;
}

weft_status spmd_rewrite(spmd_plan *plan, rank_edits *edits) {
    walk w = {.plan = plan, .edits = true, .emit = {.plan = plan}};
    if (edits && plan->apart.placed) TRY(spmd_places_create(plan, edits, &w.emit.places));
    TRY(program_divide_meshes(plan->program, plan->mesh.mesh, &plan->mesh.mesh));
    TRY(begin(&w));
    for (size_t k = 0; k < plan->nops; k++) TRY(walk_op(&w, &plan->ops[k]));
    TRY(write_vars(&w));
    if (w.emit.places) TRY(spmd_places_tell(w.emit.places));
    if (plan->is_fx) TRY(spmd_fx_write(plan));
    plan->program->has_dist = true;
    plan->program->rank = plan->rank;
    TRY(weft_pass_count_add(plan->pass, "collectives", w.emit.ncollectives));
    TRY(weft_pass_count_add(plan->pass, "bytes received", (int64_t)plan->sent));
    return spmd_report_rows(plan);
}
