/* attr_memo.h: what was made of a list of attrs, for work that is the same for all ops that share it. */
#ifndef PROGRAM_ATTR_MEMO_H
#define PROGRAM_ATTR_MEMO_H

#include "program/ir.h"

enum { ATTR_MEMO_SIZE = 1024 };

typedef struct attr_memo_entry {
    const weft_attr *list; /* the list that this is about; NULL: none yet */
    size_t at, nbytes;     /* for the writer: where its bytes stand */
    weft_attr *copy;       /* for the copier */
} attr_memo_entry;

/* One entry for each low part of an address: a list whose entry was taken over is only worked on again. */
typedef struct attr_memo {
    attr_memo_entry entries[ATTR_MEMO_SIZE];
} attr_memo;

/* The entry for the list of `op`, which is about another list or none the first time; NULL if the list is the op's own.
 */
static inline attr_memo_entry *attr_memo_find(attr_memo *memo, const weft_op *op) {
    if (!op_shares_attrs(op)) return NULL;
    return &memo->entries[((uintptr_t)op->attrs >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 54];
}

#endif
