/* passes_choice.c: spmd_choose: against all choices of small programs, one by one; and what comes out where batches,
 * weights or activations are large. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist_attr/dims.h"
#include "passes/choice/choice.h"
#include "tests/support/must.h"

static weft_context *context;

static bool has_solver(void) {
    const char *why;
    return cbc_open("libCbcSolver.so.3", &why);
}

#define NEEDS_SOLVER                                                                                                   \
    if (!has_solver()) cr_skip_test("no CBC here")

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const char head[] = "weft: 1\nversion: 2006002\nrank: -1\nblocks:\n- idx: 0\n  parent: -1\n  vars:\n";

/* x [rows, 6] times w, relu, times u: forward alone. */
static const char forward[] =
    "    x: {float32: [12, 6]}\n    w: {float32: [6, 8], persistable: true}\n    h: {float32: [12, 8]}\n"
    "    r: {float32: [12, 8]}\n    u: {float32: [8, 4], persistable: true}\n    o: {float32: [12, 4]}\n  ops:\n"
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [h]}, attrs: {.role: forward}}\n"
    "  - {relu: {X: [h]}, out: {Out: [r]}, attrs: {.role: forward}}\n"
    "  - {matmul_v2: {X: [r], \"Y\": [u]}, out: {Out: [o]}, attrs: {.role: forward}}\n";

/* A product whose weight is updated: one value with several readers, and a sum of gradients. */
static const char update[] =
    "    x: {float32: [12, 6]}\n    w: {float32: [6, 8], persistable: true}\n    o: {float32: [12, 8]}\n"
    "    g: {float32: [12, 8]}\n    w@GRAD: {float32: [6, 8]}\n    lr: {float32: [1], persistable: true}\n  ops:\n"
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [o]}, attrs: {.role: forward}}\n"
    "  - {relu: {X: [o]}, out: {Out: [g]}, attrs: {.role: backward}}\n"
    "  - {matmul_v2_grad: {Out@GRAD: [g], X: [x], \"Y\": [w]}, out: {X@GRAD: [], Y@GRAD: [w@GRAD]}, attrs: {.role: "
    "backward}}\n"
    "  - {sgd: {Param: [w], Grad: [w@GRAD], LearningRate: [lr]}, out: {ParamOut: [w]}, attrs: {.role: optimize}}\n";

static const char product[] =
    "    x: {float32: [12, 6]}\n    w: {float32: [6, 8], persistable: true}\n    o: {float32: [12, 8]}\n  ops:\n"
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [o]}, attrs: {.role: forward}}\n";

