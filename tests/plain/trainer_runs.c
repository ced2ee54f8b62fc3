/* trainer_runs.c: the trainer on small programs: parts of feeds and parameters, steps, what comes back joined. A plain
 * main, because ranks are threads. */
#include "tests/support/small_trainer.h"

static bool floats_are(const weft_tensor *t, size_t count, const float *want) {
    return t && t->data && t->nbytes == count * 4 && memcmp(t->data, want, count * 4) == 0;
}

static void test_rows_are_split(void) {
    fixture f;
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    fetch(&f, "y");
    fetch(&f, "mean");
    must(start(&f));
    check(weft_trainer_nsteps(f.trainer) == 1 && weft_trainer_nranks(f.trainer) == 2, "steps and ranks");
    must(weft_trainer_step(f.trainer, 0));
    static const float want[2][6] = {{0, 2, 6, 3, 8, 15}, {6, 14, 24, 9, 20, 33}};
    static const double means[2] = {34 / 6.0, 106 / 6.0};
    for (int r = 0; r < 2; r++) {
        weft_tensor y;
        double mean;
        must(weft_trainer_fetch(f.trainer, r, 0, &y));
        check(floats_are(&y, 6, want[r]) && y.dims[0] == 2, "y of rank %d", r);
        check(!weft_trainer_fetch_scalar(f.trainer, r, 0, &mean), "y is no number");
        check(weft_trainer_fetch_scalar(f.trainer, r, 1, &mean) && mean - means[r] < 1e-5 && means[r] - mean < 1e-5,
              "mean of rank %d is %g", r, mean);
    }
    close_fixture(&f);
}

static void test_results(void) {
    fixture f;
    open_fixture(&f, -1);
    put(f.feeds[0], "0/x", WEFT_FP32, 4, 3, 0);
    put(f.feeds[0], "1/x", WEFT_FP32, 4, 3, 100);
    put(f.feeds[0], "n", WEFT_FP32, 1, 0, 5); /* overrides the parameter, every step, whole */
    fetch(&f, "y");
    must(start(&f));
    check(weft_trainer_nsteps(f.trainer) == 2, "steps in the feed");
    for (size_t s = 0; s < 2; s++) must(weft_trainer_step(f.trainer, s));
    weft_tensors *all, *one;
    must(weft_trainer_result(f.trainer, &all));
    must(weft_trainer_rank_result(f.trainer, 1, &one));
    static const float half[] = {40, 44, 48, 52, 56, 60}, n = 10, kept = 77, y0[] = {100, 202, 306, 103, 208, 315};
    static const float y1[] = {106, 214, 324, 109, 220, 333};
    check(floats_are(weft_tensors_find(all, "half"), 6, half), "a sharded parameter is joined");
    check(floats_are(weft_tensors_find(all, "n"), 1, &n), "a fed persistable");
    check(floats_are(weft_tensors_find(all, "kept"), 1, &kept), "a persistable that nobody touches");
    check(floats_are(weft_tensors_find(all, "y"), 6, y0), "a fetch without dist attr is rank 0's");
    check(weft_tensors_count(all) == 5, "%zu results", weft_tensors_count(all));
    check(floats_are(weft_tensors_find(one, "half"), 3, half + 3), "a rank's own part");
    check(floats_are(weft_tensors_find(one, "y"), 6, y1), "a rank's own fetch");
    weft_tensors_destroy(all);
    weft_tensors_destroy(one);
    weft_status status = weft_trainer_step(f.trainer, 2);
    check(weft_status_code(status) == WEFT_INVALID_ARGUMENT, "a step too many");
    weft_status_free(status);
    close_fixture(&f);
}

static void test_sharded_fetch_is_joined(void) {
    fixture f;
    open_fixture(&f, -1);
    shard(f.programs[0], weft_block_find_var(weft_program_block(f.programs[0], 0), "y"));
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    fetch(&f, "y");
    must(start(&f));
    must(weft_trainer_step(f.trainer, 0));
    weft_tensors *all;
    must(weft_trainer_result(f.trainer, &all));
    static const float y[] = {0, 2, 6, 3, 8, 15, 6, 14, 24, 9, 20, 33};
    check(floats_are(weft_tensors_find(all, "y"), 12, y), "a sharded fetch");
    weft_tensors_destroy(all);
    close_fixture(&f);
}

