/* choice_report.c: what was chosen, and why: which op reads a var, or leaves it, so; what it costs to be brought
 * elsewhere; and what its next best home would cost, all else being equal. */
#include "passes/choice/choice.h"

#include <stdio.h>

#include "base/json.h"

enum { WORDS = 200 };
static const double mebibytes = 1.0 / (1 << 20);

/* --- one class of vars -------------------------------------------------------------------------------------------- */

/* What steps take where the class has the home, and all else stays; negative: it cannot be. */
static double price_home(const choice *c, const choice_taken *taken, uint32_t class, uint32_t home) {
    double sum = 0;
    for (size_t i = 0; i < c->nedges; i++) {
        const choice_edge *e = &c->edges[i];
        if (e->var != class || (!e->is_output && !e->is_unread)) continue;
        uint32_t asked = e->at[taken->way[e->op]];
        double own = e->is_output ? choice_edge_seconds(c, e, asked, home) : choice_edge_seconds(c, e, home, asked);
        if (own < 0) return -1;
        sum += e->count * own;
    }
    for (size_t g = 0; g < c->ngroups; g++) {
        const choice_group *of = &c->groups[g];
        for (size_t i = 0; i < of->nedges && of->var == class; i++) {
            uint32_t asked = c->edges[of->edges[i]].at[taken->way[c->edges[of->edges[i]].op]];
            bool again = false;
            for (size_t k = 0; k < i; k++)
                again |= c->edges[of->edges[k]].at[taken->way[c->edges[of->edges[k]].op]] == asked;
            double own = again ? 0 : choice_step_seconds(c, class, home, asked);
            if (own < 0) return -1;
            sum += of->count * own;
        }
    }
    return sum;
}

/* The op that reads the class as it lies, else one that leaves it so. */
static const spmd_op *op_that_wants(const choice *c, const choice_taken *taken, uint32_t class, bool *out_reads) {
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < c->nedges; i++) {
            const choice_edge *e = &c->edges[i];
            if (e->var != class || e->is_output != (side == 1) || e->at[taken->way[e->op]] != taken->home[class])
                continue;
            *out_reads = side == 0;
            return c->ops[e->op].example;
        }
    return NULL;
}

static void say_next(const choice *c, const choice_taken *taken, uint32_t class, char *out, size_t room) {
    const choice_var *v = &c->vars[class];
    char words[WORDS];
    double own = price_home(c, taken, class, taken->home[class]), best = -1;
    uint32_t next = 0;
    for (uint32_t p = 0; p < v->nhomes; p++) {
        double other = v->may[p] && p != taken->home[class] ? price_home(c, taken, class, p) : -1;
        if (other < 0 || (best >= 0 && other >= best)) continue;
        best = other;
        next = p;
    }
    if (best < 0)
        snprintf(out, room, "it can lie no other way");
    else
        snprintf(out, room, "%s would take %.3g us %s",
                 placed_text(&c->plan->mesh, &v->homes[next], v->example->whole.ndim, words, sizeof words),
                 1e6 * (best < own ? own - best : best - own), best < own ? "less, and hold more" : "more");
}

/* Who wants it so, and what else it could be. */
static void say_why(const choice *c, const choice_taken *taken, uint32_t class, char *out, size_t room) {
    char next[2 * WORDS], wanted[WORDS] = "nothing reads it";
    bool reads = false;
    const spmd_op *by = op_that_wants(c, taken, class, &reads);
    if (by)
        snprintf(wanted, sizeof wanted, "so %s #%u %s it", by->op->type->bytes, by->op->mark,
                 reads ? "reads" : "leaves");
    if (c->vars[class].is_annotated) snprintf(wanted, sizeof wanted, "it is annotated");
    say_next(c, taken, class, next, sizeof next);
    snprintf(out, room, "%s; %s", wanted, next);
}

static weft_status report_var(choice *c, const choice_taken *taken, uint32_t class) {
    const choice_var *v = &c->vars[class];
    const kept_shape *whole = &v->example->whole;
    char where[WORDS], others[40] = "", why[3 * WORDS];
    if (v->count > 1) snprintf(others, sizeof others, " and %u like it", v->count - 1);
    say_why(c, taken, class, why, sizeof why);
    return weft_pass_did(c->plan->pass, "%s%s: %s, %.3g of %.3g MiB: %s", v->example->var->name->bytes, others,
                         placed_text(&c->plan->mesh, &v->homes[taken->home[class]], whole->ndim, where, sizeof where),
                         mebibytes * (double)v->nbytes[taken->home[class]],
                         mebibytes * (double)placed_nbytes(&c->plan->mesh, &(axes_placed){.naxes = {0}}, whole), why);
}

