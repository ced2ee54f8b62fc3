/* by_name.h: what Paddle's executor makes of a program: dependencies between launches, and events. */
#ifndef PROOF_SCHEDULE_BY_NAME_H
#define PROOF_SCHEDULE_BY_NAME_H

#include "proof/findings.h"
#include "proof/schedule/bind.h"

enum { BY_NAME_MAX_INSTRS = 40000 }; /* the matrix of happens-before takes a bit for each pair */

/* One instruction. The list is taken twice, so that hazards between steps are seen: n is twice their number. */
typedef struct instr {
    const weft_op *op;
    uint32_t event;   /* its launch, of the step */
    uint32_t context; /* its stream */
    bool is_async;    /* a device kernel; else what depends on it is launched when it has run */
} instr;

typedef struct list {
    uint32_t *items;
    size_t count, capacity;
} list;

typedef struct by_name {
    proof_schedule *s;
    arena *arena;
    instr *instrs;
    size_t n, nwords;
    list *after, *before; /* by instruction: launched after, before it */
    uint64_t *earlier;    /* n rows of bits: which instructions are launched before */
    list *waits;          /* by event: events that it waits for */
    uint32_t *visited, stamp;
} by_name;

WEFT_MUST_USE weft_status by_name_push(by_name *z, list *l, uint32_t item);
/* Whether an op names `v` among its outputs, or its inputs; with_bytes: not where it looks at the type alone. */
bool by_name_names(const weft_op *op, bool output, const weft_var *v, bool with_bytes);
/* by_name.c: instructions, and `after`, `before`, `earlier`. */
WEFT_MUST_USE weft_status by_name_depend(by_name *z, proof_schedule *s, arena *a);
/* by_name_events.c: `waits`. */
WEFT_MUST_USE weft_status by_name_wait(by_name *z);

static inline bool by_name_before(const by_name *z, uint32_t x, uint32_t y) {
    return z->earlier[(size_t)y * z->nwords + x / 64] >> (x % 64) & 1;
}

#endif
