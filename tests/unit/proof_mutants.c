/* proof_mutants.c: a checker that never rejected anything proves nothing. Plans of recorded programs after our passes,
 * with one wait less: the planner makes none that is superfluous, so each is missed. Programs in which one rank issues
 * two collectives of a ring in the other order: what they reduce does not meet. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan/plan.h"
#include "proof/checks.h"
#include "tests/support/fixtures.h"
#include "weft/pass.h"

static const char buckets[] = "passes: [prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: 0.02}, "
                              "insert_dependencies]\n";
static const char singly[] = "passes: [overlap_comm]\n";
static const char *const cases[] = {"paddle26/mlp_sgd_dp2", "paddle26/mlp_adam_dp2_amp", "paddle26/mlp_dp2_sharding",
                                    "paddle26/gpt_tiny_adamw_dp2", "paddle26/bert_tiny_adamw_dp4"};

static void must(weft_status status, const char *path) {
    cr_assert_null(status, "%s: %s", path, weft_status_message(status));
}

/* Rank 0's program after these passes; NULL: not there. */
static weft_program *load(weft_context *context, const char *case_name, const char *passes) {
    char path[512], relative[256];
    weft_program *p;
    weft_pass_list *list;
    snprintf(relative, sizeof relative, "%s/rank0.pdmodel", case_name);
    if (!fixture_path(path, sizeof path, relative)) return NULL;
    must(weft_program_load(context, path, NULL, &p), path);
    must(weft_pass_list_parse(context, passes, strlen(passes), "passes", &list), path);
    must(weft_pass_list_run(list, p, NULL), path);
    weft_pass_list_destroy(list);
    return p;
}

static size_t count_findings(const proof_schedule *s, arena *a) {
    weft_findings found = {.context = s->context, .max = 1};
    proof_class class;
    arena_init(&found.arena, &s->context->allocator);
    must(check_races(s, 0, &found), "races");
    must(pairing_list(s, a, &class), "rings");
    must(check_ring_order(&class, 0, &found), "rings");
    size_t n = found.count;
    arena_fini(&found.arena);
    return n;
}

/* The schedule's waits without number `left_out`. */
static void leave_out(proof_schedule *s, const proof_schedule *whole, size_t left_out, uint32_t *list,
                      uint32_t *first) {
    size_t n = 0;
    for (size_t i = 0; i < whole->nevents; i++) {
        first[i] = (uint32_t)n;
        for (size_t k = whole->events[i].first_wait; k < whole->events[i + 1].first_wait; k++)
            if (k != left_out) list[n++] = whole->waits[k];
    }
    first[whole->nevents] = (uint32_t)n;
    schedule_replace_waits(s, list, first);
}

static size_t leave_out_each(const weft_plan *plan, const char *case_name) {
    proof_schedule whole, less;
    arena a;
    arena_init(&a, &plan->context->allocator);
    must(schedule_from_plan(plan, &a, &whole), case_name);
    must(schedule_from_plan(plan, &a, &less), case_name);
    cr_expect_eq(count_findings(&whole, &a), 0, "%s: the plan itself is refused", case_name);
    uint32_t *list = ARENA_ARRAY(&a, uint32_t, whole.nwaits + 1), *first = ARENA_ARRAY(&a, uint32_t, whole.nevents + 1);
    cr_assert(list && first);
    for (size_t k = 0; k < whole.nwaits; k++) {
        leave_out(&less, &whole, k, list, first);
        cr_expect_gt(count_findings(&less, &a), 0, "%s: nobody misses wait %zu", case_name, k);
    }
    arena_fini(&a);
    return whole.nwaits;
}

Test(proof_mutants, a_wait_less) {
    weft_context *context;
    size_t nmutants = 0, ncases = 0;
    must(weft_context_create(NULL, &context), "context");
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        weft_program *p = load(context, cases[i / 2], i % 2 ? buckets : singly);
        weft_plan *plan;
        if (!p) continue;
        must(weft_plan_create(p, NULL, &plan), cases[i / 2]);
        nmutants += leave_out_each(plan, cases[i / 2]);
        ncases++;
        weft_plan_destroy(plan);
        weft_program_destroy(p);
    }
    weft_context_destroy(context);
    if (!ncases) cr_skip_test("no fixtures");
    cr_expect_gt(nmutants, 3 * ncases, "only %zu waits to leave out", nmutants);
}

/* --- memory shared by mistake ------------------------------------------------------------------------------------- */

/* The same question byte by byte: does a read find what its own value was last written? */
static bool is_overwritten(const proof_schedule *s, uint32_t *owner, size_t nbytes) {
    for (size_t b = 0; b < nbytes; b++) owner[b] = PROOF_NONE;
    for (size_t i = 0; i < s->nevents; i++)
        for (int writes = 0; writes < 2; writes++)
            for (size_t k = s->events[i].first_access; k < s->events[i + 1].first_access; k++) {
                const proof_access *x = &s->accesses[k];
                if (x->buffer != 1 || x->is_write != (writes == 1)) continue;
                for (int64_t b = x->begin; b < x->end; b++) {
                    bool is_scale = s->events[i].op && op_is(s->events[i].op, "scale");
                    if (!writes && !is_scale && owner[b] != PROOF_NONE && owner[b] != x->owner) return true;
                    if (writes) owner[b] = x->owner;
                }
            }
    return false;
}

