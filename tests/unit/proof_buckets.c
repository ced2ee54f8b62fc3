/* proof_buckets.c: bucket plans in certificates: those of the pass hold; none holds with a number changed, a gradient
 * moved, buckets joined or the bound raised. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/draw.h"
#include "tests/support/fixtures.h"
#include "tests/support/folder.h"
#include "tests/support/must.h"
#include "weft/certificate.h"

#define LIST "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: auto}, insert_dependencies"

static weft_context *context;
static uint64_t state = 1;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(proof_buckets, .init = set_up, .fini = tear_down);

static uint64_t draw(uint64_t below) {
    return draw_below(&state, below);
}

typedef struct pair {
    weft_program *before, *after;
    json_t *root, *plan; /* plan: in root */
} pair;

static void certify(pair *p, const char *list_text) {
    char *bytes;
    size_t nbytes;
    weft_pass_list *list;
    weft_report *report;
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "list", &list));
    weft_pass_list_set_certify(list, true);
    must(weft_program_clone(p->before, &p->after));
    must(weft_pass_list_run(list, p->after, &report));
    must(weft_report_certificate(report, &bytes, &nbytes));
    p->root = json_loadb(bytes, nbytes, 0, NULL);
    json_t *pass;
    size_t i;
    p->plan = NULL;
    json_array_foreach(json_object_get(p->root, "passes"), i, pass) if (json_object_get(pass, "plan")) p->plan =
        json_object_get(pass, "plan");
    weft_bytes_free(context, bytes, nbytes);
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
}

static bool make(pair *p, const char *file, const char *list_text) {
    char path[1024];
    if (!fixture_path(path, sizeof path, file)) return false;
    must(weft_program_load(context, path, NULL, &p->before));
    certify(p, list_text);
    return true;
}

static void destroy(pair *p) {
    weft_program_destroy(p->before);
    weft_program_destroy(p->after);
    json_decref(p->root);
}

static weft_certified check(const pair *p, char message[400]) {
    char *text = json_dumps(p->root, JSON_REAL_PRECISION(17)), *found;
    size_t nbytes;
    weft_certified verdict;
    must(weft_certificate_check(p->before, p->after, text, strlen(text), "test", &verdict, &found, &nbytes));
    snprintf(message, 400, "%s", found);
    weft_bytes_free(context, found, nbytes);
    free(text);
    return verdict;
}

static void expect_refused(const pair *p, const char *what) {
    char message[400];
    cr_assert_eq(check(p, message), WEFT_CERTIFICATE_BAD, "%s: %s", what, message);
    cr_expect(strstr(message, "bucket plan: "), "%s: %s", what, message);
}

/* The first cost of the first kind. */
static json_t *cost_of(const pair *p) {
    json_t *kind = json_array_get(json_object_get(p->plan, "kinds"), 0);
    return json_array_get(json_object_get(kind, "costs"), 0);
}

/* The others may be said in another way: a lane by another number, an alignment of 1 by one that all members have. A
 * collective that no compute runs beside may be scaled. A bound may follow from other lines too (change_bound). */
static bool is_told_one_way(const char *key) {
    return strcmp(key, "lane") != 0 && strcmp(key, "alignment") != 0 && strcmp(key, "collectives") != 0 &&
           strcmp(key, "bound") != 0;
}

/* The n-th number within a value, counted down in *n; NULL: there are less. */
static json_t *find_number(json_t *v, size_t *n) {
    json_t *found = NULL, *item;
    const char *key;
    size_t i;
    if (json_is_number(v)) return (*n)-- == 0 ? v : NULL;
    if (json_is_object(v))
        json_object_foreach(v, key, item) if (!found && is_told_one_way(key)) found = find_number(item, n);
    if (json_is_array(v)) json_array_foreach(v, i, item) if (!found) found = find_number(item, n);
    return found;
}

static size_t count_numbers(json_t *v) {
    size_t n = SIZE_MAX / 2, start = n;
    (void)find_number(v, &n);
    return start - n;
}

static void change_integer(const pair *p, size_t which, json_t *v) {
    char what[100];
    json_int_t old = json_integer_value(v), by = draw(2) ? 1 : 1 + (json_int_t)draw(5000);
    json_integer_set(v, draw(2) && old ? old - (by < old ? by : old) : old + by);
    snprintf(what, sizeof what, "number %zu, %lld, is %lld", which, (long long)old, (long long)json_integer_value(v));
    expect_refused(p, what);
    json_integer_set(v, old);
}

