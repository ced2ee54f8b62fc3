/* rewrite.h: what rules are written with that put other ops in an op's place (rewrite.c, rewrite_composed.c).
 * Functions without a remark are those of rewrite_args.c. */
#ifndef PLAN_REWRITE_H
#define PLAN_REWRITE_H

#include "plan/unroll.h"

typedef struct rewriting {
    unroll *u;
    unroll_scope *s;
    weft_op *op; /* that is replaced */
} rewriting;

typedef struct argument {
    const char *slot;
    weft_var *var;
} argument;
enum { MOST_ARGS = 4 };
#define ARGS(...) ((const argument[MOST_ARGS + 1]){__VA_ARGS__})

/* The first var in a slot; NULL: there is none. */
WEFT_MUST_USE weft_status rewrite_input(const rewriting *r, const char *slot_name, weft_var **out);
WEFT_MUST_USE weft_status rewrite_output(const rewriting *r, const char *slot_name, weft_var **out);
/* A new var of the same type, or of a type that inference finds. */
WEFT_MUST_USE weft_status rewrite_temporary(const rewriting *r, weft_var *like, weft_var **out);
WEFT_MUST_USE weft_status rewrite_unknown(const rewriting *r, weft_var *like, weft_var **out);
/* An op with the attrs of the one that is replaced; arguments without a var are left out. */
WEFT_MUST_USE weft_status rewrite_begin(const rewriting *r, const char *type, const argument *in, weft_op **out);
/* The same with one output, in its place. */
WEFT_MUST_USE weft_status rewrite_emit(const rewriting *r, const char *type, const argument *in, const char *out_slot,
                                       weft_var *out);
/* The sum over what a value was stretched to, where it was. */
WEFT_MUST_USE weft_status rewrite_sum_to(const rewriting *r, weft_var *from, weft_var *like, weft_var *to);

/* rewrite_third.c: a gradient of a second gradient. */
bool rewrite_is_third(const char *type);
WEFT_MUST_USE weft_status rewrite_third(const rewriting *r);

/* rewrite_composed.c: an op that is some calls of others. */
bool rewrite_is_composed(const char *type);
WEFT_MUST_USE weft_status rewrite_composed(const rewriting *r);

#endif
