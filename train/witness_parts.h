/* witness_parts.h: what each rank of a traced graph is given of whole tensors. */
#ifndef TRAIN_WITNESS_PARTS_H
#define TRAIN_WITNESS_PARTS_H

#include "program/ir.h"
#include "weft/tensor.h"

/* Whether the programs are graphs whose inputs say by their extents alone what a rank's part of them is. */
bool witness_is_in_parts(const weft_program *const *programs, size_t nprograms, const weft_tensors *whole);
/* Adds the rank's part of each tensor: all of it where its program declares as much; else its stretch of the dimension
 * that is shorter there, behind those of the ranks before it. One program stands for all ranks. */
WEFT_MUST_USE weft_status witness_add_parts(const weft_tensors *whole, const weft_program *const *programs,
                                            size_t nprograms, size_t rank, weft_tensors *to);

#endif
