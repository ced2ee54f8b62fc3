/* plan_feeds.c: feeds and the plans of all ranks, without an executor: steps by shape, a rank's part, who shares a plan. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/must.h"
#include "weft/feeds.h"

/* x has an open batch; n is a persistable of a whole program. */
static const char text[] = "weft: 1\nblocks:\n- vars:\n    x: {float32: [-1, 4]}\n    y: {float32: [-1, 4]}\n"
                           "    n: {float32: [6], persistable: true}\n  ops:\n"
                           "  - {scale: {X: x}, out: {Out: \"y\"}, attrs: {scale: 2.0}}\n";

typedef struct world {
    weft_context *context;
    weft_program *program;
    weft_tensors *fed;
} world;

static void open_world(world *w) {
    must(weft_context_create(NULL, &w->context));
    must(weft_program_parse(w->context, WEFT_FORM_YAML, text, sizeof text - 1, NULL, 0, "p.yaml", &w->program));
    must(weft_tensors_create(w->context, &w->fed));
}

static void close_world(world *w) {
    weft_tensors_destroy(w->fed);
    weft_program_destroy(w->program);
    weft_context_destroy(w->context);
}

static void feed(world *w, const char *key, int64_t rows) {
    weft_tensor *t;
    must(weft_tensors_add(w->fed, key, WEFT_FP32, 2, (const int64_t[]){rows, 4}, &t));
}

static weft_status make(world *w, int nranks, size_t first, size_t nsteps, weft_feeds **out) {
    weft_feeds_options o = {
        WEFT_FEEDS_OPTIONS_INIT, .programs = (const weft_program *const *)&w->program, .nprograms = 1,
        .nranks = nranks,        .sets = (const weft_tensors *const *)&w->fed,         .first_step = first,
        .nsteps = nsteps};
    return weft_feeds_create(w->context, &o, out);
}

Test(plan_feeds, sorts_steps_by_shape_and_cuts_rows) {
    world w;
    weft_feeds *feeds;
    open_world(&w);
    feed(&w, "0/x", 4);
    feed(&w, "1/x", 8);
    feed(&w, "2/x", 4);
    must(make(&w, 2, 0, 0, &feeds));
    cr_expect_eq(weft_feeds_nsteps(feeds), 3);
    cr_assert_eq(weft_feeds_nshapes(feeds), 2);
    cr_expect_eq(weft_feeds_shape_of(feeds, 0), 0);
    cr_expect_eq(weft_feeds_shape_of(feeds, 1), 1);
    cr_expect_eq(weft_feeds_shape_of(feeds, 2), 0);
    for (int r = 0; r < 2; r++) {
        const weft_feed_types *t = &weft_feeds_types(feeds, 1)[r];
        cr_assert_eq(t->count, 1);
        cr_expect_str_eq(t->items[0].name, "x");
        cr_expect_eq(t->items[0].dims[0], 4, "half of 8 rows");
    }
    weft_feeds_destroy(feeds);
    must(make(&w, 2, 1, 0, &feeds));
    cr_expect_eq(weft_feeds_nsteps(feeds), 2);
    cr_expect_eq(weft_feeds_shape_of(feeds, 1), 0, "numbered from the first step");
    weft_feeds_destroy(feeds);
    weft_status status = make(&w, 3, 0, 0, &feeds);
    cr_expect(strstr(weft_status_message(status), "4 rows cannot be split over 3 ranks"));
    weft_status_free(status);
    status = make(&w, 2, 0, 4, &feeds);
    cr_expect(strstr(weft_status_message(status), "no value for step 3"), "%s", weft_status_message(status));
    weft_status_free(status);
    status = make(&w, 0, 3, 0, &feeds);
    cr_expect(strstr(weft_status_message(status), "there is none from 3 on"), "%s", weft_status_message(status));
    weft_status_free(status);
    close_world(&w);
}

static size_t count_plans(world *w, const weft_feed_types *types, size_t ntypes, weft_code expected) {
    weft_plans_options o = {WEFT_PLANS_OPTIONS_INIT,
                            .programs = (const weft_program *const *)&w->program,
                            .nprograms = 1,
                            .nranks = 2,
                            .feeds = types,
                            .nfeeds = ntypes,
                            .fetches = (const char *const[]){"y", "not there"},
                            .nfetches = 2};
    weft_plan **plans = NULL;
    size_t nplans = 0;
    weft_status status = weft_plans_create(w->context, &o, &plans, &nplans);
    cr_expect_eq(weft_status_code(status), expected, "%s", weft_status_message(status));
    for (size_t p = 0; p < nplans; p++) {
        bool keeps_y = false;
        for (size_t v = 0; v < weft_plan_nvalues(plans[p]); v++) {
            weft_plan_value value;
            weft_plan_value_at(plans[p], v, &value);
            keeps_y |= strcmp(value.name, "y") == 0 && value.is_fetch;
        }
        cr_expect(keeps_y);
    }
    weft_plans_destroy(w->context, plans, nplans);
    weft_status_free(status);
    return nplans;
}

Test(plan_feeds, ranks_that_are_fed_alike_share_a_plan) {
    static const weft_feed_type four = {"x", WEFT_FP32, 2, {4, 4}, NULL}, two = {"x", WEFT_FP32, 2, {2, 4}, NULL};
    const weft_feed_types alike[] = {{&four, 1}, {&four, 1}}, apart[] = {{&four, 1}, {&two, 1}};
    world w;
    open_world(&w);
    cr_expect_eq(count_plans(&w, alike, 1, WEFT_OK), 1);
    cr_expect_eq(count_plans(&w, alike, 2, WEFT_OK), 1);
    cr_expect_eq(count_plans(&w, apart, 2, WEFT_OK), 2);
    count_plans(&w, NULL, 0, WEFT_INVALID_PROGRAM); /* an extent of -1 that nobody feeds */
    const weft_feed_types three[] = {{&four, 1}, {&four, 1}, {&four, 1}};
    count_plans(&w, three, 3, WEFT_INVALID_ARGUMENT);
    close_world(&w);
}
