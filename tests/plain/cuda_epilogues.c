/* cuda_epilogues.c: what follows a matrix product is part of it, forward and backward, with the losses of the CPU. Each
 * case is the recorded program of a small network, edited as text. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/must.h"
#include "tests/support/plain.h"

enum { MOST_EDITS = 6, MOST_COUNTS = 5, MOST_TEXT = 60000 };

/* cublasLtEpilogue_t; its header is not everywhere. */
enum {
    BIAS = 4,
    RELU_BIAS = 6,
    GELU_BIAS = 36,
    RELU_AUX_BIAS = 134,
    DRELU = 136,
    DRELU_BGRAD = 152,
    GELU_AUX_BIAS = 164,
    DGELU = 192,
    DGELU_BGRAD = 208,
    BGRADA = 256,
    BGRADB = 512
};

typedef struct edit {
    const char *from, *to;
} edit;
typedef struct launches {
    int epilogue, n; /* in a step that is issued, and in one that is captured; epilogue 0: no more of them */
} launches;
typedef struct kernel_count {
    const char *which; /* NULL: not asked */
    int n;
} kernel_count;
typedef struct epilogue_case {
    const char *what;
    edit edits[MOST_EDITS];
    launches of[MOST_COUNTS];
    kernel_count kernel;
} epilogue_case;

#define GELU(attrs)                                                                                                    \
    {                                                                                                                  \
        "{relu: {X: [linear_2.tmp_1]}, out: {Out: [relu_0.tmp_0]}, attrs: {",                                          \
            "{gelu: {X: [linear_2.tmp_1]}, out: {Out: [relu_0.tmp_0]}, attrs: {" attrs                                 \
    }
#define GELU_GRAD(attrs)                                                                                               \
    {                                                                                                                  \
        "{relu_grad: {Out: [relu_0.tmp_0], Out@GRAD: [relu_0.tmp_0@GRAD]}, out: {X@GRAD: "                             \
        "[linear_2.tmp_1@GRAD]}, attrs: {",                                                                            \
            "{gelu_grad: {X: [linear_2.tmp_1], Out@GRAD: [relu_0.tmp_0@GRAD]}, out: {X@GRAD: "                         \
            "[linear_2.tmp_1@GRAD]}, attrs: {" attrs                                                                   \
    }
/* The gradient of the first row is nobody's: it stays a copy of its own, of which the row's is no part. */
#define ALONE                                                                                                          \
    {                                                                                                                  \
        "  - {elementwise_add_grad: {Out@GRAD: [linear_2.tmp_1@GRAD]",                                                 \
            "  - {scale: {X: [linear_2.tmp_1@GRAD]}, out: {Out: [linear_2.tmp_1@GRAD]}, attrs: {scale: 1.0, "          \
            "bias: 0.0, bias_after_scale: true, .role: backward}}\n"                                                   \
            "  - {elementwise_add_grad: {Out@GRAD: [linear_2.tmp_1@GRAD]"                                              \
    }

#define LATER                                                                                                          \
    {                                                                                                                  \
        "  - {sgd: {",                                                                                                 \
            "  - {assign: {X: [linear_2.tmp_1]}, out: {Out: [linear_2.tmp_0]}, attrs: {.role: backward}}\n  - {sgd: {" \
    }