/* The member "chosen" of the sidecar's entry. */
static weft_status write_reason(choice *c, const char *why, weft_var *var) {
    buffer json;
    var_rest *rest;
    weft_program *program = c->plan->program;
    buffer_init(&json, &program->context->allocator);
    buffer_text(&json, "{\"chosen\":");
    json_put_string(&json, why, strlen(why));
    buffer_text(&json, "}");
    weft_status status = buffer_status(&json);
    if (!status) status = var_rest_get(program, var, &rest);
    if (!status && !(rest->dist_extra_json = arena_string(&program->arena, json.bytes, json.nbytes)))
        status = base_out_of_memory();
    buffer_fini(&json);
    return status;
}

weft_status choice_write_reasons(choice *c, const choice_taken *taken) {
    typedef char words[3 * WORDS];
    words *why = ARENA_ARRAY(c->memory, words, c->nvars + 1);
    if (!why) return base_out_of_memory();
    for (uint32_t i = 0; i < c->nvars; i++) say_why(c, taken, i, why[i], sizeof why[i]);
    for (size_t i = 0; i < c->plan->nvars; i++) {
        weft_var *var = c->plan->vars[i].var;
        if (c->var_class[i] != CHOICE_NONE && !var->rest->dist_extra_json)
            TRY(write_reason(c, why[c->var_class[i]], var));
    }
    return NULL;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static weft_status report_held(choice *c, const choice_taken *t) {
    const weft_op *op = c->plan->nops ? c->plan->ops[t->at].op : NULL;
    return weft_pass_did(c->plan->pass, "a rank holds %.4g MiB at most, %.4g of them state, at %s #%zu",
                         mebibytes * (double)t->nbytes, mebibytes * (double)t->nkept, op ? op->type->bytes : "no op",
                         t->at);
}

weft_status choice_report(choice *c, const choice_result *r) {
    const choice_taken *t = &r->taken;
    double gap = t->seconds > r->bound ? t->seconds - r->bound : 0;
    if (gap < 1e-9 * t->seconds) gap = 0; /* what rows round */
    TRY(weft_pass_did(
        c->plan->pass,
        "a step takes %.6g us on a rank, %.6g of them in ops; no choice takes less than %.6g us: a gap of "
        "%.3g %%",
        1e6 * t->seconds, 1e6 * t->ops_seconds, 1e6 * (t->seconds - gap), t->seconds > 0 ? 100 * gap / t->seconds : 0));
    TRY(weft_pass_did(c->plan->pass,
                      "an integer program of %zu columns and %zu rows, solved in %d rounds; %zu of %zu ops are "
                      "told apart",
                      c->ip.ncolumns, c->ip.nrows, r->rounds, c->nops, c->plan->nops));
    if (r->sweeps)
        TRY(weft_pass_did(
            c->plan->pass,
            "one axis was chosen for at a time, in %d sweeps: another choice along two may be better, and "
            "the bound is what ops take at least",
            r->sweeps));
    TRY(report_held(c, t));
    TRY(weft_pass_count_add(c->plan->pass, "bytes received", (int64_t)t->sent));
    TRY(weft_pass_count_add(c->plan->pass, "bytes held", t->nbytes));
    for (uint32_t i = 0; i < c->nvars; i++)
        if (c->vars[i].example->is_kept) TRY(report_var(c, t, i));
    return NULL;
}

weft_status choice_refuse_limit(choice *c) {
    choice_result least;
    c->ends = 0; /* that has its own time */
    TRY(choice_solve_by_axis(c, true, &least));
    const choice_taken *t = &least.taken;
    if (least.state == IP_STOPPED || least.state == IP_NONE)
        return weft_pass_refuse(c->plan->pass, "nothing was found that holds %.4g MiB or less",
                                mebibytes * (double)c->limit);
    return weft_pass_refuse(c->plan->pass,
                            "%s holds %.4g MiB or less: the least is %.4g MiB, at %s #%zu: %.4g of state, %.4g of "
                            "values and of what is made of them",
                            least.sweeps ? "nothing that was found, one axis at a time," : "no choice",
                            mebibytes * (double)c->limit, mebibytes * (double)t->nbytes,
                            c->plan->ops[t->at].op->type->bytes, t->at, mebibytes * (double)t->nkept,
                            mebibytes * (double)(t->nbytes - t->nkept));
}
