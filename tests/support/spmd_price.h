/* spmd_price.h: how many elements spmd_partition sends for the ops of a small program whose inputs lie in a given way.
 *
 * Sent is counted in elements, since recorded rows do not tell types. */
#ifndef TESTS_SUPPORT_SPMD_PRICE_H
#define TESTS_SUPPORT_SPMD_PRICE_H

#include "passes/spmd/spmd.h"

typedef struct spmd_price {
    spmd_state *states; /* by var id; of the plan */
    double sent;
    bool is_illegal; /* an input cannot be brought to where the op needs it */
} spmd_price;

/* A var lies so: an input that is given, or an output that somebody reads. Nothing is done where there is none. */
void spmd_price_want(spmd_plan *plan, const char *named, const axes_placed *placed, bool given);
/* All ops but feeds and fetches, in order. */
WEFT_MUST_USE weft_status spmd_price_program(spmd_plan *plan, spmd_price *out);
/* Adds what it takes to bring an output to where it is wanted; false: there is no way. */
bool spmd_price_settle(const spmd_plan *plan, spmd_price *price, const char *named, const axes_placed *to);

#endif
