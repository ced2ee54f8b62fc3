/* spmd_rules.c: placements of single ops against those that DTensor 2.4.1 chose for 2,796 of them. Each row that it
 * computed right is legal here. To bring inputs there and outputs to where DTensor left them sends no more bytes than
 * DTensor did. docs/differences.md tells of what differs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "passes/spmd/spmd.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "tests/support/spmd_price.h"

typedef enum verdict { FINE, MORE, ILLEGAL, UNREAD } verdict;

typedef struct trial {
    const json_t *row;
    verdict verdict;
    double ours, theirs;
    char words[200];
} trial;

/* Rows of an op that send more, and how many: docs/differences.md says why. */
static const struct {
    const char *op;
    size_t most;
} dearer[] = {
    {"aten.mm.default", 1},
    {"aten.native_dropout.default", 4},
};
enum { NDEARER = sizeof dearer / sizeof *dearer };

static weft_context *context;

/* --- a graph of the op -------------------------------------------------------------------------------------------- */

static void name_tensors(json_t *value, json_t *inputs) {
    json_t *item;
    size_t i;
    if (json_is_array(value)) json_array_foreach(value, i, item) name_tensors(item, inputs);
    if (!json_is_object(value) || !json_object_get(value, "t")) return;
    char named[24];
    snprintf(named, sizeof named, "t%lld", (long long)json_integer_value(json_object_get(value, "t")));
    json_array_append_new(inputs, json_pack("{s:s, s:O, s:O}", "name", named, "shape", json_object_get(value, "shape"),
                                            "dtype", json_object_get(value, "dtype")));
    json_object_clear(value);
    json_object_set_new(value, "ref", json_string(named));
}

/* Outputs have the type of the first input; what an op makes of others is inferred. */
static json_t *output_types(const json_t *shapes, const char *dtype) {
    json_t *types = json_array();
    for (size_t i = 0; i < json_array_size(shapes); i++) json_array_append_new(types, json_string(dtype));
    return types;
}

/* The arguments that an op writes in place which has no value of its own, as bits; 0: it has one. Lists that are
 * updated have one tensor each in these rows. */
static uint32_t writes_lists(const json_t *row) {
    static const struct {
        const char *op;
        uint32_t written;
    } updates[] = {{"aten._fused_adam_", 1 | 1 << 2 | 1 << 3}, {"aten._foreach_", 1}};
    const char *op = json_string_value(json_object_get(row, "op")), *dot = strrchr(op, '.');
    for (size_t i = 0; i < sizeof updates / sizeof *updates && dot && dot[-1] == '_'; i++)
        if (strncmp(op, updates[i].op, strlen(updates[i].op)) == 0) return updates[i].written;
    return 0;
}

/* The graph of an op that has no value: its outputs are what it wrote. */
static void end_in_writes(json_t *node, json_t *args, uint32_t written, json_t *outputs) {
    json_t *arg;
    size_t i;
    json_object_set_new(node, "shape", json_null());
    json_object_set_new(node, "dtype", json_null());
    json_array_foreach(args, i, arg) if (written >> i & 1) json_array_append(outputs, json_array_get(arg, 0));
}

