/* timeline.h: when the instructions of all ranks ran, step after step: kept while plans run or are simulated, measured
 * and written afterwards. It knows plans and times, not what ran them. */
#ifndef PLAN_TIMELINE_TIMELINE_H
#define PLAN_TIMELINE_TIMELINE_H

#include "plan/plan.h"
#include "weft/timeline.h"

/* When an instruction ran in one step, in nanoseconds of one clock; -1: it was skipped. */
typedef struct trace_event {
    int64_t start_ns, end_ns;
} trace_event;

/* One stream of one rank. */
typedef struct timeline_lane {
    int rank, stream;          /* rank: from the timeline's first one on */
    const plan_stream *instrs; /* of the plan's stream */
    trace_event *events;       /* nslots of ninstrs each; step s lies at s % nslots */
    size_t nbytes;
} timeline_lane;

typedef struct timeline {
    const weft_allocator *allocator;
    int first_rank, nranks; /* ranks first_rank .. first_rank + nranks - 1 are in it, from here on as 0 .. nranks - 1 */
    size_t nplans;
    const weft_plan *const *plans; /* 1, or one per rank */
    timeline_lane **ranks;         /* by rank: a lane per stream */
    size_t most_steps;             /* are kept, from the last; 0: all */
    size_t nslots;                 /* steps that there is room for */
    uint64_t nsteps;               /* so many have ended */
} timeline;

/* Everything but the events lies in `a`. `plans` has 1 plan, shared by all ranks, or nranks; they are borrowed. */
WEFT_MUST_USE weft_status timeline_init(timeline *t, arena *a, const weft_plan *const *plans, size_t nplans,
                                        int first_rank, int nranks, size_t most_steps);
void timeline_fini(timeline *t);
static inline const weft_plan *timeline_plan(const timeline *t, int rank) {
    return t->plans[t->nplans == 1 ? 0 : rank];
}

/* Room for one more step. Allocates where all steps are kept and the room is used up, and for the first step. */
WEFT_MUST_USE weft_status timeline_reserve(timeline *t);
/* Where a stream's events of the step at hand go, by position. */
static inline trace_event *timeline_slot(const timeline *t, const timeline_lane *lane) {
    return lane->events + t->nsteps % t->nslots * lane->instrs->ninstrs;
}
static inline void timeline_end_step(timeline *t) {
    t->nsteps++;
}

/* Steps that are kept, oldest first, are first .. first + count. */
size_t timeline_steps(const timeline *t, uint64_t *out_first);
/* The events of a stream in one of these. */
const trace_event *timeline_events(const timeline *t, const timeline_lane *lane, uint64_t step);
WEFT_MUST_USE weft_status timeline_check(const timeline *t); /* an error where no step is kept; NULL is fine */

/* Of all steps that are kept: collectives on other streams than compute. One is hidden if the same rank's compute
 * stream ran instructions for at least half of its time. */
typedef struct timeline_overlap {
    int64_t collective_ns, hidden_ns;
    size_t ncollectives, nhidden;
} timeline_overlap;
timeline_overlap timeline_measure(const timeline *t);
/* Of one rank, as the run numbers it, in the last step. */
WEFT_MUST_USE weft_status timeline_rank_times(const timeline *t, int rank, weft_rank_times *out_times);

/* The two forms (weft/executor.h). The caller owns the bytes. */
typedef enum timeline_form { TIMELINE_JSON, TIMELINE_HTML } timeline_form;
WEFT_MUST_USE weft_status timeline_print(const timeline *t, timeline_form form, const char *title, char **out_bytes,
                                         size_t *out_nbytes);

/* The first ranks of several timelines one below the other, each from its own beginning on, named by `labels`. */
WEFT_MUST_USE weft_status timeline_print_beside(const timeline *const *timelines, const char *const *labels,
                                                size_t count, timeline_form form, const char *title, char **out_bytes,
                                                size_t *out_nbytes);

/* --- timelines of several processes, in one document ---------------------------------------------------------------
 * Each prints its parts; the parts of all, in the order of their ranks, make the document. */

/* How a process's clock goes by that of all: so much ahead at two times of its own, and evenly between and beyond. */
typedef struct timeline_clock {
    int64_t at_ns[2], ahead_ns[2];
} timeline_clock;
int64_t timeline_common_ns(const timeline_clock *c, int64_t own_ns);

typedef struct timeline_frame {
    int nranks;               /* of the run */
    size_t nsteps;            /* that are kept */
    timeline_clock clock;     /* of this process */
    int64_t origin_ns;        /* the first event of all, by the common clock */
    size_t nplans_before;     /* of the processes of lower ranks */
    timeline_overlap overlap; /* of all ranks */
    const char *label;        /* what stands for its ranks' names; NULL: their numbers do */
} timeline_frame;
/* Of this timeline alone. */
timeline_frame timeline_frame_of(const timeline *t, const timeline_clock *clock);

enum { TIMELINE_PARTS = 2 };
void timeline_print_parts(const timeline *t, const timeline_frame *f, timeline_form form, buffer parts[TIMELINE_PARTS]);
typedef struct timeline_text {
    const char *bytes;
    size_t nbytes;
} timeline_text;
void timeline_print_document(const timeline_frame *f, timeline_form form, const char *title,
                             const timeline_text parts[TIMELINE_PARTS], buffer *out);

/* The first value that an instruction writes, for people; "" if there is none. */
const char *trace_value_name(const weft_plan *plan, const plan_instr *instr);

#endif
