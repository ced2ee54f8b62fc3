/* checks.h: what weft_verify asks of schedules: a row each in checks.def, one function a question. */
#ifndef PROOF_CHECKS_CHECKS_H
#define PROOF_CHECKS_CHECKS_H

#include "proof/checks/ranks.h"

struct across;

/* The columns of checks.def say what they mean. */
typedef enum check_reading {
    CHECK_IN_ORDER = WEFT_READING_IN_ORDER,
    CHECK_BY_NAME = WEFT_READING_BY_NAME,
    CHECK_BY_BYTES = WEFT_READING_BY_BYTES,
    CHECK_ANY
} check_reading;
typedef enum check_when { CHECK_ALWAYS, CHECK_ANY_LAUNCH, CHECK_ONE_LAUNCH, CHECK_PAIRED, CHECK_LIMITED } check_when;
typedef enum check_needs {
    CHECK_PROGRAM,
    CHECK_SCHEDULE,
    CHECK_LAUNCHES,
    CHECK_MOTION,
    CHECK_FLOWS,
    CHECK_CLASSES,
    CHECK_RING,
    CHECK_MOVERS,
    CHECK_RANKS
} check_needs;

typedef enum check_about { CHECK_OTHERS, CHECK_REPLICAS } check_about;

typedef struct check {
    const char *name, *question;
    check_reading reading;
    check_when when;
    check_needs needs;
    check_about about;
    union { /* by `needs`; ranks are named in findings */
        weft_status (*of_schedule)(const proof_schedule *s, int64_t rank, weft_findings *f);
        weft_status (*of_launches)(struct across *others, uint32_t class, int64_t rank, weft_findings *f);
        weft_status (*of_flows)(const proof_schedule *s, const program_rings *rings, int64_t rank, int64_t nranks,
                                weft_findings *f);
        weft_status (*of_classes)(const proof_schedule *programs, size_t nclasses, const int64_t *first_rank,
                                  weft_findings *f);
        weft_status (*of_ring)(const proof_class *class, int64_t rank, weft_findings *f);
        weft_status (*of_ranks)(const proof_ranks *r, weft_findings *f);
    };
} check;

/* In the order in which they are asked. */
const check *checks_all(size_t *out_count);

/* races.c: two consecutive steps of one rank; `rank` is named in findings. O(n S log n). */
WEFT_MUST_USE weft_status check_races(const proof_schedule *s, int64_t rank, weft_findings *f);
/* The same for the ranks of a class, which collectives with others may order too (across.h). */
WEFT_MUST_USE weft_status check_races_among(struct across *others, uint32_t class, int64_t rank, weft_findings *f);

/* any_launch.c: the same under every order of launches that Paddle's dependencies allow. O(n^2). */
WEFT_MUST_USE weft_status check_any_launch(const proof_schedule *s, int64_t rank, weft_findings *f);
/* races.c: adds the finding that access `x` of `later` and a conflicting one of `earlier` race. */
WEFT_MUST_USE weft_status race_report(const proof_schedule *s, int64_t rank, size_t earlier, bool of_step_before,
                                      size_t later, const proof_access *x, weft_findings *f);

/* pairing.c: on every ring the members issue the same collectives, for the same things, in one order. */
WEFT_MUST_USE weft_status check_pairing(const proof_ranks *r, weft_findings *f);
/* exchanges.c: in an all-to-all of unequal parts each member gets of each what that one gives. */
WEFT_MUST_USE weft_status check_exchanges(const proof_ranks *r, weft_findings *f);
/* ring_order.c: where streams launch by themselves, the collectives of a ring are ordered. */
WEFT_MUST_USE weft_status check_ring_order(const proof_class *class, int64_t rank, weft_findings *f);
/* deadlock.c: no cycle of waits over ranks, streams and host order. */
WEFT_MUST_USE weft_status check_deadlock(const proof_ranks *r, weft_findings *f);
/* slots.c: no rank's queue of launches is stopped for ever by collectives in flight, or by a stream that takes no more.
 */
WEFT_MUST_USE weft_status check_slots(const proof_ranks *r, weft_findings *f);
/* replicas.c: nothing that differs between ranks reaches state that must not. */
WEFT_MUST_USE weft_status check_replicas(const proof_schedule *s, const program_rings *rings, int64_t rank,
                                         int64_t nranks, weft_findings *f);
/* overwritten.c: of a plan's schedule: a read finds what was written to its value, not to one laid over it. */
WEFT_MUST_USE weft_status check_overwritten(const proof_schedule *s, int64_t rank, weft_findings *f);
/* uninitialised.c: no byte is read that nothing wrote. */
WEFT_MUST_USE weft_status check_uninitialised(const proof_schedule *s, int64_t rank, weft_findings *f);
/* data_flow.c: in an FX graph what is read of a pending result comes through the wait for it. */
WEFT_MUST_USE weft_status check_data_flow(const proof_schedule *s, int64_t rank, weft_findings *f);
/* stale.c: no gathered state is read after its source was updated and before it is gathered again. */
WEFT_MUST_USE weft_status check_stale(const proof_schedule *s, int64_t rank, weft_findings *f);
/* shards.c: no collective adds up different parts of one value. */
WEFT_MUST_USE weft_status check_shards(const proof_schedule *s, int64_t rank, weft_findings *f);
/* owners.c: what one class of ranks updates, those that read the same part of it are sent. Schedules by class. */
WEFT_MUST_USE weft_status check_owners(const proof_schedule *programs, size_t nclasses, const int64_t *first_rank,
                                       weft_findings *f);
/* reused.c: by_name: memory that is handed on, or filled again, is not in use on a stream that nobody asked. */
WEFT_MUST_USE weft_status check_reused(struct across *others, uint32_t class, int64_t rank, weft_findings *f);
/* communicators.c: by_name: no op communicates with the ranks of another ring than its own. */
WEFT_MUST_USE weft_status check_communicators(const proof_schedule *s, int64_t rank, weft_findings *f);
/* communicators.c: a collective that says how many ranks it is made for is on a ring of so many. */
WEFT_MUST_USE weft_status check_ring_sizes(const proof_schedule *s, int64_t rank, weft_findings *f);

#endif
