/* choice_rows.c: the integer program of a choice.
 *
 * A column for each way of an op and each home of a var, of which one is taken. Along an edge one unit flows from the
 * home to the placement that the way asks for, or from what it makes to the home: so the price of the steps between is
 * a sum of columns, and not a product. Where several edges read a value, what is made of it is a column that is no less
 * than what flows along each: a version is made once. Flows of 0 and 1 follow from whole ways and homes. */
#include "passes/choice/choice.h"

static const double microseconds = 1e6; /* a price of 1 is a microsecond */

/* One of n columns is taken. */
static weft_status one_of(integer_program *p, uint32_t first, size_t n) {
    uint32_t row;
    TRY(ip_add_row(p, 1, 1, &row));
    for (size_t i = 0; i < n; i++) TRY(ip_put(p, row, first + (uint32_t)i, 1));
    return NULL;
}

static weft_status write_op(choice *c, choice_op *op) {
    uint32_t column;
    op->first_column = (uint32_t)c->ip.ncolumns;
    for (size_t w = 0; w < op->nways; w++)
        TRY(ip_add_column(&c->ip, 0, choice_has_way(&op->ways[w]) ? 1 : 0,
                          microseconds * op->count * op->ways[w].seconds, true, &column));
    return one_of(&c->ip, op->first_column, op->nways);
}

static weft_status write_var(choice *c, choice_var *v) {
    uint32_t column;
    v->first_column = (uint32_t)c->ip.ncolumns;
    for (size_t p = 0; p < v->nhomes; p++)
        TRY(ip_add_column(&c->ip, 0, choice_has_home(v, p) ? 1 : 0, 0, true, &column));
    return one_of(&c->ip, v->first_column, v->nhomes);
}

/* --- edges -------------------------------------------------------------------------------------------------------- */

static bool is_asked(const choice *c, const choice_edge *e, uint32_t q) {
    for (size_t w = 0; w < c->ops[e->op].nways; w++)
        if (e->at[w] == q && choice_has_way(&c->ops[e->op].ways[w])) return true;
    return false;
}

/* What flows out of a home, or into it, is 1 where that is taken. */
static weft_status tie_homes(choice *c, const choice_edge *e) {
    const choice_var *v = &c->vars[e->var];
    uint32_t row;
    for (uint32_t p = 0; p < v->nhomes; p++) {
        if (!choice_has_home(v, p)) continue;
        TRY(ip_add_row(&c->ip, 0, 0, &row));
        TRY(ip_put(&c->ip, row, v->first_column + p, -1));
        for (uint32_t q = 0; q < v->nhomes; q++)
            if (e->columns[p * v->nhomes + q] != CHOICE_NONE)
                TRY(ip_put(&c->ip, row, e->columns[p * v->nhomes + q], 1));
    }
    return NULL;
}

static weft_status tie_ways(choice *c, const choice_edge *e) {
    const choice_var *v = &c->vars[e->var];
    const choice_op *op = &c->ops[e->op];
    uint32_t row;
    for (uint32_t q = 0; q < v->nhomes; q++) {
        if (!is_asked(c, e, q)) continue;
        TRY(ip_add_row(&c->ip, 0, 0, &row));
        for (size_t w = 0; w < op->nways; w++)
            if (e->at[w] == q) TRY(ip_put(&c->ip, row, op->first_column + (uint32_t)w, -1));
        for (uint32_t p = 0; p < v->nhomes; p++)
            if (e->columns[p * v->nhomes + q] != CHOICE_NONE)
                TRY(ip_put(&c->ip, row, e->columns[p * v->nhomes + q], 1));
    }
    return NULL;
}

