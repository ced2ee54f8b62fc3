/* choice_flow.c: the homes of each class of vars, which arguments they flow along, and what steps between homes take.
 */
#include "passes/choice/choice.h"
#include "program/grow.h"

typedef struct flow {
    choice *c;
    const uint32_t *maker_role; /* by var id */
    hash_table edges, groups;
    uint32_t *last_value; /* by var id: 1 + its value since the last write; 0: none yet */
    uint32_t *nreads;     /* by value */
} flow;

/* --- homes -------------------------------------------------------------------------------------------------------- */

static weft_status add_home(choice *c, choice_var *v, const axes_placed *p, uint32_t *out) {
    int naxes = c->plan->mesh.axes.naxes;
    for (size_t i = 0; i < v->nhomes; i++)
        if (placed_same(&v->homes[i], p, v->example->whole.ndim, naxes)) return *out = (uint32_t)i, NULL;
    TRY(grow(c->memory, &v->homes, &v->home_capacity, v->nhomes + 1, sizeof *v->homes));
    v->homes[v->nhomes] = *p;
    v->homes[v->nhomes].times = 0;
    *out = (uint32_t)v->nhomes++;
    return NULL;
}

/* Values that may be fetched are whole sums, as spmd_partition leaves them. */
static bool may_be_sum(const spmd_var *v, uint32_t maker_role) {
    bool backward = (maker_role & (WEFT_ROLE_BACKWARD | WEFT_ROLE_OPTIMIZE)) != 0;
    if (v->is_kept || v->is_pinned) return false;
    return backward || (v->nreaders > 0 && !spmd_is_single(v));
}

static weft_status settle_homes(flow *f, choice_var *v) {
    choice *c = f->c;
    int naxes = c->plan->mesh.axes.naxes;
    uint32_t fixed = CHOICE_NONE, whole;
    TRY(add_home(c, v, &(axes_placed){.naxes = {0}}, &whole));
    for (size_t i = 0, n = v->nhomes; i < n; i++) { /* sums that are made at once */
        axes_placed sum = placed_whole_sums(&v->homes[i]);
        uint32_t at;
        TRY(add_home(c, v, &sum, &at));
    }
    if (v->example->is_fixed) TRY(add_home(c, v, &v->example->want, &fixed));
    if (v->example->is_pinned) fixed = whole;
    v->may = ARENA_ARRAY(c->memory, bool, v->nhomes);
    v->is_shut = ARENA_ARRAY(c->memory, bool, v->nhomes);
    v->nbytes = ARENA_ARRAY(c->memory, int64_t, v->nhomes);
    if (!v->may || !v->is_shut || !v->nbytes) return base_out_of_memory();
    bool sums = may_be_sum(v->example, f->maker_role[v->example->var->id]);
    for (size_t i = 0; i < v->nhomes; i++) {
        v->may[i] = fixed == CHOICE_NONE ? sums || !placed_is_partial(&v->homes[i], naxes) : i == fixed;
        v->nbytes[i] = placed_nbytes(&c->plan->mesh, &v->homes[i], &v->example->whole);
    }
    return NULL;
}

/* What happens along one mesh axis. */
typedef enum change { STAYS, GATHERED, CUT, EXCHANGED, SUMMED, IMPOSSIBLE } change;

static change change_along(const choice_var *v, const axes_placed *from, const axes_placed *to, int axis) {
    int was = placed_dim_of(from, v->example->whole.ndim, axis), is = placed_dim_of(to, v->example->whole.ndim, axis);
    if (to->partial[axis]) return from->partial[axis] == to->partial[axis] ? STAYS : IMPOSSIBLE;
    if (from->partial[axis]) return SUMMED;
    return was == is ? STAYS : was < 0 ? CUT : is < 0 ? GATHERED : EXCHANGED;
}

/* Steps that a choice may need: sums are made by ops alone, and at once one thing happens to a value, along one axis or
 * several. Others come of two in turn: from what an op makes to the home, and from there to a reader. */
static bool may_move(const choice *c, const choice_var *v, const axes_placed *from, const axes_placed *to) {
    change all = STAYS;
    for (int a = 0; a < c->plan->mesh.axes.naxes; a++) {
        change one = change_along(v, from, to, a);
        if (one == STAYS) continue;
        if (one == IMPOSSIBLE || (all != STAYS && (all != one || one == EXCHANGED))) return false;
        all = one;
    }
    return true;
}

