/* plan.h: what will happen when a program runs: memory, instructions per stream, events. A plan is immutable and holds
 * everything an executor needs; it does not refer to the program it was made from. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "ops/ops.h"
#include "weft/plan.h"
#include "weft/timeline.h"

typedef enum plan_space {
    PLAN_PERSISTENT, /* lives across steps: parameters, optimizer state, feeds */
    PLAN_TEMPORARY   /* lives within a step; offsets are shared by lifetime */
} plan_space;

/* One var as bytes: `nbytes` at `offset` of its space. Vars that alias (bucket members, in-place pairs) overlap. */
typedef struct plan_value {
    const char *name;
    shape shape;
    plan_space space;
    int64_t offset, nbytes;
    int32_t view_of; /* the value that it is a slice of (a coalesced buffer; what a fetch op fetches), or -1 */
    int32_t rows;    /* SELECTED_ROWS: the value that holds row indices (int64), or -1 */
    bool persistable, is_feed, is_fetch;
    bool is_written;       /* by any instruction, through whatever name */
    bool is_read_first;    /* a step reads bytes that it did not write: they must be there before it */
    const placement *dist; /* how the whole tensor is split over ranks, or NULL */
} plan_value;

/* An instruction waits until stream `stream` has completed its first `count` instructions of this step. */
typedef struct plan_wait {
    int32_t stream;
    int32_t count;
} plan_wait;

typedef struct plan_instr {
    weft_op *op; /* type and attrs, in the plan's own program; no arguments resolved through it */
    const op_schema *schema;
    int32_t stream;
    int32_t position; /* within its stream, from 0 */
    int32_t op_index; /* in block 0 order of the source program, for messages and traces */
    /* Values by argument, flattened in schema slot order; in_first has ninputs + 1 entries. -1: empty argument. */
    const int32_t *in, *out;
    const uint32_t *in_first, *out_first;
    const plan_wait *waits;
    uint32_t nwaits;
    int32_t guard;       /* run only if the first byte of this bool value is not 0; -1: always. A skipped instruction */
    int32_t outer_guard; /* counts as completed. outer_guard: guard of the enclosing conditional, tested first, or -1 */
    int64_t ring_id;     /* collectives; else -1 */
    uint32_t nfused;     /* so many next ones of the stream may be fused with this one, by tiles of rows (fuse.c) */
} plan_instr;

struct weft_plan {
    weft_context *context;
    arena arena;
    weft_program *program; /* the plan's own: names, attrs, rings */
    int nstreams;
    const char *const *stream_names; /* [0] is "compute" */
    plan_instr *instrs;              /* in program order, but for updates (updates.c) */
    size_t ninstrs;
    plan_value *values;
    size_t nvalues;
    int64_t persistent_nbytes, temporary_nbytes;
    int64_t live_nbytes; /* the largest sum of temporaries that are live at one instruction (live.c) */
    /* What buckets cost (buckets.c): how many, bytes of all and of the largest; the largest sum of their bytes that are
     * live before they are written; the largest sum of what is live without these. */
    size_t nbuckets;
    int64_t bucket_nbytes, largest_bucket_nbytes, ahead_nbytes, written_nbytes;
    size_t nremoved;  /* ops that need no instruction (nop, depend, waits) */
    bool given_waits; /* waits are those of a given order: conflicting accesses may be unordered */
};

/* A launch of an op. An op may have several, one behind the other: its instructions run on the last one's stream. */
typedef struct plan_launch {
    uint32_t op;         /* its number: ops of block 0, then of block 1, ... */
    uint32_t stream;     /* of the order's */
    uint32_t first_wait; /* into the order's waits, which end where those of the next launch begin */
    bool blocks_host;    /* what is launched later starts when it is complete */
} plan_launch;

/* In what order ops are launched, on which streams, and what is complete when each starts: instead of what the planner
 * derives from bytes. It is of one program. */
struct weft_plan_order {
    weft_context *context;
    arena arena;                /* of everything here */
    uint32_t nops;              /* of the program */
    const char *const *streams; /* [0] is "compute" */
    size_t nstreams;
    plan_launch *launches; /* in order; one more that ends the last one's waits */
    size_t nlaunches;
    uint32_t *waits; /* launches, by number. One that comes later means that of the step before */
};

/* A stream's instructions, in order. */
typedef struct plan_stream {
    const plan_instr **instrs;
    size_t ninstrs;
} plan_stream;

/* by_stream.c. The streams of a plan, nstreams of them, once every instruction has been checked. */
WEFT_MUST_USE weft_status plan_list_streams(const weft_plan *plan, arena *a, plan_stream **out_streams);
/* Whether an instruction is at its place and waits for earlier ones only; ndone: those before it, by stream. */
WEFT_MUST_USE weft_status plan_check_waits(const weft_plan *plan, const plan_instr *instr, const size_t *ndone);
/* Seconds by which an instruction is made late on a rank. */
double plan_seconds_late(const weft_delay *delays, size_t ndelays, int rank, const plan_instr *instr);
/* "matmul_v2 #12" */
const char *instr_place(const plan_instr *instr, char *out, size_t nbytes);

/* plans.c. Whether ranks are fed alike; a copy, in `a`. */
bool plan_same_feeds(const weft_feed_types *a, const weft_feed_types *b);
WEFT_MUST_USE weft_status plan_copy_feeds(arena *a, const weft_feed_types *from, weft_feed_types *to);

/* live.c. Bytes of temporaries that are live at each instruction, in plan order, without padding: ninstrs numbers. */
WEFT_MUST_USE weft_status plan_live_bytes(const weft_plan *plan, arena *scratch, int64_t *out_live);
/* The same without some values (`left_out`, by value; those that take over bytes count on their own then), and by value
 * the first instruction that touches it; -1: none does, or it is a view. */
WEFT_MUST_USE weft_status plan_live_rest(const weft_plan *plan, const bool *left_out, arena *scratch, int64_t *out_live,
                                         int32_t *out_first);
int32_t plan_root_of(const weft_plan *plan, int32_t value); /* the value whose bytes it is a view of, or itself */
/* Sets live_nbytes of a plan that is complete but for it, and the report on buckets. */
WEFT_MUST_USE weft_status plan_find_peak(weft_plan *plan);
/* buckets.c; `live` is from plan_live_bytes. */
WEFT_MUST_USE weft_status plan_find_buckets(weft_plan *plan, const int64_t *live, arena *scratch);

/* Puts the ops of loops and gradients of conditionals in their place, as often as they run (unroll.c). An error where
 * that is not known; the program is half changed then. */
WEFT_MUST_USE weft_status plan_unroll_program(weft_program *p);

#endif
