/* weft/types.h: data types, roles and reduce kinds, with Paddle's numbers (framework.proto, op_proto_maker.h). */
#ifndef WEFT_TYPES_H
#define WEFT_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Element types; the numbers are VarType.Type of framework.proto. */
typedef enum weft_dtype {
    WEFT_BOOL = 0,
    WEFT_INT16 = 1,
    WEFT_INT32 = 2,
    WEFT_INT64 = 3,
    WEFT_FP16 = 4,
    WEFT_FP32 = 5,
    WEFT_FP64 = 6,
    WEFT_SIZE_T = 19,
    WEFT_UINT8 = 20,
    WEFT_INT8 = 21,
    WEFT_BF16 = 22,
    WEFT_COMPLEX64 = 23,
    WEFT_COMPLEX128 = 24,
    WEFT_DTYPE_NONE = -1
} weft_dtype;

/* Containers that are not plain tensors; the same number space. */
typedef enum weft_var_kind {
    WEFT_DENSE_TENSOR = 7,
    WEFT_SELECTED_ROWS = 8,
    WEFT_FEED_MINIBATCH = 9,
    WEFT_FETCH_LIST = 10,
    WEFT_STEP_SCOPES = 11,
    WEFT_DENSE_TENSOR_ARRAY = 13,
    WEFT_READER = 15,
    WEFT_RAW = 17
} weft_var_kind;

/* op_role: which phase an op belongs to; or-ed. */
enum {
    WEFT_ROLE_FORWARD = 0,
    WEFT_ROLE_BACKWARD = 1,
    WEFT_ROLE_OPTIMIZE = 2,
    WEFT_ROLE_RPC = 4,
    WEFT_ROLE_DIST = 8,
    WEFT_ROLE_LR_SCHED = 16,
    WEFT_ROLE_LOSS = 256,
    WEFT_ROLE_NOT_SPECIFIED = 4096
};

/* reduce_type attributes and partial states. */
typedef enum weft_reduce {
    WEFT_REDUCE_SUM = 0,
    WEFT_REDUCE_MAX = 1,
    WEFT_REDUCE_MIN = 2,
    WEFT_REDUCE_PROD = 3,
    WEFT_REDUCE_AVG = 4,
    WEFT_REDUCE_ANY = 5,
    WEFT_REDUCE_ALL = 6
} weft_reduce;

/* Tensors have at most this many axes (as Paddle's). */
#define WEFT_MAX_RANK 9

/* Bytes of one element; 0 for an unknown type. */
size_t weft_dtype_nbytes(weft_dtype dtype);
/* "float32", "int64", ...; NULL for an unknown type. Static. */
const char *weft_dtype_name(weft_dtype dtype);
/* The type of that name; WEFT_DTYPE_NONE if there is none. */
weft_dtype weft_dtype_parse(const char *text);

#ifdef __cplusplus
}
#endif
#endif
