/* far_device.c: recorded programs train on a device whose memory the host cannot touch, with the bits of the CPU: that
 * nothing outside of a device looks at a tensor's bytes. Those of several ranks train once more with an engine that
 * puts collectives on the device's streams. A plain main, because these are threads. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/far_device.h"
#include "tests/support/far_engine.h"
#include "tests/support/fixtures.h"
#include "tests/support/plain.h"
#include "weft/trainer.h"

enum { MOST_RANKS = 8, STEPS = 3, PATH_NBYTES = 600 };

#if defined(__SANITIZE_THREAD__)
enum { IS_TSAN = 1 };
#else
enum { IS_TSAN = 0 };
#endif

/* --- runs --------------------------------------------------------------------------------------------------------- */

typedef struct session {
    weft_context *context;
    weft_program *programs[MOST_RANKS];
    int nprograms;
    weft_tensors *params, *feeds;
    weft_trainer *trainer;
    weft_status status; /* of what was refused */
    weft_tensors *result;
} session;

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

static void load(session *s, const char *folder, const char *form, int nprograms) {
    char path[PATH_NBYTES];
    must(weft_context_create(NULL, &s->context));
    must(device_register(s->context, &device_far));
    for (s->nprograms = 0; s->nprograms < nprograms; s->nprograms++) {
        snprintf(path, sizeof path, form, folder, s->nprograms);
        must(weft_program_load(s->context, path, NULL, &s->programs[s->nprograms]));
    }
    snprintf(path, sizeof path, "%s/params.npz", folder);
    must(weft_tensors_load(s->context, path, s->programs[0], &s->params));
    snprintf(path, sizeof path, "%s/feeds.npz", folder);
    must(weft_tensors_load(s->context, path, s->programs[0], &s->feeds));
}

static weft_status train(session *s, const char *device_name, bool is_enqueued) {
    comm_host host = far_engine_host(comm_local_host(s->nprograms));
    const weft_tensors *feeds[] = {s->feeds};
    weft_trainer_options options = {WEFT_TRAINER_OPTIONS_INIT,
                                    .programs = (const weft_program *const *)s->programs,
                                    .nprograms = (size_t)s->nprograms,
                                    .params = s->params,
                                    .feeds = feeds,
                                    .executor =
                                        &(weft_executor_options){WEFT_EXECUTOR_OPTIONS_INIT, .device = device_name,
                                                                 .host = is_enqueued ? &host : NULL}};
    TRY(weft_trainer_create(s->context, &options, &s->trainer));
    size_t nsteps = weft_trainer_nsteps(s->trainer);
    for (size_t step = 0; step < nsteps && step < STEPS; step++) TRY(weft_trainer_step(s->trainer, step));
    return weft_trainer_result(s->trainer, &s->result);
}

static void open_session(session *s, const char *folder, const char *form, int nprograms, const char *device_name,
                         bool is_enqueued) {
    *s = (session){0};
    load(s, folder, form, nprograms);
    s->status = train(s, device_name, is_enqueued);
}

static void close_session(session *s) {
    weft_status_free(s->status);
    weft_tensors_destroy(s->result);
    weft_trainer_destroy(s->trainer);
    weft_tensors_destroy(s->feeds);
    weft_tensors_destroy(s->params);
    for (int i = 0; i < s->nprograms; i++) weft_program_destroy(s->programs[i]);
    weft_context_destroy(s->context);
}

/* The name of a tensor that differs; NULL: none. */
static const char *differing(const session *a, const session *b) {
    if (weft_tensors_count(a->result) != weft_tensors_count(b->result)) return "how many there are";
    for (size_t i = 0; i < weft_tensors_count(a->result); i++) {
        const weft_tensor *t = weft_tensors_at(a->result, i), *u = weft_tensors_find(b->result, t->name);
        if (!u || u->nbytes != t->nbytes || (t->nbytes && memcmp(u->data, t->data, t->nbytes) != 0)) return t->name;
    }
    return NULL;
}

static int ntrained;

static void compare_with(const session *near, const char *folder, const char *form, bool is_enqueued) {
    session far;
    open_session(&far, folder, form, near->nprograms, "far", is_enqueued);
    const char *a = weft_status_message(near->status), *b = weft_status_message(far.status);
    check((near->status != NULL) == (far.status != NULL), "%s %s: cpu \"%s\", far \"%s\"", folder, form, a, b);
    if (!near->status && !far.status) {
        ntrained++;
        const char *n = differing(near, &far);
        check(!n, "%s %s%s: \"%s\" differs", folder, form, is_enqueued ? ", enqueued" : "", n ? n : "");
    }
    close_session(&far);
}