/* norm, product, relu, product, and back: the sizes are rows, width and inner width. */
static const char layer[] =
    "    x: {float32: [R, W]}\n    s: {float32: [W], persistable: true}\n    b: {float32: [W], persistable: true}\n"
    "    n: {float32: [R, W]}\n    mean: {float32: [R]}\n    var: {float32: [R]}\n"
    "    w: {float32: [W, I], persistable: true}\n    h: {float32: [R, I]}\n    r: {float32: [R, I]}\n"
    "    u: {float32: [I, W], persistable: true}\n    o: {float32: [R, W]}\n    a: {float32: [R, W]}\n"
    "    l: {float32: []}\n    l@GRAD: {float32: []}\n    a@GRAD: {float32: [R, W]}\n    r@GRAD: {float32: [R, I]}\n"
    "    h@GRAD: {float32: [R, I]}\n    n@GRAD: {float32: [R, W]}\n    w@GRAD: {float32: [W, I]}\n"
    "    u@GRAD: {float32: [I, W]}\n    s@GRAD: {float32: [W]}\n    b@GRAD: {float32: [W]}\n"
    "    lr: {float32: [1], persistable: true}\n  ops:\n"
    "  - {layer_norm: {X: [x], Scale: [s], Bias: [b]}, out: {Y: [n], Mean: [mean], Variance: [var]}, attrs: "
    "{begin_norm_axis: 1, .role: forward}}\n"
    "  - {matmul_v2: {X: [n], \"Y\": [w]}, out: {Out: [h]}, attrs: {.role: forward}}\n"
    "  - {relu: {X: [h]}, out: {Out: [r]}, attrs: {.role: forward}}\n"
    "  - {matmul_v2: {X: [r], \"Y\": [u]}, out: {Out: [o]}, attrs: {.role: forward}}\n"
    "  - {elementwise_add: {X: [o], \"Y\": [x]}, out: {Out: [a]}, attrs: {axis: -1, .role: forward}}\n"
    "  - {reduce_sum: {X: [a]}, out: {Out: [l]}, attrs: {reduce_all: true, .role: loss}}\n"
    "  - {fill_constant: {}, out: {Out: [l@GRAD]}, attrs: {dtype: 5, shape: !longs [], value: 1.0, .role: "
    "loss_backward}}\n"
    "  - {reduce_sum_grad: {Out@GRAD: [l@GRAD], X: [a]}, out: {X@GRAD: [a@GRAD]}, attrs: {reduce_all: true, .role: "
    "backward}}\n"
    "  - {matmul_v2_grad: {Out@GRAD: [a@GRAD], X: [r], \"Y\": [u]}, out: {X@GRAD: [r@GRAD], Y@GRAD: [u@GRAD]}, attrs: "
    "{.role: backward}}\n"
    "  - {relu_grad: {Out: [r], Out@GRAD: [r@GRAD]}, out: {X@GRAD: [h@GRAD]}, attrs: {.role: backward}}\n"
    "  - {matmul_v2_grad: {Out@GRAD: [h@GRAD], X: [n], \"Y\": [w]}, out: {X@GRAD: [n@GRAD], Y@GRAD: [w@GRAD]}, attrs: "
    "{.role: backward}}\n"
    "  - {layer_norm_grad: {X: [x], Scale: [s], Bias: [b], Mean: [mean], Variance: [var], \"Y@GRAD\": [n@GRAD]}, out: "
    "{X@GRAD: [], Scale@GRAD: [s@GRAD], Bias@GRAD: [b@GRAD]}, attrs: {begin_norm_axis: 1, .role: backward}}\n"
    "  - {sgd: {Param: [w], Grad: [w@GRAD], LearningRate: [lr]}, out: {ParamOut: [w]}, attrs: {.role: optimize}}\n"
    "  - {sgd: {Param: [u], Grad: [u@GRAD], LearningRate: [lr]}, out: {ParamOut: [u]}, attrs: {.role: optimize}}\n"
    "  - {sgd: {Param: [s], Grad: [s@GRAD], LearningRate: [lr]}, out: {ParamOut: [s]}, attrs: {.role: optimize}}\n"
    "  - {sgd: {Param: [b], Grad: [b@GRAD], LearningRate: [lr]}, out: {ParamOut: [b]}, attrs: {.role: optimize}}\n";

/* The same behind a layer that leaves its rows sharded. */
static const char meshes[] = "meshes:\n- {shape: [4], ids: [0, 1, 2, 3], dims: [mp]}\n";
static bool is_annotated;

static weft_program *parse(const char *body, const char *dims_of_layer[3]) {
    static char words[1 << 15];
    static const char rwi[] = "RWI";
    const char *blocks = strstr(head, "blocks:");
    size_t n = (size_t)snprintf(words, sizeof words, "%.*s%s%s", (int)(blocks - head), head, is_annotated ? meshes : "",
                                blocks);
    for (const char *at = body; *at && n + 40 < sizeof words; at++) {
        const char *letter = strchr(rwi, *at);
        bool is_extent = dims_of_layer && letter && *letter && strchr("[ ", at[-1]) && strchr(",]", at[1]);
        if (is_extent)
            n += (size_t)snprintf(words + n, sizeof words - n, "%s", dims_of_layer[letter - rwi]);
        else
            words[n++] = *at;
        if (is_annotated && at - body == (int)(strlen("    x: {float32: [R, W]") - 1))
            n += (size_t)snprintf(words + n, sizeof words - n, ", dist: {mesh: 0, dims_mapping: [0, -1]}");
    }
    words[n] = 0;
    weft_program *program = NULL;
    if (!context) must(weft_context_create(NULL, &context));
    must(weft_program_parse(context, WEFT_FORM_YAML, words, n, NULL, 0, "program", &program));
    return program;
}

