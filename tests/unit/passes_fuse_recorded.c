/* fuse_allreduce_buckets on recorded graphs: the demonstrations of the original's defects, and its partitions. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "program/ir.h"
#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/pass.h"

/* How many all-reduces are left of a graph; -1: the fixture is not there. */
static int reduces_left(const char *graph, const char *options) {
    char path[512], relative[128], list_text[160];
    snprintf(relative, sizeof relative, "torch/ddp/%s.fx.json", graph);
    if (!fixture_path(path, sizeof path, relative)) return -1;
    weft_context *context;
    weft_program *p;
    weft_pass_list *list;
    int count = 0;
    snprintf(list_text, sizeof list_text, "fuse_allreduce_buckets: {%s}", options);
    must(weft_context_create(NULL, &context));
    must(weft_program_load(context, path, NULL, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "test", &list));
    must(weft_pass_list_run(list, p, NULL));
    FOR_EACH_OP(op, p->blocks[0]) count += op_is(op, "all_reduce") || op_is(op, "all_reduce_coalesced");
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
    weft_context_destroy(context);
    return count;
}

Test(passes_fuse_recorded, each_demonstrated_defect_is_done_right) {
    static const struct {
        const char *name;
        int nreduces;
    } cases[] = {{"bugs/collective_without_user.before", 1},
                 {"bugs/copy_then_read.before", 2},
                 {"bugs/div_reused.before", 1},
                 {"bugs/early_copy.before", 1},
                 {"bugs/mixed_dtype.before", 2},
                 {"bugs/mixed_reduce_op.before", 2},
                 {"bugs/same_div_twice.before", 1},
                 {"bugs/two_groups.before", 2},
                 {"bugs/unequal_divisor.before", 2},
                 {"bugs/wait_without_user.before", 1},
                 {"neg.post_division/before", 1},
                 {"neg.avg_op/before", 1},
                 {"neg.detach_user/before", 1},
                 {"neg.multi_user_wait/before", 1},
                 {"neg.mixed_reduce_op/before", 2},
                 {"neg.unequal_divisor/before", 2}};
    static const char *const modes[] = {"mode: concat", "mode: coalesced", "mode: in_place"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
            int found = reduces_left(cases[i].name, modes[m]);
            cr_assert(found == -1 || found == cases[i].nreduces, "%s, %s: %d all-reduces", cases[i].name, modes[m],
                      found);
        }
    }
}

/* The manifest's counts at the same thresholds; mixed.w2 has two element types, which the original counts as one. */
Test(passes_fuse_recorded, as_many_buckets_as_the_original) {
    static const struct {
        const char *name, *options;
        int nreduces;
    } cases[] = {
        {"mlp6.w2/before", "first_bucket_mb: 0.00390625, bucket_mb: 0.00390625", 5},
        {"mlp6.w2/before", "first_bucket_mb: 0.00390625, bucket_mb: 0.015625", 5},
        {"mlp6.w2.accum/before", "bucket_mb: 25", 1},
        {"mlp6.w2.accum_inline/before", "bucket_mb: 25", 1},
        {"mlp4x2000.w2/before", "bucket_mb: 25", 3},
        {"unused.w2/before", "bucket_mb: 25", 1},
        {"mixed.w2/before", "bucket_mb: 25", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int found = reduces_left(cases[i].name, cases[i].options);
        cr_assert(found == -1 || found == cases[i].nreduces, "%s, %s: %d all-reduces", cases[i].name, cases[i].options,
                  found);
    }
}
