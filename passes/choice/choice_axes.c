/* choice_axes.c: large programs on meshes of several axes. What lies along the other axes stays. Ways and homes of one
 * axis are chosen by an integer program as small as that of a mesh of one axis; then those of the next. Each answer is
 * no dearer than the one before, since that is one of its choices. The bound is what ops take at least. */
#include "passes/choice/choice.h"

enum { MOST_SWEEPS = 4 };

static size_t count_columns(const choice *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->nedges; i++) {
        const choice_edge *e = &c->edges[i];
        const choice_var *v = &c->vars[e->var];
        size_t nmay = 0;
        for (size_t p = 0; p < v->nhomes; p++) nmay += v->may[p];
        n += nmay * v->nhomes / 2; /* of these pairs some are no moves */
    }
    return n;
}

static bool same_along(const axes_placed *a, const axes_placed *b, int32_t ndim, int axis) {
    return a->partial[axis] == b->partial[axis] && placed_dim_of(a, ndim, axis) == placed_dim_of(b, ndim, axis);
}

static bool same_besides(const choice *c, const axes_placed *a, const axes_placed *b, int32_t ndim, int axis) {
    bool same = true;
    for (int i = 0; i < c->plan->mesh.axes.naxes; i++) same &= i == axis || same_along(a, b, ndim, i);
    return same;
}

static bool is_open_way(const choice *c, const choice_op *op, const choice_way *now, const choice_way *w, int axis) {
    const axes_rule *r = &op->example->kind->rule;
    bool same = true;
    for (size_t i = 0; i < r->nin; i++) same &= same_besides(c, &now->in[i], &w->in[i], WEFT_MAX_RANK, axis);
    for (size_t o = 0; o < r->nout; o++) same &= same_besides(c, &now->out[o], &w->out[o], WEFT_MAX_RANK, axis);
    return same;
}

/* What differs from `now` along other axes is shut. Axis -1: nothing is. */
static void open_axis(choice *c, const choice_taken *now, int axis) {
    for (size_t k = 0; k < c->nops; k++)
        for (size_t w = 0; w < c->ops[k].nways; w++) {
            choice_op *op = &c->ops[k];
            op->ways[w].is_shut =
                axis >= 0 && w != now->way[k] && !is_open_way(c, op, &op->ways[now->way[k]], &op->ways[w], axis);
        }
    for (size_t i = 0; i < c->nvars; i++)
        for (size_t p = 0; p < c->vars[i].nhomes; p++) {
            choice_var *v = &c->vars[i];
            v->is_shut[p] = axis >= 0 && p != now->home[i] &&
                            !same_besides(c, &v->homes[now->home[i]], &v->homes[p], v->example->whole.ndim, axis);
        }
}

/* Everything whole, but for what is annotated. */
static weft_status begin(choice *c, choice_result *out) {
    *out = (choice_result){.state = IP_FOUND};
    out->taken.way = ARENA_ARRAY(c->memory, uint32_t, c->nops + 1);
    out->taken.home = ARENA_ARRAY(c->memory, uint32_t, c->nvars + 1);
    if (!out->taken.way || !out->taken.home) return base_out_of_memory();
    for (size_t i = 0; i < c->nvars; i++) {
        const choice_var *v = &c->vars[i];
        uint32_t home = 0;
        for (uint32_t p = 0; p < v->nhomes; p++)
            if (v->may[p] && (!v->may[home] || placed_same(&v->homes[p], &(axes_placed){.naxes = {0}},
                                                           v->example->whole.ndim, c->plan->mesh.axes.naxes)))
                home = p;
        out->taken.home[i] = home;
    }
    return choice_evaluate(c, &out->taken);
}

static double least_of_ops(const choice *c) {
    double sum = 0;
    for (size_t k = 0; k < c->nops; k++) {
        double least = c->ops[k].ways[0].seconds;
        for (size_t w = 1; w < c->ops[k].nways; w++)
            if (!c->ops[k].ways[w].is_left && c->ops[k].ways[w].seconds < least) least = c->ops[k].ways[w].seconds;
        sum += c->ops[k].count * least;
    }
    return sum;
}

/* Whether the second is better: it fits where the first does not, or is cheaper. */
static bool is_better(const choice *c, bool least_memory, const choice_taken *old, const choice_taken *new) {
    bool fits = !c->limit || new->nbytes <= c->limit, fitted = !c->limit || old->nbytes <= c->limit;
    if (least_memory || (!fits && !fitted)) return new->nbytes < old->nbytes;
    return fits != fitted ? fits : new->seconds < old->seconds *(1 - 1e-9);
}

/* The best along one axis; where nothing fits along it, what holds least. */
static weft_status solve_axis(choice *c, bool least_memory, int axis, choice_result *now, bool *out_better) {
    choice_result one;
    open_axis(c, &now->taken, axis);
    TRY(choice_solve(c, least_memory, &one));
    if (one.state == IP_NONE && !least_memory) TRY(choice_solve(c, true, &one));
    now->rounds += one.rounds;
    now->is_stopped |= one.state == IP_STOPPED || one.state == IP_FOUND;
    if (one.state == IP_NONE || one.state == IP_STOPPED || !is_better(c, least_memory, &now->taken, &one.taken))
        return NULL;
    now->taken = one.taken;
    *out_better = true;
    return NULL;
}

weft_status choice_solve_by_axis(choice *c, bool least_memory, choice_result *out) {
    int naxes = c->plan->mesh.axes.naxes;
    bool better = true;
    if (naxes < 2 || count_columns(c) <= c->most_columns) return choice_solve(c, least_memory, out);
    TRY(begin(c, out));
    for (; better && out->sweeps < MOST_SWEEPS; out->sweeps++) {
        better = false;
        for (int a = 0; a < naxes; a++)
            if (c->plan->mesh.axes.extent[a] > 1) TRY(solve_axis(c, least_memory, a, out, &better));
    }
    open_axis(c, &out->taken, -1);
    out->bound = least_of_ops(c);
    if (!least_memory && c->limit && out->taken.nbytes > c->limit) out->state = out->is_stopped ? IP_STOPPED : IP_NONE;
    return choice_evaluate(c, &out->taken);
}