static const epilogue_case cases[] = {
    {"relu", {{NULL, NULL}}, {{RELU_AUX_BIAS, 1}, {BIAS, 1}, {DRELU_BGRAD, 1}, {BGRADA, 1}}, {"unary_relu_grad", 0}},
    {"gelu by tanh",
     {GELU("approximate: true, "), GELU_GRAD("approximate: true, ")},
     {{GELU_AUX_BIAS, 1}, {BIAS, 1}, {DGELU, 1}, {BGRADA, 2}}, /* the gradient goes where the argument of gelu was */
     {"unary_gelu_grad", 0}},
    {"gelu, whose argument is read later",
     {GELU("approximate: true, "), GELU_GRAD("approximate: true, "), LATER},
     {{GELU_AUX_BIAS, 1}, {BIAS, 1}, {DGELU_BGRAD, 1}, {BGRADA, 1}},
     {"unary_gelu_grad", 0}},
    {"gelu by the error function",
     {GELU("approximate: false, "), GELU_GRAD("approximate: false, ")},
     {{BIAS, 2}, {BGRADA, 2}},
     {"unary_gelu_grad", 2}},
    {"relu, and its gradient is read by another op", {ALONE}, {{RELU_AUX_BIAS, 1}, {DRELU, 1}, {BGRADA, 2}}, {NULL, 0}},
    {"gelu, and its gradient is read by another op",
     {GELU("approximate: true, "), GELU_GRAD("approximate: true, "), ALONE},
     {{GELU_AUX_BIAS, 1}, {DGELU, 1}, {BGRADA, 2}},
     {NULL, 0}},
    {"a matrix that is used transposed",
     {{"  vars:\n", "  vars:\n    wt: {float32: [10, 64], persistable: false, stop_gradient: false}\n"
                    "    wx: {float32: [0, 64, 10], persistable: false, stop_gradient: false}\n"
                    "    wt@GRAD: {float32: [10, 64], persistable: false, stop_gradient: false}\n"},
      {"  - {matmul_v2: {X: [relu_0.tmp_0], \"Y\": [linear_1.w_0]}, out: {Out: [linear_3.tmp_0]}, attrs: {",
       "  - {transpose2: {X: [linear_1.w_0]}, out: {Out: [wt], XShape: [wx]}, attrs: {axis: [1, 0], .role: forward}}\n"
       "  - {matmul_v2: {X: [relu_0.tmp_0], \"Y\": [wt]}, out: {Out: [linear_3.tmp_0]}, attrs: {trans_x: false, "
       "trans_y: true, .role: forward}}\n  - {assign: {X: [x]}, out: {Out: [x]}, attrs: {"},
      {"X: [relu_0.tmp_0], \"Y\": [linear_1.w_0]}, out: {X@GRAD: [relu_0.tmp_0@GRAD], Y@GRAD: [linear_1.w_0@GRAD]}, "
       "attrs: {",
       "X: [relu_0.tmp_0], \"Y\": [wt]}, out: {X@GRAD: [relu_0.tmp_0@GRAD], Y@GRAD: [wt@GRAD]}, attrs: {trans_x: "
       "false, "
       "trans_y: true, .role: backward}}\n  - {transpose2_grad: {Out@GRAD: [wt@GRAD], XShape: [wx]}, out: {X@GRAD: "
       "[linear_1.w_0@GRAD]}, attrs: {axis: [1, 0], .role: backward}}\n  - {assign: {X: [x]}, out: {Out: [x]}, attrs: "
       "{"}},
     {{RELU_BIAS, 1}, {BGRADB, 1}, {BGRADA, 1}},
     {NULL, 0}},
};

/* --- programs ----------------------------------------------------------------------------------------------------- */

static void replace(char *yaml, const edit *e) {
    char *at = strstr(yaml, e->from);
    check(at != NULL, "no text to edit: %s", e->from);
    if (!at) return;
    size_t from = strlen(e->from), to = strlen(e->to);
    check(strlen(yaml) + to < MOST_TEXT, "a program that is too large");
    memmove(at + to, at + from, strlen(at + from) + 1);
    memcpy(at, e->to, to);
}

static void link_file(const char *from, const char *to, const char *file) {
    char path[TRAINING_PATH], at[TRAINING_PATH], real[4200];
    snprintf(path, sizeof path, "%s/%s", from, file);
    snprintf(at, sizeof at, "%s/%s", to, file);
    check(realpath(path, real) && symlink(real, at) == 0, "no link to %s", path);
}

