/* kernels.c: the table of CPU kernels, expanded from kernels.def.
 *
 * A row that names a kernel which no file defines does not link; one of an op that is not in ops.def does not compile.
 * This folder is compiled once for each instruction set; only the table's name differs, and only it is seen. */
#include "executor/kernels/complex_adaptor.h"
#include "executor/kernels/complex_functions.h"
#include "executor/kernels/find.h"
#include "executor/kernels/half_adaptor.h"
#include "executor/kernels/integer_adaptor.h"
#include "ops/rows.h"

#define KERNEL(type, cpu) extern const kernel kernel_##cpu;
#include "executor/kernels/kernels.def"
#undef KERNEL

const kernel *const KERNEL_TABLE[] = {
#define KERNEL(type, cpu) [ROW_##type] = &kernel_##cpu,
#include "executor/kernels/kernels.def"
#undef KERNEL
    /* after the last row */
    [NROWS + HALF_ADAPTOR] = &kernel_half_adaptor,
    [NROWS + COMPLEX_ADAPTOR] = &kernel_complex_adaptor,
    [NROWS + COMPLEX_FUNCTION] = &kernel_complex_function,
    [NROWS + INTEGER_ADAPTOR] = &kernel_integer_adaptor,
};
