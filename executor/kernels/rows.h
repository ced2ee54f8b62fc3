/* rows.h: how kernels say that they work row by row. */
#ifndef EXECUTOR_KERNELS_ROWS_H
#define EXECUTOR_KERNELS_ROWS_H

#include "executor/kernel.h"

/* A row of a kernel that works element by element. Parts begin at a multiple of it, so that an element is always
 * computed by the same vector or scalar instructions, whatever the parts. */
enum { ROW_ELEMENTS = 64 };

/* prepare: rows of ROW_ELEMENTS elements; one row of all where they do not divide. */
void split_elements(kernel_prepare *p, void (*rows)(const kernel_call *, int64_t, int64_t), int64_t numel);
void split_rows(kernel_prepare *p, void (*rows)(const kernel_call *, int64_t, int64_t), int64_t nrows);

/* The elements of rows [first, end) of a call that split_elements split. */
typedef struct element_range {
    int64_t at, n;
} element_range;
static inline element_range elements_of(const kernel_call *c, int64_t numel, int64_t first, int64_t end) {
    int64_t each = c->split.nrows ? numel / c->split.nrows : 0;
    return (element_range){first * each, (end - first) * each};
}

#endif
