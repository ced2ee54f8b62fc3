/* Sidecars: where they are found, what of them is believed, what is written. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/context.h"
#include "program/ir.h"
#include "tests/support/folder.h"
#include "tests/support/table.h"
#include "weft/placement.h"

static weft_context *context;
static size_t nwarnings, nerrors;
static char warned[400]; /* the last */

static void on_diagnostic(void *user, const weft_diagnostic *d) {
    (void)user;
    nwarnings += d->severity == WEFT_WARNING;
    if (d->severity == WEFT_WARNING) snprintf(warned, sizeof warned, "%s: %s", d->place, d->message);
    nerrors += d->severity == WEFT_ERROR;
}

static void begin(void) {
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .on_diagnostic = on_diagnostic};
    cr_assert_null(context_create_bare(&options, &context));
    folder_begin();
}

static void end(void) {
    folder_end();
    context_destroy(context);
}
TestSuite(program_sidecar, .init = begin, .fini = end);

static const char yaml[] = "weft: 1\n"
                           "blocks:\n"
                           "- vars: {x: {float32: [8, 4]}, w: {float32: [4]}}\n"
                           "  ops:\n"
                           "  - {relu: {X: [x]}, out: {Out: [x]}}\n"
                           "  - {scale: {X: [w]}, out: {Out: [w]}}\n"
                           "- vars: {v: {float32: []}}\n"
                           "  ops: [{relu: {X: [v]}, out: {Out: [v]}}]\n";

static weft_program *program(void) {
    weft_program *p = NULL;
    weft_status status = weft_program_parse(context, WEFT_FORM_YAML, yaml, strlen(yaml), NULL, 0, "y", &p);
    cr_assert_null(status, "%s", weft_status_message(status));
    return p;
}

