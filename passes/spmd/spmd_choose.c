/* spmd_choose.c: how the arguments of one op lie.
 *
 * Each mesh axis shards one of the op's factors, or none, or inputs stay partial along it and so do outputs. Where the
 * placements of its arguments ask for one factor alone, that is it. Where they disagree, all ways are priced: what it
 * sends to bring inputs there, and outputs from there to where they are wanted. */
#include "passes/spmd/spmd_price.h"

enum { MOST_ORDERS = 4 };

typedef struct options {
    int items[SPMD_SIDES];
    int count;
} options;

typedef struct chooser {
    spmd_plan *plan;
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
    uint32_t adds[AXES_MESH];   /* the group (bit) through which sums pass on along it; 0: none takes all of them */
    int best_open;              /* of the best way; then bytes, then what ranks have of outputs: */
    double best, best_work;
    int best_shares;
    int taken[AXES_MESH]; /* by the best way */
    bool found;
    spmd_side (*sides)[SPMD_SIDES]; /* by axis and option; NULL: nobody asks what each costs */
    weft_status status;             /* of prices */
} chooser;

/* What a way sends, and takes where there are prices. */
typedef struct price {
    int nopen, nshares; /* steps that send parts of open extents; that make shares of a sum */
    double sent, seconds;
} price;

/* `by`: who asks for it. */
static void add_option(chooser *c, int axis, int item, const spmd_side *by) {
    options *o = &c->by_axis[axis];
    for (int i = 0; i < o->count; i++)
        if (o->items[i] == item) return;
    if (o->count == SPMD_SIDES) return;
    if (c->sides) {
        c->sides[axis][o->count] = *by;
        c->sides[axis][o->count].item = item;
        c->sides[axis][o->count].sent = -1;
    }
    o->items[o->count++] = item;
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

static void ask_dims(chooser *c, bool is_output, size_t arg, const axes_placed *p) {
    const axes_rule *r = &c->op->kind->rule;
    const axes_arg *x = is_output ? &r->out[arg] : &r->in[arg];
    for (int d = 0; d < x->ndim; d++) {
        const spmd_side by = {.is_output = is_output, .arg = arg, .dim = d};
        uint16_t factors[AXES_MESH];
        int n = axes_factors(r, &c->plan->mesh.axes, x, d, p, factors);
        for (int i = 0; i < n; i++)
            if (!r->factors[factors[i]].why) add_option(c, p->axes[d][i], factors[i], &by);
        if (n > 1) add_order(c, p->axes[d], n);
        for (int i = 0; i < n; i++)
            for (int k = 0; k < n; k++)
                if (factors[i] == factors[k]) c->listed[p->axes[d][i]] |= UINT32_C(1) << p->axes[d][k];
    }
}

static void ask(chooser *c) {
    const axes_rule *r = &c->op->kind->rule;
    for (size_t i = 0; i < r->nin; i++) {
        const spmd_var *v = c->op->in[i];
        if (!v || r->in[i].any || v->whole.ndim != r->in[i].ndim) continue;
        bool is_state = v->var->persistable && !op_has_effect(c->op->op, OP_OPTIMIZER);
        if (is_state && c->plan->policy.gathers_state) continue;
        const spmd_version *x = c->states[v->var->id].versions;
        for (; x; x = x->next) {
            ask_dims(c, false, i, x->placed);
            for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
                if (x->placed->partial[a] && c->op->kind->reads[i])
                    add_option(c, a, SPMD_PASS_ON, &(spmd_side){.arg = i});
        }
    }
    for (size_t o = 0; o < r->nout; o++) {
        const spmd_var *v = c->op->out[o];
        if (v && v->whole.ndim == r->out[o].ndim) ask_dims(c, true, o, &v->want);
    }
}

/* Sums that cannot pass on need not be made whole where all have a factor: parts of them do. */
static void ask_shared(chooser *c) {
    const axes_rule *r = &c->op->kind->rule;
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) {
        c->adds[a] = spmd_adding_group(c->states, c->op, a);
        for (size_t k = 0; k < r->nfactors && !c->adds[a]; k++)
            if (!r->factors[k].why && spmd_sums_share(c->states, c->op, a, k))
                add_option(c, a, (int)k, &(spmd_side){.arg = 0});
    }
}

