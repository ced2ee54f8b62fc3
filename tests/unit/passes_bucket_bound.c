/* passes_bucket_bound.c: what no buckets go below, against all sets of small cases in all orders: over links, by
 * measured tables and by NCCL's model; and how fast it is found of many. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/context.h"
#include "passes/bucket_bound.h"
#include "tests/support/draw.h"
#include "tests/support/must.h"

enum { MOST = 10000, FEW = 12 };

static uint64_t state;

static uint64_t draw(uint64_t below) {
    return draw_below(&state, below);
}

static double between(double low, double high) {
    return low + (high - low) * (double)draw(1000) / 1000;
}

typedef struct made {
    bucket_problem problem;
    bucket_item items[MOST];
    bucket_kind kinds[3];
    plan_curve curves[6]; /* two of a kind */
    weft_cluster_table tables[6];
} made;

static weft_context *context;
static arena memory;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
    arena_init(&memory, &context->allocator);
}
static void tear_down(void) {
    arena_fini(&memory);
    weft_context_destroy(context);
}
TestSuite(passes_bucket_bound, .init = set_up, .fini = tear_down);

/* --- small cases -------------------------------------------------------------------------------------------------- */

typedef enum costs { LINKS, TABLES, NCCL, COSTS } costs;
static const char *const costs_named[] = {"links", "tables", "NCCL"};

static void draw_table(weft_cluster_table *t) {
    double nbytes = 0, seconds = between(1e-7, 3e-6);
    *t = (weft_cluster_table){.npoints = 1 + draw(5)};
    for (size_t k = 0; k < t->npoints; k++) {
        t->nbytes[k] = nbytes += (double)(1 + draw(300));
        t->seconds[k] = seconds += between(0, 6e-6);
    }
}

static void draw_curve(made *m, size_t i, costs of) {
    static const char *const machines[] = {"v100", "a100", "h100", "b200"};
    plan_curve *c = &m->curves[i];
    *c = (plan_curve){.times = (double)(1 + draw(6)), .parts = (double)(1 + draw(4)), .op_seconds = between(0, 5e-9)};
    c->nlinks = 1 + draw(2);
    for (size_t k = 0; k < c->nlinks; k++)
        c->links[k] = (weft_link){.seconds = between(0, 2e-8), .bytes = between(1e9, 2e10)};
    if (of == TABLES) draw_table(&m->tables[i]), c->table = &m->tables[i];
    int nnodes = 1 << draw(3);
    if (of == NCCL)
        c->nccl = (nccl_call){plan_nccl_machine_find(machines[draw(4)]),
                              COLLECTIVE_ALL_REDUCE,
                              nnodes << draw(3),
                              nnodes,
                              between(1e10, 4e11),
                              between(1e9, 5e10),
                              between(0, 1e-6)};
    if (c->nccl.nranks == 1) c->nccl.nranks = 2;
}

/* Small numbers, so that equal ends are common; those of tables and of NCCL's model are of microseconds. */
static void draw_problem(made *m, size_t nitems, size_t nkinds, costs of, bool with_tails) {
    int64_t ready = 0, latest = 0, unit = of == NCCL ? 500 : of == TABLES ? 100 : 1;
    for (size_t k = 0; k < nkinds; k++) {
        bool alone = k && !draw(4);
        size_t ncurves = alone ? 0 : 1 + draw(2);
        for (size_t i = 0; i < ncurves; i++) draw_curve(m, 2 * k + i, i ? LINKS : of);
        m->kinds[k] = (bucket_kind){&m->curves[2 * k], ncurves, ncurves, 0};
    }
    for (size_t i = 0; i < nitems; i++) {
        bucket_item *item = &m->items[i];
        ready += (int64_t)draw(40) * unit * (draw(3) != 0);
        *item = (bucket_item){.ready_ns = ready, .made_ns = ready, .kind = (uint32_t)draw(nkinds)};
        item->position = (uint32_t)(2 * i);
        item->deadline = UINT32_MAX;
        item->nbytes = (1 + draw(200) * draw(3)) * (of == NCCL ? 20000 : 1);
        item->padded = item->nbytes + draw(8) * draw(2);
        item->tail_ns = with_tails ? (int64_t)draw(300) * unit : 0;
        if (!draw(5)) item->made_ns -= (int64_t)draw((uint64_t)ready + 1);
        const bucket_kind *kind = &m->kinds[item->kind];
        item->alone_ns = kind->ncurves ? bucket_kind_ns(kind, item->nbytes) : (int64_t)draw(60) * unit;
        latest = ready + item->tail_ns > latest ? ready + item->tail_ns : latest;
    }
    m->problem = (bucket_problem){m->items, nitems, m->kinds, nkinds, latest, 0, NULL};
}

/* --- all their plans ---------------------------------------------------------------------------------------------- */

/* By set of items: what it takes as a bucket (-1: it is none), when it is ready, and what comes after. */
static struct { int64_t ns, ready, tail; } of_set[1 << FEW];

