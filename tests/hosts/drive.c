/* drive.c: a host drives: it feeds step by step in shapes of its own, sets the learning rate, and lends its threads. It
 * follows a plan's schedule with a runtime of its own. */
#include <pthread.h>

#include "host.h"

#include "weft/pass.h"
#include "weft/plan_instr.h"
#include "weft/trainer.h"

static const char model[] =
    "weft: 1\nblocks:\n- idx: 0\n  vars:\n"
    "    x: {float32: [-1, 4], need_check_feed: true}\n"
    "    w: {float32: [4, 2], persistable: true, parameter: true}\n    rate: {float32: [1], persistable: true}\n"
    "    h: {float32: [-1, 2]}\n    loss: {float32: []}\n    loss@GRAD: {float32: []}\n"
    "    h@GRAD: {float32: [-1, 2]}\n    w@GRAD: {float32: [4, 2]}\n  ops:\n"
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [h]}, attrs: {op_role: 0}}\n"
    "  - {reduce_mean: {X: [h]}, out: {Out: [loss]}, attrs: {op_role: 256, reduce_all: true}}\n"
    "  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {op_role: 257, dtype: 5, shape: !longs [], value: 1.0}}\n"
    "  - {reduce_mean_grad: {Out@GRAD: [loss@GRAD], X: [h]}, out: {X@GRAD: [h@GRAD]}, attrs: {op_role: 1, reduce_all: "
    "true}}\n"
    "  - {matmul_v2_grad: {Out@GRAD: [h@GRAD], X: [x], \"Y\": [w]}, out: {Y@GRAD: [w@GRAD]}, attrs: {op_role: 1, "
    "op_role_var: [w, w@GRAD]}}\n"
    "  - {sgd: {Grad: [w@GRAD], LearningRate: [rate], Param: [w]}, out: {ParamOut: [w]}, attrs: {op_role: 2}}\n";

enum { STEPS = 4 };

static weft_program *parse(weft_context *context, const char *text) {
    weft_program *program;
    MUST(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "host", &program));
    return program;
}

static void fill(weft_tensors *set, const char *name, size_t ndim, const int64_t *dims, float first) {
    weft_tensor *t;
    MUST(weft_tensors_add(set, name, WEFT_FP32, ndim, dims, &t));
    for (size_t i = 0; i < t->nbytes / sizeof(float); i++) ((float *)t->data)[i] = first + (float)(i % 7) * 0.25f;
}

static weft_tensors *params_of(weft_context *context) {
    const int64_t w[] = {4, 2}, one[] = {1};
    weft_tensors *params;
    MUST(weft_tensors_create(context, &params));
    fill(params, "w", 2, w, -0.5f);
    fill(params, "rate", 1, one, 0.5f);
    return params;
}

/* Batches of 2, 4, 6, 4 rows. */
static void batch_of(int step, weft_tensors *set, const char *name) {
    const int64_t dims[] = {step == 3 ? 4 : 2 + 2 * step, 4};
    fill(set, name, 2, dims, (float)step);
}

/* --- threads of the host's ---------------------------------------------------------------------------------------- */

typedef struct crew {
    pthread_t threads[32];
    int nthreads, nback;
    pthread_mutex_t lock;
} crew;

typedef struct lent {
    crew *crew;
    void (*run)(void *);
    void *arg;
} lent;

static void *lend(void *arg) {
    lent *l = arg;
    l->run(l->arg);
    pthread_mutex_lock(&l->crew->lock);
    l->crew->nback++;
    pthread_mutex_unlock(&l->crew->lock);
    free(l);
    return NULL;
}

static weft_status spawn(void *user, void (*run)(void *), void *arg) {
    crew *c = user;
    if (c->nthreads == 32) return weft_status_create(WEFT_LIMIT, NULL, "the host has no thread left");
    lent *l = malloc(sizeof *l);
    if (!l) return weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "no memory");
    *l = (lent){c, run, arg};
    if (pthread_create(&c->threads[c->nthreads], NULL, lend, l) != 0)
        return free(l), weft_status_create(WEFT_IO, NULL, "no thread");
    c->nthreads++;
    return NULL;
}

/* --- feeding and steering ----------------------------------------------------------------------------------------- */

static void take_w(const weft_trainer *trainer, float *out_w) {
    weft_tensors *state;
    MUST(weft_trainer_state(trainer, &state));
    memcpy(out_w, weft_tensors_find(state, "w")->data, 8 * sizeof *out_w);
    weft_tensors_destroy(state);
}

