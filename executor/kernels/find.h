/* find.h: the tables of kernels, one for each instruction set that they were compiled for. */
#ifndef EXECUTOR_KERNELS_FIND_H
#define EXECUTOR_KERNELS_FIND_H

#include "executor/kernel.h"

/* The name of the table at hand; the Makefile gives one for each of KERNEL_ISAS. */
#ifndef KERNEL_TABLE
#define KERNEL_TABLE kernel_table_base
#endif

/* Kernels that stand for others, on tensors that these refuse: in the table after the rows of ops.def. */
enum { HALF_ADAPTOR, COMPLEX_ADAPTOR, COMPLEX_FUNCTION, INTEGER_ADAPTOR };

/* By row of ops.def; NULL: no kernel. */
extern const kernel *const KERNEL_TABLE[];

/* Tables that this machine can run, the slowest first; there is at least one. */
size_t kernel_tables(void);
/* "x86-64-v4", say. */
const char *kernel_table_name(size_t table);
/* kernel_find in one table. */
const kernel *kernel_find_in(size_t table, const op_schema *schema);

#endif
