/* order.h: which launches of a step are ordered and which touch the same bytes, by closing over all pairs: a second
 * opinion that shares nothing with proof/, save where it is asked of a schedule. O(n^2 / 64) words for each thing that
 * orders. */
#ifndef TESTS_SUPPORT_ORDER_H
#define TESTS_SUPPORT_ORDER_H

#include "plan/plan.h"
#include "proof/schedule/schedule.h"

/* Ops by index in block 0 (of a plan: by number of instruction) that touch a byte, one writing, and are not ordered. */
typedef struct order_pair {
    uint32_t earlier, later;
    bool reads_later; /* the later one reads what the earlier writes */
} order_pair;

typedef struct order_verdict {
    order_pair *pairs;
    size_t npairs;
    bool waits_for_nothing; /* for an event that nobody records */
} order_verdict;

/* A program in order: streams, events that it states, c_wait_*, wait_tensor and ops that block the host. */
void order_of_program(const weft_program *p, order_verdict *out);
/* A plan: streams and waits; every byte of its two spaces. */
void order_of_plan(const weft_plan *plan, order_verdict *out);
/* A schedule of proof/ over two steps, as its waits say; how they came about is not asked. */
void order_of_schedule(const proof_schedule *s, order_verdict *out);
bool order_has(const order_verdict *v, uint32_t x, uint32_t y);
void order_free(order_verdict *v);
/* Whether a read of a plan's temporary memory finds what was written to another value, byte by byte, in program order.
 * Padding between the members of a bucket may hold anything. */
bool order_is_overwritten(const weft_plan *plan);

#endif