/* All steps fed in advance: what the others must equal. */
static void train_ahead(weft_context *context, const weft_program *program, int nranks, float *out_w) {
    weft_tensors *params = params_of(context), *feeds;
    weft_trainer *trainer;
    char key[16];
    MUST(weft_tensors_create(context, &feeds));
    for (int step = 0; step < STEPS; step++) {
        snprintf(key, sizeof key, "%d/x", step);
        batch_of(step, feeds, key);
    }
    const weft_tensors *const sets[] = {feeds};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT, .programs = &program, .nprograms = 1,
                                    .nranks = nranks,          .params = params,     .feeds = sets};
    MUST(weft_trainer_create(context, &options, &trainer));
    for (size_t step = 0; step < STEPS; step++) MUST(weft_trainer_step(trainer, step));
    take_w(trainer, out_w);
    weft_trainer_destroy(trainer);
    weft_tensors_destroy(feeds);
    weft_tensors_destroy(params);
}

static void check_steering(weft_trainer *trainer, weft_tensors *params) {
    float before[8], after[8], zeros[16] = {0};
    const weft_tensor wide = {.dtype = WEFT_FP32, .ndim = 2, .dims = {4, 4}, .data = zeros, .nbytes = sizeof zeros};
    take_w(trainer, before);
    MUST(weft_trainer_set_scalar(trainer, "rate", 0.0));
    MUST(weft_trainer_step(trainer, STEPS));
    take_w(trainer, after);
    CHECK(memcmp(before, after, sizeof after) == 0);
    MUST(weft_trainer_set_scalar(trainer, "rate", 0.5));
    MUST(weft_trainer_step(trainer, STEPS + 1));
    take_w(trainer, after);
    CHECK(memcmp(before, after, sizeof after) != 0);
    MUST(weft_trainer_set(trainer, "w", weft_tensors_find(params, "w")));
    take_w(trainer, after);
    CHECK(memcmp(after, weft_tensors_find(params, "w")->data, sizeof after) == 0);
    REFUSES(WEFT_NOT_FOUND, "no rank has", weft_trainer_set_scalar(trainer, "rat", 1.0));
    REFUSES(WEFT_INVALID_ARGUMENT, "one number", weft_trainer_set_scalar(trainer, "w", 1.0));
    REFUSES(WEFT_INVALID_ARGUMENT, "rank 0 expects", weft_trainer_set(trainer, "w", &wide));
}

/* The same, fed before each step, on threads of the host's. */
static void train_by_step(weft_context *context, const weft_program *program, int nranks, const float *want) {
    crew c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    weft_tensors *params = params_of(context), *feeds[STEPS];
    weft_trainer *trainer = NULL;
    float w[8];
    for (int step = 0; step < STEPS; step++) {
        MUST(weft_tensors_create(context, &feeds[step]));
        batch_of(step, feeds[step], "x");
    }
    const weft_tensors *set = feeds[0];
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = &program,
                                    .nprograms = 1,
                                    .nranks = nranks,
                                    .params = params,
                                    .feeds = &set,
                                    .executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 2,
                                                                         .spawn = spawn, .spawn_user = &c}};
    MUST(weft_trainer_create(context, &options, &trainer));
    CHECK(c.nthreads >= nranks); /* streams but the first, and the watchdog or a helper */
    for (size_t step = 0; step < STEPS; step++) {
        set = feeds[step];
        MUST(weft_trainer_feed(trainer, &set, false));
        MUST(weft_trainer_step(trainer, step));
    }
    take_w(trainer, w);
    CHECK(memcmp(w, want, sizeof w) == 0);
    check_steering(trainer, params);
    weft_tensors *wrong;
    MUST(weft_tensors_create(context, &wrong));
    batch_of(0, wrong, "z");
    set = wrong;
    REFUSES(WEFT_NOT_FOUND, "has no var \"z\"", weft_trainer_feed(trainer, &set, false));
    weft_tensors_destroy(wrong);
    CHECK(c.nback == 0);
    weft_trainer_destroy(trainer);
    for (int i = 0; i < c.nthreads; i++) pthread_join(c.threads[i], NULL);
    CHECK(c.nback == c.nthreads);
    set = feeds[0];
    c.nthreads = 32;
    REFUSES(WEFT_LIMIT, "the host has no thread left", weft_trainer_create(context, &options, &trainer));
    for (int step = 0; step < STEPS; step++) weft_tensors_destroy(feeds[step]);
    weft_tensors_destroy(params);
}

/* --- a runtime of the host's -------------------------------------------------------------------------------------- */

static const char streams[] =
    "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [3, 4], need_check_feed: true}\n"
    "    a: {float32: [3, 4]}\n    b: {float32: [3, 4]}\n    c: {float32: [3, 4]}\n    y: {float32: [3, 4]}\n  ops:\n"
    "  - {relu: {X: [x]}, out: {Out: [a]}}\n"
    "  - {scale: {X: [a]}, out: {Out: [b]}, attrs: {scale: 2.0, bias: 0.0}}\n"
    "  - {scale: {X: [a]}, out: {Out: [c]}, attrs: {scale: 3.0, bias: 1.0}}\n"
    "  - {elementwise_add: {X: [b], \"Y\": [c]}, out: {Out: [y]}, attrs: {axis: -1}}\n";

