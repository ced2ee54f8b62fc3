/* passes_bucket_plan.c: the best buckets: against all partitions of small cases, and how fast large ones are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/context.h"
#include "passes/bucket_plan.h"
#include "tests/support/draw.h"
#include "tests/support/must.h"

enum { MOST = 10000 };

static uint64_t state;

static uint64_t draw(uint64_t below) {
    return draw_below(&state, below);
}

typedef struct made {
    bucket_problem problem;
    bucket_item items[MOST];
    bucket_kind kinds[3];
    plan_curve curves[3];
    int64_t rooms[MOST];
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
TestSuite(passes_bucket_plan, .init = set_up, .fini = tear_down);

/* --- small cases, and all their plans ----------------------------------------------------------------------------- */

static double between(double low, double high) {
    return low + (high - low) * (double)draw(1000) / 1000;
}

static void draw_curve(plan_curve *c) {
    *c = (plan_curve){.times = (double)(1 + draw(6)), .parts = (double)(1 + draw(4)), .op_seconds = between(0, 5e-9)};
    c->nlinks = 1 + draw(2);
    for (size_t k = 0; k < c->nlinks; k++)
        c->links[k] = (weft_link){.seconds = between(0, 2e-8), .bytes = between(1e9, 2e10)};
}

/* Small numbers, so that equal ends and deadlines that just hold are common. */
static void draw_problem(made *m, size_t nitems, size_t nkinds, bool with_tails, bool with_deadlines) {
    int64_t ready = 0, latest = 0;
    for (size_t k = 0; k < nkinds; k++) {
        draw_curve(&m->curves[k]);
        bool alone = k && !draw(4);
        m->kinds[k] = (bucket_kind){alone ? NULL : &m->curves[k], !alone, !alone, 0};
    }
    for (size_t i = 0; i < nitems; i++) {
        bucket_item *item = &m->items[i];
        ready += (int64_t)draw(40) * (draw(3) != 0);
        *item = (bucket_item){.ready_ns = ready, .kind = (uint32_t)draw(nkinds), .position = (uint32_t)(2 * i)};
        item->nbytes = 1 + draw(200) * draw(3);
        item->padded = item->nbytes + draw(8);
        item->tail_ns = with_tails ? (int64_t)draw(300) : 0;
        item->deadline = with_deadlines && !draw(4) ? item->position + 1 + (uint32_t)draw(6) : UINT32_MAX;
        const bucket_kind *kind = &m->kinds[item->kind];
        item->alone_ns = kind->ncurves ? bucket_kind_ns(kind, item->nbytes) : (int64_t)draw(60);
        latest = ready + item->tail_ns > latest ? ready + item->tail_ns : latest;
    }
    m->problem = (bucket_problem){m->items, nitems, m->kinds, nkinds, latest, 0, NULL};
}

/* The end of the step with these buckets, as a reader of the header would count it; -1: a deadline does not hold. */
static int64_t play(const bucket_problem *p, unsigned begins) {
    int64_t now = 0, step = p->compute_ns;
    for (size_t j = 0; j < p->nitems; j++) {
        const bucket_item *last = &p->items[j];
        bool is_end = true;
        for (size_t i = j + 1; i < p->nitems; i++) {
            if (p->items[i].kind != last->kind) continue;
            is_end = begins >> i & 1;
            break;
        }
        if (!is_end) continue;
        size_t nbytes = 0, count = 0;
        int64_t tail = 0;
        for (size_t i = j + 1; i-- > 0;) {
            const bucket_item *item = &p->items[i];
            if (item->kind != last->kind) continue;
            if (i < j && item->deadline <= last->position) return -1;
            if (p->rooms && (int64_t)nbytes > p->rooms[i]) return -1;
            nbytes += item->padded;
            count++;
            if (item->tail_ns > tail) tail = item->tail_ns;
            if (begins >> i & 1) break;
        }
        const bucket_kind *kind = &p->kinds[last->kind];
        if (count > 1 && !kind->ncurves) return -1;
        if (count > 1 && p->most_nbytes && nbytes > p->most_nbytes) return -1;
        int64_t ns = last->alone_ns;
        for (size_t k = 0; k < kind->ncurves && count > 1; k++) ns = plan_curve_ns(&kind->curves[k], (double)nbytes);
        now = (now > last->ready_ns ? now : last->ready_ns) + ns;
        if (now + tail > step) step = now + tail;
    }
    return step;
}

