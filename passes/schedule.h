/* schedule.h: another order of block 0 in which waits come late and collectives early; what may move, and how far. */
#ifndef PASSES_SCHEDULE_H
#define PASSES_SCHEDULE_H

#include "passes/live_bytes.h"
#include "passes/pending.h"

/* How an op may move. Ops are known by their position in the block as it was found, which is also their mark. */
typedef enum motion {
    STAYS,
    BARRIER, /* nothing moves past it: it blocks the host, runs a block, or nobody knows what it touches */
    WAIT,    /* sinks */
    VIEW,    /* goes along with what it is a view of, or with what is made of it */
    COPY,    /* of a pending result, which nothing but copies consumed so far: sinks if the wait does */
    LAUNCH   /* an asynchronous collective: rises */
} motion;

/* An op touches a place: the bytes of an alias class, a name that a view gives to some, the order of a ring. */
typedef struct touch {
    uint32_t place : 31, writes : 1;
} touch;

typedef struct schedule {
    weft_program *program;
    arena *arena;
    pending_list found;
    size_t nops;
    uint8_t *motions; /* by op: a motion */
    uint32_t *runs;   /* by op: 1 + the first op of its fused run (program/fused_run.h); 0: it is in none */
    uint32_t *first;  /* by op: into touches; nops + 1 of them */
    touch *touches;
    size_t ntouches, touch_capacity;
    uint32_t nplaces, nclasses;        /* places below nclasses are bytes */
    int64_t *nbytes;                   /* by class: of temporaries; 0: lives all the time, or size not known */
    uint32_t *order;                   /* op at each position */
    bool *moved;                       /* by op: may not be where it was */
    int64_t limit;                     /* of live bytes at any position; INT64_MAX: none */
    size_t nwaits, ncopies, nlaunches; /* that moved past something */
    size_t nheld;                      /* waits and collectives that the limit kept from moving as far as they could */
} schedule;

/* Finds motions and touches; the order is that of the block. Linear. */
WEFT_MUST_USE weft_status schedule_begin(weft_program *p, const pending_list *found, arena *a, schedule *out);
/* Each changes the order alone. Linear; with a limit n log n. */
WEFT_MUST_USE weft_status schedule_sink(schedule *s);
WEFT_MUST_USE weft_status schedule_rise(schedule *s);
/* The largest sum of temporaries that are live at once in this order. Linear. */
WEFT_MUST_USE weft_status schedule_peak(const schedule *s, int64_t *out_nbytes);

#endif
