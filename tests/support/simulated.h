/* simulated.h: small programs in YAML and their simulation, for the suites that look at one. Every op takes 1 us and
 * every message of a ring 1 us, so that times can be counted by hand. */
#ifndef TESTS_SUPPORT_SIMULATED_H
#define TESTS_SUPPORT_SIMULATED_H

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/must.h"
#include "tests/support/training.h"
#include "weft/simulate.h"
#include "weft/verify.h"

enum { MOST_RANKS = 4 };

#define VARS                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    x: {float32: [8], persistable: true}\n    y: {float32: [8]}\n"                     \
    "    z: {float32: [8]}\n    u: {float32: [8]}\n  ops:\n"
#define SCALE(in, out) "  - {scale: {X: [" in "]}, out: {Out: [" out "]}, attrs: {scale: 1.0}}\n"
#define REDUCE_ON(v, ring, calc)                                                                                       \
    "  - {c_allreduce_sum: {X: [" v "]}, out: {Out: [" v "]}, attrs: {ring_id: " ring ", use_calc_stream: " calc "}}"  \
    "\n"
#define REDUCE(v, ring) REDUCE_ON(v, ring, "true")
#define REDUCE_ASIDE(v, ring) REDUCE_ON(v, ring, "false")

/* #0 makes y, #1 reduces it on a stream of its own, #2 and #3 do not need it, #4 does. */
static const char aside_text[] =
    VARS SCALE("x", "\"y\"") REDUCE_ASIDE("\"y\"", "0") SCALE("x", "z") SCALE("z", "u") SCALE("\"y\"", "z");

typedef struct session {
    counter count;
    weft_context *context;
    weft_plan *plans[MOST_RANKS];
    size_t nplans;
    weft_simulation *simulation;
} session;

static inline weft_simulation_options with(weft_cluster *cluster) {
    *cluster =
        (weft_cluster){.flops = 1e30, .bytes = 1e30, .op_seconds = 1e-6, .links = {{0, 1e30, 1e-6, 0}}, .nlinks = 1};
    return (weft_simulation_options){
        WEFT_SIMULATION_OPTIONS_INIT, .cluster = cluster, .trace_steps = 1, .unsafe = true};
}

static inline void plan(session *s, const char *yaml, weft_reading reading) {
    static const char *const fetches[] = {"z"};
    weft_program *p;
    weft_plan_order *order;
    must(weft_program_parse(s->context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "p.yaml", &p));
    must(weft_plan_order_create(p, &(weft_order_options){WEFT_ORDER_OPTIONS_INIT, .reading = reading}, &order));
    weft_plan_options how = {WEFT_PLAN_OPTIONS_INIT, .fetches = fetches, .nfetches = 1, .order = order};
    must(weft_plan_create(p, &how, &s->plans[s->nplans++]));
    weft_plan_order_destroy(order);
    weft_program_destroy(p);
}

/* Rank r runs texts[r]; of one text all run it. */
static inline void start(session *s, int nranks, size_t ntexts, const char *const *texts, weft_reading reading,
                         const weft_simulation_options *options) {
    memset(s, 0, sizeof *s);
    s->context = new_context(&s->count);
    for (size_t i = 0; i < ntexts; i++) plan(s, texts[i], reading);
    must(weft_simulation_create(s->context, (const weft_plan *const *)s->plans, ntexts, nranks, options,
                                &s->simulation));
}

static inline void start_aside(session *s, int nranks, weft_reading reading, const weft_simulation_options *options) {
    const char *yaml = aside_text;
    start(s, nranks, 1, &yaml, reading, options);
}

static inline void stop(session *s) {
    weft_simulation_destroy(s->simulation);
    for (size_t i = 0; i < s->nplans; i++) weft_plan_destroy(s->plans[i]);
    weft_context_destroy(s->context);
    cr_expect_eq(s->count.nlive, 0, "blocks leaked");
}

static inline double step_us(session *s) {
    must(weft_simulation_run(s->simulation));
    return weft_simulation_step_seconds(s->simulation) * 1e6;
}

#endif
