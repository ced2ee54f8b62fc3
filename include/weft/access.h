/* weft/access.h: who reads and writes a var, by its name and by its bytes. */
#ifndef WEFT_ACCESS_H
#define WEFT_ACCESS_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- by name: the arguments that are the var ---------------------------------------------------------------------- */

/* Goes over the uses of a var, in no particular order.
 *
 *     weft_uses u = weft_var_uses(var);
 *     while (weft_uses_next(&u)) if (u.is_output) ... u.op writes it, in slot u.slot
 *
 * Meanwhile the op at hand may be removed or its arguments renamed, no other. */
typedef struct weft_uses {
    weft_op *op;
    const char *slot;
    size_t index; /* in the slot */
    bool is_output;
    const weft_program *program;
    uint32_t next;
} weft_uses;

weft_uses weft_var_uses(const weft_var *var);
bool weft_uses_next(weft_uses *uses); /* false: there are no more */

/* A number for tables of a host's own: below weft_program_nvar_ids, and the var's as long as the program lives. */
size_t weft_var_id(const weft_var *var);
size_t weft_program_nvar_ids(const weft_program *program);

/* --- by bytes: views and sub-blocks included ---------------------------------------------------------------------- */

/* Accesses of block 0, in program order for each var. Vars share bytes where an op makes one a view of another, as
 * coalesce_tensor does. What the ops of a sub-block do counts as done by the op that runs it. */
typedef struct weft_accesses weft_accesses;

typedef struct weft_access {
    weft_op *op;
    size_t position; /* of the op in block 0, from 0 */
    bool reads, writes;
    bool is_nested;   /* through a sub-block that it runs */
    bool makes_views; /* it lays out or names the bytes (coalesce_tensor, a view): it is no consumer of them */
} weft_access;

/* Linear. Holds until ops are inserted or moved. Removed ops stay in it: their weft_op_block is NULL. The caller
 * destroys it before the program. */
WEFT_MUST_USE weft_status weft_accesses_create(weft_program *program, weft_accesses **out_accesses);
void weft_accesses_destroy(weft_accesses *accesses); /* NULL is fine */
/* Ops of block 0 by position. */
size_t weft_accesses_nops(const weft_accesses *accesses);
weft_op *weft_accesses_op(const weft_accesses *accesses, size_t position);
/* Accesses of the var's bytes: how many, and one below that. O(1). */
size_t weft_accesses_count(const weft_accesses *accesses, const weft_var *var);
weft_access weft_accesses_at(const weft_accesses *accesses, const weft_var *var, size_t index);
/* The id of one var that stands for all that share bytes with `var`. */
size_t weft_accesses_class(const weft_accesses *accesses, const weft_var *var);

#ifdef __cplusplus
}
#endif
#endif