static char *graph_of(const json_t *row) {
    json_t *args = json_deep_copy(json_object_get(row, "args")), *inputs = json_array(), *nodes = json_array(),
           *outputs = json_array(), *shapes = json_object_get(row, "out_shape");
    name_tensors(args, inputs);
    size_t n = json_array_size(shapes);
    const char *dtype = json_string_value(json_object_get(json_array_get(inputs, 0), "dtype"));
    json_t *types = output_types(shapes, dtype ? dtype : "float32");
    json_array_append_new(nodes,
                          json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:O}", "name", "y", "op", "call", "target",
                                    json_object_get(row, "op"), "args", args, "kwargs", json_object_get(row, "kwargs"),
                                    "shape", n == 1 ? json_array_get(shapes, 0) : shapes, "dtype",
                                    n == 1 ? json_array_get(types, 0) : types));
    json_object_set(json_array_get(nodes, 0), "target", json_object_get(row, "op"));
    uint32_t written = writes_lists(row);
    if (written) end_in_writes(json_array_get(nodes, 0), args, written, outputs);
    for (size_t i = 0; n > 1 && !written && i < n; i++) {
        char named[24];
        snprintf(named, sizeof named, "y%zu", i);
        json_array_append_new(nodes, json_pack("{s:s, s:s, s:s, s:[{s:s}, i], s:{}, s:O, s:O}", "name", named, "op",
                                               "call", "target", "getitem", "args", "ref", "y", (int)i, "kwargs",
                                               "shape", json_array_get(shapes, i), "dtype", json_array_get(types, i)));
        json_array_append_new(outputs, json_pack("{s:s}", "ref", named));
    }
    if (n == 1 && !written) json_array_append_new(outputs, json_pack("{s:s}", "ref", "y"));
    json_t *document = json_pack("{s:s, s:s, s:{}, s:O, s:[], s:O, s:O, s:O, s:{}, s:s}", "schema", "fx.json/1", "name",
                                 "row", "groups", "inputs", inputs, "constants", "nodes", nodes, "outputs", outputs,
                                 "world_size", json_object_get(row, "n"), "placements_in", "shapes", "global");
    char *made = document ? json_dumps(document, 0) : NULL;
    json_decref(document), json_decref(args), json_decref(inputs), json_decref(nodes), json_decref(outputs);
    json_decref(types);
    return made;
}

/* --- what is sent ------------------------------------------------------------------------------------------------- */

/* False: a placement that is DTensor's own. */
static bool place(const char *said, axes_placed *out) {
    static const char *const sums[] = {[WEFT_REDUCE_SUM] = "P(sum)",
                                       [WEFT_REDUCE_MAX] = "P(max)",
                                       [WEFT_REDUCE_MIN] = "P(min)",
                                       [WEFT_REDUCE_PROD] = "P(product)",
                                       [WEFT_REDUCE_AVG] = "P(avg)"};
    *out = (axes_placed){.naxes = {0}};
    if (said[0] == 'S') placed_shard(out, said[2] - '0', 0);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i] && strcmp(said, sums[i]) == 0) out->partial[0] = (uint8_t)(1 + i);
    return said[0] == 'R' || said[0] == 'S' || out->partial[0];
}

static double numel(const json_t *dims) {
    double n = 1;
    for (size_t i = 0; i < json_array_size(dims); i++) n *= (double)json_integer_value(json_array_get(dims, i));
    return n;
}

/* Elements that a rank of DTensor sends: those are what is compared, since it does not say of which type. */
static double sent_by_dtensor(const json_t *row) {
    const json_t *list = json_object_get(row, "collectives");
    double w = (double)json_integer_value(json_object_get(row, "n")), sent = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *c = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(c, "op"));
        double n = numel(json_object_get(c, "in"));
        sent += strstr(type, "all_gather")   ? (w - 1) * n
                : strstr(type, "all_reduce") ? 2 * (w - 1) / w * n
                                             : (w - 1) / w * n;
    }
    return sent;
}

static void want(spmd_plan *plan, const char *named, const char *said, bool given, trial *t) {
    axes_placed placed;
    if (!place(said, &placed)) t->verdict = UNREAD;
    spmd_price_want(plan, named, &placed, given);
}

static const char *output_name(const json_t *row, size_t i, size_t n, char out[24]) {
    uint32_t written = writes_lists(row);
    size_t arg = 0, before = i;
    while (written && (!(written >> arg & 1) || before-- > 0)) arg++; /* the one behind i others that are written */
    if (written)
        snprintf(out, 24, "t%zu", arg);
    else
        snprintf(out, 24, n == 1 ? "y" : "y.%zu", i);
    return out;
}

static weft_status weigh(spmd_plan *plan, trial *t) {
    const json_t *in = json_object_get(t->row, "in"), *out = json_object_get(t->row, "out");
    char named[24];
    size_t n = json_array_size(out);
    for (size_t i = 0; i < json_array_size(in); i++) {
        snprintf(named, sizeof named, "t%zu", i);
        want(plan, named, json_string_value(json_array_get(in, i)), true, t);
    }
    for (size_t i = 0; i < n && !writes_lists(t->row); i++) /* what is written stays where it is */
        want(plan, output_name(t->row, i, n, named), json_string_value(json_array_get(out, i)), false, t);
    spmd_price price;
    TRY(spmd_price_program(plan, &price));
    if (t->verdict == FINE && price.is_illegal) t->verdict = ILLEGAL;
    for (size_t i = 0; i < n && t->verdict == FINE; i++) {
        axes_placed to;
        cr_assert(weft_block_find_var(plan->block, output_name(t->row, i, n, named)), "no var %s", named);
        if (!place(json_string_value(json_array_get(out, i)), &to) ||
            !spmd_price_settle(plan, &price, output_name(t->row, i, n, named), &to))
            t->verdict = UNREAD;
    }
    t->ours = price.sent;
    return NULL;
}