static void test_feeds_per_rank(void) {
    fixture f;
    open_fixture(&f, 2);
    put(f.feeds[0], "x", WEFT_FP32, 2, 3, 0);
    put(f.feeds[1], "x", WEFT_FP32, 2, 3, 50);
    f.options.feeds_per_rank = true;
    fetch(&f, "x");
    must(start(&f));
    must(weft_trainer_step(f.trainer, 0));
    weft_tensor x;
    for (int r = 0; r < 2; r++) {
        must(weft_trainer_fetch(f.trainer, r, 0, &x));
        check(x.data && ((float *)x.data)[0] == (r ? 50 : 0), "x of rank %d", r);
    }
    close_fixture(&f);
}

/* Rank 0 declares n, rank 1 keeps it up to date. */
static void test_lowest_rank_that_uses(void) {
    fixture f;
    open_fixture(&f, -1);
    f.programs[1] = small_program(f.context, -1);
    f.options.nprograms = 2;
    weft_op *op = weft_block_first_op(weft_program_block(f.programs[0], 0));
    for (int i = 0; i < 2; i++) op = weft_op_next(op); /* the one that doubles n */
    weft_op_remove(op);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    must(start(&f));
    must(weft_trainer_step(f.trainer, 0));
    weft_tensors *all;
    must(weft_trainer_result(f.trainer, &all));
    float n = 2;
    check(floats_are(weft_tensors_find(all, "n"), 1, &n), "n is rank 1's");
    weft_tensors_destroy(all);
    close_fixture(&f);
}

static void test_fetch_ops(void) {
    fixture f;
    open_fixture(&f, -1);
    weft_program *p = f.programs[0];
    weft_block *b = weft_program_block(p, 0);
    weft_var *list = add_var(p, "fetch", 0, NULL, true);
    list->kind = WEFT_FETCH_LIST;
    list->has_tensor = false;
    must(weft_op_set_attr_int(add_op(p, "fetch", weft_block_find_var(b, "n"), NULL, list), "col", 1));
    must(weft_op_set_attr_int(add_op(p, "fetch", weft_block_find_var(b, "mean"), NULL, list), "col", 0));
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    must(start(&f));
    must(weft_trainer_step(f.trainer, 0));
    double value = 0;
    check(weft_trainer_nfetches(f.trainer) == 2 && strcmp(weft_trainer_fetch_name(f.trainer, 0), "fetch.0") == 0 &&
              strcmp(weft_trainer_fetch_name(f.trainer, 1), "fetch.1") == 0,
          "columns");
    check(weft_trainer_fetch_scalar(f.trainer, 1, 1, &value) && value == 2, "fetch.1 is %g", value);
    close_fixture(&f);
}

/* A step's shape has its plan; n doubles through all of them. */
static void test_shapes_change(void) {
    static const int64_t rows[] = {4, 2, 4, 8, 2};
    fixture f;
    open_fixture(&f, -1);
    for (int s = 0; s < 5; s++) {
        char key[16];
        snprintf(key, sizeof key, "%d/x", s);
        put(f.feeds[0], key, WEFT_FP32, rows[s], 3, (float)s);
    }
    put(f.params, "n", WEFT_FP32, 1, 0, 1);
    fetch(&f, "x");
    f.options.plan_capacity = 2;
    must(start(&f));
    for (size_t s = 0; s < 5; s++) {
        weft_tensor x;
        long before = nallocations;
        must(weft_trainer_step(f.trainer, s));
        check(s % 2 == 1 || s == 4 || nallocations == before, "%ld allocations in step %zu, whose plan is there",
              nallocations - before, s);
        must(weft_trainer_fetch(f.trainer, 1, 0, &x));
        check(x.data && x.dims[0] == rows[s] / 2 && ((float *)x.data)[0] == (float)s + 1.5f * (float)rows[s],
              "x of step %zu", s);
    }
    weft_plan_cache_stats stats;
    weft_plan_cache_get_stats(weft_trainer_plan_cache(f.trainer), &stats);
    check(stats.nmisses == 4 && stats.nevictions == 2 && stats.nplans == 2, "%zu misses, %zu evictions", stats.nmisses,
          stats.nevictions);
    weft_tensors *state;
    must(weft_trainer_state(f.trainer, &state));
    static const float n = 32;
    check(floats_are(weft_tensors_find(state, "n"), 1, &n), "n after 5 steps");
    check(weft_tensors_count(state) == 4 && !weft_tensors_find(state, "x"), "a state has persistables alone");
    weft_tensors_destroy(state);
    close_fixture(&f);
}

