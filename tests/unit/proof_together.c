/* proof_together.c: worlds of ranks whose programs differ in a few ops, judged together and class by class. Together
 * weft_verify asks what classes have in common once; class by class nothing is taken from another: the same is
 * reported.
 *
 * What is reported of single ranks must agree word for word and in order; of ranks together, where alike ones are
 * reported of as one, the verdicts and rings. And one rank's races are those of a closure over all pairs
 * (tests/support/order.h).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proof/checks/across.h"
#include "proof/checks/checks.h"
#include "tests/support/must.h"
#include "tests/support/order.h"
#include "tests/support/worlds.h"

/* --- class by class ----------------------------------------------------------------------------------------------- */

typedef struct apart {
    const world *w;
    weft_reading reading;
    arena arena;
    int64_t first_rank[MOST_RANKS], all[MOST_RANKS];
    uint32_t class_of[MOST_RANKS];
    size_t nclasses;
    proof_schedule programs[MOST_RANKS], schedules[MOST_RANKS];
    proof_class classes[MOST_RANKS];
    proof_ranks ranks;
    weft_findings of_ranks, together; /* of single ranks; of all */
    size_t nsure, nswept; /* programs that surely read nothing unwritten; launches that are swept without their ops */
} apart;

static void find_classes(apart *x) {
    const world *w = x->w;
    for (int r = 0; r < w->nranks; r++) {
        uint32_t c = 0;
        while (c < x->nclasses && strcmp(w->kinds[w->kind_at[x->first_rank[c]]].text, w->kinds[w->kind_at[r]].text))
            c++;
        if (c == x->nclasses) x->first_rank[x->nclasses++] = r;
        x->class_of[r] = c;
        x->all[r] = r;
    }
}

static void make_schedules(apart *x) {
    weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT, .reading = x->reading};
    for (size_t c = 0; c < x->nclasses; c++) {
        must(schedule_from_program(x->w->programs[x->first_rank[c]], &o, &x->arena, &x->programs[c]));
        x->schedules[c] = x->programs[c];
        if (x->reading == WEFT_READING_BY_NAME) must(schedule_order_by_name(&x->schedules[c]));
        must(sequences_list(&x->schedules[c], &x->arena, &x->classes[c]));
    }
    x->ranks = (proof_ranks){.context = x->w->context,
                             .classes = x->classes,
                             .nclasses = x->nclasses,
                             .programs = (const weft_program *const *)x->w->programs,
                             .class_of = x->class_of,
                             .all = x->all,
                             .nranks = x->w->nranks};
}

/* A schedule of which nothing is left out: not because nothing is updated, not because a look at it while it was read
 * found nothing to doubt; and ops are swept one by one. */
static proof_schedule asked_in_full(apart *x, size_t c) {
    static uint32_t first_event;
    proof_schedule copy = x->programs[c];
    if (!copy.nupdates) copy.updates = &first_event, copy.nupdates = 1;
    copy.updated.a += c;
    x->nsure += !copy.may_read_unwritten;
    copy.may_read_unwritten = true;
    copy.events = arena_copy(&x->arena, copy.events, (copy.nevents + 1) * sizeof *copy.events);
    cr_assert(copy.events);
    for (size_t i = 0; i < copy.nevents; i++) {
        x->nswept += copy.events[i].makes != PROOF_MAKES_DIFFERENTLY;
        copy.events[i].makes = PROOF_MAKES_DIFFERENTLY;
    }
    return copy;
}

static void ask_classes(apart *x) {
    across others;
    proof_schedule updating[MOST_RANKS];
    weft_findings *f = &x->of_ranks;
    must(across_begin(&others, &x->ranks, &x->arena));
    for (size_t c = 0; c < x->nclasses; c++) {
        const proof_schedule *s = &x->programs[c];
        int64_t rank = x->first_rank[c];
        member_lists lists;
        program_rings rings;
        member_lists_init(&lists, &x->arena);
        must(member_lists_add(&lists, s->program, &rings));
        updating[c] = asked_in_full(x, c);
        must(check_races_among(&others, (uint32_t)c, rank, f));
        must(check_uninitialised(&updating[c], rank, f));
        must(check_stale(s, rank, f));
        must(check_shards(s, rank, f));
        must(check_ring_sizes(s, rank, f));
        if (x->reading == WEFT_READING_BY_NAME) {
            must(check_communicators(s, rank, f));
            must(check_reused(&others, (uint32_t)c, rank, f));
        }
        must(check_replicas(&updating[c], &rings, rank, x->w->nranks, f));
    }
    must(check_owners(updating, x->nclasses, x->first_rank, f));
}

static bool is_stuck(const weft_findings *f) {
    bool stuck = false;
    for (size_t i = 0; i < f->count; i++) stuck |= f->items[i].verdict != WEFT_VERDICT_WRONG_DATA;
    return stuck;
}

static void ask_together(apart *x) {
    must(check_pairing(&x->ranks, &x->together));
    if (!is_stuck(&x->together)) must(check_deadlock(&x->ranks, &x->together));
}

