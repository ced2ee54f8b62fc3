/* plan_network.c: messages over links, against what ASTRA-sim's analytical network says (astra-network-analytical
 * 599a047, tests): 1 MiB, 16 ranks, 1 GB there being 2^30 bytes. */
#include <criterion/criterion.h>

#include "base/context.h"
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