static void change_number(const pair *p, size_t which) {
    size_t n = which;
    char what[100];
    json_t *v = find_number(p->plan, &n);
    cr_assert_not_null(v);
    if (json_is_real(v)) {
        double old = json_real_value(v);
        if (old > 1e13) return; /* what a scale computes takes less than what it moves: any rate is as good */
        json_real_set(v, old * (draw(2) ? 1.5 : 0.5));
        snprintf(what, sizeof what, "number %zu, %g", which, old);
        if (old != 0) expect_refused(p, what);
        json_real_set(v, old);
        return;
    }
    change_integer(p, which, v);
}

static void add(json_t *object, const char *key, json_int_t by) {
    json_t *v = json_object_get(object, key);
    json_integer_set(v, json_integer_value(v) + by);
}

/* The bound and what is said of the gap agree, but some buckets end the step earlier. */
static void raise_bound(const pair *p) {
    json_int_t by = 1 + (json_int_t)draw(1000);
    add(p->plan, "bound_ns", by);
    add(p->plan, "gap_ns", -by);
    expect_refused(p, "the bound is raised");
    add(p->plan, "bound_ns", -by);
    add(p->plan, "gap_ns", by);
}

/* What the bound follows from is changed; put back behind. */
static void expect_bound_refused(const pair *p, json_t *changed, const char *what) {
    json_t *bound = json_incref(json_object_get(p->plan, "bound"));
    json_object_set_new(p->plan, "bound", changed);
    expect_refused(p, what);
    json_object_set_new(p->plan, "bound", bound);
}

/* The n-th line, over all kinds; NULL: there are less. */
static json_t *find_line(json_t *bound, size_t n) {
    json_t *of_kind, *line;
    size_t k, i;
    json_array_foreach(json_object_get(bound, "lines"), k, of_kind)
        json_array_foreach(of_kind, i, line) if (n-- == 0) return line;
    return NULL;
}

/* Lines above costs, or so low that the bound is not reached; another threshold; a kind left out. */
static void change_lines(const pair *p) {
    const json_t *bound = json_object_get(p->plan, "bound");
    json_t *copy, *line;
    for (size_t n = 0; find_line((json_t *)bound, n); n++) {
        copy = json_deep_copy(bound);
        line = find_line(copy, n);
        json_integer_set(json_array_get(line, 0),
                         json_integer_value(json_array_get(line, 0)) + 1024 * (1000000 + (json_int_t)draw(1000)));
        expect_bound_refused(p, copy, "a latency is raised");
        for (int lower = 0; lower < 2; lower++) {
            double by = lower ? 0.5 : 1.5;
            copy = json_deep_copy(bound);
            line = find_line(copy, n);
            json_array_set_new(line, 1, json_real(by * json_number_value(json_array_get(line, 1))));
            expect_bound_refused(p, copy, lower ? "a slope is lowered" : "a slope is raised");
        }
    }
    if (json_object_get(bound, "tail_ns")) {
        copy = json_deep_copy(bound);
        add(copy, "tail_ns", 1 + (json_int_t)draw(100000));
        expect_bound_refused(p, copy, "fewer gradients count, which are needed earlier");
        copy = json_deep_copy(bound);
        add(copy, "tail_ns", -1 - (json_int_t)draw(100));
        expect_bound_refused(p, copy, "what comes after is shorter");
    }
    for (size_t k = 0; k < json_array_size(json_object_get(bound, "lines")); k++) {
        if (json_is_null(json_array_get(json_object_get(bound, "lines"), k))) continue;
        copy = json_deep_copy(bound);
        json_array_set_new(json_object_get(copy, "lines"), k, json_null());
        expect_bound_refused(p, copy, "a kind does not count");
        copy = json_deep_copy(bound);
        json_array_set_new(json_object_get(copy, "lines"), k, json_array());
        expect_bound_refused(p, copy, "a kind has no lines");
    }
}

