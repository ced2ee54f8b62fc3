/* aten_schemas.h: what ATen ops do to the memory of their arguments, by their signatures (aten_schemas.def). */
#ifndef PROGRAM_FX_ATEN_SCHEMAS_H
#define PROGRAM_FX_ATEN_SCHEMAS_H

#include "program/ir.h"

/* Whether the op is an ATen op that writes none of its arguments and makes no view of them. Its type has no row in
 * ops.def. False of a type that is not in the table. O(rows of the table). */
bool op_is_functional(const weft_op *op);

/* The signature of a target, "(Tensor(a!) self, ...) -> Tensor(a!)"; NULL: it is not in the table. The same cost. */
const char *aten_signature(const char *target, size_t nbytes);

/* A parameter of a signature. */
typedef struct aten_parameter {
    const char *name;
    size_t name_nbytes;
    char alias; /* the letter of what it shares with results; 0: nothing */
    bool is_written;
} aten_parameter;

/* Parameters one after another: *at is the signature first, and goes on. false: there are no more. */
bool aten_next_parameter(const char **at, aten_parameter *out);
/* Whether a result of the signature shares what has this letter. */
bool aten_gives(const char *signature, char alias);

#endif
