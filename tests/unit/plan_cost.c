/* plan_cost.c: how long instructions take on a cluster, and cluster files: what is read, what is refused and where. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/cost.h"
#include "tests/support/must.h"

static weft_context *context;

static void keep_diagnostic(void *user, const weft_diagnostic *d) {
    char *words = user;
    size_t n = strlen(words);
    snprintf(words + n, 1000 - n, "%d:%d: %s\n", d->line, d->column, d->message);
}

static char words[1000];

static void open_context(void) {
    *words = '\0';
    must(weft_context_create(
        &(weft_context_options){WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = keep_diagnostic, .diagnostic_user = words},
        &context));
}

static void close_context(void) {
    weft_context_destroy(context);
}

TestSuite(plan_cost, .init = open_context, .fini = close_context);

/* --- cluster files ------------------------------------------------------------------------------------------------ */

static weft_status parse(const char *yaml, weft_cluster *out) {
    return weft_cluster_parse(context, yaml, strlen(yaml), "cluster.yaml", out);
}

Test(plan_cost, reads_a_cluster) {
    weft_cluster c;
    must(parse("flops_per_second: 1.0e+3\nbytes_per_second: 20\nseconds_per_op: 0.5\nlinks:\n"
               "- {ranks: 2, bytes_per_second: 8, seconds_per_message: 0.25}\n- {ranks: 6}\n- {bytes_per_second: 3}\n",
               &c));
    cr_expect_eq(c.flops, 1000);
    cr_expect_eq(c.bytes, 20);
    cr_expect_eq(c.op_seconds, 0.5);
    cr_assert_eq(c.nlinks, 3);
    cr_expect_eq(c.links[0].nranks, 2);
    cr_expect_eq(c.links[0].bytes, 8);
    cr_expect_eq(c.links[0].seconds, 0.25);
    cr_expect_eq(c.links[1].nranks, 6);
    cr_expect_eq(c.links[2].nranks, 0);
    cr_expect_eq(c.links[2].bytes, 3);
    must(plan_cluster_settle(&c, &c));
    cr_expect_eq(c.links[1].bytes, 5e10);
    cr_expect_eq(c.links[2].seconds, 5e-6);
    must(parse("{}", &c));
    must(plan_cluster_settle(&c, &c));
    cr_expect_eq(c.flops, 1e14);
    cr_assert_eq(c.nlinks, 1);
}

