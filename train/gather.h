/* gather.h: what processes tell one another of their ranks' values. Called by all processes at the same time. */
#ifndef TRAIN_GATHER_H
#define TRAIN_GATHER_H

#include "executor/gather.h"
#include "train/trainer.h"

/* `nbytes` of each own rank, to those of every rank. */
WEFT_MUST_USE weft_status gather_each(const weft_trainer *t, const void *mine, size_t nbytes, void *all);

/* Names, each with its NUL, of all processes in the order of their ranks. */
WEFT_MUST_USE weft_status gather_names(const weft_trainer *t, arena *a, const buffer *mine, gathered_bytes *out);

/* nbytes[r] of rank r, known to all; own: where this process's lie. out: by rank, where they are; in `a` those of other
 * processes. */
WEFT_MUST_USE weft_status gather_parts(const weft_trainer *t, arena *a, const size_t *nbytes, const void *const *own,
                                       const void **out);

#endif
