#include "tests/support/cuda_training.h"

#include <stdio.h>
#include <string.h>

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
