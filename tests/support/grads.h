/* grads.h: small data-parallel programs for the tests of the gradient passes: made in a line an op, and run on imagined
 * ranks with one number for each variable. They are checked for races as a reader who goes by explicit waits alone
 * would. */
#ifndef TESTS_SUPPORT_GRADS_H
#define TESTS_SUPPORT_GRADS_H

#include "program/ir.h"
#include "weft/pass.h"

typedef struct grads {
    weft_context *context;
    weft_program *p;
    weft_block *b;    /* where ops go: block 0 */
    weft_dtype dtype; /* of new variables */
    int64_t dims[2];  /* and their shape: 2-D */
} grads;

/* fp32 variables of 4 x 8; rings 1 (ranks 0 1 2 3), 2 (0 1 2 3 too) and 3 (0 2 | 1 3 as seen by rank 0). */
void grads_create(grads *g);
void grads_create_with(grads *g, const weft_context_options *options);
void grads_destroy(grads *g);

/* The variable of that name, made if there is none. */
weft_var *grads_var(grads *g, const char *n);
/* Appends an op written as "relu_grad Out=a Out@GRAD=b -> X@GRAD=c,d". Role backward. */
weft_op *grads_op(grads *g, const char *line);
weft_op *grads_seed(grads *g, const char *n, double value);
weft_op *grads_reduce(grads *g, const char *n, int64_t ring_id);
/* reduce + scale */
void grads_sync(grads *g, const char *n, int64_t ring_id, double factor);
/* sgd of a parameter "w" by gradient n; role optimize. */
weft_op *grads_sgd(grads *g, const char *w, const char *n);

/* Runs a pass list; the report is the caller's. Fails the test if the list fails. */
weft_report *grads_passes(grads *g, const char *yaml);
/* The same, and nothing but what it does to the program. */
void grads_run(grads *g, const char *yaml);
/* Runs the list on what `make` makes, with the n-th allocation of the run failing, for every n: it ends with a status,
 * the program can still be looked at, and nothing leaks. Fails the test otherwise. */
typedef void (*grads_make_fn)(grads *g, const weft_context_options *options, unsigned seed);
void grads_run_without_memory(grads_make_fn make, unsigned seed, const char *yaml);
/* How many ops of a type block 0 has. */
size_t grads_count(const grads *g, const char *type);
/* The types of block 0's ops in order, with the first output in brackets: "relu_grad(c) sgd(w)". Caller's buffer. */
const char *grads_text(const grads *g, char *out, size_t nbytes);
/* Whether any left-alone entry of the report's pass has this reason and words. */
bool grads_left(const weft_report *r, size_t pass_index, weft_reason reason, const char *message);

/* Runs both programs on 4 ranks and compares parameters and fetched values; writes the first difference to `out`. */
bool grads_same(const weft_program *a, const weft_program *b, char *out, size_t nbytes);
/* Whether every two conflicting accesses on different streams are ordered by recorded events; else names them. */
bool grads_in_order_safe(weft_program *p, char *out, size_t nbytes);
/* Whether every two conflicting accesses are connected by dependencies between equal variable names. Paddle's executor
 * goes by these alone (a nop counts as reading and writing what it names); else names them. */
bool grads_by_name_safe(weft_program *p, char *out, size_t nbytes);

#endif
