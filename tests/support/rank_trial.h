/* rank_trial.h: programs of ranks, judged against a serial program and run beside it. */
#ifndef TESTS_SUPPORT_RANK_TRIAL_H
#define TESTS_SUPPORT_RANK_TRIAL_H

#include <stdbool.h>
#include <stddef.h>

#include "weft/program.h"

enum { MOST_RANKS = 4, TEXT = 12000 };

/* The ranks' programs and the serial one, as text, and what came of them. */
typedef struct trial {
    int nranks;
    char serial[TEXT], ranks[MOST_RANKS][TEXT];
    size_t at;          /* of the text being written */
    double tolerance;   /* 0: the same bits */
    bool proved, equal; /* judged; run */
    bool lacks_reduce;  /* seen without the serial program */
    char message[400];  /* why not proved */
} trial;

/* Appends to the text that is being written. */
void put(trial *t, char *to, const char *format, ...) WEFT_PRINTF(3, 4);
/* Wherever `from` is in the program's text; false: nowhere. */
bool trial_replace(char *in, const char *from, const char *to);
/* Judges the programs and runs them, from the same state, of which a rank has its part. Fp32 state is compared. */
void trial_run(weft_context *context, trial *t);
/* Judges them with each allocation failing in turn. False: one is not told, or leaks; *words says so. */
bool trial_fail_each(const trial *t, char *message, size_t nbytes);

#endif
