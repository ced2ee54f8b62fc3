/* choice_classes.c: ops and vars that are alike, in a program of equal layers.
 *
 * Ops of one kind are alike, then those whose arguments are alike too, and so on: each round tells more apart. The last
 * round that leaves at most so many classes counts. Programs of fewer ops have a class for each. */
#include "passes/choice/choice.h"

typedef struct colours {
    choice *c;
    uint64_t *op, *var, *next_op, *next_var, *seen;
    size_t nvars;
} colours;

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

/* Of its own: type, how it is kept, what is annotated. */
static uint64_t colour_var(const choice *c, const spmd_var *v) {
    uint64_t h = mix((uint64_t)v->whole.dtype, (uint64_t)v->whole.ndim);
    h = mix(h, (uint64_t)(v->is_kept | v->is_fixed << 1 | v->is_pinned << 2 | v->var->persistable << 3 |
                          (v->nreaders > 0) << 4));
    for (int d = 0; d < v->whole.ndim; d++) {
        h = mix(h, (uint64_t)v->whole.dims[d]);
        for (int i = 0; v->is_fixed && i < v->want.naxes[d]; i++) h = mix(h, 1u + v->want.axes[d][i]);
    }
    for (int a = 0; v->is_fixed && a < c->plan->mesh.axes.naxes; a++) h = mix(h, v->want.partial[a]);
    return h;
}

static void colour_arg(colours *k, size_t number, size_t arg, const spmd_var *v) {
    if (!v) return;
    k->next_op[number] = mix(k->next_op[number], k->var[v->var->id]);
    k->next_var[v->var->id] += mix(k->op[number], arg); /* in no order */
}

static void next_round(colours *k) {
    const spmd_plan *plan = k->c->plan;
    memcpy(k->next_op, k->op, plan->nops * sizeof *k->op);
    for (size_t i = 0; i < k->nvars; i++) k->next_var[i] = mix(k->var[i], 1);
    for (size_t n = 0; n < plan->nops; n++) {
        const spmd_op *op = &plan->ops[n];
        for (size_t i = 0; i < op->kind->rule.nin; i++) colour_arg(k, n, i, op->in[i]);
        for (size_t o = 0; o < op->kind->rule.nout; o++) colour_arg(k, n, op->kind->rule.nin + o, op->out[o]);
    }
}

/* Numbers colours in the order in which they come; returns how many there are. */
static weft_status number(colours *k, const uint64_t *colour, size_t n, uint32_t *out, size_t *out_count) {
    hash_table table = {0};
    TRY(table_reserve(k->c->memory, &table, n + 1));
    *out_count = 0;
    for (size_t i = 0; i < n; i++) {
        if (out[i] == CHOICE_NONE) continue;
        table_probe at = table_find(&table, table_hash(colour[i]));
        while (at.item != TABLE_NONE && k->seen[at.item] != colour[i]) table_next(&table, &at);
        if (at.item == TABLE_NONE) {
            k->seen[*out_count] = colour[i];
            table_put(&table, &at, (uint32_t)(*out_count)++);
        }
        out[i] = at.item;
    }
    return NULL;
}

static void swap(uint64_t **a, uint64_t **b) {
    uint64_t *x = *a;
    *a = *b, *b = x;
}

static weft_status tell_apart(colours *k, size_t most) {
    choice *c = k->c;
    size_t before = 0, count;
    for (int round = 0; round < 64; round++) {
        next_round(k);
        TRY(number(k, k->next_op, c->plan->nops, c->op_class, &count));
        if (count > most || count == before) break;
        before = count;
        swap(&k->op, &k->next_op);
        swap(&k->var, &k->next_var);
    }
    return NULL;
}

static weft_status begin(colours *k, bool alone) {
    choice *c = k->c;
    const spmd_plan *plan = c->plan;
    size_t n = plan->nops > plan->nvars ? plan->nops : plan->nvars;
    k->nvars = plan->nvars;
    uint64_t *room = ARENA_ARRAY(c->memory, uint64_t, 5 * (n + 1));
    c->op_class = ARENA_ARRAY(c->memory, uint32_t, plan->nops + 1);
    c->var_class = ARENA_ARRAY(c->memory, uint32_t, plan->nvars + 1);
    if (!room || !c->op_class || !c->var_class) return base_out_of_memory();
    k->op = room, k->var = room + (n + 1), k->next_op = room + 2 * (n + 1), k->next_var = room + 3 * (n + 1);
    k->seen = room + 4 * (n + 1);
    for (size_t i = 0; i < plan->nops; i++) k->op[i] = alone ? i : (uint64_t)(uintptr_t)plan->ops[i].kind;
    for (size_t i = 0; i < plan->nvars; i++) {
        const spmd_var *v = &plan->vars[i];
        bool counts = v->counts && v->var->block == plan->block;
        c->var_class[i] = counts ? 0 : CHOICE_NONE;
        if (counts) k->var[i] = alone ? i : colour_var(c, v);
    }
    return NULL;
}

static weft_status collect(choice *c) {
    c->ops = ARENA_ARRAY(c->memory, choice_op, c->nops + 1);
    c->vars = ARENA_ARRAY(c->memory, choice_var, c->nvars + 1);
    if (!c->ops || !c->vars) return base_out_of_memory();
    for (size_t i = 0; i < c->plan->nops; i++) {
        choice_op *op = &c->ops[c->op_class[i]];
        if (!op->count++) op->example = &c->plan->ops[i];
    }
    for (size_t i = 0; i < c->plan->nvars; i++) {
        if (c->var_class[i] == CHOICE_NONE) continue;
        choice_var *v = &c->vars[c->var_class[i]];
        if (v->count++) continue;
        v->example = &c->plan->vars[i];
        v->is_annotated = v->example->is_fixed;
    }
    return NULL;
}

weft_status choice_find_classes(choice *c, size_t most) {
    colours k = {.c = c};
    bool alone = c->plan->nops <= most;
    TRY(begin(&k, alone));
    if (!alone) TRY(tell_apart(&k, most));
    TRY(number(&k, k.op, c->plan->nops, c->op_class, &c->nops));
    TRY(number(&k, k.var, c->plan->nvars, c->var_class, &c->nvars));
    return collect(c);
}
