/* mutants_schedules.c: programs and plans with a wait, an event or a stream changed, or memory laid over other memory.
 * What races a closure over all pairs tells (order.h); the prover must say the same. Some of the races are run: the op
 * that nobody waits for starts late, and other numbers come out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/checks/checks.h"
#include "tests/support/must.h"
#include "tests/support/mutants.h"
#include "tests/support/order.h"
#include "weft/verify.h"

typedef struct suite {
    mutant_table *table;
    const exact_world *world;
    const char *folder;
    exact_result expected;
    size_t index; /* of the op or instruction that was changed */
} suite;

static void complain(const suite *s, int class, const char *what) {
    char message[640];
    static const char *const names[] = {"plan: wait dropped", "plan: wait lowered", "plan: wait moved",
                                        "plan: memory overlapped"};
    snprintf(message, sizeof message, "%s: %s at %zu: %s", s->folder,
             class < MUTATIONS ? mutation_name((mutation) class) : names[class - MUTATIONS], s->index, what);
    s->table->complain(message);
}

/* Counts a mutant that is wrong or not, and refused or not. */
static void count_mutant(suite *s, int class, bool is_wrong, bool is_refused) {
    mutant_count *c = &s->table->of[class];
    c->nmutants++;
    *(is_wrong ? is_refused ? &c->ncaught : &c->nmissed : is_refused ? &c->nnot_proved : &c->nharmless) += 1;
    if (is_wrong != is_refused) complain(s, class, is_wrong ? "accepted, but it races" : "refused, but nothing races");
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

/* Findings about rank 0: the others' are alike. */
static bool is_of(const weft_findings *found, size_t i, weft_verdict verdict) {
    const weft_finding *f = weft_finding_at(found, i);
    return f->verdict == verdict && (!f->nops || f->ops[0].rank == 0);
}

static bool has_verdict(const weft_findings *found, weft_verdict verdict) {
    for (size_t i = 0; i < weft_findings_count(found); i++)
        if (is_of(found, i, verdict)) return true;
    return false;
}

/* The findings are of pairs that race, and each op that races with one before it is in a finding. */
static bool reports_all(const order_verdict *v, const weft_findings *found) {
    for (size_t i = 0; i < weft_findings_count(found); i++) {
        const weft_finding *f = weft_finding_at(found, i);
        if (is_of(found, i, WEFT_VERDICT_RACE) &&
            (f->nops != 2 || !order_has(v, (uint32_t)f->ops[0].index, (uint32_t)f->ops[1].index)))
            return false;
    }
    for (size_t p = 0; p < v->npairs; p++) {
        bool is_reported = false;
        for (size_t i = 0; i < weft_findings_count(found) && !is_reported; i++) {
            const weft_finding *f = weft_finding_at(found, i);
            for (size_t k = 0; k < f->nops && is_of(found, i, WEFT_VERDICT_RACE); k++)
                is_reported |= f->ops[k].index == v->pairs[p].later;
        }
        if (!is_reported) return false;
    }
    return true;
}

enum { MOST_LATE = 6 };

/* Some of the ops that nobody waits for: those whose values are read too early are most likely to show. */
static size_t choose_late(const order_verdict *v, uint32_t *out) {
    size_t n = 0;
    for (int wanted = 1; wanted >= 0; wanted--)
        for (size_t i = 0; i < v->npairs && n < MOST_LATE; i++) {
            bool is_known = v->pairs[i].reads_later != (wanted == 1);
            for (size_t k = 0; k < n; k++) is_known |= out[k] == v->pairs[i].earlier;
            if (!is_known) out[n++] = v->pairs[i].earlier;
        }
    return n;
}

/* Whether another result comes out when op `index` starts late; of the plans, or of the programs' stated waits. */
static bool differs_when_late(suite *s, const exact_world *mutant, weft_plan *const *plans, int64_t index) {
    exact_result found;
    char message[320];
    bool differs = false;
    for (double seconds = 0.003; seconds < 0.02 && !differs; seconds *= 4) {
        weft_delay delay = {.rank = -1, .op_index = index, .seconds = seconds};
        if (plans)
            world_run_plans(mutant, plans, &delay, &found);
        else
            world_run(mutant, &delay, &found);
        differs = !result_equal(&s->expected, &found, message, sizeof message);
        result_free(&found);
    }
    return differs;
}

/* Pairs of instructions as pairs of their ops. */
static void name_ops(const weft_plan *plan, order_verdict *v) {
    for (size_t i = 0; i < v->npairs; i++) {
        v->pairs[i].earlier = (uint32_t)plan->instrs[v->pairs[i].earlier].op_index;
        v->pairs[i].later = (uint32_t)plan->instrs[v->pairs[i].later].op_index;
    }
}

static void confirm(suite *s, int class, const exact_world *mutant, weft_plan *const *plans, const order_verdict *v) {
    uint32_t late[MOST_LATE];
    size_t n = choose_late(v, late);
    bool is_confirmed = false;
    if (!n || s->table->of[class].ntried >= s->table->nconfirm) return;
    for (size_t i = 0; i < n && !is_confirmed; i++) is_confirmed = differs_when_late(s, mutant, plans, late[i]);
    s->table->of[class].ntried++;
    s->table->of[class].nconfirmed += is_confirmed;
}

/* A run keeps some pairs in order that the program does not: collectives of a ring, on whatever streams, and all that
 * is fetched is fetched when the step is over. What is left of the pairs can show. */
static void confirm_program(suite *s, int class, const exact_world *mutant, const order_verdict *v) {
    weft_plan *plan;
    order_verdict of_plan, both = {.npairs = 0};
    if (!v->npairs || s->table->of[class].ntried >= s->table->nconfirm) return;
    must(world_plan_in_order(mutant, 0, &plan));
    order_of_plan(plan, &of_plan);
    name_ops(plan, &of_plan);
    both.pairs = malloc(v->npairs * sizeof *both.pairs);
    for (size_t i = 0; both.pairs && i < v->npairs; i++)
        if (order_has(&of_plan, v->pairs[i].earlier, v->pairs[i].later)) both.pairs[both.npairs++] = v->pairs[i];
    if (both.npairs)
        confirm(s, class, mutant, NULL, &both);
    else
        s->table->of[class].nkept++;
    order_free(&both);
    order_free(&of_plan);
    weft_plan_destroy(plan);
}

static void judge_program(suite *s, exact_world *mutant, mutation how) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = mutant->nranks};
    weft_findings *found;
    order_verdict v;
    order_of_program(mutant->programs[0], &v);
    must(weft_verify((const weft_program *const *)mutant->programs, (size_t)mutant->nranks, &o, &found));
    bool is_racy = has_verdict(found, WEFT_VERDICT_RACE), is_invalid = has_verdict(found, WEFT_VERDICT_INVALID_PROGRAM);
    count_mutant(s, how, v.npairs || v.waits_for_nothing, is_racy || is_invalid);
    if ((v.npairs > 0) == is_racy && !reports_all(&v, found))
        complain(s, how, "other races are reported than there are");
    if (!is_invalid) confirm_program(s, how, mutant, &v);
    weft_findings_destroy(found);
    order_free(&v);
}