static weft_status write_edge(choice *c, choice_edge *e) {
    const choice_var *v = &c->vars[e->var];
    e->columns = ARENA_ARRAY(c->memory, uint32_t, v->nhomes * v->nhomes);
    if (!e->columns) return base_out_of_memory();
    for (uint32_t p = 0; p < v->nhomes; p++)
        for (uint32_t q = 0; q < v->nhomes; q++) {
            uint32_t *column = &e->columns[p * v->nhomes + q];
            double seconds = e->is_output ? choice_edge_seconds(c, e, q, p) : choice_edge_seconds(c, e, p, q);
            *column = CHOICE_NONE;
            if (!choice_has_home(v, p) || seconds < 0 || !is_asked(c, e, q)) continue;
            bool own = e->is_output || e->is_unread; /* of others, groups know what is shared */
            TRY(ip_add_column(&c->ip, 0, 1, own ? microseconds * e->count * seconds : 0, false, column));
        }
    TRY(tie_homes(c, e));
    return tie_ways(c, e);
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

static void price_alone(choice *c, const choice_group *g) {
    const choice_var *v = &c->vars[g->var];
    const choice_edge *e = &c->edges[g->edges[0]];
    for (uint32_t p = 0; p < v->nhomes; p++)
        for (uint32_t q = 0; q < v->nhomes; q++)
            if (e->columns[p * v->nhomes + q] != CHOICE_NONE)
                c->ip.cost[e->columns[p * v->nhomes + q]] +=
                    microseconds * g->count * choice_step_seconds(c, g->var, p, q);
}

/* What is made of a home for all that read it so. */
static weft_status share(choice *c, choice_group *g, uint32_t p, uint32_t q) {
    const choice_var *v = &c->vars[g->var];
    size_t at = p * v->nhomes + q;
    uint32_t row;
    g->columns[at] = CHOICE_NONE;
    if (p == q) return NULL;
    for (size_t i = 0; i < g->nedges; i++) {
        uint32_t flow = c->edges[g->edges[i]].columns[at];
        if (flow == CHOICE_NONE) continue;
        if (g->columns[at] == CHOICE_NONE)
            TRY(ip_add_column(&c->ip, 0, 1, microseconds * g->count * choice_step_seconds(c, g->var, p, q), false,
                              &g->columns[at]));
        TRY(ip_add_row(&c->ip, 0, IP_FREE, &row));
        TRY(ip_put(&c->ip, row, g->columns[at], 1));
        TRY(ip_put(&c->ip, row, flow, -1));
    }
    return NULL;
}

static weft_status write_group(choice *c, choice_group *g) {
    const choice_var *v = &c->vars[g->var];
    g->columns = NULL;
    if (g->nedges == 1) return price_alone(c, g), NULL;
    g->columns = ARENA_ARRAY(c->memory, uint32_t, v->nhomes * v->nhomes);
    if (!g->columns) return base_out_of_memory();
    for (uint32_t p = 0; p < v->nhomes; p++)
        for (uint32_t q = 0; q < v->nhomes; q++) TRY(share(c, g, p, q));
    return NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

weft_status choice_write_rows(choice *c, bool least_memory) {
    c->ip.ncolumns = c->ip.nrows = c->ip.nentries = 0;
    c->most = CHOICE_NONE;
    for (size_t k = 0; k < c->nops; k++) TRY(write_op(c, &c->ops[k]));
    for (size_t i = 0; i < c->nvars; i++) TRY(write_var(c, &c->vars[i]));
    for (size_t i = 0; i < c->nedges; i++) TRY(write_edge(c, &c->edges[i]));
    for (size_t i = 0; i < c->ngroups; i++) TRY(write_group(c, &c->groups[i]));
    if (least_memory) {
        for (size_t i = 0; i < c->ip.ncolumns; i++) c->ip.cost[i] = 0;
        TRY(ip_add_column(&c->ip, 0, IP_FREE, 1, false, &c->most));
    }
    for (size_t i = 0; i < c->ncuts; i++) TRY(choice_bound(c, c->cuts[i]));
    return NULL;
}

static uint32_t taken_of(const double *values, size_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (values[i] > values[best]) best = i;
    return best;
}

void choice_read_answer(const choice *c, const ip_answer *answer, choice_taken *out) {
    for (size_t k = 0; k < c->nops; k++)
        out->way[k] = taken_of(answer->values + c->ops[k].first_column, c->ops[k].nways);
    for (size_t i = 0; i < c->nvars; i++)
        out->home[i] = taken_of(answer->values + c->vars[i].first_column, c->vars[i].nhomes);
}
