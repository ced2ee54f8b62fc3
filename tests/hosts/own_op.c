/* own_op.c: a host brings an activation and its gradient, makes a program with them data-parallel, has it proved, and
 * trains it on 2 ranks as on 1. An op without a kernel is planned and simulated, and not run. */
#include <math.h>

#include "host.h"

#include "weft/equivalent.h"
#include "weft/op.h"
#include "weft/pass.h"
#include "weft/simulate.h"
#include "weft/trainer.h"
#include "weft/verify.h"

static const char text[] =
    "weft: 1\nblocks:\n- idx: 0\n  vars:\n"
    "    x: {float32: [8, 4], need_check_feed: true}\n"
    "    w: {float32: [4, 2], persistable: true, parameter: true}\n"
    "    rate: {float32: [1], persistable: true}\n"
    "    h: {float32: [8, 2]}\n    s: {float32: [8, 2]}\n    loss: {float32: []}\n    loss@GRAD: {float32: []}\n"
    "    s@GRAD: {float32: [8, 2]}\n    h@GRAD: {float32: [8, 2]}\n    w@GRAD: {float32: [4, 2]}\n"
    "  ops:\n"
    "  - {matmul_v2: {X: [x], \"Y\": [w]}, out: {Out: [h]}, attrs: {op_role: 0}}\n"
    "  - {my_swish: {X: [h]}, out: {Out: [s]}, attrs: {op_role: 0, beta: 2}}\n"
    "  - {reduce_mean: {X: [s]}, out: {Out: [loss]}, attrs: {op_role: 256, reduce_all: true}}\n"
    "  - {fill_constant: {}, out: {Out: [loss@GRAD]}, attrs: {op_role: 257, dtype: 5, shape: !longs [], value: 1.0}}\n"
    "  - {reduce_mean_grad: {Out@GRAD: [loss@GRAD], X: [s]}, out: {X@GRAD: [s@GRAD]}, attrs: {op_role: 1, reduce_all: "
    "true}}\n"
    "  - {my_swish_grad: {X: [h], Out@GRAD: [s@GRAD]}, out: {X@GRAD: [h@GRAD]}, attrs: {op_role: 1, beta: 2}}\n"
    "  - {matmul_v2_grad: {Out@GRAD: [h@GRAD], X: [x], \"Y\": [w]}, out: {Y@GRAD: [w@GRAD]}, attrs: {op_role: 1, "
    "op_role_var: [w, w@GRAD]}}\n"
    "  - {sgd: {Grad: [w@GRAD], LearningRate: [rate], Param: [w]}, out: {ParamOut: [w]}, attrs: {op_role: 2}}\n";

/* --- the ops ------------------------------------------------------------------------------------------------------ */

static weft_status same_type(weft_infer *infer, void *user) {
    (void)user;
    weft_arg_type x, given;
    if (!weft_infer_arg(infer, false, 0, 0, &x)) return NULL;
    if (x.ndim == 0) return weft_infer_error(infer, "expected a vector, found one element");
    if (weft_infer_arg(infer, false, 1, 0, &given) && given.ndim >= 0 && given.ndim != x.ndim)
        return weft_infer_error(infer, "expected a gradient of %d axes, found %d", x.ndim, given.ndim);
    weft_infer_set_output(infer, 0, 0, &x);
    return NULL;
}

typedef struct settings {
    float beta;
} settings;

static weft_status prepare(weft_kernel_setup *setup, void *user) {
    (void)user;
    weft_arg_type x;
    settings *s = weft_kernel_setup_state(setup, sizeof *s);
    if (!s) return weft_status_create(WEFT_OUT_OF_MEMORY, NULL, "no memory");
    if (!weft_kernel_setup_arg(setup, false, 0, 0, &x) || x.dtype != WEFT_FP32)
        return weft_kernel_unsupported(setup, "expected float32");
    s->beta = (float)weft_op_declared_float(weft_kernel_setup_op(setup), "beta");
    return NULL;
}

typedef struct job {
    const float *x, *given;
    float *out;
    float beta;
} job;

static void swish_part(void *arg, int64_t first, int64_t end, int number) {
    const job *j = arg;
    (void)number;
    for (int64_t i = first; i < end; i++) j->out[i] = j->x[i] / (1 + expf(-j->beta * j->x[i]));
}

static void gradient_part(void *arg, int64_t first, int64_t end, int number) {
    const job *j = arg;
    (void)number;
    for (int64_t i = first; i < end; i++) {
        float s = 1 / (1 + expf(-j->beta * j->x[i]));
        j->out[i] = j->given[i] * (s + j->beta * j->x[i] * s * (1 - s));
    }
}

static weft_status run_parts(const weft_kernel_call *call, void (*part)(void *, int64_t, int64_t, int)) {
    weft_kernel_tensor x, given = {0}, out;
    if (!weft_kernel_arg(call, false, 0, 0, &x) || !weft_kernel_arg(call, true, 0, 0, &out))
        return weft_kernel_failed(call, "an argument is missing");
    if (weft_kernel_nargs(call, false, 1)) weft_kernel_arg(call, false, 1, 0, &given);
    job j = {x.data, given.data, out.data, ((const settings *)weft_kernel_state(call))->beta};
    weft_kernel_parallel(call, x.count, 4, part, &j);
    return NULL;
}

