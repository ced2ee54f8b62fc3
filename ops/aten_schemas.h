/* aten_schemas.h: what an ATen op does to memory, by its signature (aten_schemas.def). */
#ifndef OPS_ATEN_SCHEMAS_H
#define OPS_ATEN_SCHEMAS_H

#include "program/ir.h"

/* Whether the op, of a type without a row in ops.def, is an ATen op that writes none of its arguments and makes no view
 * of them. False of a type that is not in the table. O(rows of the table). */
bool op_is_functional(const weft_op *op);

#endif