/* What Paddle's executor makes of names, from which nops and depends are not to be missed. */
static void judge_by_name(suite *s, const exact_world *mutant, mutation how) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_BY_NAME, .nranks = mutant->nranks};
    weft_findings *found;
    order_verdict v;
    proof_schedule schedule;
    arena a;
    arena_init(&a, &mutant->programs[0]->context->allocator);
    must(schedule_from_program(mutant->programs[0], &o, &a, &schedule));
    must(schedule_order_by_name(&schedule));
    order_of_schedule(&schedule, &v);
    must(weft_verify((const weft_program *const *)mutant->programs, (size_t)mutant->nranks, &o, &found));
    bool is_racy = has_verdict(found, WEFT_VERDICT_RACE);
    count_mutant(s, how, v.npairs > 0, is_racy);
    if (is_racy && v.npairs && !reports_all(&v, found)) complain(s, how, "other races are reported than there are");
    weft_findings_destroy(found);
    order_free(&v);
    arena_fini(&a);
}

static bool mutate_ranks(exact_world *w, size_t index, mutation how, unsigned salt) {
    bool any = mutate(w->programs[0], index, how, salt);
    for (int r = 1; r < w->nranks && any; r++) (void)mutate(w->programs[r], index, how, salt);
    return any;
}

void mutate_schedules(mutant_table *t, const exact_world *w, const char *folder) {
    suite s = {.table = t, .world = w, .folder = folder};
    size_t nops = w->programs[0]->blocks[0]->nops;
    world_run(w, NULL, &s.expected);
    for (int how = VALUE_MUTATIONS; how < MUTATIONS; how++) {
        exact_world mutant;
        size_t made = 0;
        world_clone(w, &mutant);
        for (size_t i = 0; i < nops && made < t->per_class; i++) {
            s.index = i;
            if (!mutate_ranks(&mutant, i, (mutation)how, mutant_draw(i, (size_t)how))) continue;
            if (how == DEPENDENCY_DELETED)
                judge_by_name(&s, &mutant, (mutation)how);
            else
                judge_program(&s, &mutant, (mutation)how);
            made++;
            world_free(&mutant);
            world_clone(w, &mutant);
        }
        world_free(&mutant);
    }
    result_free(&s.expected);
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* What the prover says of a plan: races or collectives out of order, values over others. */
static void prove_plan(const weft_plan *plan, bool *out_races, bool *out_overwritten) {
    weft_findings found = {.context = plan->context, .max = 1};
    proof_schedule s;
    proof_class class;
    arena a;
    arena_init(&a, &plan->context->allocator);
    arena_init(&found.arena, &plan->context->allocator);
    must(schedule_from_plan(plan, &a, &s));
    must(check_races(&s, 0, &found));
    must(sequences_list(&s, &a, &class));
    must(check_ring_order(&class, 0, &found));
    *out_races = found.count > 0;
    found.count = 0;
    must(check_overwritten(&s, 0, &found));
    *out_overwritten = found.count > 0;
    arena_fini(&found.arena);
    arena_fini(&a);
}

bool plan_is_accepted(const weft_plan *plan) {
    bool races, overwritten;
    prove_plan(plan, &races, &overwritten);
    return !races && !overwritten;
}

static void judge_plan(suite *s, int class, weft_plan *const *plans) {
    order_verdict v;
    bool races, overwritten;
    order_of_plan(plans[0], &v);
    prove_plan(plans[0], &races, &overwritten);
    bool is_overwritten = order_is_overwritten(plans[0]);
    if (races == (v.npairs > 0) && overwritten != is_overwritten)
        complain(s, class, is_overwritten ? "a value is lost, which nobody tells" : "no value is lost");
    count_mutant(s, class, v.npairs || is_overwritten, races || overwritten);
    name_ops(plans[0], &v);
    if (class != PLAN_OVERLAPPED) confirm(s, class, s->world, plans, &v);
    order_free(&v);
}

/* One wait of instruction `at` changed, on all ranks whose plans are alike; false if it has none such. */
static bool change_wait(weft_plan *plan, size_t at, int class, plan_wait *kept, uint32_t *out_which) {
    plan_instr *i = &plan->instrs[at];
    if (!i->nwaits) return false;
    plan_wait *w = (plan_wait *)(uintptr_t)&i->waits[*out_which % i->nwaits];
    *out_which %= i->nwaits;
    *kept = *w;
    w->count = class == PLAN_WAIT_LOWERED ? w->count - 1 : 0;
    return true;
}

/* The next instruction of the same stream waits instead. */
static plan_instr *next_of_stream(weft_plan *plan, size_t at) {
    for (size_t k = at + 1; k < plan->ninstrs; k++)
        if (plan->instrs[k].stream == plan->instrs[at].stream) return &plan->instrs[k];
    return NULL;
}

static void judge_wait(suite *s, weft_plan *const *plans, size_t at, int class) {
    plan_wait kept[EXACT_MOST_RANKS], moved[EXACT_MOST_RANKS];
    plan_instr *to[EXACT_MOST_RANKS] = {NULL}, old[EXACT_MOST_RANKS];
    uint32_t which = mutant_draw(at, (size_t) class);
    int n = 0;
    for (; n < s->world->nranks; n++) {
        if (plans[n]->ninstrs != plans[0]->ninstrs || !change_wait(plans[n], at, class, &kept[n], &which)) break;
        to[n] = class == PLAN_WAIT_MOVED ? next_of_stream(plans[n], at) : NULL;
        if (!to[n]) continue;
        old[n] = *to[n];
        moved[n] = kept[n];
        to[n]->waits = &moved[n]; /* in place of its own */
        to[n]->nwaits = 1;
    }
    s->index = at;
    if (n == s->world->nranks) judge_plan(s, class, plans);
    while (n-- > 0) {
        if (to[n]) *to[n] = old[n];
        plan_instr *i = &plans[n]->instrs[at];
        ((plan_wait *)(uintptr_t)i->waits)[which] = kept[n];
    }
}

static void overlap_values(suite *s, weft_plan *const *plans) {
    weft_plan *p = plans[0];
    size_t made = 0;
    for (size_t u = 0; u < p->nvalues && made < 2 * s->table->per_class; u++)
        for (size_t k = 0; k < 4; k++) {
            plan_value *x = &p->values[u], *y = &p->values[mutant_draw(u, k) % p->nvalues];
            if (x == y || x->space != PLAN_TEMPORARY || y->space != PLAN_TEMPORARY || x->offset == y->offset ||
                y->offset + x->nbytes > 2 * p->temporary_nbytes)
                continue;
            int64_t offset = x->offset;
            x->offset = y->offset;
            s->index = u;
            judge_plan(s, PLAN_OVERLAPPED, plans);
            x->offset = offset;
            made++;
        }
}

void mutate_plans(mutant_table *t, const exact_world *w, const char *folder) {
    suite s = {.table = t, .world = w, .folder = folder};
    weft_plan *plans[EXACT_MOST_RANKS] = {NULL};
    world_run(w, NULL, &s.expected);
    for (int r = 0; r < w->nranks; r++) must(weft_plan_create(w->programs[r], NULL, &plans[r]));
    for (int class = PLAN_WAIT_DROPPED; class <= PLAN_WAIT_MOVED; class ++) {
        size_t before = t->of[class].nmutants;
        for (size_t i = 0; i < plans[0]->ninstrs && t->of[class].nmutants < before + t->per_class; i++)
            judge_wait(&s, plans, i, class);
    }
    overlap_values(&s, plans);
    for (int r = 0; r < w->nranks; r++) weft_plan_destroy(plans[r]);
    result_free(&s.expected);
}
