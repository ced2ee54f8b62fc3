/* run_save.c: what a run leaves: tensors, timelines. */
#include <stdlib.h>
#include <string.h>

#include "cli/run.h"

static weft_status save_rank(const weft_trainer *trainer, const char *path, int rank) {
    char *file = rank_path(path, rank);
    if (!file) return weft_status_create(WEFT_OUT_OF_MEMORY, path, "out of memory");
    weft_tensors *tensors = NULL;
    weft_status status = weft_trainer_rank_result(trainer, rank, &tensors);
    if (!status) status = weft_tensors_save(tensors, file);
    weft_tensors_destroy(tensors);
    free(file);
    return status;
}

weft_status save_results(const cli_args *args, const weft_trainer *trainer) {
    const char *path = cli_value(args, "--save");
    weft_status status = NULL;
    if (!path) return NULL;
    if (has_rank(path)) {
        for (int rank = 0; !status && rank < weft_trainer_nranks(trainer); rank++)
            status = save_rank(trainer, path, rank);
        return status;
    }
    weft_tensors *tensors = NULL;
    status = weft_trainer_result(trainer, &tensors);
    if (!status) status = weft_tensors_save(tensors, path);
    weft_tensors_destroy(tensors);
    return status;
}

static weft_status save_trace(const cli_args *args, const weft_trainer *trainer, const char *path) {
    size_t n = strlen(path);
    bool html = n > 5 && strcmp(path + n - 5, ".html") == 0;
    const weft_executor *executor = weft_trainer_executor(trainer);
    char *bytes;
    size_t nbytes;
    weft_status status = html ? weft_executor_trace_html(executor, args->positional[0], &bytes, &nbytes)
                              : weft_executor_trace_json(executor, &bytes, &nbytes);
    return status ? status : cli_write_taken(args, path, bytes, nbytes);
}

weft_status save_traces(const cli_args *args, const weft_trainer *trainer) {
    weft_status status = NULL;
    for (size_t i = 0; !status && i < args->ngiven; i++)
        if (strcmp(args->names[i], "--trace") == 0) status = save_trace(args, trainer, args->values[i]);
    return status;
}