static weft_status price_homes(choice *c, choice_var *v) {
    spmd_path path;
    v->seconds = ARENA_ARRAY(c->memory, double, v->nhomes * v->nhomes);
    if (!v->seconds) return base_out_of_memory();
    for (size_t p = 0; p < v->nhomes; p++)
        for (size_t q = 0; q < v->nhomes; q++) {
            double *seconds = &v->seconds[p * v->nhomes + q];
            *seconds = -1;
            if (may_move(c, v, &v->homes[p], &v->homes[q]) &&
                spmd_find_path(&c->plan->mesh, &v->example->whole, &v->homes[p], &v->homes[q], &path))
                TRY(spmd_path_seconds(&c->prices, &path, &v->example->whole, seconds));
        }
    return NULL;
}

double choice_edge_seconds(const choice *c, const choice_edge *e, uint32_t from, uint32_t to) {
    const choice_var *v = &c->vars[e->var];
    bool settles = e->is_output && !v->example->is_kept && !v->example->is_fixed && !v->example->is_pinned;
    if (settles && from != to && !placed_is_partial(&v->homes[from], c->plan->mesh.axes.naxes)) return -1;
    if (e->is_unread && placed_same_dims(&v->homes[from], &v->homes[to], v->example->whole.ndim)) return 0;
    return choice_step_seconds(c, e->var, from, to);
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

/* Whether placements of the argument are asked for at all. */
static bool flows(const spmd_op *op, size_t arg) {
    size_t nin = op->kind->rule.nin;
    if (arg < nin) return !op->kind->rule.in[arg].any;
    return !op_is(op->op, "feed"); /* what is fed comes as it is kept */
}

static weft_status find_edge(flow *f, uint32_t op, size_t arg, uint32_t var, uint32_t *out) {
    choice *c = f->c;
    uint64_t key[2] = {(uint64_t)op << 32 | (uint32_t)arg, var};
    table_probe at = table_find(&f->edges, base_hash(key, sizeof key));
    for (; at.item != TABLE_NONE; table_next(&f->edges, &at)) {
        const choice_edge *e = &c->edges[at.item];
        if (e->op == op && e->arg == arg && e->var == var) break;
    }
    if (at.item != TABLE_NONE) return *out = at.item, c->edges[*out].count++, NULL;
    const spmd_kind *kind = c->ops[op].example->kind;
    TRY(table_reserve(c->memory, &f->edges, c->nedges + 1));
    TRY(grow(c->memory, &c->edges, &c->edge_capacity, c->nedges + 1, sizeof *c->edges));
    *out = (uint32_t)c->nedges++;
    c->edges[*out] = (choice_edge){.op = op,
                                   .arg = (uint32_t)arg,
                                   .var = var,
                                   .is_output = arg >= kind->rule.nin,
                                   .is_unread = arg < kind->rule.nin && !kind->reads[arg],
                                   .count = 1};
    table_add(&f->edges, base_hash(key, sizeof key), *out);
    return NULL;
}

/* Homes that the ways of a class of ops ask of the class of an argument. Where ops are not told apart an argument may
 * be of several classes: an edge for each. */
static weft_status add_asked(choice *c, choice_edge *e) {
    const choice_op *op = &c->ops[e->op];
    size_t nin = op->example->kind->rule.nin;
    if (!(e->at = ARENA_ARRAY(c->memory, uint32_t, op->nways))) return base_out_of_memory();
    for (size_t w = 0; w < op->nways; w++)
        TRY(add_home(c, &c->vars[e->var], e->arg < nin ? &op->ways[w].in[e->arg] : &op->ways[w].out[e->arg - nin],
                     &e->at[w]));
    return NULL;
}

static weft_status read_arg(flow *f, size_t number, size_t arg, const spmd_var *v) {
    choice *c = f->c;
    const spmd_op *op = &c->plan->ops[number];
    uint32_t *edge = &c->op_edges[number][arg];
    *edge = CHOICE_NONE;
    if (!v || c->var_class[v->var->id] == CHOICE_NONE || !flows(op, arg)) return NULL;
    size_t before = c->nedges;
    TRY(find_edge(f, c->op_class[number], arg, c->var_class[v->var->id], edge));
    if (c->nedges == before) return NULL;
    return add_asked(c, &c->edges[*edge]);
}

/* --- ways that nothing leads to ----------------------------------------------------------------------------------- */

/* Whether some op makes the home, or what is settled to it. */
static bool is_made(const choice *c, uint32_t var, uint32_t home, bool *out_has_maker) {
    for (size_t i = 0; i < c->nedges; i++) {
        const choice_edge *e = &c->edges[i];
        if (e->var != var || !e->is_output) continue;
        *out_has_maker = true;
        for (size_t w = 0; w < c->ops[e->op].nways; w++)
            if (!c->ops[e->op].ways[w].is_left && choice_edge_seconds(c, e, e->at[w], home) >= 0) return true;
    }
    return false;
}

static bool is_reached(const choice *c, const choice_edge *e, uint32_t asked) {
    const choice_var *v = &c->vars[e->var];
    for (uint32_t p = 0; p < v->nhomes; p++)
        if (v->may[p] &&
            (e->is_output ? choice_edge_seconds(c, e, asked, p) : choice_edge_seconds(c, e, p, asked)) >= 0)
            return true;
    return false;
}

/* Homes that nothing makes, and ways that ask for what comes from no home, until all that are left are of use. */
static void leave_out(choice *c) {
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = 0; i < c->nvars; i++)
            for (uint32_t p = 0; p < c->vars[i].nhomes; p++) {
                bool has_maker = false;
                if (!c->vars[i].may[p] || c->vars[i].example->is_kept || is_made(c, i, p, &has_maker) || !has_maker)
                    continue;
                c->vars[i].may[p] = false;
                more = true;
            }
        for (size_t i = 0; i < c->nedges; i++)
            for (size_t w = 0; w < c->ops[c->edges[i].op].nways; w++) {
                choice_way *way = &c->ops[c->edges[i].op].ways[w];
                if (way->is_left || is_reached(c, &c->edges[i], c->edges[i].at[w])) continue;
                way->is_left = more = true;
            }
    }
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static weft_status begin_value(flow *f, const weft_var *var) {
    choice *c = f->c;
    TRY(grow(c->memory, &c->values, &c->value_capacity, c->nvalues + 1, sizeof *c->values));
    c->values[c->nvalues++] = (choice_value){.var = var->id, .group = CHOICE_NONE};
    f->last_value[var->id] = (uint32_t)c->nvalues;
    return NULL;
}

