/* simulate_races.c: races that a simulation shows: those that are there, and no others. */
#include <stdio.h>

#include "tests/support/fixtures.h"
#include "tests/support/order.h"
#include "tests/support/simulated.h"

Test(simulate_races, sees_a_race_and_not_its_twin) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_seen_race race;
    session s;
    start_aside(&s, 2, WEFT_READING_IN_ORDER, &o); /* nothing says that #1 comes after #0, or #4 after #1 */
    step_us(&s);
    cr_assert_eq(weft_simulation_nraces(s.simulation), 1); /* #4 begins at 3 us, as the reduce ends: just in time */
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.first.op_index, 0);
    cr_expect_eq(race.second.op_index, 1);
    cr_expect(race.first.is_write);
    cr_expect_str_eq(race.second.type, "c_allreduce_sum");
    cr_expect_str_eq(race.second.stream, "ring_0");
    cr_expect_str_eq(race.second.value, "y");
    cr_expect_float_eq(race.first.end_seconds * 1e6, 1, 1e-9);
    cr_expect_float_eq(race.second.start_seconds, 0, 1e-9);
    cr_expect_eq(race.count, 2, "on both ranks");
    step_us(&s);
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.count, 4);
    stop(&s);
    start_aside(&s, 2, WEFT_READING_BY_BYTES, &o);
    step_us(&s);
    cr_expect_eq(weft_simulation_nraces(s.simulation), 0);
    stop(&s);
}

/* #1 takes x while #0 still reads it. */
Test(simulate_races, sees_a_write_that_comes_before_a_read) {
    static const char *const texts[] = {VARS SCALE("x", "z") REDUCE_ASIDE("x", "0")};
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_seen_race race;
    session s;
    start(&s, 2, 1, texts, WEFT_READING_IN_ORDER, &o);
    step_us(&s);
    cr_assert_eq(weft_simulation_nraces(s.simulation), 1);
    weft_simulation_race_at(s.simulation, 0, &race);
    cr_expect_eq(race.first.op_index, 0);
    cr_expect(!race.first.is_write);
    cr_expect(race.second.is_write);
    stop(&s);
}

static bool is_claimed(const weft_plan *made, const order_verdict *v, const weft_seen_race *race) {
    for (size_t i = 0; i < v->npairs; i++)
        if (made->instrs[v->pairs[i].earlier].op_index == race->first.op_index &&
            made->instrs[v->pairs[i].later].op_index == race->second.op_index)
            return true;
    return false;
}

/* Runs the plans with one op late. How many races are seen, all of which `v` must claim; whether `later` is in one:
 * with the op that is late, or with one that it made even later. */
static size_t run_late(session *s, const order_verdict *v, int64_t op_index, int64_t later, bool *out_has) {
    weft_cluster cluster;
    weft_simulation_options o = with(&cluster);
    weft_delay late = {-1, op_index, 1};
    weft_simulation *x;
    o.delays = &late;
    o.ndelays = 1;
    must(weft_simulation_create(s->context, (const weft_plan *const *)s->plans, s->nplans, (int)s->nplans, &o, &x));
    must(weft_simulation_run(x));
    size_t n = weft_simulation_nraces(x);
    *out_has = false;
    for (size_t i = 0; i < n; i++) {
        weft_seen_race race;
        weft_simulation_race_at(x, i, &race);
        *out_has |= race.first.end_seconds > 1 && race.second.op_index == later;
        cr_expect(is_claimed(s->plans[race.rank], v, &race), "nobody claims a race of #%lld and #%lld",
                  (long long)race.first.op_index, (long long)race.second.op_index);
    }
    weft_simulation_destroy(x);
    return n;
}

/* Plans of a recorded program of two ranks; false if it is not there. */
static bool plan_recorded(session *s, const char *folder, const char *stage, weft_reading reading) {
    memset(s, 0, sizeof *s);
    s->context = new_context(&s->count);
    for (int r = 0; r < 2; r++) {
        char relative[200], path[600];
        weft_program *p;
        weft_plan_order *order;
        snprintf(relative, sizeof relative, "%s/rank%d.%s.pdmodel", folder, r, stage);
        if (!fixture_path(path, sizeof path, relative)) return false;
        must(weft_program_load(s->context, path, NULL, &p));
        must(weft_plan_order_create(p, &(weft_order_options){WEFT_ORDER_OPTIONS_INIT, .reading = reading}, &order));
        must(weft_plan_create(p, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .order = order}, &s->plans[s->nplans++]));
        weft_plan_order_destroy(order);
        weft_program_destroy(p);
    }
    return true;
}

static const struct recorded {
    const char *folder, *stage;
    size_t stride; /* every so many ops are late, one a run */
} recorded[] = {{"paddle26/mlp_sgd_dp2", "after.default", 1},
                {"paddle26/mlp_sgd_dp2", "after.overlap", 1},
                {"paddle26/mlp_dp2_gradmerge", "after.default", 3},
                {"paddle26/gpt_tiny_adamw_dp2", "after.default", 19}};
enum { NRECORDED = sizeof recorded / sizeof *recorded };

Test(simulate_races, plans_by_bytes_never_race_however_late_an_op_is) {
    for (size_t k = 0; k < NRECORDED; k++) {
        static const order_verdict none;
        session s;
        bool has;
        if (plan_recorded(&s, recorded[k].folder, recorded[k].stage, WEFT_READING_BY_BYTES)) {
            for (size_t i = 0; i < s.plans[0]->ninstrs; i += recorded[k].stride) {
                int64_t op = s.plans[0]->instrs[i].op_index;
                cr_expect_eq(run_late(&s, &none, op, -1, &has), 0, "%s %s races with op #%lld late", recorded[k].folder,
                             recorded[k].stage, (long long)op);
            }
        }
        stop(&s);
    }
}

/* Pairs that a closure over all pairs finds unordered show when the earlier op is late, and no others do. */
Test(simulate_races, races_that_are_claimed_show) {
    for (size_t k = 0; k < NRECORDED; k++) {
        session s;
        size_t nshown = 0;
        if (!plan_recorded(&s, recorded[k].folder, recorded[k].stage, WEFT_READING_IN_ORDER)) {
            stop(&s);
            continue;
        }
        order_verdict v;
        order_of_plan(s.plans[0], &v);
        cr_expect(v.npairs > 0, "%s %s is right in order", recorded[k].folder, recorded[k].stage);
        for (size_t i = 0; i < v.npairs; i += recorded[k].stride) {
            const plan_instr *a = &s.plans[0]->instrs[v.pairs[i].earlier], *b = &s.plans[0]->instrs[v.pairs[i].later];
            bool has;
            run_late(&s, &v, a->op_index, b->op_index, &has);
            nshown += has;
            cr_expect(has, "%s %s: #%d and #%d do not show", recorded[k].folder, recorded[k].stage, a->op_index,
                      b->op_index);
        }
        cr_expect(nshown > 0);
        order_free(&v);
        stop(&s);
    }
}