Test(plan_cost, says_where_a_cluster_is_wrong) {
    static const struct {
        const char *text, *found;
    } cases[] = {
        {"[1]", "1:1: expected a cluster"},
        {"bytes_per_second: fast\n", "1:19: bytes_per_second: expected a number greater than 0"},
        {"flops_per_second: 0\n", "1:19: flops_per_second: expected"},
        {"seconds_per_op: -1.0e-6\n", "1:17: seconds_per_op: expected"},
        {"seconds_per_op: .nan\n", "1:17: seconds_per_op: expected"},
        {"seconds_per_op: .inf\n", "1:17: seconds_per_op: expected"},
        {"seconds_per_op: [1]\n", "1:17: seconds_per_op: expected"},
        {"\nspeed: 1\n", "2:1: \"speed\" is not known here"},
        {"links: 3\n", "1:8: links: expected a list of 1 to 8 links"},
        {"links: []\n", "1:8: links: expected a list"},
        {"links: [1, {}]\n", "1:9: expected a link"},
        {"links:\n- {ranks: 1.5}\n", "2:11: ranks: expected a whole number"},
        {"links:\n- {ranks: 0}\n", "2:11: ranks: expected a whole number"},
        {"links:\n- {seconds_per_endpoint: 1}\n",
         "2:3: seconds_per_endpoint and memory_bytes_per_second are of messages"},
        {"links:\n- {topology: star}\n", "2:14: topology: expected direct, ring or switch"},
        {"links:\n- {topology: [ring]}\n", "2:14: topology: expected direct, ring or switch"},
        {"links:\n- {rank: 2}\n", "2:4: \"rank\" is not known here"},
        {"links:\n- {ranks: 8}\n- {ranks: 12}\n",
         "3:3: ranks: expected a multiple of the 8 of the link before, found 12"},
        {"links:\n- {ranks: 8}\n- {ranks: 8}\n", "3:3: ranks: expected a multiple of the 8"},
        {"links:\n- {}\n- {ranks: 8}\n", "3:3: a link behind one without ranks"},
        {"links: [{},{},{},{},{},{},{},{},{}]\n", "1:8: links: expected a list of 1 to 8 links"},
        {"flops_per_second: 1\nflops_per_second: 1\n", "2:1: "},
        {"flops_per_second: x\nlinks: y\n", "2:8: links: expected a list"},
        {"compute_beside_collective: 0.5\n", "1:28: compute_beside_collective: expected a number from 1 on"},
        {"machine: abacus\n", "1:10: machine: expected v100, a100, h100 or b200"},
        {"machine: h100\nlinks: [{bytes_per_second: 1}]\n", "1:1: machine: expected a first link that says how many"},
        {"collectives: 3\n", "1:14: collectives: expected a list of at most 12 tables"},
        {"collectives: [3]\n", "1:15: expected a table: {op, ranks, bytes, seconds}"},
        {"collectives:\n- {op: sum}\n", "2:8: op: expected all_reduce"},
        {"collectives:\n- {op: all_reduce, ranks: 2, bytes: [1]}\n", "2:3: expected a table"},
        {"collectives:\n- {op: all_reduce, ranks: 1, bytes: [1], seconds: [1]}\n", "2:3: ranks: expected 2 or more"},
        {"collectives:\n- {op: all_reduce, ranks: 2, bytes: [1, 2], seconds: [1]}\n",
         "2:3: bytes, seconds: expected two lists of as many numbers"},
        {"collectives:\n- {op: all_reduce, ranks: 2, bytes: [], seconds: []}\n", "2:3: bytes, seconds: expected two"},
        {"collectives:\n- op: all_reduce\n  ranks: 2\n  bytes: [1, -2]\n  seconds: [1, 2]\n",
         "4:14: bytes: expected a number greater than 0"},
        {"collectives:\n- op: all_reduce\n  ranks: 2\n  bytes: [2, 2]\n  seconds: [1, 2]\n",
         "4:14: bytes: expected more than the 2 before"},
        {"collectives:\n- op: all_reduce\n  ranks: 2\n  bytes: [1, 2]\n  seconds: [2, 1]\n",
         "5:16: seconds: expected no less than the 2 before"},
        {"collectives:\n- {op: all_reduce, ranks: 2, bytes: [1], seconds: [1]}\n"
         "- {op: all_reduce, ranks: 2, bytes: [1], seconds: [2]}\n",
         "3:3: there is another table of all_reduce of 2 ranks"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_cluster c = {.flops = 7};
        *words = '\0';
        weft_status status = parse(cases[i].text, &c);
        cr_expect_eq(weft_status_code(status), WEFT_PARSE, "\"%s\" is taken", cases[i].text);
        cr_expect(strstr(words, cases[i].found), "\"%s\": no \"%s\" in \"%s\"", cases[i].text, cases[i].found, words);
        cr_expect_eq(c.flops, 7, "written on failure");
        weft_status_free(status);
    }
}

static const char tables[] = "flops_per_second: 1.0e+12\ncompute_beside_collective: 1.25\n"
                             "links:\n- {topology: switch, ranks: 4, seconds_per_message: 1.0e-6, splits: 4, "
                             "seconds_per_endpoint: 1.0e-8, memory_bytes_per_second: 1.0e+9}\n"
                             "collectives:\n- op: all_reduce\n  ranks: 2\n  bytes: [100, 10000, 40000]\n"
                             "  seconds: [1.0e-6, 1.0e-5, 2.0e-5]\n- {op: all_gather, ranks: 4, nodes: 2, bytes: [1], "
                             "seconds: [3]}\n";

Test(plan_cost, prints_what_reads_back) {
    weft_cluster c, d;
    char *bytes, *again;
    size_t nbytes, nbytes_again;
    must(parse(tables, &c));
    must(weft_cluster_print(context, &c, &bytes, &nbytes));
    must(weft_cluster_parse(context, bytes, nbytes, "printed", &d));
    must(weft_cluster_print(context, &d, &again, &nbytes_again));
    cr_expect_str_eq(bytes, again);
    cr_expect_eq(memcmp(&c, &d, sizeof c), 0, "%s", bytes);
    cr_expect_eq(d.tables[1].nnodes, 2);
    weft_bytes_free(context, bytes, nbytes);
    weft_bytes_free(context, again, nbytes_again);
}

/* Logs on a line between points; the first seconds before them, the last rate behind. */
Test(plan_cost, interpolates_measured_tables) {
    weft_cluster c;
    must(parse(tables, &c));
    plan_curve curve = {.table = &c.tables[0], .op_seconds = 1};
    char words_of[64];
    cr_expect_eq(plan_curve_ns(&curve, 0), 1000);
    cr_expect_eq(plan_curve_ns(&curve, 100), 1000);
    cr_expect_eq(plan_curve_ns(&curve, 1000), 3162); /* half way between the logs: sqrt(10) us */
    cr_expect_eq(plan_curve_ns(&curve, 10000), 10000);
    cr_expect_eq(plan_curve_ns(&curve, 20000), 14142);
    cr_expect_eq(plan_curve_ns(&curve, 80000), 40000);
    cr_expect_str_eq(plan_curve_source(&curve, 1, words_of, sizeof words_of), "measured");
    int64_t before = 0;
    for (double nbytes = 1; nbytes < 1e6; nbytes *= 1.01) {
        int64_t ns = plan_curve_ns(&curve, nbytes);
        cr_assert_geq(ns, before, "%g bytes take less", nbytes);
        before = ns;
    }
}

Test(plan_cost, reads_the_clusters_that_come_along) {
    weft_cluster c;
    must(weft_cluster_load(context, "configs/clusters/h100_nodes.yaml", &c));
    must(plan_cluster_settle(&c, &c));
    cr_assert_eq(c.nlinks, 2);
    cr_expect_eq(c.links[0].nranks, 8);
    cr_expect_float_eq(c.links[1].bytes, 400e9 / 8, 1);
    must(weft_cluster_load(context, "configs/clusters/threads.yaml", &c));
    must(plan_cluster_settle(&c, &c));
    weft_status status = weft_cluster_load(context, "configs/clusters/none.yaml", &c);
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    weft_status_free(status);
}

Test(plan_cost, refuses_clusters_that_make_no_sense) {
    static const weft_cluster bad[] = {
        {.flops = -1},
        {.op_seconds = -1},
        {.links = {{.bytes = -1}}, .nlinks = 1},
        {.links = {{.nranks = -2}}, .nlinks = 1},
        {.links = {{.nranks = 4}, {.nranks = 6}}, .nlinks = 2},
        {.links = {{.nranks = 4}, {.nranks = 4}}, .nlinks = 2},
        {.links = {{.nranks = 0}, {.nranks = 4}}, .nlinks = 2},
        {.links = {{.nranks = 0}, {.nranks = 0}}, .nlinks = 2},
    };
    weft_cluster c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_status status = plan_cluster_settle(&bad[i], &c);
        cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT, "case %zu is taken", i);
        weft_status_free(status);
    }
    weft_status status = plan_cluster_settle(&(weft_cluster){.nlinks = WEFT_CLUSTER_LINKS + 1}, &c);
    cr_expect_eq(weft_status_code(status), WEFT_LIMIT);
    weft_status_free(status);
}