/* Readers of all values, counted and then listed. */
static weft_status read_values(flow *f, bool lists) {
    choice *c = f->c;
    const spmd_plan *plan = c->plan;
    c->nvalues = lists ? c->nvalues : 0;
    size_t next = 0; /* values come in the same order again */
    memset(f->last_value, 0, plan->nvars * sizeof *f->last_value);
    for (size_t k = 0; k < plan->nops; k++) {
        const spmd_op *op = &plan->ops[k];
        size_t nin = op->kind->rule.nin;
        for (size_t i = 0; i < nin + op->kind->rule.nout; i++) {
            const spmd_var *v = i < nin ? op->in[i] : op->out[i - nin];
            const weft_var *var = v ? v->var : NULL;
            uint32_t edge = c->op_edges[k][i];
            if (!var || c->var_class[var->id] == CHOICE_NONE) continue;
            if (i >= nin || !f->last_value[var->id]) {
                if (!lists) TRY(begin_value(f, var));
                f->last_value[var->id] = (uint32_t)++next;
            }
            if (i >= nin || edge == CHOICE_NONE || c->edges[edge].is_unread) continue;
            choice_value *value = &c->values[f->last_value[var->id] - 1];
            if (lists) {
                ((uint32_t *)(uintptr_t)value->positions)[f->nreads[value - c->values]] = (uint32_t)k;
                ((uint32_t *)(uintptr_t)value->edges)[f->nreads[value - c->values]++] = edge;
            } else
                value->nreaders++;
        }
    }
    return NULL;
}

static weft_status make_room(flow *f) {
    choice *c = f->c;
    f->nreads = ARENA_ARRAY(c->memory, uint32_t, c->nvalues + 1);
    if (!f->nreads) return base_out_of_memory();
    for (size_t i = 0; i < c->nvalues; i++) {
        uint32_t *room = ARENA_ARRAY(c->memory, uint32_t, 2 * c->values[i].nreaders + 1);
        if (!room) return base_out_of_memory();
        c->values[i].positions = room;
        c->values[i].edges = room + c->values[i].nreaders;
    }
    return NULL;
}

/* The edges of a value, in order, once each. */
static size_t sort_edges(const choice_value *value, uint32_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < value->nreaders; i++) {
        size_t at = 0;
        while (at < n && out[at] < value->edges[i]) at++;
        if (at < n && out[at] == value->edges[i]) continue;
        memmove(out + at + 1, out + at, (n++ - at) * sizeof *out);
        out[at] = value->edges[i];
    }
    return n;
}

