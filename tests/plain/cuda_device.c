/* cuda_device.c: recorded programs train on device cuda, over stand-ins for the libraries of CUDA, with the losses of
 * the CPU. A plain main, because these are threads. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/cuda_standin.h"
#include "tests/support/fixtures.h"
#include "tests/support/plain.h"
#include "weft/trainer.h"

enum { MOST_RANKS = 8, STEPS = 3, MOST_LOSSES = STEPS * MOST_RANKS, PATH_NBYTES = 600 };

#if defined(__SANITIZE_THREAD__)
enum { IS_TSAN = 1 };
#else
enum { IS_TSAN = 0 };
#endif

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

typedef struct session {
    weft_context *context;
    weft_program *programs[MOST_RANKS];
    int nprograms;
    weft_tensors *params, *feeds;
    weft_trainer *trainer;
    double losses[MOST_LOSSES];
    size_t nlosses;
    weft_status status;
} session;

/* The last "loss": "NAME" of case.json. */
static bool read_loss(const char *folder, char *out, size_t nbytes) {
    char path[PATH_NBYTES + 40], json[20000];
    snprintf(path, sizeof path, "%s/case.json", folder);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    size_t n = fread(json, 1, sizeof json - 1, f);
    fclose(f);
    json[n] = '\0';
    const char *at = NULL;
    for (const char *next = json; (next = strstr(next, "\"loss\": \"")); next++) at = next + 9;
    if (!at) return false;
    snprintf(out, nbytes, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

static void load(session *s, const char *folder, const char *form, int nprograms) {
    char path[PATH_NBYTES];
    must(weft_context_create(NULL, &s->context));
    for (s->nprograms = 0; s->nprograms < nprograms; s->nprograms++) {
        snprintf(path, sizeof path, form, folder, s->nprograms);
        must(weft_program_load(s->context, path, NULL, &s->programs[s->nprograms]));
    }
    snprintf(path, sizeof path, "%s/params.npz", folder);
    must(weft_tensors_load(s->context, path, s->programs[0], &s->params));
    snprintf(path, sizeof path, "%s/feeds.npz", folder);
    must(weft_tensors_load(s->context, path, s->programs[0], &s->feeds));
}

static weft_status train(session *s, const char *loss, const char *device_name, bool is_traced) {
    const weft_tensors *feeds[] = {s->feeds};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = (const weft_program *const *)s->programs,
                                    .nprograms = (size_t)s->nprograms,
                                    .params = s->params,
                                    .feeds = feeds,
                                    .fetches = &loss,
                                    .nfetches = 1,
                                    .executor =
                                        &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .device = device_name,
                                                                 .trace = is_traced, .unsafe = true}};
    TRY(weft_trainer_create(s->context, &options, &s->trainer));
    size_t nsteps = weft_trainer_nsteps(s->trainer);
    for (size_t step = 0; step < nsteps && step < STEPS; step++) {
        TRY(weft_trainer_step(s->trainer, step));
        for (int r = 0; r < s->nprograms; r++) {
            double value;
            if (weft_trainer_fetch_scalar(s->trainer, r, 0, &value)) s->losses[s->nlosses++] = value;
        }
    }
    return NULL;
}

static void open_session(session *s, const char *folder, const char *form, int nprograms, const char *device_name,
                         bool is_traced) {
    char loss[200];
    *s = (session){0};
    if (!read_loss(folder, loss, sizeof loss)) return;
    load(s, folder, form, nprograms);
    s->status = train(s, loss, device_name, is_traced);
}

static void close_session(session *s) {
    weft_status_free(s->status);
    weft_trainer_destroy(s->trainer);
    weft_tensors_destroy(s->feeds);
    weft_tensors_destroy(s->params);
    for (int i = 0; i < s->nprograms; i++) weft_program_destroy(s->programs[i]);
    weft_context_destroy(s->context);
}

static int ntrained;

