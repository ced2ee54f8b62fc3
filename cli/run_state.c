/* run_state.c: where a run begins and what it can go on from: startup programs, saved states.
 *
 * A state file (--save) holds every persistable by name. An .npz has the number of the next step and the seed beside
 * them. So --load goes on with the same feeds and the same random numbers. A .pdiparams file has room for neither:
 * --first-step and --seed say them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_parts.h"

static const char *const step_mark = "weft.step", *const seed_mark = "weft.seed";

static size_t count_files(const char *path, int nranks) {
    return has_rank(path) ? (size_t)nranks : 1;
}

/* Of a program per rank those of the ranks that are here. */
static weft_status load_startups(run_state *s, const cli_session *in, const char *path) {
    size_t nfiles = count_files(path, in->nranks);
    s->startups = calloc(nfiles, sizeof *s->startups);
    if (!s->startups) return cli_no_memory();
    s->nstartups = nfiles;
    weft_status status = NULL;
    for (size_t i = 0; !status && i < nfiles; i++) {
        if (has_rank(path) && !cli_session_has_rank(in, i)) continue;
        char *file = rank_path(path, (int)i);
        if (!file) return cli_no_memory();
        status = weft_program_load(in->args->context, file, NULL, &s->startups[i]);
        free(file);
    }
    return status;
}

/* Of a file per rank those of the ranks that are here. */
static weft_status load_tensors(run_state *s, cli_session *in, const char *path) {
    size_t nfiles = count_files(path, in->nranks);
    s->tensors = calloc(nfiles, sizeof *s->tensors);
    if (!s->tensors) return cli_no_memory();
    s->ntensors = nfiles;
    weft_status status = NULL;
    if (nfiles == 1 && !has_rank(path)) return cli_session_load_params(in, path, &s->tensors[0]);
    for (size_t i = 0; !status && i < nfiles; i++) {
        if (!cli_session_has_rank(in, i)) continue;
        char *file = rank_path(path, (int)i);
        if (!file) return cli_no_memory();
        status =
            weft_tensors_load(in->args->context, file, in->programs[i < in->args->npositional ? i : 0], &s->tensors[i]);
        free(file);
    }
    return status;
}

static weft_status read_mark(const weft_tensors *set, const char *path, const char *mark, int64_t *out) {
    const weft_tensor *t = weft_tensors_find(set, mark);
    if (!t) return NULL;
    if (t->dtype != WEFT_INT64 || t->nbytes != sizeof *out)
        return weft_status_create(WEFT_PARSE, path, "\"%s\": expected one int64", mark);
    memcpy(out, t->data, sizeof *out);
    if (*out < 0)
        return weft_status_create(WEFT_PARSE, path, "\"%s\": expected a number that is not negative, found %" PRId64,
                                  mark, *out);
    return NULL;
}

weft_status run_state_load(run_state *s, cli_session *in) {
    const cli_args *args = in->args;
    const char *startup = cli_value(args, "--startup"), *load = cli_value(args, "--load");
    weft_status status = startup ? load_startups(s, in, startup) : NULL;
    if (status || !load) return status;
    status = load_tensors(s, in, load);
    const weft_tensors *any = s->tensors ? s->tensors[has_rank(load) ? in->first_rank : 0] : NULL;
    if (!status) status = read_mark(any, load, step_mark, &s->step);
    if (!status) status = read_mark(any, load, seed_mark, &s->seed);
    return status;
}

void run_state_fini(run_state *s) {
    for (size_t i = 0; s->startups && i < s->nstartups; i++) weft_program_destroy(s->startups[i]);
    for (size_t i = 0; s->tensors && i < s->ntensors; i++) weft_tensors_destroy(s->tensors[i]);
    free(s->startups);
    free(s->tensors);
    *s = (run_state){0};
}

static weft_status put_mark(weft_tensors *set, const char *mark, int64_t value) {
    weft_tensor *t;
    weft_status status = weft_tensors_add(set, mark, WEFT_INT64, 1, (const int64_t[]){1}, &t);
    if (!status) memcpy(t->data, &value, sizeof value);
    return status;
}

weft_status run_state_mark(const run_state *s, weft_tensors *set) {
    weft_status status = put_mark(set, step_mark, s->step);
    return status ? status : put_mark(set, seed_mark, s->seed);
}
