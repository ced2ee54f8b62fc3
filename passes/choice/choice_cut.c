/* choice_cut.c: the row that bounds what a rank holds while one op runs.
 *
 * A name is held from the first op that names it to the last, state always; what is made of it for readers, from the
 * first of those that read it so to the last; what an op makes for it under another placement, while the op runs. */
#include "passes/choice/choice.h"
#include "program/grow.h"

typedef struct cut {
    choice *c;
    uint32_t at;
    double *factor; /* by column that was there before the row */
    uint32_t row;
    hash_table table; /* of made: those that lie alike about the op */
    struct made {
        uint64_t key;
        uint32_t *columns; /* by placement; NONE: none yet */
    } * made;
    size_t nmade, made_capacity;
} cut;

static bool is_held(const choice *c, const spmd_var *v, uint32_t at) {
    return v->var->persistable || (c->first[v->var->id] <= at && at <= c->last[v->var->id]);
}

static void hold_names(cut *k) {
    const choice *c = k->c;
    for (size_t id = 0; id < c->plan->nvars; id++) {
        if (c->var_class[id] == CHOICE_NONE || !is_held(c, &c->plan->vars[id], k->at)) continue;
        const choice_var *v = &c->vars[c->var_class[id]];
        for (size_t p = 0; p < v->nhomes; p++) k->factor[v->first_column + p] += choice_unit(c) * (double)v->nbytes[p];
    }
}

static void hold_outputs(cut *k) {
    const choice *c = k->c;
    const spmd_op *op = &c->plan->ops[k->at];
    size_t nin = op->kind->rule.nin;
    for (size_t o = 0; o < op->kind->rule.nout; o++) {
        if (c->op_edges[k->at][nin + o] == CHOICE_NONE) continue;
        const choice_edge *e = &c->edges[c->op_edges[k->at][nin + o]];
        const choice_var *v = &c->vars[e->var];
        for (size_t p = 0; p < v->nhomes; p++)
            for (size_t q = 0; q < v->nhomes; q++)
                if (e->columns[p * v->nhomes + q] != CHOICE_NONE &&
                    !placed_same_dims(&v->homes[p], &v->homes[q], v->example->whole.ndim))
                    k->factor[e->columns[p * v->nhomes + q]] += choice_unit(c) * (double)v->nbytes[q];
    }
}

/* Puts the sum, over other homes, of what is made into `q`. */
static weft_status put_made(cut *k, uint32_t row, const uint32_t *columns, const choice_var *v, uint32_t q,
                            double factor) {
    for (uint32_t p = 0; p < v->nhomes; p++)
        if (p != q && columns[p * v->nhomes + q] != CHOICE_NONE)
            TRY(ip_put(&k->c->ip, row, columns[p * v->nhomes + q], factor));
    return NULL;
}

/* Held is no less than what the edge reads so; or, of two edges, than both less what is made once for them. */
static weft_status hold_no_less(cut *k, uint32_t held, const choice_value *x, uint32_t q, uint32_t a, uint32_t b) {
    const choice *c = k->c;
    const choice_group *g = &c->groups[x->group];
    const choice_var *v = &c->vars[g->var];
    uint32_t row;
    TRY(ip_add_row(&k->c->ip, 0, IP_FREE, &row));
    TRY(ip_put(&k->c->ip, row, held, 1));
    TRY(put_made(k, row, c->edges[a].columns, v, q, -1));
    if (a == b) return NULL;
    TRY(put_made(k, row, c->edges[b].columns, v, q, -1));
    return put_made(k, row, g->columns, v, q, 1);
}

static weft_status hold_placement(cut *k, const choice_value *x, uint32_t q, uint32_t held) {
    for (size_t i = 0; i < x->nreaders; i++) {
        if (x->positions[i] == k->at) TRY(hold_no_less(k, held, x, q, x->edges[i], x->edges[i]));
        for (size_t j = 0; j < x->nreaders && x->positions[i] < k->at; j++)
            if (x->positions[j] > k->at) TRY(hold_no_less(k, held, x, q, x->edges[i], x->edges[j]));
    }
    return NULL;
}

static uint64_t key_of(const cut *k, const choice_value *x) {
    uint64_t h = x->group;
    for (size_t i = 0; i < x->nreaders; i++) {
        uint64_t side = x->positions[i] < k->at ? 0 : x->positions[i] == k->at ? 1 : 2;
        h = (h ^ ((uint64_t)x->edges[i] << 2 | side)) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 31;
    }
    return h;
}

static weft_status find_made(cut *k, const choice_value *x, uint32_t **out) {
    choice *c = k->c;
    const choice_var *v = &c->vars[c->groups[x->group].var];
    uint64_t key = key_of(k, x);
    table_probe at = table_find(&k->table, table_hash(key));
    while (at.item != TABLE_NONE && k->made[at.item].key != key) table_next(&k->table, &at);
    if (at.item != TABLE_NONE) return *out = k->made[at.item].columns, NULL;
    TRY(table_reserve(c->memory, &k->table, k->nmade + 1));
    TRY(grow(c->memory, &k->made, &k->made_capacity, k->nmade + 1, sizeof *k->made));
    uint32_t *columns = ARENA_ARRAY(c->memory, uint32_t, v->nhomes);
    if (!columns) return base_out_of_memory();
    for (uint32_t q = 0; q < v->nhomes; q++) {
        TRY(ip_add_column(&c->ip, 0, 1, 0, false, &columns[q]));
        TRY(hold_placement(k, x, q, columns[q]));
    }
    k->made[k->nmade] = (struct made){key, columns};
    table_add(&k->table, table_hash(key), (uint32_t)k->nmade++);
    *out = columns;
    return NULL;
}

/* What is made of a value for its readers. Entries of the row itself wait, since a column is in it once. */
static weft_status hold_made(cut *k, double **factor, size_t *nfactors) {
    choice *c = k->c;
    for (size_t i = 0; i < c->nvalues; i++) {
        const choice_value *x = &c->values[i];
        if (!x->nreaders || x->positions[0] > k->at || x->positions[x->nreaders - 1] < k->at) continue;
        const choice_var *v = &c->vars[c->groups[x->group].var];
        uint32_t *columns = NULL;
        TRY(find_made(k, x, &columns));
        if (c->ip.ncolumns > *nfactors) {
            double *larger = ARENA_ARRAY(c->memory, double, 2 * c->ip.ncolumns);
            if (!larger) return base_out_of_memory();
            memcpy(larger, *factor, *nfactors * sizeof **factor);
            *factor = larger;
            *nfactors = 2 * c->ip.ncolumns;
        }
        for (uint32_t q = 0; q < v->nhomes; q++) (*factor)[columns[q]] += choice_unit(c) * (double)v->nbytes[q];
    }
    return NULL;
}

weft_status choice_bound(choice *c, size_t at) {
    cut k = {.c = c, .at = (uint32_t)at};
    size_t nfactors = c->ip.ncolumns;
    double *factor = ARENA_ARRAY(c->memory, double, nfactors + 1);
    if (!factor) return base_out_of_memory();
    k.factor = factor;
    hold_names(&k);
    hold_outputs(&k);
    TRY(hold_made(&k, &factor, &nfactors));
    bool limited = c->most == CHOICE_NONE;
    TRY(ip_add_row(&c->ip, -IP_FREE, limited ? choice_unit(c) * (double)c->limit : 0, &k.row));
    for (uint32_t i = 0; i < nfactors && i < c->ip.ncolumns; i++) TRY(ip_put(&c->ip, k.row, i, factor[i]));
    return limited ? NULL : ip_put(&c->ip, k.row, c->most, -1);
}
