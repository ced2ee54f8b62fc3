/* integer_adaptor.h: kernels that know real numbers alone, run on integers. */
#ifndef EXECUTOR_KERNELS_INTEGER_ADAPTOR_H
#define EXECUTOR_KERNELS_INTEGER_ADAPTOR_H

#include "executor/kernel.h"

/* Whether integer.def has a row for the op, and the call has integers of one type in its slots. */
bool integer_adaptor_fits(const kernel_prepare *p);
/* Stands for the kernel of the call's op. */
extern const kernel kernel_integer_adaptor;

#endif