/* --- times -------------------------------------------------------------------------------------------------------- */

/* One op on x, on a ring of its own, of a run of 8 ranks. */
static weft_plan *plan_on(const char *op, const char *ranks) {
    char yaml[2000];
    weft_program *p;
    weft_plan *plan;
    int n =
        snprintf(yaml, sizeof yaml,
                 "weft: 1\n%s%s%sblocks:\n- vars:\n    x: {float32: [24], persistable: true}\n    y: {float32: [24]}\n"
                 "  ops:\n  - %s\n",
                 ranks ? "rings:\n  3: " : "", ranks ? ranks : "", ranks ? "\n" : "", op);
    must(weft_program_parse(context, WEFT_FORM_YAML, yaml, (size_t)n, NULL, 0, "p.yaml", &p));
    must(weft_plan_create(p, NULL, &plan));
    weft_program_destroy(p);
    return plan;
}

/* As `rank` takes it. */
static int64_t time_of(int64_t rank, const char *op, const char *ranks, const weft_cluster *cluster) {
    weft_plan *plan = plan_on(op, ranks);
    weft_cluster c;
    arena scratch;
    int64_t ns[4];
    const weft_allocator libc = base_libc_allocator();
    arena_init(&scratch, &libc);
    cr_assert_eq(plan->ninstrs, 1);
    must(plan_cluster_settle(cluster, &c));
    must(plan_find_times(plan, &c, 8, rank, &scratch, ns));
    arena_fini(&scratch);
    weft_plan_destroy(plan);
    return ns[0];
}

