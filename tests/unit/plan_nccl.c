/* plan_nccl.c: NCCL's model against figures that are public, and what must hold of it whatever the figures. */
#include <criterion/criterion.h>
#include <math.h>

#include "plan/cost.h"
#include "plan/nccl.h"
#include "tests/support/must.h"

static nccl_call call_of(const char *machine, collective_kind kind, int nranks, int nnodes) {
    bool is_ampere = strcmp(machine, "a100") == 0;
    double links = is_ampere ? 240e9 : 370.8e9, adapter = is_ampere ? 25e9 : 50e9;
    return (nccl_call){.machine = plan_nccl_machine_find(machine),
                       .kind = kind,
                       .nranks = nranks,
                       .nnodes = nnodes,
                       .intra = links,
                       .inter = adapter * nranks / nnodes};
}

/* A ring of 8 A100 with LL is bound by what LL moves at most: 87.7 GB/s on the bus, 8 / 14 of it for an all-reduce. */
Test(plan_nccl, ring_of_8_a100) {
    nccl_call c = call_of("a100", COLLECTIVE_ALL_REDUCE, 8, 1);
    cr_expect_float_eq(plan_nccl_way(&c, NCCL_RING, NCCL_LL).bandwidth, 87.7 * 8 / 14, 1e-9);
}

/* 8.4 us, and twice 7 steps of 4 us. */
Test(plan_nccl, tree_of_8_in_a_node) {
    nccl_call c = call_of("a100", COLLECTIVE_ALL_REDUCE, 8, 1);
    cr_expect_float_eq(plan_nccl_way(&c, NCCL_TREE, NCCL_SIMPLE).latency_us, 8.4 + 2 * 7 * 4.0, 1e-9);
}

/* Two ranks in two nodes: two steps over the network, each with its latency and that of the flush, 4.7 us together. */
Test(plan_nccl, ring_of_two_nodes) {
    nccl_call c = call_of("h100", COLLECTIVE_ALL_REDUCE, 2, 2);
    c.inter_seconds = 2.35e-6;
    cr_expect_float_eq(plan_nccl_way(&c, NCCL_RING, NCCL_SIMPLE).latency_us, 8.4 + 2 * 14.0 + 4.7 * 2, 1e-9);
}

static double seconds(const char *machine, collective_kind kind, int nranks, int nnodes, double nbytes) {
    nccl_call c = call_of(machine, kind, nranks, nnodes);
    return plan_nccl_seconds(&c, nbytes, NULL, NULL);
}

Test(plan_nccl, ways_that_there_are) {
    for (int p = 0; p < NCCL_PROTOCOLS; p++) {
        nccl_call ampere = call_of("a100", COLLECTIVE_ALL_REDUCE, 8, 1),
                  hopper = call_of("h100", COLLECTIVE_ALL_REDUCE, 8, 1),
                  nodes = call_of("h100", COLLECTIVE_ALL_REDUCE, 16, 2),
                  gather = call_of("h100", COLLECTIVE_ALL_GATHER, 8, 1);
        cr_expect_eq(plan_nccl_way(&ampere, NCCL_NVLS, p).bandwidth, 0, "Ampere has no NVLS");
        cr_expect_eq(plan_nccl_way(&hopper, NCCL_NVLS, p).bandwidth > 0, p == NCCL_SIMPLE, "NVLS is Simple");
        cr_expect_eq(plan_nccl_way(&hopper, NCCL_NVLS_TREE, p).bandwidth, 0, "NVLS trees are for several nodes");
        cr_expect_eq(plan_nccl_way(&nodes, NCCL_NVLS_TREE, p).bandwidth > 0, p == NCCL_SIMPLE);
        cr_expect_eq(plan_nccl_way(&gather, NCCL_TREE, p).bandwidth, 0, "trees are for all-reduces");
    }
}

Test(plan_nccl, more_takes_no_less) {
    static const struct {
        const char *machine;
        int nranks, nnodes;
    } cases[] = {{"v100", 8, 1},  {"a100", 8, 1}, {"a100", 16, 2}, {"h100", 8, 1},
                 {"h100", 64, 8}, {"b200", 8, 1}, {"h100", 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double before = 0;
        for (double nbytes = 64; nbytes < 4e9; nbytes *= 1.1) {
            double all = seconds(cases[i].machine, COLLECTIVE_ALL_REDUCE, cases[i].nranks, cases[i].nnodes, nbytes);
            double gather = seconds(cases[i].machine, COLLECTIVE_ALL_GATHER, cases[i].nranks, cases[i].nnodes, nbytes);
            double scatter =
                seconds(cases[i].machine, COLLECTIVE_REDUCE_SCATTER, cases[i].nranks, cases[i].nnodes, nbytes);
            cr_assert_geq(all, before, "%s: %g bytes take less", cases[i].machine, nbytes);
            cr_assert_eq(gather, scatter);
            before = all;
        }
    }
}

/* Ring and tree alone: NVLS sums in the switch, where an all-reduce is no dearer. */
Test(plan_nccl, an_all_reduce_takes_more_than_an_all_gather) {
    for (double nbytes = 1024; nbytes < 4e9; nbytes *= 2)
        cr_expect_gt(seconds("a100", COLLECTIVE_ALL_REDUCE, 8, 1, nbytes),
                     seconds("a100", COLLECTIVE_ALL_GATHER, 8, 1, nbytes));
}

/* Large messages come near the bandwidth of the links, small ones go by a low-latency protocol. */
Test(plan_nccl, chooses_by_size) {
    nccl_call c = call_of("a100", COLLECTIVE_ALL_REDUCE, 8, 1);
    int algorithm = -1, protocol = -1;
    double large = plan_nccl_seconds(&c, 4e9, &algorithm, &protocol);
    cr_expect_eq(algorithm, NCCL_RING);
    cr_expect_eq(protocol, NCCL_SIMPLE);
    cr_expect_float_eq(4e9 / large, 240e9 * 8 / 14, 1e9);
    plan_nccl_seconds(&c, 256, &algorithm, &protocol);
    cr_expect_eq(protocol, NCCL_LL);
}

/* A mesh of 2 x 4 x 4 on 4 nodes of 8: rings of its dimensions have 4, 2 and 1 ranks a node, on 1, 2 and 2 nodes. */
Test(plan_nccl, rings_of_a_mesh) {
    static const int64_t last[] = {0, 1, 2, 3}, middle[] = {0, 4, 8, 12}, first[] = {0, 16};
    static const struct {
        const int64_t *ranks;
        int nranks, per_node, nnodes;
    } cases[] = {{last, 4, 4, 1}, {middle, 4, 2, 2}, {first, 2, 1, 2}};
    weft_cluster cluster = {
        .nlinks = 2, .machine = "h100", .links = {{.nranks = 8, .bytes = 370.8e9}, {.bytes = 50e9}}};
    must(plan_cluster_settle(&cluster, &cluster));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_ring dim = {.ranks = cases[i].ranks, .nranks = cases[i].nranks};
        plan_curve curve;
        must(plan_kind_curve(&cluster, &dim, COLLECTIVE_ALL_REDUCE, &curve));
        cr_expect_eq(curve.nccl.nnodes, cases[i].nnodes, "case %zu: %d nodes", i, curve.nccl.nnodes);
        cr_expect_eq(curve.nccl.nranks / curve.nccl.nnodes, cases[i].per_node, "case %zu", i);
    }
}
