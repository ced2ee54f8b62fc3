/* run.h: what the files of `weft run` share. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "weft/trainer.h"

/* Recorded losses to compare with (--expect). */
typedef struct expectation {
    weft_tensors *file;
    const weft_tensor *losses; /* NULL: nothing to compare with */
    double tolerance, worst;
} expectation;

WEFT_MUST_USE weft_status expectation_init(expectation *e, const cli_args *args);
void expectation_fini(expectation *e);
/* Prints a step's loss (the mean over ranks) beside the recorded one. */
void expectation_compare(expectation *e, size_t step, double loss);
/* Whether every loss was within the tolerance; says so. */
bool expectation_held(const expectation *e);

/* `path` with every "{rank}" replaced; the caller frees. NULL: out of memory. */
char *rank_path(const char *path, int rank);
bool has_rank(const char *path);

/* Writes --save and every --trace. */
WEFT_MUST_USE weft_status save_results(const cli_args *args, const weft_trainer *trainer);
WEFT_MUST_USE weft_status save_traces(const cli_args *args, const weft_trainer *trainer);

#endif