/* The programs of a folder, `form` with the folder and a rank's number. */
static void compare(const char *folder, const char *form, int nprograms) {
    session near;
    open_session(&near, folder, form, nprograms, NULL, false);
    compare_with(&near, folder, form, false);
    if (nprograms > 1) compare_with(&near, folder, form, true);
    close_session(&near);
}

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const char *const forms[] = {"%s/rank%d.pdmodel", "%s/rank%d.after.default.pdmodel", "%s/rank%d.final.pdmodel",
                                    "%s/rank%d.after.group4k.pdmodel"};

static void compare_folder(const char *folder, size_t nforms) {
    char path[2 * PATH_NBYTES + 40];
    snprintf(path, sizeof path, "%s/params.npz", folder);
    if (!exists(path)) return;
    snprintf(path, sizeof path, "%s/serial.pdmodel", folder);
    if (exists(path)) compare(folder, "%s/serial.pdmodel", 1);
    for (size_t k = 0; k < nforms; k++) {
        int nranks = 0;
        for (; nranks < MOST_RANKS; nranks++) {
            snprintf(path, sizeof path, forms[k], folder, nranks);
            if (!exists(path)) break;
        }
        if (nranks > 1) compare(folder, forms[k], nranks);
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

static void test_programs(void) {
    static const char *const few[] = {"paddle26/mlp_adam_dp2_lossscale",
                                      "paddle26/sparse_emb_dp2",
                                      "paddle26/mlp_dp2_sharding",
                                      "paddle26/mlp_dp2_gradmerge",
                                      "paddle26/mlp_dp2_sp2_tworings",
                                      "paddle26/mlp_adam_dp2_amp",
                                      "paddle26/twoloss_dp2",
                                      "paddle3/mlp_adam_dp2"};
    char folder[PATH_NBYTES];
    const char *is_long = getenv("WEFT_LONG_TESTS");
    if (is_long && *is_long && !IS_TSAN) {
        compare_era("paddle26");
        compare_era("paddle3");
        return;
    }
    for (size_t i = 0; i < (IS_TSAN ? 3 : sizeof few / sizeof *few); i++)
        if (fixture_path(folder, sizeof folder, few[i])) compare_folder(folder, 2);
}

/* --- the wall ----------------------------------------------------------------------------------------------------- */

/* A host that follows an address of the device dies of it. */
static void test_memory_is_out_of_reach(void) {
    weft_allocator allocator = {0};
    weft_context *context;
    must(weft_context_create(NULL, &context));
    allocator = context->allocator;
    device *d;
    device_memory m;
    must(device_far.open(&allocator, 1, &d));
    must(device_far.alloc(d, 0, DEVICE_OWN, 5000, &m));
    char out[4] = "", in[4] = {1, 2, 3, 4};
    must(device_far.copy_in(d, 0, (char *)m.bytes + 4996, in, sizeof in));
    must(device_far.copy_out(d, 0, out, (char *)m.bytes + 4996, sizeof out));
    check(memcmp(in, out, sizeof in) == 0, "what goes in comes out");
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        _exit(((volatile char *)m.bytes)[4996] == 1 ? 0 : 1);
    }
    int how = 0;
    waitpid(child, &how, 0);
    check(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV, "the host read the device's memory");
    device_far.free(d, &m);
    device_far.close(d);
    weft_context_destroy(context);
}

static void test_devices_are_found_by_name(void) {
    weft_context *context;
    const device_engine *found;
    must(weft_context_create(NULL, &context));
    weft_status status = device_find(context, "far", &found);
    check(weft_status_code(status) == WEFT_NOT_FOUND && strstr(weft_status_message(status), "there are cpu"), "\"%s\"",
          weft_status_message(status));
    weft_status_free(status);
    must(device_register(context, &device_far));
    must(device_find(context, "far", &found));
    check(found == &device_far, "far is found");
    must(device_find(context, NULL, &found));
    check(strcmp(found->name, "cpu") == 0, "cpu is the default");
    weft_context_destroy(context);
}

int main(void) {
    test_devices_are_found_by_name();
    test_memory_is_out_of_reach();
    test_programs();
    check(ntrained >= 3, "%d programs trained", ntrained);
    far_counts counts = far_device_counts();
    check(counts.ninstrs > 100 && counts.ncopied_in > 10 && counts.ncopied_out > 10 && counts.nenqueued > 10,
          "%ld, %ld, %ld, %ld", counts.ninstrs, counts.ncopied_in, counts.ncopied_out, counts.nenqueued);
    check(counts.nfreed_early == 0, "%ld blocks of memory go before the rings that had them", counts.nfreed_early);
    return report_checks();
}
