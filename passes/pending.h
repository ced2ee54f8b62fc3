/* pending.h: collectives whose result is pending until a wait, which op needs each first, and touches: accesses to
 * bytes as the passes that place waits count them. */
#ifndef PASSES_PENDING_H
#define PASSES_PENDING_H

#include "passes/access.h"
#include "passes/pass_manager.h"

/* One output of an asynchronous collective of block 0. Its bytes may not be touched before the wait for it, and those
 * that the collective reads not written. */
typedef struct pending {
    weft_op *op;                /* the collective */
    const use *out;             /* the output */
    weft_var *var;              /* its var when it was found */
    uint32_t position;          /* of op */
    uint32_t wait_position;     /* of wait */
    uint32_t consumer_position; /* of consumer */
    weft_op *wait;              /* the first wait_tensor for any alias of var, NULL: none */
    weft_op *consumer; /* the first op after the collective that touches those bytes (a fetch does, a view does not) or
                          writes what the collective reads; NULL: none */
} pending;

/* A wait for what was waited for before, or is pending no more. */
typedef struct extra_wait {
    uint32_t position, pending; /* of the wait; index of the pending result that it is one too many for */
} extra_wait;

typedef struct pending_list {
    access_index index; /* positions and alias classes; its accesses are not gathered */
    pending *items;     /* in program order */
    size_t count;
    extra_wait *extras;
    size_t nextras;
} pending_list;

/* Finds all pending results of block 0: linear in the program; only positions anew if nothing was edited since it was
 * asked last. Holds until it is asked after an edit. */
WEFT_MUST_USE weft_status pending_of(weft_pass_context *pass, weft_program *p, pending_list *out);

/* What is known of a program's pending results while passes run over it. */
typedef struct pending_check {
    pass_finding found;
    bool sound; /* all are waited for once and in time: as of the last check; false at first */
} pending_check;
void pending_check_init(pending_check *check, weft_context *context);
void pending_check_fini(pending_check *check);
/* Counts pending results that are touched without a wait or before it, and waits that are one too many. Where the last
 * check found none, each becomes a diagnostic that names the ops. Costs next to nothing where no op is asynchronous. */
WEFT_MUST_USE weft_status check_pending_use(pending_check *check, weft_program *p, size_t *out_nproblems);

bool op_is_wait(const weft_op *op);
/* The collective's name for the pending result where it writes in place (slot "alias"); NULL: it has none. */
const use *pending_alias(const pending *p);
/* An op that touches no bytes and makes views alone. */
bool op_makes_views_only(weft_op *op);
/* Whether the arguments of this output slot are views of inputs (`Out&X`), so that the op writes nothing through them.
 */
bool output_is_view(weft_op *op, const slot *s);

/* Calls `visit` for every argument of `op`, and of the ops in the sub-blocks that it runs, through which bytes are
 * touched: not for views and what they are made of, and not for ops that are an order alone. */
typedef weft_status (*visit_touch_fn)(void *user, const use *u);
WEFT_MUST_USE weft_status touches_visit(weft_op *op, arena *scratch, visit_touch_fn visit, void *user);

#endif