/* The bound is said to follow from something else. */
static void change_bound(const pair *p) {
    const json_t *bound = json_object_get(p->plan, "bound");
    const char *by = json_string_value(json_object_get(bound, "by"));
    json_int_t compute = json_integer_value(json_object_get(p->plan, "compute_ns"));
    change_lines(p);
    if (json_integer_value(json_object_get(p->plan, "bound_ns")) <= compute) return;
    expect_bound_refused(p, json_pack("{s:s}", "by", "compute"), "it is longer than compute");
    expect_bound_refused(p, json_pack("{s:s}", "by", "nothing"), "it follows from nothing");
    expect_bound_refused(p, json_pack("{s:s, s:i}", "by", "lines", "lane", 0), "no kind counts");
    if (strcmp(by, "sets") != 0 && json_array_size(json_object_get(p->plan, "gradients")) > 12)
        expect_bound_refused(p, json_pack("{s:s, s:i}", "by", "sets", "lane", 0), "sets of more than 12 gradients");
    add(p->plan, "bound_ns", 1);
    add(p->plan, "gap_ns", -1);
    expect_refused(p, "the bound is a nanosecond higher");
    add(p->plan, "bound_ns", -1);
    add(p->plan, "gap_ns", 1);
}

static void move_gradient(const pair *p) {
    json_t *buckets = json_object_get(p->plan, "buckets");
    size_t n = json_array_size(buckets);
    if (n < 2) return;
    size_t from = draw(n - 1);
    json_t *a = json_array_get(buckets, from), *b = json_array_get(buckets, from + 1);
    json_int_t by = draw(2) ? 1 : -1;
    add(a, "count", by);
    add(b, "count", -by);
    expect_refused(p, "a gradient is moved to the next bucket");
    add(a, "count", -by);
    add(b, "count", by);
}

static json_int_t number_in(const json_t *list, size_t at, const char *key) {
    return json_integer_value(json_object_get(json_array_get(list, at), key));
}

/* Buckets take the gradients of their kinds one after another. */
static size_t bucket_of(const pair *p, size_t gradient) {
    const json_t *gradients = json_object_get(p->plan, "gradients"), *buckets = json_object_get(p->plan, "buckets");
    json_int_t kind = number_in(gradients, gradient, "kind"), before = 0;
    size_t k = 0;
    for (size_t i = 0; i < gradient; i++) before += number_in(gradients, i, "kind") == kind;
    for (; number_in(buckets, k, "kind") != kind || before >= number_in(buckets, k, "count"); k++)
        if (number_in(buckets, k, "kind") == kind) before -= number_in(buckets, k, "count");
    return k;
}

/* Within a bucket their order says nothing. */
static void swap_gradients(const pair *p) {
    json_t *gradients = json_object_get(p->plan, "gradients");
    size_t n = json_array_size(gradients), first = draw(n), second = draw(n);
    if (bucket_of(p, first) == bucket_of(p, second)) return;
    json_t *a = json_incref(json_array_get(gradients, first)), *b = json_incref(json_array_get(gradients, second));
    json_array_set(gradients, first, b);
    json_array_set(gradients, second, a);
    expect_refused(p, "two gradients of different buckets are swapped");
    json_array_set_new(gradients, first, a);
    json_array_set_new(gradients, second, b);
}

static void mutate(const char *file, size_t count) {
    pair p;
    char message[400];
    if (!make(&p, file, LIST)) return;
    cr_assert_not_null(p.plan, "%s", file);
    cr_assert_eq(check(&p, message), WEFT_CERTIFIED, "%s: %s", file, message);
    cr_expect(strstr(message, "no buckets end a step before"), "%s", message);
    size_t nnumbers = count_numbers(p.plan);
    for (size_t i = 0; i < count; i++) {
        change_number(&p, count < nnumbers ? draw(nnumbers) : i % nnumbers);
        if (i % 8 == 0) raise_bound(&p);
        if (i % 8 == 2) move_gradient(&p);
        if (i % 8 == 4) swap_gradients(&p);
    }
    for (size_t i = 0; i < count / 50; i++) change_bound(&p);
    add(p.plan, "alignment", 256);
    expect_refused(&p, "members lie further apart");
    add(p.plan, "alignment", -256);
    cr_assert_eq(check(&p, message), WEFT_CERTIFIED, "%s, put back: %s", file, message);
    destroy(&p);
}