static void compare(const char *folder, const char *form, int nprograms, bool is_traced) {
    session near, far;
    open_session(&near, folder, form, nprograms, NULL, false);
    open_session(&far, folder, form, nprograms, "cuda", is_traced);
    const char *a = weft_status_message(near.status), *b = weft_status_message(far.status);
    check((near.status != NULL) == (far.status != NULL), "%s %s: cpu \"%s\", cuda \"%s\"", folder, form, a, b);
    check(near.nlosses == far.nlosses, "%s %s: %zu losses, %zu", folder, form, near.nlosses, far.nlosses);
    for (size_t i = 0; i < near.nlosses && i < far.nlosses; i++)
        check(fabs(near.losses[i] - far.losses[i]) <= 1e-4 * fabs(near.losses[i]), "%s %s: loss %zu is %.9g, not %.9g",
              folder, form, i, far.losses[i], near.losses[i]);
    ntrained += near.nlosses > 0;
    close_session(&near);
    close_session(&far);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const char *const forms[] = {"%s/rank%d.pdmodel", "%s/rank%d.after.default.pdmodel", "%s/rank%d.final.pdmodel",
                                    "%s/rank%d.after.group4k.pdmodel"};

static void compare_folder(const char *folder, size_t nforms) {
    char path[PATH_NBYTES + 40];
    snprintf(path, sizeof path, "%s/params.npz", folder);
    if (!exists(path)) return;
    snprintf(path, sizeof path, "%s/serial.pdmodel", folder);
    if (exists(path)) compare(folder, "%s/serial.pdmodel", 1, true);
    for (size_t k = 0; k < nforms; k++) {
        int nranks = 0;
        for (; nranks < MOST_RANKS; nranks++) {
            snprintf(path, sizeof path, forms[k], folder, nranks);
            if (!exists(path)) break;
        }
        if (nranks > 1) compare(folder, forms[k], nranks, false);
    }
}

static void compare_era(const char *era) {
    char root[PATH_NBYTES], folder[2 * PATH_NBYTES];
    if (!fixture_path(root, sizeof root, era)) return;
    DIR *all = opendir(root);
    for (struct dirent *e = all ? readdir(all) : NULL; e; e = readdir(all)) {
        if (e->d_name[0] == '.') continue;
        snprintf(folder, sizeof folder, "%s/%s", root, e->d_name);
        if (strlen(folder) < PATH_NBYTES - 40) compare_folder(folder, sizeof forms / sizeof *forms);
    }
    if (all) closedir(all);
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* Trains in a process of its own, in which the n-th call of a kind fails; 3: the run said so, and left nothing. */
static int train_failing(const char *call, int n) {
    char fault[60], folder[PATH_NBYTES];
    fflush(stdout);
    pid_t child = fork();
    if (child) {
        int how = 0;
        waitpid(child, &how, 0);
        return WIFEXITED(how) ? WEXITSTATUS(how) : 100;
    }
    session s;
    snprintf(fault, sizeof fault, "%s:%d", call, n);
    setenv("WEFT_STANDIN_FAIL", fault, 1);
    if (!fixture_path(folder, sizeof folder, "paddle26/mlp_sgd_dp2")) exit(4);
    open_session(&s, folder, "%s/rank%d.pdmodel", 2, "cuda", true);
    int result = s.status ? 3 : 0;
    close_session(&s);
    exit(result);
}

static void test_failures(void) {
    static const char *const calls[] = {"malloc", "memcpy", "launch", "load", "allreduce", "init"};
    for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
        int nsaid = 0, result = 3;
        for (int n = 1; n < 4000 && result == 3; n = n < 4 ? n + 1 : n * 2) {
            result = train_failing(calls[k], n);
            check(result == 3 || result == 0, "%s %d fails: the process ends with %d", calls[k], n, result);
            nsaid += result == 3;
        }
        check(nsaid > 0 && result == 0, "%s: %d failures were told, the last run ended with %d", calls[k], nsaid,
              result);
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
    char folder[PATH_NBYTES];
    const char *is_long = getenv("WEFT_LONG_TESTS");
    if (!cuda_standin_open()) {
        printf("0 passed, 0 failed, 1 skipped\n");
        return 0;
    }
    test_failures(); /* before there are threads here */
    if (is_long && *is_long && !IS_TSAN) {
        compare_era("paddle26");
        compare_era("paddle3");
    } else {
        for (size_t i = 0; i < (IS_TSAN ? 3 : sizeof few / sizeof *few); i++)
            if (fixture_path(folder, sizeof folder, few[i])) compare_folder(folder, 2);
    }
    check(ntrained > 3, "%d programs trained", ntrained);
    return report_checks();
}
