/* einsum.h: what an equation like "bij,bjk->bik" says, for inference, factor rule and kernel. */
#ifndef OPS_EINSUM_H
#define OPS_EINSUM_H

#include "weft/types.h"

enum { EINSUM_OPERANDS = 2, EINSUM_LABELS = 2 * WEFT_MAX_RANK };

/* The label of each dimension: a number below nlabels. */
typedef struct einsum_term {
    int ndim;
    int label[WEFT_MAX_RANK];
} einsum_term;

typedef struct einsum {
    int noperands, nlabels;
    einsum_term in[EINSUM_OPERANDS], out;
} einsum;

/* Reads an equation for operands of so many dimensions. Dimensions behind "..." have labels of their own, aligned at
 * the end. Without "->" the result has the labels that stand once, in the order of the alphabet. NULL, or what is
 * wrong. */
const char *einsum_parse(const char *equation, int noperands, const int *ndims, einsum *out);

#endif
