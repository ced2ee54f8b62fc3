/* normal.h: between the files that make normal forms. */
#ifndef PROOF_EQUIVALENCE_NORMAL_H
#define PROOF_EQUIVALENCE_NORMAL_H

#include "base/numbers.h"
#include "proof/equivalence/term.h"

static inline bool normal_pulls(const normal *n, int32_t dtype) {
    return dtype_is_inexact(dtype) && !(n->mode == NORMAL_REALS && dtype == WEFT_FP16);
}
static inline bool normal_is_type(const head *h, const char *type) {
    return h->kind == HEAD_OP && h->schema && strcmp(h->schema->type, type) == 0;
}
/* Where the op's own arguments' forms are. */
static inline value normal_of_arg(const normal *n, uint32_t op, size_t i) {
    value a = term_args(n->terms, op)[i];
    return n->forms[a.term]; /* terms as they are read have no factors */
}
/* *x times f, or over f; *out_good false and x as it was where that is too large to be exact. */
WEFT_MUST_USE weft_status normal_times(terms *t, value *x, const factor *f, bool divide, bool *out_good);
/* The form of output `id` of an op that multiplies or divides by a constant, or is the gradient of one; out->term
 * TERM_NONE: it is something else. */
WEFT_MUST_USE weft_status normal_product(normal *n, uint32_t id, uint32_t op, value *out);
WEFT_MUST_USE weft_status normal_product_grad(normal *n, uint32_t id, uint32_t op, value *out);
/* normal_several.c: factors of operands of products; out->term TERM_NONE: none comes out so. */
WEFT_MUST_USE weft_status normal_several(normal *n, uint32_t id, uint32_t op, value *out);
/* normal_moves.c: the form of output `id` of a transposition that moves no element; out->term TERM_NONE: it is none. */
WEFT_MUST_USE weft_status normal_turned(normal *n, uint32_t id, uint32_t op, value *out);
/* normal_op.c. Divides the `linear` ones among args (NULL: all) by the first factor among them that is not 0: that is
 * *out_common. Nothing happens where that is not exact. */
WEFT_MUST_USE weft_status normal_pull_common(terms *t, value *args, size_t nargs, const bool *linear,
                                             uint32_t *out_common);
/* An op over arguments in normal form, which lose their common factor to *out; a constant; x times a factor. */
WEFT_MUST_USE weft_status normal_op_form(normal *n, uint32_t id, value *args, size_t nargs, bool pulls, value *out);
WEFT_MUST_USE weft_status normal_fill_form(normal *n, uint32_t id, value *out);
WEFT_MUST_USE weft_status normal_multiply(terms *t, value x, uint32_t common, value *out);

#endif