static weft_status swish(const weft_kernel_call *call, void *user) {
    (void)user;
    return run_parts(call, swish_part);
}
static weft_status swish_gradient(const weft_kernel_call *call, void *user) {
    (void)user;
    return run_parts(call, gradient_part);
}

static void fixed_cost(const weft_infer *args, double *out_flops, double *out_bytes, void *user) {
    weft_arg_type out;
    CHECK(weft_infer_arg(args, true, 0, 0, &out) && out.ndim == 2);
    *out_flops = *(const double *)user;
    *out_bytes = 0;
}

static double slow_flops = 1e12;
static const weft_op_def ops[] = {
    {WEFT_OP_DEF_INIT, .type = "my_swish", .summary = "x * sigmoid(beta * x)", .inputs = "X", .outputs = "Out=X",
     .attrs = "beta: float = 1.0", .axes = "X=... -> Out=...", .infer = same_type, .flops_per_element = 12,
     .prepare = prepare, .run = swish},
    {WEFT_OP_DEF_INIT, .type = "my_swish_grad", .inputs = "X, Out@GRAD", .outputs = "X@GRAD=Out@GRAD",
     .attrs = "beta: float = 1.0", .effects = "linear_grad, one_type", .gradient_of = "my_swish", .infer = same_type,
     .prepare = prepare, .run = swish_gradient},
    {WEFT_OP_DEF_INIT, .type = "my_slow", .inputs = "X", .outputs = "Out", .infer = same_type, .cost = fixed_cost,
     .user = &slow_flops},
};

static void check_refusals(weft_context *context) {
    weft_op_def wrong = ops[0];
    REFUSES(WEFT_INVALID_ARGUMENT, "known already", weft_op_register(context, &wrong));
    wrong.type = "matmul_v2";
    REFUSES(WEFT_INVALID_ARGUMENT, "known already", weft_op_register(context, &wrong));
    wrong.type = "c_allreduce_sum";
    REFUSES(WEFT_INVALID_ARGUMENT, "known already", weft_op_register(context, &wrong));
    wrong.type = "my_other";
    wrong.outputs = "Out=Z";
    REFUSES(WEFT_INVALID_ARGUMENT, "among the row's inputs", weft_op_register(context, &wrong));
    wrong.outputs = "Out";
    wrong.attrs = "beta: real = 1";
    REFUSES(WEFT_INVALID_ARGUMENT, "float", weft_op_register(context, &wrong));
    wrong.attrs = NULL;
    wrong.effects = "linear, rows";
    REFUSES(WEFT_INVALID_ARGUMENT, "effect \"rows\"", weft_op_register(context, &wrong));
    wrong.effects = NULL;
    wrong.axes = "X=... Out=...";
    REFUSES(WEFT_INVALID_ARGUMENT, "axes", weft_op_register(context, &wrong));
    wrong.axes = NULL;
    wrong.gradient_of = "my_unknown";
    REFUSES(WEFT_NOT_FOUND, "my_unknown", weft_op_register(context, &wrong));
    wrong.gradient_of = NULL;
    wrong.struct_nbytes = sizeof wrong + 8;
    REFUSES(WEFT_INVALID_ARGUMENT, "older than the host", weft_op_register(context, &wrong));
    wrong.struct_nbytes = 0;
    REFUSES(WEFT_INVALID_ARGUMENT, "begins with its size", weft_op_register(context, &wrong));
    CHECK(!weft_op_is_known(context, "my_other") && weft_op_is_known(context, "my_swish"));
}

/* --- training ----------------------------------------------------------------------------------------------------- */

static void fill(weft_tensors *set, const char *name, size_t ndim, const int64_t *dims, float scale) {
    weft_tensor *t;
    MUST(weft_tensors_add(set, name, WEFT_FP32, ndim, dims, &t));
    for (size_t i = 0; i < t->nbytes / sizeof(float); i++) ((float *)t->data)[i] = scale * sinf(1.0f + (float)i * 0.7f);
}