static weft_status find_group(flow *f, choice_value *value) {
    choice *c = f->c;
    uint32_t *edges = ARENA_ARRAY(c->memory, uint32_t, value->nreaders + 1);
    if (!edges) return base_out_of_memory();
    size_t n = sort_edges(value, edges); /* of one class of vars */
    uint32_t hash = base_hash(edges, n * sizeof *edges);
    table_probe at = table_find(&f->groups, hash);
    for (; at.item != TABLE_NONE; table_next(&f->groups, &at)) {
        const choice_group *g = &c->groups[at.item];
        if (g->nedges == n && memcmp(g->edges, edges, n * sizeof *edges) == 0) break;
    }
    value->group = at.item;
    if (at.item != TABLE_NONE) return c->groups[at.item].count++, NULL;
    TRY(table_reserve(c->memory, &f->groups, c->ngroups + 1));
    TRY(grow(c->memory, &c->groups, &c->group_capacity, c->ngroups + 1, sizeof *c->groups));
    value->group = (uint32_t)c->ngroups++;
    c->groups[value->group] = (choice_group){.var = c->var_class[value->var], .edges = edges, .nedges = n, .count = 1};
    table_add(&f->groups, hash, value->group);
    return NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status begin(flow *f) {
    choice *c = f->c;
    uint32_t *roles = ARENA_ARRAY(c->memory, uint32_t, c->plan->nvars + 1);
    f->maker_role = roles;
    f->last_value = ARENA_ARRAY(c->memory, uint32_t, c->plan->nvars + 1);
    c->op_edges = ARENA_ARRAY(c->memory, uint32_t *, c->plan->nops + 1);
    if (!roles || !f->last_value || !c->op_edges) return base_out_of_memory();
    for (size_t k = c->plan->nops; k-- > 0;) {
        const spmd_op *op = &c->plan->ops[k];
        size_t n = op->kind->rule.nin + op->kind->rule.nout;
        if (!(c->op_edges[k] = ARENA_ARRAY(c->memory, uint32_t, n + 1))) return base_out_of_memory();
        for (size_t o = 0; o < op->kind->rule.nout; o++)
            if (op->out[o]) roles[op->out[o]->var->id] = (uint32_t)op_role(op->op);
    }
    for (size_t k = 0; k < c->nops; k++) TRY(choice_find_ways(c, &c->ops[k]));
    return NULL;
}

static weft_status find_spans(choice *c) {
    c->first = ARENA_ARRAY(c->memory, uint32_t, c->plan->nvars + 1);
    c->last = ARENA_ARRAY(c->memory, uint32_t, c->plan->nvars + 1);
    c->held = ARENA_ARRAY(c->memory, int64_t, c->plan->nops + 1);
    c->change = ARENA_ARRAY(c->memory, int64_t, c->plan->nops + 2);
    if (!c->first || !c->last || !c->held || !c->change) return base_out_of_memory();
    memset(c->first, 0xff, c->plan->nvars * sizeof *c->first);
    for (size_t k = 0; k < c->plan->nops; k++)
        for (int side = 0; side < 2; side++) FOR_EACH_ARG(c->plan->ops[k].op, side, u) {
                if (c->first[u->var_id] == UINT32_MAX) c->first[u->var_id] = (uint32_t)k;
                c->last[u->var_id] = (uint32_t)k;
            }
    return NULL;
}

weft_status choice_find_flow(choice *c) {
    flow f = {.c = c};
    TRY(begin(&f));
    TRY(find_spans(c));
    for (size_t k = 0; k < c->plan->nops; k++) {
        const spmd_op *op = &c->plan->ops[k];
        size_t nin = op->kind->rule.nin;
        for (size_t i = 0; i < nin + op->kind->rule.nout; i++)
            TRY(read_arg(&f, k, i, i < nin ? op->in[i] : op->out[i - nin]));
    }
    for (size_t i = 0; i < c->nvars; i++) TRY(settle_homes(&f, &c->vars[i]));
    for (size_t i = 0; i < c->nvars; i++) TRY(price_homes(c, &c->vars[i]));
    leave_out(c);
    TRY(read_values(&f, false));
    TRY(make_room(&f));
    TRY(read_values(&f, true));
    for (size_t i = 0; i < c->nvalues; i++)
        if (c->values[i].nreaders) TRY(find_group(&f, &c->values[i]));
    return NULL;
}
