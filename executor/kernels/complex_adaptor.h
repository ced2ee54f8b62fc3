/* complex_adaptor.h: kernels that know real numbers alone, run on the parts of complex ones. */
#ifndef EXECUTOR_KERNELS_COMPLEX_ADAPTOR_H
#define EXECUTOR_KERNELS_COMPLEX_ADAPTOR_H

#include "executor/kernel.h"

/* Whether the call has complex tensors and complex.def has a row for its op. */
bool complex_adaptor_fits(const kernel_prepare *p);
/* Stands for the kernel of the call's op. */
extern const kernel kernel_complex_adaptor;

#endif