static void ask_apart(apart *x) {
    weft_findings *both[] = {&x->of_ranks, &x->together};
    arena_init(&x->arena, &x->w->context->allocator);
    for (int i = 0; i < 2; i++) {
        *both[i] = (weft_findings){.context = x->w->context, .max = 10000};
        arena_init(&both[i]->arena, &x->w->context->allocator);
    }
    find_classes(x);
    make_schedules(x);
    ask_classes(x);
    ask_together(x);
}

static void free_apart(apart *x) {
    arena_fini(&x->of_ranks.arena);
    arena_fini(&x->together.arena);
    arena_fini(&x->arena);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static bool is_reported(const weft_findings *f, size_t from, const weft_finding *what) {
    for (size_t i = from; i < f->count; i++)
        if (f->items[i].verdict == what->verdict && f->items[i].ring == what->ring) return true;
    return false;
}

static void compare(const apart *x, const weft_findings *found, int number, int *counts) {
    const weft_findings *single = &x->of_ranks, *all = &x->together;
    cr_assert_geq(found->count, single->count, "world %d: %zu are reported, class by class %zu", number, found->count,
                  single->count);
    for (size_t i = 0; i < single->count; i++) {
        cr_assert_str_eq(found->items[i].message, single->items[i].message, "world %d: finding %zu", number, i);
        cr_assert_eq(found->items[i].verdict, single->items[i].verdict, "world %d: finding %zu", number, i);
        counts[found->items[i].verdict]++;
    }
    for (size_t i = single->count; i < found->count; i++)
        cr_assert(is_reported(all, 0, &found->items[i]), "world %d: only together: %s", number,
                  found->items[i].message);
    for (size_t i = 0; i < all->count; i++) {
        cr_assert(is_reported(found, single->count, &all->items[i]), "world %d: only class by class: %s", number,
                  all->items[i].message);
        counts[all->items[i].verdict]++;
    }
}

/* Alone in its world a program has the races that its closure has. */
static void compare_alone(const weft_program *p, int number) {
    weft_findings *found;
    order_verdict closure;
    size_t nraces = 0;
    must(weft_verify(&p, 1,
                     &(weft_verify_options){WEFT_VERIFY_OPTIONS_INIT, .reading = WEFT_READING_IN_ORDER, .nranks = 1},
                     &found));
    order_of_program(p, &closure);
    for (size_t i = 0; i < found->count; i++) {
        const weft_finding *f = &found->items[i];
        if (f->verdict != WEFT_VERDICT_RACE) continue;
        nraces++;
        cr_assert(order_has(&closure, (uint32_t)f->ops[0].index, (uint32_t)f->ops[1].index), "world %d: %s", number,
                  f->message);
    }
    cr_assert_eq(nraces > 0, closure.npairs > 0, "world %d: %zu races, %zu pairs", number, nraces, closure.npairs);
    order_free(&closure);
    weft_findings_destroy(found);
}

Test(proof_together, as_class_by_class) {
    size_t nsure = 0, nswept = 0;
    int counts[16] = {0}, nsafe = 0, nworlds = getenv("WEFT_LONG_TESTS") ? 20000 : 1000;
    if (getenv("WEFT_SANITIZED")) nworlds /= 4;
    weft_context *context;
    world *w = malloc(sizeof *w);
    apart *x = malloc(sizeof *x);
    cr_assert(w && x);
    must(weft_context_create(NULL, &context));
    for (int number = 1; number <= nworlds; number++) {
        *w = (world){.state = (uint64_t)number * 0x9E3779B97F4A7C15u, .context = context};
        draw_world(w, number);
        for (int k = 0; k < (number % 4 ? 1 : 2); k++) {
            weft_findings *found;
            weft_verify_options o = {WEFT_VERIFY_OPTIONS_INIT,
                                     .reading = k ? WEFT_READING_BY_NAME : WEFT_READING_IN_ORDER, .nranks = w->nranks};
            must(weft_verify((const weft_program *const *)w->programs, (size_t)w->nranks, &o, &found));
            *x = (apart){.w = w, .reading = o.reading};
            ask_apart(x);
            compare(x, found, number, counts);
            nsafe += found->count == 0;
            nsure += x->nsure;
            nswept += x->nswept;
            free_apart(x);
            weft_findings_destroy(found);
        }
        for (int r = 0; r < w->nranks; r++)
            if (!r || w->kind_at[r] != w->kind_at[r - 1]) compare_alone(w->programs[r], number);
        for (int r = 0; r < w->nranks; r++) weft_program_destroy(w->programs[r]);
    }
    static const weft_verdict wanted[] = {WEFT_VERDICT_RACE, WEFT_VERDICT_DEADLOCK, WEFT_VERDICT_WRONG_DATA,
                                          WEFT_VERDICT_MISSING_REDUCE, WEFT_VERDICT_UNINITIALISED_READ};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        cr_expect_geq(counts[wanted[i]], nworlds / 40, "%s: %d", weft_verdict_name(wanted[i]), counts[wanted[i]]);
    cr_expect_geq(nsafe, nworlds / 20, "%d without a finding", nsafe);
    cr_expect_geq(nsure, (size_t)nworlds, "%zu programs that read nothing unwritten", nsure);
    cr_expect_geq(nswept, 8 * (size_t)nworlds, "%zu launches swept without their ops", nswept);
    weft_context_destroy(context);
    free(w);
    free(x);
}
