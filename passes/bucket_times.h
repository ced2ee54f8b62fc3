/* bucket_times.h: when reduces of a program could begin and what waits for them, by the model of plan/cost.h: the
 * problem that bucket_plan.h solves, and what its answer means for the program. */
#ifndef PASSES_BUCKET_TIMES_H
#define PASSES_BUCKET_TIMES_H

#include "passes/access.h"
#include "passes/bucket_bound.h"
#include "passes/bucket_plan.h"
#include "passes/pass_manager.h"
#include "weft/profile.h"

enum { BUCKET_ALONE = UINT32_MAX };

/* What may go into a bucket, in program order: ops of block 0 by their positions in an index. */
typedef struct bucket_reduce {
    const access *ops; /* its collectives and scales, one behind the other on one stream */
    size_t nops;
    const access *makers; /* what its collectives wait for: what made the bytes, or is not to see them reduced */
    size_t nmakers;
    const access *users; /* what touches the result afterwards */
    size_t nusers;
    size_t nbytes, padded;
    uint32_t kind;     /* BUCKET_ALONE: it goes with nothing */
    uint32_t deadline; /* a bucket with it is reduced before this position */
    const char *name;  /* of what is reduced, or of the result */
} bucket_reduce;

/* A bucket on the clocks: hidden is the part of its collectives during which compute ran. */
typedef struct bucket_time {
    uint32_t first, last; /* items */
    size_t count, nbytes;
    int64_t ready_ns, start_ns, end_ns, collective_ns, hidden_ns;
    int32_t beside_first, beside_last; /* instructions of compute; -1: none */
    int32_t stalled;                   /* the one that waits while it is exposed; -1: compute has ended */
} bucket_time;

typedef struct bucket_times {
    weft_pass_context *pass;
    arena *scratch;
    weft_cluster cluster;
    weft_profile *profile; /* NULL: there is none */
    weft_plan *plan;       /* of the program as it is */
    int64_t *ns;           /* by instruction */
    int64_t *played;       /* by instruction of compute: what it took beside the buckets that were played last */
    int32_t *lane_of;      /* by stream: that of its reduces; -1: it has none. NULL: no stream has any */
    uint32_t nlanes;
    bucket_problem problem;
    uint32_t *reduce_of;       /* by item: the bucket_reduce; BUCKET_ALONE: another instruction of the stream */
    uint32_t *item_of;         /* by instruction of the stream */
    uint32_t *made_after;      /* by item: its reduce waits for so many instructions of compute */
    const char **names;        /* by bucket_reduce */
    struct bucket_edge *edges; /* instructions that need an item's result, in plan order */
    size_t nedges;
    bool contends;           /* compute and collectives slow one another down */
    int64_t slowed_bound_ns; /* contends: no buckets end a step earlier then */
    bucket_bound bound;      /* what no buckets in any order go below, and what it follows from */
    const char *ignored;     /* why they do not, though the cluster has factors for it; NULL: they do, or it has none */
    bool stalls; /* a reduce waits for what waits for another: the problem's times are the earliest, no more */
    bucket_answer answer;
    int64_t unlimited_ns, unlimited_bound_ns; /* the same without most_nbytes and most_live */
    size_t most_live;
    int64_t *live;        /* most_live: by instruction, with each reduce by itself */
    int32_t *first;       /* most_live: by item: the instruction from which on it takes up room */
    int64_t most_seen;    /* most_live: bytes that are live at once with the buckets, at most */
    bucket_time *buckets; /* in the order of their reduces */
    size_t nbuckets;
    int64_t step_ns, exposed_ns; /* of the program with these buckets: what a simulation gives */
    struct {
        int64_t *ns; /* of compute's instructions */
        size_t ncompute;
        uint32_t *after, *needed; /* by bucket, as the certificate says it */
    } made;                       /* is_made: the program with these buckets, which has copies */
    bool is_made;
    const char *not_stated; /* why no certificate can state the plan, where the pass knows a reason; NULL: none */
} bucket_times;

