/* bind.h: which bytes a var's name means at a point of a program: coalesce_tensor, share_data and views bind names
 * anew. */
#ifndef PROOF_SCHEDULE_BIND_H
#define PROOF_SCHEDULE_BIND_H

#include "proof/schedule/written.h"

typedef struct binding {
    uint32_t buffer; /* PROOF_NONE: not bound yet */
    uint32_t part;   /* of a fused buffer: its number plus one (written.h); 0: none */
    int64_t begin, nbytes;
} binding;

typedef struct binder {
    proof_schedule *schedule;
    binding *of_var; /* by var id */
    written written;
} binder;

WEFT_MUST_USE weft_status bind_init(binder *b, proof_schedule *s, const weft_program *p);
/* The bytes that `v` means now. */
WEFT_MUST_USE weft_status bind_get(binder *b, const weft_var *v, binding *out);
/* Lets the outputs of an op that makes views mean other bytes from here on; `event` is the op's, for problems. */
WEFT_MUST_USE weft_status bind_coalesce(binder *b, const weft_op *op, uint32_t event);
WEFT_MUST_USE weft_status bind_views(binder *b, const weft_op *op);
/* Whether output slot `s` of `op` is a view of an input: it then touches no bytes. */
bool bind_is_view(const weft_op *op, const op_schema *schema, const slot *s, const slot **out_input);
/* Whether an op looks at nothing but the type of what input slot `s` holds. */
bool bind_wants_type_only(const op_schema *schema, const slot *s);
/* Bytes of a var by its declaration; -1: not known. */
int64_t bind_nbytes(const weft_var *v);
bool bind_is_named(const weft_var *v); /* not "@EMPTY@", not a container of feeds or fetches */

#endif