static void train(weft_context *context, const weft_program *program, int nranks, double *out_losses, float *out_w) {
    const int64_t x[] = {8, 4}, w[] = {4, 2}, one[] = {1};
    weft_tensors *params, *feeds, *state;
    weft_trainer *trainer;
    MUST(weft_tensors_create(context, &params));
    MUST(weft_tensors_create(context, &feeds));
    fill(params, "w", 2, w, 0.5f);
    fill(params, "rate", 1, one, 0.6f);
    fill(feeds, "x", 2, x, 1.0f);
    const weft_tensors *const sets[] = {feeds};
    const char *const fetches[] = {"loss"};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = &program,
                                    .nprograms = 1,
                                    .nranks = nranks,
                                    .params = params,
                                    .feeds = sets,
                                    .fetches = fetches,
                                    .nfetches = 1,
                                    .nsteps = 5,
                                    .executor = &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .nthreads = 2}};
    MUST(weft_trainer_create(context, &options, &trainer));
    for (size_t step = 0; step < 5; step++) {
        MUST(weft_trainer_step(trainer, step));
        out_losses[step] = 0;
        for (int r = 0; r < nranks; r++) {
            double loss;
            CHECK(weft_trainer_fetch_scalar(trainer, r, 0, &loss));
            out_losses[step] += loss / nranks;
        }
    }
    MUST(weft_trainer_state(trainer, &state));
    memcpy(out_w, weft_tensors_find(state, "w")->data, 8 * sizeof(float));
    weft_tensors_destroy(state);
    weft_trainer_destroy(trainer);
    weft_tensors_destroy(feeds);
    weft_tensors_destroy(params);
}

static void check_training(weft_context *context, const weft_program *serial, const weft_program *parallel) {
    double alone[5], together[5];
    float w_alone[8], w_together[8];
    train(context, serial, 1, alone, w_alone);
    train(context, parallel, 2, together, w_together);
    CHECK(alone[4] < alone[0]);
    for (int i = 0; i < 5; i++) CHECK(fabs(alone[i] - together[i]) < 1e-6);
    for (int i = 0; i < 8; i++) CHECK(fabsf(w_alone[i] - w_together[i]) < 1e-6f);
    /* What the first step computes, by hand. */
    double sum = 0;
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 2; c++) {
            double h = 0;
            for (int k = 0; k < 4; k++) h += sin(1 + (r * 4 + k) * 0.7) * 0.5 * sin(1 + (k * 2 + c) * 0.7);
            sum += h / (1 + exp(-2 * h)) / 16;
        }
    CHECK(fabs(alone[0] - sum) < 1e-6);
}

static void check_proofs(const weft_program *serial, const weft_program *parallel) {
    weft_equivalence *verdict;
    MUST(weft_equivalent_to_serial(serial, &parallel, 1, NULL, &verdict));
    CHECK(weft_equivalence_grade(verdict) <= WEFT_SAME_REALS);
    weft_equivalence_destroy(verdict);
    weft_findings *findings;
    MUST(weft_verify(&parallel, 1, NULL, &findings));
    CHECK(weft_findings_count(findings) == 0);
    weft_findings_destroy(findings);
    MUST(weft_verify_replicas(&parallel, 1, 2));
}

/* --- an op without a kernel --------------------------------------------------------------------------------------- */

static void check_slow(weft_context *context) {
    static const char slow[] = "weft: 1\nblocks:\n- idx: 0\n  vars:\n    x: {float32: [8, 4], need_check_feed: true}\n"
                               "    y: {float32: [8, 4]}\n  ops:\n  - {my_slow: {X: [x]}, out: {Out: [y]}}\n";
    weft_program *program;
    weft_plan *plan;
    weft_simulation *simulation;
    weft_executor *executor;
    double seconds[2];
    MUST(weft_program_parse(context, WEFT_FORM_YAML, slow, strlen(slow), NULL, 0, "slow", &program));
    MUST(weft_plan_create(program, NULL, &plan));
    for (int i = 0; i < 2; i++, slow_flops *= 2) {
        MUST(weft_simulation_create(context, (const weft_plan *const *)&plan, 1, 1, NULL, &simulation));
        MUST(weft_simulation_run(simulation));
        seconds[i] = weft_simulation_step_seconds(simulation);
        weft_simulation_destroy(simulation);
    }
    CHECK(seconds[1] > 1.5 * seconds[0]);
    REFUSES(WEFT_UNSUPPORTED, "no kernel for op my_slow",
            weft_executor_create(context, (const weft_plan *const *)&plan, 1, 1, NULL, &executor));
    weft_plan_destroy(plan);
    weft_program_destroy(program);
}

int main(void) {
    weft_context *context = NULL;
    weft_program *serial, *parallel;
    weft_pass_list *list;
    MUST(weft_context_create(NULL, &context));
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) MUST(weft_op_register(context, &ops[i]));
    check_refusals(context);
    MUST(weft_program_parse(context, WEFT_FORM_YAML, text, strlen(text), NULL, 0, "host", &serial));
    MUST(weft_program_check_types(serial));
    MUST(weft_program_clone(serial, &parallel));
    static const char passes[] = "{prove: require, passes: [data_parallel: {ranks: 2}, prune_grad_scale, overlap_comm, "
                                 "coalesce_grads, insert_dependencies]}";
    MUST(weft_pass_list_parse(context, passes, strlen(passes), "host", &list));
    MUST(weft_pass_list_run(list, parallel, NULL));
    check_proofs(serial, parallel);
    check_training(context, serial, parallel);
    check_slow(context);
    weft_pass_list_destroy(list);
    weft_program_destroy(parallel);
    weft_program_destroy(serial);
    weft_context_destroy(context);
    return host_end("own_op");
}