/* The rest of the trial runs as a pass, which is given what passes are. */
static weft_status run(weft_pass_context *pass, weft_program *program, void *user) {
    trial *t = user;
    spmd_plan plan = {.pass = pass, .program = program, .scratch = pass_scratch(pass), .rank = 0};
    weft_status status = spmd_read(&plan);
    if (!status) status = weigh(&plan, t);
    spmd_plan_fini(&plan);
    return status;
}

static trial current;
static const weft_pass probe = {.name = "probe", .summary = "prices a row", .run = run, .user = &current};

static void try_row(const json_t *row, const weft_pass_list *list) {
    current = (trial){.row = row, .theirs = sent_by_dtensor(row)};
    char *graph = graph_of(row);
    weft_program *program = NULL;
    weft_status status = graph ? NULL : base_out_of_memory();
    if (!status) status = weft_program_parse(context, WEFT_FORM_FX, graph, strlen(graph), NULL, 0, "row", &program);
    if (!status) status = weft_pass_list_run(list, program, NULL);
    if (status) {
        current.verdict = UNREAD;
        snprintf(current.words, sizeof current.words, "%.180s", weft_status_message(status));
    } else if (current.verdict == FINE && current.ours > current.theirs + 1e-6)
        current.verdict = MORE;
    weft_status_free(status);
    weft_program_destroy(program);
    free(graph);
}

/* Counts a row that sends more; false: no more rows of its op may. */
static bool is_known(const json_t *row, size_t *seen) {
    const char *op = json_string_value(json_object_get(row, "op"));
    for (size_t i = 0; i < NDEARER; i++)
        if (strcmp(dearer[i].op, op) == 0) return ++seen[i] <= dearer[i].most;
    return false;
}

static json_t *read_rules(void) {
    char path[600], *bytes = malloc(4 << 20);
    json_t *document = NULL;
    FILE *f = bytes && fixture_path(path, sizeof path, "torch/spmd/rules.json") ? fopen(path, "rb") : NULL;
    size_t n = f ? fread(bytes, 1, 4 << 20, f) : 0;
    if (f) fclose(f);
    must(weft_context_create(NULL, &context));
    if (n) must(json_read(context, bytes, n, path, &document));
    free(bytes);
    return document;
}

Test(spmd_rules, no_more_bytes_than_dtensor) {
    json_t *document = read_rules();
    weft_pass_list *list = NULL;
    size_t counts[4] = {0}, seen[NDEARER] = {0};
    if (!document) cr_skip_test("no recorded rules");
    must(weft_pass_register(context, &probe));
    must(weft_pass_list_parse(context, "probe", strlen("probe"), "list", &list));
    weft_pass_list_set_prove(list, WEFT_PROVE_OFF);
    const json_t *rows = json_object_get(document, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *numeric = json_object_get(row, "numeric");
        if (!numeric || !json_is_string(numeric)) continue; /* DTensor refused it, or was wrong */
        try_row(row, list);
        counts[current.verdict]++;
        cr_expect(current.verdict != MORE || is_known(row, seen), "row %zu, %s: %g elements, DTensor %g", i,
                  json_string_value(json_object_get(row, "op")), current.ours, current.theirs);
    }
    printf("%zu rows send no more, %zu more; %zu are of placements that are DTensor's own\n", counts[FINE],
           counts[MORE], counts[UNREAD]);
    cr_expect_eq(counts[ILLEGAL], 0);
    cr_expect_leq(counts[UNREAD], 12, "%s", current.words);
    cr_expect_geq(counts[FINE], 2505);
    weft_pass_list_destroy(list);
    json_decref(document);
    weft_context_destroy(context);
}
