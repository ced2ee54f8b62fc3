/* cuda_device.c: recorded programs train on device cuda, over stand-ins for the libraries of CUDA, with the losses of
 * the CPU. A plain main, because these are threads. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/cuda_training.h"
#include "tests/support/plain.h"

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

/* On a machine with a GPU its ranks share it. */
static weft_executor_options options_of(const char *device_name, int nranks, bool is_traced) {
    bool shares = device_name && nranks > 1 && cuda_standin_is_left_out();
    return (weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .device = device_name, .trace = is_traced,
                                   .rings = shares ? "loopback" : NULL, .unsafe = true};
}

static int ntrained;
static unsigned nschedules; /* of streams, by each of which programs are trained */
static bool is_long;

static void compare_losses(const cuda_training *near, const cuda_training *far, double tolerance, const char *what) {
    const char *a = weft_status_message(near->status), *b = weft_status_message(far->status);
    check((near->status != NULL) == (far->status != NULL), "%s: one says \"%s\", the other \"%s\"", what, a, b);
    check(near->nlosses == far->nlosses, "%s: %zu losses, %zu", what, near->nlosses, far->nlosses);
    for (size_t i = 0; i < near->nlosses && i < far->nlosses; i++)
        check(fabs(near->losses[i] - far->losses[i]) <= tolerance * fabs(near->losses[i]),
              "%s: loss %zu is %.9g, not %.9g", what, i, far->losses[i], near->losses[i]);
}

/* Bits do not depend on what order streams run in, nor on whether steps are graphs. */
static void compare_schedule(const cuda_training *first, const char *folder, const char *form, int nprograms,
                             unsigned seed, bool no_graph) {
    char what[2 * TRAINING_PATH];
    cuda_training other;
    weft_executor_options options = options_of("cuda", nprograms, false);
    options.no_graph = no_graph;
    cuda_standin_seed(seed);
    cuda_training_open(&other, folder, form, nprograms, &options);
    snprintf(what, sizeof what, "%s %s, schedule %u%s", folder, form, seed, no_graph ? " without graphs" : "");
    compare_losses(first, &other, 0, what);
    if (!first->status && !other.status) check(cuda_training_same_result(first, &other), "%s: values differ", what);
    cuda_training_close(&other);
    cuda_standin_seed(0);
}

/* In the long form a few programs are trained by many. */
static unsigned schedules_of(const char *folder) {
    static const char *const often[] = {"/mlp_sgd_dp2", "/lenet_momentum_dp2", "/gpt_tiny_adamw_dp2"};
    enum { OFTEN = 100 };
    for (size_t i = 0; is_long && i < sizeof often / sizeof *often; i++)
        if (strstr(folder, often[i])) return OFTEN;
    return nschedules;
}

static void compare(const char *folder, const char *form, int nprograms, bool is_traced) {
    cuda_training near, far;
    weft_executor_options on_cpu = options_of(NULL, nprograms, false),
                          on_cuda = options_of("cuda", nprograms, is_traced);
    char what[2 * TRAINING_PATH];
    snprintf(what, sizeof what, "%s %s", folder, form);
    cuda_training_open(&near, folder, form, nprograms, &on_cpu);
    cuda_training_open(&far, folder, form, nprograms, &on_cuda);
    compare_losses(&near, &far, 1e-4, what);
    ntrained += near.nlosses > 0;
    for (unsigned seed = 1, n = schedules_of(folder); seed < n; seed++) {
        compare_schedule(&far, folder, form, nprograms, seed, false);
        if (seed == 1 || (is_long && seed < nschedules)) compare_schedule(&far, folder, form, nprograms, seed, true);
    }
    cuda_training_close(&near);
    cuda_training_close(&far);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const char *const forms[] = {"%s/rank%d.pdmodel", "%s/rank%d.after.default.pdmodel", "%s/rank%d.final.pdmodel",
                                    "%s/rank%d.after.group4k.pdmodel"};

static void compare_folder(const char *folder, size_t nforms) {
    char path[TRAINING_PATH + 40];
    snprintf(path, sizeof path, "%s/params.npz", folder);
    if (!exists(path)) return;
    snprintf(path, sizeof path, "%s/serial.pdmodel", folder);
    if (exists(path)) compare(folder, "%s/serial.pdmodel", 1, true);
    for (size_t k = 0; k < nforms; k++) {
        int nranks = 0;
        for (; nranks < TRAINING_RANKS; nranks++) {
            snprintf(path, sizeof path, forms[k], folder, nranks);
            if (!exists(path)) break;
        }
        if (nranks > 1) compare(folder, forms[k], nranks, false);
    }
}

static void compare_era(const char *era) {
    char root[TRAINING_PATH], folder[2 * TRAINING_PATH];
    if (!fixture_path(root, sizeof root, era)) return;
    DIR *all = opendir(root);
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all)) {
        if (e->d_name[0] == '.') continue;
        snprintf(folder, sizeof folder, "%s/%s", root, e->d_name);
        if (strlen(folder) < TRAINING_PATH - 40) compare_folder(folder, sizeof forms / sizeof *forms);
    }
    if (all) closedir(all);
}

