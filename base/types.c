/* types.c: names and sizes of element types, with Paddle's numbers. */
#include "weft/types.h"
#include "base/base.h"

static const struct {
    weft_dtype dtype;
    const char *name;
    size_t nbytes;
} dtypes[] = {
    {WEFT_BOOL, "bool", 1},
    {WEFT_INT16, "int16", 2},
    {WEFT_INT32, "int32", 4},
    {WEFT_INT64, "int64", 8},
    {WEFT_FP16, "float16", 2},
    {WEFT_FP32, "float32", 4},
    {WEFT_FP64, "float64", 8},
    {WEFT_SIZE_T, "size_t", 8},
    {WEFT_UINT8, "uint8", 1},
    {WEFT_INT8, "int8", 1},
    {WEFT_BF16, "bfloat16", 2},
    {WEFT_COMPLEX64, "complex64", 8},
    {WEFT_COMPLEX128, "complex128", 16},
};
enum { NDTYPES = sizeof dtypes / sizeof dtypes[0] };

size_t weft_dtype_nbytes(weft_dtype dtype) {
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].nbytes;
    return 0;
}

const char *weft_dtype_name(weft_dtype dtype) {
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return NULL;
}

weft_dtype weft_dtype_parse(const char *s) {
    for (int i = 0; i < NDTYPES; i++)
        if (strcmp(dtypes[i].name, s) == 0) return dtypes[i].dtype;
    return WEFT_DTYPE_NONE;
}
