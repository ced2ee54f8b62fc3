/* spmd_choose.c: how the arguments of one op lie.
 *
 * Each mesh axis shards one of the op's factors, or none, or inputs stay partial along it and so do outputs. Where the
 * placements of its arguments ask for one factor alone, that is it. Where they disagree, all ways are priced: what it
 * sends to bring inputs there, and outputs from there to where they are wanted. */
#include "passes/spmd/spmd.h"

enum { NOTHING = -1, PASS_ON = -2, MOST_OPTIONS = 8, MOST_ORDERS = 4 };

typedef struct options {
    int items[MOST_OPTIONS];
    int count;
} options;

typedef struct chooser {
    const spmd_plan *plan;
    const spmd_state *states;
    spmd_op *op;
    options by_axis[AXES_MESH];
    int chosen[AXES_MESH];
    uint8_t orders[MOST_ORDERS][AXES_MESH]; /* in which axes may shard one dimension together */
    int norders;
    uint32_t listed[AXES_MESH]; /* by axis: those that some argument has with it in the list of one factor */
    const uint8_t *order;       /* that is tried */
    axes_placed *in, *out;      /* being tried */
    bool gathered[AXES_MESH];   /* all inputs are whole along it, since somebody gathered one of them */
    double best, best_work;
    bool found;
} chooser;

static void add_option(options *o, int item) {
    for (int i = 0; i < o->count; i++)
        if (o->items[i] == item) return;
    if (o->count < MOST_OPTIONS) o->items[o->count++] = item;
}

/* --- what arguments ask for --------------------------------------------------------------------------------------- */

/* All axes, those of a list in its order and the others behind them. */
static void add_order(chooser *c, const uint8_t *list, int n) {
    uint8_t *made = c->orders[c->norders];
    int count = n, naxes = c->plan->mesh.axes.naxes;
    if (c->norders == MOST_ORDERS) return;
    if (n) memcpy(made, list, (size_t)n);
    for (int a = 0; a < naxes; a++)
        if (!n || !memchr(list, a, (size_t)n)) made[count++] = (uint8_t)a;
    for (int i = 0; i < c->norders; i++)
        if (memcmp(c->orders[i], made, (size_t)naxes) == 0) return;
    c->norders++;
}

static void ask_dims(chooser *c, const axes_arg *x, const axes_placed *p) {
    const axes_rule *r = &c->op->kind->rule;
    for (int d = 0; d < x->ndim; d++) {
        uint16_t factors[AXES_MESH];
        int n = axes_factors(r, &c->plan->mesh.axes, x, d, p, factors);
        for (int i = 0; i < n; i++)
            if (!r->factors[factors[i]].why) add_option(&c->by_axis[p->axes[d][i]], factors[i]);
        if (n > 1) add_order(c, p->axes[d], n);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                if (factors[i] == factors[k]) c->listed[p->axes[d][i]] |= UINT32_C(1) << p->axes[d][k];
    }
}

static void ask(chooser *c) {
    const axes_rule *r = &c->op->kind->rule;
    for (size_t i = 0; i < r->nin; i++) {
        const spmd_var *v = spmd_var_of(c->plan, c->op->in[i]);
        if (!v || r->in[i].any || v->whole.ndim != r->in[i].ndim) continue;
        bool is_state = v->var->persistable && !op_has_effect(c->op->op, OP_OPTIMIZER);
        if (is_state && c->plan->policy.gathers_state) continue;
        const spmd_version *x = c->states[v->var->id].versions;
        for (; x; x = x->next) {
            ask_dims(c, &r->in[i], &x->placed);
            for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
                if (x->placed.partial[a] && c->op->kind->reads[i]) add_option(&c->by_axis[a], PASS_ON);
        }
    }
    for (size_t o = 0; o < r->nout; o++) {
        const spmd_var *v = spmd_var_of(c->plan, c->op->out[o]);
        if (v && v->whole.ndim == r->out[o].ndim) ask_dims(c, &r->out[o], &v->want);
    }
}

