/* plan_buckets.c: what buckets cost in memory. Recorded backward graphs are planned as they are and with their
 * all-reduces fused in each mode, in buckets of several sizes. Written in place, buckets add to the peak no more than
 * their bytes that are not written yet, and padding; copied together, no more than the largest of them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/fixtures.h"
#include "tests/support/must.h"
#include "weft/pass.h"
#include "weft/plan.h"

static void summarize(const weft_program *p, weft_plan_summary *out) {
    weft_plan *plan;
    must(weft_plan_create(p, NULL, &plan));
    weft_plan_summarize(plan, out);
    weft_plan_destroy(plan);
}

/* Bytes of gradients that are in buckets now. */
static int64_t fuse(weft_context *context, weft_program *p, const char *mode, double mb) {
    char text[200];
    weft_pass_list *list;
    weft_report *report;
    snprintf(text, sizeof text, "fuse_allreduce_buckets: {mode: %s, bucket_mb: %g, first_bucket_mb: %g}", mode, mb, mb);
    must(weft_pass_list_parse(context, text, strlen(text), "test", &list));
    must(weft_pass_list_run(list, p, &report));
    int64_t nbytes = weft_report_count(report, 0, "bucket bytes");
    weft_report_destroy(report);
    weft_pass_list_destroy(list);
    return nbytes;
}

/* A bucket that is kept because it is fetched begins at a cache line. */
static int64_t padding_of(const weft_plan_summary *s, int64_t nbytes) {
    return s->bucket_nbytes - nbytes + 64 * (int64_t)s->nbuckets;
}

static void check_mode(weft_context *context, const weft_program *unfused, const char *path, const char *mode,
                       double mb) {
    weft_program *p;
    weft_plan_summary before, after;
    summarize(unfused, &before);
    must(weft_program_clone(unfused, &p));
    int64_t nbytes = fuse(context, p, mode, mb);
    summarize(p, &after);
    weft_program_destroy(p);
    bool has_buffers = strcmp(mode, "coalesced") != 0, in_place = strcmp(mode, "in_place") == 0;
    int64_t padding = has_buffers ? padding_of(&after, nbytes) : 0;
    int64_t added = in_place ? after.ahead_nbytes + padding : after.largest_bucket_nbytes;
    cr_assert(!has_buffers == !after.nbuckets, "%s: %zu buckets", path, after.nbuckets);
    cr_expect_leq(after.persistent_nbytes, before.persistent_nbytes + padding, "%s, %s, %g MiB", path, mode, mb);
    cr_expect_leq(after.live_nbytes, after.written_nbytes + after.ahead_nbytes, "%s, %s, %g MiB", path, mode, mb);
    cr_expect_leq(after.ahead_nbytes, in_place ? after.bucket_nbytes : after.largest_bucket_nbytes, "%s, %s, %g MiB",
                  path, mode, mb);
    if (has_buffers)
        cr_expect_leq(after.live_nbytes, before.live_nbytes + added,
                      "%s, %s, %g MiB: %lld live, %lld before, %lld more", path, mode, mb, (long long)after.live_nbytes,
                      (long long)before.live_nbytes, (long long)added);
}

Test(plan_buckets, add_what_is_not_written_yet) {
    static const char *const names[] = {"mlp6.w2", "mlp6mid.w2", "gpt.w2", "mlp6.w2.accum", "mlp6.w2.accum_inline"};
    static const char *const modes[] = {"in_place", "concat", "coalesced"};
    static const double sizes[] = {0.001, 0.004, 0.02, 0.5, 25};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char relative[80], path[400];
        weft_context *context;
        weft_program *p;
        snprintf(relative, sizeof relative, "torch/ddp/%s/before.fx.json", names[i]);
        if (!fixture_path(path, sizeof path, relative)) continue;
        must(weft_context_create(NULL, &context));
        must(weft_program_load(context, path, NULL, &p));
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) check_mode(context, p, path, modes[m], sizes[s]);
        weft_program_destroy(p);
        weft_context_destroy(context);
    }
}

