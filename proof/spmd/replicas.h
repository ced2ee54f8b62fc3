/* replicas.h: what replicas.c knows of the values of a rank, and how it tells of those that differ. */
#ifndef PROOF_SPMD_REPLICAS_H
#define PROOF_SPMD_REPLICAS_H

#include "proof/checks/checks.h"
#include "proof/schedule/bind.h"
#include "proof/spmd/axes.h"

enum { UNKNOWN = 0, AT_START = 1, WRITTEN = 2 };
#define INNER (UINT32_C(1) << 31) /* beyond any event */

/* What is known of a var. */
typedef struct var_state {
    axes differs;    /* where it is known: written, or looked at */
    uint32_t known;  /* UNKNOWN, AT_START, or WRITTEN and by whom: flow->at */
    uint32_t shared; /* into flow->shared, plus one; 0: a value of its own, in one piece */
} var_state;

/* A var that shows the value of another, or is made of others. */
typedef struct sharing {
    const uint32_t *parts;       /* ids of the members of a fused buffer */
    uint32_t nparts;             /* 0: it is none */
    uint32_t own_begin, own_end; /* members that the rank made itself, where others made the rest: */
    axes joined;                 /* along these, all members together are one value */
    uint32_t alias_of;           /* id of the var whose value it shows, plus one; 0: its own */
} sharing;

/* An op of a block that another op runs. */
typedef struct inner_op {
    const weft_op *op;
    uint32_t outer; /* index of that other op */
} inner_op;

typedef struct flow {
    const weft_program *program;
    const proof_schedule *schedule;
    weft_findings *findings;
    arena *arena;
    int64_t rank, nranks;
    axis_grid grid;
    var_state *vars; /* by var id */
    sharing *shared;
    size_t nshared, shared_capacity;
    inner_op *inner;
    size_t ninner, inner_capacity;
    bool is_exact;    /* each output of an op is looked at by itself; else what would be reported makes it */
    bool is_doubtful; /* and is not reported yet */
    uint32_t at;      /* the op at hand: its event, or INNER and its number */
    bool *entered;    /* by block */
    bool *reported;   /* by var id */
    axes guard;
    proof_schedule *places; /* one event, to name ops with */
} flow;

static inline const sharing *sharing_of(const flow *f, uint32_t id) {
    return f->vars[id].shared ? &f->shared[f->vars[id].shared - 1] : NULL;
}

/* The id of the var whose value a var shows: itself, or what it is an alias of. */
static inline uint32_t replicas_shown_by(const flow *f, uint32_t id) {
    for (const sharing *s = sharing_of(f, id); s && s->alias_of; s = sharing_of(f, id)) id = s->alias_of - 1;
    return id;
}

/* replicas_report.c. State that must be equal on all ranks is updated from `v`, which differs; once a var. */
WEFT_MUST_USE weft_status replicas_report(flow *f, const weft_op *op, uint32_t index, const weft_var *v,
                                          const weft_var *state, axes differ);
/* A collective under a condition that differs. */
WEFT_MUST_USE weft_status replicas_report_guarded(flow *f, const weft_op *op, uint32_t index, axes differ);

#endif