static int64_t time_on(const char *op, const char *ranks, const weft_cluster *cluster) {
    return time_of(0, op, ranks, cluster);
}

#define ON_RING(type) "{" type ": {X: x}, out: {Out: x}, attrs: {ring_id: 3, use_calc_stream: true}}"
static const char all_reduce[] = ON_RING("c_allreduce_sum");

/* 96 bytes; messages of 2 ranks: 48 bytes, of 4: 24. Pairs 1 ns a byte and 10 ns, groups of four 10 and 100, all 100
 * and 1000; an op 0.5 us. */
static const weft_cluster levels = {
    .flops = 1e30,
    .bytes = 1e30,
    .op_seconds = 500e-9,
    .links = {{2, 1e9, 10e-9, 0}, {4, 1e8, 100e-9, 0}, {0, 1e7, 1000e-9, 0}},
    .nlinks = 3,
};

Test(plan_cost, a_ring_takes_the_slowest_link_between_neighbours) {
    static const struct {
        const char *ranks;
        int64_t ns;
    } cases[] = {
        {"[0, 1]", 500 + 2 * 1 * (10 + 48)},
        {"[6, 7]", 500 + 2 * 1 * (10 + 48)},
        {"[1, 2]", 500 + 2 * 1 * (100 + 480)},
        {"[3, 4]", 500 + 2 * 1 * (1000 + 4800)},
        {"[0, 1, 2, 3]", 500 + 2 * 3 * (100 + 240)},
        {"[0, 1, 4, 5]", 500 + 2 * 3 * (1000 + 2400)},
        {"[2]", 500},
        {NULL, 500 + 2 * 7 * (1000 + 1200)}, /* all ranks of the run */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_eq(time_on(all_reduce, cases[i].ranks, &levels), cases[i].ns, "ring %s: %lld ns, expected %lld",
                     cases[i].ranks ? cases[i].ranks : "of all",
                     (long long)time_on(all_reduce, cases[i].ranks, &levels), (long long)cases[i].ns);
}

/* Of links that both are used the slower one counts, whichever is nearer. */
Test(plan_cost, a_near_link_may_be_the_slow_one) {
    weft_cluster c = levels;
    c.links[0].bytes = 1e6;
    cr_expect_eq(time_on(all_reduce, "[0, 1, 2, 3]", &c), 500 + 2 * 3 * (10 + 24000));
    cr_expect_eq(time_on(all_reduce, "[0, 2]", &c), 500 + 2 * (100 + 480), "no neighbours use it");
}

/* Hops take seconds, bytes count once: 100 ns a hop, 10 ns a byte. An exchange of 4 on a ring: each link takes a
 * message of 24 bytes to the next rank. Of two upwards ones over two hops it takes one of its own and one that it
 * passes on. Through a switch the last rank gets its three messages last. */
static const char exchange[] = "{alltoall: {X: x}, out: {Out: \"y\"}, attrs: {ring_id: 3}}";

Test(plan_cost, hops_of_a_ring_and_a_switch) {
    static const struct {
        weft_topology topology;
        const char *op, *ranks;
        int64_t ns;
    } cases[] = {
        {WEFT_TOPOLOGY_RING, all_reduce, "[0, 1, 2, 3]", 500 + 2 * 3 * (100 + 240)},
        {WEFT_TOPOLOGY_RING, all_reduce, "[0, 2]", 500 + 2 * (2 * 100 + 480)},
        {WEFT_TOPOLOGY_RING, all_reduce, "[4, 6]", 500 + 2 * (2 * 100 + 480)},
        {WEFT_TOPOLOGY_SWITCH, all_reduce, "[0, 1, 2, 3]", 500 + 2 * 3 * (2 * 100 + 240)},
        {WEFT_TOPOLOGY_DIRECT, exchange, "[0, 1, 2, 3]", 500 + 3 * (100 + 240)},
        {WEFT_TOPOLOGY_RING, exchange, "[0, 1, 2, 3]", 500 + 240 + 340 + 340},
        {WEFT_TOPOLOGY_SWITCH, exchange, "[0, 1, 2, 3]", 500 + 2 * 240 + 340 + 2 * 240 + 340},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_cluster c = {.flops = 1e30, .bytes = 1e30, .op_seconds = 500e-9, .nlinks = 1};
        c.links[0] = (weft_link){.nranks = 4, .bytes = 1e8, .seconds = 100e-9, .topology = cases[i].topology};
        int64_t ns = time_on(cases[i].op, cases[i].ranks, &c);
        cr_expect_eq(ns, cases[i].ns, "case %zu: %lld ns, expected %lld", i, (long long)ns, (long long)cases[i].ns);
    }
    weft_cluster c = {.links = {{.topology = WEFT_TOPOLOGY_RING}}, .nlinks = 1};
    weft_status status = plan_cluster_settle(&c, &c);
    cr_expect(status && strstr(weft_status_message(status), "is a ring: expected how many ranks"));
    weft_status_free(status);
}

/* 96 bytes from member to member, over what is between these two. */
Test(plan_cost, a_send_takes_the_link_between_its_members) {
    static const struct {
        int64_t rank;
        const char *peer;
        int64_t ns;
    } cases[] = {
        {0, "1", 500 + 10 + 96}, {0, "2", 500 + 100 + 960}, {2, "0", 500 + 100 + 960}, {1, "3", 500 + 1000 + 9600}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char op[200];
        snprintf(op, sizeof op, "{send_v2: {X: x}, attrs: {ring_id: 3, peer: %s, use_calc_stream: true}}",
                 cases[i].peer);
        cr_expect_eq(time_of(cases[i].rank, op, "[0, 1, 2, 6]", &levels), cases[i].ns,
                     "case %zu: %lld ns, expected %lld", i,
                     (long long)time_of(cases[i].rank, op, "[0, 1, 2, 6]", &levels), (long long)cases[i].ns);
    }
}

Test(plan_cost, kinds_of_collectives) {
    static const char *const once[] = {ON_RING("c_broadcast"), ON_RING("c_reduce_sum")};
    static const char *const twice[] = {ON_RING("c_allreduce_sum"), ON_RING("c_allreduce_max"),
                                        "{all_reduce: {x: x}, out: {out: x}, attrs: {ring_id: 3}}"};
    for (size_t i = 0; i < 2; i++) cr_expect_eq(time_on(once[i], "[0, 1]", &levels), 500 + 58, "%s", once[i]);
    for (size_t i = 0; i < 3; i++) cr_expect_eq(time_on(twice[i], "[0, 1]", &levels), 500 + 2 * 58, "%s", twice[i]);
    /* It has no ring: bytes over its rate. 96 read and 96 written. */
    weft_cluster c = levels;
    c.bytes = 1e9;
    cr_expect_eq(time_on("{scale: {X: x}, out: {Out: \"y\"}, attrs: {scale: 2.0}}", "[0, 1]", &c), 500 + 192);
}

Test(plan_cost, ranks_that_nothing_joins) {
    weft_cluster c = levels;
    weft_plan *plan = plan_on(all_reduce, "[3, 4]");
    arena scratch;
    int64_t ns[4];
    const weft_allocator libc = base_libc_allocator();
    c.nlinks = 2;
    arena_init(&scratch, &libc);
    weft_status status = plan_find_times(plan, &c, 8, 3, &scratch, ns);
    cr_expect_str_eq(weft_status_message(status), "ring 3: no link of the cluster joins ranks 3 and 4");
    weft_status_free(status);
    arena_fini(&scratch);
    weft_plan_destroy(plan);
}

Test(plan_cost, nanoseconds_do_not_overflow) {
    cr_expect_eq(plan_ns(1.4e-9), 1);
    cr_expect_eq(plan_ns(1.6e-9), 2);
    cr_expect_gt(plan_ns(1e300), 0);
    cr_expect_eq(plan_later(2, 3), 5);
    int64_t at = 0;
    for (int i = 0; i < 100; i++) {
        int64_t next = plan_later(at, plan_ns(1e300));
        cr_expect_geq(next, at);
        at = next;
    }
}
