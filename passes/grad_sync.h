/* grad_sync.h: what the four data-parallel passes share: gradient syncs, streams, events. */
#ifndef PASSES_GRAD_SYNC_H
#define PASSES_GRAD_SYNC_H

#include "ops/collectives.h"
#include "passes/access.h"
#include "passes/pass_manager.h"

/* A gradient's way through its rings: the run of data-parallel all-reduces and scales on one var that nothing else that
 * touches its bytes interrupts. A program has as many as gradients: what the accesses tell is asked of them. */
typedef struct grad_sync {
    weft_var *var;
    double factor;              /* product of the scales' factors; 1 if there are none */
    uint32_t at, before;        /* where its ops begin in the index's `all`, and how many of the class come before */
    uint32_t nreduces, nscales; /* at least one reduce */
} grad_sync;

/* What an op is to gradient syncs. */
typedef enum grad_kind { GRAD_OTHER, GRAD_REDUCE, GRAD_SCALE, GRAD_REMOVED } grad_kind;

typedef struct grad_syncs {
    access_index index;
    uint8_t *kinds;   /* by position: a grad_kind */
    grad_sync *items; /* in the order of their first reduces */
    size_t count;
    size_t nothers; /* all-reduces of block 0 that are none of data parallelism */
} grad_syncs;

static inline size_t grad_sync_nops(const grad_sync *s) {
    return (size_t)s->nreduces + s->nscales;
}
/* Its ops, in program order. */
static inline const access *grad_sync_ops(const grad_syncs *syncs, const grad_sync *s) {
    return syncs->index.all + s->at;
}
/* The k-th of them; NULL if that is of another kind. */
static inline weft_op *grad_sync_op(const grad_syncs *syncs, const grad_sync *s, grad_kind kind, size_t k) {
    uint32_t position = grad_sync_ops(syncs, s)[k].position;
    return syncs->kinds[position] == kind ? access_op(&syncs->index, position) : NULL;
}
/* The first op of that kind at `*at` or behind it, which goes on to what follows; NULL: none. */
static inline weft_op *grad_sync_next_op(const grad_syncs *syncs, const grad_sync *s, grad_kind kind, uint32_t *at) {
    weft_op *op = NULL;
    while (!op && *at < grad_sync_nops(s)) op = grad_sync_op(syncs, s, kind, (*at)++);
    return op;
}
/* Its reduces or its scales, in program order. No break. */
#define FOR_EACH_SYNC_OP(op, syncs, s, kind)                                                                           \
    for (size_t op##_at = 0; op##_at < grad_sync_nops(s); op##_at++)                                                   \
        for (weft_op *op = grad_sync_op(syncs, s, kind, op##_at); op; op = NULL)

/* Positions of its first reduce, of its last op, and of the next access after it; UINT32_MAX: none. */
static inline uint32_t grad_sync_first(const grad_syncs *syncs, const grad_sync *s) {
    return grad_sync_ops(syncs, s)->position;
}
static inline uint32_t grad_sync_last(const grad_syncs *syncs, const grad_sync *s) {
    return grad_sync_ops(syncs, s)[grad_sync_nops(s) - 1].position;
}
uint32_t grad_sync_next(const grad_syncs *syncs, const grad_sync *s);
static inline weft_op *grad_sync_reduce(const grad_syncs *syncs, const grad_sync *s) {
    return access_op(&syncs->index, grad_sync_first(syncs, s));
}
weft_op *grad_sync_last_of(const grad_syncs *syncs, const grad_sync *s, grad_kind kind); /* NULL: none */
/* The c_wait_compute without arguments, of the same ring, that stands directly before a reduce; or NULL. */
weft_op *grad_reduce_wait(const weft_op *reduce);

/* Finds the syncs of block 0. Linear, and only a copy if nothing was edited since a pass of this run asked. Holds until
 * it is called again after an edit. */
WEFT_MUST_USE weft_status grad_syncs_find(weft_pass_context *pass, weft_program *p, grad_syncs *out);
/* After edits that only removed scales of syncs and ops that touch no bytes, or changed attrs that say nothing of what
 * syncs are: what was found holds on, so that the next pass need not look for it. Removed ops stay in the index. */
void grad_syncs_keep(weft_pass_context *pass, weft_program *p);
/* Reports that there is nothing to do, and why. */
WEFT_MUST_USE weft_status grad_syncs_none(weft_pass_context *pass, const grad_syncs *syncs);

bool op_is_grad_reduce(const weft_op *op);
bool op_is_grad_scale(const weft_op *op);
/* Whether a sync runs on a stream that a pass or a sidecar named. */
bool grad_syncs_have_streams(const grad_syncs *syncs);
/* The mesh that a sync's collectives run on, NULL if the program does not say. */
const mesh *grad_sync_mesh(const grad_syncs *syncs, const grad_sync *s);

/* Writes anew the events that order every gradient sync of block 0 against what other streams do with the same bytes.
 * The program is then safe when read in order. Events of other origin stay. The same program always gets the same
 * events; with everything on one stream it gets none. */
WEFT_MUST_USE weft_status grad_sync_write_events(weft_pass_context *pass, weft_program *p, size_t *out_nevents);

#endif
