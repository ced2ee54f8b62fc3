/* weft/plan.h: a program decided to the last byte: memory, instructions per stream, events between streams. */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan weft_plan;
/* Order between streams that a reading gives a program, to plan it so: weft_plan_order_create in weft/verify.h. */
typedef struct weft_plan_order weft_plan_order;

/* The type of a value that is fed, where it differs from what the program declares (or is -1 there). */
typedef struct weft_feed_type {
    const char *name;
    weft_dtype dtype;
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    /* Elements of an integer tensor (a shape, an axis, a count) or a mask, where they are known and the same in every
     * step. Shapes that depend on them are planned for these. Borrowed during weft_plan_create; NULL: not known. */
    const int64_t *values;
} weft_feed_type;

/* What one rank is fed: a type per value, in an order that the caller keeps. */
typedef struct weft_feed_types {
    const weft_feed_type *items;
    size_t count;
} weft_feed_types;

typedef struct weft_plan_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_PLAN_OPTIONS_INIT */
    const weft_feed_type *feeds; /* per-rank types of the values that will be fed */
    size_t nfeeds;
    int64_t batch; /* rows of all ranks together where feeds leave dimension 0 open and `feeds` has no type; 0: none */
    const char *const *fetches; /* vars to keep until the end of the step */
    size_t nfetches;
    /* Made of this program: ops are launched so, and streams wait for nothing else. Such a plan races where the program
     * does under that reading: it is for showing a race. An executor takes it only with its option `unsafe`. NULL:
     * program order, and streams wait for what their bytes ask for. */
    const weft_plan_order *order;
} weft_plan_options;
#define WEFT_PLAN_OPTIONS_INIT .struct_nbytes = sizeof(weft_plan_options)

/* Plans block 0 (and the blocks it runs). Independent ops are ordered by program order on their stream. Events order
 * streams wherever two accesses to the same bytes conflict, and nowhere else. Cost: O(n log n) in ops.
 * `options` may be NULL. Errors name the op: an unknown type, a type without kernel inputs, shapes that contradict. */
WEFT_MUST_USE weft_status weft_plan_create(const weft_program *program, const weft_plan_options *options,
                                           weft_plan **out_plan);
void weft_plan_destroy(weft_plan *plan);
void weft_plan_order_destroy(weft_plan_order *order); /* NULL is fine */
/* The plans of all ranks of a run. Borrowed during weft_plans_create. */
typedef struct weft_plans_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_PLANS_OPTIONS_INIT */
    const weft_program *const *programs; /* one for all ranks, or one each */
    size_t nprograms;
    int nranks;                   /* 0: as many as programs */
    const weft_feed_types *feeds; /* one for all ranks, or one each; NULL: nothing is fed */
    size_t nfeeds;
    /* Vars to keep until the end of a step, on every rank whose program has them ("V#rows" keeps V). */
    const char *const *fetches;
    size_t nfetches;
    const weft_plan_order *const *orders; /* as in weft_plan_options, one for each program; NULL: none */
} weft_plans_options;
#define WEFT_PLANS_OPTIONS_INIT .struct_nbytes = sizeof(weft_plans_options)

/* One plan that all ranks share where they run the same program on the same types, else one per rank: *out_nplans. The
 * caller gives them back to weft_plans_destroy. */
WEFT_MUST_USE weft_status weft_plans_create(weft_context *context, const weft_plans_options *options,
                                            weft_plan ***out_plans, size_t *out_nplans);
void weft_plans_destroy(weft_context *context, weft_plan **plans, size_t nplans); /* NULL is fine */

/* The text form; parse(print(p)) prints the same bytes. The caller owns the bytes (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_plan_print(const weft_plan *plan, char **out_bytes, size_t *out_nbytes);
WEFT_MUST_USE weft_status weft_plan_parse(weft_context *context, const void *bytes, size_t nbytes, const char *place,
                                          weft_plan **out_plan);

/* One value of a plan: a tensor that an executor of it holds, under the name that weft_executor_set and _get take.
 * Fetch ops make values "fetch.COL"; the row indices of a SelectedRows value V are "V#rows". */
typedef struct weft_plan_value {
    const char *name; /* borrowed from the plan */
    weft_dtype dtype;
    size_t ndim;
    int64_t dims[WEFT_MAX_RANK];
    bool persistable, is_feed, is_fetch;
    bool is_written;    /* by a step: a feed that is written must be set before every step */
    bool is_read_first; /* a step needs the bytes from before it: they must be set */
} weft_plan_value;
size_t weft_plan_nvalues(const weft_plan *plan);
/* The value at `index` < weft_plan_nvalues. */
void weft_plan_value_at(const weft_plan *plan, size_t index, weft_plan_value *out_value);

typedef struct weft_plan_summary {
    size_t ninstructions, nremoved_ops, nstreams, nevents;
    int64_t persistent_nbytes, temporary_nbytes;
    int64_t live_nbytes; /* the largest sum of temporaries that are live at one instruction. temporary_nbytes is
                          * more: it has padding to 64 bytes, and gaps */
    size_t ncollectives;
    /* Buckets: buffers that a collective takes whole and that are made of parts. Bytes of all, and of the largest. Of
     * those among temporaries, the largest sum of bytes that are live before they are written. Then the largest sum of
     * what is live without these, as if no part of a bucket took room before its time. */
    size_t nbuckets;
    int64_t bucket_nbytes, largest_bucket_nbytes, ahead_nbytes, written_nbytes;
} weft_plan_summary;
void weft_plan_summarize(const weft_plan *plan, weft_plan_summary *out_summary);

#ifdef __cplusplus
}
#endif
#endif
