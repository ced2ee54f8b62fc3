/* schedule.h: one step of one rank, as proofs see it: launches in order, the bytes that each touches, its stream, what
 * it waits for, what it communicates. Made from a program under a reading, or from a plan; knows nothing of how a
 * planner orders anything. */
#ifndef PROOF_SCHEDULE_SCHEDULE_H
#define PROOF_SCHEDULE_SCHEDULE_H

#include "ops/collectives.h"
#include "proof/mixture.h"
#include "weft/plan.h"
#include "weft/verify.h"

enum { PROOF_NONE = UINT32_MAX };
#define PROOF_UNSET INT64_MIN

/* Bytes [begin, end) of a buffer. */
typedef struct proof_access {
    const char *name; /* the var that the op names */
    int64_t begin, end;
    uint32_t buffer;
    uint32_t owner; /* of a plan: the value that these bytes belong to, views belonging to what they show; of a program:
                     * the id of the var */
    bool is_write;
} proof_access;

/* An access in 8 bytes, for sweeps over all of them. */
typedef struct proof_touch {
    uint32_t buffer : 31, is_write : 1;
    uint32_t owner;
} proof_touch;

/* How what a launch writes follows from what it reads, where that is all there is to its op: it stands in block 0, and
 * its arguments are the launch's accesses, inputs first, none of them a view. */
typedef enum proof_makes {
    PROOF_MAKES_DIFFERENTLY,
    PROOF_MAKES_OF_ALL,     /* of all that it reads, on every rank in the same way */
    PROOF_MAKES_ALL_REDUCE, /* what a ring's ranks made together: of all of them the same */
    PROOF_MAKES_UPDATE,     /* it updates state */
    PROOF_MAKES_NAMES       /* it names parts of a buffer: the next of schedule->fusions */
} proof_makes;

/* One launch. Its accesses are schedule->accesses[first_access .. of the next event), and so on. */
typedef struct proof_event {
    const weft_op *op; /* NULL: none */
    uint32_t op_index; /* in block 0 */
    uint32_t stream;
    uint32_t first_access, first_wait;
    uint32_t collective; /* into schedule->collectives, or PROOF_NONE */
    bool blocks_host;    /* later launches happen after it is complete */
    bool is_guarded;     /* runs under a condition */
    uint8_t makes;       /* a proof_makes; not of a plan */
} proof_event;

/* A part of what a collective moves, under the name that all ranks know. */
typedef struct proof_member {
    const char *name;
    int64_t offset; /* bytes from the start of what is moved */
    int64_t nbytes; /* of a plan: without padding */
    uint32_t var;   /* id; of a plan PROOF_NONE */
} proof_member;

typedef struct proof_collective {
    uint32_t event;
    collective_kind kind; /* COLLECTIVE_NONE: not known */
    const char *word;     /* "all_reduce", ...: equal on all ranks whatever the era's spelling */
    int64_t ring;
    int64_t peer; /* point to point: index of the other rank in the ring; else -1 */
    bool is_send;
    int32_t dtype;
    int64_t count;    /* elements; -1: not known */
    int64_t root;     /* -1: none */
    int reduce;       /* a weft_reduce, or -1 */
    uint64_t history; /* which collectives made what it moves: history.c */
    int64_t made_for; /* how many ranks the op says it is for; PROOF_UNSET */
    bool is_guarded;  /* runs under a condition */
    uint32_t first_member, nmembers;
} proof_collective;

/* What a coalesce_tensor of block 0 names, as ids of vars: parts [first_part .. first_part + nparts). */
typedef struct proof_fusion {
    uint32_t fused;
    uint32_t first_part, nparts;
} proof_fusion;

/* A part of a fused buffer, as its coalesce_tensor lays it out; padding is left out. */
typedef struct proof_part {
    const char *name;
    int64_t begin, end;
    uint32_t var; /* id */
} proof_part;

typedef struct proof_buffer {
    const char *name;
    bool is_given;     /* it holds something before the step: state, a feed */
    bool is_fed;       /* a feed: filled before every step */
    uint32_t touched;  /* by the stream of this number plus one; PROOF_NONE: by several; 0: not at all */
    proof_part *parts; /* in order; NULL: no fused buffer */
    size_t nparts;
} proof_buffer;

/* by_name: what Paddle's garbage collector does with a buffer's memory. */
typedef struct proof_memory {
    uint32_t owner;    /* the stream that it is allocated on, and handed on to; PROOF_NONE: nobody allocates it */
    uint32_t made_by;  /* the launch that allocates it */
    uint32_t freed_by; /* the launch behind which no name holds it any more; PROOF_NONE: it is not freed */
    uint32_t notes;    /* into schedule->notes; PROOF_NONE */
    uint32_t last;     /* the launch of the op that lets go: freed_by, or what runs the block that this is in */
} proof_memory;

/* A launch that lets go of memory and has its stream noted: nobody gets the memory before that is complete. */
typedef struct proof_note {
    uint32_t event;
    uint32_t next; /* of the same memory; PROOF_NONE */
} proof_note;

/* What is wrong with the program as such: found while the schedule is made. */
typedef struct proof_problem {
    weft_verdict verdict;
    uint32_t event; /* PROOF_NONE: no particular one */
    const char *message;
} proof_problem;

