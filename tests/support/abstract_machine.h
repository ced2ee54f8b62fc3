/* abstract_machine.h: a machine of hosts, streams and events, on which small programs of two or three ranks run. All
 * states that it can get into are searched. Shares nothing with proof/: it is what proof/ is held against.
 *
 * A host walks its program and puts onto streams what each op does there: work, records of events, waits for them. A
 * stream does one after another. Work touches bytes from its start to its end; that of a collective ends on all members
 * of its ring at once, when all of them have started it. One step: between two steps all streams are idle, and the
 * second is as the first. */
#ifndef TESTS_SUPPORT_ABSTRACT_MACHINE_H
#define TESTS_SUPPORT_ABSTRACT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum { TOY_RANKS = 3, TOY_OPS = 12, TOY_VARS = 7, TOY_RINGS = 2, TOY_EVENTS = 4, TOY_STREAMS = 2, TOY_NONE = -1 };

typedef enum toy_kind {
    TOY_SCALE,         /* reads in[0], writes out */
    TOY_ADD,           /* reads both, writes out */
    TOY_COALESCE,      /* in[0], in[1] become parts of out, one behind the other */
    TOY_COALESCE_COPY, /* the same, and their values are kept */
    TOY_COALESCE_SET,  /* the same, and all of out is written */
    TOY_SHARE,         /* out becomes another name of in[0] */
    TOY_NOP,           /* touches nothing */
    TOY_REDUCE,        /* all-reduce of in[0] into out */
    TOY_BROADCAST,     /* from rank `root`, in place */
    TOY_ASYNC_REDUCE,  /* on the ring's own stream, behind what compute was given before */
    TOY_BARRIER,       /* a collective that blocks the host */
    TOY_WAIT_COMPUTE,  /* the ring's own stream waits for compute */
    TOY_WAIT_COMM,     /* compute waits for the ring's own stream */
    TOY_WAIT_VALUE,    /* the op's stream waits for the asynchronous collectives that fill in[0]; out names it too */
    TOY_SYNC,          /* the host waits for the op's stream */
    TOY_FETCH,         /* reads in[0] and blocks the host */
    TOY_KINDS
} toy_kind;

typedef struct toy_op {
    toy_kind kind;
    int in[2], out;
    int ring, root;
    int stream;   /* a named one, or TOY_NONE */
    bool on_ring; /* TOY_REDUCE without a named stream: on the ring's own */
    int record;   /* an event, or TOY_NONE */
    int wait[2];  /* events, or TOY_NONE */
} toy_op;

typedef struct toy_program {
    toy_op ops[TOY_OPS];
    int nops;
} toy_program;

typedef struct toy_world {
    toy_program ranks[TOY_RANKS];
    int nranks;
    uint32_t members[TOY_RINGS]; /* by ring: bits of ranks */
} toy_world;

/* Bytes of a var. */
int toy_nbytes(int var);

typedef struct toy_outcome {
    bool gets_stuck;                    /* a state that nothing leads out of, and a rank is not done */
    uint16_t races[TOY_RANKS][TOY_OPS]; /* by rank and op: earlier ops (bits) that it may overtake or overlap */
    uint16_t started[TOY_RANKS];        /* ops that start in some execution */
    int nstates;
} toy_outcome;

/* At most `max_in_flight` collectives of a rank are launched and not complete: its host waits before the next. 0: no
 * limit. False if there are more than `max_states`. */
bool toy_search(const toy_world *w, int max_in_flight, int max_states, toy_outcome *out);

#endif