/* --- one way ------------------------------------------------------------------------------------------------------ */

/* The version of an input that is partial along what is passed on; which need not be read may lie as it likes. */
static void keep_partial(const chooser *c, size_t i, const spmd_version *versions, axes_placed *need) {
    bool reads = c->op->kind->reads[i];
    for (const spmd_version *x = versions; x; x = x->next) {
        if (!reads && placed_same_dims(&x->placed, need, c->op->kind->rule.in[i].ndim)) {
            memcpy(need->partial, x->placed.partial, sizeof need->partial);
            return;
        }
        for (int a = 0; reads && a < c->plan->mesh.axes.naxes; a++)
            if (c->chosen[a] == PASS_ON && x->placed.partial[a] && c->op->kind->rule.in[i].in_group)
                need->partial[a] = x->placed.partial[a];
    }
}

static void place_input(const chooser *c, size_t i, axes_placed *need) {
    const axes_arg *x = &c->op->kind->rule.in[i];
    const spmd_var *v = spmd_var_of(c->plan, c->op->in[i]);
    *need = (axes_placed){.naxes = {0}};
    if (!v || x->ndim < 0 || v->whole.ndim != x->ndim) return;
    const spmd_version *versions = c->states[v->var->id].versions;
    if (x->any) {
        if (versions) *need = versions->placed;
        return;
    }
    for (int d = 0; d < x->ndim; d++)
        spmd_place_dim(&c->op->kind->rule, &c->plan->mesh.axes, x, d, c->chosen, c->order, need);
    keep_partial(c, i, versions, need);
}

/* What no collective can sum up. */
static bool is_summable(const axes_placed *p, int naxes) {
    for (int a = 0; a < naxes; a++)
        if (p->partial[a] > 1 + WEFT_REDUCE_AVG) return false;
    return true;
}

static bool price_inputs(const chooser *c, double *sent) {
    spmd_path path;
    for (size_t i = 0; i < c->op->kind->rule.nin; i++) {
        const spmd_var *v = spmd_var_of(c->plan, c->op->in[i]);
        if (!v || c->op->kind->rule.in[i].any) continue;
        bool again = false; /* an argument that is there twice is brought there once */
        for (size_t k = 0; k < i && !again; k++)
            again = c->op->in[k] == c->op->in[i] &&
                    placed_same(&c->in[k], &c->in[i], v->whole.ndim, c->plan->mesh.axes.naxes);
        if (again) continue;
        if (!spmd_nearest(c->plan, v, &c->states[v->var->id], &c->in[i], &path)) return false;
        *sent += path.sent;
    }
    return true;
}

static bool price_outputs(const chooser *c, double *sent, double *work) {
    spmd_path path;
    const spmd_mesh *m = &c->plan->mesh;
    for (size_t o = 0; o < c->op->kind->rule.nout; o++) {
        const spmd_var *v = spmd_var_of(c->plan, c->op->out[o]);
        if (!v) continue;
        if (!is_summable(&c->out[o], m->axes.naxes)) return false;
        axes_placed to = v->nreaders || v->is_kept ? v->want : placed_whole_sums(&c->out[o]);
        if (!spmd_find_path(m, &v->whole, &c->out[o], &to, &path)) return false;
        *sent += path.sent;
        *work += (double)placed_nbytes(m, &c->out[o], &v->whole);
    }
    return true;
}