/* --- what is one launch ------------------------------------------------------------------------------------------- */

/* Launches of a kernel while a program trains. */
static int count_launches(const char *folder, const char *which, bool is_traced) {
    cuda_training s;
    weft_executor_options options = options_of("cuda", 1, is_traced);
    int before = cuda_standin_launches(which);
    cuda_training_open(&s, folder, "%s/serial.pdmodel", 1, &options);
    check(!s.status, "%s: %s", folder, weft_status_message(s.status));
    cuda_training_close(&s);
    return cuda_standin_launches(which) - before;
}

/* All parameters of an optimizer are one launch in a step that is issued, and one in the graph. */
static void test_groups(void) {
    static const char *const programs[][2] = {{"paddle26/mlp_sgd_dp2", "update_sgd"},
                                              {"paddle26/mlp_adam_dp2_lossscale", "update_adam"},
                                              {"paddle3/lenet_momentum_dp2", "update_momentum"}};
    char folder[TRAINING_PATH], many[100];
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        const char *one = programs[i][1];
        if (!fixture_path(folder, sizeof folder, programs[i][0])) continue;
        snprintf(many, sizeof many, "%s_many", one);
        int n = count_launches(folder, one, false);
        check(n == 0, "%s: %s is launched %d times by itself", folder, one, n);
        n = count_launches(folder, many, false);
        check(n == 2, "%s: %s is launched %d times", folder, many, n);
        n = count_launches(folder, one, true);
        check(n > 2, "%s: %s has %d times of its own", folder, one, n);
    }
}

/* A row that is added to a product, and relu behind it, are the product's. */
static void test_epilogues(void) {
    static const char *const gone[] = {"strided_add", "unary_relu"};
    char folder[TRAINING_PATH];
    if (!fixture_path(folder, sizeof folder, "paddle26/mlp_sgd_dp2")) return;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        int n = count_launches(folder, gone[i], false);
        check(n == 0, "%s: %s is launched %d times", folder, gone[i], n);
    }
}

int main(void) {
    static const char *const few[] = {"paddle26/mlp_adam_dp2_lossscale",
                                      "paddle26/mlp_dp2_sharding",
                                      "paddle26/mlp_dp2_gradmerge",
                                      "paddle26/mlp_adam_dp2_amp",
                                      "paddle26/twoloss_dp2",
                                      "paddle26/gpt_tiny_dp2_mp2",
                                      "paddle3/mlp_adam_dp2",
                                      "paddle3/lenet_momentum_dp2"};
    char folder[TRAINING_PATH];
    const char *asked = getenv("WEFT_LONG_TESTS");
    bool is_slow = getenv("WEFT_SANITIZED") != NULL;
    is_long = asked && *asked && !is_slow;
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    bool is_on_gpu = cuda_standin_is_left_out();
    if (!is_on_gpu) { /* the stand-in counts what is launched */
        test_groups();
        test_epilogues();
    }
    nschedules = is_slow ? 2 : is_long ? 10 : 3;
    if (is_long || is_on_gpu) {
        compare_era("paddle26");
        compare_era("paddle3");
    } else {
        for (size_t i = 0; i < (is_slow ? 3 : sizeof few / sizeof *few); i++)
            if (fixture_path(folder, sizeof folder, few[i])) compare_folder(folder, 2);
    }
    check(ntrained > 3, "%d programs trained", ntrained);
    return report_checks();
}
