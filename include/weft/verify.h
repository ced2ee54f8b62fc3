/* weft/verify.h: whether programs can race, hang, reduce the wrong things or let replicas drift apart.
 *
 * The verdicts follow from programs alone; nothing is executed. docs/verify.md has the rules. */
#ifndef WEFT_VERIFY_H
#define WEFT_VERIFY_H

#include "weft/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What orders ops on different streams (docs/verify.md). */
typedef enum weft_reading {
    WEFT_READING_IN_ORDER, /* explicit events: those, and waits, that the program states */
    WEFT_READING_BY_NAME,  /* Paddle semantics: also events that follow from equal names */
    WEFT_READING_BY_BYTES  /* Weft's own plan */
} weft_reading;

/* What is wrong. */
typedef enum weft_verdict {
    WEFT_VERDICT_RACE,               /* two accesses to a byte, one a write, that nothing orders */
    WEFT_VERDICT_DEADLOCK,           /* ranks wait for one another for ever, or issue different collectives on a ring */
    WEFT_VERDICT_WRONG_DATA,         /* a collective pairs values that do not belong together */
    WEFT_VERDICT_WRONG_VALUE,        /* a value differs from what it should be */
    WEFT_VERDICT_MISSING_REDUCE,     /* a value that differs between ranks reaches state that must not */
    WEFT_VERDICT_STALE_READ,         /* a value from before its update is read */
    WEFT_VERDICT_UNINITIALISED_READ, /* bytes are read that nothing wrote */
    WEFT_VERDICT_OUT_OF_BOUNDS,      /* an op writes beyond the bytes that are its output's */
    WEFT_VERDICT_RESOURCE_DEADLOCK,  /* ranks hang because launches are queued or limited in number */
    WEFT_VERDICT_INVALID_PROGRAM,    /* it cannot be read this way at all */
    WEFT_VERDICT_UNWAITED_READ,      /* what a collective left pending is read past the wait for it */
    WEFT_VERDICT_COUNT
} weft_verdict;

typedef struct weft_verify_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_VERIFY_OPTIONS_INIT */
    weft_reading reading;
    int64_t nranks; /* 0: as many as there are programs */
    /* "dp_reduce:STREAM" puts data-parallel reduces on STREAM, "TYPE:STREAM" every op of that type, where the programs
     * do not say; NULL: compute. */
    const char *stream;
    bool launch_any; /* by_name: also every order of launches that worker pools allow (a few thousand ops at most) */
    /* How many collectives of one rank may be in flight, launched in order through one queue; 0: any number. */
    int64_t max_in_flight;
    /* How many launches of one stream may wait to be done, before the host waits with the next; 0: any number. */
    int64_t max_queued;
    size_t max_findings; /* 0: 1000 */
} weft_verify_options;
#define WEFT_VERIFY_OPTIONS_INIT .struct_nbytes = sizeof(weft_verify_options)

/* An op that a finding is about. Strings are the findings'. */
typedef struct weft_finding_op {
    const char *type;
    int64_t index;      /* in block 0 */
    const char *stream; /* "" where it does not matter */
    const char *line;   /* of the model, from op_callstack; "" if the program does not say */
    int64_t rank;
    const char *role; /* what it does: "writes", "reads", ... */
} weft_finding_op;

typedef struct weft_finding {
    weft_verdict verdict;
    const char *message; /* one or more lines without a final line break */
    const weft_finding_op *ops;
    size_t nops;
    const char *value;  /* the var or buffer concerned; "" if none */
    const char *state;  /* missing_reduce: the parameter or other state that would drift apart; "" if none */
    int64_t begin, end; /* its bytes; both 0 if that says nothing */
    int64_t ring;       /* -1: none */
    const char *remedy; /* what would mend it; "" if that is not known */
} weft_finding;

typedef struct weft_findings weft_findings;

/* Judges one program for all ranks (nprograms 1), or program i for rank i. Programs are only read. The caller destroys
 * the findings; that there are some is no error. Cost for each distinct program of n ops on S streams: O(n S log n).
 * by_name takes O(n^2 / 512) for n arguments, launch_any O(n^2) bits. */
WEFT_MUST_USE weft_status weft_verify(const weft_program *const *programs, size_t nprograms,
                                      const weft_verify_options *options, weft_findings **out_findings);
/* Would state that must be equal on ranks drift apart? `weft run` asks so before the first step. A host should before
 * it makes a trainer or an executor. The checks of weft_verify that say missing_reduce, and no others; it takes
 * milliseconds. NULL: nothing found. WEFT_INVALID_PROGRAM: the status names the first parameter, what is missing, and
 * the pass or the collective that would mend it. */
WEFT_MUST_USE weft_status weft_verify_replicas(const weft_program *const *programs, size_t nprograms, int64_t nranks);
void weft_findings_destroy(weft_findings *findings);
size_t weft_findings_count(const weft_findings *findings);
/* Borrowed; `index` < count. */
const weft_finding *weft_finding_at(const weft_findings *findings, size_t index);
/* What was assumed and counted, a line each: borrowed. */
size_t weft_findings_nnotes(const weft_findings *findings);
const char *weft_findings_note(const weft_findings *findings, size_t index);
/* As JSON text, owned by the caller (weft_bytes_free). */
WEFT_MUST_USE weft_status weft_findings_json(const weft_findings *findings, char **out_bytes, size_t *out_nbytes);

/* A check of weft_verify; strings are static. */
typedef struct weft_check {
    const char *name, *question;
    const char *when; /* only then is it asked: "by_name", "by_name, --launch any", ...; "": always */
} weft_check;
/* Check `index` in the order in which they are asked; false: there is none. */
bool weft_check_at(size_t index, weft_check *out_check);

typedef struct weft_order_options {
    size_t struct_nbytes; /* weft/status.h: begin with WEFT_ORDER_OPTIONS_INIT */
    weft_reading reading;
    /* by_name: ops of block 0, by number. Each is launched as late as what depends on it allows, one after another: an
     * order that Paddle's worker pools may take. NULL: program order. */
    const int64_t *late;
    size_t nlate;
} weft_order_options;
#define WEFT_ORDER_OPTIONS_INIT .struct_nbytes = sizeof(weft_order_options)

/* What a reading makes of a program, for weft_plan_options: launches in order, streams, and what each launch waits for.
 * With it a race that is reported can be shown. by_bytes: NULL, which is what the planner derives itself. The caller
 * destroys it (weft_plan_order_destroy). It does not refer to the program. */
WEFT_MUST_USE weft_status weft_plan_order_create(const weft_program *program, const weft_order_options *options,
                                                 weft_plan_order **out_order);

/* "race", "wrong_data", ...; static. */
const char *weft_verdict_name(weft_verdict verdict);
/* "in_order", "by_name", "by_bytes"; static. False if there is no reading of that name. */
const char *weft_reading_name(weft_reading reading);
bool weft_reading_parse(const char *text, weft_reading *out_reading);

#ifdef __cplusplus
}
#endif
#endif
