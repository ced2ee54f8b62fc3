/* passes_spmd_places.c: ranks whose programs differ only in attrs that say where they stand share one run of the pass
 * list: what each is given is what the list makes for it alone, read back from its file too. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "program/ir.h"
#include "tests/support/folder.h"
#include "tests/support/must.h"
#include "weft/pass.h"

/* A lookup in a table of so many rows, plus a row for each place of a sequence, and a loss over classes. */
static const char pattern[] =
    "weft: 1\nversion: 2006002\nmeshes:\n- {shape: [%d, %d], ids: [%s], dims: [sp, mp]}\n"
    "blocks:\n- idx: 0\n  vars:\n"
    "    table: {float32: [%d, 6], persistable: true, dist: {mesh: 0, dims_mapping: [1, -1]}}\n"
    "    places: {float32: [%d, 6], persistable: true, dist: {mesh: 0, dims_mapping: [-1, -1]}}\n"
    "    w: {float32: [6, 16], persistable: true, dist: {mesh: 0, dims_mapping: [-1, 1]}}\n"
    "    ids: {int64: [4, %d], dist: {mesh: 0, dims_mapping: [-1, 0]}}\n"
    "    labels: {int64: [4, %d, 1], dist: {mesh: 0, dims_mapping: [-1, 0, -1]}}\n"
    "    found: {float32: [4, %d, 6]}\n    x: {float32: [4, %d, 6]}\n    y: {float32: [4, %d, 16]}\n"
    "    p: {float32: [4, %d, 16]}\n    each: {float32: [4, %d, 1]}\n  ops:\n"
    "  - {lookup_table_v2: {W: table, Ids: ids}, out: {Out: found}}\n"
    "  - {elementwise_add: {X: found, \"Y\": places}, out: {Out: x}, attrs: {axis: -1}}\n"
    "  - {matmul_v2: {X: x, \"Y\": w}, out: {Out: y}}\n"
    "  - {softmax_with_cross_entropy: {Logits: y, Label: labels}, out: {Softmax: p, Loss: each}, attrs: {axis: -1}}\n";

typedef struct sizes {
    int sp, mp, rows, length;
    size_t runs; /* of the pass list */
} sizes;

static weft_context *context;

static weft_program *make(const sizes *s) {
    char ids[200] = "", bytes[4096];
    int n = s->length;
    for (int i = 0; i < s->sp * s->mp; i++) snprintf(ids + strlen(ids), 16, "%s%d", i ? ", " : "", i);
    int nbytes = snprintf(bytes, sizeof bytes, pattern, s->sp, s->mp, ids, s->rows, n, n, n, n, n, n, n, n);
    weft_program *p = NULL;
    must(weft_program_parse(context, WEFT_FORM_YAML, bytes, (size_t)nbytes, NULL, 0, "test", &p));
    return p;
}

/* What the list makes of it for that rank alone; `rank` is what its program says. */
static weft_program *make_alone(const weft_pass_list *list, const sizes *s, size_t i, int64_t rank) {
    weft_program *p = make(s);
    must(weft_pass_list_run_rank(list, p, (int64_t)i, NULL));
    p->rank = rank;
    return p;
}

static void compare(const weft_pass_list *list, const sizes *s, const weft_rank_programs *all, size_t i) {
    const char *path = in_folder("rank.yaml");
    must(weft_rank_programs_save(all, i, path));
    weft_program *saved = NULL, *given = weft_rank_programs_at(all, i);
    must(weft_program_load(context, path, NULL, &saved));
    weft_program *alone = make_alone(list, s, i, given->rank);
    cr_expect(weft_program_equal(alone, given), "rank %zu of %d x %d", i, s->sp, s->mp);
    must(weft_program_save(alone, path));
    weft_program *again = NULL;
    must(weft_program_load(context, path, NULL, &again));
    cr_expect(weft_program_equal(again, saved), "rank %zu of %d x %d, from its file", i, s->sp, s->mp);
    weft_program_destroy(again);
    weft_program_destroy(alone);
    weft_program_destroy(saved);
}

static void try_list(const char *words, const sizes *s, size_t runs) {
    weft_pass_list *list = NULL;
    weft_rank_programs *all = NULL;
    must(weft_pass_list_parse(context, words, strlen(words), "test", &list));
    weft_program *serial = make(s);
    must(weft_pass_list_run_ranks(list, serial, &all, NULL));
    cr_expect_eq(weft_rank_programs_made(all), runs, "%s: %zu runs for %d x %d ranks of %d rows, %d places", words,
                 weft_rank_programs_made(all), s->sp, s->mp, s->rows, s->length);
    cr_assert_eq(weft_rank_programs_count(all), (size_t)(s->sp * s->mp));
    for (size_t i = weft_rank_programs_count(all); i-- > 0;) compare(list, s, all, i); /* saved before they are made */
    weft_rank_programs_destroy(all);
    weft_program_destroy(serial);
    weft_pass_list_destroy(list);
}

Test(passes_spmd_places, ranks_share_what_differs_in_attrs) {
    /* whole parts; a last one that is shorter: of the table, of the sequence, of both */
    static const sizes shapes[] = {
        {2, 2, 8, 4, 1}, {4, 4, 12, 8, 1}, {3, 4, 15, 6, 2}, {4, 2, 8, 7, 2}, {3, 4, 15, 8, 4}};
    folder_begin();
    must(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        try_list("spmd_propagate, spmd_partition", &shapes[i], shapes[i].runs);
        try_list("spmd_expand", &shapes[i], shapes[i].runs);
    }
    weft_context_destroy(context);
    folder_end();
}

Test(passes_spmd_places, passes_behind_it_share_if_they_keep_places) {
    static const sizes s = {2, 3, 12, 4, 2};
    folder_begin();
    must(weft_context_create(NULL, &context));
    try_list("spmd_expand, prune_grad_scale", &s, s.runs);
    try_list("spmd_expand, insert_comm_wait", &s, 6);
    weft_context_destroy(context);
    folder_end();
}