/* Files that a plan is made by; "": none. */
typedef struct bucket_model {
    const char *cluster; /* none: the defaults */
    const char *times;   /* a profile of the program: before what the cluster says of ops */
    size_t most_nbytes;  /* of a bucket of several tensors; 0: any number */
    size_t most_live;    /* bytes of temporaries that are live at once; 0: any number */
    const char *advice;  /* what to do about reduces on the compute stream */
} bucket_model;

/* The options of a pass that fill a bucket_model; `of` begins their descriptions. */
#define BUCKET_MODEL_OPTIONS(of)                                                                                       \
    {"cluster", WEFT_OPTION_STRING, "", NULL,                                                                          \
     of "a cluster file, what the program is to run on; default: the accelerator that weft simulate takes"},           \
        {"times", WEFT_OPTION_STRING, "", NULL,                                                                        \
         of                                                                                                            \
         "a profile of the program (weft run --profile=F.json) that says what ops take; default: the cluster does"},   \
        {"most_mb", WEFT_OPTION_FLOAT, "", NULL,                                                                       \
         of "the largest bucket of several gradients in MiB, as for registered buffers; default: any size"},           \
    {                                                                                                                  \
        "most_live_mb", WEFT_OPTION_FLOAT, "", NULL,                                                                   \
            of "MiB of temporaries that are live at once, at most: a bucket takes room before its last gradients are " \
               "made; default: any number"                                                                             \
    }

WEFT_MUST_USE weft_status bucket_model_read(weft_pass_context *pass, bucket_model *out);
/* Refuses options that say something of sizes where bucket_mb is auto (`sizes`, which ends with NULL), and those of the
 * model where it is not. */
WEFT_MUST_USE weft_status bucket_model_check(weft_pass_context *pass, bool is_auto, const char *const *sizes);

/* Plans the index's program, finds the best buckets under the model and plays
 * them. The program is as it was. Refuses where there is no plan: shapes that are not known, reduces that share the
 * compute stream. bucket_times_fini afterwards, also where this fails. Cost: that of a plan, and of bucket_plan_solve.
 */
WEFT_MUST_USE weft_status bucket_times_find(weft_pass_context *pass, const access_index *index,
                                            const bucket_model *model, const bucket_reduce *reduces, size_t count,
                                            uint32_t nkinds, bucket_times *out);
/* The lane of a plan's stream; -1: no reduces are on it. */
static inline int32_t bucket_lane(const bucket_times *t, int32_t stream) {
    return t->lane_of ? t->lane_of[stream] : -1;
}
void bucket_times_fini(bucket_times *t);
/* What was planned, bucket by bucket, in the pass's report. */
WEFT_MUST_USE weft_status bucket_times_report(const bucket_times *t);
/* Plays the program that was made, where making it may add copies: its times become those of `t`, and where they are
 * others than planned the report says so (bucket_made.c). */
WEFT_MUST_USE weft_status bucket_times_made(bucket_times *t, const weft_program *made);
/* What is predicted, as counts of the report. */
WEFT_MUST_USE weft_status bucket_times_count(const bucket_times *t);
/* --- bucket_memory.c: what is live ---------------------------------------------------------------------------------
 * A tensor that is reduced counts from the first op that touches it, or a later one of its kind, to the end of the
 * step, padded. Other temporaries count as the plan's do (plan/live.c). A bucket has the bytes of all its members from
 * the first on. What several kinds may use is shared evenly by them. */
WEFT_MUST_USE weft_status bucket_memory_find(bucket_times *t, size_t most_live); /* fills in problem.rooms */
WEFT_MUST_USE weft_status bucket_memory_play(bucket_times *t);                   /* most_seen, of the answer */

/* States it in the certificate, where somebody asked for one (bucket_certificate.c). */
WEFT_MUST_USE weft_status bucket_times_certify(const bucket_times *t);

#endif
