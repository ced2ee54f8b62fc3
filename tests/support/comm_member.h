/* comm_member.h: what the files of the conformance of communicators share. */
#ifndef TESTS_SUPPORT_COMM_MEMBER_H
#define TESTS_SUPPORT_COMM_MEMBER_H

#include "tests/support/comm_conformance.h"
#include "tests/support/must.h"

enum { MOST_RANKS = COMM_MOST_RANKS, MOST_COUNT = 9000 };

/* The engine at hand. */
extern const comm_factory *comm_factory_at_hand;

void comm_check(bool good, const char *format, ...) WEFT_PRINTF(2, 3);

/* A member of ring 7, played by a thread. */
typedef struct comm_member {
    comm_world *world;
    comm_ring *ring;
    int rank, nranks; /* index in the ring, and its members */
    void *a, *b;      /* room for MOST_COUNT * MOST_RANKS elements of 8 bytes */
} comm_member;

/* Runs `fn` as a thread for each member that is here of the ring ranks[0 .. nmembers) of `nranks`. */
void comm_run_ring(int nranks, int nmembers, const int64_t *ranks, void *(*fn)(void *));
void comm_run_ranks(int nranks, void *(*fn)(void *)); /* the ring of all */

/* comm_run, or what stands for it where the engine enqueues. */
WEFT_MUST_USE weft_status comm_perform(const comm_member *m, const comm_request *request);

/* Element i of an array. */
double comm_load(weft_dtype dtype, const void *p, size_t i);
void comm_store(weft_dtype dtype, void *p, size_t i, double v);

#define COMM_REQUEST(kind_, dtype_, reduce_, root_, count_, src_, dst_, op_)                                           \
    {                                                                                                                  \
        .kind = kind_, .dtype = dtype_, .reduce = reduce_, .root = root_, .count = count_, .src = src_, .dst = dst_,   \
        .op = op_                                                                                                      \
    }

/* --- what there is to test ---------------------------------------------------------------------------------------- */
void comm_test_kinds(void);    /* comm_conformance_kinds.c: each kind, type, count, reduction, root, place and ring */
void comm_test_parts(void);    /* comm_conformance_parts.c: buffers in parts; sends and receives */
void comm_test_failures(void); /* comm_conformance_failures.c: disagreements, refusals, aborts */
void comm_test_worlds(void);   /* comm_conformance_worlds.c: which rings there are; gathers */

#endif
