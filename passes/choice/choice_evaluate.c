/* choice_evaluate.c: what a choice costs, by going through the program op by op: it knows no rows. */
#include "passes/choice/choice.h"

typedef struct meter {
    choice *c;
    choice_taken *taken;
} meter;

static void hold(meter *m, size_t first, size_t last, int64_t nbytes) {
    m->c->change[first] += nbytes;
    m->c->change[last + 1] -= nbytes;
}

/* Steps of one value from one placement to another. */
static weft_status move(meter *m, uint32_t var, uint32_t from, uint32_t to) {
    const choice_var *v = &m->c->vars[var];
    spmd_path path;
    if (from == to) return NULL;
    if (!spmd_find_path(&m->c->plan->mesh, &v->example->whole, &v->homes[from], &v->homes[to], &path))
        return weft_status_create(WEFT_RUNTIME, NULL, "var %s does not get from one placement to another",
                                  v->example->var->name->bytes);
    m->taken->seconds += choice_step_seconds(m->c, var, from, to);
    m->taken->sent += path.sent;
    return NULL;
}

static weft_status run_op(meter *m, size_t number) {
    const choice *c = m->c;
    const spmd_op *op = &c->plan->ops[number];
    uint32_t class = c->op_class[number];
    const choice_way *way = &c->ops[class].ways[m->taken->way[class]];
    m->taken->seconds += way->seconds;
    m->taken->ops_seconds += way->seconds;
    m->taken->sent += way->sent;
    for (size_t i = 0; i < op->kind->rule.nin + op->kind->rule.nout; i++) {
        if (c->op_edges[number][i] == CHOICE_NONE) continue;
        const choice_edge *e = &c->edges[c->op_edges[number][i]];
        const choice_var *v = &c->vars[e->var];
        uint32_t asked = e->at[m->taken->way[class]], home = m->taken->home[e->var];
        bool same = placed_same_dims(&v->homes[asked], &v->homes[home], v->example->whole.ndim);
        if (e->is_output && !same) hold(m, number, number, v->nbytes[asked]);
        if (e->is_output) TRY(move(m, e->var, asked, home));
        if (e->is_unread && !same) TRY(move(m, e->var, home, asked));
    }
    return NULL;
}

/* What readers of a value have made of it: once for those that read it alike. */
static weft_status read_value(meter *m, const choice_value *x) {
    const choice *c = m->c;
    uint32_t class = c->var_class[x->var], home = m->taken->home[class];
    for (size_t i = 0; i < x->nreaders; i++) {
        const choice_edge *e = &c->edges[x->edges[i]];
        uint32_t asked = e->at[m->taken->way[e->op]];
        size_t last = i, before = 0;
        for (size_t j = 0; j < x->nreaders; j++) {
            const choice_edge *other = &c->edges[x->edges[j]];
            if (other->at[m->taken->way[other->op]] != asked) continue;
            before += j < i;
            if (j > last) last = j;
        }
        if (asked == home || before) continue;
        TRY(move(m, class, home, asked));
        hold(m, x->positions[i], x->positions[last], c->vars[class].nbytes[asked]);
    }
    return NULL;
}

static void hold_names(meter *m) {
    const choice *c = m->c;
    for (size_t id = 0; id < c->plan->nvars; id++) {
        if (c->var_class[id] == CHOICE_NONE) continue;
        const spmd_var *v = &c->plan->vars[id];
        int64_t nbytes = c->vars[c->var_class[id]].nbytes[m->taken->home[c->var_class[id]]];
        if (v->var->persistable)
            m->taken->nkept += nbytes;
        else if (c->first[id] <= c->last[id])
            hold(m, c->first[id], c->last[id], nbytes);
    }
}

weft_status choice_evaluate(choice *c, choice_taken *taken) {
    meter m = {.c = c, .taken = taken};
    memset(c->change, 0, (c->plan->nops + 2) * sizeof *c->change);
    taken->seconds = taken->ops_seconds = taken->sent = 0;
    taken->nbytes = taken->nkept = 0;
    taken->at = 0;
    for (size_t k = 0; k < c->plan->nops; k++) TRY(run_op(&m, k));
    for (size_t i = 0; i < c->nvalues; i++) TRY(read_value(&m, &c->values[i]));
    hold_names(&m);
    int64_t held = taken->nkept;
    for (size_t k = 0; k < c->plan->nops; k++) {
        c->held[k] = held += c->change[k];
        if (held <= taken->nbytes) continue;
        taken->nbytes = held;
        taken->at = k;
    }
    return NULL;
}
