/* passes_planned_buckets_refused.c: bucket_mb: auto where it cannot plan, in words. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/must.h"
#include "weft/pass.h"

static weft_context *context;

static void set_up(void) {
    must(weft_context_create(NULL, &context));
}
static void tear_down(void) {
    weft_context_destroy(context);
}
TestSuite(passes_planned_buckets_refused, .init = set_up, .fini = tear_down);

static void expect_refusal(const char *list_text, const char *words) {
    weft_pass_list *list;
    weft_program *p;
    must(weft_program_load(context, "tests/golden/full_list/in.yaml", NULL, &p));
    must(weft_pass_list_parse(context, list_text, strlen(list_text), "list", &list));
    weft_status status = weft_pass_list_run(list, p, NULL);
    cr_expect(status && strstr(weft_status_message(status), words), "no \"%s\" in \"%s\"", words,
              status ? weft_status_message(status) : "");
    weft_status_free(status);
    weft_pass_list_destroy(list);
    weft_program_destroy(p);
}

Test(passes_planned_buckets_refused, refuses_what_it_cannot_plan) {
    expect_refusal("data_parallel: {ranks: 2}, coalesce_grads: {bucket_mb: auto}",
                   "is on the compute stream: let overlap_comm");
    expect_refusal("data_parallel: {ranks: 2}, overlap_comm, coalesce_grads: {bucket_mb: auto, limit: cap}",
                   "auto decides on every bucket: expected no limit");
    expect_refusal("data_parallel: {ranks: 2}, overlap_comm, coalesce_grads: {bucket_mb: 3, cluster: x}",
                   "only bucket_mb: auto asks for one");
    expect_refusal("data_parallel: {ranks: 2}, overlap_comm, coalesce_grads: {bucket_mb: auto, cluster: /none.yaml}",
                   "cannot open");
    expect_refusal("data_parallel: {ranks: 2}, fuse_allreduce_buckets: {bucket_mb: auto}",
                   "is on the compute stream: only asynchronous all-reduces can be planned");
    expect_refusal("data_parallel: {ranks: 2}, fuse_allreduce_buckets: {bucket_mb: auto, last_bucket_mb: 1}",
                   "auto decides on every bucket: expected no last_bucket_mb");
    expect_refusal("data_parallel: {ranks: 2}, fuse_allreduce_buckets: {times: x}",
                   "times: only bucket_mb: auto asks for one");
}

Test(passes_planned_buckets_refused, a_size_is_a_number_or_auto) {
    weft_pass_list *list;
    const char *text = "coalesce_grads: {bucket_mb: large}";
    weft_status status = weft_pass_list_parse(context, text, strlen(text), "list", &list);
    cr_expect(status && strstr(weft_status_message(status), "expected a number or auto, found \"large\""), "%s",
              status ? weft_status_message(status) : "");
    weft_status_free(status);
}