/* --- one way ------------------------------------------------------------------------------------------------------ */

/* What need not be read may lie as it likes. */
static void keep_unread(const chooser *c, size_t i, const spmd_version *versions, axes_placed *need) {
    const spmd_version *x = versions;
    while (x && !placed_same_dims(x->placed, need, c->op->kind->rule.in[i].ndim)) x = x->next;
    if (x) memcpy(need->partial, x->placed->partial, sizeof need->partial);
}

static bool is_special(const chooser *c, int axis) {
    return c->op->kind->special != SIZE_MAX && c->chosen[axis] == (int)c->op->kind->special;
}

/* Along what is passed on an input is as partial as it is there; or a share, where others of its group are sums. */
static void keep_partial(const chooser *c, size_t i, axes_placed *need) {
    uint32_t groups = c->op->kind->rule.in[i].in_group;
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) {
        if (is_special(c, a) && spmd_form_adds(c->op, i)) need->partial[a] = 1 + WEFT_REDUCE_SUM;
        if (c->chosen[a] != SPMD_PASS_ON || !groups) continue;
        const axes_placed *p = spmd_sum_of(c->states, c->op, i, a);
        if (p)
            need->partial[a] = p->partial[a];
        else if (groups & c->adds[a])
            need->partial[a] = 1 + WEFT_REDUCE_SUM;
    }
}

static void place_input(const chooser *c, size_t i, axes_placed *need) {
    const axes_arg *x = &c->op->kind->rule.in[i];
    const spmd_var *v = c->op->in[i];
    *need = (axes_placed){.naxes = {0}};
    if (!v || x->ndim < 0 || v->whole.ndim != x->ndim) return;
    const spmd_version *versions = c->states[v->var->id].versions;
    if (x->any) {
        if (versions) *need = *versions->placed;
        return;
    }
    for (int d = 0; d < x->ndim; d++)
        spmd_place_dim(&c->op->kind->rule, &c->plan->mesh.axes, x, d, c->chosen, c->order, need);
    if (c->op->kind->reads[i])
        keep_partial(c, i, need);
    else
        keep_unread(c, i, versions, need);
}

/* What no collective can sum up. */
static bool is_summable(const axes_placed *p, int naxes) {
    for (int a = 0; a < naxes; a++)
        if (p->partial[a] > 1 + WEFT_REDUCE_AVG) return false;
    return true;
}

static void add_path(chooser *c, const spmd_path *path, const kept_shape *whole, price *sum) {
    double seconds = 0;
    for (int i = 0; i < path->count; i++)
        sum->nshares += path->steps[i].kind == STEP_SHARE || path->steps[i].kind == STEP_PAD;
    sum->nopen += path->nopen;
    sum->sent += path->sent;
    if (!c->sides || !c->plan->prices || c->status) return;
    c->status = spmd_path_seconds(c->plan->prices, path, whole, &seconds);
    sum->seconds += seconds;
}

/* Whether it is dearer than the best way so far; where nobody asks what each costs, that is all that counts. */
static bool is_beaten(const chooser *c, const price *sum) {
    if (c->sides || !c->found) return false;
    return sum->nopen > c->best_open || (sum->nopen == c->best_open && sum->sent > c->best);
}

