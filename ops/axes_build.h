/* axes_build.h: between the files that make a rule of a row: axes.c, axes_bind.c, axes_clauses.c. */
#ifndef OPS_AXES_BUILD_H
#define OPS_AXES_BUILD_H

#include "ops/axes_text.h"

/* Gives dimensions of arguments their factors, as patterns say; false: they do not fit. */
bool axes_bind(axes_build *b);
/* The pattern of an argument; NULL: the rule does not name its slot. */
const axes_pattern *axes_pattern_of(const axes_build *b, const axes_arg *x, bool is_output);
/* Sets sizes that clauses give, before patterns are bound. */
void axes_read_sizes(axes_build *b);
/* What clauses say once factors are there. NULL, or a word that is wrong. */
const char *axes_apply_clauses(axes_build *b, const axes_text *clauses);
/* Groups that marks of linearity in ops.def say, where no clause does; gradients are linear always. */
void axes_default_groups(axes_build *b, bool has_groups);
bool axes_holds(const axes_build *b, const axes_conditions *all);
/* Dimensions of `width` that an attr lists, as bits; `flag` not NULL: all where that attr holds, or the list is empty.
 */
uint32_t axes_listed(const axes_build *b, const char *attr, const char *flag, int width);

#endif
