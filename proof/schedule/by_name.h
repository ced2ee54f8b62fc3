/* by_name.h: what Paddle's executor makes of a program: dependencies between launches, and events. */
#ifndef PROOF_SCHEDULE_BY_NAME_H
#define PROOF_SCHEDULE_BY_NAME_H

#include "proof/findings.h"
#include "proof/schedule/bind.h"

/* One instruction. The list is taken twice, so that hazards between steps are seen: n is twice their number. */
typedef struct instr {
    const weft_op *op;
    uint32_t event;   /* its launch, of the step */
    uint32_t end;     /* the last launch of what it runs: its own, or in a block below */
    uint32_t covered; /* the last of these on its stream */
    uint32_t context; /* its stream */
    bool is_async;    /* a device kernel; else what depends on it is launched when it has run */
} instr;

/* A name among the arguments of an instruction: every place where it stands. */
enum {
    ARG_OUT = 1,
    ARG_IN = 2,
    ARG_BYTES = 4 /* an input whose bytes are needed */,
    ARG_NAMED = 8 /* bind_is_named */
};
typedef struct instr_arg {
    uint32_t var;
    uint32_t is;
} instr_arg;

typedef struct list {
    uint32_t *items;
    size_t count, capacity;
} list;

typedef struct by_name {
    proof_schedule *s;
    arena *arena;
    const weft_block *block; /* whose ops; each block that an op runs has an executor of its own */
    instr *instrs;
    size_t n;
    instr_arg *args;          /* of the first copy: instruction i's are first_arg[i] .. first_arg[i + 1] */
    uint32_t *first_arg;      /* inputs first */
    list *after, *before;     /* by instruction: launched after, before it; the higher is after the lower */
    list *waits;              /* by event: events that it waits for, sorted */
    uint32_t *visited, stamp; /* by instruction */
    list stack;               /* of searches */
} by_name;

static inline const instr_arg *by_name_args(const by_name *z, uint32_t instr_id, const instr_arg **out_end) {
    uint32_t i = instr_id < z->n / 2 ? instr_id : instr_id - (uint32_t)(z->n / 2);
    *out_end = z->args + z->first_arg[i + 1];
    return z->args + z->first_arg[i];
}
#define FOR_EACH_INSTR_ARG(z, i, a) for (const instr_arg *a##_end, *a = by_name_args(z, i, &a##_end); a < a##_end; a++)

/* by_name_edges.c */
WEFT_MUST_USE weft_status by_name_push(by_name *z, list *l, uint32_t item);
/* An edge; whoever adds it knows that no other path leads from the one to the other. */
WEFT_MUST_USE weft_status by_name_add(by_name *z, uint32_t from, uint32_t to);
/* What Paddle takes for a communication op. */
bool by_name_communicates(const weft_op *op);
/* by_name.c. Random ops that Paddle keeps in order. */
bool by_name_draws(const weft_op *op);
/* Ops that only the order of their stream and events complete (kGpuAsync). */
bool by_name_is_async(const weft_op *op);
/* Inputs of which only type and shape count. */
bool by_name_needs_no_bytes(const weft_op *op, const slot *s);
/* Marks all that comes after `from`: n flags. */
WEFT_MUST_USE weft_status by_name_behind(by_name *z, uint32_t from, bool **out);

/* by_name.c: instructions, and `after`, `before`: of block 0; of a block of which launches [first, end) are. */
WEFT_MUST_USE weft_status by_name_depend(by_name *z, proof_schedule *s, arena *a);
WEFT_MUST_USE weft_status by_name_depend_in(by_name *z, proof_schedule *s, arena *a, const weft_block *block,
                                            size_t first, size_t end);
/* by_name_reach.c: takes away hazards that others imply, and sets `after`. */
WEFT_MUST_USE weft_status by_name_shrink(by_name *z);
/* by_name_coalesce.c: the dependencies of fused buffers. */
WEFT_MUST_USE weft_status by_name_coalesce(by_name *z);
/* by_name_events.c: `waits`. */
WEFT_MUST_USE weft_status by_name_wait(by_name *z);
/* by_name_memory.c: who lets go of what memory, and behind which launch: in each of the n blocks. */
WEFT_MUST_USE weft_status by_name_free(by_name *z, size_t n);

/* --- what comes before: by_name_reach.c --------------------------------------------------------------------------- */

/* Rows of bits: which of up to REACH_SOURCES instructions come before each of the first `nrows`. */
enum { REACH_WORDS = 8, REACH_SOURCES = 64 * REACH_WORDS, NO_COLUMN = UINT16_MAX };
typedef struct reach {
    const by_name *z;
    uint64_t *rows;
    uint16_t *column_of; /* by instruction: its number among the sources; NO_COLUMN */
    size_t nrows;
    const uint32_t *sources;
    size_t nsources;
    uint32_t first; /* the lowest source: rows up to it are not made */
} reach;

WEFT_MUST_USE weft_status reach_begin(reach *r, const by_name *z, size_t nrows);
/* Sources rise. Rows have to be filled, from first + 1 up. */
void reach_take(reach *r, const uint32_t *sources, size_t nsources);
void reach_fill(reach *r);
/* Before the list of sources is changed. */
void reach_drop(reach *r);
/* Adds what comes before the predecessors of `y`, then these themselves. */
void reach_join(const reach *r, uint32_t y, uint64_t *row);

static inline uint64_t *reach_row(const reach *r, uint32_t y) {
    return r->rows + (size_t)y * REACH_WORDS;
}
static inline bool reach_has(const uint64_t *row, uint32_t column) {
    return row[column / 64] >> (column % 64) & 1;
}
static inline void reach_set(uint64_t *row, uint32_t column) {
    row[column / 64] |= UINT64_C(1) << (column % 64);
}

#endif