/* --- all choices, one by one -------------------------------------------------------------------------------------- */

typedef struct search {
    choice c;
    choice_taken taken, best;
    int64_t least;
    size_t ntried;
    bool found;
} search;

/* Whether values get from what ops make to the homes, and from there to what ops ask for. */
static bool is_choice(const search *s) {
    for (size_t i = 0; i < s->c.nedges; i++) {
        const choice_edge *e = &s->c.edges[i];
        uint32_t asked = e->at[s->taken.way[e->op]], home = s->taken.home[e->var];
        if ((e->is_output ? choice_edge_seconds(&s->c, e, asked, home) : choice_edge_seconds(&s->c, e, home, asked)) <
            0)
            return false;
    }
    return true;
}

static void weigh(search *s) {
    if (!is_choice(s)) return;
    must(choice_evaluate(&s->c, &s->taken));
    s->ntried++;
    if (s->least < 0 || s->taken.nbytes < s->least) s->least = s->taken.nbytes;
    if (s->c.limit && s->taken.nbytes > s->c.limit) return;
    if (s->found && s->taken.seconds >= s->best.seconds) return;
    s->found = true;
    s->best.seconds = s->taken.seconds;
}

static void try_homes(search *s, size_t var) {
    if (var == s->c.nvars) {
        weigh(s);
        return;
    }
    for (uint32_t p = 0; p < s->c.vars[var].nhomes; p++) {
        if (!s->c.vars[var].may[p]) continue;
        s->taken.home[var] = p;
        try_homes(s, var + 1);
    }
}

static void try_ways(search *s, size_t op) {
    if (op == s->c.nops) {
        try_homes(s, 0);
        return;
    }
    for (uint32_t w = 0; w < s->c.ops[op].nways; w++) {
        if (s->c.ops[op].ways[w].is_left) continue;
        s->taken.way[op] = w;
        try_ways(s, op + 1);
    }
}

typedef struct trial {
    const char *mesh;
    weft_cluster cluster;
    double limit; /* of what a rank holds at least under the best choice without a limit, to at most; 0: none */
} trial;
static trial current;

static void begin_search(search *s) {
    s->found = false;
    s->least = -1;
    s->ntried = 0;
    try_ways(s, 0);
}

