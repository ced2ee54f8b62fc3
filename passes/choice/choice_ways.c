/* choice_ways.c: the ways of an op: each mesh axis shards one of its factors, or none, or sums pass through it along
 * the axis. Axes that shard one factor together do so in the order of the mesh. */
#include "passes/choice/choice.h"

#include "program/grow.h"

enum { NOTHING = -1, MOST_ITEMS = 24, MOST_WAYS = 4096 };

/* What a mesh axis may do: a factor; NOTHING; or a sum (or mean) that passes through the inputs of a group. */
typedef struct item {
    int factor;     /* negative: none */
    int group;      /* negative: none */
    uint8_t reduce; /* 1 + the weft_reduce that passes */
} item;

typedef struct finder {
    choice *c;
    choice_op *op;
    item items[MOST_ITEMS];
    int nitems;
    int chosen[AXES_MESH];
    axes_placed *in, *out; /* being tried */
    size_t capacity;
} finder;

static void add_item(finder *f, item i) {
    if (f->nitems < MOST_ITEMS) f->items[f->nitems++] = i;
}

static void list_items(finder *f) {
    const axes_rule *r = &f->op->example->kind->rule;
    add_item(f, (item){NOTHING, -1, 0});
    for (size_t k = 0; k < r->nfactors; k++)
        if (!r->factors[k].why && r->factors[k].size != 1) add_item(f, (item){(int)k, -1, 0});
    for (size_t g = 0; g < r->ngroups; g++)
        for (int reduce = WEFT_REDUCE_SUM; reduce <= WEFT_REDUCE_AVG; reduce++)
            if ((reduce == WEFT_REDUCE_SUM || reduce == WEFT_REDUCE_AVG) &&
                ((r->groups[g].all | r->groups[g].any) >> reduce & 1))
                add_item(f, (item){NOTHING, (int)g, (uint8_t)(1 + reduce)});
}

/* False: the argument cannot lie so. */
static bool place_input(const finder *f, size_t i, axes_placed *need) {
    const spmd_op *op = f->op->example;
    const axes_arg *x = &op->kind->rule.in[i];
    const spmd_var *v = op->in[i];
    static const uint8_t in_order[AXES_MESH] = {0, 1, 2, 3};
    const spmd_mesh *m = &f->c->plan->mesh;
    int factors[AXES_MESH];
    *need = (axes_placed){.naxes = {0}};
    if (!v || x->any || x->ndim < 0 || v->whole.ndim != x->ndim) return true;
    for (int a = 0; a < m->axes.naxes; a++) {
        const item *it = &f->items[f->chosen[a]];
        factors[a] = it->factor;
        if (it->reduce && op->kind->reads[i] && (x->in_group >> it->group & 1)) need->partial[a] = it->reduce;
    }
    for (int d = 0; d < x->ndim; d++) {
        spmd_place_dim(&op->kind->rule, &m->axes, x, d, factors, in_order, need);
        if (placed_fitting(m, need, d, v->whole.dims[d]) < need->naxes[d]) return false;
    }
    return true;
}

static bool is_possible(const finder *f, const axes_placed *made) {
    for (int a = 0; a < f->c->plan->mesh.axes.naxes; a++)
        if (made->partial[a] > 1 + WEFT_REDUCE_AVG) return false;
    return true;
}

static weft_status keep_way(finder *f, double form_sent) {
    choice_op *op = f->op;
    size_t nin = op->example->kind->rule.nin, nout = op->example->kind->rule.nout;
    TRY(grow(f->c->memory, &op->ways, &f->capacity, op->nways + 1, sizeof *op->ways));
    choice_way *w = &op->ways[op->nways];
    *w = (choice_way){.in = arena_copy(f->c->memory, f->in, (nin + 1) * sizeof *w->in),
                      .out = arena_copy(f->c->memory, f->out, (nout + 1) * sizeof *w->out),
                      .sent = form_sent};
    if (!w->in || !w->out) return base_out_of_memory();
    op->nways++;
    TRY(choice_op_seconds(f->c, op->example, w, &w->seconds));
    for (int a = 0; a < f->c->plan->mesh.axes.naxes && form_sent > 0; a++) {
        double n = op->example->kind->form == FORM_MEAN ? 2 : 3, one; /* sums over ranks, one after another */
        if (f->items[f->chosen[a]].factor != (int)op->example->kind->special) continue;
        TRY(spmd_sum_seconds(&f->c->prices, a, form_sent / n, &one));
        w->seconds += n * one;
    }
    return NULL;
}

static weft_status try_way(finder *f) {
    const spmd_op *op = f->op->example;
    const axes_rule *r = &op->kind->rule;
    const spmd_mesh *m = &f->c->plan->mesh;
    for (size_t i = 0; i < r->nin; i++)
        if (!place_input(f, i, &f->in[i])) return NULL;
    if (axes_follow(r, &m->axes, f->in, f->out)) return NULL;
    for (size_t o = 0; o < r->nout; o++) {
        const spmd_var *v = op->out[o];
        if (v && !is_possible(f, &f->out[o])) return NULL;
    }
    if (!spmd_form_fits(f->c->plan, op, f->in, f->out)) return NULL;
    for (size_t k = 0; k < f->op->nways; k++) { /* another factor may come to the same */
        const choice_way *w = &f->op->ways[k];
        bool same = true;
        for (size_t i = 0; i < r->nin && same; i++)
            same = placed_same(&w->in[i], &f->in[i], WEFT_MAX_RANK, m->axes.naxes);
        for (size_t o = 0; o < r->nout && same; o++)
            same = placed_same(&w->out[o], &f->out[o], WEFT_MAX_RANK, m->axes.naxes);
        if (same) return NULL;
    }
    return f->op->nways < MOST_WAYS ? keep_way(f, spmd_form_sent(f->c->plan, op, f->in, f->out)) : NULL;
}

static weft_status try_all(finder *f, int axis) {
    const axes_mesh *m = &f->c->plan->mesh.axes;
    if (axis == m->naxes) return try_way(f);
    for (int i = 0; i < (m->extent[axis] > 1 ? f->nitems : 1); i++) {
        f->chosen[axis] = i;
        TRY(try_all(f, axis + 1));
    }
    return NULL;
}

weft_status choice_find_ways(choice *c, choice_op *op) {
    const axes_rule *r = &op->example->kind->rule;
    finder f = {.c = c, .op = op};
    f.in = ARENA_ARRAY(c->memory, axes_placed, r->nin + 1);
    f.out = ARENA_ARRAY(c->memory, axes_placed, r->nout + 1);
    if (!f.in || !f.out) return base_out_of_memory();
    if (op->example->kind->why_whole || (!r->nin && !r->nout)) return keep_way(&f, 0);
    list_items(&f);
    TRY(try_all(&f, 0));
    return op->nways ? NULL : keep_way(&f, 0);
}