Test(proof_buckets, no_mutant_holds) {
    size_t count = getenv("WEFT_LONG_TESTS") ? 1000 : 100;
    mutate("paddle26/mlp_adam_dp2_amp/rank0.pdmodel", count);
    mutate("paddle26/lenet_momentum_dp2/rank0.pdmodel", count);
    mutate("paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel", count);
}

/* A bound below the best is one too, and the gap is told. */
Test(proof_buckets, a_lower_bound_holds) {
    pair p;
    char message[400];
    if (!make(&p, "paddle26/mlp_adam_dp2_amp/rank0.pdmodel", LIST)) cr_skip("no fixture");
    add(p.plan, "bound_ns", -10000);
    add(p.plan, "gap_ns", 10000);
    cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
    cr_expect(strstr(message, "these end it at") && !strstr(message, " 0.00% later"), "%s", message);
    destroy(&p);
}

/* Points of a measured table are a cost too: others give other times. A bound is by sets of lenet's gradients, and by
 * lines below the table of gpt_tiny's. */
Test(proof_buckets, measured_collectives) {
    static const char *const files[] = {"paddle26/lenet_momentum_dp2/rank0.pdmodel",
                                        "paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel"};
    char message[400], list[FOLDER_PATH_ROOM + 200];
    folder_begin();
    FILE *f = fopen(in_folder("cluster.yaml"), "w");
    cr_assert(f);
    fputs("collectives: [{op: all_reduce, ranks: 2, bytes: [256, 65536, 1048576], seconds: [3.0e-6, 2.0e-5, 6.0e-4]}]",
          f);
    fclose(f);
    snprintf(list, sizeof list,
             "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: \"%s\"}, insert_dependencies",
             in_folder("cluster.yaml"));
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        pair p;
        if (!make(&p, files[k], list)) cr_skip("no fixture");
        cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
        cr_expect_str_eq(json_string_value(json_object_get(json_object_get(p.plan, "bound"), "by")),
                         k ? "lines" : "sets");
        json_t *points = json_object_get(cost_of(&p), "measured"), *point;
        size_t i;
        cr_assert_eq(json_array_size(points), 3);
        raise_bound(&p);
        change_bound(&p);
        move_gradient(&p);
        json_array_foreach(points, i, point)
            json_real_set(json_array_get(point, 1), 1.5 * json_real_value(json_array_get(point, 1)));
        expect_refused(&p, "collectives take longer");
        destroy(&p);
    }
    folder_end();
}

/* NCCL's prices are the least of several ways; of one node, and of several, where a ring's latency grows. */
Test(proof_buckets, prices_of_nccl) {
    static const char *const links[] = {"{ranks: 2, bytes_per_second: 3.7e+11}, {bytes_per_second: 5.0e+10}",
                                        "{ranks: 1, bytes_per_second: 3.7e+11}, {bytes_per_second: 5.0e+10}"};
    folder_begin();
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        pair p;
        char message[400], list[FOLDER_PATH_ROOM + 200];
        FILE *f = fopen(in_folder("cluster.yaml"), "w");
        cr_assert(f);
        fprintf(f, "{machine: h100, flops_per_second: 1.0e+13, links: [%s]}", links[i]);
        fclose(f);
        snprintf(
            list, sizeof list,
            "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: \"%s\"}, insert_dependencies",
            in_folder("cluster.yaml"));
        if (!make(&p, "paddle26/gpt_tiny_adamw_dp2/rank0.pdmodel", list)) cr_skip("no fixture");
        cr_assert_not_null(p.plan);
        cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
        json_t *ways = json_object_get(cost_of(&p), "ways"), *way;
        size_t k;
        cr_assert_gt(json_array_size(ways), 3);
        raise_bound(&p);
        change_bound(&p);
        move_gradient(&p);
        json_array_foreach(ways, k, way) json_object_set_new(way, "latency_us", json_real(1.0));
        expect_refused(&p, "collectives take less");
        json_array_foreach(ways, k, way) json_object_del(way, "bandwidth");
        expect_refused(&p, "no bandwidth");
        destroy(&p);
    }
    folder_end();
}