static void describe(const bucket_problem *p, unsigned set) {
    const bucket_kind *kind = NULL;
    size_t nbytes = 0, count = 0;
    bool mixed = false;
    of_set[set].ready = of_set[set].tail = 0;
    for (size_t i = 0; i < p->nitems; i++) {
        const bucket_item *item = &p->items[i];
        if (!(set >> i & 1)) continue;
        mixed = mixed || (kind && kind != &p->kinds[item->kind]);
        kind = &p->kinds[item->kind];
        nbytes += item->padded;
        if (item->made_ns > of_set[set].ready) of_set[set].ready = item->made_ns;
        if (item->tail_ns > of_set[set].tail) of_set[set].tail = item->tail_ns;
        of_set[set].ns = item->alone_ns;
        count++;
    }
    if (count > 1) of_set[set].ns = mixed || !kind->ncurves ? -1 : bucket_kind_ns(kind, nbytes);
}

/* Whether those of `left` can be sent from `now` on so that the step ends by then; `late` has for each set the time
 * from which on it is known that they cannot. */
static bool can_end(unsigned left, int64_t now, int64_t limit, int64_t *late) {
    if (!left) return true;
    if (now >= late[left]) return false;
    for (unsigned set = left; set; set = (set - 1) & left) {
        if (of_set[set].ns < 0) continue;
        int64_t end = (of_set[set].ready > now ? of_set[set].ready : now) + of_set[set].ns;
        if (end + of_set[set].tail <= limit && can_end(left & ~set, end, limit, late)) return true;
    }
    late[left] = now;
    return false;
}

static bool all_can_end(const bucket_problem *p, int64_t limit) {
    static int64_t late[1 << FEW];
    for (size_t k = 0; k < (size_t)1 << p->nitems; k++) late[k] = INT64_MAX;
    return limit >= p->compute_ns && can_end((1u << p->nitems) - 1, 0, limit, late);
}