typedef struct runtime {
    const weft_plan *plan;
    char *persistent, *temporary;
    size_t done[8]; /* by stream */
} runtime;

static float *bytes_of(const runtime *r, int64_t value) {
    weft_plan_buffer b = weft_plan_buffer_at(r->plan, (size_t)value);
    CHECK(value >= 0 && b.nbytes >= 48 && b.rows == -1);
    return (float *)(void *)((b.is_persistent ? r->persistent : r->temporary) + b.offset);
}

static float *arg_of(const runtime *r, size_t instr, bool output, size_t slot) {
    size_t nargs;
    CHECK(weft_plan_instr_slot(r->plan, instr, output, slot, &nargs) && nargs == 1);
    return bytes_of(r, weft_plan_instr_arg(r->plan, instr, output, slot, 0));
}

static void run_instr(runtime *r, size_t instr) {
    weft_plan_instr i = weft_plan_instr_at(r->plan, instr);
    const char *type = weft_op_type(i.op);
    for (size_t k = 0; k < i.nwaits; k++) {
        weft_plan_wait w = weft_plan_instr_wait(r->plan, instr, k);
        CHECK(r->done[w.stream] >= w.count);
    }
    CHECK(i.position == r->done[i.stream] && i.ring_id == -1 && i.guard == -1);
    const float *x = arg_of(r, instr, false, 0);
    const float *z = strcmp(type, "elementwise_add") == 0 ? arg_of(r, instr, false, 1) : NULL;
    float *out = arg_of(r, instr, true, 0);
    float scale = (float)weft_op_attr_float(i.op, "scale", 1), bias = (float)weft_op_attr_float(i.op, "bias", 0);
    for (int k = 0; k < 12; k++) {
        if (strcmp(type, "relu") == 0)
            out[k] = x[k] > 0 ? x[k] : 0;
        else
            out[k] = z ? x[k] + z[k] : scale * x[k] + bias;
    }
    r->done[i.stream]++;
}

static int64_t find_value(const weft_plan *plan, const char *name) {
    weft_plan_value v;
    for (size_t i = 0; i < weft_plan_nvalues(plan); i++) {
        weft_plan_value_at(plan, i, &v);
        if (strcmp(v.name, name) == 0) return (int64_t)i;
    }
    return -1;
}

static void follow_schedule(weft_context *context) {
    weft_program *program = parse(context, streams);
    const char *const fetches[] = {"y"};
    weft_plan *plan;
    weft_plan_summary summary;
    MUST(weft_op_set_stream(weft_op_next(weft_block_first_op(weft_program_block(program, 0))), "side"));
    MUST(weft_plan_create(program, &(weft_plan_options){WEFT_PLAN_OPTIONS_INIT, .fetches = fetches, .nfetches = 1},
                          &plan));
    weft_plan_summarize(plan, &summary);
    runtime r = {.plan = plan};
    r.persistent = aligned_alloc(64, ((size_t)summary.persistent_nbytes + 127) / 64 * 64);
    r.temporary = aligned_alloc(64, ((size_t)summary.temporary_nbytes + 127) / 64 * 64);
    CHECK(weft_plan_nstreams(plan) == 2 && strcmp(weft_plan_stream_name(plan, 1), "side") == 0);
    CHECK(weft_plan_ninstrs(plan) == 4);
    float *x = bytes_of(&r, find_value(plan, "x"));
    for (int k = 0; k < 12; k++) x[k] = (float)(k - 6);
    size_t nwaits = 0;
    for (size_t i = 0; i < weft_plan_ninstrs(plan); i++) {
        run_instr(&r, i);
        nwaits += weft_plan_instr_at(plan, i).nwaits;
    }
    CHECK(nwaits == 2);
    const float *y = bytes_of(&r, find_value(plan, "y"));
    for (int k = 0; k < 12; k++) CHECK(y[k] == (k > 6 ? 5 * (float)(k - 6) + 1 : 1));
    free(r.persistent);
    free(r.temporary);
    weft_plan_destroy(plan);
    weft_program_destroy(program);
}

int main(void) {
    weft_context *context = NULL;
    weft_pass_list *list;
    float w[8];
    MUST(weft_context_create(NULL, &context));
    weft_program *program = parse(context, model);
    static const char passes[] = "passes: [data_parallel: {ranks: 2}, overlap_comm]";
    MUST(weft_pass_list_parse(context, passes, strlen(passes), "host", &list));
    MUST(weft_pass_list_run(list, program, NULL));
    train_ahead(context, program, 2, w);
    train_by_step(context, program, 2, w);
    follow_schedule(context);
    weft_pass_list_destroy(list);
    weft_program_destroy(program);
    weft_context_destroy(context);
    return host_end("drive");
}