static void remove_files(const char *folder) {
    static const char *const files[] = {"params.npz", "feeds.npz", "case.json", "serial.yaml"};
    char path[TRAINING_PATH];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void write_program(const char *recorded, const char *folder, const epilogue_case *c) {
    static char yaml[MOST_TEXT];
    char path[TRAINING_PATH];
    weft_context *context;
    weft_program *program;
    must(weft_context_create(NULL, &context));
    snprintf(path, sizeof path, "%s/serial.pdmodel", recorded);
    must(weft_program_load(context, path, NULL, &program));
    snprintf(path, sizeof path, "%s/serial.yaml", folder);
    must(weft_program_save(program, path));
    weft_program_destroy(program);
    weft_context_destroy(context);
    FILE *f = fopen(path, "r+");
    check(f != NULL, "%s: no such file", path);
    if (!f) return;
    yaml[fread(yaml, 1, sizeof yaml - 1, f)] = '\0';
    for (size_t i = 0; i < MOST_EDITS && c->edits[i].from; i++) replace(yaml, &c->edits[i]);
    rewind(f);
    fputs(yaml, f);
    check(ftruncate(fileno(f), ftell(f)) == 0, "%s: not written", path);
    fclose(f);
    link_file(recorded, folder, "params.npz");
    link_file(recorded, folder, "feeds.npz");
    link_file(recorded, folder, "case.json");
}

/* --- training ----------------------------------------------------------------------------------------------------- */

/* Products with that epilogue, launched or captured so far. */
static int count_products(int epilogue) {
    union {
        void *object;
        int (*call)(int);
    } symbol = {NULL};
    if (cuda_standin_is_left_out()) return 0;
    void *library = cuda_standin_library("libcublasLt.so.13");
    if (library) symbol.object = dlsym(library, "standin_products");
    if (!symbol.object) abort();
    return symbol.call(epilogue);
}

static int count_kernels(const epilogue_case *c) {
    return c->kernel.which && !cuda_standin_is_left_out() ? cuda_standin_launches(c->kernel.which) : 0;
}

static void train(cuda_training *s, const char *folder, const char *on, bool no_graph) {
    weft_executor_options options = {WEFT_EXECUTOR_OPTIONS_INIT, .device = on, .no_graph = no_graph, .unsafe = true};
    cuda_training_open(s, folder, "%s/serial.yaml", 1, &options);
    check(!s->status, "%s: %s", folder, weft_status_message(s->status));
}

static void compare_counts(const epilogue_case *c, const int *before, int kernels) {
    if (cuda_standin_is_left_out()) return;
    for (size_t i = 0; i < MOST_COUNTS && c->of[i].epilogue; i++) {
        int n = count_products(c->of[i].epilogue) - before[i];
        check(n == 2 * c->of[i].n, "%s: epilogue %d launched %d times", c->what, c->of[i].epilogue, n);
    }
    check(!c->kernel.which || kernels == c->kernel.n, "%s: %s launched %d times", c->what, c->kernel.which, kernels);
}

static void test_case(const char *recorded, const epilogue_case *c) {
    char folder[] = "/tmp/weft-epilogues-XXXXXX";
    int before[MOST_COUNTS] = {0}, kernels = 0;
    cuda_training near, far, other;
    check(mkdtemp(folder) != NULL, "no folder");
    write_program(recorded, folder, c);
    train(&near, folder, NULL, false);
    for (size_t i = 0; i < MOST_COUNTS; i++) before[i] = count_products(c->of[i].epilogue);
    kernels = count_kernels(c);
    train(&far, folder, "cuda", false);
    kernels = count_kernels(c) - kernels;
    compare_counts(c, before, kernels);
    check(near.nlosses > 2 && near.nlosses == far.nlosses, "%s: %zu losses", c->what, far.nlosses);
    for (size_t i = 0; i < near.nlosses; i++)
        check(fabs(near.losses[i] - far.losses[i]) <= 1e-5 * fabs(near.losses[i]), "%s: loss %zu is %.9g, not %.9g",
              c->what, i, far.losses[i], near.losses[i]);
    cuda_standin_seed(3);
    train(&other, folder, "cuda", true);
    check(cuda_training_same_result(&far, &other), "%s: other bits without a graph", c->what);
    cuda_standin_seed(0);
    cuda_training_close(&near);
    cuda_training_close(&far);
    cuda_training_close(&other);
    remove_files(folder);
}

/* --- a library that has none -------------------------------------------------------------------------------------- */

/* The n-th question for an algorithm is refused: those for the 5 products come first, and what follows a product is
 * done by kernels then. */
static void train_refused(const char *folder, int n) {
    char fault[40];
    cuda_training near, far;
    train(&near, folder, NULL, false);
    snprintf(fault, sizeof fault, "heuristic:%d", n);
    setenv("WEFT_STANDIN_FAIL", fault, 1);
    train(&far, folder, "cuda", false);
    for (size_t i = 0; i < near.nlosses; i++)
        check(fabs(near.losses[i] - far.losses[i]) <= 1e-5 * fabs(near.losses[i]), "question %d: loss %zu is %.9g", n,
              i, far.losses[i]);
    bool as_ever = true;
    for (const launches *l = cases[0].of; l->epilogue; l++)
        as_ever = as_ever && count_products(l->epilogue) == 2 * l->n;
    check(as_ever == (n > 10), "question %d makes no difference", n);
    cuda_training_close(&near);
    cuda_training_close(&far);
    exit(report_checks());
}

/* In processes of their own, while there are no threads. */
static void test_refusals(const char *recorded) {
    char folder[] = "/tmp/weft-epilogues-XXXXXX";
    check(mkdtemp(folder) != NULL, "no folder");
    write_program(recorded, folder, &cases[0]);
    for (int n = 6; n <= 12; n++) {
        int how = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) train_refused(folder, n);
        waitpid(child, &how, 0);
        check(WIFEXITED(how) && WEXITSTATUS(how) == 0, "question %d is refused: exit %d", n, how);
    }
    remove_files(folder);
}

int main(void) {
    char recorded[TRAINING_PATH];
    if (!cuda_standin_open() || !fixture_path(recorded, sizeof recorded, "paddle26/mlp_sgd_dp2")) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    if (!cuda_standin_is_left_out()) test_refusals(recorded);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) test_case(recorded, &cases[i]);
    return report_checks();
}