/* --- numbers that can be counted by hand -------------------------------------------------------------------------- */

#define HEAD                                                                                                           \
    "weft: 1\nblocks:\n- vars:\n    a: {float32: [4, 8]}\n    b: {float32: [4, 8]}\n    c: {float32: [4, 8]}\n"        \
    "    d: {float32: [4, 8]}\n    e: {float32: [4, 8]}\n    f: {float32: [-1]}\n    o: {kind: fetch_list}\n  ops:\n"
#define OP(type, in, out, attrs) "  - {" type ": {" in "}, out: {" out "}, attrs: {" attrs "}}\n"
#define RELU(x, y) OP("relu", "X: [" x "]", "Out: [" y "]", "")
#define FETCH(x, col) OP("fetch", "X: [" x "]", "Out: [o]", "col: " col)
#define BUCKET(in, out, copy)                                                                                          \
    OP("coalesce_tensor", "Input: " in, "Output: " out ", FusedOutput: [f]",                                           \
       "dtype: 5, use_align: false, copy_data: " copy)
#define REDUCE(x) OP("c_allreduce_sum", "X: [" x "]", "Out: [" x "]", "ring_id: 0")

static const struct {
    const char *title, *program;
    size_t ninstructions, nbuckets;
    int64_t live, ahead, written, persistent;
} cases[] = {
    {"a bucket is live from its first part on",
     HEAD BUCKET("[b, c]", "[b, c]", "false") RELU("a", "b") RELU("a", "c") REDUCE("f") RELU("c", "d"), 4, 1, 384, 256,
     384, 128},
    {"what is copied into it is live twice",
     HEAD RELU("a", "b") RELU("a", "c") BUCKET("[b, c]", "[d, e]", "true") REDUCE("f") RELU("e", "b"), 5, 1, 512, 256,
     384, 128},
    {"a result with slices is no bucket",
     HEAD RELU("a", "b") REDUCE("b") OP("aten_slice", "self: [b]", "out: [c]", "start: 0, end: 4") RELU("c", "d"), 3, 0,
     128, 0, 128, 128},
    {"a bucket that is fetched is kept, not copied",
     HEAD BUCKET("[b, c]", "[b, c]", "false") RELU("a", "b") RELU("a", "c") REDUCE("f") FETCH("b", "0") FETCH("c", "1"),
     3, 1, 0, 0, 0, 384},
    {"so it is for half of it",
     HEAD BUCKET("[b, c]", "[b, c]", "false") RELU("a", "b") RELU("a", "c") REDUCE("f") FETCH("c", "0"), 3, 1, 0, 0, 0,
     384},
    {"but not where a part changes later",
     HEAD BUCKET("[b, c]", "[b, c]", "false") RELU("a", "b") RELU("a", "c") REDUCE("f") FETCH("b", "0") RELU("a", "b"),
     5, 1, 256, 256, 256, 256},
};

Test(plan_buckets, are_counted) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_context *context;
        weft_program *p;
        weft_plan_summary s;
        must(weft_context_create(NULL, &context));
        must(weft_program_parse(context, WEFT_FORM_YAML, cases[i].program, strlen(cases[i].program), NULL, 0, "test",
                                &p));
        summarize(p, &s);
        cr_expect(s.ninstructions == cases[i].ninstructions && s.nbuckets == cases[i].nbuckets &&
                      s.live_nbytes == cases[i].live && s.ahead_nbytes == cases[i].ahead &&
                      s.written_nbytes == cases[i].written && s.persistent_nbytes == cases[i].persistent,
                  "%s: %zu instructions, %zu buckets, live %lld, ahead %lld, written %lld, persistent %lld",
                  cases[i].title, s.ninstructions, s.nbuckets, (long long)s.live_nbytes, (long long)s.ahead_nbytes,
                  (long long)s.written_nbytes, (long long)s.persistent_nbytes);
        weft_program_destroy(p);
        weft_context_destroy(context);
    }
}