static bool price_inputs(chooser *c, price *sum) {
    spmd_path path;
    for (size_t i = 0; i < c->op->kind->rule.nin; i++) {
        const spmd_var *v = c->op->in[i];
        if (!v || c->op->kind->rule.in[i].any) continue;
        bool again = false; /* an argument that is there twice is brought there once */
        for (size_t k = 0; k < i && !again; k++)
            again = c->op->in[k] == c->op->in[i] &&
                    placed_same(&c->in[k], &c->in[i], v->whole.ndim, c->plan->mesh.axes.naxes);
        if (again) continue;
        if (!spmd_nearest(c->plan, v, &c->states[v->var->id], &c->in[i], &path)) return false;
        add_path(c, &path, &v->whole, sum);
        if (is_beaten(c, sum)) return false;
    }
    return true;
}

static bool price_outputs(chooser *c, price *sum, double *work) {
    spmd_path path;
    const spmd_mesh *m = &c->plan->mesh;
    for (size_t o = 0; o < c->op->kind->rule.nout; o++) {
        const spmd_var *v = c->op->out[o];
        if (!v) continue;
        if (!is_summable(&c->out[o], m->axes.naxes)) return false;
        axes_placed to = v->nreaders || v->is_kept ? v->want : placed_whole_sums(&c->out[o]);
        if (!spmd_find_path(m, &v->whole, &c->out[o], &to, &path)) return false;
        add_path(c, &path, &v->whole, sum);
        if (is_beaten(c, sum)) return false;
        *work += (double)placed_nbytes(m, &c->out[o], &v->whole);
    }
    return true;
}

/* What the op's other form sends itself is sums over ranks, along the axes that have its factor. */
static double price_form(chooser *c, price *sum) {
    double sent = spmd_form_sent(c->plan, c->op, c->in, c->out), seconds;
    sum->sent += sent;
    for (int a = 0; a < c->plan->mesh.axes.naxes && sent > 0 && c->sides && c->plan->prices && !c->status; a++) {
        if (c->chosen[a] != (int)c->op->kind->special) continue;
        c->status = spmd_sum_seconds(c->plan->prices, a, sent, &seconds);
        sum->seconds += c->status ? 0 : seconds;
    }
    return sent;
}

/* What each axis does in this way costs no more than the way. */
static void note_sides(chooser *c, const price *sum) {
    for (int a = 0; c->sides && a < c->plan->mesh.axes.naxes; a++)
        for (int i = 0; i < c->by_axis[a].count; i++) {
            spmd_side *s = &c->sides[a][i];
            if (s->item != c->chosen[a] || (s->sent >= 0 && s->sent <= sum->sent)) continue;
            s->sent = sum->sent;
            s->seconds = sum->seconds;
        }
}

/* Of equal bytes, a value that all have is added behind the sum rather than in shares. */
static bool is_best(const chooser *c, const price *sum, double work) {
    if (!c->found || sum->nopen != c->best_open) return !c->found || sum->nopen < c->best_open;
    if (sum->sent < c->best || sum->sent > c->best) return sum->sent < c->best;
    return sum->nshares != c->best_shares ? sum->nshares < c->best_shares : work < c->best_work;
}

/* What has no elements, as an XShape, is no sum of parts: it is only looked at for its extents. */
static void drop_empty_sums(const chooser *c) {
    for (size_t o = 0; o < c->op->kind->rule.nout; o++) {
        const spmd_var *v = c->op->out[o];
        bool is_empty = false;
        for (int d = 0; v && d < v->whole.ndim; d++) is_empty |= v->whole.dims[d] == 0;
        if (is_empty) c->out[o] = placed_whole_sums(&c->out[o]);
    }
}

/* How outputs lie; false: inputs may not lie so. What is added in shares is no sum to the rule. */
static bool follow(const chooser *c) {
    axes_placed *added = c->op->kind->form == FORM_SHARES ? &c->in[0] : NULL, kept;
    if (added) kept = *added;
    for (int a = 0; added && a < c->plan->mesh.axes.naxes; a++)
        if (is_special(c, a)) added->partial[a] = 0;
    const char *why = axes_follow(&c->op->kind->rule, &c->plan->mesh.axes, c->in, c->out);
    if (added) *added = kept;
    return !why;
}