static weft_status compare(weft_pass_context *pass, weft_program *program, void *user) {
    (void)user;
    spmd_plan plan = {.pass = pass, .program = program, .scratch = pass_scratch(pass), .rank = -1};
    search s = {.c = {.plan = &plan, .memory = plan.scratch, .ip.memory = plan.scratch, .seconds_limit = 600}};
    mesh given;
    choice_result best, least;
    must(choice_read_mesh(pass, current.mesh, plan.scratch, &given));
    plan.given_mesh = &given;
    must(spmd_read(&plan));
    must(spmd_prices_init(&s.c.prices, s.c.plan->pass->context, &s.c.plan->mesh, s.c.memory, ""));
    s.c.prices.cluster = current.cluster;
    must(choice_find_classes(&s.c, 100));
    must(choice_find_flow(&s.c));
    s.taken.way = ARENA_ARRAY(s.c.memory, uint32_t, s.c.nops + 1);
    s.taken.home = ARENA_ARRAY(s.c.memory, uint32_t, s.c.nvars + 1);

    must(choice_solve(&s.c, false, &best));
    begin_search(&s);
    cr_expect(s.ntried > 50, "%zu choices", s.ntried);
    cr_expect_eq(best.state, IP_BEST);
    cr_expect_float_eq(best.taken.seconds, s.best.seconds, 1e-9 * s.best.seconds, "%.12g, best %.12g of %zu",
                       best.taken.seconds, s.best.seconds, s.ntried);
    cr_expect_float_eq(best.bound, s.best.seconds, 1e-6 * s.best.seconds);

    must(choice_solve(&s.c, true, &least));
    cr_expect_eq(least.taken.nbytes, s.least, "%lld bytes, least %lld", (long long)least.taken.nbytes,
                 (long long)s.least);
    for (int i = 1; i <= 3 && best.taken.nbytes > s.least; i++) { /* limits between the two */
        int64_t most = best.taken.nbytes, fewest = s.least;
        s.c.limit = fewest + (most - fewest) * (i - 1) / 3;
        must(choice_solve(&s.c, false, &best));
        begin_search(&s);
        cr_expect_eq(best.state, IP_BEST);
        cr_expect(best.taken.nbytes <= s.c.limit);
        cr_expect_float_eq(best.taken.seconds, s.best.seconds, 1e-9 * s.best.seconds,
                           "%.12g, best %.12g, under %lld bytes", best.taken.seconds, s.best.seconds,
                           (long long)s.c.limit);
        best.taken.nbytes = most;
    }
    s.c.limit = 0;
    must(choice_solve_by_axis(&s.c, false, &best)); /* most_columns 0: one axis at a time, if there are several */
    begin_search(&s);
    cr_expect(best.taken.seconds >= s.best.seconds * (1 - 1e-9) && best.bound <= s.best.seconds * (1 + 1e-6));
    cr_expect_eq(best.sweeps > 0, plan.mesh.axes.naxes > 1);
    must(choice_solve_by_axis(&s.c, true, &least));
    s.c.limit = least.taken.nbytes;
    must(choice_solve_by_axis(&s.c, false, &best)); /* what it says it can hold, it holds */
    cr_expect(best.state != IP_NONE && best.taken.nbytes <= s.c.limit, "%lld bytes", (long long)best.taken.nbytes);
    s.c.limit = s.least - 1 - s.least / 100;
    must(choice_solve(&s.c, false, &best));
    cr_expect_eq(best.state, IP_NONE);
    spmd_plan_fini(&plan);
    return NULL;
}

static const weft_pass probe = {.name = "probe", .summary = "tries all choices", .run = compare};

