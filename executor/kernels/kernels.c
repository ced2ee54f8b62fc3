/* kernels.c: the table of CPU kernels, expanded from ops/ops.def.
 *
 * A row of ops.def that names a kernel which no file defines does not link; a row that says `none` has no kernel here.
 * This folder is compiled once for each instruction set; only the table's name differs, and only it is seen. */
#include "executor/kernels/find.h"
#include "executor/kernels/half_adaptor.h"

#define OP(type, family, inputs, outputs, attrs, effects, infer, cpu, summary) extern const kernel kernel_##cpu;
#include "ops/ops.def"
#undef OP

extern const kernel kernel_none;
const kernel kernel_none = {NULL, NULL};

const kernel *const KERNEL_TABLE[] = {
#define OP(type, family, inputs, outputs, attrs, effects, infer, cpu, summary) &kernel_##cpu,
#include "ops/ops.def"
#undef OP
    &kernel_half_adaptor /* after the last row */
};
