/* synthetic.h: serial training programs of any number of ops: a chain of linear layers with relu, forward, backward and
 * sgd, eight ops a layer. */
#ifndef BENCH_SYNTHETIC_H
#define BENCH_SYNTHETIC_H

#include "weft/program.h"

/* A program of at least `nops` ops, with batch 64 and `width` features a layer. */
weft_status synthetic_program(weft_context *context, size_t nops, int64_t width, weft_program **out_program);
/* The same over sequences: activations are [64, length, width]. */
weft_status synthetic_sequences(weft_context *context, size_t nops, int64_t length, int64_t width,
                                weft_program **out_program);

#endif