typedef struct proof_schedule {
    weft_context *context;
    arena *arena; /* of everything here */
    const weft_program *program;
    proof_event *events; /* in launch order; one more that ends the last one's lists */
    size_t nevents, event_capacity;
    proof_access *accesses;
    proof_touch *touches; /* by access */
    size_t naccesses, access_capacity, touch_capacity;
    /* An event waits until the latest launch of each of these before its own is complete: of this step, or of the one
     * before where the other is launched after it. (An event of CUDA: what was recorded last when the wait is issued.)
     */
    uint32_t *waits;
    size_t nwaits, wait_capacity;
    proof_collective *collectives; /* in launch order */
    size_t ncollectives, collective_capacity;
    proof_member *members;
    size_t nmembers, member_capacity;
    proof_problem *problems;
    size_t nproblems, problem_capacity;
    proof_buffer *buffers;
    size_t nbuffers, buffer_capacity;
    const char **streams; /* [0] is "compute" */
    size_t nstreams, stream_capacity;
    proof_fusion *fusions; /* in launch order; not of a plan */
    size_t nfusions, fusion_capacity;
    uint32_t *fused_parts;
    size_t nfused_parts, fused_part_capacity;
    uint32_t *updates; /* events of ops that update state; not of a plan */
    size_t nupdates, update_capacity;
    mixture updated;      /* names of the parameters that ops of block 0 update, in order */
    uint32_t *bound;      /* by var id: the buffer that its name means at the end; PROOF_NONE. NULL: of a plan */
    proof_memory *memory; /* by_name: by buffer */
    proof_note *notes;
    size_t nnotes, note_capacity;
    bool joins_steps;        /* all streams are idle before the next step begins */
    bool launches_freely;    /* each stream launches by itself: host order orders nothing */
    bool may_read_unwritten; /* bytes may be read that nothing wrote before (written.h); not of a plan */
    bool streams_unknown;    /* the program does not tell streams */
} proof_schedule;

/* --- building: schedule.c ----------------------------------------------------------------------------------------- */

WEFT_MUST_USE weft_status schedule_init(proof_schedule *s, weft_context *context, arena *a);
/* Room for so many, so that most schedules are never copied to grow. */
WEFT_MUST_USE weft_status schedule_reserve(proof_schedule *s, size_t nevents, size_t naccesses, size_t nbuffers);
WEFT_MUST_USE weft_status schedule_stream(proof_schedule *s, const char *stream, uint32_t *out);
WEFT_MUST_USE weft_status schedule_buffer(proof_schedule *s, const char *buffer_name, bool is_given, uint32_t *out);
/* Begins a launch; accesses, waits and a collective that are added next are its own. */
WEFT_MUST_USE weft_status schedule_event(proof_schedule *s, const weft_op *op, uint32_t op_index, uint32_t stream,
                                         uint32_t *out);
WEFT_MUST_USE weft_status schedule_access(proof_schedule *s, const proof_access *x);
WEFT_MUST_USE weft_status schedule_wait(proof_schedule *s, uint32_t event);
/* The signature of the op of the event that was begun last; `var` is what it moves, `count` its elements. */
WEFT_MUST_USE weft_status schedule_collective(proof_schedule *s, int64_t ring_id, int32_t dtype, int64_t count,
                                              proof_collective **out);
WEFT_MUST_USE weft_status schedule_member(proof_schedule *s, const proof_member *m);
WEFT_MUST_USE weft_status schedule_problem(proof_schedule *s, weft_verdict verdict, uint32_t event, const char *format,
                                           ...) WEFT_PRINTF(4, 5);
/* history.c: what collectives move, as collectives before made it. Part of schedule_end. */
WEFT_MUST_USE weft_status schedule_histories(proof_schedule *s);
/* Closes the lists. Nothing may be added after it. */
WEFT_MUST_USE weft_status schedule_end(proof_schedule *s);
/* Gives events new waits: `waits` of event i are list[first[i] .. first[i + 1]). */
void schedule_replace_waits(proof_schedule *s, uint32_t *list, const uint32_t *first);

static inline size_t proof_naccesses(const proof_schedule *s, size_t event) {
    return s->events[event + 1].first_access - s->events[event].first_access;
}
static inline size_t proof_nwaits(const proof_schedule *s, size_t event) {
    return s->events[event + 1].first_wait - s->events[event].first_wait;
}

/* --- exchanges: exchange.c ---------------------------------------------------------------------------------------- */

bool exchange_is(const weft_op *op); /* an all-to-all */
/* Parts that the op itself lists, of what it gives, or gets; 0: none, they are equal. */
size_t exchange_nparts(const weft_op *op, bool gets);
/* Elements that it gives to member k of the ring, or gets of it; -1: not known. */
int64_t exchange_part(const weft_op *op, bool gets, size_t nranks, size_t k);
bool exchange_is_even(const weft_op *op); /* all parts are equal, and known where it lists them */

/* --- making ------------------------------------------------------------------------------------------------------- */

/* in_order: explicit waits and events alone. */
WEFT_MUST_USE weft_status schedule_from_program(const weft_program *p, const weft_verify_options *options, arena *a,
                                                proof_schedule *out);
/* by_name: replaces the waits of an in_order schedule by those that Paddle's executor derives. O(n^2) bits. */
WEFT_MUST_USE weft_status schedule_order_by_name(proof_schedule *s);
/* by_bytes: Weft's plan of the program. */
WEFT_MUST_USE weft_status schedule_from_plan(const weft_plan *plan, arena *a, proof_schedule *out);

#endif