static void put_slowing_cluster(void) {
    FILE *f = fopen(in_folder("cluster.yaml"), "w");
    cr_assert(f);
    fputs("{flops_per_second: 1.0e+11, bytes_per_second: 2.0e+10, compute_beside_collective: 1.3, "
          "collective_beside_compute: 2.1, links: [{bytes_per_second: 1.0e+9, seconds_per_message: 1.0e-5}]}",
          f);
    fclose(f);
}

/* Compute and collectives that slow one another down: the checker plays them itself; the bound is that without. */
Test(proof_buckets, what_slows_one_another_down) {
    static const char *const files[] = {"paddle26/lenet_momentum_dp2/rank0.pdmodel",
                                        "paddle26/resnet18_momentum_dp2/rank0.pdmodel"};
    char list[FOLDER_PATH_ROOM + 200];
    folder_begin();
    put_slowing_cluster();
    snprintf(list, sizeof list,
             "prune_grad_scale, overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: \"%s\"}, insert_dependencies",
             in_folder("cluster.yaml"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        pair p;
        char message[400];
        if (!make(&p, files[i], list)) continue;
        cr_assert_not_null(p.plan);
        json_t *slowed = json_object_get(p.plan, "slowed");
        cr_assert_not_null(slowed);
        cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
        double bound = (double)json_integer_value(json_object_get(p.plan, "bound_ns")),
               gap = (double)json_integer_value(json_object_get(p.plan, "gap_ns"));
        cr_expect_eq(strstr(message, ", since compute and collectives slow one another down (") != NULL,
                     gap > bound / 100, "%s", message);
        size_t nnumbers = count_numbers(json_object_get(p.plan, "buckets"));
        json_t *plan = p.plan;
        p.plan = json_object_get(plan, "buckets");
        for (size_t k = 0; k < nnumbers; k++) change_number(&p, k);
        p.plan = plan;
        move_gradient(&p);
        for (int k = 0; k < 10; k++) raise_bound(&p);
        change_bound(&p);
        add(p.plan, "step_ns", 1);
        expect_refused(&p, "the step is longer");
        add(p.plan, "step_ns", -1);
        json_object_set_new(slowed, "collective", json_real(1.1));
        expect_refused(&p, "collectives are slowed down less");
        json_object_set_new(slowed, "collective", json_real(0.5));
        expect_refused(&p, "a factor below 1");
        destroy(&p);
    }
    folder_end();
}

/* --- several kinds, streams and modes ----------------------------------------------------------------------------- */

/* Gradients of up to two types on up to two rings, whose reduces are asynchronous or coalesce_grads' to move; what
 * needs them comes at the end, or some of it (early) between. */
static void print_program(char *to, size_t nbytes, unsigned ntypes, unsigned nrings, bool is_async, bool early) {
    static const char *const types[] = {"float32", "float64"};
    FILE *f = fmemopen(to, nbytes, "w");
    size_t count = 2 + draw(9) + 10 * draw(2);
    bool done[20] = {false};
    fputs("weft: 1\nrings: {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}\nblocks:\n- vars:\n", f);
    for (size_t i = 0; i < count; i++) {
        size_t n = 1 + draw(3) * draw(40000);
        const char *type = types[draw(ntypes)];
        fprintf(f, "    x%zu: {%s: [%zu], persistable: true}\n    g%zu: {%s: [%zu]}\n", i, type, n, i, type, n);
        fprintf(f, "    o%zu: {%s: [%zu], persistable: true}\n", i, type, n);
    }
    fputs("  ops:\n", f);
    for (size_t i = 0; i < count; i++) {
        size_t which = draw(i + 1);
        fprintf(f, "  - {scale: {X: [x%zu]}, out: {Out: [g%zu]}, attrs: {scale: 2.0, op_role: 1}}\n", i, i);
        if (is_async)
            fprintf(f, "  - {all_reduce: {x: [g%zu]}, out: {out: [g%zu]}, attrs: {ring_id: %zu, async_op: true}}\n", i,
                    i, (size_t)draw(nrings));
        else
            fprintf(f,
                    "  - {c_allreduce_sum: {X: [g%zu]}, out: {Out: [g%zu]}, attrs: {op_namescope: "
                    "/auto_parallel/data_parallel, op_role: 1, ring_id: 0, use_calc_stream: true}}\n",
                    i, i);
        if (!early || draw(3) || done[which]) continue;
        fprintf(f, "  - {scale: {X: [g%zu]}, out: {Out: [o%zu]}, attrs: {scale: 0.5, op_role: 2}}\n", which, which);
        done[which] = true;
    }
    for (size_t i = count; i-- > 0;)
        if (!done[i])
            fprintf(f, "  - {scale: {X: [g%zu]}, out: {Out: [o%zu]}, attrs: {scale: 0.5, op_role: 2}}\n", i, i);
    fclose(f);
}

/* The plan of a program that is drawn holds, and no mutant does. */
static void check_drawn(const char *list, unsigned ntypes, unsigned nrings, bool early, unsigned count) {
    static char text[20000];
    for (unsigned seed = 0; seed < count; seed++) {
        pair p;
        char message[400];
        state = seed;
        print_program(text, sizeof text, ntypes, nrings, strstr(list, "fuse"), early);
        must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "drawn.yaml", &p.before));
        certify(&p, list);
        cr_assert_not_null(p.plan, "%s, seed %u", list, seed);
        cr_assert_eq(check(&p, message), WEFT_CERTIFIED, "%s, seed %u: %s", list, seed, message);
        size_t nnumbers = count_numbers(p.plan);
        for (size_t i = 0; i < 12; i++) { /* a rate matters only where there are bytes */
            size_t which = draw(nnumbers), n = which;
            json_t *v = find_number(p.plan, &n);
            if (json_is_integer(v)) change_integer(&p, which, v);
        }
        move_gradient(&p);
        raise_bound(&p);
        destroy(&p);
    }
}

