/* run_save.c: what a run leaves: tensors, timelines. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run_parts.h"

static bool is_recorded(const weft_var *v) {
    return weft_var_persistable(v) && weft_var_kind_of(v) == WEFT_DENSE_TENSOR;
}

/* A .pdiparams file has no names: it must hold exactly the persistables of the program that it will be read with. */
static weft_status check_recorded(const weft_tensors *set, const weft_program *program, const char *path) {
    static const char *const hint = "save an .npz, or {rank}.pdiparams for a file per rank";
    const weft_block *block = weft_program_block(program, 0);
    size_t nrecords = 0;
    for (size_t i = 0; i < weft_block_nvars(block); i++) {
        const weft_var *v = weft_block_var_at(block, i);
        if (!is_recorded(v)) continue;
        nrecords++;
        if (!weft_tensors_find(set, weft_var_name(v)))
            return weft_status_create(WEFT_UNSUPPORTED, path,
                                      "a file without names must hold every persistable of the program; \"%s\" has no "
                                      "known type or is not on the rank: %s",
                                      weft_var_name(v), hint);
    }
    if (nrecords == weft_tensors_count(set)) return NULL;
    return weft_status_create(WEFT_UNSUPPORTED, path,
                              "the ranks' programs have %zu persistables together, the first %zu, and the file would "
                              "have no names: %s",
                              weft_tensors_count(set), nrecords, hint);
}

/* Of one rank, or with rank -1 of all, joined; then every process takes part, and one of them writes. */
static weft_status save_set(const weft_trainer *trainer, const char *path, int rank, const run_state *end,
                            const weft_program *program, bool writes) {
    weft_tensors *set = NULL;
    weft_status status;
    if (cli_ends_with(path, ".pdiparams")) {
        status = rank < 0 ? weft_trainer_state(trainer, &set) : weft_trainer_rank_state(trainer, rank, &set);
        if (!status && writes) status = check_recorded(set, program, path);
    } else {
        status = rank < 0 ? weft_trainer_result(trainer, &set) : weft_trainer_rank_result(trainer, rank, &set);
        if (!status) status = run_state_mark(end, set);
    }
    if (!status && writes) status = weft_tensors_save(set, path);
    weft_tensors_destroy(set);
    return status;
}

static weft_status save_rank(const weft_trainer *trainer, const char *path, int rank, const run_state *end,
                             const weft_program *program) {
    char *file = rank_path(path, rank);
    if (!file) return weft_status_create(WEFT_OUT_OF_MEMORY, path, "out of memory");
    weft_status status = save_set(trainer, file, rank, end, program, true);
    free(file);
    return status;
}

static weft_status save_to(const char *path, const cli_args *args, const weft_trainer *trainer, const run_state *end,
                           weft_program *const *programs, bool speaks) {
    weft_status status = NULL;
    if (!has_rank(path)) return save_set(trainer, path, -1, end, programs[0], speaks);
    for (int rank = 0; !status && rank < weft_trainer_nranks(trainer); rank++)
        if (weft_trainer_has_rank(trainer, rank))
            status = save_rank(trainer, path, rank, end, programs[args->npositional > 1 ? rank : 0]);
    return status;
}

weft_status save_results(const cli_args *args, const weft_trainer *trainer, const run_state *end,
                         weft_program *const *programs, bool speaks, bool is_last) {
    const char *given = cli_value(args, "--save");
    if (!given) return NULL;
    char *path = path_with(given, "{step}", (long long)end->step);
    if (!path) return cli_no_memory();
    stop_hold(true);
    weft_status status = save_to(path, args, trainer, end, programs, speaks);
    if (!status && speaks && is_last && cli_ends_with(path, ".pdiparams"))
        fprintf(stderr,
                "summary: %s has no room for the step: go on with --load %s --first-step %" PRId64 " --seed %" PRId64
                "\n",
                path, path, end->step, end->seed);
    stop_hold(false);
    free(path);
    return status;
}

static weft_status save_trace(const cli_args *args, const weft_trainer *trainer, const char *path, bool writes) {
    size_t n = strlen(path);
    bool html = n > 5 && strcmp(path + n - 5, ".html") == 0;
    const weft_executor *executor = weft_trainer_executor(trainer);
    char *bytes;
    size_t nbytes;
    weft_status status = html ? weft_executor_trace_html(executor, args->positional[0], &bytes, &nbytes)
                              : weft_executor_trace_json(executor, &bytes, &nbytes);
    if (!status && writes) {
        stop_hold(true);
        status = cli_write_taken(args, path, bytes, nbytes);
        stop_hold(false);
        return status;
    }
    if (!status) weft_bytes_free(args->context, bytes, nbytes);
    return status;
}

weft_status save_traces(const cli_args *args, const weft_trainer *trainer, bool writes) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--trace") == 0) status = save_trace(args, trainer, args->values[i], writes);
    return status;
}
