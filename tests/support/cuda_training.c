#include "tests/support/cuda_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "tests/support/must.h"

/* The last "loss": "NAME" of case.json. */
static bool read_loss(const char *folder, char *out, size_t nbytes) {
    char path[TRAINING_PATH + 40], json[20000];
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

static void load(cuda_training *s, const char *folder, const char *form, int nprograms) {
    char path[TRAINING_PATH];
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

static weft_status train(cuda_training *s, const char *loss, const weft_executor_options *executor) {
    const weft_tensors *feeds[] = {s->feeds};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = (const weft_program *const *)s->programs,
                                    .nprograms = (size_t)s->nprograms,
                                    .params = s->params,
                                    .feeds = feeds,
                                    .fetches = &loss,
                                    .nfetches = 1,
                                    .executor = executor};
    TRY(weft_trainer_create(s->context, &options, &s->trainer));
    size_t nsteps = weft_trainer_nsteps(s->trainer);
    for (size_t step = 0; step < nsteps && step < TRAINING_STEPS; step++) {
        TRY(weft_trainer_step(s->trainer, step));
        for (int r = 0; r < s->nprograms; r++) {
            double value;
            if (weft_trainer_fetch_scalar(s->trainer, r, 0, &value)) s->losses[s->nlosses++] = value;
        }
    }
    return NULL;
}

void cuda_training_open(cuda_training *s, const char *folder, const char *form, int nprograms,
                        const weft_executor_options *executor) {
    char loss[200];
    *s = (cuda_training){0};
    if (!read_loss(folder, loss, sizeof loss)) return;
    load(s, folder, form, nprograms);
    s->status = train(s, loss, executor);
}

void cuda_training_close(cuda_training *s) {
    weft_status_free(s->status);
    weft_trainer_destroy(s->trainer);
    weft_tensors_destroy(s->feeds);
    weft_tensors_destroy(s->params);
    for (int i = 0; i < s->nprograms; i++) weft_program_destroy(s->programs[i]);
    weft_context_destroy(s->context);
}

bool cuda_training_same_result(const cuda_training *a, const cuda_training *b) {
    weft_tensors *x = NULL, *y = NULL;
    must(weft_trainer_result(a->trainer, &x));
    must(weft_trainer_result(b->trainer, &y));
    bool same = weft_tensors_count(x) == weft_tensors_count(y);
    for (size_t i = 0; i < weft_tensors_count(x) && same; i++) {
        const weft_tensor *t = weft_tensors_at(x, i), *u = weft_tensors_find(y, t->name);
        same = u && t->nbytes == u->nbytes && (!t->nbytes || memcmp(t->data, u->data, t->nbytes) == 0);
    }
    weft_tensors_destroy(x);
    weft_tensors_destroy(y);
    return same;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

enum { SAID_SO = 3, NO_FIXTURE = 4 };

static void train_failing(const char *program, const char *call, int n, const weft_executor_options *executor) {
    char fault[60], folder[TRAINING_PATH];
    cuda_training s;
    snprintf(fault, sizeof fault, "%s:%d", call, n);
    setenv("WEFT_STANDIN_FAIL", fault, 1);
    if (!fixture_path(folder, sizeof folder, program)) exit(NO_FIXTURE);
    cuda_training_open(&s, folder, "%s/rank%d.after.default.pdmodel", 2, executor);
    int result = s.status ? SAID_SO : 0;
    cuda_training_close(&s);
    exit(result);
}

bool cuda_training_fails(const char *program, const char *call, const weft_executor_options *executor, char *what,
                         size_t nbytes) {
    int nsaid = 0, result = SAID_SO;
    for (int n = 1; n < 4000 && result == SAID_SO; n *= 3) {
        int how = 0;
        fflush(stdout);
        pid_t child = fork();
        if (!child) train_failing(program, call, n, executor);
        waitpid(child, &how, 0);
        result = WIFEXITED(how) ? WEXITSTATUS(how) : 100;
        nsaid += result == SAID_SO;
    }
    snprintf(what, nbytes, "%s: %d failures were told, the last run ended with %d", call, nsaid, result);
    return nsaid > 0 && result == 0;
}
