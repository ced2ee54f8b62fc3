/* weft/attr.h: attrs of ops with their types, lists included. weft/program.h has the short forms for single values. */
#ifndef WEFT_ATTR_H
#define WEFT_ATTR_H

#include "weft/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers are AttrType of framework.proto. */
typedef enum weft_attr_type {
    WEFT_ATTR_INT = 0,
    WEFT_ATTR_FLOAT = 1,
    WEFT_ATTR_STRING = 2,
    WEFT_ATTR_INTS = 3,
    WEFT_ATTR_FLOATS = 4,
    WEFT_ATTR_STRINGS = 5,
    WEFT_ATTR_BOOLEAN = 6,
    WEFT_ATTR_BOOLEANS = 7,
    WEFT_ATTR_BLOCK = 8,
    WEFT_ATTR_LONG = 9,
    WEFT_ATTR_BLOCKS = 10,
    WEFT_ATTR_LONGS = 11,
    WEFT_ATTR_FLOAT64S = 12,
    WEFT_ATTR_VAR = 13,  /* the name of a var */
    WEFT_ATTR_VARS = 14, /* names of vars */
    WEFT_ATTR_FLOAT64 = 15,
    WEFT_ATTR_SCALAR = 16, /* a value with a type of its own */
    WEFT_ATTR_SCALARS = 17
} weft_attr_type;

/* Attrs in file order; NULL: there is none at that index, or of that name. Borrowed until the op's attrs change. */
size_t weft_op_nattrs(const weft_op *op);
const weft_attr *weft_op_attr_at(const weft_op *op, size_t index);
const weft_attr *weft_op_attr(const weft_op *op, const char *name);

const char *weft_attr_name(const weft_attr *attr);
weft_attr_type weft_attr_type_of(const weft_attr *attr);
size_t weft_attr_count(const weft_attr *attr); /* elements of a list; 1 for what is none */

/* One element, index 0 for what is no list. Each reads several types, and gives 0, false or NULL for all others and
 * beyond the end. The block of a BLOCK is an index for weft_program_block. */
int64_t weft_attr_int(const weft_attr *attr, size_t index);  /* INT, LONG, BLOCK, their lists; a SCALAR's integer */
double weft_attr_float(const weft_attr *attr, size_t index); /* FLOAT, FLOAT64, their lists; a SCALAR's real part */
bool weft_attr_bool(const weft_attr *attr, size_t index);    /* BOOLEAN, BOOLEANS; a SCALAR's bool */
const char *weft_attr_string(const weft_attr *attr, size_t index); /* STRING, STRINGS, VAR, VARS */

/* Sets an attr of that type, in place of one of that name whatever its type. Lists and texts are copied. */
WEFT_MUST_USE weft_status weft_op_set_attr_long(weft_op *op, const char *name, int64_t value);
WEFT_MUST_USE weft_status weft_op_set_attr_float64(weft_op *op, const char *name, double value);
WEFT_MUST_USE weft_status weft_op_set_attr_block(weft_op *op, const char *name, const weft_block *block);
WEFT_MUST_USE weft_status weft_op_set_attr_floats(weft_op *op, const char *name, size_t count, const double *values);
WEFT_MUST_USE weft_status weft_op_set_attr_float64s(weft_op *op, const char *name, size_t count, const double *values);
WEFT_MUST_USE weft_status weft_op_set_attr_bools(weft_op *op, const char *name, size_t count, const bool *values);
/* Gives `op` a copy of an attr of any type, of an op of the same program. */
WEFT_MUST_USE weft_status weft_op_copy_attr(weft_op *op, const weft_attr *attr);
WEFT_MUST_USE weft_status weft_op_remove_attr(weft_op *op, const char *name); /* no matter whether it is there */

#ifdef __cplusplus
}
#endif
#endif
