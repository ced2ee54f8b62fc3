/* rows.h: the numbers of the rows of ops.def: where other tables keep what they know of an op type. */
#ifndef OPS_ROWS_H
#define OPS_ROWS_H

enum {
#define OP(type, ...) ROW_##type,
#include "ops/ops.def"
#undef OP
    NROWS
};

#endif