static unsigned drawn_count(void) {
    return getenv("WEFT_LONG_TESTS") ? 300 : 15;
}

Test(proof_buckets, several_kinds) {
    check_drawn(LIST, 2, 1, false, drawn_count());
}

/* Results that are needed before the last gradient is ready: the plan is played, the bound does not count them. */
Test(proof_buckets, early_updates) {
    check_drawn(LIST, 2, 1, true, drawn_count());
}

Test(proof_buckets, several_streams) {
    check_drawn("fuse_allreduce_buckets: {bucket_mb: auto}", 2, 2, false, drawn_count());
    check_drawn("fuse_allreduce_buckets: {bucket_mb: auto}", 1, 2, true, drawn_count());
}

/* Compute beside reduces of two streams: any of these slows it down, and it all of them. The checker says that links
 * are nobody's alone. */
Test(proof_buckets, several_streams_that_slow_compute_down) {
    static const char *const modes[] = {"in_place", "coalesced", "concat"};
    char list[FOLDER_PATH_ROOM + 200], text[20000], message[400];
    bool slowed = false;
    folder_begin();
    put_slowing_cluster();
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        snprintf(list, sizeof list, "fuse_allreduce_buckets: {mode: %s, bucket_mb: auto, cluster: \"%s\"}", modes[m],
                 in_folder("cluster.yaml"));
        check_drawn(list, 1 + m % 2, 2, m == 1, drawn_count());
        for (unsigned seed = 0; seed < 4; seed++) {
            pair p;
            state = seed;
            print_program(text, sizeof text, 2, 2, true, false);
            must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "drawn.yaml", &p.before));
            certify(&p, list);
            json_t *factors = json_object_get(p.plan, "slowed"), *kinds = json_object_get(p.plan, "kinds");
            bool has_two =
                json_integer_value(json_object_get(json_array_get(kinds, json_array_size(kinds) - 1), "lane"));
            cr_assert_not_null(factors);
            cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
            cr_expect(!has_two || strstr(message, "; that 2 streams of reduces may share links is not counted"), "%s",
                      message);
            raise_bound(&p);
            if (strstr(message, ", since compute and collectives slow one another down (0.")) {
                slowed = true;
                json_object_set_new(factors, "compute", json_real(9));
                expect_refused(&p, "compute is slowed down more");
                json_object_del(p.plan, "slowed");
                expect_refused(&p, "nothing is slowed down");
            }
            destroy(&p);
        }
    }
    cr_expect(slowed, "no gap is due to it");
    folder_end();
}

