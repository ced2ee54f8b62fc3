/* trainer_faults.c: the trainer on small programs: what is missing or wrong, and memory that runs out. A plain main,
 * because ranks are threads. */
#include "tests/support/small_trainer.h"

static void expect(fixture *f, const char *what, const char *want) {
    weft_status status = start(f);
    check(status && strcmp(weft_status_message(status), want) == 0, "%s: \"%s\"", what, weft_status_message(status));
    weft_status_free(status);
    close_fixture(f);
}

typedef struct fault {
    const char *what;
    const char *key; /* a feed */
    weft_dtype dtype;
    int64_t rows, columns;
    int64_t declared_rows;
    size_t nsteps;
    const char *message;
} fault;

static const fault faults[] = {
    {"unknown name", "z", WEFT_FP32, 4, 3, -1, 0, "feed \"z\": block 0 has no var \"z\""},
    {"unknown name of a step", "0/z", WEFT_FP32, 4, 3, -1, 0, "feed \"0/z\": block 0 has no var \"z\""},
    {"dtype", "x", WEFT_FP64, 4, 3, -1, 0,
     "feed \"x\": rank 0 expects float32 [-1, 3], its part of float64 [4, 3] is float64 [2, 3]"},
    {"columns", "x", WEFT_FP32, 4, 5, -1, 0,
     "feed \"x\": rank 0 expects float32 [-1, 3], its part of float32 [4, 5] is float32 [2, 5]"},
    {"axes", "x", WEFT_FP32, 4, 0, -1, 0,
     "feed \"x\": rank 0 expects float32 [-1, 3], its part of float32 [4] is float32 [2]"},
    {"rows", "x", WEFT_FP32, 4, 3, 3, 0,
     "feed \"x\": rank 0 expects float32 [3, 3], its part of float32 [4, 3] is float32 [2, 3]"},
    {"odd rows", "x", WEFT_FP32, 5, 3, -1, 0, "feed \"x\": 5 rows cannot be split over 2 ranks"},
    {"missing step", "0/x", WEFT_FP32, 4, 3, -1, 2, "feed \"x\" has no value for step 1 of 2"},
    {"step beyond", "2/x", WEFT_FP32, 4, 3, -1, 0, "feed \"x\" has no value for step 0 of 3"},
    {"not fed", "n", WEFT_FP32, 1, 0, 2, 0, "\"x\" is read by elementwise_mul #0 (rank 0) but not fed"},
    {"persistable", "n", WEFT_FP32, 2, 0, 2, 0, "feed \"n\": expected float32 [1], found float32 [2]"},
};

static void test_faults(void) {
    fixture f;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const fault *t = &faults[i];
        open_fixture(&f, t->declared_rows);
        put(f.feeds[0], t->key, t->dtype, t->rows, t->columns, 0);
        f.options.nsteps = t->nsteps;
        expect(&f, t->what, t->message);
    }
    open_fixture(&f, 4);
    put(f.feeds[0], "0/x", WEFT_FP32, 4, 3, 0);
    put(f.feeds[0], "1/x", WEFT_FP32, 2, 3, 0);
    expect(&f, "steps differ",
           "feed \"1/x\": rank 0 expects float32 [4, 3], its part of float32 [2, 3] is float32 [1, 3]");
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    fetch(&f, "nobody");
    expect(&f, "unknown fetch", "fetch \"nobody\": block 0 has no such var");
}

static void test_missing_parameters(void) {
    fixture f;
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    f.options.params = NULL;
    expect(&f, "none given", "parameter \"w\" is read by elementwise_mul #0 (rank 0) but no parameters were given");
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    weft_tensors *fewer;
    must(weft_tensors_create(f.context, &fewer));
    put(fewer, "w", WEFT_FP32, 3, 0, 1);
    put(fewer, "n", WEFT_FP32, 1, 0, 1);
    weft_tensors_destroy(f.params);
    f.options.params = f.params = fewer;
    expect(&f, "one missing", "parameter \"half\" is read by scale #1 (rank 0) but not in p.npz");
    open_fixture(&f, -1);
    put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
    put(f.params, "half", WEFT_FP32, 4, 0, 1);
    expect(&f, "wrong slice", "parameter \"half\": rank 0 expects float32 [3], its part of float32 [4] is float32 [2]");
}

/* Fails the n-th allocation of creating a trainer with a startup program, running a step and taking the results, until
 * none is left to fail. */
static void test_every_allocation_may_fail(void) {
    bool done = false;
    for (int n = 1; !done && n < 5000; n++) {
        fixture f;
        weft_tensors *all = NULL;
        open_fixture(&f, -1);
        put(f.feeds[0], "x", WEFT_FP32, 4, 3, 0);
        fetch(&f, "mean");
        weft_program *startup = startup_program(f.context);
        f.options.startups = (const weft_program *const *)&startup;
        f.options.nstartups = 1;
        fail_at = n;
        weft_status status = start(&f);
        if (!status) status = weft_trainer_step(f.trainer, 0);
        if (!status) status = weft_trainer_result(f.trainer, &all);
        done = fail_at > 0;
        fail_at = 0;
        check(done ? !status : weft_status_code(status) == WEFT_OUT_OF_MEMORY, "allocation %d: \"%s\"", n,
              weft_status_message(status));
        weft_status_free(status);
        weft_tensors_destroy(all);
        weft_program_destroy(startup);
        close_fixture(&f);
    }
    check(done, "more allocations than were tried");
}

int main(void) {
    test_every_allocation_may_fail();
    test_faults();
    test_missing_parameters();
    return report_checks();
}
