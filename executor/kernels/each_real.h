/* each_real.h: includes the file that TEMPLATE names once for float and once for double, then forgets TEMPLATE.
 *
 * A template has REAL for the type, REAL_DTYPE for its number, and NAME(x) for x_fp32 or x_fp64: its own functions and
 * those that it calls. It stands beside the .c file that includes it. No include guard: a file may have several
 * templates. */
#define REAL float
#define REAL_DTYPE WEFT_FP32
#define NAME(x) x##_fp32
#include TEMPLATE
#undef REAL
#undef REAL_DTYPE
#undef NAME
#define REAL double
#define REAL_DTYPE WEFT_FP64
#define NAME(x) x##_fp64
#include TEMPLATE
#undef REAL
#undef REAL_DTYPE
#undef NAME
#undef TEMPLATE