/* Members are not in one buffer; or they are copied there, which the plan of the program that was made says. */
Test(proof_buckets, all_modes) {
    check_drawn("fuse_allreduce_buckets: {mode: coalesced, bucket_mb: auto}", 2, 2, false, drawn_count());
    check_drawn("fuse_allreduce_buckets: {mode: concat, bucket_mb: auto}", 2, 2, false, drawn_count());
}

/* A reduce that stands behind one of a later gradient could be sent before it: it is ready when it is made. */
Test(proof_buckets, sent_in_another_order) {
    static const char text[] =
        "weft: 1\nrings: {0: [0, 1]}\nblocks:\n- vars:\n"
        "    x0: {float32: [400000], persistable: true}\n    g0: {float32: [400000]}\n    o0: {float32: [400000]}\n"
        "    x1: {float32: [400000], persistable: true}\n    g1: {float32: [400000]}\n    o1: {float32: [400000]}\n"
        "  ops:\n"
        "  - {scale: {X: [x0]}, out: {Out: [g0]}, attrs: {scale: 2.0}}\n"
        "  - {scale: {X: [x1]}, out: {Out: [g1]}, attrs: {scale: 2.0}}\n"
        "  - {all_reduce: {x: [g1]}, out: {out: [g1]}, attrs: {ring_id: 0, async_op: true}}\n"
        "  - {all_reduce: {x: [g0]}, out: {out: [g0]}, attrs: {ring_id: 0, async_op: true}}\n"
        "  - {scale: {X: [g1]}, out: {Out: [o1]}, attrs: {scale: 0.5}}\n"
        "  - {scale: {X: [g0]}, out: {Out: [o0]}, attrs: {scale: 0.5}}\n";
    pair p;
    char message[400];
    must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "order.yaml", &p.before));
    certify(&p, "fuse_allreduce_buckets: {bucket_mb: auto}");
    cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
    json_t *first = json_array_get(json_object_get(p.plan, "gradients"), 0),
           *second = json_array_get(json_object_get(p.plan, "gradients"), 1);
    cr_expect_eq(json_integer_value(json_object_get(first, "after")), 2);
    cr_expect_eq(json_integer_value(json_object_get(second, "after")), 1);
    raise_bound(&p);
    change_bound(&p);
    add(second, "after", 1);
    expect_refused(&p, "it is ready later");
    add(second, "after", -2);
    expect_refused(&p, "it is ready earlier");
    destroy(&p);
}

/* Two rings are two streams: a plan that says otherwise is of another program. */
Test(proof_buckets, lanes_are_streams) {
    static const char text[] = "weft: 1\nrings: {0: [0, 1], 1: [0, 1]}\nblocks:\n- vars:\n"
#define VARS(i)                                                                                                        \
    "    x" i ": {float32: [8], persistable: true}\n    g" i ": {float32: [8]}\n"                                      \
    "    o" i ": {float32: [8], persistable: true}\n"
#define MAKE(i, ring)                                                                                                  \
    "  - {scale: {X: [x" i "]}, out: {Out: [g" i "]}, attrs: {scale: 2.0}}\n"                                          \
    "  - {all_reduce: {x: [g" i "]}, out: {out: [g" i "]}, attrs: {ring_id: " ring ", async_op: true}}\n"
#define USE(i) "  - {scale: {X: [g" i "]}, out: {Out: [o" i "]}, attrs: {scale: 0.5}}\n"
        VARS("0") VARS("1") VARS("2") VARS("3") "  ops:\n" MAKE("0", "0") MAKE("1", "1") MAKE("2", "0") MAKE("3", "1")
            USE("0") USE("1") USE("2") USE("3");
    pair p;
    char message[400];
    must(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "rings.yaml", &p.before));
    certify(&p, "fuse_allreduce_buckets: {bucket_mb: auto}");
    cr_expect_eq(check(&p, message), WEFT_CERTIFIED, "%s", message);
    json_t *kinds = json_object_get(p.plan, "kinds");
    cr_assert_eq(json_array_size(kinds), 2);
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(kinds, 1), "lane")), 1);
    json_object_set_new(json_array_get(kinds, 1), "lane", json_integer(0));
    expect_refused(&p, "both rings on one lane");
    json_object_set_new(json_array_get(kinds, 1), "lane", json_integer(2));
    expect_refused(&p, "a lane is left out");
    destroy(&p);
}