static bool finds_overwritten(const proof_schedule *s) {
    weft_findings found = {.context = s->context, .max = 1};
    arena_init(&found.arena, &s->context->allocator);
    must(check_overwritten(s, 0, &found), "overwritten");
    bool any = found.count > 0;
    arena_fini(&found.arena);
    return any;
}

Test(proof_mutants, two_values_laid_over_one_another) {
    weft_context *context;
    weft_plan *plan;
    size_t nspoilt = 0, nharmless = 0;
    must(weft_context_create(NULL, &context), "context");
    weft_program *p = load(context, "paddle26/mlp_sgd_dp2", singly);
    if (!p) {
        weft_context_destroy(context);
        cr_skip_test("no fixtures");
    }
    must(weft_plan_create(p, NULL, &plan), "plan");
    size_t room = 2 * (size_t)plan->temporary_nbytes;
    uint32_t *owner = calloc(room, sizeof *owner);
    for (size_t u = 0; u < plan->nvalues; u++)
        for (size_t v = 0; v < plan->nvalues; v++) {
            plan_value *x = &plan->values[u], *y = &plan->values[v];
            if (u == v || x->space != PLAN_TEMPORARY || y->space != PLAN_TEMPORARY) continue;
            int64_t offset = x->offset;
            arena a;
            proof_schedule s;
            arena_init(&a, &context->allocator);
            x->offset = y->offset;
            must(schedule_from_plan(plan, &a, &s), "schedule");
            bool spoilt = is_overwritten(&s, owner, room);
            cr_expect_eq(finds_overwritten(&s), spoilt, "\"%s\" laid over \"%s\": %s", x->name, y->name,
                         spoilt ? "accepted" : "refused");
            *(spoilt ? &nspoilt : &nharmless) += 1;
            x->offset = offset;
            arena_fini(&a);
        }
    cr_expect(nspoilt > 20 && nharmless > 20, "%zu spoil a value, %zu do not", nspoilt, nharmless);
    free(owner);
    weft_plan_destroy(plan);
    weft_program_destroy(p);
    weft_context_destroy(context);
}

/* --- collectives in another order --------------------------------------------------------------------------------- */

/* The next collective of the same ring in the block, or NULL. */
static weft_op *next_on_ring(const weft_op *op) {
    for (weft_op *o = op->next; o; o = o->next)
        if (op_has_effect(o, OP_COLLECTIVE) && op_ring(o) == op_ring(op)) return o;
    return NULL;
}

/* Each takes what the other reduced, as if it had been issued in its place. */
static void exchange(weft_op *x, weft_op *y) {
    weft_var *a = op_x(x), *b = op_x(y);
    weft_op_rename_input(x, a, b);
    weft_op_rename_output(x, a, b);
    weft_op_rename_input(y, b, a);
    weft_op_rename_output(y, b, a);
}

static bool meets(const weft_program *rank0, const weft_program *rank1) {
    weft_findings *found;
    bool meets = true;
    weft_verify_options o = {.reading = WEFT_READING_BY_NAME};
    must(weft_verify((const weft_program *const[]){rank0, rank1}, 2, &o, &found), "verify");
    for (size_t i = 0; i < weft_findings_count(found); i++) {
        weft_verdict v = weft_finding_at(found, i)->verdict;
        if (v == WEFT_VERDICT_WRONG_DATA || v == WEFT_VERDICT_DEADLOCK) meets = false;
    }
    weft_findings_destroy(found);
    return meets;
}

Test(proof_mutants, two_collectives_exchanged_on_one_rank) {
    weft_context *context;
    size_t nmutants = 0, ncases = 0;
    must(weft_context_create(NULL, &context), "context");
    for (size_t i = 0; i < sizeof cases / sizeof *cases && ncases < 4; i++) {
        weft_program *rank0 = load(context, cases[i], singly), *rank1 = load(context, cases[i], singly);
        if (!rank0 || !rank1) continue;
        rank0->rank = rank1->rank = -1;
        cr_expect(meets(rank0, rank1), "%s: equal ranks are refused", cases[i]);
        for (weft_op *op = rank1->blocks[0]->first; op && nmutants < 40 * (ncases + 1); op = op->next) {
            weft_op *other = op_has_effect(op, OP_COLLECTIVE) ? next_on_ring(op) : NULL;
            if (!other || op_x(op) == op_x(other)) continue;
            exchange(op, other);
            cr_expect(!meets(rank0, rank1), "%s: %s of \"%s\" exchanged with the next is accepted", cases[i],
                      op->type->bytes, op_x(op)->name->bytes);
            exchange(op, other);
            nmutants++;
        }
        ncases++;
        weft_program_destroy(rank0);
        weft_program_destroy(rank1);
    }
    weft_context_destroy(context);
    if (!ncases) cr_skip_test("no fixtures");
    cr_expect_gt(nmutants, 3, "only %zu collectives to exchange", nmutants);
}
