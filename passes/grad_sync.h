/* grad_sync.h: what the four data-parallel passes share: gradient syncs, streams, events. */
#ifndef PASSES_GRAD_SYNC_H
#define PASSES_GRAD_SYNC_H

#include "passes/access.h"
#include "passes/pass_manager.h"

/* One collective of a sync. */
typedef struct grad_reduce {
    weft_op *op;
    weft_op *wait; /* the c_wait_compute without arguments, of the same ring, that stands directly before it; or NULL */
    int64_t ring;
    weft_reduce reduce; /* SUM or AVG */
} grad_reduce;

/* A gradient's way through its rings: the run of data-parallel all-reduces and scales on one var that nothing else that
 * touches its bytes interrupts. */
typedef struct grad_sync {
    weft_var *var;
    grad_reduce *reduces; /* in program order, at least one */
    weft_op **scales;     /* in program order */
    size_t nreduces, nscales;
    double factor;          /* product of the scales' factors; 1 if there are none */
    uint32_t first, last;   /* positions of the first reduce and of the last op */
    uint32_t next;          /* position of the next access after it; UINT32_MAX: none */
    uint32_t before;        /* how many accesses there are before it */
    const access *accesses; /* of the var's class */
    size_t naccesses;
} grad_sync;

/* What an op is to gradient syncs. */
typedef enum grad_kind { GRAD_OTHER, GRAD_REDUCE, GRAD_SCALE } grad_kind;

typedef struct grad_syncs {
    access_index index;
    uint8_t *kinds;   /* by position: a grad_kind */
    grad_sync *items; /* by position of the first reduce */
    size_t count;
    size_t nothers; /* all-reduces of block 0 that are none of data parallelism */
} grad_syncs;

/* Finds the syncs of block 0. Linear, and only a copy if nothing was edited since a pass of this run asked. Holds until
 * it is called again after an edit. */
WEFT_MUST_USE weft_status grad_syncs_find(weft_pass_context *pass, weft_program *p, grad_syncs *out);
/* After edits that only removed scales of syncs and ops that touch no bytes, or changed attrs that say nothing of what
 * syncs are: what was found holds on, so that the next pass need not look for it. Removed ops stay in index.ops. */
void grad_syncs_keep(weft_pass_context *pass, weft_program *p);
/* Reports that there is nothing to do, and why. */
WEFT_MUST_USE weft_status grad_syncs_none(weft_pass_context *pass, const grad_syncs *syncs);

bool op_is_grad_reduce(const weft_op *op);
bool op_is_grad_scale(const weft_op *op);
/* Whether a sync runs on a stream that a pass or a sidecar named. */
bool grad_syncs_have_streams(const grad_syncs *syncs);
/* The mesh that a sync's collectives run on, NULL if the program does not say. */
const mesh *grad_sync_mesh(const grad_sync *s);

WEFT_MUST_USE weft_status op_set_stream(weft_op *op, const char *stream);

/* Writes anew the events that order every gradient sync of block 0 against what other streams do with the same bytes,
 * so that the program is safe when read in order. Events of other origin stay. The same program always gets the same
 * events; with everything on one stream it gets none. */
WEFT_MUST_USE weft_status grad_sync_write_events(weft_pass_context *pass, weft_program *p, size_t *out_nevents);

#endif
