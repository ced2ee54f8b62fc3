/* read.h: a program, read op by op, as the terms of what it leaves behind. */
#ifndef PROOF_EQUIVALENCE_READ_H
#define PROOF_EQUIVALENCE_READ_H

#include "proof/equivalence/term.h"

/* Something that leaves the program: a persistable after the step, a fetched value, a loss, what it sends. */
typedef struct output {
    const name *key; /* among t->symbols; what tells it apart in both programs */
    const char *var; /* its name, in the table's memory */
    uint32_t term;
    int64_t rank; /* whose it is in a list of several ranks' values; else OF_NO_RANK */
} output;
enum { OF_NO_RANK = -1 };

/* A collective of block 0, in program order: its first argument's value and its first result. One of several tensors
 * that are gathered or scattered each alone is as many. */
typedef struct collective {
    const weft_op *op;
    uint32_t argument, result;
} collective;

/* A collective whose outputs are symbols (HEAD_OPENED): what they are, other ranks' programs say. Its arguments are in
 * the order of FOR_EACH_ARG. */
typedef struct opened {
    const weft_op *op;
    uint32_t head;        /* the op as a function: type, attrs, ring */
    const uint32_t *args; /* in the table's memory */
    size_t nargs;
} opened;

/* A var of block 0, and a value that was written to it. */
typedef struct written_value {
    uint32_t var, term;
} written_value;

typedef struct outputs {
    output *items;
    size_t count, capacity;
    collective *collectives;
    size_t ncollectives, collectives_capacity;
    written_value *written; /* in program order */
    size_t nwritten, written_capacity;
    opened *opened; /* program_read_apart; in program order */
    size_t nopened, opened_capacity;
} outputs;

/* Reads all blocks that block 0 runs. `fetches`: names of vars that leave it too. Linear. */
WEFT_MUST_USE weft_status program_read(terms *t, weft_program *p, const char *const *fetches, size_t nfetches,
                                       outputs *out);
/* The same, but what ranks tell each other is left open: sends leave nothing, and what comes is a symbol. Nothing
 * under a condition is followed. */
WEFT_MUST_USE weft_status program_read_apart(terms *t, weft_program *p, const char *const *fetches, size_t nfetches,
                                             outputs *out);
void outputs_fini(const terms *t, outputs *o);

/* --- between the files of reading --------------------------------------------------------------------------------- */

typedef enum binding { BOUND_NONE, BOUND_SLOT, BOUND_WHOLE, BOUND_VIEW } binding;

/* A var's value while reading. A bound var has none of its own: a slot of a store, a whole store, or a view of a var.
 */
typedef struct cell {
    uint32_t term; /* TERM_NONE: not touched yet */
    uint8_t binding;
    uint32_t target, slot; /* a store and its slot; the var that is the base, and the argument of `view_slot` */
    weft_op *view;         /* BOUND_VIEW: the op that made it */
    const struct slot *view_slot;
    uint32_t nrandom; /* random ops that wrote it */
    uint32_t fence;   /* the block in whose reading it was written last */
    uint32_t merged;  /* the last condition that it was merged under */
} cell;

/* The buffer of a coalesce_tensor. */
typedef struct store {
    uint32_t *values;
    uint32_t *merged; /* as in cell */
    int64_t *ranges;
    int64_t total;
    size_t nslots;
    const weft_op *op;
    bool misfit; /* members of another element type or shape than the op says: what is written may run over */
} store;

/* What a place held before it was written, for conditions: a cell, or a slot of a store. */
typedef struct change {
    uint32_t at, slot; /* slot UINT32_MAX: a cell */
    uint32_t old;
} change;

/* How many messages were sent to a member of a ring, or received from it. */
typedef struct mailbox {
    int64_t ring, peer, count;
    bool is_send;
} mailbox;

