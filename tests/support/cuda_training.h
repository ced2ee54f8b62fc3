/* cuda_training.h: a recorded program trained for some steps on a device, for tests. */
#ifndef TESTS_SUPPORT_CUDA_TRAINING_H
#define TESTS_SUPPORT_CUDA_TRAINING_H

#include "tests/support/fixtures.h"
#include "weft/trainer.h"

enum { TRAINING_RANKS = 8, TRAINING_STEPS = 3, TRAINING_LOSSES = TRAINING_STEPS * TRAINING_RANKS, TRAINING_PATH = 600 };

typedef struct cuda_training {
    weft_context *context;
    weft_program *programs[TRAINING_RANKS];
    int nprograms;
    weft_tensors *params, *feeds;
    weft_trainer *trainer;
    double losses[TRAINING_LOSSES];
    size_t nlosses;
    weft_status status;
} cuda_training;

/* The programs of a folder, whose names `form` makes of the folder and a rank; as many steps as there are feeds, at
 * most TRAINING_STEPS. */
void cuda_training_open(cuda_training *s, const char *folder, const char *form, int nprograms,
                        const weft_executor_options *executor);
void cuda_training_close(cuda_training *s);

/* Whether the last values of all parameters and state are the same bits. */
bool cuda_training_same_result(const cuda_training *a, const cuda_training *b);
/* A recorded program of two ranks is trained in processes. In each the n-th call of that kind on the stand-ins fails,
 * for more and more n until none is left. Whether each run said so and left nothing; else *what. While there are no
 * threads. */
bool cuda_training_fails(const char *program, const char *call, const weft_executor_options *executor, char *what,
                         size_t nbytes);

#endif