static int64_t best_of_all(const bucket_problem *p) {
    int64_t best = INT64_MAX;
    unsigned must_begin = 0;
    bool seen[3] = {false};
    for (size_t i = 0; i < p->nitems; i++) {
        if (!seen[p->items[i].kind]) must_begin |= 1u << i;
        seen[p->items[i].kind] = true;
    }
    for (unsigned begins = 0; begins < 1u << p->nitems; begins++) {
        if ((begins & must_begin) != must_begin) continue;
        int64_t step = play(p, begins);
        if (step >= 0 && step < best) best = step;
    }
    return best;
}

static unsigned bits_of(const bucket_answer *a, size_t n) {
    unsigned bits = 0;
    for (size_t i = 0; i < n; i++) bits |= (unsigned)a->begins[i] << i;
    return bits;
}

/* By branch and bound: with room for all nodes it is the best plan too; with little, the bound tells. */
static void check_search(uint64_t seed, const bucket_problem *p, int64_t best) {
    for (size_t most = 4096; most; most = most > 16 ? 16 : 0) {
        bool begins[12] = {false};
        bool seen[3] = {false};
        bucket_answer a = {.begins = begins, .step_ns = 0, .bound_ns = p->compute_ns};
        for (size_t i = 0; i < p->nitems; i++) begins[i] = true; /* one by one is a plan */
        must(bucket_plan_step(p, begins, &memory, &a.step_ns));
        must(bucket_search(p, most, &memory, &a));
        for (size_t i = 0; i < p->nitems; i++) {
            cr_assert(begins[i] || seen[p->items[i].kind]);
            seen[p->items[i].kind] = true;
        }
        cr_assert_eq(play(p, bits_of(&a, p->nitems)), a.step_ns, "seed %llu: its buckets are not its answer",
                     (unsigned long long)seed);
        cr_assert_geq(a.step_ns, best, "seed %llu", (unsigned long long)seed);
        cr_assert_leq(a.bound_ns, best, "seed %llu: the bound is %lld, the best %lld", (unsigned long long)seed,
                      (long long)a.bound_ns, (long long)best);
        bool has_tails = false;
        for (size_t i = 0; i < p->nitems; i++) has_tails = has_tails || p->items[i].tail_ns;
        if (most > 16 && !has_tails)
            cr_assert_eq(a.step_ns, best, "seed %llu: %lld ns, the best takes %lld", (unsigned long long)seed,
                         (long long)a.step_ns, (long long)best);
    }
}

static void check_case(uint64_t seed) {
    static made m;
    state = seed * 977 + 5;
    size_t nitems = 1 + draw(getenv("WEFT_LONG_TESTS") ? 12 : 10), nkinds = 1 + seed % 3;
    draw_problem(&m, nitems, nkinds, seed / 3 % 2, seed / 6 % 2);
    bucket_answer a;
    if (seed % 5 == 4) m.problem.most_nbytes = 1 + draw(600);
    if (seed % 7 > 4) m.problem.rooms = m.rooms;
    for (size_t i = 0; i < nitems; i++) m.rooms[i] = (int64_t)draw(500);
    must(bucket_plan_solve(&m.problem, &memory, &a));
    int64_t best = best_of_all(&m.problem);
    cr_assert_eq(a.step_ns, best, "seed %llu: %lld ns, the best takes %lld", (unsigned long long)seed,
                 (long long)a.step_ns, (long long)best);
    cr_assert_eq(a.bound_ns, best, "seed %llu: the bound is %lld", (unsigned long long)seed, (long long)a.bound_ns);
    cr_assert_eq(play(&m.problem, bits_of(&a, nitems)), best, "seed %llu: its buckets are not its answer",
                 (unsigned long long)seed);
    check_search(seed, &m.problem, best);
    arena_reset(&memory);
}

Test(passes_bucket_plan, is_the_best_of_all_plans) {
    uint64_t ncases = getenv("WEFT_LONG_TESTS") ? 10000 : 600;
    for (uint64_t seed = 0; seed < ncases; seed++) check_case(seed);
}

/* Bytes 1, 3, 1, ready at 3, 4, 6, a message costs 2 and a byte 1: the greedy rule of MG-WFBP ends at 13. */
Test(passes_bucket_plan, beats_the_greedy_rule) {
    static made m;
    static const int64_t nbytes[] = {1, 3, 1}, ready[] = {3, 4, 6};
    m.curves[0] = (plan_curve){.times = 1, .parts = 1, .links = {{0, 1e9, 2e-9, 0}}, .nlinks = 1};
    m.kinds[0] = (bucket_kind){m.curves, 1, 1, 0};
    for (size_t i = 0; i < 3; i++)
        m.items[i] = (bucket_item){.ready_ns = ready[i],
                                   .nbytes = (size_t)nbytes[i],
                                   .padded = (size_t)nbytes[i],
                                   .alone_ns = nbytes[i] + 2,
                                   .position = (uint32_t)i,
                                   .deadline = UINT32_MAX};
    m.problem = (bucket_problem){m.items, 3, m.kinds, 1, 6, 0, NULL};
    bucket_answer a;
    must(bucket_plan_solve(&m.problem, &memory, &a));
    cr_expect_eq(a.step_ns, 12);
    cr_expect_eq(bits_of(&a, 3), 3u, "{1}, {2, 3}");
}