static void try_way(chooser *c) {
    spmd_op *op = c->op;
    for (size_t i = 0; i < op->kind->rule.nin; i++) place_input(c, i, &c->in[i]);
    if (axes_follow(&op->kind->rule, &c->plan->mesh.axes, c->in, c->out)) return;
    double sent = 0, work = 0;
    if (!spmd_form_fits(c->plan, op, c->in, c->out)) return;
    if (!price_inputs(c, &sent) || !price_outputs(c, &sent, &work)) return;
    double form = spmd_form_sent(c->plan, op, c->in, c->out);
    sent += form;
    /* of equal price: what was gathered stays so, since parts of it would be gathered again */
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
        if (c->gathered[a] && c->chosen[a] == NOTHING) work = -1;
    if (c->found && (sent > c->best || (sent == c->best && work >= c->best_work))) return;
    c->found = true;
    c->best = sent;
    c->best_work = work;
    op->choice.sent = form;
    memcpy(op->choice.in, c->in, op->kind->rule.nin * sizeof *c->in);
    memcpy(op->choice.out, c->out, op->kind->rule.nout * sizeof *c->out);
    op->choice.is_special = false;
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
        op->choice.is_special |= op->kind->special != SIZE_MAX && c->chosen[a] == (int)op->kind->special;
}

/* Whether two axes shard one factor, so that their order matters. */
static bool is_shared(const chooser *c) {
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
        for (int b = 0; b < a; b++)
            if (c->chosen[a] >= 0 && c->chosen[a] == c->chosen[b]) return true;
    return false;
}

static void try_all(chooser *c, int axis) {
    if (axis == c->plan->mesh.axes.naxes) {
        int norders = is_shared(c) ? c->norders : 1;
        for (int i = 0; i < norders; i++) {
            c->order = c->orders[i];
            try_way(c);
        }
        return;
    }
    for (int i = 0; i < c->by_axis[axis].count; i++) {
        c->chosen[axis] = c->by_axis[axis].items[i];
        try_all(c, axis + 1);
    }
}

/* --- all ways ----------------------------------------------------------------------------------------------------- */

static bool lies_along(const axes_placed *p, int32_t ndim, int axis) {
    return p->partial[axis] || placed_dim_of(p, ndim, axis) >= 0;
}

/* Whether each input is there whole along the axis; *out_gathered: one of them in parts too. */
static bool is_there_whole(const chooser *c, int axis, bool *out_gathered) {
    *out_gathered = false;
    for (size_t i = 0; i < c->op->kind->rule.nin; i++) {
        const spmd_var *v = spmd_var_of(c->plan, c->op->in[i]);
        if (!v || c->op->kind->rule.in[i].any) continue;
        bool whole = false, parts = false;
        for (const spmd_version *x = c->states[v->var->id].versions; x; x = x->next)
            *(lies_along(&x->placed, v->whole.ndim, axis) ? &parts : &whole) = true;
        if (!whole) return false;
        *out_gathered |= parts;
    }
    return true;
}

/* Whether another axis is asked to shard the same factor, by another argument. */
static bool is_asked_twice(const chooser *c, int axis) {
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) {
        if (a == axis || (c->listed[axis] >> a & 1)) continue;
        for (int i = 0; i < c->by_axis[a].count; i++)
            for (int k = 0; k < c->by_axis[axis].count; k++)
                if (c->by_axis[a].items[i] >= 0 && c->by_axis[a].items[i] == c->by_axis[axis].items[k]) return true;
    }
    return false;
}

/* Where nothing or several things are asked for, or inputs need not be moved for it, none of them may be cheapest.
 * Axes that are to shard one factor together may do so in one order or the other. */
static void complete(chooser *c, bool always) {
    const spmd_mesh *m = &c->plan->mesh;
    uint8_t turned[AXES_MESH];
    bool together = false;
    for (int a = 0; a < m->axes.naxes; a++) {
        bool whole = is_there_whole(c, a, &c->gathered[a]), twice = is_asked_twice(c, a);
        c->gathered[a] &= whole;
        together |= twice;
        turned[a] = (uint8_t)(m->axes.naxes - 1 - a);
        if (always || whole || twice || c->by_axis[a].count != 1 || c->by_axis[a].items[0] == PASS_ON)
            add_option(&c->by_axis[a], NOTHING);
    }
    if (together) add_order(c, turned, m->axes.naxes);
}

