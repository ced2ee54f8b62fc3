/* checks.h: one function a question. */
#ifndef PROOF_CHECKS_CHECKS_H
#define PROOF_CHECKS_CHECKS_H

#include "proof/findings.h"
#include "proof/members.h"
#include "proof/mixture.h"

/* races.c: two consecutive steps of one rank; `rank` is named in findings. O(n S log n). */
WEFT_MUST_USE weft_status check_races(const proof_schedule *s, int64_t rank, weft_findings *f);
/* The same for the ranks of a class, which collectives with others may order too (across.h). */
struct across;
WEFT_MUST_USE weft_status check_races_among(struct across *others, uint32_t class, int64_t rank, weft_findings *f);

/* any_launch.c: the same under every order of launches that Paddle's dependencies allow. O(n^2). */
WEFT_MUST_USE weft_status check_any_launch(proof_schedule *s, int64_t rank, weft_findings *f);
/* races.c: tells that access `x` of `later` and a conflicting one of `earlier` race. */
WEFT_MUST_USE weft_status race_tell(const proof_schedule *s, int64_t rank, size_t earlier, bool of_step_before,
                                    size_t later, const proof_access *x, weft_findings *f);

/* What one class of ranks issues on one ring: collectives order[first .. first + count) of the class, in launch order.
 */
typedef struct ring_sequence {
    int64_t ring;
    uint32_t first, count;
} ring_sequence;

/* Ranks with equal programs are of one class. */
typedef struct proof_class {
    const proof_schedule *schedule;
    ring_sequence *sequences; /* by ring, without point to point */
    size_t nsequences;
    uint32_t *order;
    uint32_t *peers; /* sends and receives by ring, peer and direction, in launch order */
    size_t npeers;
    const mixture *moved; /* by collective: what it moves, by name and place; NULL: not looked at */
} proof_class;

typedef struct proof_ranks {
    weft_context *context;
    const proof_class *classes;
    size_t nclasses;
    const weft_program *const *programs; /* by rank: whose rings hold; NULL: that rank's program was not given */
    const uint32_t *class_of;            /* by rank; PROOF_NONE: not given */
    const int64_t *all;                  /* 0, 1, ... */
    int64_t nranks;
    rank_parties *parties; /* NULL: not looked for; each rank is asked */
} proof_ranks;

/* The members of a ring as `rank` knows it; all ranks where its program does not say. */
const int64_t *ring_members(const proof_ranks *r, int64_t rank, int64_t ring, size_t *out_count);
/* sequences.c: fills in the class's schedule, order, sequences and peers. */
WEFT_MUST_USE weft_status sequences_list(const proof_schedule *s, arena *a, proof_class *out);
/* What a collective moves; `names`: those of vars, by id, or NULL. */
mixture sequences_moved(const proof_schedule *s, const proof_collective *c, const mixture *names);
/* Of all that the class issues. */
WEFT_MUST_USE weft_status sequences_look_at_moved(proof_class *c, const mixture *names, arena *a);
const ring_sequence *sequences_find(const proof_class *c, int64_t ring); /* NULL: issues nothing there */
/* pairing.c: on every ring the members issue the same collectives, for the same things, in one order. */
WEFT_MUST_USE weft_status check_pairing(const proof_ranks *r, weft_findings *f);
/* exchanges.c: in an all-to-all of unequal parts each member gets of each what that one gives. */
WEFT_MUST_USE weft_status check_exchanges(const proof_ranks *r, weft_findings *f);
/* ring_order.c: where streams launch by themselves, the collectives of a ring are ordered. */
WEFT_MUST_USE weft_status check_ring_order(const proof_class *class, int64_t rank, weft_findings *f);
/* deadlock.c: no cycle of waits over ranks, streams and host order. */
WEFT_MUST_USE weft_status check_deadlock(const proof_ranks *r, weft_findings *f);
/* slots.c: no rank's queue of launches is stopped for ever by collectives in flight, or by a stream that takes no more.
 * A limit of 0: none. */
WEFT_MUST_USE weft_status check_slots(const proof_ranks *r, int64_t max_in_flight, int64_t max_queued,
                                      weft_findings *f);
/* replicas.c: nothing that differs between ranks reaches state that must not. */
WEFT_MUST_USE weft_status check_replicas(const proof_schedule *s, const program_rings *rings, int64_t rank,
                                         int64_t nranks, weft_findings *f);
/* overwritten.c: of a plan's schedule: a read finds what was written to its value, not to one laid over it. */
WEFT_MUST_USE weft_status check_overwritten(const proof_schedule *s, int64_t rank, weft_findings *f);
/* uninitialised.c: no byte is read that nothing wrote. */
WEFT_MUST_USE weft_status check_uninitialised(const proof_schedule *s, int64_t rank, weft_findings *f);
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