static void try_way(chooser *c) {
    spmd_op *op = c->op;
    for (size_t i = 0; i < op->kind->rule.nin; i++) place_input(c, i, &c->in[i]);
    if (!follow(c)) return;
    drop_empty_sums(c);
    price sum = {0};
    double work = 0;
    if (!spmd_form_fits(c->plan, op, c->in, c->out)) return;
    if (!price_inputs(c, &sum) || !price_outputs(c, &sum, &work)) return;
    double form = price_form(c, &sum);
    note_sides(c, &sum);
    /* of equal price: what was gathered stays so, since parts of it would be gathered again */
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++)
        if (c->gathered[a] && c->chosen[a] == SPMD_NOTHING) work = -1;
    if (!is_best(c, &sum, work)) return;
    c->found = true;
    c->best_open = sum.nopen;
    c->best = sum.sent;
    c->best_work = work;
    c->best_shares = sum.nshares;
    memcpy(c->taken, c->chosen, sizeof c->taken);
    spmd_choice *best = &c->plan->chosen;
    best->sent = form;
    memcpy(best->in, c->in, op->kind->rule.nin * sizeof *c->in);
    memcpy(best->out, c->out, op->kind->rule.nout * sizeof *c->out);
    best->is_special = false;
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) best->is_special |= is_special(c, a);
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
        const spmd_var *v = c->op->in[i];
        if (!v || c->op->kind->rule.in[i].any) continue;
        bool whole = false, parts = false;
        for (const spmd_version *x = c->states[v->var->id].versions; x; x = x->next)
            *(lies_along(x->placed, v->whole.ndim, axis) ? &parts : &whole) = true;
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

/* Whether somebody said of all outputs that they are whole along the axis, so that parts of them would be gathered. */
static bool is_whole_after(const chooser *c, int axis) {
    bool any = false;
    for (size_t o = 0; o < c->op->kind->rule.nout; o++) {
        const spmd_var *v = c->op->out[o];
        if (!v) continue;
        if (!v->is_fixed || lies_along(&v->want, v->whole.ndim, axis)) return false;
        any = true;
    }
    return any;
}

/* Where nothing or several things are asked for, inputs need not be moved for it or outputs must be whole, none of them
 * may be cheapest. Axes that are to shard one factor together may do so in one order or the other. */
static void complete(chooser *c, bool always) {
    const spmd_mesh *m = &c->plan->mesh;
    uint8_t turned[AXES_MESH];
    bool together = false;
    for (int a = 0; a < m->axes.naxes; a++) {
        bool whole = is_there_whole(c, a, &c->gathered[a]), twice = is_asked_twice(c, a);
        c->gathered[a] &= whole;
        together |= twice;
        turned[a] = (uint8_t)(m->axes.naxes - 1 - a);
        if (always || whole || twice || c->by_axis[a].count != 1 || c->by_axis[a].items[0] == SPMD_PASS_ON ||
            is_whole_after(c, a))
            add_option(c, a, SPMD_NOTHING, &(spmd_side){.arg = 0});
    }
    if (together) add_order(c, turned, m->axes.naxes);
}

/* Whether arguments ask the axis to shard different factors, or another axis to shard the same. */
static bool is_disputed(const chooser *c, int axis) {
    const options *o = &c->by_axis[axis];
    int nfactors = 0;
    for (int i = 0; i < o->count; i++) nfactors += o->items[i] >= 0;
    return nfactors > 1 || is_asked_twice(c, axis);
}

/* Keeps what the axis may do. */
static weft_status keep_conflict(chooser *c, int axis) {
    const options *o = &c->by_axis[axis];
    if (!is_disputed(c, axis)) return NULL;
    spmd_conflict *made = ARENA_NEW(&c->plan->memory, spmd_conflict);
    if (!made) return base_out_of_memory();
    *made = (spmd_conflict){.axis = axis, .nsides = o->count, .nops = 1, .next = c->plan->chosen.conflicts};
    for (int i = 0; i < o->count; i++) {
        made->sides[i] = c->sides[axis][i];
        made->sides[i].is_taken = o->items[i] == c->taken[axis];
    }
    c->plan->chosen.conflicts = made;
    return NULL;
}

