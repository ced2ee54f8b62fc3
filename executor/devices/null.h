/* null.h: what the files of the null device share; weft/null_device.h is what users see. */
#ifndef EXECUTOR_DEVICES_NULL_H
#define EXECUTOR_DEVICES_NULL_H

#include "executor/executor.h"
#include "weft/null_device.h"

enum { NULL_NONE = -1 };

/* An access of an instruction to a range of leaves (null_races.c). */
typedef struct null_access {
    int32_t instr, value;
    uint32_t first, end;
    bool is_write;
} null_access;

/* What the ranks of one plan share. */
typedef struct null_plan {
    const weft_plan *plan;
    int64_t *ns;            /* by instruction: what it takes; of a collective, from when the last member has come */
    null_access *accesses;  /* instruction after instruction */
    uint32_t *first_access; /* by instruction, ninstrs + 1 */
    uint32_t *order;        /* instructions as the program has them */
    uint32_t nleaves;
    uint32_t *race_of; /* by instruction that came too early: its race + 1 */
} null_plan;

/* One stream of one rank. */
typedef struct null_stream {
    stream_state *state;
    trace_event *events;  /* of the step at hand; start -1: not begun */
    int64_t free_ns;      /* when its last instruction ends */
    uint32_t ndone;       /* instructions whose end is known */
    int32_t awaits;       /* the stream that the next one waits for, or NULL_NONE */
    struct null_ring *in; /* it is in a collective that is not complete */
} null_stream;

/* A list of ranks that communicate, and who of them has come. */
typedef struct null_ring {
    struct null_ring *next; /* with the same hash */
    uint32_t hash;
    int64_t id, *ranks;
    int nranks, ncome;
    null_stream **come; /* by member; NULL: not yet */
    comm_ring *views;   /* by member */
} null_ring;

typedef struct null_rank {
    null_plan *plan;
    null_stream *streams;
    uint32_t *nentered; /* by ring of the rank: collectives begun in this step */
    int64_t died_ns;    /* NULL_NONE: it lives */
    const plan_instr *died_at;
} null_rank;

/* The next instruction of a stream and when it begins. */
typedef struct null_turn {
    int64_t at_ns;
    uint32_t stream; /* of all ranks' */
} null_turn;

typedef struct null_race {
    const null_plan *plan;
    int rank;
    uint64_t step;
    size_t count;
    uint32_t first, second; /* accesses of the plan */
    trace_event first_time, second_time;
} null_race;

/* Of a range of leaves: the access that ends last. */
typedef struct null_last {
    int64_t end_ns;
    uint32_t access;
} null_last;

typedef struct null_node {
    null_last cover[2], below[2]; /* of reads, of writes: those of all its leaves, of any */
} null_node;

struct null_device {
    weft_rates rates;
    const weft_fault *faults;
    size_t nfaults;
    null_plan *plans; /* as many as the executor has */
    null_rank *ranks;
    null_stream *streams; /* rank after rank */
    size_t nstreams;
    null_ring **rings; /* by hash */
    size_t nring_slots;
    null_turn *turns; /* a heap: the earliest first */
    size_t nturns;
    int64_t end_ns;   /* of what was played so far */
    null_node *nodes; /* for the plan with most leaves */
    null_race *races;
    size_t nraces, race_capacity;
};
typedef struct null_device null_device;

/* --- null.c ------------------------------------------------------------------------------------------------------- */
/* Before anything else of an executor that has no other device. */
WEFT_MUST_USE weft_status null_create(weft_executor *x);
/* In place of bind_rank; then, with all ranks bound, the rest. */
WEFT_MUST_USE weft_status null_bind_rank(weft_executor *x, rank_state *rank);
WEFT_MUST_USE weft_status null_bind(weft_executor *x);
/* One step. */
WEFT_MUST_USE weft_status null_run(weft_executor *x);

/* --- null_ring.c -------------------------------------------------------------------------------------------------- */
/* As comm_ring_get: ranks of one ring get views of the same one. */
WEFT_MUST_USE weft_status null_ring_get(weft_executor *x, int64_t id, int nranks, const int64_t *ranks, int64_t rank,
                                        comm_ring **out);

/* --- null_time.c -------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status null_set_rates(null_device *d, const weft_rates *given);
/* Fills plan->ns. */
WEFT_MUST_USE weft_status null_find_times(weft_executor *x, null_plan *plan);
/* Whole nanoseconds; null_later adds such, without overflow. */
int64_t null_ns(double seconds);
int64_t null_later(int64_t at_ns, int64_t by_ns);

/* --- null_races.c ------------------------------------------------------------------------------------------------- */
WEFT_MUST_USE weft_status null_find_accesses(weft_executor *x, null_plan *plan);
WEFT_MUST_USE weft_status null_make_nodes(weft_executor *x);
/* Looks at the step that was just played. */
WEFT_MUST_USE weft_status null_find_races(weft_executor *x);

/* --- null_words.c ------------------------------------------------------------------------------------------------- */
/* NULL where all ranks have ended the step; else who died and who waits for whom. */
WEFT_MUST_USE weft_status null_check_end(const weft_executor *x);

#endif