/* --- large cases -------------------------------------------------------------------------------------------------- */

/* A backward pass of blocks with four products each: gradients of 4 KiB and 4 or 16 MiB by turns. */
static void make_stack(made *m, size_t nitems, double alpha, double bytes_per_second, bool with_tails) {
    int64_t ready = 0;
    m->curves[0] = (plan_curve){.times = 1, .parts = 1, .links = {{0, bytes_per_second, alpha, 0}}, .nlinks = 1};
    m->kinds[0] = (bucket_kind){m->curves, 1, 1, 0};
    for (size_t i = 0; i < nitems; i++) {
        bool small = i % 2 == 0;
        size_t nbytes = small ? 4096 : (size_t)(i % 12 < 4 ? 16 << 20 : 4 << 20);
        ready += small ? 4000 : (int64_t)(nbytes >> 20) * 7000;
        m->items[i] = (bucket_item){.ready_ns = ready,
                                    .nbytes = nbytes,
                                    .padded = nbytes,
                                    .position = (uint32_t)i,
                                    .deadline = UINT32_MAX,
                                    .alone_ns = bucket_kind_ns(m->kinds, nbytes)};
        m->items[i].tail_ns = with_tails ? (int64_t)((i * 7919) % nitems) * 2000 : 0;
    }
    m->problem = (bucket_problem){m->items, nitems, m->kinds, 1, ready, 0, NULL};
}

static double seconds_of(const bucket_problem *p, bucket_answer *a) {
    struct timespec from, to;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    must(bucket_plan_solve(p, &memory, a));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* Limits of an optimised build, 20 times as much where the machine has other work. */
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
#define IN_TIME(seconds, limit) cr_expect_lt(seconds, (getenv("WEFT_LONG_TESTS") ? 1 : 20) * (limit), "%g s", seconds)
#else
#define IN_TIME(seconds, limit) (void)(seconds)
#endif

Test(passes_bucket_plan, takes_little_time) {
    static made m;
    static const double networks[][2] = {{20e-6, 100e9}, {60e-6, 40e9}, {200e-6, 100e9}, {60e-6, 200e9}, {60e-6, 1e9}};
    bucket_answer a;
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        for (int with_tails = 0; with_tails < 2; with_tails++) {
            make_stack(&m, 144, networks[k][0], networks[k][1], with_tails);
            double few = seconds_of(&m.problem, &a);
            IN_TIME(few, 5e-3);
            size_t n = with_tails ? 1000 : MOST;
            make_stack(&m, n, networks[k][0], networks[k][1], with_tails);
            double many = seconds_of(&m.problem, &a);
            IN_TIME(many, 1.0);
            if (getenv("WEFT_LONG_TESTS"))
                printf("# network %zu%s: 144: %.3f ms, %zu: %.3f s, %zu buckets\n", k, with_tails ? ", tails" : "",
                       1e3 * few, n, many, a.nbuckets);
            cr_expect_eq(a.step_ns, a.bound_ns);
            arena_reset(&memory);
        }
    }
}

/* Too many combinations of two kinds: the bound says how far the answer may be from the best. */
Test(passes_bucket_plan, bounds_what_it_cannot_solve) {
    static made m;
    make_stack(&m, 4000, 60e-6, 40e9, false);
    m.curves[1] = m.curves[0];
    m.kinds[1] = (bucket_kind){&m.curves[1], 1, 1, 0};
    m.problem.nkinds = 2;
    for (size_t i = 0; i < 4000; i++) m.items[i].kind = i % 2;
    bucket_answer a;
    int64_t step;
    must(bucket_plan_solve(&m.problem, &memory, &a));
    must(bucket_plan_step(&m.problem, a.begins, &memory, &step));
    cr_expect_eq(step, a.step_ns);
    cr_expect_leq(a.bound_ns, a.step_ns);
    cr_expect_geq(a.bound_ns, m.problem.compute_ns);
    if (getenv("WEFT_LONG_TESTS"))
        printf("# 4000 of two kinds: %.6f ms, at least %.6f\n", 1e-6 * (double)a.step_ns, 1e-6 * (double)a.bound_ns);
    cr_expect_leq((double)(a.step_ns - a.bound_ns), 0.01 * (double)a.step_ns, "%lld ns, at least %lld",
                  (long long)a.step_ns, (long long)a.bound_ns);
}