/* An output of a graph lies as it does, but is no sum that is still to be made, unless that is asked for. False: it is
 * none. */
static bool choose_output(const chooser *c) {
    const spmd_op *op = c->op;
    const spmd_var *v = op->kind->rule.nin == 1 ? op->in[0] : NULL;
    if (!c->plan->is_fx || !op_is(op->op, "fetch") || !v || !c->states[v->var->id].versions) return false;
    const spmd_version *first = c->states[v->var->id].versions, *x = first;
    while (x && placed_is_partial(x->placed, c->plan->mesh.axes.naxes)) x = x->next;
    bool stays = !x && c->plan->partial_outputs;
    c->plan->chosen.in[0] = stays ? *first->placed : placed_whole_sums(x ? x->placed : first->placed);
    return true;
}

static void choose_whole(const chooser *c) {
    const spmd_op *op = c->op;
    bool feeds = op_is(op->op, "feed");
    for (size_t o = 0; o < op->kind->rule.nout && feeds; o++) {
        const spmd_var *v = op->out[o];
        if (v) c->plan->chosen.out[o] = v->want;
    }
}

/* The cheapest way of the op. */
static weft_status choose_way(chooser *c) {
    add_order(c, NULL, 0);
    ask(c);
    ask_shared(c);
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) c->plan->chosen.is_disputed |= is_disputed(c, a);
    if (!c->plan->chosen.is_disputed) c->sides = NULL;
    complete(c, false);
    try_all(c, 0);
    if (!c->found) complete(c, true);
    if (!c->found) try_all(c, 0);
    if (!c->found) choose_whole(c);
    for (int a = c->plan->mesh.axes.naxes; a-- > 0 && c->sides && c->found && !c->status;)
        c->status = keep_conflict(c, a);
    return c->status;
}

weft_status spmd_choose(spmd_plan *plan, const spmd_state *states, spmd_op *op) {
    chooser c = {.plan = plan, .states = states, .op = op};
    spmd_side sides[AXES_MESH][SPMD_SIDES];
    bool is_known;
    if (!op->kind->rule.nin && !op->kind->rule.nout) return NULL;
    TRY(spmd_known_find(plan, states, op, &is_known));
    if (is_known) return NULL;
    c.in = plan->tried.in;
    c.out = plan->tried.out;
    c.sides = plan->asks_conflicts ? sides : NULL;
    plan->chosen = (spmd_choice){.in = plan->chosen.in, .out = plan->chosen.out};
    memset(plan->chosen.in, 0, op->kind->rule.nin * sizeof *c.in);
    memset(plan->chosen.out, 0, op->kind->rule.nout * sizeof *c.out);
    bool is_output = choose_output(&c);
    if (!is_output && op->kind->why_whole)
        choose_whole(&c);
    else if (!is_output)
        TRY(choose_way(&c));
    return spmd_known_add(plan, op);
}

static bool is_better(const spmd_path *a, const spmd_path *b) {
    if (a->nopen != b->nopen) return a->nopen < b->nopen;
    return a->sent < b->sent || (a->sent == b->sent && a->count < b->count);
}

spmd_version *spmd_nearest(const spmd_plan *plan, const spmd_var *v, const spmd_state *s, const axes_placed *to,
                           spmd_path *out) {
    spmd_version *best = NULL;
    spmd_path other, *found = out;
    for (spmd_version *x = s->versions; x && !(best && out->count == 0); x = x->next) {
        if (!spmd_find_path(&plan->mesh, &v->whole, x->placed, to, found)) continue;
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
    bool leaf = v->nreaders == 0, single = spmd_is_single(v) && !plan->partial_outputs;
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