/* A state wins over parameters, those over the startup program; a sharded value is cut. */
static void test_where_a_run_begins(void) {
    fixture f;
    open_fixture(&f, -1);
    weft_program *startup = startup_program(f.context);
    weft_tensors *params, *state;
    must(weft_tensors_create(f.context, &params));
    must(weft_tensors_create(f.context, &state));
    put(params, "w", WEFT_FP32, 3, 0, 1);
    put(params, "kept", WEFT_FP32, 1, 0, 5);
    put(state, "kept", WEFT_FP32, 1, 0, 6);
    put(f.feeds[0], "7/x", WEFT_FP32, 4, 3, 0);
    f.options.startups = (const weft_program *const *)&startup;
    f.options.nstartups = 1;
    f.options.params = params;
    f.options.state = (const weft_tensors *const *)&state;
    f.options.first_step = 7;
    must(start(&f));
    weft_tensors_destroy(params);
    weft_tensors_destroy(state);
    weft_program_destroy(startup);
    check(weft_trainer_first_step(f.trainer) == 7 && weft_trainer_nsteps(f.trainer) == 1, "steps from 7 on");
    must(weft_trainer_step(f.trainer, 7));
    weft_tensors *all;
    must(weft_trainer_state(f.trainer, &all));
    static const float n = 6, kept = 6;
    const weft_tensor *half = weft_tensors_find(all, "half");
    check(floats_are(weft_tensors_find(all, "n"), 1, &n) && floats_are(weft_tensors_find(all, "kept"), 1, &kept),
          "startup and state");
    bool differ = half && half->nbytes == 24;
    for (int i = 0; i < 6 && differ; i++) {
        float value = ((float *)half->data)[i];
        differ = value >= 2 && value < 4 && (i == 0 || value != ((float *)half->data)[i - 1]);
    }
    check(differ, "half is drawn whole and cut");
    weft_tensors_destroy(all);
    close_fixture(&f);
}

static void test_no_allocation(void) {
    fixture f;
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    fetch(&f, "mean");
    f.options.nsteps = 100;
    f.options.executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .trace = true};
    must(start(&f));
    must(weft_trainer_step(f.trainer, 0));
    long before = nallocations;
    for (size_t s = 1; s < 100; s++) must(weft_trainer_step(f.trainer, s));
    check(nallocations == before, "%ld allocations in 99 steps", nallocations - before);
    close_fixture(&f);
}

/* What a startup program writes in fp32 is rounded for a parameter that the program keeps in a half type. */
static void test_half_parameters(void) {
    static const weft_dtype types[] = {WEFT_BF16, WEFT_FP16};
    static const float given[] = {1.00390625f, 1.01171875f,
                                  -65519.0f}; /* ties of bf16; the last just below fp16's inf */
    static const float want[2][3] = {{1.0f, 1.015625f, -65536.0f}, {1.00390625f, 1.01171875f, -65504.0f}};
    for (int i = 0; i < 2; i++) {
        fixture f;
        open_fixture(&f, -1);
        weft_program *p = f.programs[0];
        const int64_t three[] = {3};
        weft_var *v;
        must(weft_block_add_var(weft_program_block(p, 0), "v", types[i], 1, three, &v));
        weft_var_set_persistable(v, true, true);
        weft_op *cast = add_op(p, "cast", v, NULL, add_var(p, "wide", 1, three, false));
        must(weft_op_set_attr_int(cast, "in_dtype", types[i]));
        must(weft_op_set_attr_int(cast, "out_dtype", WEFT_FP32));
        put(f.params, "v", WEFT_FP32, 3, 0, 0);
        memcpy(weft_tensors_find(f.params, "v")->data, given, sizeof given);
        put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
        fetch(&f, "wide");
        must(start(&f));
        must(weft_trainer_step(f.trainer, 0));
        weft_tensor wide;
        must(weft_trainer_fetch(f.trainer, 1, 0, &wide));
        check(floats_are(&wide, 3, want[i]), "%s parameter", weft_dtype_name(types[i]));
        close_fixture(&f);
    }
}

int main(void) {
    test_rows_are_split();
    test_results();
    test_sharded_fetch_is_joined();
    test_feeds_per_rank();
    test_lowest_rank_that_uses();
    test_fetch_ops();
    test_shapes_change();
    test_where_a_run_begins();
    test_no_allocation();
    test_half_parameters();
    return report_checks();
}
