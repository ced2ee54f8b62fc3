/* random_graph.h: random backward graphs for tests of the passes that fuse all-reduces and place waits.
 *
 * Values are used again, viewed (slices and transposed copies too), written in place, summed up into persistables,
 * measured (a norm). They are reduced in and out of place, several at once, with divisions before and after. Of the
 * three rings one has only some of the ranks; pending collectives are waited for early, late, in another order, or
 * never. Every graph can be planned, and its waits are right. */
#ifndef TESTS_SUPPORT_RANDOM_GRAPH_H
#define TESTS_SUPPORT_RANDOM_GRAPH_H

#include "program/ir.h"

typedef struct random_graph_options {
    uint64_t seed;
    int nranks;         /* 2 or 3 */
    int max_steps;      /* no more than so many steps, to make a graph smaller; its beginning stays the same */
    bool without_waits; /* values are used as if collectives were finished at once, though they are asynchronous */
} random_graph_options;

/* The program of every rank but for what ring PARTIAL_RING is; random_graph_set_rank makes it one rank's. */
enum { PARTIAL_RING = 2 };
weft_program *random_graph(weft_context *context, const random_graph_options *options, int *out_nsteps);
void random_graph_set_rank(weft_program *p, int nranks, int rank);

/* A number that depends on its arguments alone. */
uint64_t random_number(uint64_t seed, uint64_t counter);

#endif