static weft_program *with_sidecar(const char *json) {
    weft_program *p = program();
    weft_status status = sidecar_parse(p, json, strlen(json), "s.dist.json", true);
    cr_assert_null(status, "%s", weft_status_message(status));
    return p;
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static void write_sidecar(const char *file, int64_t rank) {
    char json[200];
    int n = snprintf(json, sizeof json,
                     "{\"rank\": %d, \"vars\": {\"x\": null}, \"ops\": [{\"block\": 0, \"idx\": 0, "
                     "\"type\": \"relu\", \"execution_stream\": \"s\"}]}",
                     (int)rank);
    cr_assert_null(file_write(&context->allocator, in_folder(file), json, (size_t)n));
}

typedef struct lookup_row {
    const char *program, *sidecar;
    bool found, with_ops;
} lookup_row;

static const lookup_row lookup_rows[] = {
    {"rank0.pdmodel", "rank0.dist.json", true, true},
    {"rank0.pdmodel", "dist.rank0.json", true, true},
    {"rank0.pdmodel", "rank0.dist.json.gz", true, true},
    {"rank0.pdmodel", "dist.rank0.json.gz", true, true},
    {"rank0.pdmodel.gz", "rank0.dist.json", true, true},
    {"rank0.after.prune.pdmodel", "dist.rank0.after.prune.json", true, true},
    {"rank0.after.prune.pdmodel", "dist.rank0.after.json", true, false},
    {"rank0.after.prune.pdmodel", "dist.rank0.json.gz", true, false},
    {"rank0.after.prune.pdmodel", "rank0.dist.json", true, false},
    {"rank0.pdmodel", "dist.rank.json", false, false},
    {"rank0.pdmodel", "rank0.json", false, false},
    {"rank0.yaml", "rank0.dist.json", false, false},
    {".x.pdmodel", "dist..json", false, false},
};

TABLE_ROWS(program_sidecar, is_found_by_name, lookup_rows);
TABLE_TEST(size_t *index, program_sidecar, is_found_by_name) {
    const lookup_row *row = &lookup_rows[*index];
    weft_program *p = program(), *q = NULL;
    cr_assert_null(weft_program_save(p, in_folder(row->program)));
    cr_expect_not(file_exists(in_folder("rank0.dist.json")), "a program without dist attrs has no sidecar");
    write_sidecar(row->sidecar, 3);
    weft_status status = weft_program_load(context, in_folder(row->program), NULL, &q);
    cr_assert_null(status, "%s", weft_status_message(status));
    cr_expect_eq(q->has_dist, row->found);
    cr_expect_eq(q->rank, row->found ? 3 : -1);
    cr_expect_eq(weft_block_var_at(q->blocks[0], 0)->dist_is_null, row->found);
    cr_expect_eq(q->blocks[0]->first->dist != NULL, row->with_ops);
    weft_program_destroy(p);
    weft_program_destroy(q);
}

Test(program_sidecar, the_nearest_name_wins) {
    weft_program *p = program(), *q;
    cr_assert_null(weft_program_save(p, in_folder("r.a.pdmodel")));
    write_sidecar("dist.r.json", 1);
    write_sidecar("dist.r.a.json", 2);
    cr_assert_null(weft_program_load(context, in_folder("r.a.pdmodel"), NULL, &q));
    cr_expect_eq(q->rank, 2);
    weft_program_destroy(q);
    write_sidecar("r.a.dist.json", 4);
    cr_assert_null(weft_program_load(context, in_folder("r.a.pdmodel"), NULL, &q));
    cr_expect_eq(q->rank, 4);
    weft_program_destroy(q);
    char given[FOLDER_PATH_ROOM];
    snprintf(given, sizeof given, "%s", in_folder("dist.r.json"));
    cr_assert_null(weft_program_load(context, in_folder("r.a.pdmodel"), given, &q));
    cr_expect_eq(q->rank, 1);
    cr_expect_not_null(q->blocks[0]->first->dist, "a sidecar that was named is that of the program");
    weft_program_destroy(q);
    weft_program_destroy(p);
}

Test(program_sidecar, one_that_was_named_must_exist) {
    weft_program *p = program(), *q;
    char missing[FOLDER_PATH_ROOM];
    cr_assert_null(weft_program_save(p, in_folder("r.pdmodel")));
    snprintf(missing, sizeof missing, "%s", in_folder("nowhere.json"));
    weft_status status = weft_program_load(context, in_folder("r.pdmodel"), missing, &q);
    cr_expect_eq(weft_status_code(status), WEFT_NOT_FOUND);
    cr_expect_str_eq(weft_status_place(status), missing);
    weft_status_free(status);
    weft_program_destroy(p);
}

Test(program_sidecar, saving_writes_it_beside_the_program) {
    weft_program *p = with_sidecar("{\"rank\": 1, \"process_groups\": {\"5\": {\"ranks\": [1, 0], \"type\": null}}}"),
                 *q;
    cr_assert_null(weft_program_save(p, in_folder("r.pdmodel.gz")));
    cr_expect(file_exists(in_folder("r.dist.json")));
    cr_assert_null(weft_program_load(context, in_folder("r.pdmodel.gz"), NULL, &q));
    cr_expect(weft_program_equal(p, q));
    weft_program_destroy(p);
    weft_program_destroy(q);
}

typedef struct name_row {
    const char *path;
} name_row;
static const name_row name_rows[] = {{"program"}, {"program.pb"}, {".pdmodel"}, {"x.gz"}, {"x.json"}, {""}};
TABLE_ROWS(program_sidecar, other_names_are_refused, name_rows);
TABLE_TEST(size_t *index, program_sidecar, other_names_are_refused) {
    weft_program *p = program(), *q;
    weft_status status = weft_program_load(context, name_rows[*index].path, NULL, &q);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    status = weft_program_save(p, name_rows[*index].path);
    cr_expect_eq(weft_status_code(status), WEFT_INVALID_ARGUMENT);
    weft_status_free(status);
    weft_program_destroy(p);
}

/* --- contents ----------------------------------------------------------------------------------------------------- */

static const char full[] =
    "{\"rank\": 1,\n"
    " \"process_groups\": {\n"
    "  \"0\": {\"ranks\": [0, 1], \"type\": null},\n"
    "  \"12\": {\"ranks\": [1, 0], \"type\": \"p2p\"}},\n"
    " \"meshes\": [\n"
    "  {\"shape\": [2], \"ids\": [0, 1], \"dims\": [\"dp\"]},\n"
    "  {\"shape\": [1, 2], \"ids\": [0, 1]}],\n"
    " \"params_grads\": [\n"
    "  [\"w\", \"w@GRAD\"]],\n"
    " \"vars\": {\n"
    "  \"x\": {\"mesh\": 0, \"dims_mapping\": [-1, -1], \"batch_dim\": 1, \"dynamic_dims\": [0, 1], \"chunk_id\": 2, "
    "\"partial\": {\"0\": \"max\"}, \"annotated\":[\"mesh\"]},\n"
    "  \"w\": null,\n"
    "  \"v\": {\"dims_mapping\": [], \"batch_dim\": 0, \"dynamic_dims\": []}},\n"
    " \"ops\": [\n"
    "  {\"block\": 0, \"idx\": 0, \"type\": \"relu\", \"impl_type\": \"elementwise\", \"impl_idx\": 3, \"mesh\": 0, "
    "\"inputs\": {\"x\": [0, -1]}, \"outputs\": {\"x\": [-1, -1], \"@partial\": {\"x\": [0]}}, \"is_recompute\": true, "
    "\"execution_stream\": \"gradient_sync\", \"event_to_record\": \"e\", \"events_to_wait\": [\"a\", \"b\"], "
    "\"stale_names\":[[],[]]},\n"
    "  {\"block\": 0, \"idx\": 1, \"type\": \"scale\", \"dist_attr\":null},\n"
    "  {\"block\": 1, \"idx\": 0, \"type\": \"relu\", \"mesh\": 1, \"inputs\": {\"u\": [[1, 0], -1], \"v\": "
    "{\"dims_mapping\": [], "
    "\"batch_dim\": 0, \"dynamic_dims\": []}}, \"outputs\": {\"v\": {\"mesh\": 0, \"dims_mapping\": [], \"batch_dim\": "
    "0, "
    "\"dynamic_dims\": []}}}], \"loss\":\"l\",\"groups\":[1.5]}\n";

Test(program_sidecar, everything_survives) {
    weft_program *p = with_sidecar(full), *q;
    char *json;
    size_t nbytes;
    cr_assert_null(weft_program_print_sidecar(p, &json, &nbytes));
    cr_expect_str_eq(json, full);
    q = with_sidecar(json);
    cr_expect(weft_program_equal(p, q));
    cr_expect_eq(nwarnings + nerrors, 0);
    const weft_op *relu = p->blocks[0]->first;
    cr_expect_str_eq(relu->dist->execution_stream, "gradient_sync");
    cr_expect_eq(op_dist_nwaits(relu->dist), 2);
    cr_expect_eq(op_dist_rest_of(relu->dist)->outputs[0].placement->partial_axes, 1);
    cr_expect_eq(weft_block_var_at(p->blocks[0], 0)->dist->partial_reduce[0], WEFT_REDUCE_MAX);
    weft_bytes_free(context, json, nbytes);
    weft_program_destroy(p);
    weft_program_destroy(q);
}

Test(program_sidecar, what_the_program_lacks_is_passed_over) {
    weft_program *p = with_sidecar(
        "{\"vars\": {\"gone\": {\"mesh\": 7}, \"x\": {\"dims_mapping\": [-1]}}, \"ops\": ["
        "{\"block\": 0, \"idx\": 0, \"type\": \"relu\"}, {\"block\": 0, \"idx\": 1, \"type\": \"scale\"}, "
        "{\"block\": 1, \"idx\": 0, \"type\": \"tanh\"}, {\"block\": 9, \"idx\": 0, \"type\": \"relu\"}]}");
    cr_expect_eq(nwarnings, 3);
    cr_expect_not_null(p->blocks[0]->first->dist);
    cr_expect_not_null(p->blocks[0]->last->dist);
    cr_expect_null(p->blocks[1]->first->dist);
    cr_expect_eq(weft_block_var_at(p->blocks[0], 0)->dist->ndim, 1, "a rank that differs is the verifier's to report");
    weft_program_destroy(p);
}

Test(program_sidecar, ops_of_another_program_are_not_taken) {
    weft_program *p = with_sidecar("{\"ops\": [{\"block\": 0, \"idx\": 0, \"type\": \"relu\"}, "
                                   "{\"idx\": 1, \"type\": \"a\"}, {\"idx\": 2, \"type\": \"b\"}]}");
    cr_expect_eq(nwarnings, 1);
    cr_expect_null(p->blocks[0]->first->dist);
    weft_program_destroy(p);
}

Test(program_sidecar, the_default_stream_is_no_stream) {
    weft_program *p = with_sidecar("{\"ops\": [{\"idx\": 0, \"type\": \"relu\", \"execution_stream\": \"default\"}]}");
    cr_expect_null(p->blocks[0]->first->dist->execution_stream);
    weft_program_destroy(p);
}

Test(program_sidecar, a_list_of_one_axis_is_that_axis) {
    weft_program *p = with_sidecar("{\"meshes\": [{\"shape\": [2], \"ids\": [0, 1]}], \"vars\": {\"x\": {\"mesh\": 0, "
                                   "\"dims_mapping\": [[], [0]]}}}");
    const placement *x = weft_block_find_var(p->blocks[0], "x")->dist;
    cr_expect_eq(x->ndim, 2);
    cr_expect_eq(x->dims_mapping[0], -1);
    cr_expect_eq(x->dims_mapping[1], 0);
    weft_program_destroy(p);
}

/* One mesh names its axes, another is the same ranks in a row. */
#define MESHES                                                                                                         \
    "\"meshes\": [{\"shape\": [2], \"ids\": [0, 1]}, {\"shape\": [1, 2], \"ids\": [0, 1], \"dims\": [\"dp\", "         \
    "\"mp\"]}]"

Test(program_sidecar, an_axis_may_be_named) {
    weft_program *p = with_sidecar(
        "{" MESHES ", \"vars\": {\"x\": {\"dims_mapping\": [-1, \"mp\"], \"mesh\": 1, \"partial\": {\"dp\": \"max\"}}, "
        "\"w\": {\"mesh\": 1, \"dims_mapping\": [[\"mp\", 0]]}}, \"ops\": [{\"idx\": 0, \"type\": \"relu\", \"mesh\": "
        "1, "
        "\"inputs\": {\"x\": [\"dp\", -1], \"@partial\": {\"x\": [\"mp\"]}}}]}");
    const placement *x = weft_block_find_var(p->blocks[0], "x")->dist,
                    *w = weft_block_find_var(p->blocks[0], "w")->dist;
    const placement *read = p->blocks[0]->first->dist->rest->inputs[0].placement;
    const int64_t both[] = {1, 0};
    cr_expect(x->dims_mapping[0] == -1 && x->dims_mapping[1] == 1);
    cr_expect(x->partial_axes == 1 && x->partial_reduce[0] == WEFT_REDUCE_MAX);
    cr_expect_eq(w->dims_mapping[0], weft_dims_entry(2, both));
    cr_expect(read->dims_mapping[0] == 0 && read->dims_mapping[1] == -1 && read->partial_axes == 2);
    char *json;
    size_t nbytes;
    cr_assert_null(weft_program_print_sidecar(p, &json, &nbytes));
    cr_expect(strstr(json, "\"dims_mapping\": [-1, 1]") && strstr(json, "\"partial\": {\"0\": \"max\"}"), "%s", json);
    weft_bytes_free(context, json, nbytes);
    weft_program_destroy(p);
}

typedef struct stranger_row {
    const char *json, *warning;
} stranger_row;
static const stranger_row stranger_rows[] = {
    {"{\"vars\": {\"xy\": {\"dims_mapping\": [0]}}}",
     "s.dist.json: vars: the program has no var \"xy\": ignored; did you mean \"x\"?"},
    {"{\"vars\": {\"linear_0.w_0\": null}}", "vars: the program has no var \"linear_0.w_0\": ignored"},
    {"{\"ops\": [{\"idx\": 0, \"type\": \"relu\"}, {\"idx\": 1, \"type\": \"relu\"}]}",
     "ops entry 1: the program has no op relu at index 1 of block 0: ignored"},
};
TABLE_ROWS(program_sidecar, a_stranger_is_named, stranger_rows);
TABLE_TEST(size_t *index, program_sidecar, a_stranger_is_named) {
    size_t before = nwarnings;
    weft_program_destroy(with_sidecar(stranger_rows[*index].json));
    cr_expect_eq(nwarnings, before + 1);
    cr_expect(strstr(warned, stranger_rows[*index].warning), "%s", warned);
}

Test(program_sidecar, of_many_strangers_ten_are_named) {
    char json[2000] = "{\"vars\": {";
    size_t at = strlen(json);
    for (int i = 0; i < 25; i++) at += (size_t)sprintf(json + at, "%s\"gone_%d\": null", i ? ", " : "", i);
    sprintf(json + at, "}}");
    weft_program_destroy(with_sidecar(json));
    cr_expect_eq(nwarnings, 11);
    cr_expect(strstr(warned, "and 15 more"), "%s", warned);
}

/* A program behind some pass may have fewer vars than the one whose sidecar it takes. */
Test(program_sidecar, a_sidecar_of_before_may_name_more) {
    weft_program *p = program();
    const char *json = "{\"vars\": {\"gone\": null}}";
    cr_assert_null(sidecar_parse(p, json, strlen(json), "s.dist.json", false));
    cr_expect_eq(nwarnings, 0);
    weft_program_destroy(p);
}

/* Axes that the op's mesh does not have are those of the mesh of the var. */
Test(program_sidecar, placements_on_another_mesh_lose_their_mesh) {
    weft_program *p =
        with_sidecar("{" MESHES ", \"vars\": {\"x\": {\"mesh\": 1, \"dims_mapping\": [-1, -1]}}, "
                     "\"ops\": [{\"idx\": 0, \"type\": \"relu\", \"mesh\": 0, \"inputs\": {\"x\": [1, 0]}}]}");
    const op_dist_rest *d = p->blocks[0]->first->dist->rest;
    cr_expect_not_null(p->blocks[0]->first->dist->rest->mesh);
    cr_expect_null(d->inputs[0].placement->mesh);
    cr_expect_eq(d->inputs[0].placement->dims_mapping[0], 1);
    weft_program_destroy(p);
}

/* --- what is wrong ------------------------------------------------------------------------------------------------ */

typedef struct wrong_row {
    const char *json, *message;
} wrong_row;

static const wrong_row wrong_rows[] = {
    {"", "expected JSON"},
    {"{", "expected JSON"},
    {"{\"rank\": NaN}", "expected JSON"},
    {"{\"rank\": 1, \"rank\": 2}", "expected JSON"},
    {"[]", "expected an object"},
    {"{\"rank\": 1.5}", "rank: expected an integer, found a real number"},
    {"{\"rank\": -7}", "rank: expected a rank"},
    {"{\"process_groups\": []}", "\"process_groups\" to be an object"},
    {"{\"process_groups\": {\"a\": {}}}", "by ring id, found \"a\""},
    {"{\"process_groups\": {\"1\": {}}}", "ring 1: expected a list of integers, found nothing"},
    {"{\"process_groups\": {\"1\": {\"ranks\": [0, 0]}}}", "ring 1:"},
    {"{\"process_groups\": {\"1\": {\"ranks\": [-1]}}}", "ring 1:"},
    {"{\"meshes\": {}}", "\"meshes\" to be a list"},
    {"{\"meshes\": [3]}", "mesh 0: expected a list of integers"},
    {"{\"meshes\": [{\"shape\": [2], \"ids\": [0]}]}", "mesh 0: expected as many ids"},
    {"{\"meshes\": [{\"shape\": [4611686018427387904, 4], \"ids\": []}]}", "mesh 0: expected as many ids"},
    {"{\"meshes\": [{\"shape\": [0], \"ids\": []}]}", "mesh 0"},
    {"{\"meshes\": [{\"shape\": [2], \"ids\": [0, 1], \"dims\": [\"a\", \"b\"]}]}", "\"dims\" to name its 1 axes"},
    {"{\"vars\": []}", "\"vars\" to be an object"},
    {"{\"vars\": {\"x\": 3}}", "var \"x\": expected an object or null"},
    {"{\"vars\": {\"x\": {\"mesh\": 0}}}", "var \"x\": expected the index of one of 0 meshes, found 0"},
    {"{\"vars\": {\"x\": {\"dims_mapping\": [0.5]}}}", "var \"x\": expected an integer"},
    {"{\"vars\": {\"x\": {\"dims_mapping\": [-1], \"dynamic_dims\": []}}}", "one flag for each of the 1 axes"},
    {"{\"vars\": {\"x\": {\"dims_mapping\": [[], [1, 32]]}}}", "dims_mapping[1]: expected -1 or at most 10 mesh axes"},
    {"{\"vars\": {\"x\": {\"dims_mapping\": [[-1]]}}}", "expected -1 or at most 10 mesh axes below 32, found -1"},
    {"{\"meshes\": [{\"shape\": [2, 2], \"ids\": [0, 1, 2, 3]}], \"vars\": {\"x\": {\"mesh\": 0, \"dims_mapping\": "
     "[[1, 1]]}}}",
     "dims_mapping[0]: mesh axis 1 is given twice"},
    {"{\"meshes\": [{\"shape\": [2, 2], \"ids\": [0, 1, 2, 3]}], \"vars\": {\"x\": {\"mesh\": 0, \"dims_mapping\": "
     "[[1, 0], 1]}}}",
     "dims_mapping[1]: mesh axis 1 shards another tensor axis too"},
    {"{\"meshes\": [{\"shape\": [2], \"ids\": [0, 1]}], \"vars\": {\"x\": {\"mesh\": 0, \"dims_mapping\": "
     "[[0, 1]]}}}",
     "dims_mapping[0]: expected -1 or a mesh axis below 1, found 1"},
    {"{\"vars\": {\"x\": {\"dims_mapping\": [[0.5]]}}}", "var \"x\": expected an integer"},
    {"{\"vars\": {\"x\": {\"partial\": [99]}}}", "from 0 to 31"},
    {"{\"meshes\": [{\"shape\": [2], \"ids\": [0, 1]}], \"vars\": {\"x\": {\"mesh\": 0, \"dims_mapping\": [1, 0]}}}",
     "mesh axis"},
    {"{" MESHES ", \"vars\": {\"x\": {\"mesh\": 1, \"dims_mapping\": [\"tp\", -1]}}}",
     "var \"x\": expected an axis of dp, mp, found \"tp\""},
    {"{" MESHES ", \"vars\": {\"x\": {\"mesh\": 0, \"dims_mapping\": [\"dp\", -1]}}}",
     "var \"x\": expected an axis by number, since the mesh names none, found \"dp\""},
    {"{" MESHES ", \"vars\": {\"x\": {\"dims_mapping\": [[\"dp\"], -1]}}}",
     "var \"x\": expected an axis by number, for want of a mesh, found \"dp\""},
    {"{" MESHES ", \"vars\": {\"x\": {\"mesh\": 1, \"dims_mapping\": [-1], \"partial\": [\"tp\"]}}}",
     "var \"x\": expected an axis of dp, mp, found \"tp\""},
    {"{" MESHES ", \"ops\": [{\"idx\": 0, \"type\": \"relu\", \"mesh\": 1, \"outputs\": {\"x\": [1, 1]}}]}",
     "ops entry 0 (relu): var \"x\": dims_mapping[1]: mesh axis 1 shards another tensor axis too"},
    {"{" MESHES ", \"ops\": [{\"idx\": 0, \"type\": \"relu\", \"mesh\": 0, \"inputs\": {\"x\": [1, -1]}}]}",
     "ops entry 0 (relu): var \"x\": dims_mapping[0]: expected -1 or a mesh axis below 1, found 1"},
    {"{\"params_grads\": [[\"a\"]]}", "expected [param, grad] as entry 0"},
    {"{\"ops\": {}}", "\"ops\" to be a list"},
    {"{\"ops\": [{\"idx\": 0, \"type\": \"relu\", \"events_to_wait\": 3}]}", "events_to_wait to be a list"},
    {"{\"ops\": [{\"idx\": 0, \"type\": \"relu\", \"impl_idx\": \"1\"}]}",
     "(relu): expected an integer, found a string"},
    {"{\"ops\": [{\"idx\": 0, \"type\": \"relu\", \"inputs\": []}]}", "inputs and outputs as objects"},
    {"{\"rank\": true, \"vars\": [], \"ops\": 1}", "3 problems; the first: rank"},
};

TABLE_ROWS(program_sidecar, wrong_ones_are_reported, wrong_rows);
TABLE_TEST(size_t *index, program_sidecar, wrong_ones_are_reported) {
    const wrong_row *row = &wrong_rows[*index];
    weft_program *p = program();
    weft_status status = sidecar_parse(p, row->json, strlen(row->json), "s.dist.json", true);
    cr_assert_eq(weft_status_code(status), WEFT_PARSE, "%s", row->json);
    cr_expect(strstr(weft_status_message(status), row->message), "%s\n%s", row->json, weft_status_message(status));
    cr_expect(strstr(weft_status_place(status), "s.dist.json"));
    cr_expect_gt(nerrors, 0);
    weft_status_free(status);
    weft_program_destroy(p);
}