static void compare_all(const char *body, const char *mesh_words) {
    static const weft_cluster clusters[] = {
        {.flops = 1e14, .bytes = 2e12, .op_seconds = 2e-6},
        {.flops = 1e7, .bytes = 1e7, .op_seconds = 1e-7, .links = {{.bytes = 1e7, .seconds = 1e-6}}, .nlinks = 1},
        {.flops = 1e6, .bytes = 1e8, .op_seconds = 1e-9, .links = {{.bytes = 1e9, .seconds = 1e-9}}, .nlinks = 1},
        {.flops = 1e8, .bytes = 1e6, .op_seconds = 1e-9, .links = {{.bytes = 1e7, .seconds = 1e-9}}, .nlinks = 1},
    };
    weft_pass_list *list = NULL;
    weft_program *program = parse(body, NULL);
    must(weft_pass_register(context, &probe));
    must(weft_pass_list_parse(context, "probe", strlen("probe"), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    for (size_t i = 0; i < sizeof clusters / sizeof *clusters; i++) {
        current = (trial){.mesh = mesh_words};
        must(plan_cluster_settle(&clusters[i], &current.cluster));
        must(weft_pass_list_run(list, program, NULL));
    }
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    weft_context_destroy(context);
    context = NULL;
}

Test(passes_choice, best_of_all_ways_of_a_chain) {
    NEEDS_SOLVER;
    compare_all(forward, "2");
}

Test(passes_choice, best_of_all_ways_of_an_update) {
    NEEDS_SOLVER;
    compare_all(update, "2");
}

Test(passes_choice, best_of_all_ways_on_two_axes) {
    NEEDS_SOLVER;
    compare_all(product, "a=2, b=3");
}

/* --- what comes out ----------------------------------------------------------------------------------------------- */

/* Chooses for a layer; the placement of each var is then asked for by name. */
static weft_program *choose(const char *rows, const char *width, const char *inner, const char *passes) {
    const char *dims[3] = {rows, width, inner};
    weft_program *program = parse(layer, dims);
    weft_pass_list *list = NULL;
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    must(weft_pass_list_run(list, program, NULL));
    weft_pass_list_destroy(list);
    return program;
}

static const char *lies(const weft_program *program, const char *var) {
    static char words[80];
    const weft_var *v = weft_block_find_var(program->blocks[0], var);
    int n = 0;
    cr_assert(v && v->dist, "%s", var);
    for (int d = 0; d < v->dist->ndim; d++) {
        int64_t entry = v->dist->dims_mapping[d];
        n += snprintf(words + n, sizeof words - (size_t)n, "%s%d", d ? " " : "", entry < 0 ? -1 : dim_axis(entry, 0));
        for (int i = 1; i < dim_naxes(entry); i++)
            n += snprintf(words + n, sizeof words - (size_t)n, "+%d", dim_axis(entry, i));
    }
    return words;
}

static void end(weft_program *program) {
    weft_program_destroy(program);
    weft_context_destroy(context);
    context = NULL;
}

Test(passes_choice, data_parallel_where_batches_are_large) {
    NEEDS_SOLVER;
    weft_program *p = choose("262144", "256", "512", "spmd_choose: {mesh: \"4\"}");
    cr_expect_str_eq(lies(p, "x"), "0 -1");
    cr_expect_str_eq(lies(p, "w"), "-1 -1");
    cr_expect_str_eq(lies(p, "u"), "-1 -1");
    cr_expect_str_eq(lies(p, "a"), "0 -1");
    end(p);
}

Test(passes_choice, a_large_batch_over_both_axes_of_a_mesh) {
    NEEDS_SOLVER;
    weft_program *p = choose("262144", "256", "512", "spmd_choose: {mesh: \"a=2, b=2\"}");
    cr_expect_str_eq(lies(p, "x"), "0+1 -1");
    cr_expect_str_eq(lies(p, "a"), "0+1 -1");
    end(p);
}

Test(passes_choice, columns_then_rows_where_weights_are_large) {
    NEEDS_SOLVER;
    weft_program *p = choose("512", "8192", "32768", "spmd_choose: {mesh: \"4\"}");
    cr_expect_str_eq(lies(p, "w"), "-1 0");
    cr_expect_str_eq(lies(p, "h"), "-1 0");
    cr_expect_str_eq(lies(p, "u"), "0 -1");
    end(p);
}

/* Rows are sharded where products end: the sum of one is scattered, and added to parts of x. */
Test(passes_choice, sequence_parallel_between_large_products) {
    NEEDS_SOLVER;
    is_annotated = true;
    weft_program *p = choose("8192", "8192", "32768", "spmd_choose");
    is_annotated = false;
    cr_expect_str_eq(lies(p, "w"), "-1 0");
    cr_expect_str_eq(lies(p, "u"), "0 -1");
    cr_expect_str_eq(lies(p, "a"), "0 -1");
    cr_expect_str_eq(lies(p, "a@GRAD"), "0 -1");
    cr_expect_str_eq(lies(p, "x"), "0 -1"); /* as it is annotated */
    end(p);
}

/* Rows are sharded as for data parallelism, and so are weights, which are gathered: each rank updates its part. */
Test(passes_choice, weights_in_parts_where_batches_are_large) {
    NEEDS_SOLVER;
    weft_program *p = choose("65536", "1024", "1024", "spmd_choose: {mesh: \"4\"}");
    cr_expect_str_eq(lies(p, "w"), "0 -1");
    cr_expect_str_eq(lies(p, "u"), "0 -1");
    cr_expect_str_eq(lies(p, "h"), "0 -1");
    cr_expect_str_eq(lies(p, "a"), "0 -1");
    end(p);
}

/* What is cheapest whole is in parts where that does not fit. */
Test(passes_choice, weights_in_parts_where_they_do_not_fit) {
    NEEDS_SOLVER;
    weft_program *p = choose("16", "256", "512", "spmd_choose: {mesh: \"4\"}");
    cr_expect_str_eq(lies(p, "w"), "-1 -1");
    cr_expect_str_eq(lies(p, "u"), "-1 -1");
    end(p);
    p = choose("16", "256", "512", "spmd_choose: {mesh: \"4\", memory_mb: 0.8}");
    cr_expect(strchr(lies(p, "w"), '0'), "%s", lies(p, "w"));
    cr_expect(strchr(lies(p, "u"), '0'), "%s", lies(p, "u"));
    end(p);
}

/* A weight whose product is a sum over ranks is annotated so, and spmd_partition reads it: it sends what was priced. */
Test(passes_choice, expands_to_what_was_priced) {
    NEEDS_SOLVER;
    const char *dims[3] = {"8192", "8192", "32768"}, *passes = "spmd_choose: {mesh: \"4\"}, spmd_expand";
    weft_program *program = parse(layer, dims);
    weft_pass_list *list = NULL;
    weft_rank_programs *ranks = NULL;
    weft_report *report = NULL;
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    must(weft_pass_list_run_ranks(list, program, &ranks, &report));
    cr_expect_eq(weft_report_count(report, 0, "bytes received"), weft_report_count(report, 1, "bytes received"));
    cr_expect_gt(weft_report_count(report, 0, "bytes received"), 0);
    weft_report_destroy(report);
    weft_rank_programs_destroy(ranks);
    weft_pass_list_destroy(list);
    end(program);
}

/* Products of one width, one after another: rows of a large batch. */
static weft_program *chain(int nlayers) {
    static char body[1 << 14];
    size_t n = (size_t)snprintf(body, sizeof body, "    h0: {float32: [65536, 512]}\n");
    for (int i = 1; i <= nlayers; i++)
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "    w%d: {float32: [512, 512], persistable: true}\n    p%d: {float32: [65536, 512]}\n"
                              "    h%d: {float32: [65536, 512]}\n",
                              i, i, i);
    n += (size_t)snprintf(body + n, sizeof body - n, "  ops:\n");
    for (int i = 1; i <= nlayers; i++)
        n += (size_t)snprintf(body + n, sizeof body - n,
                              "  - {matmul_v2: {X: [h%d], \"Y\": [w%d]}, out: {Out: [p%d]}, attrs: {.role: forward}}\n"
                              "  - {relu: {X: [p%d]}, out: {Out: [h%d]}, attrs: {.role: forward}}\n",
                              i - 1, i, i, i, i);
    return parse(body, NULL);
}

Test(passes_choice, equal_layers_lie_equally) {
    NEEDS_SOLVER;
    for (int classes = 4; classes <= 400; classes += 396) {
        char passes[80];
        weft_pass_list *list = NULL;
        weft_program *program = chain(20);
        snprintf(passes, sizeof passes, "spmd_choose: {mesh: \"4\", classes: %d}", classes);
        must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
        weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
        must(weft_pass_list_run(list, program, NULL));
        for (int i = 1; i <= 20; i++) {
            char var[16];
            snprintf(var, sizeof var, "w%d", i);
            cr_expect_str_eq(lies(program, var), "-1 -1");
            snprintf(var, sizeof var, "h%d", i);
            cr_expect_str_eq(lies(program, var), "0 -1");
        }
        weft_pass_list_destroy(list);
        end(program);
    }
}

static void refuses(const char *passes, const char *expected) {
    const char *dims[3] = {"64", "16", "32"};
    weft_program *program = parse(layer, dims);
    weft_pass_list *list = NULL;
    must(weft_pass_list_parse(context, passes, strlen(passes), "list", &list));
    weft_status status = weft_pass_list_run(list, program, NULL);
    cr_expect(status && strstr(weft_status_message(status), expected), "%s: %s", expected,
              status ? weft_status_message(status) : "it did not fail");
    weft_status_free(status);
    weft_pass_list_destroy(list);
    end(program);
}

Test(passes_choice, says_what_is_missing) {
    refuses("spmd_choose: {mesh: \"2\", solver: libnone.so}", "it needs CBC, which could not be opened: libnone.so");
    refuses("spmd_choose", "no mesh: expected the option mesh");
    NEEDS_SOLVER;
    refuses("spmd_choose: {mesh: \"2x\"}", "mesh: expected the ranks along 1 to 4 axes");
    refuses("spmd_choose: {mesh: \"a=2, 3\"}", "found \"a=2, 3\"");
    refuses("spmd_choose: {mesh: \"2\", memory_mb: 0.001}", "or less: the least is ");
}
