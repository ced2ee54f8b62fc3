/* plan_cache.c: a plan per shape of what is fed: found again, made, given up; one state under all of them. A plain
 * main, because ranks are threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/plain.h"
#include "weft/plan_cache.h"

static long nlive;

static void *counting_resize(void *user, void *ptr, size_t old_nbytes, size_t new_nbytes) {
    (void)user;
    nlive += (long)new_nbytes - (ptr ? (long)old_nbytes : 0);
    if (new_nbytes) return realloc(ptr, new_nbytes);
    free(ptr);
    return NULL;
}

/* sum += s, where s = sum over x * 2; n counts steps. */
static const char program_text[] =
    "weft: 1\n"
    "blocks:\n"
    "- idx: 0\n"
    "  vars:\n"
    "    x: {float32: [-1, 4]}\n"
    "    y: {float32: [-1, 4]}\n"
    "    s: {float32: []}\n"
    "    sum: {float32: [], persistable: true}\n"
    "    \"n\": {float32: [1], persistable: true}\n"
    "  ops:\n"
    "  - {scale: {X: [x]}, out: {Out: [\"y\"]}, attrs: {scale: 2.0}}\n"
    "  - {reduce_sum: {X: [\"y\"]}, out: {Out: [s]}, attrs: {reduce_all: true}}\n"
    "  - {elementwise_add: {X: [sum], \"Y\": [s]}, out: {Out: [sum]}, attrs: {axis: -1}}\n"
    "  - {increment: {X: [\"n\"]}, out: {Out: [\"n\"]}, attrs: {step: 1.0}}\n";

typedef struct fixture {
    weft_context *context;
    weft_program *program;
    weft_plan_cache *cache;
    float total; /* what `sum` should be */
} fixture;

static void open_fixture(fixture *f, int nranks, size_t capacity, int64_t max_nbytes) {
    *f = (fixture){0};
    weft_context_options options = {WEFT_CONTEXT_OPTIONS_INIT, .allocator = {counting_resize, NULL}};
    must(weft_context_create(&options, &f->context));
    must(weft_program_parse(f->context, WEFT_FORM_YAML, program_text, strlen(program_text), NULL, 0, "program",
                            &f->program));
    static const char *const fetches[] = {"s"};
    weft_plan_cache_options o = {WEFT_PLAN_CACHE_OPTIONS_INIT,
                                 .programs = (const weft_program *const *)&f->program,
                                 .nprograms = 1,
                                 .nranks = nranks,
                                 .fetches = fetches,
                                 .nfetches = 1,
                                 .capacity = capacity,
                                 .max_nbytes = max_nbytes};
    must(weft_plan_cache_create(f->context, &o, &f->cache));
}

static void close_fixture(fixture *f) {
    weft_plan_cache_destroy(f->cache);
    weft_program_destroy(f->program);
    weft_context_destroy(f->context);
    check(nlive == 0, "everything was freed");
    nlive = 0;
}

static weft_executor *get(fixture *f, int64_t rows) {
    weft_feed_type type = {.name = "x", .dtype = WEFT_FP32, .ndim = 2, .dims = {rows, 4}};
    weft_feed_types feeds = {&type, 1};
    weft_executor *x = NULL;
    must(weft_plan_cache_get(f->cache, &feeds, 1, &x));
    return x;
}

/* A step with rows of ones: s is 8 a row, on every rank. */
static weft_executor *step(fixture *f, int nranks, int64_t rows) {
    weft_executor *x = get(f, rows);
    float *ones = malloc((size_t)rows * 4 * sizeof *ones);
    for (int64_t i = 0; i < rows * 4; i++) ones[i] = 1;
    weft_tensor fed = {.dtype = WEFT_FP32, .ndim = 2, .dims = {rows, 4}, .data = ones, .nbytes = (size_t)rows * 16};
    for (int r = 0; r < nranks; r++) must(weft_executor_set(x, r, "x", &fed));
    free(ones);
    must(weft_executor_run(x));
    f->total += (float)(8 * rows);
    for (int r = 0; r < nranks; r++) {
        weft_tensor s, sum;
        must(weft_executor_get(x, r, "s", &s));
        must(weft_executor_get(x, r, "sum", &sum));
        check(s.data && *(float *)s.data == (float)(8 * rows), "what this shape fetches");
        check(sum.data && *(float *)sum.data == f->total, "what lives across shapes");
    }
    return x;
}