typedef struct reader {
    terms *t;
    weft_program *p;
    arena memory;
    cell *cells; /* by var id */
    store *stores;
    size_t nstores, stores_capacity;
    change *changes;
    size_t nchanges, changes_capacity;
    uint32_t depth; /* of conditions: changes are kept while positive */
    uint32_t nconditions, nfences, fence;
    uint32_t *outer; /* vars that the block behind the fence reads from outside */
    size_t nouter, outer_capacity;
    uint32_t nested_views;    /* while a view of a view is read */
    bool fence_broken;        /* it writes bytes that it shares with vars outside */
    size_t nsteps;            /* ops read: nested blocks may be read many times */
    const name ***attr_names; /* by schema: the program's names of its attrs, NULL where it has none */
    uint8_t *rules;           /* by schema; 0: not looked up */
    mailbox *mailboxes;
    size_t nmailboxes, mailboxes_capacity;
    bool opens;         /* collectives */
    shape_env declared; /* of programs with meshes */
    outputs *out;
} reader;

/* read_declared.c: whether an op that moves elements, of a program with meshes, makes what its results are declared as.
 */
WEFT_MUST_USE weft_status agrees_with_declared(reader *r, weft_op *op, bool *out);

/* read_values.c */
WEFT_MUST_USE weft_status read_var(reader *r, const weft_var *v, uint32_t *out);
WEFT_MUST_USE weft_status read_value(reader *r, const weft_var *v, value *out);
WEFT_MUST_USE weft_status write_var(reader *r, const weft_var *v, uint32_t term_id);
WEFT_MUST_USE weft_status make_store(reader *r, const weft_op *coalesce);
/* Writes select(condition, now, before) to all that changed since `mark`. */
WEFT_MUST_USE weft_status merge_changes(reader *r, uint32_t condition, size_t mark);

/* read_heads.c */
WEFT_MUST_USE weft_status op_head(reader *r, weft_op *op, uint32_t *out);
/* Of one argument of several that the op treats alike. */
WEFT_MUST_USE weft_status op_head_of_one(reader *r, weft_op *op, uint32_t *out);
/* Output `index` of the slot, of that var's type. */
WEFT_MUST_USE weft_status out_term(reader *r, const weft_op *op, uint32_t op_term, const slot *s, size_t index,
                                   uint32_t *out);
/* The ring of a collective: its ranks where the program says; a label for people in `label`. */
const ring *op_ring_of(const weft_program *p, const weft_op *op, char *label, size_t nbytes);
/* The number of a send or receive among those with its peer. */
WEFT_MUST_USE weft_status next_message(reader *r, const weft_op *op, int64_t *out_number);

/* read_views.c */
bool var_knows_dims(const weft_var *v);                 /* a dense tensor, all extents declared */
int64_t var_numel_from(const weft_var *v, size_t axis); /* of the extents from `axis` on */

/* read_function.c: what op_results says of an op without a rule. */
WEFT_MUST_USE weft_status function_results(reader *r, weft_op *op, uint32_t *results);

/* read_opened.c */
bool depends_on_ring(const weft_op *op);
WEFT_MUST_USE weft_status read_opened(reader *r, weft_op *op);

/* read_ops.c: the values of an op's outputs, in the order of FOR_EACH_ARG, without writing them. TERM_NONE: unchanged.
 */
WEFT_MUST_USE weft_status op_results(reader *r, weft_op *op, uint32_t *results);
size_t op_noutputs(const weft_op *op);
/* The output whose name, and how often random ops wrote it, make a random op's seed; NULL: it has none. */
const weft_var *random_var(weft_op *op);
/* The var whose bytes argument `index` of output slot `s` is a view of; NULL: it is none. */
const weft_var *view_base(weft_op *op, const slot *s, size_t index);
/* Which of the views that the op makes of that var it is. */
size_t view_part(const weft_op *op, size_t index);
/* What that view of `base`, which is `of` now, shows. */
WEFT_MUST_USE weft_status view_result(reader *r, weft_op *op, const slot *s, size_t index, const weft_var *base,
                                      uint32_t of, uint32_t *out);
#endif
