/* plan_network.c: messages over links, against what ASTRA-sim's analytical network says (astra-network-analytical
 * 599a047, tests): 1 MiB, 16 ranks, 1 GB there being 2^30 bytes. */
#include <criterion/criterion.h>

#include "base/context.h"
#include "plan/cost.h"
#include "plan/network.h"
#include "tests/support/must.h"

#define GIB 1073741824.0

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
TestSuite(plan_network, .init = set_up, .fini = tear_down);

static weft_link link_of(weft_topology topology, double gib, double ns) {
    return (weft_link){.bytes = gib * GIB, .seconds = ns * 1e-9, .topology = topology};
}

Test(plan_network, a_message_alone) {
    static const struct {
        weft_topology topology;
        int nranks, from, to;
        double gib, ns;
        int64_t expected;
    } cases[] = {
        {WEFT_TOPOLOGY_RING, 16, 1, 4, 50, 500, 21031},   {WEFT_TOPOLOGY_DIRECT, 16, 1, 4, 50, 500, 20031},
        {WEFT_TOPOLOGY_SWITCH, 16, 1, 4, 50, 500, 20531}, {WEFT_TOPOLOGY_RING, 2, 0, 1, 200, 50, 4932},
        {WEFT_TOPOLOGY_DIRECT, 8, 1, 4, 100, 500, 10265}, {WEFT_TOPOLOGY_SWITCH, 4, 0, 3, 50, 2000, 23531},
        {WEFT_TOPOLOGY_RING, 16, 4, 1, 50, 500, 21031},   {WEFT_TOPOLOGY_RING, 16, 15, 0, 50, 500, 20031},
        {WEFT_TOPOLOGY_SWITCH, 16, 3, 3, 50, 500, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_link link = link_of(cases[i].topology, cases[i].gib, cases[i].ns);
        plan_network net = {&link, cases[i].nranks};
        plan_message m = {cases[i].from, cases[i].to, 1 << 20};
        cr_expect_eq(plan_network_message_ns(&net, &m), cases[i].expected, "case %zu: %lld ns", i,
                     (long long)plan_network_message_ns(&net, &m));
    }
}

static int64_t play(weft_topology topology, const plan_message *messages, size_t count) {
    weft_link link = link_of(topology, 50, 500);
    plan_network net = {&link, 16};
    int64_t ns;
    must(plan_network_play(&net, messages, count, &memory, &ns));
    return ns;
}

Test(plan_network, a_message_passed_on_whole) {
    plan_message m = {1, 4, 1 << 20};
    cr_expect_eq(play(WEFT_TOPOLOGY_RING, &m, 1), 60093);
    cr_expect_eq(play(WEFT_TOPOLOGY_DIRECT, &m, 1), 20031);
    cr_expect_eq(play(WEFT_TOPOLOGY_SWITCH, &m, 1), 40062);
}

/* Each rank sends to every other at once. */
Test(plan_network, all_gather_over_a_ring) {
    plan_message messages[16 * 15];
    size_t count = 0;
    for (int from = 0; from < 16; from++)
        for (int to = 0; to < 16; to++)
            if (to != from) messages[count++] = (plan_message){from, to, 1 << 20};
    cr_expect_eq(play(WEFT_TOPOLOGY_RING, messages, count), 704116);
}

/* Two messages over one link: the second follows as soon as the bytes of the first are on it. */
Test(plan_network, a_link_takes_one_after_another) {
    plan_message messages[] = {{0, 1, 1 << 20}, {0, 1, 1 << 20}};
    cr_expect_eq(play(WEFT_TOPOLOGY_DIRECT, messages, 2), 19531 + 20031);
    messages[1].from = 2;
    cr_expect_eq(play(WEFT_TOPOLOGY_DIRECT, messages, 2), 20031);
    cr_expect_eq(play(WEFT_TOPOLOGY_SWITCH, messages, 2), 20031 + 19531 + 20031);
}

/* ASTRA-sim's own regression (518bd51, tests/rt_template): 8 ranks on a ring, 1 MiB in 4 splits, one at a time, 10 ns
 * at an endpoint, memory of 50e9 bytes a second: 117,780 ns on every rank. */
Test(plan_network, all_reduce_of_a_whole_system) {
    static const char text_of[] =
        "weft: 1\nrings: {0: [0, 1, 2, 3, 4, 5, 6, 7]}\nblocks:\n- vars: {x: {float32: [262144], "
        "persistable: true}}\n  ops:\n  - {c_allreduce_sum: {X: x}, out: {Out: x}, attrs: "
        "{ring_id: 0}}\n";
    weft_cluster cluster = {.op_seconds = 1e-12, .nlinks = 1};
    weft_program *p;
    weft_plan *plan;
    int64_t ns[1];
    cluster.links[0] = link_of(WEFT_TOPOLOGY_RING, 50, 500);
    cluster.links[0].nranks = 8;
    cluster.links[0].splits = 4;
    cluster.links[0].endpoint_seconds = 10e-9;
    cluster.links[0].memory_bytes = 50e9;
    must(weft_program_parse(context, WEFT_FORM_YAML, text_of, sizeof text_of - 1, NULL, 0, "program", &p));
    must(weft_plan_create(p, NULL, &plan));
    must(plan_cluster_settle(&cluster, &cluster));
    cr_assert_eq(plan->ninstrs, 1);
    must(plan_find_times(plan, &cluster, 8, 0, &memory, ns));
    cr_expect_eq(ns[0], 117780, "%lld ns", (long long)ns[0]);
    weft_plan_destroy(plan);
    weft_program_destroy(p);
}