static weft_plan_cache_stats stats_of(const fixture *f) {
    weft_plan_cache_stats stats;
    weft_plan_cache_get_stats(f->cache, &stats);
    return stats;
}

static void test_least_recently_used_goes(void) {
    fixture f;
    open_fixture(&f, 2, 2, 0);
    weft_executor *two = step(&f, 2, 2), *three = step(&f, 2, 3);
    check(step(&f, 2, 2) == two && step(&f, 2, 3) == three && step(&f, 2, 2) == two, "found again");
    weft_plan_cache_stats s = stats_of(&f);
    check(s.nhits == 3 && s.nmisses == 2 && s.nevictions == 0 && s.nplans == 2, "hits and misses");
    step(&f, 2, 5); /* 3 goes */
    check(get(&f, 2) == two, "the one used last stays");
    s = stats_of(&f);
    check(s.nevictions == 1 && s.nplans == 2 && s.nmisses == 3, "one went");
    step(&f, 2, 3);
    step(&f, 2, 5);
    s = stats_of(&f);
    check(s.nmisses == 5 && s.nevictions == 3, "what went is planned again");
    weft_tensor n;
    must(weft_executor_get(step(&f, 2, 2), 1, "n", &n));
    check(*(float *)n.data == 9, "n counted every step");
    close_fixture(&f);
}

/* Memory after many shapes is that after a few. */
static void test_memory_is_bounded(void) {
    fixture f;
    open_fixture(&f, 1, 3, 0);
    for (int64_t rows = 65; rows < 68; rows++) step(&f, 1, rows);
    long before = nlive;
    int64_t state = stats_of(&f).state_nbytes;
    for (int64_t rows = 2; rows < 64; rows++) step(&f, 1, rows);
    check(nlive <= before, "memory does not grow with the number of shapes");
    check(stats_of(&f).state_nbytes == state && state > 0, "nor does the state");
    before = nlive;
    for (int i = 0; i < 20; i++) get(&f, 63 - i % 3);
    check(nlive == before, "a hit allocates nothing");
    close_fixture(&f);
}

static void test_bytes_are_bounded(void) {
    fixture f;
    open_fixture(&f, 1, 8, 1);
    step(&f, 1, 2);
    step(&f, 1, 3);
    weft_plan_cache_stats s = stats_of(&f);
    check(s.nplans == 1 && s.nevictions == 1 && s.nbytes > 1, "only the one in use is larger than the limit");
    close_fixture(&f);
    open_fixture(&f, 1, 8, INT64_C(1) << 40);
    for (int64_t rows = 1; rows < 9; rows++) step(&f, 1, rows);
    check(stats_of(&f).nplans == 8, "eight fit");
    close_fixture(&f);
}

/* A shape that cannot be planned takes nothing away. */
static void test_a_failed_call(void) {
    fixture f;
    open_fixture(&f, 1, 1, 0);
    weft_executor *two = step(&f, 1, 2), *none;
    weft_feed_type bad = {.name = "nobody", .dtype = WEFT_FP32, .ndim = 1, .dims = {1}};
    weft_feed_types feeds = {&bad, 1};
    weft_status status = weft_plan_cache_get(f.cache, &feeds, 1, &none);
    check(weft_status_code(status) == WEFT_NOT_FOUND, "an unknown feed is an error");
    weft_status_free(status);
    check(step(&f, 1, 2) == two, "the executor of before is still there");
    status = weft_plan_cache_get(f.cache, &feeds, 3, &none);
    check(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "types of more ranks than there are");
    weft_status_free(status);
    close_fixture(&f);
}

int main(void) {
    test_least_recently_used_goes();
    test_memory_is_bounded();
    test_bytes_are_bounded();
    test_a_failed_call();
    return report_checks();
}
