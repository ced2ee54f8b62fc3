/* small_program.h: programs of a few lines for tests of passes.
 *
 *     var x float32 8,4              persist, rows (SelectedRows) may follow the extents; "-" for none
 *     op matmul_v2 X=x Y=w -> Out=h | op_role=1 op_role_var=w,w@GRAD shape=[8,4] is_sparse=true
 *     block                          the lines that follow go to a new block below block 0
 *
 * Attrs: whole numbers are INT, numbers with a point FLOAT, true and false BOOLEAN, [..] LONGS, @N a BLOCK; op_role_var
 * is STRINGS. */
#ifndef TESTS_SUPPORT_SMALL_PROGRAM_H
#define TESTS_SUPPORT_SMALL_PROGRAM_H

#include "weft/program.h"

/* Aborts the test on a line that it cannot read. */
weft_program *small_program(weft_context *context, const char *const *lines, size_t nlines);
/* "matmul_v2 relu scale ..." of block `index`; the caller frees. */
char *small_program_types(const weft_program *program, size_t index);

#endif