/* An output of a graph lies as it does, but is no sum that is still to be made. */
static bool choose_output(chooser *c) {
    const spmd_op *op = c->op;
    const spmd_var *v = op->kind->rule.nin == 1 ? spmd_var_of(c->plan, op->in[0]) : NULL;
    if (!c->plan->is_fx || !op_is(op->op, "fetch") || !v || !c->states[v->var->id].versions) return false;
    const spmd_version *first = c->states[v->var->id].versions, *x = first;
    while (x && placed_is_partial(&x->placed, c->plan->mesh.axes.naxes)) x = x->next;
    op->choice.in[0] = placed_whole_sums(x ? &x->placed : &first->placed);
    return true;
}

static void choose_whole(chooser *c) {
    const spmd_op *op = c->op;
    bool feeds = op_is(op->op, "feed");
    c->op->choice.sent = 0;
    c->op->choice.is_special = false;
    memset(op->choice.in, 0, op->kind->rule.nin * sizeof *op->choice.in);
    memset(op->choice.out, 0, op->kind->rule.nout * sizeof *op->choice.out);
    for (size_t o = 0; o < op->kind->rule.nout && feeds; o++) {
        const spmd_var *v = spmd_var_of(c->plan, op->out[o]);
        if (v) op->choice.out[o] = v->want;
    }
}

weft_status spmd_choose(spmd_plan *plan, const spmd_state *states, spmd_op *op) {
    chooser c = {.plan = plan, .states = states, .op = op};
    if (!op->kind->rule.nin && !op->kind->rule.nout) return NULL;
    if (choose_output(&c)) return NULL;
    if (op->kind->why_whole) return choose_whole(&c), NULL;
    bool is_known;
    TRY(spmd_known_find(plan, states, op, &is_known));
    if (is_known) return NULL;
    c.in = plan->tried_in;
    c.out = plan->tried_out;
    add_order(&c, NULL, 0);
    ask(&c);
    complete(&c, false);
    try_all(&c, 0);
    if (!c.found) complete(&c, true);
    if (!c.found) try_all(&c, 0);
    if (!c.found) choose_whole(&c);
    return spmd_known_add(plan, op);
}

static bool is_better(const spmd_path *a, const spmd_path *b) {
    return a->sent < b->sent || (a->sent == b->sent && a->count < b->count);
}

spmd_version *spmd_nearest(const spmd_plan *plan, const spmd_var *v, const spmd_state *s, const axes_placed *to,
                           spmd_path *out) {
    spmd_version *best = NULL;
    spmd_path other, *found = out;
    for (spmd_version *x = s->versions; x && !(best && out->count == 0); x = x->next) {
        if (!spmd_find_path(&plan->mesh, &v->whole, &x->placed, to, found)) continue;
        if (best && !is_better(found, out)) continue;
        if (best) *out = *found;
        best = x;
        found = &other;
    }
    return best;
}

/* Summed up where several read it, or one that must have the sum; the last value of a forward op too, since it may be
 * fetched. */
axes_placed spmd_settled(const spmd_plan *plan, const spmd_op *op, const spmd_var *v, const axes_placed *made) {
    int naxes = plan->mesh.axes.naxes;
    axes_placed to = *made;
    if (v->is_kept || v->is_pinned || v->is_fixed) return v->want;
    if (!placed_is_partial(made, naxes)) return to;
    bool backward = (op_role(op->op) & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE)) != 0;
    bool leaf = v->nreaders == 0, single = shape_numel(&v->whole) == 1;
    bool keeps = leaf ? backward : !(single && !backward) && v->nreaders == 1 && v->ngiven == 1;
    if (keeps) return to;
    for (int d = 0; d < v->whole.ndim; d++) /* what is there goes on as it is wanted */
        for (int i = 0; i < v->want.naxes[d]; i++) {
            int axis = v->want.axes[d][i];
            if (i < to.naxes[d] ? to.axes[d][i] != axis : !made->partial[axis]) break;
            if (i == to.naxes[d]) placed_shard(&to, d, axis);
        }
    memset(to.partial, 0, sizeof to.partial);
    return to;
}