static int64_t best_of_all(const bucket_problem *p, int64_t high) {
    int64_t low = p->compute_ns;
    for (unsigned set = 1; set < 1u << p->nitems; set++) describe(p, set);
    cr_assert(all_can_end(p, high), "the plan is one of all");
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (all_can_end(p, middle))
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

typedef struct tally {
    size_t count, tight, best;
    double sum, largest;
} tally;

static void check_case(uint64_t seed, size_t most, tally *tallies) {
    static made m;
    state = seed * 977 + 5;
    size_t nitems = 1 + draw(most), nkinds = 1 + seed % 3;
    costs of = seed / 3 % COSTS;
    draw_problem(&m, nitems, nkinds, of, seed / 9 % 2);
    bucket_answer a;
    bucket_bound by_lines, by_sets;
    must(bucket_plan_solve(&m.problem, &memory, &a));
    must(bucket_bound_find(&m.problem, a.begins, a.step_ns, 0, &memory, &by_lines));
    must(bucket_bound_find(&m.problem, a.begins, a.step_ns, FEW, &memory, &by_sets));
    int64_t best = best_of_all(&m.problem, a.step_ns);
    cr_assert_leq(by_lines.ns, best, "seed %llu, %s: the bound is %lld, the best %lld", (unsigned long long)seed,
                  costs_named[of], (long long)by_lines.ns, (long long)best);
    cr_assert_eq(by_sets.ns, best, "seed %llu, %s: of all sets %lld, the best %lld", (unsigned long long)seed,
                 costs_named[of], (long long)by_sets.ns, (long long)best);
    tally *t = &tallies[of];
    double gap = best ? (double)(best - by_lines.ns) / (double)best : 0;
    t->count++;
    t->tight += by_lines.ns == best;
    t->best += a.step_ns == best;
    t->sum += gap;
    t->largest = gap > t->largest ? gap : t->largest;
    arena_reset(&memory);
}

Test(passes_bucket_bound, is_below_all_plans) {
    bool is_long = getenv("WEFT_LONG_TESTS");
    tally tallies[COSTS] = {{0}};
    for (uint64_t seed = 0; seed < (is_long ? 10000 : 600); seed++) check_case(seed, is_long ? 12 : 8, tallies);
    for (size_t k = 0; k < COSTS; k++) {
        const tally *t = &tallies[k];
        printf(
            "# %s: %zu cases, by lines %zu tight, %.2f %% below the best in the mean, %.1f %% at most; cuts in order "
            "of readiness are the best of %zu\n",
            costs_named[k], t->count, t->tight, 100 * t->sum / (double)t->count, 100 * t->largest, t->best);
        cr_expect_gt(t->tight, 0);
        cr_expect_lt(t->best, t->count, "in no case is another order better");
        cr_expect_lt(t->sum / (double)t->count, 0.1);
    }
}

/* --- large cases -------------------------------------------------------------------------------------------------- */

/* A backward pass of blocks with four products each: gradients of 4 KiB and 4 or 16 MiB by turns. */
static void make_stack(made *m, size_t nitems, const double network[2], size_t nkinds, bool with_tails) {
    int64_t ready = 0;
    for (size_t k = 0; k < nkinds; k++) {
        m->curves[k] = (plan_curve){.times = 1, .parts = 1, .links = {{0, network[1], network[0], 0}}, .nlinks = 1};
        m->kinds[k] = (bucket_kind){&m->curves[k], 1, 1, 0};
    }
    for (size_t i = 0; i < nitems; i++) {
        bool small = i % 2 == 0;
        size_t nbytes = small ? 4096 : (size_t)(i % 12 < 4 ? 16 << 20 : 4 << 20);
        ready += small ? 4000 : (int64_t)(nbytes >> 20) * 7000;
        m->items[i] = (bucket_item){.ready_ns = ready,
                                    .made_ns = ready,
                                    .nbytes = nbytes,
                                    .padded = nbytes,
                                    .kind = (uint32_t)(i % nkinds),
                                    .position = (uint32_t)i,
                                    .deadline = UINT32_MAX,
                                    .alone_ns = bucket_kind_ns(m->kinds, nbytes)};
        m->items[i].tail_ns = with_tails ? (int64_t)((i * 7919) % nitems) * 2000 : 0;
    }
    m->problem = (bucket_problem){m->items, nitems, m->kinds, nkinds, ready, 0, NULL};
}

static double seconds_of(const made *m, const bucket_answer *a, bucket_bound *out) {
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    must(bucket_bound_find(&m->problem, a->begins, a->step_ns, BUCKET_SETS_MOST, &memory, out));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* Limits of an optimised build, 20 times as much where the machine has other work. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
#define IN_TIME(seconds, limit) cr_expect_lt(seconds, (getenv("WEFT_LONG_TESTS") ? 1 : 20) * (limit), "%g s", seconds)
#else
#define IN_TIME(seconds, limit) (void)(seconds)
#endif

/* Without tails and with one kind it is the plan's step but for the rounding of nanoseconds. */
Test(passes_bucket_bound, takes_little_time) {
    static made m;
    static const double networks[][2] = {{20e-6, 100e9}, {60e-6, 40e9}, {200e-6, 100e9}, {60e-6, 200e9}, {60e-6, 1e9}};
    static const size_t sizes[] = {144, 1000, MOST};
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++)
        for (size_t s = 0; s < 3; s++)
            for (int with_tails = 0; with_tails < 2 && (!with_tails || s < 2); with_tails++) {
                bucket_answer a;
                bucket_bound b;
                make_stack(&m, sizes[s], networks[k], 1, with_tails);
                must(bucket_plan_solve(&m.problem, &memory, &a));
                double seconds = seconds_of(&m, &a, &b);
                IN_TIME(seconds, s ? 0.2 : 2e-3);
                cr_expect_leq(b.ns, a.step_ns);
                if (!with_tails) cr_expect_geq(b.ns, a.step_ns - (int64_t)(a.nbuckets + sizes[s] / BUCKET_PARTS) - 1);
                if (getenv("WEFT_LONG_TESTS"))
                    printf("# network %zu%s: %zu: %.3f ms, %.3f %% below the plan\n", k, with_tails ? ", tails" : "",
                           sizes[s], 1e3 * seconds, 100 * (double)(a.step_ns - b.ns) / (double)a.step_ns);
                arena_reset(&memory);
            }
}

/* Two kinds: together, and where that is too many combinations as one. */
Test(passes_bucket_bound, of_several_kinds) {
    static made m;
    static const double network[] = {60e-6, 40e9};
    static const size_t sizes[] = {100, 400, 4000};
    for (size_t s = 0; s < 3; s++) {
        bucket_answer a;
        bucket_bound b;
        make_stack(&m, sizes[s], network, 2, false);
        must(bucket_plan_solve(&m.problem, &memory, &a));
        double seconds = seconds_of(&m, &a, &b);
        cr_expect_leq(b.ns, a.step_ns);
        cr_expect_eq(b.as_one, s > 1);
        cr_expect_leq((double)(a.step_ns - b.ns), 0.01 * (double)a.step_ns, "%lld ns, at least %lld",
                      (long long)a.step_ns, (long long)b.ns);
        IN_TIME(seconds, 0.2);
        arena_reset(&memory);
    }
}

/* Of as many as are tried in all sets. */
Test(passes_bucket_bound, of_all_sets) {
    static made m;
    static const double networks[][2] = {{20e-6, 100e9}, {60e-6, 40e9}, {60e-6, 1e9}};
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        bucket_answer a;
        bucket_bound b;
        make_stack(&m, BUCKET_SETS_MOST, networks[k], 1, true);
        must(bucket_plan_solve(&m.problem, &memory, &a));
        double seconds = seconds_of(&m, &a, &b);
        IN_TIME(seconds, 0.2);
        cr_expect_leq(b.ns, a.step_ns);
        if (getenv("WEFT_LONG_TESTS")) printf("# network %zu: all sets of 12: %.1f ms\n", k, 1e3 * seconds);
        arena_reset(&memory);
    }
}
